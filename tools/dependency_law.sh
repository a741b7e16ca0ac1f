#!/bin/sh
# The dependency law of docs/architecture.md, checked on the #include lines of src/, cli/, serve/, python/, mpi/
# and examples/. Prints every line that breaks it.
set -eu
cd "$(dirname "$0")/.."

# The rooms that files of a room may include. Only `kernel` includes the public headers itself; the others get them
# from base.h.
rooms_seen_by() {
  case $1 in
    kernel) echo 'kernel' ;;
    base) echo 'base kernel' ;;
    device) echo 'device base' ;;
    file) echo 'file base' ;;
    stats) echo 'stats file device base' ;;
    model) echo 'model stats file device base' ;;
    search) echo 'search model stats file device base' ;;
    score) echo 'score search model stats file base' ;;
    choose) echo 'choose score search model stats file base' ;;
    report) echo 'report choose score search model stats file base' ;;
    recipe) echo 'recipe report encode choose score search model stats file base' ;;
    encode) echo 'encode file base' ;;
    synth) echo 'synth file base' ;;
    export) echo 'export search model stats file base' ;;
    info) echo 'info search model stats file base' ;;
    *) echo "$1: unknown room; add it to tools/dependency_law.sh" >&2; exit 1 ;;
  esac
}

# What a room shows the others: one header with its own name, and base/json.h, base/text.h and search/gallery.h.
# kernel/kernel.h is for base alone, as the lists above say.
shown() { # ROOM HEADER
  [ "$2" = "$1/$1.h" ] || [ "$2" = base/json.h ] || [ "$2" = base/text.h ] || [ "$2" = search/gallery.h ]
}

# Included headers of this repository, in quotes or angle brackets: 'FILE:LINE HEADER'.
includes() {
  grep -n '^[[:space:]]*#[[:space:]]*include' "$@" /dev/null |
    sed -n 's/^\([^:]*:[0-9]*\):[^"<]*["<]\([^">]*\)[">].*/\1 \2/p'
}

check_room() { # ROOM
  allowed=" $(rooms_seen_by "$1") "
  includes src/"$1"/*.[ch] | while read -r place header; do
    case $header in
      *..*) echo "$place: write $header as room/header.h"; continue ;;
    esac
    other=${header%%/*}
    [ -d "src/$other" ] || continue # a header of the system
    case $allowed in
      *" $other "*) [ "$other" = "$1" ] || shown "$other" "$header" || echo "$place: $header stays in its room" ;;
      *) echo "$place: $1 must not see $header" ;;
    esac
  done
}

# cli/, serve/, python/src/, mpi/ and examples/ see the public headers and their own; mpi/ also that of the program,
# cli/ that of the server, serve/ the reader of JSON, whose header includes no other one of src/.
check_outside() { # FOLDER [HEADER OF src/ THAT IT SEES]
  includes "$1"/*.[ch] | while read -r place header; do
    case $header in
      *..*) echo "$place: $header leads out of $1" ;;
      "${2-}") continue ;;
      *) [ ! -e "src/$header" ] || echo "$place: $1 must not see $header" ;;
    esac
  done
}

found=$(
  for room in src/*/; do check_room "$(basename "$room")"; done
  check_outside cli
  check_outside serve base/json_read.h
  includes src/base/json_read.h | while read -r place header; do
    [ ! -e "src/$header" ] || echo "$place: serve/ would see $header too"
  done
  check_outside python/src
  check_outside mpi
  check_outside examples
)
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
echo 'the dependency law holds'
