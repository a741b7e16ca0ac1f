#!/usr/bin/env python3
"""The two short examples do what the commands do, to the byte, in at most 25 lines each.
usage: examples.py path/to/koofu path/to/example_fit path/to/example_report"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LINES = 25


def main():
    koofu, fit, report = map(os.path.abspath, sys.argv[1:4])
    failures = []
    for name in ("fit", "report"):
        with open(os.path.join(HERE, "..", "examples", f"{name}.c"), encoding="utf-8") as file:
            n = len(file.readlines())
        if n > LINES:
            failures.append(f"examples/{name}.c has {n} lines")
    with tempfile.TemporaryDirectory(prefix="koofu-examples-") as folder:
        def run(*words):
            subprocess.run(list(map(str, words)), cwd=folder, check=True, stdout=subprocess.DEVNULL)

        def compare(what, a, b):
            with open(os.path.join(folder, a), "rb") as one, open(os.path.join(folder, b), "rb") as two:
                if one.read() != two.read():
                    failures.append(f"{what} has other bytes than the command's")

        world = ["--classes", 12, "--dim", 24]
        run(koofu, "synth", *world, "--per-class", 8, "-o", "train.safetensors", "--text", "text.safetensors", "-q")
        run(koofu, "synth", *world, "--per-class", 6, "--split", 1, "-o", "test.safetensors", "-q")
        with open(os.path.join(folder, "labels.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"c{i % 12:04d}\n" for i in range(96))
        run(koofu, "fit", "train.safetensors", "--labels", "labels.txt", "--text", "text.safetensors", "-o", "a.safetensors", "-q")
        run(fit, "train.safetensors", "labels.txt", "text.safetensors", "b.safetensors")
        compare("the model of examples/fit.c", "a.safetensors", "b.safetensors")
        run(koofu, "report", "train.safetensors", "--test", "test.safetensors", "-o", "a.html", "-q")
        run(report, "train.safetensors", "test.safetensors", "b.html")
        compare("the page of examples/report.c", "a.html", "b.html")
        wrong = subprocess.run([fit, "absent.npy", "labels.txt", "text.safetensors", "c.safetensors"], cwd=folder,
                               stderr=subprocess.PIPE, text=True, check=False)
        if wrong.returncode == 0 or "absent.npy" not in wrong.stderr:
            failures.append(f"examples/fit.c does not name a missing file: {wrong}")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main())
