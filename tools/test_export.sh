#!/bin/sh
# Reads the files of 'koofu export' with the programs they are for: tests/export/check_*.py.
# usage: test_export.sh BUILD   (PYTHON: default python3)
set -eu
cd "$(dirname "$0")/.."
koofu=$PWD/$1/koofu
folder=$PWD/build-export

environment() { # NAME PACKAGE...
  venv=$folder/$1
  shift
  [ ! -e "$venv/ready" ] || return 0
  echo "koofu: creating a virtual environment in build-export" >&2
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q "$@" || return 1
  touch "$venv/ready"
}

environment newest -r tests/export/requirements.txt
for name in onnx faiss rest; do
  PYTHONDONTWRITEBYTECODE=1 "$folder/newest/bin/python" "tests/export/check_$name.py" "$koofu"
done
# Many users have an old FAISS; there is no package of it for newer Pythons.
if environment old 'faiss-cpu==1.7.4' 'numpy<2'; then
  PYTHONDONTWRITEBYTECODE=1 "$folder/old/bin/python" tests/export/check_faiss.py "$koofu"
else
  echo 'koofu: faiss-cpu 1.7.4 cannot be installed here; its test is skipped'
fi
