#!/bin/sh
# Builds what the tests and benchmarks of GPUs need, in one folder: build_cuda.sh BUILD. On GPU machines packages often
# cannot be installed, so a compiler, CMake, Ninja and nvcc suffice; missing picture libraries are left out.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc 2> /dev/null || echo 2)
for tool in cc cmake ninja; do
  command -v $tool > /dev/null || { tools/packages.sh build; break; }
done
tools/nvcc.sh > /dev/null
# A folder configured with all tests stays so.
cmake -S . -B "$build" -G Ninja -DKOOFU_CUDA=ON -DKOOFU_BENCH=ON -DKOOFU_DEVICE_TESTS=ON -DKOOFU_JPEG=AUTO \
  -DKOOFU_PNG=AUTO -DKOOFU_WEBP=AUTO -DKOOFU_ZLIB=AUTO > /dev/null
cmake --build "$build" -j "$jobs"
