#!/usr/bin/env python3
"""Sessions with the command line: python3 tests/cli/run.py path/to/koofu [part of a test's name ...]"""

import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

import harness
import test_help  # noqa: F401
import test_usage  # noqa: F401
import test_use  # noqa: F401
import test_bad_files  # noqa: F401
import test_bad_rows  # noqa: F401
import test_search  # noqa: F401
import test_report  # noqa: F401
import test_choose  # noqa: F401
import test_fuse  # noqa: F401
import test_judge  # noqa: F401
import test_text  # noqa: F401
import test_shots  # noqa: F401
import test_embed  # noqa: F401
import test_pictures  # noqa: F401
import test_quickstart  # noqa: F401
import test_output  # noqa: F401
import test_same_bytes  # noqa: F401

if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit("usage: run.py path/to/koofu [part of a test's name ...]")
    sys.exit(harness.run_all(os.path.abspath(sys.argv[1]), sys.argv[2:]))
