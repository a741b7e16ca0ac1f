#!/usr/bin/env python3
"""Sessions with the command line.

usage: run.py path/to/koofu [test_FILE.py ...] [part of a test's name ...] [-part of a test's name ...]

Without files: those of all tests/cli/test_*.py. Without names: every test in them; those after a dash are left out.
Status 77: all were skipped. KOOFU_SLOWNESS=20 in the environment: the program takes that many times as long as usual.
"""

import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

import harness

if __name__ == "__main__":
    sys.exit(harness.main(os.path.dirname(os.path.abspath(__file__)), __doc__))
