#!/bin/sh
# Prints the path of a Python with the reference implementations (transformers on PyTorch, Pillow), in a virtual
# environment that is made where it is missing: build-oracle/venv, or ORACLE_VENV.
set -eu
cd "$(dirname "$0")/.."
venv=${ORACLE_VENV:-build-oracle/venv}
if [ ! -e "$venv/complete" ]; then
  echo "koofu: making a virtual environment with PyTorch and transformers in $venv (some gigabytes)" >&2
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q torch transformers pillow numpy >&2
  touch "$venv/complete"
fi
echo "$venv/bin/python"
