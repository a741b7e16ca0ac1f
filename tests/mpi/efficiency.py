#!/usr/bin/env python3
"""Two ranks of one thread beside one rank of two threads: statistics and search.

usage: efficiency.py KOOFU KOOFU-MPI FOLDER [--rows N] [--gallery N] [--repeat N] [--mpirun PROGRAM]

Makes synthetic rows of 768 columns in FOLDER, if they are not there yet (4 GB for the default of 1,281,000 in f16 and a
gallery of 256,000), and prints medians over interleaved runs: seconds of wall time and of processors, and the ratio. On a
busy machine only those of processors mean something. The reduction alone is that of 1,000 rows, less the time of one rank.
"""

import argparse
import os
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
    return time.monotonic() - begun, used.ru_utime + used.ru_stime


def compare(name, options, *words):
    """One rank of two threads, two of one: medians."""
    ways = {}
    for _ in range(options.repeat):
        for ranks in (1, 2):
            line = [options.mpirun, "-n", str(ranks), options.koofu_mpi, *words, "-q", "--threads", str(3 - ranks)]
            ways.setdefault(ranks, []).append(measure(line, options.folder))
    wall = {ranks: statistics.median(run[0] for run in ways[ranks]) for ranks in ways}
    cpu = {ranks: statistics.median(run[1] for run in ways[ranks]) for ranks in ways}
    spread = {ranks: f"{min(run[1] for run in ways[ranks]):.2f}-{max(run[1] for run in ways[ranks]):.2f}" for ranks in ways}
    print(f"{name:<12} 1 x 2: {wall[1]:7.2f} s wall, {cpu[1]:7.2f} s cpu ({spread[1]})   "
          f"2 x 1: {wall[2]:7.2f} s wall, {cpu[2]:7.2f} s cpu ({spread[2]})   "
          f"ratio {wall[1] / wall[2]:.2f} by wall, {cpu[1] / cpu[2]:.2f} by cpu", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("koofu")
    parser.add_argument("koofu_mpi")
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1281000)
    parser.add_argument("--gallery", type=int, default=256000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--mpirun", default="mpirun")
    options = parser.parse_args()
    options.koofu, options.koofu_mpi = os.path.abspath(options.koofu), os.path.abspath(options.koofu_mpi)
    os.makedirs(options.folder, exist_ok=True)

    def make(name, *words):
        if not os.path.exists(os.path.join(options.folder, name)):
            subprocess.run([options.koofu, *words, "-o", name, "-q"], cwd=options.folder, check=True)

    world = ["synth", "--classes", str(CLASSES), "--dim", str(DIM)]
    make("big.safetensors", *world, "--per-class", str(options.rows // CLASSES), "--dtype", "f16")
    make("small.safetensors", *world, "--per-class", "1")
    make("rows.safetensors", *world, "--per-class", str(options.gallery // CLASSES), "--dtype", "f16")
    make("queries.safetensors", *world, "--per-class", "8", "--split", "1")
    make("gallery.safetensors", "index", "rows.safetensors", "--dtype", "f16")
    compare("statistics", options, "stats", "big.safetensors", "-o", "stats.safetensors")
    compare("reduction", options, "stats", "small.safetensors", "-o", "stats.safetensors")
    compare("load", options, "search", "gallery.safetensors", "small.safetensors", "-k", "1", "-o", "near.safetensors")
    compare("search", options, "search", "gallery.safetensors", "queries.safetensors", "-k", "15", "-o", "near.safetensors")
    sums = DIM * (DIM + 1) // 2 + CLASSES * (DIM + 1)
    print(f"the reduction adds {sums:,} integers of 128 bits, {sums * 16 / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
