#!/bin/sh
# Compares the encoder live with the reference (transformers on PyTorch): all of tests/oracle/*.py, or the named ones.
# usage: oracle.sh BUILD [NAME...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
python=$(tools/oracle_python.sh)

# shellcheck disable=SC2046 # the list must be split
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
