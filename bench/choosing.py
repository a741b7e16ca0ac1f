"""What choosing costs: `koofu fit` with lambda by leave-one-out against `koofu stats`, and a sweep of twelve
numbers of dimensions against one evaluation.

usage: choosing.py KOOFU [--rows N] [--classes K] [--dim D] [--repeat R] [--threads T] [--isa NAME]

The rows are those of `koofu synth`, in f16; they are read from the page cache.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time

DIMS = [16, 32, 64, 76, 96, 128, 192, 256, 384, 512, 640, 768]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("koofu")
    parser.add_argument("--rows", type=int, default=1281000)
    parser.add_argument("--test-rows", type=int, default=50000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", default="auto")
    o = parser.parse_args()

    def run(*words):
        begun = time.perf_counter()
        result = subprocess.run([o.koofu, *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True)
        return time.perf_counter() - begun, result

    def repeat(name, *words):
        times = [run(*words, "--threads", o.threads, "--isa", o.isa)[0] for _ in range(o.repeat)]
        print(f"{name:44} {statistics.median(times):8.2f} s  ({min(times):.2f} - {max(times):.2f})", flush=True)
        return statistics.median(times)

    with tempfile.TemporaryDirectory() as folder:
        train, test, stats, model = (os.path.join(folder, name + ".safetensors") for name in ("train", "test", "s", "m"))
        world = ["synth", "--classes", o.classes, "--dim", o.dim, "--dtype", "f16", "-q"]
        run(*world, "--per-class", o.rows // o.classes, "-o", train)
        run(*world, "--per-class", o.test_rows // o.classes, "--split", 1, "-o", test)
        with open(train, "rb") as f:  # into the page cache
            while f.read(1 << 24):
                pass
        print(f"{o.rows:,} x {o.dim} rows in {o.classes:,} classes, {o.threads} threads, {o.isa}")
        alone = repeat("koofu stats", "stats", train, "-o", stats)
        auto = repeat("koofu fit, lambda by leave-one-out", "fit", train, "-o", model)
        print(f"{'ratio':44} {auto / alone:8.2f}")
        said = run("fit", train, "-o", model)[1].stderr
        print("  " + re.search(r"lambda .*leave-one-out.*", said).group(0))
        dims = [d for d in DIMS if d <= o.dim]
        swept = ["sweep", stats, "--test", test, "--lambdas", "0.3x", "--no-raw", "--dims"]
        fit = repeat("koofu fit from statistics", "fit", stats, "--lambda", "0.3x", "-o", model)
        one = repeat("sweep, one dimension", *swept, o.dim)
        many = repeat(f"sweep, {len(dims)} dimensions", *swept, ",".join(map(str, dims)))
        print(f"{'ratio':44} {many / one:8.2f}")
        print(f"{'ratio without the fit itself':44} {(many - fit) / (one - fit):8.2f}")
        print(f"{o.test_rows:,} test rows; the sweeps include the fit of their lambda")


if __name__ == "__main__":
    main()
