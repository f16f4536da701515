#!/usr/bin/env bash
# A compiler to ccache (scripts/check.sh): what it compiles is read by clang-tidy or by g++, and the object says only that it was.
set -euo pipefail
compiler=clang++
if [ "$DDPRUN_READER" = gcc ]; then compiler=g++; fi
for argument in "$@"; do
  if [ "$argument" = -E ]; then exec $compiler "$@"; fi
done

flags=() file='' object=''
while [ $# -gt 0 ]; do
  case $1 in
    -o) object=$2 && shift ;;
    -c) ;;
    *.cpp) file=$1 ;;
    *) flags+=("$1") ;;
  esac
  shift
done
case $DDPRUN_READER in
  gcc) $compiler "${flags[@]}" -fsyntax-only -Werror "$file" ;;
  *) said=$("$DDPRUN_CLANG_TIDY" --quiet --warnings-as-errors='*' "$file" -- "${flags[@]}" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; } ;;
esac
echo read >"$object"
