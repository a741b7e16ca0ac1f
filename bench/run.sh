#!/bin/sh
# Runs the benchmarks with their peers in a virtual environment.
# usage: run.sh BUILD [options of bench.py]
set -eu
build=$1
shift
here=$(dirname "$0")
python=$build/venv/bin/python
if [ ! -e "$build/venv/ready" ]; then
  echo "koofu: making a virtual environment with numpy, scikit-learn and FAISS in $build/venv" >&2
  python3 -m venv "$build/venv"
  "$python" -m pip install -q numpy scipy scikit-learn
  # FAISS recommends MKL for Intel; its wheel contains an OpenBLAS of 2021.
  "$python" -m pip install -q faiss-cpu || echo "koofu: FAISS is left out" >&2
  "$python" -m pip install -q mkl || echo "koofu: MKL is left out" >&2
  touch "$build/venv/ready"
fi
# PyTorch takes gigabytes: used if present; tools/oracle_python.sh installs it.
if [ -n "${ORACLE_PYTHON:-}" ] || [ -e "$here/../build-oracle/ready" ]; then
  set -- --torch "$("$here/../tools/oracle_python.sh")" "$@"
fi
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/bench.py" "$build" "$@"
