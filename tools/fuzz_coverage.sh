#!/bin/sh
# Lines of each parser that the fuzz targets reach with the stored corpus and, if it exists, build-fuzz/corpus. Annotated
# sources: build-coverage/pages.
# usage: fuzz_coverage.sh
set -eu
cd "$(dirname "$0")/.."
build='build-coverage'
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
targets=$(sed -n 's/^set(FUZZ_TARGETS \(.*\))$/\1/p' fuzz/CMakeLists.txt)
# Files that parse foreign bytes. Those that also write, such as model_file.c, have lines that no input reaches.
parsers='src/base/json.c src/base/json_read.c src/file/csv.c src/file/fields.c src/file/ids.c src/file/label_table.c src/file/label_text.c
         src/file/labels.c src/file/lines.c src/file/npy.c src/file/npz.c src/file/origin.c src/file/rules.c src/file/rules_header.c
         src/file/rules_sums.c src/file/rules_tensors.c src/file/safetensors_read.c
         src/file/safetensors_use.c src/file/shard.c src/file/table.c src/file/vecs.c src/file/zip.c
         src/stats/stats_file.c src/model/model_file.c src/search/gallery_file.c src/score/truth.c src/score/truth_read.c
         src/encode/config.c src/encode/exif.c src/encode/jpeg.c src/encode/png.c src/encode/webp.c
         src/encode/preprocess.c src/encode/tokenizer.c src/encode/tokenizer_load.c src/encode/tokenizer_special.c
         src/encode/weights.c'

cmake -S . -B $build -G Ninja -DCMAKE_C_COMPILER=clang -DKOOFU_TESTS=ON -DKOOFU_SIMD=OFF -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_C_FLAGS='-fprofile-instr-generate -fcoverage-mapping' > /dev/null
# shellcheck disable=SC2046,SC2086 # the list must be split
cmake --build $build -j "$jobs" --target $(printf 'replay_%s ' $targets) > $build/build.log 2>&1 ||
  { cat $build/build.log; exit 1; }
binary=
objects=
for target in $targets; do
  set -- "fuzz/corpus/$target"
  [ ! -d "build-fuzz/corpus/$target" ] || set -- "$@" "build-fuzz/corpus/$target"
  LLVM_PROFILE_FILE="$build/$target.profraw" "$build/fuzz/replay_$target" "$@" > /dev/null
  if [ -z "$binary" ]; then binary=$build/fuzz/replay_$target; else objects="$objects -object $build/fuzz/replay_$target"; fi
done
llvm-profdata merge -o $build/all.profdata $build/*.profraw
# shellcheck disable=SC2086
llvm-cov show $binary $objects -instr-profile=$build/all.profdata -format=html -output-dir=$build/pages $parsers
# shellcheck disable=SC2086
llvm-cov report $binary $objects -instr-profile=$build/all.profdata $parsers |
  awk '$1 ~ /\.c$|^TOTAL$/ { printf "%-36s %6d lines  %6d reached  %s\n", $1, $8, $8 - $9, $10 }'
