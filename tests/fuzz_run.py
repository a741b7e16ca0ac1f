#!/usr/bin/env python3
"""fuzz/run.py with programs that pretend to be fuzz targets: turns, ends, totals and findings.

usage: fuzz_run.py
"""

import os
import re
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "run.py")
# Notes its arguments; does 100 executions, or what -runs leaves of them; takes the time it is given
# if asked to.
PRETENDER = """#!/bin/sh
for word in "$@"; do
  case $word in
    -max_total_time=*) seconds=${word#*=} ;;
    -runs=*) runs=${word#*=} ;;
  esac
done
echo "${0##*/} $seconds $runs" >> "${0%/*}/log"
[ ! -e "${0%/*}/slow" ] || sleep "$seconds"
[ "$runs" -ge 0 ] && [ "$runs" -le 100 ] || runs=100
echo "stat::number_of_executed_units: $runs" >&2
[ ! -e "$0.bad" ] || exit 77
"""


class Folder:
    def __init__(self, path):
        self.path = path
        for name in ("fuzz_a", "fuzz_b", "fuzz_c"):
            self.write(name, PRETENDER, 0o755)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def run(self, *words):
        """(status, executions and findings of the last line, lines of the log)"""
        self.write("log", "")
        result = subprocess.run([sys.executable, RUN, self.path, "--found", os.path.join(self.path, "found"), "--jobs", "2", *words],
                                capture_output=True, text=True, check=False)
        last = re.search(r"^(\d+) executions of \d+ targets, (\d+) findings", (result.stdout.splitlines() or [""])[-1])
        with open(os.path.join(self.path, "log"), encoding="utf-8") as file:
            return result.returncode, tuple(map(int, last.groups())) if last else result.stderr, [line.split() for line in file]


def check(holds, what):
    if not holds:
        sys.exit(f"FAIL: {what}")


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path)
        status, last, log = folder.run("--executions", "1250")
        check(status == 0 and last[0] >= 1250 and last[1] == 0, f"executions in all: {status} {last}")
        turns = [sum(name == "fuzz_" + target for name, _, _ in log) for target in "abc"]
        check(max(turns) - min(turns) <= 1 and sum(turns) >= 13, f"turns: {turns}")
        check(all(seconds == "60" for _, seconds, _ in log), "a turn is a minute")
        status, last, log = folder.run("--seconds", "130", "a", "b")
        check((status, last) == (0, (600, 0)), f"seconds each: {status} {last}")
        check([seconds for name, seconds, _ in sorted(log)] == ["10", "60", "60"] * 2, f"seconds each: {log}")
        folder.write("slow", "")
        status, last, log = folder.run("--executions", "1000000", "--seconds", "3")
        check(status == 0 and 0 < last[0] < 1000, f"ends in time: {status} {last}")
        check(all(0 < int(seconds) <= 3 for _, seconds, _ in log), f"no turn beyond the end: {log}")
        check([seconds for _, seconds, _ in log[:2]] == ["2", "2"], f"turns that are short enough for all: {log}")
        os.remove(os.path.join(path, "slow"))
        folder.write("fuzz_b.bad", "")
        status, last, log = folder.run("--executions", "600")
        check(status == 1 and last[1] == 1 and last[0] >= 600, f"a finding: {status} {last}")
        check(1 <= sum(name == "fuzz_b" for name, _, _ in log) <= 2, "a target with a finding has no more turns")
        folder.write("fuzz_a.bad", "")
        folder.write("fuzz_c.bad", "")
        status, last, log = folder.run("--executions", "1000000")
        check(status == 1 and last[1] == 3, f"nothing but findings: {status} {last}")
        check(folder.run("--executions", "10", "nothing")[0] == 2, "a target that is not there")
    print("fuzz/run.py: turns, ends, totals and findings are right")


if __name__ == "__main__":
    main()
