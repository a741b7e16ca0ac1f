#!/bin/sh
# All server tests: the long forms of tests/serve, third-party clients (openai, tritonclient, prometheus_client,
# schemathesis) in a virtual environment in build-serve, and load.
# usage: test_serve.sh BUILD [SECONDS]   (SECONDS of load, 60 by default; PYTHON: default python3)
set -eu
cd "$(dirname "$0")/.."
build=$PWD/$1
venv=$PWD/build-serve/venv
export PYTHONDONTWRITEBYTECODE=1

if [ ! -e "$venv/ready" ]; then
  echo "koofu: creating a virtual environment in build-serve" >&2
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q -r tests/serve/requirements.txt
  touch "$venv/ready"
fi
KOOFU_SERVE_LONG=1 "$venv/bin/python" tests/serve/run.py "$build/koofu"
"$venv/bin/python" tests/serve/clients.py "$build/koofu"
"$venv/bin/python" tests/serve/load.py "$build/koofu" "$build/tests/serve_load" "${2:-60}"
