"""koofu's exact search against FAISS, scikit-learn and numpy, in one run on one machine.

usage: search.py [--library LIBKOOFU.so] [--koofu KOOFU] [options]

Prints Markdown: medians with the range of all runs. All programs get the same f32 rows of unit length;
the search alone is timed, and the building of the index apart. Of each peer the best of its settings
counts. Peers that are not installed are left out, and say so; numpy is all that is needed.

    search.py                   throughput for several dimensions
    search.py --latency         few queries at a time, against reading the rows once
    search.py --paper           the sizes of the paper's table of efficiency
    search.py --amx-peak        throughput, with the share of what the AMX units can do
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from common import ISAS, clock, cpu, cpu_has, summary, synth, tensors, tool
from library import ISA, Index, Koofu, load

HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN_PYTHON = "/usr/bin/python3"
DIMS = (768, 256, 128, 64, 32)
PAPER_ROWS, PAPER_QUERIES = 1281167, 50000
# Dimensions of the paper's table, and its seconds for all queries with FAISS on an H200.
PAPER = {768: 2.47, 640: 2.37, 512: 1.97, 384: 1.57, 256: 1.23, 192: 1.00, 128: 0.76, 96: 0.63, 76: 0.59,
         64: 0.55, 32: 0.45}
CHECKED = 50  # queries that are compared with float64

failures = []


# --- data -----------------------------------------------------------------------------------------


def gaussian(n, dim, seed):
    rows = np.random.default_rng(seed).standard_normal((n, dim), dtype="f4")
    for start in range(0, n, 65536):
        block = rows[start:start + 65536]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def clustered(args, work, n, dim, split):
    path = os.path.join(work, "synth.safetensors")
    synth(args.koofu, path, dim, 1000, -(-n // 1000), "--split", str(split))
    rows = np.array(tensors(path)["embeddings"][:n])
    os.remove(path)
    return rows


def make_data(args, work, n, n_queries, dim):
    """Database and queries, in memory and as files for the peers."""
    if args.data == "synth":
        base, queries = clustered(args, work, n, dim, 0), clustered(args, work, n_queries, dim, 1)
    else:
        base, queries = gaussian(n, dim, 1), gaussian(n_queries, dim, 2)
    np.save(os.path.join(work, "base.npy"), base)
    np.save(os.path.join(work, "queries.npy"), queries)
    return base, queries


def unit(rows):
    wide = rows.astype("f8")
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def exact_scores(base, queries, metric):
    """In float64, of the rows as given; greater is nearer."""
    rescale = unit if metric == "cosine" else np.asarray
    q = rescale(queries).astype("f8")
    scores = np.empty((len(q), len(base)))
    for start in range(0, len(base), 16384):
        b = rescale(base[start:start + 16384]).astype("f8")
        scores[:, start:start + 16384] = q @ b.T
        if metric == "euclidean":
            scores[:, start:start + 16384] -= (b * b).sum(1) / 2
    return scores


def check(what, base, queries, found, metric):
    """koofu's neighbours must be those of float64, where that can tell scores apart."""
    some = np.linspace(0, len(queries) - 1, min(CHECKED, len(queries))).astype(int)
    scores = exact_scores(base, queries[some], metric)
    k = found.shape[1]
    wrong = 0
    for row, ours in zip(scores, found[some]):
        best = np.argpartition(-row, k - 1)[:k]
        best = best[np.lexsort((best, -row[best]))]
        wrong += len(set(ours)) < k or bool(np.abs(row[ours] - row[best]).max() > 1e-13)
    if wrong:
        failures.append(f"{what}: {wrong} of {len(some)} lists of neighbours are not those of float64")
    return f"{wrong} of {len(some)}"


def differing(found, exact):
    order = (found != exact).any(axis=1).sum()
    members = (np.sort(found, axis=1) != np.sort(exact, axis=1)).any(axis=1).sum()
    return f"{order:,} of {len(exact):,} ({members:,} in members)"


# --- peers ----------------------------------------------------------------------------------------


