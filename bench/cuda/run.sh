#!/bin/bash
# Everything that koofu promises of a GPU, in one run of some minutes: bench/cuda/run.sh BUILD [quick] [ROWS,QUERIES...].
# ROWS,QUERIES: files of rows, such as real embeddings, which are repeated up to 1,281,167 rows and 50,000 queries.
# What it prints also goes to BUILD/bench-cuda.log. Lists and files are compared with the CPU's; the exit status is 1
# if one differs or a limit is missed. FOLDER: where files of some gigabytes are for a while, otherwise BUILD.
set -u
build=$(cd "${1:?usage: run.sh BUILD [quick] [ROWS,QUERIES...]}" && pwd)
shift
quick=''
[ "${1:-}" != quick ] || { quick=quick; shift; }
folder=${FOLDER:-$build}
data=$folder/bench-cuda-data.safetensors
log=$build/bench-cuda.log
failed=$log.failed
plugin=$build/libkoofu-cuda.so
export KOOFU_DEVICE_PLUGIN=$plugin
rm -f "$failed"
trap 'rm -f "$folder"/bench-cuda-*' EXIT

# try SECONDS COMMAND...
try() {
  local status=0
  timeout "$@" || status=$?
  [ $status -eq 0 ] || echo "status $status: ${*:2}" | tee -a "$failed"
}
say() { printf '\n== %s (%s)\n' "$*" "$(date +%T)"; }
knn() { try 150 "$build/bench/bench_cuda_knn" --plugin "$plugin" --folder "$folder" "$@"; }
koofu() { try 150 "$build/koofu" "$@"; }
statistics() { try 150 "$build/bench/bench_cuda_stats" --plugin "$plugin" "$@" "$data"; }

# seconds COMMAND...: of the whole command.
seconds() {
  local begin
  begin=$(date +%s%N)
  koofu "$@" >&2
  awk "BEGIN {printf \"%.2f\", ($(date +%s%N) - $begin) / 1e9}"
}
# A limit of seconds.
within() {
  awk "BEGIN {exit !($2 < $3)}" && { echo "$1: $2 s, less than $3: kept"; return; }
  echo "$1: $2 s, not less than $3: MISSED" | tee -a "$failed"
}
same() {
  sha256sum "$@"
  [ "$(sha256sum "$@" | cut -d' ' -f1 | sort -u | wc -l)" -eq 1 ] || echo "files differ: $*" | tee -a "$failed"
}

fit() {
  say 'the command: koofu fit, lambda chosen'
  local device
  for device in cpu cuda; do
    within "koofu fit --device $device" "$(seconds fit -q "$data" -o "$folder/bench-cuda-$device.safetensors" \
      --device $device)" "$([ $device = cuda ] && echo 2.5 || echo 1e9)"
  done
  same "$folder"/bench-cuda-{cpu,cuda}.safetensors
  mv "$folder/bench-cuda-cuda.safetensors" "$folder/bench-cuda-model.safetensors"
}

use() {
  say 'the commands: transform, classify and eval of the same rows'
  local device model=$folder/bench-cuda-model.safetensors
  for device in cpu cuda; do
    echo "koofu transform --device $device: $(seconds transform -q "$model" "$data" --device $device \
      -o "$folder/bench-cuda-mapped-$device.safetensors") s"
    echo "koofu classify --device $device: $(seconds classify -q "$model" "$data" --device $device \
      -o "$folder/bench-cuda-classes-$device.csv") s"
    echo "koofu eval --device $device: $(seconds eval "$model" "$data" --device $device) s"
  done
  same "$folder"/bench-cuda-mapped-{cpu,cuda}.safetensors
  same "$folder"/bench-cuda-classes-{cpu,cuda}.csv
  rm -f "$folder"/bench-cuda-{mapped,classes}*
}

from_files() {
  say 'the command: koofu search, gallery, queries and answers in files, 1,281,000 x 256, k = 15'
  local device gallery=$folder/bench-cuda-gallery.safetensors asked=$folder/bench-cuda-asked.safetensors
  koofu synth -q -o "$data" --classes 1000 --per-class 1281 --dim 256
  koofu synth -q -o "$asked" --classes 1000 --per-class 50 --dim 256 --split 1
  koofu index -q "$data" -o "$gallery"
  for device in cpu cuda; do
    echo "koofu search --device $device: $(seconds search -q "$gallery" "$asked" -k 15 --device $device \
      -o "$folder/bench-cuda-answers-$device.safetensors") s"
  done
  same "$folder"/bench-cuda-answers-{cpu,cuda}.safetensors
  rm -f "$gallery" "$asked"
}

world() {
  say 'the synthetic world: rows as encoders make them'
  koofu synth -q -o "$folder/bench-cuda-asked.safetensors" --classes 1000 --per-class 50 --dim 768 --split 1
  knn --data "$data" --asked "$folder/bench-cuda-asked.safetensors" --check 200 --repeat 3
  rm -f "$folder/bench-cuda-asked.safetensors"
}

more() {
  local k pair
  say 'k'
  knn --k 1,10,100,1024 --check 50 --repeat 3 768 256 64
  say 'few queries'
  knn --queries 1,16,1000 --check 16 --repeat 51 768 256 64
  say 'rows in f16'
  knn --f16 --check 500 768 256
  for k in clusters outliers copies; do
    say "$k"
    knn --kind $k --check 500 --repeat 3 768 256 64
  done
  for pair in "$@"; do
    say "real rows, repeated: $pair"
    knn --data "${pair%,*}" --asked "${pair#*,}" --check 200 --repeat 3
  done
  say '13 million rows'
  knn --f16 --rows 13000000 --queries 10000 --check 20 --repeat 3 256
  say 'statistics of 21,841 classes'
  koofu synth -q -o "$data" --classes 21841 --per-class 5 --dim 768 --dtype f16
  statistics --repeat 2
  from_files
}

{
  say "the paper's table: 1,281,167 rows, 50,000 queries, k = 15"
  knn --limits --check 50000 --brute 4 --repeat 7 768 640 512 384 256 192 128 96 76 64 32
  say 'queries in pageable memory and in a file'
  knn --memory pageable,file --check 0 768 640 512 384 256 192 128 96 76 64 32
  say 'statistics of 1,281,000 x 768 in f16, in the page cache'
  koofu synth -q -o "$data" --classes 1000 --per-class 1281 --dim 768 --dtype f16
  statistics --least 4
  fit
  use
  [ -n "$quick" ] || { world; more "$@"; }
  say end
} 2>&1 | tee "$log"
[ ! -f "$failed" ] || { echo 'koofu: not as promised:'; cat "$failed"; exit 1; } >&2
echo "koofu: everything as promised; $log"
