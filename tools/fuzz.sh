#!/bin/sh
# Every fuzz target for SECONDS_EACH seconds (60), two at a time, from the stored corpus. The corpus
# itself is left as it is: what the fuzzer adds stays in build-fuzz/corpus and is used again.
# A finding fails the run, and its input stays in build-fuzz/findings.
# usage: fuzz.sh [TARGET...]   (those of fuzz/CMakeLists.txt)
set -eu
cd "$(dirname "$0")/.."
build='build-fuzz'
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
seconds=${SECONDS_EACH:-60}

# One target. Longer inputs than max_len only cost time; a sound parser needs far less memory and
# time than it is given here, and no single block above malloc_limit_mb.
fuzz_one() { # TARGET
  log=$build/$1.log
  mkdir -p "$build/corpus/$1"
  status=0
  "$build/fuzz/fuzz_$1" -max_total_time="$seconds" -max_len=70000 -timeout=10 -rss_limit_mb=1024 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$build/findings/$1-" \
    "$build/corpus/$1" "fuzz/corpus/$1" > "$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  result='no finding'
  [ $status -eq 0 ] || result="FINDING (status $status)"
  printf '%-12s %10s executions  %6s edges  %s\n' "$1" "${runs:-?}" "${coverage:-?}" "$result"
  [ $status -eq 0 ] || { tail -n 60 "$log"; exit 1; }
}

if [ "${1:-}" = --one ]; then
  fuzz_one "$2"
  exit
fi

targets=$*
[ -n "$targets" ] || targets=$(sed -n 's/^set(FUZZ_TARGETS \(.*\))$/\1/p' fuzz/CMakeLists.txt)
cmake -S . -B $build -G Ninja -DCMAKE_C_COMPILER=clang -DKOOFU_FUZZ=ON > /dev/null
# shellcheck disable=SC2046,SC2086 # the list is meant to be split
cmake --build $build -j "$jobs" --target $(printf 'fuzz_%s ' $targets) > $build/build.log 2>&1 ||
  { cat $build/build.log; exit 1; }
rm -rf $build/findings
mkdir $build/findings

status=0
# shellcheck disable=SC2086
printf '%s\n' $targets | xargs -P 2 -n 1 tools/fuzz.sh --one || status=1
if [ $status -ne 0 ]; then
  echo "findings, to be replayed with $build/fuzz/fuzz_TARGET FILE:"
  ls $build/findings/*
fi
exit $status
