#!/bin/sh
# Puts everything that 'make torture' and 'make fuzz' need into one folder, for a machine with python3 alone: the
# programs with their C library, the corpora and the scripts.
# usage: bundle.sh FOLDER   (must not exist)
# Then:   FOLDER/run.sh torture [OPTION...]   (tests/torture/torture.py)
#         FOLDER/run.sh fuzz [OPTION...]      (fuzz/run.py)
set -eu
[ $# -eq 1 ] && [ ! -e "$1" ] || { sed -n 's/^# usage: //p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
# The path of the dynamic linker in a program cannot be relative, so run.sh creates a link at that path.
place='/tmp/koofu-bundle-lib'
flags="-Wl,--dynamic-linker=$place/ld-linux-x86-64.so.2 -Wl,-rpath,$place -Wl,--disable-new-dtags"

cmake -S . -B build-bundle -G Ninja -DKOOFU_TESTS=ON -DCMAKE_EXE_LINKER_FLAGS="$flags" > /dev/null
cmake --build build-bundle -j "$jobs" --target koofu torture_faults > /dev/null
cmake -S . -B build-bundle-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DKOOFU_FUZZ=ON -DCMAKE_EXE_LINKER_FLAGS="$flags" > /dev/null
targets=$(sed -n 's/^set(FUZZ_TARGETS \(.*\))$/\1/p' fuzz/CMakeLists.txt)
# shellcheck disable=SC2046,SC2086 # the list must be split
cmake --build build-bundle-fuzz -j "$jobs" --target $(printf 'fuzz_%s ' $targets) > /dev/null

mkdir -p "$out/lib" "$out/fuzz/bin" "$out/tests"
cp build-bundle/koofu build-bundle/tests/torture_faults.so "$out"
cp -r fuzz/run.py fuzz/corpus "$out/fuzz"
cp -r tests/torture tests/cli tests/golden "$out/tests"
for target in $targets; do strip -o "$out/fuzz/bin/fuzz_$target" "build-bundle-fuzz/fuzz/fuzz_$target"; done
for program in build-bundle/koofu build-bundle-fuzz/fuzz/fuzz_npy; do
  ldd $program | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\) .*/\1/p'
done | sort -u | while read -r library; do cp -L "$library" "$out/lib/"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$out/lib/"
cat > "$out/run.sh" << EOT
#!/bin/sh
set -eu
here=\$(cd "\$(dirname "\$0")" && pwd)
ln -sfn "\$here/lib" $place
what=\$1
shift
case "\$what" in
  torture) exec python3 "\$here/tests/torture/torture.py" "\$here/koofu" --shim "\$here/torture_faults.so" "\$@" ;;
  fuzz) exec python3 "\$here/fuzz/run.py" "\$here/fuzz/bin" "\$@" ;;
  *) echo 'usage: run.sh torture|fuzz [OPTION...]' >&2; exit 2 ;;
esac
EOT
chmod +x "$out/run.sh"