class Peer:
    """A program with an environment. `level`: the instruction sets that it is held to."""

    def __init__(self, name, level, python=sys.executable, **environment):
        self.name, self.level, self.python, self.environment = name, level, python, environment
        self.missing = False

    def ask(self, args, work, **request):
        """The answer of search_peer.py; None where the peer is not there."""
        if self.missing:
            return None
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("OPENBLAS_", "OMP_", "MKL_", "FAISS_", "PYTHON")) and k != "LD_PRELOAD"}
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[name] = str(args.threads)
        environment.update(self.environment, PYTHONDONTWRITEBYTECODE="1")
        request.update(k=args.k, threads=args.threads, repeat=args.peers, patience=args.patience)
        run = subprocess.run([self.python, os.path.join(HERE, "search_peer.py"), self.name, work, json.dumps(request)],
                             env=environment, stdout=subprocess.PIPE, universal_newlines=True)
        if run.returncode != 0:
            self.missing = True
            why = run.stdout.strip() if run.returncode == 77 else f"it failed with {run.returncode}"
            source = "Debian" if self.debian() else "this Python"
            print(f"({self.name} of {source}, {self.level}, is left out: {why})\n", flush=True)
            return None
        return json.loads(run.stdout.splitlines()[-1])

    def debian(self):
        return self.python != sys.executable

    def label(self, answer):
        source = ", Debian's" if self.debian() else ""
        kind = {"faiss-ip": " IndexFlatIP", "faiss-l2": " IndexFlatL2", "numpy": " product and argpartition"}.get(
            self.name, f" {self.name.partition('-')[2]}")
        return f"{answer['version']}{kind}{source}; {answer['blas']}"


def mkl():
    """What makes FAISS use MKL instead of the BLAS of its wheel, if MKL is in the virtual environment."""
    folder = os.path.join(sys.prefix, "lib")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = sorted(n for n in names if n.startswith("libmkl_rt.so"))
    return {"LD_PRELOAD": f"{folder}/libiomp5.so {folder}/{found[-1]}"} if found and "libiomp5.so" in names else None


def faiss_peers(metric, with_debian=True):
    """FAISS with each BLAS, held to AVX2 and with all that the machine has. OpenBLAS is told its kernels:
    the one in the wheel is of 2021 and takes new CPUs for old ones. FAISS itself listens to
    FAISS_SIMD_LEVEL, in older versions to FAISS_OPT_LEVEL, and takes the best without them."""
    name = {"cosine": "faiss-ip", "euclidean": "faiss-l2"}[metric]
    avx2 = {"FAISS_SIMD_LEVEL": "AVX2", "FAISS_OPT_LEVEL": "AVX2"}
    levels = [("avx2", {"OPENBLAS_CORETYPE": "HASWELL", "MKL_ENABLE_INSTRUCTIONS": "AVX2", **avx2})]
    if cpu_has("avx512bw"):
        levels.append(("avx512", {"OPENBLAS_CORETYPE": "SKYLAKEX"}))
    sources = [(sys.executable, {})]
    if mkl():
        sources.append((sys.executable, mkl()))
    if with_debian and os.path.exists(DEBIAN_PYTHON) and sys.executable != DEBIAN_PYTHON:
        sources.append((DEBIAN_PYTHON, {}))
    return [Peer(name, level, python, **environment, **preload)
            for python, preload in sources for level, environment in levels]


def other_peers(metrics, args):
    core = {"OPENBLAS_CORETYPE": "SKYLAKEX"} if cpu_has("avx512bw") else {"OPENBLAS_CORETYPE": "HASWELL"}
    peers = {metric: [] if args.faiss_only else [Peer(f"sklearn-{metric}", "all", **core)] for metric in metrics}
    if not args.faiss_only and "cosine" in peers:
        peers["cosine"].append(Peer("numpy", "all", **core))
    return peers


def fastest(answers, isa):
    """The least median of FAISS: of those held to AVX2, where koofu is."""
    medians = [statistics.median(a["seconds"]) for peer, a in answers
               if "faiss" in peer.name and (isa != "avx2" or peer.level == "avx2")]
    return min(medians) if medians else None


def times(base, seconds):
    if not base:
        return "–"
    return f"{base / seconds:.1f} times faster" if base >= seconds else f"{seconds / base:.1f} times slower"


# --- tools in C -----------------------------------------------------------------------------------


