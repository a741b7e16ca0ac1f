#!/bin/sh
# The tests of devices with the real plug-in: as it is; with one GPU offered several times, failing and out of memory
# for real (tests/between); and under compute-sanitizer. A log of all of it is in BUILD/test-cuda.log. Two minutes.
# usage: test_cuda.sh BUILD [suites, such as device_search; then these alone, as they are]
set -eu
[ $# -ge 1 ] || { echo 'usage: test_cuda.sh BUILD [SUITE...]' >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
plugin=$build/libkoofu-cuda.so
unit=$build/tests/unit_device
[ -e "$plugin" ] || { echo "koofu: there is no $plugin; make cuda builds it" >&2; exit 1; }
some=$*
if [ $# -eq 0 ]; then
  for source in "$(dirname "$0")"/../tests/test_device*.c; do
    suite=$(basename "$source" .c)
    set -- "$@" "${suite#test_}"
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
  for suite in "$@"; do
    try 120 "$suite, between" env "KOOFU_TEST_PLUGIN=$build/tests/libkoofu-between.so" "KOOFU_BETWEEN=$plugin" \
      "KOOFU_SPOILER=$build/tests/libkoofu-spoil.so" "$unit" "$suite"
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
  for tool in memcheck initcheck racecheck; do
    check "$tool" koofu-cuda-check -- "$build/koofu-cuda-check" few
    check "$tool" random KOOFU_TEST_PROBLEMS=80-90 -- "$unit" device_search random_problems
    check "$tool" halves -- "$unit" device_search halves
  done
  for tool in memcheck initcheck; do
    check "$tool" copies -- "$unit" device_search '*copies'
    check "$tool" less -- "$unit" device_search less_of_everything
    check "$tool" parts -- "$unit" device_search lists_in_parts
    for suite in "$@"; do
      case $suite in
      device_search) ;;
      device_lost) ;; # it fails on purpose
      *) check "$tool" "$suite" -- "$unit" "$suite" ;;
      esac
    done
  done
  for only in every_type large_sums; do
    check racecheck stats-$only -- "$unit" device_stats $only
  done
  for only in transform classify; do
    check racecheck use-$only -- "$unit" device_use $only
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
  for suite in "$@"; do try 120 "$suite" "$unit" "$suite"; done
  if [ -z "$some" ]; then
    between "$@"
    sanitize "$@"
  fi
  echo "=== end ($(date +%T))"
} 2>&1 | tee "$log"
[ ! -e "$failed" ] || { echo 'koofu: tests of devices failed:'; cat "$failed"; exit 1; } >&2
echo "koofu: all tests of devices passed; $log"
