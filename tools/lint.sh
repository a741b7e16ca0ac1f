#!/bin/sh
# Checks the sources without running them. Every step runs; those that failed are listed at the end.
# usage: lint.sh [quick]   (quick: a minute, without the builds and clang-tidy; .ci/run does this)
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
failed=''

# Tracked and new files of the repository.
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
  [ ! -f "$file" ] || echo "$file"
done; }

step() { # NAME COMMAND...
  name=$1
  shift
  printf '%-16s ' "$name"
  if output=$("$@" 2>&1); then
    echo passed
  else
    echo FAILED
    echo "$output"
    failed="$failed $name"
  fi
}

# --- warnings -------------------------------------------------------------------------------------

# CMakeLists.txt sets -Wall -Wextra -Wpedantic -Wconversion -Wshadow. The build with tests includes
# every C file: library, command line, tests, examples and, as replays, the fuzz targets.
warnings() { # COMPILER
  cmake -S . -B "build-lint-$1" -G Ninja -DKOOFU_TESTS=ON -DCMAKE_C_COMPILER="$1" \
    -DKOOFU_WERROR=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON &&
    cmake --build "build-lint-$1" -j "$jobs" -- -k 0
}

# Uninitialised values across files: with one file at a time, a compiler must assume that a function sets its out
# parameters even when it fails.
uninitialised() {
  cmake -S . -B build-lint-lto -G Ninja -DKOOFU_SHARED=OFF -DCMAKE_C_COMPILER=gcc -DCMAKE_AR="$(command -v gcc-ar)" \
    -DCMAKE_RANLIB="$(command -v gcc-ranlib)" -DCMAKE_C_FLAGS_RELEASE=-O2 \
    -DCMAKE_C_FLAGS="-flto=$jobs -Werror -Wuninitialized -Wmaybe-uninitialized -Wfree-nonheap-object" &&
    cmake --build build-lint-lto -j "$jobs" --target koofu
}

# Callers include the headers under older standards and from C++, with and without KF_EXPERIMENTAL.
headers() {
  for header in include/*.h; do
    for language in 'c -std=c99' 'c -std=c11 -DKF_EXPERIMENTAL' 'c++ -std=c++11' 'c++ -std=c++11 -DKF_EXPERIMENTAL'; do
      # shellcheck disable=SC2086 # the language must be split
      echo "#include \"${header#include/}\"" | clang -x $language -Iinclude -Weverything -Wno-c++98-compat \
        -Wno-documentation -Wno-padded -Wno-reserved-identifier -nostdinc++ -Werror -fsyntax-only - || return 1
    done
  done
}

# --- layout and analysis --------------------------------------------------------------------------

layout() { files '*.c' '*.h' | xargs clang-format --dry-run -Werror; }

# One file per run, with one set of flags: clang-tidy 14 confuses several.
commands_once() {
  mkdir -p build-lint-clang/tidy && python3 - build-lint-clang/compile_commands.json \
    build-lint-clang/tidy/compile_commands.json << 'END'
import json, sys
with open(sys.argv[1]) as file:
    once = {entry["file"]: entry for entry in reversed(json.load(file))}
with open(sys.argv[2], "w") as out:
    json.dump(list(once.values()), out)
END
}

tidy() {
  commands_once || return 1
  bare='^src/(kernel/|base/error\.c|base/memory\.c|model/map\.c|model/metric\.c)' # do without tools/analyzer.h
  files 'src/*.c' | grep -Ev "$bare" | xargs -P "$jobs" -n 1 clang-tidy -p build-lint-clang/tidy --quiet \
    --extra-arg=-include --extra-arg="$PWD/tools/analyzer.h" 2> /dev/null
  with=$?
  files '*.c' | grep -E "$bare|^(cli|serve|mpi|tests|fuzz|examples)/" |
    xargs -P "$jobs" -n 1 clang-tidy -p build-lint-clang/tidy --quiet 2> /dev/null
  without=$?
  [ $with -eq 0 ] && [ $without -eq 0 ]
}

# wide.h: cppcheck 2.10 does not know the size of GCC's vector types.
analyse() {
  files '*.c' | xargs cppcheck --quiet --error-exitcode=1 -j "$jobs" --std=c11 --inline-suppr \
    --enable=warning,performance,portability -Iinclude -Isrc -Icli -Ifuzz -Itests \
    -D_GNU_SOURCE -DKF_SIMD -DKF_EXPERIMENTAL --suppress=bufferAccessOutOfBounds:src/kernel/wide.h
}

shell() { files '*.sh' .ci/run | xargs shellcheck --severity=warning; }

python() { files '*.py' | xargs pyflakes3; }

step clang-format layout
step 'dependency law' tools/dependency_law.sh
step reach tools/reach.py --check
step headers headers
step shellcheck shell
step pyflakes python
step cppcheck analyse
if [ "${1:-}" != quick ]; then
  step 'warnings, gcc' warnings gcc
  step 'uninitialised' uninitialised
  step 'warnings, clang' warnings clang
  step clang-tidy tidy
fi

[ -z "$failed" ] || { echo "lint failed:$failed"; exit 1; }
