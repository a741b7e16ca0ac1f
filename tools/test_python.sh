#!/bin/sh
# Tests the Python package as users get it: installed by pip, with the newest version of each optional package.
# usage: test_python.sh BUILD [options of pytest]   (PYTHON: default python3)
set -eu
cd "$(dirname "$0")/.."
koofu=$PWD/$1/koofu
shift
venv=$PWD/build-python/venv
if [ ! -e "$venv/ready" ]; then
  echo 'koofu: creating a virtual environment with PyTorch, Dask, Ray and Spark in build-python' >&2
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q --upgrade pip
  "$venv/bin/pip" install -q -r python/tests/requirements.txt
  touch "$venv/ready"
fi
"$venv/bin/pip" install -q .
echo 'koofu: types'
(cd python && "$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir ../build-python/mypy)
(cd build-python && "$venv/bin/python" -m mypy.stubtest koofu._koofu)
echo 'koofu: tests'
# In a folder where the source of the package is not found by accident.
cd build-python
KOOFU=$koofu KOOFU_ALL=1 SCIPY_ARRAY_API=1 PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  ../python/tests "$@"
