#!/bin/sh
# Reads .parquet files of pyarrow, polars, duckdb and pandas, and has them read koofu's: tests/parquet/check.py.
# usage: test_parquet.sh BUILD [--golden | --speed [MILLIONS]]   (PYTHON: default python3)
#        --golden: rewrites tests/golden/parquet with these programs
#        --speed: speed of reading their files, beside .npy, with floors (tests/parquet/speed.py)
set -eu
cd "$(dirname "$0")/.."
koofu=$PWD/$1/koofu
venv=$PWD/build-parquet/venv

if [ ! -e "$venv/ready" ]; then
  echo "koofu: creating a virtual environment in build-parquet" >&2
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q -r tests/parquet/requirements.txt
  touch "$venv/ready"
fi
export PYTHONDONTWRITEBYTECODE=1
case "${2:-}" in
  --golden) "$venv/bin/python" tests/parquet/make_golden.py ;;
  --speed) "$venv/bin/python" tests/parquet/speed.py "$koofu" "${3:-1}" ;;
  *) "$venv/bin/python" tests/parquet/check.py "$koofu" ;;
esac
