#!/usr/bin/env bash
# Sets up, builds, and runs the tests: everything in release, what gains from it again under ASan and UBSan and under TSan,
# and the fuzzers over their corpus. Says at the end which part took how long.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/test.sh [--fast | --soak] [ctest options]

Installs what is missing (scripts/setup.sh --test), builds all presets, and
runs the tests in one ctest. -R, -L and ctest's other options reach it.

  --fast    the release build alone, and of its tests those that answer within
            two minutes: unit tests, simulation, one of each kind of job
  --soak    every test in every build, those of LibTorch 2.11, too; the full
            counts of tests with chance in them, ten minutes of each fuzzer;
            writes their table to docs/figures/soak.md. DDPRUN_SEED=<number>
            repeats an earlier soak (default: a new one);
            DDPRUN_SOAK_ROWS=<text> runs only the series whose row contains the
            text
END
}

tier=default
ctest_options=()
for option in "$@"; do
  case $option in
    --fast | --soak) tier=${option#--} ;;
    -h | --help) usage && exit ;;
    *) ctest_options+=("$option") ;;
  esac
done

# A row for each part: its name, its seconds, and of what it compiled or read how much ccache knew.
parts=()
mkdir -p build
export CCACHE_STATSLOG=$PWD/build/ccache-statistics
timed() {
  local name=$1 begin=$SECONDS status=0
  shift
  : >"$CCACHE_STATSLOG"
  "$@" || status=$?
  parts+=("$name|$((SECONDS - begin))|$(awk '/^(direct|preprocessed)_cache_hit$/ { known++ } /^cache_miss$/ { all++ }
    END { all += known; if (all) printf "%d of %d", known, all }' "$CCACHE_STATSLOG")")
  return $status
}
times=build/Testing/Temporary/times
rm -f $times
tell() {
  echo
  printf '%s\n' "${parts[@]}" | awk -F'|' 'BEGIN { printf "%-20s %8s   %s\n", "part", "seconds", "known to ccache" }
    { printf "%-20s %8d   %s\n", $1, $2, $3; sum += $2 } END { printf "%-20s %8d\n", "all", sum }'
  [ -s $times ] || return 0
  echo
  awk -F'\t' 'BEGIN { printf "%-20s %8s   %s\n", "tests", "seconds", "number (several run at a time)" }
    { match($2, /^((sanitized|tsan|torch-[0-9.]+)\/)?[^\/]+/); kind = substr($2, 1, RLENGTH); seconds[kind] += $1; number[kind]++ }
    END { for (kind in seconds) printf "%-20s %8d   %d\n", kind, seconds[kind], number[kind] | "sort -k2,2nr" }' $times
  echo
  echo 'the dearest tests, in seconds'
  sort -rn $times | awk -F'\t' 'NR <= 10 { printf "%8.1f   %s\n", $1, $2 }'
}
trap 'tell || true' EXIT  # a table fails nothing

configured_with=(-DDDPRUN_TESTS=ON -DDDPRUN_ALL_SANITIZED=$([ $tier = soak ] && echo ON || echo OFF))
presets=(release dev tsan)
if [ $tier = fast ]; then presets=(release); fi
build() {
  cmake --preset "$1" "${configured_with[@]}" >/dev/null
  cmake --build --preset "$1" -- -j"$(nproc)" --quiet
}

# The stock PyTorch resolves its peers' names; a slow resolver would stall every test that uses it.
export RES_OPTIONS='timeout:1 attempts:1'

timed set-up scripts/setup.sh --test
for preset in "${presets[@]}"; do timed "build $preset" build "$preset"; done
if [ $tier = soak ]; then  # everything with the oldest LibTorch, too, and by the other compiler
  timed 'set-up torch 2.11' scripts/setup.sh --test --torch 2.11
  presets+=(torch-2.11)
  cmake --preset release -B build/torch-2.11 -DDDPRUN_VENV="$PWD/.venv-2.11" -DDDPRUN_TEST_PREFIX=torch-2.11/ \
    -DCMAKE_CXX_COMPILER=g++ >/dev/null
  timed 'build torch-2.11' cmake --build build/torch-2.11 -- -j"$(nproc)" --quiet
fi

# One ctest over all build folders: one count, one list of failures at the end. Most tests wait more than they compute, so there are
# two for a core, and three more for clang-tidy; those that compute say so (PROCESSORS).
echo "subdirs(${presets[*]})" >build/CTestTestfile.cmake
run_tests() { timed tests scripts/run_tests.sh "$@" build -j"$((2 * $(nproc) + 3))" "${ctest_options[@]}"; }
case $tier in
  fast)
    ctest_options=(-L '^(unit|simulation|fast)$' "${ctest_options[@]}")
    run_tests
    exit
    ;;
  default)
    ctest_options=(-LE '^fast$' "${ctest_options[@]}")  # tests that run anyway
    run_tests
    exit
    ;;
esac

export DDPRUN_SOAK=1 DDPRUN_FUZZ_SECONDS=600 DDPRUN_SEED="${DDPRUN_SEED:-$(date +%s)}" DDPRUN_SOAK_TABLE="$PWD/build/soak-table.md"
: >"$DDPRUN_SOAK_TABLE"
status=0
run_tests --once || status=$?
# Rows of an earlier soak stay until theirs are run again. Times that were measured are no part of a row's name.
place="$(git describe --always --dirty), $(date -u +%Y-%m-%d)$([ $status -eq 0 ] || echo ", FAILED")"
sed "s/$/ $place |/" "$DDPRUN_SOAK_TABLE" >"$DDPRUN_SOAK_TABLE.new"
awk -F'|' '{ name = $2; sub(/; (found|a new round) after .*/, "", name) }
  FILENAME == ARGV[1] { again[name]; next } /^\| / && !/^\| what / && !(name in again)' "$DDPRUN_SOAK_TABLE.new" docs/figures/soak.md \
  >"$DDPRUN_SOAK_TABLE.kept"
{
  echo "# Soaks"
  echo
  echo "For people who want to know how often the tests with chance in them were run, and how they ended."
  echo
  echo "Written by \`scripts/test.sh --soak\`: tests with chance in them, at their full counts, the last time each was run, on" \
    "$(nproc) cores. A row for each build that runs it. FAILED: some test of that soak failed, of this row or another one."
  echo
  echo "| what | seeds | runs | as promised | when |"
  echo "|---|---|---|---|---|"
  sort "$DDPRUN_SOAK_TABLE.kept" "$DDPRUN_SOAK_TABLE.new"
} >"$DDPRUN_SOAK_TABLE.page"
mv "$DDPRUN_SOAK_TABLE.page" docs/figures/soak.md
exit $status
