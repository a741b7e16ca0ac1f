#!/bin/sh
# Live comparisons of the encoder with the reference (transformers on PyTorch): tests/oracle/*.py, or those
# that are named. Without ORACLE_PYTHON, a Python that has what tests/oracle/requirements.txt lists, a
# virtual environment is made in build-oracle, which takes some gigabytes.
# usage: oracle.sh BUILD [NAME...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
python=${ORACLE_PYTHON:-build-oracle/venv/bin/python}
if [ -z "${ORACLE_PYTHON:-}" ] && [ ! -e build-oracle/ready ]; then
  tools/packages.sh bench
  python3 -m venv build-oracle/venv
  build-oracle/venv/bin/pip install --quiet -r tests/oracle/requirements.txt
  touch build-oracle/ready
fi

# shellcheck disable=SC2046 # the list is meant to be split
[ $# -gt 0 ] || set -- $(basename -s .py tests/oracle/*.py)
failed=''
for name in "$@"; do
  echo "== $name"
  status=0
  "$python" "tests/oracle/$name.py" "$build/koofu" "$build/libkoofu.so" || status=$?
  case $status in
    0 | 77) ;;
    *) failed="$failed $name" ;;
  esac
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
