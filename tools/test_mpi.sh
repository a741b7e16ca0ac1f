#!/bin/sh
# Builds koofu-mpi and runs its sessions (tests/mpi/run.py), with Open MPI and, if it is installed and
# without --short, with MPICH.
# usage: test_mpi.sh BUILD [ARGUMENT OF run.py ...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
jobs=$(nproc 2> /dev/null || echo 2)
python=/usr/bin/python3
[ -x "$python" ] || python=python3

sessions() { # BUILD MPIRUN ARGUMENT...
  folder=$1 mpirun=$2
  shift 2
  cmake --build "$folder" -j "$jobs" --target koofu koofu-mpi mpi_no_memory
  "$python" tests/mpi/run.py "$folder/koofu" "$folder/mpi/koofu-mpi" --mpirun "$mpirun" "$@"
}

cmake -S . -B "$build" -G Ninja -DKOOFU_MPI=ON -DKOOFU_TESTS=ON > /dev/null
launcher=mpirun
command -v mpirun.openmpi > /dev/null && launcher=mpirun.openmpi
sessions "$build" "$launcher" "$@"
for argument in "$@"; do
  [ "$argument" != --short ] || exit 0
done
command -v mpicc.mpich > /dev/null || exit 0
cmake -S . -B build-mpich -G Ninja -DKOOFU_MPI=ON -DKOOFU_TESTS=ON -DMPI_C_COMPILER="$(command -v mpicc.mpich)" > /dev/null
sessions build-mpich mpirun.mpich "$@"
