#!/bin/sh
# Runs the benchmarks with their peers in a virtual environment.
# usage: run.sh BUILD [options of bench.py]
set -eu
build=$1
shift
here=$(dirname "$0")
if [ ! -x "$build/venv/bin/python" ]; then
  echo "koofu: making a virtual environment with numpy and scikit-learn in $build/venv"
  python3 -m venv "$build/venv"
  "$build/venv/bin/pip" install -q numpy scipy scikit-learn
fi
# Older OpenBLAS takes new CPUs for ancient ones and is then 4 to 5 times slower; say what it is, so
# that the comparison does not flatter us.
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
  if grep -qw avx512bw /proc/cpuinfo; then OPENBLAS_CORETYPE=SKYLAKEX; else OPENBLAS_CORETYPE=HASWELL; fi
  export OPENBLAS_CORETYPE
fi
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-2}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
exec "$build/venv/bin/python" "$here/bench.py" "$build/koofu" "$@"
