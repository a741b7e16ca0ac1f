"""koofu against scikit-learn, in one run on one machine.

usage: bench.py KOOFU [--work FOLDER] [--threads N] [--repeat N] [--peers N] [--rows N] [--quick]

Prints Markdown: medians with the range of all runs, and ratios of medians. Everything is read from
the page cache (each file is read once before it is timed).
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from common import ISAS, cpu, summary, synth, tensors, timed

DIM, CLASSES = 768, 1000


def available(koofu):
    """The instruction sets that this machine has, by asking for each."""
    def works(isa):
        return subprocess.run([koofu, "demo", "--isa", isa, "--classes", "3", "--dim", "8", "--per-class", "3",
                               "--test-per-class", "1", "-q"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return [isa for isa in ISAS if works(isa)]


def sklearn_fit(x, y):
    """From the .npy to a fitted model, as one would do it with scikit-learn."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    start = time.perf_counter()
    rows, labels = np.load(x), np.load(y)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(rows, labels)
    return time.perf_counter() - start


def read_once(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def bench_fit(args, work, isas):
    data, x, y, model = (os.path.join(work, n) for n in ("d.safetensors", "x.npy", "y.npy", "m.safetensors"))
    per_class = 10 if args.quick else 100
    synth(args.koofu, data, DIM, CLASSES, per_class)
    rows = tensors(data)
    np.save(x, rows["embeddings"])
    np.save(y, rows["labels"])
    os.remove(data)
    read_once(x)
    runs = {isa: [] for isa in isas if isa != "plain"}
    peer = []
    for round_ in range(max(args.repeat, args.peers)):  # interleaved, so that noise meets all alike
        for isa in runs:
            if round_ < args.repeat:
                runs[isa].append(timed([args.koofu, "fit", x, "--labels", y, "--method", "paper", "--lambda", "0.3x", "-q", "-o", model, "--isa", isa,
                                        "--threads", str(args.threads)]))
        if round_ < args.peers:
            try:
                peer.append(sklearn_fit(x, y))
            except ImportError as missing:
                print(f"(no peer: {missing})\n")
                args.peers = 0
    print(f"### From .npy to model: {per_class * CLASSES:,} × {DIM} f32, {CLASSES:,} classes, "
          f"{args.threads} threads\n\n| program | time | ratio |\n| --- | --- | --- |")
    base = statistics.median(peer) if peer else None
    if peer:
        print(f"| scikit-learn LDA, solver 'eigen', shrinkage 0.1 | {summary(peer)} | 1 |")
    for isa, seconds in runs.items():
        ratio = f"{base / statistics.median(seconds):.0f} times faster" if peer else "–"
        print(f"| koofu fit, {isa} | {summary(seconds)} | {ratio} |")
    print(flush=True)
    targets = {"amx": 30, "avx2": 10}
    return [f"fit with {isa} is {base / statistics.median(runs[isa]):.1f} times faster, not {want}"
            for isa, want in targets.items()
            if peer and not args.quick and isa in runs and base / statistics.median(runs[isa]) < want]


def bench_stats(args, work, isas):
    data, out = os.path.join(work, "big.safetensors"), os.path.join(work, "s.safetensors")
    per_class = max(1, args.rows // CLASSES)
    rows = per_class * CLASSES
    synth(args.koofu, data, DIM, CLASSES, per_class, "--dtype", "f16")
    read_once(data)
    print(f"### Statistics: {rows:,} × {DIM} f16, {CLASSES:,} classes, {args.threads} threads\n\n"
          "| instruction set | time | rows/s |\n| --- | --- | --- |")
    missed = []
    for isa in isas:
        if isa == "plain":
            continue
        seconds = [timed([args.koofu, "stats", data, "-q", "-o", out, "--isa", isa, "--threads",
                          str(args.threads)]) for _ in range(args.repeat)]
        rate = rows / statistics.median(seconds)
        print(f"| {isa} | {summary(seconds)} | {rate:,.0f} |", flush=True)
        if isa == "amx" and not args.quick and rate < 300000:
            missed.append(f"stats with amx reads {rate:,.0f} rows/s, not 300,000")
    print()
    return missed


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("koofu")
    p.add_argument("--work", help="folder for temporary files")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=5, help="runs of koofu")
    p.add_argument("--peers", type=int, default=2, help="runs of the peer")
    p.add_argument("--rows", type=int, default=1281000, help="rows for the statistics")
    p.add_argument("--quick", action="store_true", help="a tenth of the rows for the fit; no targets")
    args = p.parse_args()
    work = tempfile.mkdtemp(dir=args.work)
    try:
        isas = available(args.koofu)
        print(f"Machine: {cpu()}; numpy {np.__version__}; OPENBLAS_CORETYPE="
              f"{os.environ.get('OPENBLAS_CORETYPE', '(unset)')}\n")
        missed = bench_fit(args, work, isas) + bench_stats(args, work, isas)
    finally:
        shutil.rmtree(work)
    for line in missed:
        print(f"TARGET MISSED: {line}")
    return 1 if missed else 0


sys.exit(main())
