#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the torch-free code, as the dev preset compiles it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == -* ]]; then
  echo "usage: scripts/check.sh [file.cpp ...]     default: all of launcher/, agent/ and rendezvous/"
  [[ $1 == -h || $1 == --help ]]
  exit
fi
command -v clang-tidy >/dev/null || { echo "check.sh: no clang-tidy here: apt-get install clang-tidy" >&2; exit 1; }
cmake --preset dev >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then mapfile -t files < <(git ls-files 'launcher/*.cpp' 'agent/*.cpp' 'rendezvous/*.cpp'); fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/dev --quiet --warnings-as-errors='*'
