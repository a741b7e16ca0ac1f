#!/bin/sh
# The tests under AddressSanitizer with UBSan, then the threaded ones under ThreadSanitizer.
# Left out: `memory` and copies_nothing (they would measure the sanitizer's memory), and `install` (it links programs
# without sanitizers).
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
cc=${CC:-gcc}

build() { # FOLDER SANITIZERS
  echo "--- $2"
  cmake -S . -B "$1" -G Ninja -DKOOFU_TESTS=ON -DKOOFU_SANITIZE="$2" -DCMAKE_C_COMPILER="$cc" > /dev/null
  cmake --build "$1" -j "$jobs" > "$1/build.log" 2>&1 || { cat "$1/build.log"; exit 1; }
}

export UBSAN_OPTIONS=print_stacktrace=1

# --- addresses and undefined behaviour ------------------------------------------------------------

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
build build-asan address,undefined,float-cast-overflow
(cd build-asan && ctest --output-on-failure -j "$jobs" -E '^(memory|install|oracle|python)$')
# Python must load the runtime before the library.
#   detect_leaks=0: the interpreter and numpy never free some of their memory, and all stacks lead through them, so
#     suppressions could not tell their leaks from the library's.
#   allocator_may_return_null=1: some tests request more memory than there is, and expect an exception.
#   PYTHONMALLOC=malloc: each Python object is its own block, so that reads beyond it are detected.
#   --capture=sys: otherwise captured output of descriptor 2 is lost when the process aborts.
if [ "$cc" = gcc ]; then
  (cd build-asan && ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc \
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    PYTEST_ADDOPTS='--capture=sys -k "not copies_nothing"' \
    ctest --output-on-failure -j "$jobs" -R '^(oracle|python)$')
fi

# --- races ----------------------------------------------------------------------------------------

export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
build build-tsan thread
(cd build-tsan && ctest --output-on-failure -j "$jobs" -R '^unit\.(base|file|stats|model|use|synth|gallery_search|votes|truth|judging|search_random|parquet|comm|device_search|device_stats|device_use|left_out|hits|ranks|choose|sweep|fuse|text|shots|encoder|embed|recipe)$|^serve\.(answers|changes|hostile|refusals)$|^example\.')
python=$(sed -n 's/^KOOFU_PYTHON:FILEPATH=//p' build-tsan/CMakeCache.txt)
"$python" tests/cli/run.py build-tsan/koofu same_bytes
