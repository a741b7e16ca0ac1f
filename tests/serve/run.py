#!/usr/bin/env python3
"""Sessions with `koofu serve`.

usage: run.py path/to/koofu [test_FILE.py ...] [part of a test's name ...] [-part of a test's name ...]

Everything else is as in tests/cli/run.py. KOOFU_SERVE_LONG=1 in the environment: the long forms, as `make test-serve` has them.
"""

import importlib
import os
import signal
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
sys.path.insert(0, HERE)

import harness

signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # servers end connections


def main(words):
    if not words or not os.access(words[0], os.X_OK):
        sys.exit(__doc__)
    known = sorted(name for name in os.listdir(HERE) if name.startswith("test_") and name.endswith(".py"))
    files = [word for word in words[1:] if word.endswith(".py")]
    for file in files:
        if file not in known:
            sys.exit(f"run.py: no {file} in {HERE}")
    for file in files or known:
        importlib.import_module(file[:-3])
    return harness.run_all(os.path.abspath(words[0]), [word for word in words[1:] if word not in files])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
