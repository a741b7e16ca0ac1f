#!/bin/sh
# The paper's table of search times on a GPU: bench/cuda/run.sh BUILD [quick]. What it prints also goes to
# BUILD/bench-cuda.log. Every line is checked against the CPU; the exit status is 1 if a list differs.
set -eu
build=$1
quick=${2:-}
log=$build/bench-cuda.log
knn="$build/bench/bench_cuda_knn --plugin $build/libkoofu-cuda.so"
run() {
  # shellcheck disable=SC2086
  $knn "$@" || echo "knn $*: status $?" >> "$build/bench-cuda.failed"
}
rm -f "$build/bench-cuda.failed"
{
  run --pinned --check 2000 768 640 512 384 256 192 128 96 76 64 32
  [ -n "$quick" ] || {
    run --check 200 768 256 64
    run --f16 --check 200 768 256
    for k in 1 10 100 1024; do run --pinned --k $k --check 50 768 256; done
    for q in 1 16 1000; do run --pinned --queries $q --check 16 --repeat 101 768 256 64; done
    for kind in clusters outliers copies; do run --pinned --kind $kind --check 200 768 256 64; done
  }
} 2>&1 | tee "$log"
[ ! -f "$build/bench-cuda.failed" ] || { cat "$build/bench-cuda.failed"; exit 1; }
