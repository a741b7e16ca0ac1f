#!/bin/sh
# Tests in a browser: the report, the page of a search, the page of koofu serve. A skipped test is a failure here.
# axe-core is installed from PyPI into build-browser; without it the tests have only their own checks.
# usage: test_browser.sh BUILD [part of a test's name ...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
axe="build-browser/axe"

cmake -S . -B "$build" -G Ninja -DKOOFU_TESTS=ON -DKOOFU_WERROR="${WERROR:-OFF}" > /dev/null
cmake --build "$build" --target koofu unit_report

if [ ! -e "$axe/done" ]; then
  rm -rf "$axe"
  mkdir -p "$axe"
  if python3 -m venv build-browser/venv && build-browser/venv/bin/pip install -q --no-deps --target "$axe" \
    axe-playwright-python==0.1.8; then
    touch "$axe/done"
  else
    echo 'koofu: axe-core cannot be installed; its checks are left out' >&2
  fi
fi

python3 tests/report_browser.py "$build/tests/unit_report"
KOOFU_AXE=$axe python3 tests/serve/browser_run.py "$build/koofu" "$@"
