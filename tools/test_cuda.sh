#!/bin/sh
# The tests of devices with the real plug-in: as it is; with one GPU offered several times, failing and out of memory
# for real (tests/between); and under compute-sanitizer. A log of all of it is in BUILD/test-cuda.log. Two minutes.
# usage: test_cuda.sh BUILD [names of tests, such as test_device_search; then these alone, as they are]
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
rm -f "$failed" "$log".*
export KOOFU_TEST_PLUGIN="$plugin"

# try SECONDS WHAT COMMAND...: runs it, and notes a failure. Tests for the twin alone end with 77.
try() {
  seconds=$1 what=$2 status=0
  shift 2
  echo "=== $what ($(date +%T))"
  timeout "$seconds" "$@" || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || echo "$what: status $status" | tee -a "$failed"
}

# Behind a plug-in that shows the GPU several times and spoils it.
between() {
  for test in "$@"; do
    try 120 "$test, between" env "KOOFU_TEST_PLUGIN=$build/tests/libkoofu-between.so" "KOOFU_BETWEEN=$plugin" \
      "KOOFU_SPOILER=$build/tests/libkoofu-spoil.so" "$build/tests/$test"
  done
}

# check TOOL NAME [VARIABLE=VALUE...] -- COMMAND...: under a tool of compute-sanitizer, beside others; what it prints
# goes to a file.
check() {
  tool=$1 name=$2
  shift 2
  (
    while [ "$1" != -- ]; do
      export "${1?}"
      shift
    done
    shift
    try 150 "$tool $name" compute-sanitizer --tool "$tool" --error-exitcode 3 --report-api-errors no "$@"
  ) > "$log.$tool.$name" 2>&1 &
}

# The plug-in by itself, and the tests: cases that reach all kernels, because the tools are slow, racecheck most of all.
sanitize() {
  if ! command -v compute-sanitizer > /dev/null; then
    echo '=== compute-sanitizer is not there'
    return 0
  fi
  search=$build/tests/test_device_search
  for tool in memcheck initcheck racecheck; do
    check "$tool" koofu-cuda-check -- "$build/koofu-cuda-check" few
    check "$tool" random KOOFU_TEST_ONLY=random_problems KOOFU_TEST_PROBLEMS=80-90 -- "$search"
    check "$tool" halves KOOFU_TEST_ONLY=halves -- "$search"
  done
  for tool in memcheck initcheck; do
    check "$tool" copies 'KOOFU_TEST_ONLY=*copies' -- "$search"
    check "$tool" less KOOFU_TEST_ONLY=less_of_everything -- "$search"
    check "$tool" parts KOOFU_TEST_ONLY=lists_in_parts -- "$search"
    for test in "$@"; do
      case $test in
      test_device_search) ;;
      test_device_lost) ;; # it fails on purpose
      *) check "$tool" "$test" -- "$build/tests/$test" ;;
      esac
    done
  done
  for only in every_type large_sums; do
    check racecheck stats-$only KOOFU_TEST_ONLY=$only -- "$build/tests/test_device_stats"
  done
  for only in transform classify; do
    check racecheck use-$only KOOFU_TEST_ONLY=$only -- "$build/tests/test_device_use"
  done
  wait
  cat "$log".*check.*
  rm -f "$log".*check.*
}

{
  try 30 version env "KOOFU_DEVICE_PLUGIN=$plugin" "$build/koofu" version -v
  if [ -z "$some" ]; then
    try 60 'koofu-cuda-check' "$build/koofu-cuda-check" 800
    try 60 'koofu-cuda-check mma' "$build/koofu-cuda-check" 300 mma
  fi
  for test in "$@"; do try 120 "$test" "$build/tests/$test"; done
  if [ -z "$some" ]; then
    between "$@"
    sanitize "$@"
  fi
  echo "=== end ($(date +%T))"
} 2>&1 | tee "$log"
[ ! -e "$failed" ] || { echo 'koofu: tests of devices failed:'; cat "$failed"; exit 1; } >&2
echo "koofu: all tests of devices passed; $log"
