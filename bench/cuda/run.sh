#!/bin/sh
# The paper's table of search times, and statistics, on a GPU: bench/cuda/run.sh BUILD [quick]. What it
# prints also goes to BUILD/bench-cuda.log. Everything is checked against the CPU; the exit status is 1 if a
# list or a file differs.
set -eu
build=$1
quick=${2:-}
log=$build/bench-cuda.log
knn="$build/bench/bench_cuda_knn --plugin $build/libkoofu-cuda.so"
run() {
  # shellcheck disable=SC2086
  $knn "$@" || echo "knn $*: status $?" >> "$build/bench-cuda.failed"
}
# Statistics of as many rows as ImageNet has, and a fit; of many classes; of rows in f32.
statistics() {
  data=$build/bench-cuda.safetensors
  "$build/koofu" synth -q -o "$data" "$@"
  "$build/bench/bench_cuda_stats" --plugin "$build/libkoofu-cuda.so" "$data" ||
    echo "stats $*: status $?" >> "$build/bench-cuda.failed"
  rm -f "$data"
}
rm -f "$build/bench-cuda.failed"
{
  run --pinned --check 2000 --repeat 7 768 640 512 384 256 192 128 96 76 64 32
  statistics --classes 1000 --per-class 1281 --dim 768 --dtype f16
  [ -n "$quick" ] || {
    statistics --classes 21841 --per-class 5 --dim 768 --dtype f16
    statistics --classes 1000 --per-class 500 --dim 768
    run --check 200 768 256 64
    run --rows 13000000 --queries 10000 --check 20 --repeat 3 256
    run --f16 --check 200 768 256
    for k in 1 10 100 1024; do run --pinned --k $k --check 50 768 256; done
    for q in 1 16 1000; do run --pinned --queries $q --check 16 --repeat 101 768 256 64; done
    for kind in clusters outliers copies; do run --pinned --kind $kind --check 200 768 256 64; done
  }
} 2>&1 | tee "$log"
[ ! -f "$build/bench-cuda.failed" ] || { cat "$build/bench-cuda.failed"; exit 1; }
