#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over what the programs and libraries are made of; or lets g++ read it, as the builds use clang.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/check.sh [--gcc] [--again] [-j N] [folder | file.cpp ...]

Of launcher/, agent/, rendezvous/ and trainer/ (default: all), by the
clang-tidy of .venv (scripts/setup.sh --test). It reads the files in the groups
of eight in which they are compiled, so for one file it checks its neighbours,
too. ccache keeps what was read without a finding: until a file, a header, a
flag, .clang-tidy or the tool changes, it is not read again.

  --gcc     by g++ and its warnings, without what needs LibTorch
  --again   also what is known to be without a finding
  -j N      so many at a time (default: as many as there are cores)
END
}

jobs=$(nproc)
reader=clang-tidy compiler=clang++
wanted=()
if [ -n "${DDPRUN_SOAK:-}" ]; then export CCACHE_RECACHE=1; fi
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --gcc) reader=gcc compiler=g++ ;;
    --again) export CCACHE_RECACHE=1 ;;
    -j) jobs=${2:-} && shift ;;
    -*) echo "check.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    *) wanted+=("$(realpath --relative-to=. "$1")") ;;
  esac
  shift
done
export DDPRUN_READER=$reader DDPRUN_CLANG_TIDY=${DDPRUN_CLANG_TIDY:-$PWD/.venv/bin/clang-tidy}
[ $reader = gcc ] || [ -x "$DDPRUN_CLANG_TIDY" ] || { echo "check.sh: no $DDPRUN_CLANG_TIDY: run scripts/setup.sh --test" >&2; exit 1; }

command -v ccache >/dev/null || { echo "check.sh: no ccache: run scripts/setup.sh --test" >&2; exit 1; }

# A folder of its own, in which nothing is built: clang-tidy cannot read another compiler's precompiled headers.
build=build/$reader
mkdir -p $build
(
  flock 9  # several at a time, as ctest runs it
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=$compiler -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DDDPRUN_UNITY=ON -DDDPRUN_TESTS=OFF -DDDPRUN_TRAINER=$([ $reader = gcc ] && echo OFF || echo ON) \
    ${DDPRUN_VENV:+-DDDPRUN_VENV="$DDPRUN_VENV"} >$build/configure.log 2>&1 9>&- || { cat $build/configure.log >&2; exit 1; }
) 9>$build.lock

# Of each group that is compiled at a time and holds a wanted file: the command that compiles it.
commands() {
  python3 - "$build" "${wanted[@]}" <<'END'
import json, os, re, sys
build, wanted = sys.argv[1], sys.argv[2:]
for entry in json.load(open(f"{build}/compile_commands.json")):
    files = [os.path.relpath(entry["file"])]
    if "/units/" in entry["file"]:
        files = re.findall(r'^#include "(.*)"$', open(entry["file"]).read(), re.MULTILINE)
    if not wanted or any(f == name or f.startswith(name + "/") or name == "." for f in files for name in wanted):
        os.makedirs(os.path.dirname(os.path.join(build, entry["command"].split(" -o ")[1].split()[0])), exist_ok=True)
        print(entry["command"], end="\0")
END
}
commands >$build/commands.$$
trap 'rm -f $build/commands.$$' EXIT
if [ ! -s $build/commands.$$ ]; then
  echo "check.sh: no file of ${wanted[*]} is compiled into a program or a library" >&2
  exit 2
fi

# ccache takes the reader for a compiler. Comments count: some of them silence clang-tidy.
export CCACHE_COMPILER=$PWD/scripts/check_reader.sh CCACHE_COMPILERTYPE=$([ $reader = gcc ] && echo gcc || echo clang)
export CCACHE_COMMENTS=1 CCACHE_COMPILERCHECK
CCACHE_COMPILERCHECK="string:$reader $($compiler --version | sed -n 1p) $("$DDPRUN_CLANG_TIDY" --version 2>&1 | tr -d '\n')
$(cat .clang-tidy scripts/check_reader.sh | sha256sum)"
launcher="$PWD/cmake/compile_cached.sh $PWD ccache"
cd $build
xargs -0 -a commands.$$ -I '{}' -P "$jobs" sh -c "$launcher {}"
