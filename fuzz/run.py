#!/usr/bin/env python3
"""Runs the fuzz targets until they have had a number of executions in all, or for some time each. With both, the time
ends the whole run: nothing begins after it.

usage: run.py BINARIES [--executions N] [--seconds N] [--jobs N] [--found FOLDER] [--seed N] [TARGET...]

BINARIES is the folder of the programs fuzz_TARGET. Each starts from corpus/TARGET beside this file, which is left as it
is; what it finds goes to FOLDER/TARGET (default: corpus-found), and is used again. A finding fails the run; its input
stays in FOLDER/findings. Everything a run needs is this file, the programs and the corpus.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORTION = 50_000  # executions of one process; then the next one starts from what all have found
# Longer inputs only cost time; a sound parser needs far less memory and time than it is given here, and no single block
# above malloc_limit_mb.
LIMITS = ["-max_len=70000", "-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=256"]


def targets_in(folder):
    return sorted(name.removeprefix("fuzz_") for name in os.listdir(folder)
                  if name.startswith("fuzz_") and os.access(os.path.join(folder, name), os.X_OK) and "." not in name)


class Target:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.done = self.edges = 0
        self.finding = ""
        self.found = os.path.join(options.found, name)
        os.makedirs(self.found, exist_ok=True)

    def run(self, portion, number):
        """One process; what it did is added up."""
        much = [f"-runs={portion}"] if portion else [f"-max_total_time={self.options.seconds}"]
        words = [os.path.join(self.options.binaries, "fuzz_" + self.name), *much, *LIMITS, f"-seed={self.options.seed * 100_000 + number + 1}",
                 "-print_final_stats=1", f"-artifact_prefix={self.options.found}/findings/{self.name}-", self.found,
                 os.path.join(HERE, "corpus", self.name)]
        result = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        text = result.stderr.decode("utf-8", "replace")
        runs = re.findall(r"^stat::number_of_executed_units: *(\d+)", text, re.M) or re.findall(r"^#(\d+)", text, re.M)
        self.done += int(runs[-1]) if runs else 0
        self.edges = max([self.edges, *map(int, re.findall(r" cov: (\d+) ", text))])
        if result.returncode != 0 and not self.finding:
            self.finding = f"status {result.returncode}\n" + "\n".join(text.splitlines()[-60:])


def plan(targets, options):
    """(target, executions) in turn, so that all advance together."""
    if not options.executions:
        return [(target, 0) for target in targets]
    each = -(-options.executions // len(targets))
    portions = [min(PORTION, each - begun) for begun in range(0, each, PORTION)]
    return [(target, portion) for portion in portions for target in targets]


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("binaries")
    parser.add_argument("--executions", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--found", default=os.path.join(HERE, "corpus-found"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    options.found = os.path.abspath(options.found)
    options.deadline = time.monotonic() + (options.seconds if options.executions and options.seconds else 10**9)
    options.seconds = options.seconds or 60
    options.targets = options.targets or targets_in(options.binaries)
    if not options.targets:
        parser.error(f"{options.binaries}: no fuzz targets")
    return options


def main():
    options, begun = parse(), time.monotonic()
    os.makedirs(os.path.join(options.found, "findings"), exist_ok=True)
    targets = [Target(name, options) for name in options.targets]

    def step(number, target, portion):
        if not target.finding and time.monotonic() < options.deadline:
            target.run(portion, number)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda item: step(item[0], *item[1]), enumerate(plan(targets, options))))
    for target in targets:
        print(f"{target.name:<16} {target.done:>10} executions  {target.edges:>6} edges  {'FINDING' if target.finding else 'no finding'}")
    for target in targets:
        if target.finding:
            print(f"\n{target.name}: {target.finding}")
    findings = sum(bool(target.finding) for target in targets)
    print(f"{sum(t.done for t in targets)} executions of {len(targets)} targets, {findings} findings, in {time.monotonic() - begun:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
