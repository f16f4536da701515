#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over what the programs and libraries are made of.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/check.sh [-j N] [folder | file.cpp ...]

Of launcher/, agent/, rendezvous/ and trainer/ (default: all), by the clang-tidy of .venv (scripts/setup.sh --test). It reads the
files in the groups of eight in which they are compiled, so for one file it checks its neighbours, too.

  -j N   so many at a time (default: as many as there are cores)
END
}

jobs=$(nproc)
wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    -j) jobs=${2:-} && shift ;;
    -*) echo "check.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    *) wanted+=("$(realpath --relative-to=. "$1")") ;;
  esac
  shift
done
tidy=.venv/bin/clang-tidy
[ -x $tidy ] || { echo "check.sh: no $tidy: run scripts/setup.sh --test" >&2; exit 1; }

# A folder of its own, in which nothing is built: clang-tidy cannot read another compiler's precompiled headers.
build=build/tidy
(
  mkdir -p $build
  flock 9  # several at a time, as ctest runs it
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DDDPRUN_UNITY=ON -DDDPRUN_TESTS=OFF ${DDPRUN_VENV:+-DDDPRUN_VENV="$DDPRUN_VENV"} >$build/configure.log 2>&1 9>&- || { cat $build/configure.log >&2; exit 1; }
) 9>$build.lock

# groups: what is compiled at a time, and for each the project's files in it.
mapfile -t groups < <(
  sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' $build/compile_commands.json | while read -r group; do
    if [[ $group == */units/* ]]; then files=$(sed -n 's/^#include "\(.*\)"$/\1/p' "$group"); else files=${group#"$PWD/"}; fi
    for name in "${wanted[@]:-.}"; do
      if [ "$name" = . ] || grep -qE "^$name(/|\$)" <<<"$files"; then echo "$group" && break; fi
    done
  done
)
if [ ${#groups[@]} -eq 0 ]; then
  echo "check.sh: no file of ${wanted[*]} is compiled into a program or a library" >&2
  exit 2
fi
printf '%s\0' "${groups[@]}" | xargs -0 -n 1 -P "$jobs" $tidy -p $build --quiet --warnings-as-errors='*'
