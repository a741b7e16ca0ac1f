#!/bin/sh
# What the tests and benchmarks of GPUs need, in one build folder: build_cuda.sh BUILD. GPU machines often have no
# packages to install: with a compiler, CMake, Ninja and nvcc there, nothing else is asked for; libraries that
# read pictures are left out where they are missing.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc 2> /dev/null || echo 2)
for tool in cc cmake ninja; do
  command -v $tool > /dev/null || { tools/packages.sh build; break; }
done
tools/nvcc.sh > /dev/null
# A folder that has all tests keeps them.
cmake -S . -B "$build" -G Ninja -DKOOFU_CUDA=ON -DKOOFU_BENCH=ON -DKOOFU_DEVICE_TESTS=ON -DKOOFU_JPEG=AUTO \
  -DKOOFU_PNG=AUTO -DKOOFU_WEBP=AUTO -DKOOFU_ZLIB=AUTO > /dev/null
cmake --build "$build" -j "$jobs"
