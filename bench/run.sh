#!/bin/sh
# Runs the benchmarks with their peers in a virtual environment.
# usage: run.sh BUILD [fit|search|encode] [options of bench.py, search.py or encode.py; without a name, of the first two]
set -eu
build=$1
shift
here=$(dirname "$0")
which=all
case ${1:-} in
  fit | search)
    which=$1
    shift
    ;;
esac
if [ "${1:-}" = encode ]; then
  shift
  python=$("$here/../tools/oracle_python.sh")
  exec "$python" -B "$here/encode.py" --library "$build/libkoofu.so" --koofu "$build/koofu" "$@"
fi
python=$build/venv/bin/python
if [ ! -x "$python" ]; then
  echo "koofu: making a virtual environment with numpy, scikit-learn and FAISS in $build/venv"
  python3 -m venv "$build/venv"
  "$python" -m pip install -q numpy scipy scikit-learn
fi
if [ "$which" != fit ] && [ ! -e "$build/venv/with-faiss" ]; then
  # MKL is what FAISS recommends for Intel; the wheel has an OpenBLAS of 2021 inside.
  "$python" -m pip install -q faiss-cpu || echo "koofu: FAISS is left out"
  "$python" -m pip install -q mkl || echo "koofu: MKL is left out"
  touch "$build/venv/with-faiss"
fi
# Older OpenBLAS takes new CPUs for ancient ones and is then 4 to 5 times slower; say what it is, so
# that the comparison does not flatter us. (search.py sets it for each of its peers.)
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
  if grep -qw avx512bw /proc/cpuinfo; then OPENBLAS_CORETYPE=SKYLAKEX; else OPENBLAS_CORETYPE=HASWELL; fi
  export OPENBLAS_CORETYPE
fi
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-2}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
export PYTHONDONTWRITEBYTECODE=1
status=0
if [ "$which" != search ]; then
  "$python" "$here/bench.py" "$build/koofu" "$@" || status=1
fi
if [ "$which" != fit ]; then
  "$python" "$here/search.py" --library "$build/libkoofu.so" --koofu "$build/koofu" "$@" || status=1
fi
exit $status
