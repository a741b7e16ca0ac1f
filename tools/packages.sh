#!/bin/sh
# Installs the missing Debian or Ubuntu packages of the named groups.
# usage: packages.sh GROUP...   (build test browser mpi quick lint valgrind fuzz bench python peers)
# shellcheck disable=SC2034 # the groups are used by name
set -eu

build='gcc libc6-dev cmake ninja-build libjpeg-dev libspng-dev libwebp-dev zlib1g-dev libzstd-dev libmicrohttpd-dev'
test='pkg-config libcmocka-dev python3 python3-dev python3-numpy python3-scipy python3-sklearn python3-pandas python3-pytest groff-base'
browser='chromium python3 python3-venv python3-pip'
mpi='openmpi-bin libopenmpi-dev'
quick='clang clang-format cppcheck shellcheck pyflakes3'
lint="$quick clang-tidy"
valgrind='valgrind libc6-dbg'
fuzz='clang libclang-rt-dev python3'
bench='python3 python3-venv python3-pip time'
python='python3 python3-dev python3-venv python3-pip default-jre-headless'
peers='python3-faiss libopenblas0-pthread'

wanted=''
for group in "$@"; do
  eval "wanted=\"\$wanted \$$group\""
done

if ! command -v dpkg-query > /dev/null; then
  echo "koofu: not Debian or Ubuntu: please install$wanted" >&2
  exit 0
fi
missing=''
for package in $wanted; do
  state=$(dpkg-query -W -f '${Status}' "$package" 2> /dev/null || true)
  case $state in
    *'install ok installed') ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

echo "koofu: installing$missing"
root=''
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "koofu: neither root nor sudo: please install$missing" >&2; exit 1; }
  root='sudo'
fi
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086 # the list must be split
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null
