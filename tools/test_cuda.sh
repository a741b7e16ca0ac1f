#!/bin/sh
# The tests of devices with the real plug-in, and the plug-in under compute-sanitizer; a log of all of it is in
# BUILD/test-cuda.log. About a minute.
# usage: test_cuda.sh BUILD [names of tests, such as test_device_search; then these alone]
set -eu
[ $# -ge 1 ] || { echo 'usage: test_cuda.sh BUILD [TEST...]' >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
plugin=$build/libkoofu-cuda.so
[ -e "$plugin" ] || { echo "koofu: there is no $plugin; make cuda builds it" >&2; exit 1; }
some=$*
if [ $# -eq 0 ]; then
  for test in "$build"/tests/test_device*; do
    [ -f "$test" ] && [ -x "$test" ] && set -- "$@" "$(basename "$test")"
  done
fi
log=$build/test-cuda.log
failed=$log.failed
rm -f "$failed"
export KOOFU_TEST_PLUGIN="$plugin"

# try SECONDS WHAT COMMAND...: runs it, and notes a failure.
try() {
  seconds=$1 what=$2 status=0
  shift 2
  echo "=== $what ($(date +%T))"
  timeout "$seconds" "$@" || status=$?
  [ $status -eq 0 ] || echo "$what: status $status" | tee -a "$failed"
}

# The checks of the plug-in under one tool; the tests of the library under memcheck alone, since the tools are slow.
sanitize() {
  if ! command -v compute-sanitizer > /dev/null; then
    echo '=== compute-sanitizer is not there'
    return 0
  fi
  for tool in memcheck racecheck initcheck; do
    try 120 "$tool koofu-cuda-check" compute-sanitizer --tool $tool --error-exitcode 3 "$build/koofu-cuda-check" few
  done
  for test in "$@"; do
    try 120 "memcheck $test" compute-sanitizer --tool memcheck --error-exitcode 3 --report-api-errors no \
      "$build/tests/$test"
  done
}

{
  try 30 version env "KOOFU_DEVICE_PLUGIN=$plugin" "$build/koofu" version -v
  if [ -z "$some" ]; then
    try 60 'koofu-cuda-check' "$build/koofu-cuda-check" 800
    try 60 'koofu-cuda-check mma' "$build/koofu-cuda-check" 300 mma
  fi
  for test in "$@"; do try 120 "$test" "$build/tests/$test"; done
  [ -n "$some" ] || sanitize "$@"
  echo "=== end ($(date +%T))"
} 2>&1 | tee "$log"
[ ! -e "$failed" ] || { echo 'koofu: tests of devices failed:'; cat "$failed"; exit 1; } >&2
echo "koofu: all tests of devices passed; $log"
