#!/usr/bin/env python3
"""Lists what the last run of ctest skipped: one line for each reason.

usage: skipped.py BUILD

ctest itself names only tests that were skipped as a whole, not the cases of one.
"""

import collections
import os
import re
import sys


def reasons(output):
    """{reason: cases} of one test: notes of tests/test.h and tests/cli, or else cases of cmocka without a note."""
    notes = re.findall(r"^(?:skipped|left out): (.+)$", output, re.M)
    notes += [f"{name}: {why}" for name, why in re.findall(r"^skipped (\S+): (.+)$", output, re.M)]
    cases = re.findall(r"^\[  SKIPPED \] (?!\d+ test)(.+)$", output, re.M)
    return collections.Counter(notes or dict.fromkeys(cases, 1))


def main(build):
    log = os.path.join(build, "Testing", "Temporary", "LastTest.log")
    with open(log, encoding="utf-8", errors="replace") as file:
        tests = re.findall(r"^\d+/\d+ Testing: (\S+)\n(.*?)^<end of output>", file.read(), re.M | re.S)
    skipped = collections.defaultdict(list)
    for name, output in sorted(tests):
        for reason, n in reasons(output).items():
            skipped[reason].append(f"{name} ({n} cases)" if n > 1 else name)
    if skipped:
        print("Skipped on this machine:", *(f"  {reason}: {', '.join(names)}" for reason, names in skipped.items()), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
