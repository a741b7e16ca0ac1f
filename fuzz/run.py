#!/usr/bin/env python3
"""Runs the fuzz targets until they have had a number of executions in all, or for some time each.

usage: run.py BINARIES [--executions N] [--seconds N] [--jobs N] [--found FOLDER] [--seed N] [TARGET...]

Targets take turns of a minute. With --executions they do so until all of them together have had N: a slow target has as
much time as a fast one, and fewer executions. With --seconds each has N seconds (default: 60); with both, the whole run
ends after N seconds, whatever has been done, and turns are shorter if not all would have one. Every minute a line says how
far it is, so a run that is cut off still tells.

BINARIES is the folder of the programs fuzz_TARGET. Each starts from corpus/TARGET beside this file, which is left as it
is; what it finds goes to FOLDER/TARGET (default: corpus-found), and is used again. A finding fails the run; its input
stays in FOLDER/findings. Everything a run needs is this file, the programs and the corpus.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TURN = 60  # seconds of one process at most; then the next one starts from what all have found
# Longer inputs only cost time; a sound parser needs far less memory and time than it is given here,
# and no single block above malloc_limit_mb.
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

    def run(self, number, seconds, runs):
        """One process; what it did is added up."""
        words = [os.path.join(self.options.binaries, "fuzz_" + self.name), f"-max_total_time={seconds}", f"-runs={runs}", *LIMITS,
                 f"-seed={self.options.seed * 100_000 + number + 1}", "-print_final_stats=1",
                 f"-artifact_prefix={self.options.found}/findings/{self.name}-", self.found, os.path.join(HERE, "corpus", self.name)]
        result = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        text = result.stderr.decode("utf-8", "replace")
        done = re.findall(r"^stat::number_of_executed_units: *(\d+)", text, re.M) or re.findall(r"^#(\d+)", text, re.M)
        self.done += int(done[-1]) if done else 0
        self.edges = max([self.edges, *map(int, re.findall(r" cov: (\d+) ", text))])
        if (result.returncode != 0 or not done) and not self.finding:
            self.finding = f"status {result.returncode}\n" + "\n".join(text.splitlines()[-60:])


def turns(targets, options):
    """(target, seconds, executions at most) in turn, so that all advance together."""
    if not options.executions:
        for begun in range(0, options.seconds, TURN):
            yield from ((target, min(TURN, options.seconds - begun), -1) for target in targets)
        return
    deadline = time.monotonic() + (options.seconds or 10**9)
    turn = max(1, min(TURN, (options.seconds or 10**9) * options.jobs // len(targets)))  # so that all have one
    for target in itertools.cycle(targets):
        seconds, runs = int(deadline - time.monotonic()), options.executions - sum(t.done for t in targets)
        if seconds <= 0 or runs <= 0 or all(t.finding for t in targets):
            return
        yield target, min(turn, seconds), runs


class Work:
    """Turns, taken by several threads."""

    def __init__(self, targets, options):
        self.turns = enumerate(turns(targets, options))
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.take, daemon=True) for _ in range(options.jobs)]
        for thread in self.threads:
            thread.start()

    def take(self):
        while True:
            with self.lock:
                number, turn = next(self.turns, (0, None))
            if turn is None:
                return
            target, seconds, runs = turn
            if not target.finding:
                target.run(number, seconds, runs)

    def wait(self, seconds):
        """Whether all is done, after this time at most."""
        until = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self.threads)


def parse():
    what, usage, about = re.fullmatch(r"(.*?)\n\nusage: (.*?)\n\n(.*)", __doc__, re.S).groups()
    parser = argparse.ArgumentParser(usage=usage, description=what + "\n\n" + about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--executions", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--found", default=os.path.join(HERE, "corpus-found"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_intermixed_args()
    options.found = os.path.abspath(options.found)
    if not options.executions:
        options.seconds = options.seconds or 60
    options.targets = options.targets or targets_in(options.binaries)
    missing = [name for name in options.targets if name not in targets_in(options.binaries)]
    if not options.targets or missing:
        parser.error(f"{options.binaries}: no fuzz target{''.join(' ' + name for name in missing) or 's'}")
    return options


def main():
    options, begun = parse(), time.monotonic()
    os.makedirs(os.path.join(options.found, "findings"), exist_ok=True)
    targets = [Target(name, options) for name in options.targets]

    def so_far():
        findings = sum(bool(target.finding) for target in targets)
        return f"{sum(t.done for t in targets)} executions of {len(targets)} targets, {findings} findings, in {time.monotonic() - begun:.0f} s"
    work = Work(targets, options)
    while not work.wait(60):
        print(so_far(), flush=True)
    for target in targets:
        print(f"{target.name:<16} {target.done:>10} executions  {target.edges:>6} edges  {'FINDING' if target.finding else 'no finding'}")
    for target in targets:
        if target.finding:
            print(f"\n{target.name}: {target.finding}")
    print(so_far())
    return 1 if any(target.finding for target in targets) else 0


if __name__ == "__main__":
    sys.exit(main())
