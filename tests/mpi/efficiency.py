#!/usr/bin/env python3
"""Two ranks of one thread compared with one rank of two threads: statistics and search.

usage: efficiency.py KOOFU KOOFU-MPI FOLDER [--rows N] [--gallery N] [--repeat N] [--mpirun PROGRAM]
                     [--floor RATIO] [--by wall|cpu] [--keep]

Makes synthetic rows of 768 columns in FOLDER (2.4 GB for the default of 1,281,000 in f16 and a
gallery of 256,000), and removes them at the end unless told to --keep them. Prints medians over
interleaved runs: wall and processor seconds with their ranges, their ratios, and the volume and
share of time of the reduction, which is the extra time that 1,000 rows take on two ranks. On a busy
machine only processor time means something. --floor: status 1 if a ratio, by wall time unless --by
says otherwise, is lower. About two minutes on two quiet cores.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

DIM, CLASSES = 768, 1000


def measure(line, folder):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
                       OMPI_MCA_hwloc_base_binding_policy="none")
    begun = time.monotonic()
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(line)}: {said.decode()}")
    return {"wall": time.monotonic() - begun, "cpu": used.ru_utime + used.ru_stime}


def compare(name, options, *words):
    """One rank of two threads, two of one: medians of wall and processor time, by the number of ranks."""
    ways = {1: [], 2: []}
    for _ in range(options.repeat):
        for ranks, runs in ways.items():
            line = [options.mpirun, "-n", str(ranks), options.koofu_mpi, *words, "-q", "--threads", str(3 - ranks)]
            runs.append(measure(line, options.folder))
    medians = {}
    for kind in ("wall", "cpu"):
        taken = {ranks: sorted(run[kind] for run in runs) for ranks, runs in ways.items()}
        medians[kind] = {ranks: statistics.median(seconds) for ranks, seconds in taken.items()}
        shown = [f"{ranks} x {3 - ranks}: {medians[kind][ranks]:6.2f} s ({seconds[0]:.2f}-{seconds[-1]:.2f})"
                 for ranks, seconds in taken.items()]
        print(f"{name:<11} {kind:<5} {'   '.join(shown)}   ratio {medians[kind][1] / medians[kind][2]:.3f}", flush=True)
    return medians


def run(options):
    def make(name, *words):
        subprocess.run([options.koofu, *words, "-o", name, "-q"], cwd=options.folder, check=True)

    world = ["synth", "--classes", str(CLASSES), "--dim", str(DIM)]
    gallery = [*world, "--per-class", str(options.gallery // CLASSES), "--dtype", "f16"]
    make("small.safetensors", *world, "--per-class", "1")
    make("queries.safetensors", *world, "--per-class", "8", "--split", "1")
    make("rows.safetensors", *gallery)
    make("gallery.safetensors", "index", "rows.safetensors", "--dtype", "f16")
    os.remove(os.path.join(options.folder, "rows.safetensors"))
    make("big.safetensors", *world, "--per-class", str(options.rows // CLASSES), "--dtype", "f16")
    print(f"load average {os.getloadavg()[0]:.1f}; {options.repeat} runs of each", flush=True)
    counted = compare("statistics", options, "stats", "big.safetensors", "-o", "stats.safetensors")
    few = compare("1,000 rows", options, "stats", "small.safetensors", "-o", "stats.safetensors")
    searched = compare("search", options, "search", "gallery.safetensors", "queries.safetensors", "-k", "15", "-o", "near.safetensors")
    sums = DIM * (DIM + 1) // 2 + CLASSES * (DIM + 1)
    longer = few[options.by][2] - few[options.by][1]
    print(f"the reduction adds {sums:,} integers of 128 bits, {sums * 16 / 1e6:.1f} MB, "
          f"in {100 * longer / counted[options.by][2]:.1f} % of the time")
    missed = [name for name, medians in (("statistics", counted), ("search", searched))
              if medians[options.by][1] / medians[options.by][2] < options.floor]
    if missed:
        print(f"below {options.floor}: {', '.join(missed)}")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("koofu")
    parser.add_argument("koofu_mpi")
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1281000)
    parser.add_argument("--gallery", type=int, default=256000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--floor", type=float, default=0)
    parser.add_argument("--by", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.koofu, options.koofu_mpi = os.path.abspath(options.koofu), os.path.abspath(options.koofu_mpi)
    os.makedirs(options.folder, exist_ok=True)
    options.folder = os.path.join(options.folder, "efficiency")
    os.makedirs(options.folder, exist_ok=True)
    try:
        return run(options)
    finally:
        if not options.keep:
            shutil.rmtree(options.folder)


if __name__ == "__main__":
    sys.exit(main())
