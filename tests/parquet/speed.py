#!/usr/bin/env python3
"""How fast koofu reads .parquet files as four programs write them by default, compared with .npy.

    tools/test_parquet.sh BUILD --speed [MILLIONS]    (1 by default)

Rows of 64 f32, a million in each file, with labels in a separate file. For each program, `koofu
convert`, which does little but read and write, and `koofu stats`, which computes, run on .npy and
.parquet in turn, five times. The result is the median ratio of processor time, of all threads, of
two consecutive runs. Fails below a floor, or above a gibibyte of memory.

DuckDB's large pages are unpacked into memory that the system clears first, so its floor is lower,
and a busy machine may miss it. Zstandard, the default of polars, has its own floor: libzstd unpacks
these rows at 1.4 GB/s, which alone takes as long as statistics of a .npy, and longer than
`convert`.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

KOOFU, MILLIONS = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 1
ROWS, DIM, TURNS = 1000000, 64, 5
MOST_MEMORY = 1 << 30
COMMANDS = {"convert": [], "stats": ["--labels", "labels.npy"]}


def by_pyarrow(x, path):
    pq.write_table(pa.table({"embedding": arrow(x)}), path)


def by_pandas(x, path):
    pd.DataFrame({"embedding": list(x)}).to_parquet(path)


def by_polars(x, path):
    pl.from_arrow(pa.table({"embedding": arrow(x)})).write_parquet(path)


def by_duckdb(x, path):
    connection = duckdb.connect()
    connection.register("rows", pa.table({"embedding": arrow(x)}))
    connection.sql(f"copy (select * from rows) to '{path}' (format parquet)")


def arrow(x):
    return pa.ListArray.from_arrays(pa.array(np.arange(0, x.size + 1, DIM, dtype="i4")), pa.array(x.ravel()))


# Of each program: how it writes rows, and the least ratio.
PROGRAMS = {"pyarrow": (by_pyarrow, 0.5), "pandas": (by_pandas, 0.5), "duckdb": (by_duckdb, 0.4), "polars": (by_polars, 0.25)}


def rows_of(shard):
    return np.random.default_rng(shard).standard_normal((ROWS, DIM), dtype="f4")


# A process begins with the memory of the one that starts it, which must be small.
STARTER = """
import os, sys
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
sys.exit(status != 0)
"""


def run(folder, command, files):
    """Seconds of processor time, and bytes of memory."""
    words = [KOOFU, command, *files, *COMMANDS[command], "-q", "-o", "out.safetensors"]
    said = subprocess.run([sys.executable, "-S", "-c", STARTER, *words], cwd=folder, check=True, capture_output=True, text=True)
    seconds, memory = said.stdout.split()
    return float(seconds), int(memory)


def measure(folder, program, command):
    """The median ratio with its range, and the most memory."""
    npy, parquet = ([f"{i}.{ending}" for i in range(MILLIONS)] for ending in ("npy", "parquet"))
    run(folder, command, npy)
    run(folder, command, parquet)
    turns = [(run(folder, command, npy), run(folder, command, parquet)) for _ in range(TURNS)]
    ratios = sorted(a[0] / b[0] for a, b in turns)
    seconds = [statistics.median(turn[side][0] for turn in turns) for side in (0, 1)]
    memory = max(turn[1][1] for turn in turns)
    print(f"{program:8} {command:8} {seconds[0]:8.2f} s {seconds[1]:8.2f} s {statistics.median(ratios):6.2f} "
          f"({ratios[0]:.2f}-{ratios[-1]:.2f}) {memory / 1e6:6.0f} MB", flush=True)
    return statistics.median(ratios), memory


def main():
    missed = []
    with tempfile.TemporaryDirectory(dir=pathlib.Path(sys.prefix).parent) as name:
        folder = pathlib.Path(name)
        np.save(folder / "labels.npy", np.random.default_rng(0).integers(0, 1000, MILLIONS * ROWS))
        for i in range(MILLIONS):
            np.save(folder / f"{i}.npy", rows_of(i))
        print(f"{MILLIONS} million rows of {DIM} f32, {TURNS} turns: processor time with .npy and .parquet, ratio, memory")
        for program, (write, floor) in PROGRAMS.items():
            for i in range(MILLIONS):
                write(rows_of(i), str(folder / f"{i}.parquet"))
            for command in COMMANDS:
                ratio, memory = measure(folder, program, command)
                if ratio < floor:
                    missed.append(f"{program}, {command}: {ratio:.2f} of the speed of .npy; the floor is {floor}")
                if memory > MOST_MEMORY:
                    missed.append(f"{program}, {command}: {memory} bytes of memory")
    sys.exit("\n".join(missed) or 0)


if __name__ == "__main__":
    main()
