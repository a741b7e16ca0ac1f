#!/bin/sh
# Prints the path of a Python that has the reference implementations (tests/oracle/requirements.txt): ORACLE_PYTHON
# if set, otherwise that of a virtual environment in build-oracle, which is created if missing and takes some
# gigabytes.
set -eu
cd "$(dirname "$0")/.."
if [ -n "${ORACLE_PYTHON:-}" ]; then
  echo "$ORACLE_PYTHON"
  exit
fi
if [ ! -e build-oracle/ready ]; then
  echo 'koofu: creating a virtual environment with PyTorch and transformers in build-oracle' >&2
  tools/packages.sh bench >&2
  python3 -m venv build-oracle/venv
  build-oracle/venv/bin/pip install --quiet -r tests/oracle/requirements.txt >&2
  touch build-oracle/ready
fi
echo build-oracle/venv/bin/python
