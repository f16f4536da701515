#!/usr/bin/env bash
# Sets up, builds, and runs every test: everything in release, the torch-free part again under ASan and UBSan and again
# under TSan, and each fuzzer for half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/test.sh [--soak] [ctest options]

Installs what is missing (scripts/setup.sh --test), builds all presets, and runs every test in one ctest.
-R, -L and ctest's other options reach it.

  --soak    the full counts of tests with chance in them, ten minutes of each fuzzer; writes their table to docs/soak.md.
            DDPRUN_SEED=<number> repeats an earlier soak (default: a new one)
END
}

soak=false
ctest_options=()
for option in "$@"; do
  case $option in
    --soak) soak=true ;;
    -h | --help) usage && exit ;;
    *) ctest_options+=("$option") ;;
  esac
done

# The stock PyTorch resolves its peers' names; a slow resolver would stall every test that uses it.
export RES_OPTIONS='timeout:1 attempts:1'

scripts/setup.sh --test
for preset in release dev tsan; do
  cmake --preset "$preset" -DDDPRUN_TESTS=ON >/dev/null
  cmake --build --preset "$preset" -- -j"$(nproc)" --quiet
done

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- -j"$(nproc)" --quiet

# One ctest over all build folders: one count, one list of failures at the end.
echo 'subdirs(dev tsan fuzz release)' >build/CTestTestfile.cmake
run_tests() { ctest --test-dir build --output-on-failure -j"$(nproc)" --no-tests=error "${ctest_options[@]}"; }
if ! $soak; then
  run_tests
  exit
fi

export DDPRUN_SOAK=1 DDPRUN_FUZZ_SECONDS=600 DDPRUN_SEED="${DDPRUN_SEED:-$(date +%s)}" DDPRUN_SOAK_TABLE="$PWD/build/soak-table.md"
: >"$DDPRUN_SOAK_TABLE"
status=0
run_tests || status=$?
# Rows of an earlier soak stay until theirs are run again.
place="$(git describe --always --dirty), $(date -u +%Y-%m-%d)$([ $status -eq 0 ] || echo ", FAILED")"
sed "s/$/ $place |/" "$DDPRUN_SOAK_TABLE" >"$DDPRUN_SOAK_TABLE.new"
awk -F'|' 'FILENAME == ARGV[1] { again[$2]; next } /^\| / && !/^\| what / && !($2 in again)' "$DDPRUN_SOAK_TABLE.new" docs/soak.md \
  >"$DDPRUN_SOAK_TABLE.kept"
{
  echo "# Soaks"
  echo
  echo "Written by \`scripts/test.sh --soak\`: tests with chance in them, at their full counts, the last time each was run, on" \
    "$(nproc) cores. A row for each build that runs it. FAILED: some test of that soak failed, of this row or another one."
  echo
  echo "| what | seeds | runs | as promised | when |"
  echo "|---|---|---|---|---|"
  sort "$DDPRUN_SOAK_TABLE.kept" "$DDPRUN_SOAK_TABLE.new"
} >"$DDPRUN_SOAK_TABLE.page"
mv "$DDPRUN_SOAK_TABLE.page" docs/soak.md
exit $status
