#!/bin/sh
# Installs koofu into a folder of its own and uses it as anybody would: examples built through
# pkg-config and through find_package, shared and static; man pages, completion, exported names.
# usage: install.sh BUILD_FOLDER CMAKE CC
set -eu
build=$1 cmake=$2 cc=$3
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
prefix=$work/prefix
examples=$(basename -s .c "$source"/examples/*.c)

fail() { echo "FAIL: $*" >&2; exit 1; }
# Runs a command, and shows what it said only where it failed.
quiet() { "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
passed() { echo "passed: $*"; }

# --- every file in its place ----------------------------------------------------------------------

quiet "$cmake" --install "$build" --prefix "$prefix"
for file in bin/koofu include/koofu.h include/koofu_encode.h include/koofu_judge.h include/koofu_files.h \
  include/koofu_comm.h lib*/libkoofu.a lib*/libkoofu.so lib*/libkoofu.so.[0-9]* \
  lib*/pkgconfig/koofu.pc lib*/cmake/koofu/koofuConfig.cmake share/man/man1/koofu.1 \
  share/bash-completion/completions/koofu share/zsh/site-functions/_koofu \
  share/fish/vendor_completions.d/koofu.fish share/doc/koofu/LICENSE; do
  # shellcheck disable=SC2086 # the pattern is meant to be expanded
  ls "$prefix"/$file > /dev/null || fail "$file is not installed"
done
lib=$(dirname "$(ls "$prefix"/lib*/libkoofu.a)")
version=$("$prefix/bin/koofu" version)
passed "files ($version)"

# With DESTDIR the files go elsewhere, while koofu.pc names the place where they will be.
DESTDIR=$work/stage quiet "$cmake" --install "$build" --prefix /opt/koofu
staged=$work/stage/opt/koofu
[ -x "$staged/bin/koofu" ] || fail 'DESTDIR is not respected'
grep -qx 'prefix=/opt/koofu' "$staged"/lib*/pkgconfig/koofu.pc || fail 'DESTDIR: prefix in koofu.pc'
if grep -rlF "$work" "$staged/lib"*/cmake "$staged/lib"*/pkgconfig; then fail 'DESTDIR in a file'; fi
passed DESTDIR

# --- the library ----------------------------------------------------------------------------------

quiet "$source/tools/abi.py" --cc "$cc" --include "$prefix/include" --exports "$lib/libkoofu.so"
nm -g --defined-only "$lib/libkoofu.a" | awk 'NF == 3 { print $3 }' | grep -v '^kf_' >&2 &&
  fail 'libkoofu.a has global names that do not begin with kf_'
passed 'exported names, those of the headers'

# --- the examples, as a user builds them ----------------------------------------------------------

run_examples() { # FOLDER
  models=$source/tests/golden/models
  for example in $examples; do
    case $example in
      words_for_a_picture) quiet "$1/$example" "$models/clip-f32" "$models/pictures/a.png" 'a cat' 'a dog' ;;
      fit | report | reference) continue ;; # need files: tests/examples.py and reference.py run them
      *) quiet "$1/$example" ;;
    esac
    [ -s "$work/log" ] || fail "$1/$example prints nothing"
  done
}

export PKG_CONFIG_PATH="$lib/pkgconfig"
mkdir "$work/pc" "$work/pc_static"
for example in $examples; do
  # shellcheck disable=SC2046 # flags are meant to be split
  quiet "$cc" "$source/examples/$example.c" -o "$work/pc/$example" $(pkg-config --cflags --libs koofu) -lm
  # koofu itself statically; not every library that it needs has a static form everywhere.
  # shellcheck disable=SC2046
  quiet "$cc" "$source/examples/$example.c" -o "$work/pc_static/$example" \
    $(pkg-config --static --cflags --libs koofu | sed 's/-lkoofu/-l:libkoofu.a/')
done
LD_LIBRARY_PATH=$lib run_examples "$work/pc"
run_examples "$work/pc_static"
passed 'examples through pkg-config, shared and static'

# README's program and commands, as they are printed, after `make install PREFIX=$HOME/.local`.
(
  HOME=$work/home && export HOME && mkdir "$HOME" && cd "$HOME" && unset PKG_CONFIG_PATH
  quiet "$cmake" --install "$build" --prefix "$HOME/.local"
  awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" > fit.c
  grep -E '^    (export PKG_CONFIG_PATH|cc fit.c .*pkg-config)' "$source/README.md" > lines.sh
  [ "$(wc -l < lines.sh)" -eq 2 ] || fail "README's commands: $(cat lines.sh)"
  quiet "$HOME/.local/bin/koofu" synth --classes 4 --dim 8 --per-class 9 -o train.safetensors
  quiet sh -eu lines.sh
  quiet ./fit
  [ -s model.safetensors ] || fail "README's program writes no model"
  echo mine > "$HOME/.local/share/doc/koofu/mine"
  quiet "$source/tools/uninstall.sh" "$build" "$HOME/.local" "$cmake"
  [ "$(find "$HOME/.local" ! -type d)" = "$HOME/.local/share/doc/koofu/mine" ] || fail "uninstall leaves $(find "$HOME/.local" ! -type d)"
  [ ! -d "$HOME/.local/lib/cmake/koofu" ] || fail 'uninstall leaves a folder of its own'
) || exit 1
passed "README's commands, and uninstall"

# Every target of the Makefile has a line in `make help`.
for target in $(sed -n 's/^\([a-z-]*\):.*/\1/p' "$source/Makefile"); do
  [ "$target" = tested ] || make -s -C "$source" help | grep -q "^make $target  *[A-Z].*\.\$" || fail "make help lacks $target"
done
passed 'make help'

# The prefix is moved first: the package finds its files from where it is itself.
mv "$prefix" "$work/moved"
for library in koofu::koofu koofu::koofu_static; do
  quiet "$cmake" -S "$source/examples" -B "$work/$library" -DCMAKE_PREFIX_PATH="$work/moved" \
    -DCMAKE_C_COMPILER="$cc" -DKOOFU_LIBRARY="$library" -G Ninja
  quiet "$cmake" --build "$work/$library" -j 2
  run_examples "$work/$library"
done
prefix=$work/moved
passed 'examples through find_package, shared and static'

# --- man pages and completion ---------------------------------------------------------------------

pages=0
for page in "$prefix"/share/man/man1/*.1; do
  groff -man -Tutf8 -ww -P-cbu "$page" > "$work/text" 2> "$work/log" || fail "$page"
  [ ! -s "$work/log" ] || { cat "$work/log" >&2; fail "groff complains about $page"; }
  grep -q SYNOPSIS "$work/text" || fail "$page has no synopsis"
  pages=$((pages + 1))
done
# koofu.1 and one for each command that the program names.
commands=$("$prefix/bin/koofu" help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
for command in $commands; do
  [ -f "$prefix/share/man/man1/koofu-$command.1" ] || fail "no man page of $command"
done
[ "$pages" -eq $(($(echo "$commands" | wc -w) + 1)) ] || fail "$pages man pages are not one a command"
passed "$pages man pages"

share=$prefix/share
quiet bash -n "$share/bash-completion/completions/koofu"
if command -v zsh > /dev/null; then quiet zsh -n "$share/zsh/site-functions/_koofu"; fi
if command -v fish > /dev/null; then quiet fish -n "$share/fish/vendor_completions.d/koofu.fish"; fi
passed completion
