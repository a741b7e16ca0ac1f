#!/bin/sh
# Removes what `make install` puts below PREFIX, and koofu's own folders: a second installation, in a folder that is
# thrown away, says which files these are.
# usage: uninstall.sh BUILD PREFIX [CMAKE]   (DESTDIR: as for make install)
set -eu
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
DESTDIR=$stage "${3:-cmake}" --install "$1" --prefix "$2" > "$stage.log" 2>&1 || { cat "$stage.log" >&2; rm -f "$stage.log"; exit 1; }
rm -f "$stage.log"
cd "$stage"
find . -depth \( ! -type d -o -path '*/koofu' \) | while IFS= read -r path; do
  own=${DESTDIR:-}${path#.}
  if [ -d "$own" ] && [ ! -L "$own" ]; then
    rmdir "$own" 2> /dev/null || echo "koofu: $own is kept, since it holds other files" >&2
  elif [ -e "$own" ] || [ -L "$own" ]; then
    rm "$own"
    echo "-- Removed: $own"
  fi
done
