#!/bin/sh
# The sessions with the command line under valgrind: no value is used that nothing was written to, and no
# memory that is not the program's. Takes about half an hour of one processor.
# usage: valgrind.sh [test_FILE.py ...]   (default: all of tests/cli/)
#
# Valgrind knows no AVX-512 and says so to programs that ask, so the kernels are those of AVX2.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
build='build-valgrind'
cmake -S . -B $build -G Ninja -DKOOFU_SHARED=OFF -DCMAKE_C_FLAGS_RELEASE='-O2 -g' > /dev/null
cmake --build $build -j "$jobs" --target koofu > $build/build.log 2>&1 || { cat $build/build.log; exit 1; }

# 99 is none of the program's exit statuses, so every session notices.
program=$PWD/$build/koofu-in-valgrind
cat > "$program" << END
#!/bin/sh
exec valgrind -q --error-exitcode=99 --track-origins=yes "$PWD/$build/koofu" "\$@"
END
chmod +x "$program"

# Left out: what measures time, kills at chosen moments, limits memory or files (valgrind needs its own),
# repeats other sessions with other threads and instruction sets, or would take long.
without='-killed -stops_soon -a_signal -by_a_signal -same_bytes -same_choice -flipped_byte -progress_on_a_terminal
  -more_shards -memory -one_process_at_a_time -full_disk -man_pages -all_figures_are -sweep_is_what -settings_as_in_fit'
export KOOFU_SLOWNESS=20
# shellcheck disable=SC2046 # one word for each file
[ $# -gt 0 ] || set -- $(cd tests/cli && echo test_*.py)
log=$build/sessions
rm -rf $log && mkdir $log
run() { # FILE
  # shellcheck disable=SC2086 # the words are meant to be split
  if python3 tests/cli/run.py "$program" "$1" $without > "$log/$1" 2>&1; then status=0; else status=$?; fi
  [ $status -eq 0 ] || [ $status -eq 77 ] || touch "$log/failed"
  printf '%-26s %s\n' "$1" "$(tail -n 1 "$log/$1")"
  ! grep -A 40 '^FAILED' "$log/$1"
}

n=0
for file in "$@"; do
  run "$file" &
  n=$((n + 1))
  [ $((n % jobs)) -ne 0 ] || wait
done
wait
[ ! -e $log/failed ]
