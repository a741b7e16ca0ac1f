#!/bin/sh
# Runs the sessions of the command line under valgrind: no use of uninitialised values, no invalid access to memory.
# Takes about half an hour on two processors.
# usage: valgrind.sh [test_FILE.py ...]   (default: all of tests/cli/)
#
# Valgrind has no AVX-512 and reports none, so the kernels are those of AVX2.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
build='build-valgrind'
program=$PWD/$build/koofu-in-valgrind
log=$build/sessions

# Left out: sessions that measure time, kill at chosen moments, limit memory or files (valgrind needs its own), repeat
# others with other threads and instruction sets, or would take long.
without='-killed -stops_soon -a_signal_stops -by_a_signal -same_bytes -same_choice -flipped_byte
  -progress_on_a_terminal -more_shards -memory.a_fit -memory.texts -memory.names_of -one_process_at_a_time
  -room_for_the_copy -full_disk -files_beyond -man_pages -all_figures_are -sweep_is_what -settings_as_in_fit'

if [ "${1:-}" = --one ]; then # from xargs, below
  export KOOFU_SLOWNESS=20
  # shellcheck disable=SC2086 # the words must be split
  if python3 tests/cli/run.py "$program" "$2" $without > "$log/$2" 2>&1; then status=0; else status=$?; fi
  [ $status -eq 0 ] || [ $status -eq 77 ] || { cat "$log/$2" && touch "$log/failed"; }
  printf '%-26s %s\n' "$2" "$(tail -n 1 "$log/$2")"
  exit 0
fi

cmake -S . -B $build -G Ninja -DKOOFU_SHARED=OFF -DCMAKE_C_FLAGS_RELEASE='-O2 -g' > /dev/null
cmake --build $build -j "$jobs" --target koofu > $build/build.log 2>&1 || { cat $build/build.log; exit 1; }
# 99 is not an exit status of the program, so every session notices it.
cat > "$program" << END
#!/bin/sh
exec valgrind -q --error-exitcode=99 "$PWD/$build/koofu" "\$@"
END
chmod +x "$program"

rm -rf $log && mkdir $log
# shellcheck disable=SC2046 # one word for each file
[ $# -gt 0 ] || set -- $(cd tests/cli && echo test_*.py)
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 tools/valgrind.sh --one
[ ! -e $log/failed ]
