#!/usr/bin/env bash
# Lets g++ read all code without LibTorch, as the builds use clang: an error or a warning of it ends this with 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/gcc
cmake -S . -B $build -G Ninja -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-fsyntax-only -Werror' \
  -DDDPRUN_TRAINER=OFF -DDDPRUN_TESTS=OFF >$build.log 2>&1 || { cat $build.log >&2; exit 1; }
mapfile -t objects < <(ninja -C $build -t targets all | sed -n 's/^\(.*\.o\): CXX_COMPILER.*/\1/p')
[ ${#objects[@]} -gt 0 ]
ninja -C $build -j 1 --quiet "${objects[@]}"  # without objects ninja asks for each every time; ccache answers
