#!/bin/sh
# Builds the fuzz targets and runs them (fuzz/run.py), starting from the stored corpus, which is not changed: new inputs
# stay in build-fuzz/corpus for later runs. A finding fails the run; its input is in build-fuzz/corpus/findings.
# usage: fuzz.sh [--executions N] [--seconds N] [TARGET...]   (those of fuzz/CMakeLists.txt; default: 60 s each)
#        fuzz.sh --build      only builds them
#        fuzz.sh --minimise   adds inputs to the stored corpus that reach new lines
set -eu
cd "$(dirname "$0")/.."
build='build-fuzz'
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}

cmake -S . -B $build -G Ninja -DCMAKE_C_COMPILER=clang -DKOOFU_FUZZ=ON > /dev/null
targets=$(sed -n 's/^set(FUZZ_TARGETS \(.*\))$/\1/p' fuzz/CMakeLists.txt)
# shellcheck disable=SC2046,SC2086 # the list must be split
cmake --build $build -j "$jobs" --target $(printf 'fuzz_%s ' $targets) > $build/build.log 2>&1 ||
  { cat $build/build.log; exit 1; }

case "${1:-}" in
  --build) ;;
  --minimise)
    # By edges only: with counts of edges, thousands of inputs would be kept.
    for target in $targets; do
      mkdir -p "$build/corpus/$target"
      "$build/fuzz/fuzz_$target" -merge=1 -use_counters=0 -max_len=4096 "fuzz/corpus/$target" \
        "$build/corpus/$target" 2>&1 | sed -n "s/^MERGE-OUTER: \([0-9]* new files\).*/$target: \1/p"
    done
    ;;
  *)
    [ -z "${SECONDS_EACH:-}" ] || set -- --seconds "$SECONDS_EACH" "$@"
    fuzz/run.py $build/fuzz --jobs "$jobs" --found $build/corpus "$@"
    ;;
esac
