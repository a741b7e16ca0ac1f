#!/bin/sh
# The device tests with the real plug-in: as it is; behind tests/between, which offers one GPU several times and makes
# it fail and run out of memory; and under compute-sanitizer. The log is BUILD/test-cuda.log. Takes two minutes.
# usage: test_cuda.sh BUILD [suites, such as device_search: only these, with the plug-in as it is]
set -eu
[ $# -ge 1 ] || { echo 'usage: test_cuda.sh BUILD [SUITE...]' >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
plugin=$build/libkoofu-cuda.so
unit=$build/tests/unit_device
[ -e "$plugin" ] || { echo "koofu: $plugin is missing; make cuda builds it" >&2; exit 1; }
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

# try SECONDS WHAT COMMAND...: runs a command and notes a failure. Status 77: a test for the twin only.
try() {
  seconds=$1 what=$2 status=0
  shift 2
  echo "=== $what ($(date +%T))"
  timeout "$seconds" "$@" || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || echo "$what: status $status" | tee -a "$failed"
}

# Behind the plug-in that offers the GPU several times and injects failures.
between() {
  for suite in "$@"; do
    try 120 "$suite, between" env "KOOFU_TEST_PLUGIN=$build/tests/libkoofu-between.so" "KOOFU_BETWEEN=$plugin" \
      "KOOFU_SPOILER=$build/tests/libkoofu-spoil.so" "$unit" "$suite"
  done
}

# check TOOL NAME [VARIABLE=VALUE...] -- COMMAND...: under a tool of compute-sanitizer, in the background, with
# output to a file.
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

# The plug-in alone, and tests that reach all kernels; few, since the tools are slow, above all racecheck.
sanitize() {
  if ! command -v compute-sanitizer > /dev/null; then
    echo '=== compute-sanitizer is not installed'
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
