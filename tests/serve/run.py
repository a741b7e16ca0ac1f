#!/usr/bin/env python3
"""Sessions with `koofu serve`.

usage: run.py path/to/koofu [test_FILE.py ...] [part of a test's name ...] [-part of a test's name ...]

Everything else is as in tests/cli/run.py. KOOFU_SERVE_LONG=1 in the environment: the long forms, as `make test-serve` has them.
"""

import os
import signal
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
sys.path.insert(0, HERE)

import harness

signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # servers end connections

if __name__ == "__main__":
    sys.exit(harness.main(HERE, __doc__))
