#!/bin/sh
# Reads what 'koofu export' writes with the programs it is for: tests/export/check_*.py.
# usage: test_export.sh BUILD   (PYTHON: which one; python3 by default)
set -eu
cd "$(dirname "$0")/.."
koofu=$PWD/$1/koofu
folder=$PWD/build-export

environment() { # NAME PACKAGE...
  venv=$folder/$1
  shift
  [ ! -e "$venv/ready" ] || return 0
  echo "koofu: making a virtual environment in build-export" >&2
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q "$@" || return 1
  touch "$venv/ready"
}

environment newest -r tests/export/requirements.txt
for name in onnx faiss rest; do
  PYTHONDONTWRITEBYTECODE=1 "$folder/newest/bin/python" "tests/export/check_$name.py" "$koofu"
done
# An old FAISS is what many have; newer Pythons have no package of it.
if environment old 'faiss-cpu==1.7.4' 'numpy<2'; then
  PYTHONDONTWRITEBYTECODE=1 "$folder/old/bin/python" tests/export/check_faiss.py "$koofu"
else
  echo 'koofu: faiss-cpu 1.7.4 cannot be installed here; its test is skipped'
fi
