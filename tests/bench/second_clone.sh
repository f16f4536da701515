#!/usr/bin/env bash
# Clones what is committed, builds the tests of all presets, does so again in another folder, and says what the second build found
# in ccache and how long both took: second_clone.sh [preset ...]. It fails if less than 98 % was found.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CCACHE_STATSLOG=$folder/statistics
presets=("${@:-release}")
if [ $# -eq 0 ]; then presets=(release dev tsan); fi

status=0
printf '%-8s  %-6s  %8s  %14s  %8s\n' preset clone seconds found MB
for clone in first second; do
  git clone -q . "$folder/$clone"
  ln -s "$source/.venv" "$folder/$clone/.venv"
  cd "$folder/$clone"
  for preset in "${presets[@]}"; do
    : >"$CCACHE_STATSLOG"
    begin=$SECONDS
    cmake --preset "$preset" -DDDPRUN_TESTS=ON >/dev/null
    cmake --build --preset "$preset" -- -j"$(nproc)" --quiet
    hits=$(grep -cE '^(direct|preprocessed)_cache_hit$' "$CCACHE_STATSLOG" || true)
    all=$((hits + $(grep -c '^cache_miss$' "$CCACHE_STATSLOG" || true)))
    printf '%-8s  %-6s  %8d  %14s  %8d\n' "$preset" $clone $((SECONDS - begin)) "$hits of $all" "$(du -sm build/"$preset" | cut -f 1)"
    if [ $clone = second ] && [ $((hits * 100)) -lt $((all * 98)) ]; then status=1; fi
  done
  cd "$source"
done
exit $status
