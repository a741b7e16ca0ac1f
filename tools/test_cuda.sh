#!/bin/sh
# The tests of devices with the real plug-in, and a log of them.
# usage: test_cuda.sh BUILD [names of tests, such as test_device_search]
set -eu
cd "$(dirname "$0")/.."
build=$PWD/$1
shift
plugin=$build/libkoofu-cuda.so
[ -e "$plugin" ] || { echo "koofu: there is no $plugin; make cuda builds it" >&2; exit 1; }
if [ $# -eq 0 ]; then
  for test in "$build"/tests/test_device*; do
    [ -x "$test" ] && set -- "$@" "$(basename "$test")"
  done
fi
log=$build/test-cuda.log
failed=0
{
  KOOFU_DEVICE_PLUGIN=$plugin "$build/koofu" version -v || failed=1
  echo '=== koofu-cuda-check'
  "$build/koofu-cuda-check" || failed=1
  for test in "$@"; do
    echo "=== $test"
    KOOFU_TEST_PLUGIN=$plugin "$build/tests/$test" || failed=1
  done
  echo "$failed" > "$log.status"
} 2>&1 | tee "$log"
failed=$(cat "$log.status")
rm -f "$log.status"
[ "$failed" = 0 ] || { echo 'koofu: a test of devices failed' >&2; exit 1; }