def amx_peak(args, work):
    """GOP/s of int8 products with the threads of this run; prints what was measured."""
    binary = tool(args.amx_peak, work, "amx_peak", "-O2", "-mamx-tile", "-mamx-int8", "-mamx-bf16")
    if not binary:
        return None
    counts = sorted({1, 2, args.threads})
    run = subprocess.run([binary, *map(str, counts)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         universal_newlines=True)
    if run.returncode != 0:
        print(f"(no peak of AMX: {run.stdout.strip()})\n")
        return None
    peaks = {(kind, int(n)): float(rate) for kind, n, rate in (line.split() for line in run.stdout.splitlines())}
    print("### What the AMX units can do, operands in registers\n\n| threads | int8 | bf16 |\n| --- | --- | --- |")
    for n in counts:
        print(f"| {n} | {peaks['int8', n]:,.0f} GOP/s | {peaks['bf16', n]:,.0f} GOP/s |")
    print(flush=True)
    return peaks["int8", args.threads]


# --- throughput -----------------------------------------------------------------------------------


class Ours:
    """koofu with one instruction set and metric: its index, times and answers."""

    def __init__(self, args, isa, base, metric):
        self.isa = isa
        self.build, self.index = clock(lambda: Index(Koofu(args.lib, args.threads, isa), base, metric))
        self.seconds = []

    def run(self, queries, k, repeat, patience):
        for _ in range(repeat):
            if self.seconds and self.seconds[0] > patience:
                break
            spent, (self.found, self.candidates) = clock(lambda: self.index.search(queries, k))
            self.seconds.append(spent)


def run_peers(args, work, peers, exact):
    answers = []
    for peer in peers:
        answer = peer.ask(args, work)
        if answer:
            answer["differing"] = differing(np.load(os.path.join(work, "neighbours.npy")), exact)
            answers.append((peer, answer))
    return answers


def throughput_table(args, work, base, queries, metric, peers, peak):
    ours = [Ours(args, isa, base, metric) for isa in args.isas]
    for o in ours:
        o.run(queries, args.k, (args.repeat + 1) // 2, args.patience)
    # For peers the rows are taken as they are, without koofu's scaling to unit length.
    exact = ours[0].found
    if metric == "cosine":
        exact, _ = Index(ours[0].index.koofu, base, "inner").search(queries, args.k)
        check(f"{ours[0].isa}, inner, d = {base.shape[1]}", base, queries, exact, "inner")
    answers = run_peers(args, work, peers, exact)
    for o in ours:
        o.run(queries, args.k, args.repeat // 2, args.patience)
    work_done = 2e-9 * base.shape[0] * base.shape[1] * len(queries)
    print(f"### {metric}, d = {base.shape[1]}: {len(base):,} rows, {len(queries):,} queries, k = {args.k}, "
          f"{args.threads} threads, {args.data} rows\n\n"
          "| program | time | GFLOP/s | against the best FAISS | candidates a query | lists that are not exact |\n"
          "| --- | --- | --: | --- | --: | --- |")
    for o in ours:
        median = statistics.median(o.seconds)
        verdict = check(f"{o.isa}, {metric}, d = {base.shape[1]}", base, queries, o.found, metric)
        print(f"| koofu, {o.isa} | {summary(o.seconds)} | {work_done / median:,.0f} | "
              f"{times(fastest(answers, o.isa), median)} | {o.candidates / len(queries):,.1f} | {verdict} |")
    for peer, a in answers:
        median = statistics.median(a["seconds"])
        print(f"| {peer.label(a)}; {a['setting']} | {summary(a['seconds'])} | {work_done / median:,.0f} | – | – | "
              f"{a['differing']} |")
    builds = ", ".join(f"{o.build:.3f} s ({o.isa})" for o in ours)
    print(f"\nkoofu's index was built in {builds}; it holds {ours[0].index.bytes() / 1e6:,.0f} MB.")
    if args.verbose:
        for peer, a in answers:
            print(f"\n{peer.label(a)}: " + ", ".join(f"{name} {s:.3f} s" for name, s in a["all"].items()))
    if peak and ours[0].isa == "amx":
        rate = work_done / statistics.median(ours[0].seconds)
        print(f"\nkoofu with AMX does {rate:,.0f} GOP/s, {100 * rate / peak:.0f} % of the peak of int8.")
    print(flush=True)


def throughput(args, work):
    n, n_queries = args.rows or 200000, args.queries or 4000
    if args.quick:
        n, n_queries = n // 10, n_queries // 10
    peak = amx_peak(args, work) if args.amx_peak is not None else None
    peers = other_peers(args.metrics, args)
    for metric in args.metrics:
        peers[metric][:0] = faiss_peers(metric)
    for dim in args.dims or DIMS:
        base, queries = make_data(args, work, n, n_queries, dim)
        for metric in args.metrics:
            throughput_table(args, work, base, queries, metric, peers[metric], peak)
            gc.collect()


# --- latency --------------------------------------------------------------------------------------


def spread(seconds):
    low, middle, high = np.percentile(seconds, (10, 50, 90)) * 1e3
    return f"{middle:.2f} ms ({low:.2f} – {high:.2f}, {len(seconds)} calls)"


def read_once(args, work, n_bytes):
    binary = tool(args.read_memory, work, "read_memory", "-O3", "-march=native")
    if not binary:
        return None
    run = subprocess.run([binary, str(n_bytes), str(args.threads)], check=True, stdout=subprocess.PIPE,
                         universal_newlines=True)
    seconds, rate = map(float, run.stdout.split())
    print(f"Reading {n_bytes / 1e6:,.0f} MB once with {args.threads} threads: {seconds * 1e3:.2f} ms, {rate:.1f} GB/s "
          "(read_memory, best of 20).\n")
    return seconds


def koofu_latency(args, index, queries, batch):
    """Different queries from call to call. Two calls are not counted."""
    seconds = []
    while len(seconds) < args.calls + 2 and (sum(seconds) < args.patience or len(seconds) < 3):
        start = len(seconds) * batch % (len(queries) - batch + 1)
        seconds.append(clock(lambda: index.search(queries[start:start + batch], args.k))[0])
    return seconds[2:]


def latency(args, work):
    n, dim, batches = args.rows or 1000000, (args.dims or (256,))[0], (1, 4, 16)
    if args.quick:
        n //= 100
    base, queries = make_data(args, work, n, 1000, dim)
    floor = read_once(args, work, n * dim)
    faiss = [(peer, a) for peer in faiss_peers("cosine")
             for a in [peer.ask(args, work, batches=batches, calls=args.calls)] if a]
    print(f"### Latency: {n:,} × {dim}, k = {args.k}, {args.threads} threads, {args.data} rows\n\n"
          "| queries | program | median (10 % – 90 %) | reading the 8-bit rows once = 1 | against the best FAISS |\n"
          "| --- | --- | --- | --: | --- |")
    rows = {batch: [] for batch in batches}
    for isa in args.isas:
        index = Index(Koofu(args.lib, args.threads, isa), base, "cosine")
        for batch in batches:
            rows[batch].append((isa, koofu_latency(args, index, queries, batch)))
        del index
    for batch in batches:
        answers = [(peer, {**a, **a["batches"][str(batch)]}) for peer, a in faiss]
        for isa, seconds in rows[batch]:
            median = statistics.median(seconds)
            print(f"| {batch} | koofu, {isa} | {spread(seconds)} | {f'{median / floor:.2f}' if floor else '–'} | "
                  f"{times(fastest(answers, isa), median)} |")
        for peer, a in answers:
            print(f"| {batch} | {peer.label(a)}; {a['setting']} | {spread(a['seconds'])} | – | – |")
    print(flush=True)


# --- the paper's table ----------------------------------------------------------------------------


def paper(args, work):
    n, n_queries = args.rows or PAPER_ROWS, args.queries or 1000
    if args.quick:
        n, n_queries = n // 100, n_queries // 10
    isa, scale, mb = args.isas[0], PAPER_QUERIES / n_queries, 1 << 20
    head = (f"### The paper's table of efficiency on the CPU: {n:,} rows, k = {args.k}, {args.threads} threads, "
            f"{args.data} rows\n\nMeasured with {n_queries:,} queries; times are scaled to {PAPER_QUERIES:,}. MB are "
            "2^20 bytes, as in the paper. FAISS is IndexFlatIP in its best setting.\n\n"
            f"| dimensions | koofu, {isa} | FAISS | ratio | paper, H200 | koofu: memory | with the rows in place | "
            "FAISS: memory |\n| --: | --: | --: | --: | --: | --: | --: | --: |\n")
    peers, details = faiss_peers("cosine", with_debian=False), []
    for dim in args.dims or PAPER:
        base, queries = make_data(args, work, n, n_queries, dim)
        koofu = Koofu(args.lib, args.threads, isa)
        in_place = Index(koofu, base, "cosine", True).bytes()
        gc.collect()
        ours = Ours(args, isa, base, "cosine")
        ours.run(queries, args.k, args.repeat, args.patience)
        verdict = check(f"{isa}, cosine, d = {dim}", base, queries, ours.found, "cosine")
        size, built, candidates = ours.index.bytes(), ours.build, ours.candidates / n_queries
        exact, median = ours.found, statistics.median(ours.seconds)
        del ours, base
        gc.collect()
        answers = run_peers(args, work, [p for p in peers if isa != "avx2" or p.level == "avx2"], exact)
        theirs = fastest(answers, isa)
        print("" if details else head, end="")  # after what the first run has to say about peers
        print(f"| {dim} | {median * scale:,.1f} s | {f'{theirs * scale:,.1f} s' if theirs else '–'} | "
              f"{f'{theirs / median:.1f}' if theirs else '–'} | "
              f"{f'{PAPER[dim]:.2f} s' if dim in PAPER else '–'} | {size / mb:,.1f} MB | {in_place / mb:,.1f} MB | "
              f"{n * dim * 4 / mb:,.1f} MB |", flush=True)
        best = min(answers, key=lambda pair: statistics.median(pair[1]["seconds"]), default=None)
        details.append(f"- {dim}: {median:.3f} s, index built in {built:.2f} s, {candidates:,.1f} candidates a query, "
                       f"{verdict} lists not those of float64" +
                       (f"; FAISS {theirs:.3f} s with {best[0].label(best[1])}; {best[1]['setting']}" if best else ""))
    print("\nAs measured:\n\n" + "\n".join(details) + "\n")


# --- what was asked for ---------------------------------------------------------------------------


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libkoofu.so")
    p.add_argument("--koofu", default="build/koofu", help="the command line, for --data synth")
    p.add_argument("--work", help="folder for temporary files")
    p.add_argument("--latency", action="store_true")
    p.add_argument("--paper", action="store_true")
    p.add_argument("--amx-peak", nargs="?", const="", metavar="BINARY",
                   help="amx_peak.c built elsewhere; else it is built")
    p.add_argument("--read-memory", metavar="BINARY", help="read_memory.c built elsewhere; else it is built")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=5, help="runs of koofu")
    p.add_argument("--peers", type=int, default=3, help="runs of the peers")
    p.add_argument("--patience", type=float, default=20, help="a peer that takes more seconds is not run again, nor in more than two settings")
    p.add_argument("--calls", type=int, default=200, help="calls for a latency")
    p.add_argument("--rows", type=int)
    p.add_argument("--queries", type=int)
    p.add_argument("--dims", type=lambda text: [int(t) for t in text.split(",")])
    p.add_argument("--k", type=int, default=15)
    p.add_argument("--data", choices=("gaussian", "synth"), default="gaussian")
    p.add_argument("--metric", choices=("cosine", "euclidean", "both"), default="both")
    p.add_argument("--isa", help="these instruction sets alone, such as avx512,avx2")
    p.add_argument("--plain", action="store_true", help="the plain kernels, too")
    p.add_argument("--quick", action="store_true", help="a hundredth of the work")
    p.add_argument("--faiss-only", action="store_true", help="no other peers")
    p.add_argument("--verbose", action="store_true", help="the times of all settings of the peers")
    return p.parse_args()


def main():
    args = arguments()
    args.lib = load(os.path.abspath(args.library))
    args.isas = [isa for isa in (args.isa.split(",") if args.isa else ISAS)
                 if args.lib.kf_isa_available(ISA[isa]) and (isa != "plain" or args.plain or args.isa)]
    args.metrics = ("cosine", "euclidean") if args.metric == "both" else (args.metric,)
    load_now = os.getloadavg()[0]
    print(f"Machine: {cpu()}; koofu {args.lib.kf_version().decode()}; numpy {np.__version__}; load average at the "
          f"start {load_now:.2f}{' (NOT QUIET: do not use these numbers)' if load_now > 0.5 else ''}\n", flush=True)
    work = tempfile.mkdtemp(dir=args.work)
    try:
        if args.latency:
            latency(args, work)
        if args.paper:
            paper(args, work)
        if not args.latency and not args.paper:
            throughput(args, work)
    finally:
        shutil.rmtree(work)
    print(f"Load average at the end: {os.getloadavg()[0]:.2f}; {args.threads} are this benchmark's.")
    for line in failures:
        print(f"WRONG: {line}")
    return 1 if failures else 0


sys.exit(main())
