#!/usr/bin/env python3
"""Sessions with the command line.

usage: run.py path/to/koofu [test_FILE.py ...] [part of a test's name ...] [-part of a test's name ...]

Without files: those of all tests/cli/test_*.py. Without names: every test in them; those after a dash are left out.
Status 77: all were skipped. KOOFU_SLOWNESS=20 in the environment: the program takes that many times as long as usual.
"""

import importlib
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

import harness


def main(words):
    if not words or not os.access(words[0], os.X_OK):
        sys.exit(__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    known = sorted(name for name in os.listdir(here) if name.startswith("test_") and name.endswith(".py"))
    files = [word for word in words[1:] if word.endswith(".py")]
    for file in files:
        if file not in known:
            sys.exit(f"run.py: no {file} in {here}")
    for file in files or known:
        importlib.import_module(file[:-3])
    return harness.run_all(os.path.abspath(words[0]), [word for word in words[1:] if word not in files])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
