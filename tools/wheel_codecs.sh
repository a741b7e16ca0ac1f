#!/bin/sh
# Installs the picture libraries in the manylinux container of cibuildwheel. libspng, which the distribution lacks, is
# built from source, at the commit of version 0.7.4.
# usage: wheel_codecs.sh   (SPNG: a clone to use instead of the public one; PREFIX: default /usr/local)
set -eu
if command -v dnf > /dev/null; then
  dnf install -q -y libjpeg-turbo-devel libwebp-devel zlib-devel
fi
commit=fb768002d4288590083a476af628e51c3f1d47cd
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git init -q "$work"
cd "$work"
git fetch -q --depth 1 "${SPNG:-https://github.com/randy408/libspng}" "$commit"
git checkout -q FETCH_HEAD
${CC:-cc} -O2 -fPIC -DSPNG_STATIC -I spng -c spng/spng.c -o spng.o
ar rcs libspng.a spng.o
mkdir -p "${PREFIX:-/usr/local}/include" "${PREFIX:-/usr/local}/lib"
cp spng/spng.h "${PREFIX:-/usr/local}/include/"
cp libspng.a "${PREFIX:-/usr/local}/lib/"
