#!/usr/bin/env bash
# Compiles through ccache, so that a second clone on the same machine finds what the first one compiled:
#   compile_cached.sh PROJECT-FOLDER CCACHE COMPILER ARGUMENT...
# CMake gives absolute paths; the project's become relative here, as far as ccache does not do that itself.
set -euo pipefail
project=$1 ccache=$2
shift 2
if [[ $PWD/ != "$project"/* ]]; then exec "$ccache" "$@"; fi  # a build folder elsewhere: nothing is alike in two clones

up=${PWD#"$project"}
up=${up//[^\/]/}
up=${up//\//../}
up=${up%/}
up=${up:-.}
arguments=() precompiled='' output=false
for argument in "$@"; do
  if [[ $argument == "$project"/* ]]; then argument=$up${argument#"$project"}; fi
  if $output && [[ $argument == *.pch ]]; then precompiled=$argument; fi
  if [[ $argument == -o ]]; then output=true; else output=false; fi
  arguments+=("$argument")
done
export CCACHE_BASEDIR=$project CCACHE_PCH_EXTSUM=1
# ccache takes precompiled headers only when told that defines and the time of day do not matter in them.
export CCACHE_SLOPPINESS=pch_defines,time_macros
if [ -z "$precompiled" ]; then exec "$ccache" "${arguments[@]}"; fi

# clang looks for a precompiled header's sources in the folder where it was compiled, so no other clone may have it. Its users may be
# shared: for them ccache reads, instead of the header, the sum of what went into it.
flags=()
skip=0
for argument in "${arguments[@]:1}"; do
  if [ $skip -gt 0 ]; then skip=$((skip - 1)) && continue; fi
  case $argument in
    -o | -MF | -MT | -MQ) skip=1 ;;
    -MD | -MMD | -c) ;;
    -emit-pch) unset 'flags[-1]' ;;  # and the -Xclang before it
    *) flags+=("$argument") ;;
  esac
done
{
  printf '%s\n' "${flags[@]//"$project"/.}"
  "${arguments[0]}" "${flags[@]}" -E | sed "s|$project|.|g"
} | sha256sum >"$precompiled.sum"
CCACHE_NAMESPACE=$project exec "$ccache" "${arguments[@]}"
