#!/usr/bin/env bash
# Runs the tests of a build folder by ctest. Up to five that fail beside the others run once more, alone
# (docs/decisions/050-second-try.md). The last lines say what failed.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/run_tests.sh [--once] BUILD-FOLDER [ctest options]

  --once    no second try
END
}
tries=2
if [ "${1-}" = --once ]; then tries=1 && shift; fi
case ${1-} in
  -h | --help) usage && exit ;;
  '' | -*) usage >&2 && exit 2 ;;
esac
folder=$1
shift
# Whoever repeats tests looks for what happens rarely.
if [[ " $* " == *' --repeat'* ]]; then tries=1; fi

failed=$folder/Testing/Temporary/LastTestsFailed.log
output=$folder/Testing/Temporary/LastTest.log
times=$folder/Testing/Temporary/times  # of each test that ran: seconds, a tab, its name
run() { ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@"; }

# Of each test that failed: its failed checks, or else its last lines.
say_failures() {
  [ -s "$failed" ] || return 0
  echo 'These failed:'
  awk '
    FNR == NR { sub(/^[0-9]+:/, ""); failed[$0]; next }
    /^[0-9]+\/[0-9]+ Testing: / { name = $0; sub(/^[^:]*: /, "", name); checks = last = before = ""; left = 0; next }
    /^<end of output>$/ { if (name in failed) printf "  %s\n%s", name, checks == "" ? before last : checks; name = ""; next }
    !(name in failed) || !NF { next }
    / FAILED:$/ { left = 6 }
    left > 0 { checks = checks "    " $0 "\n"; left-- }
    { before = last; last = "    " $0 "\n" }
  ' "$failed" "$output" | cut -c -240 | sed -n 1,40p
}

# Chance plays no part in the others, and a sanitizer's finding is one however rare it is.
deserves_second_try() {
  [ -s "$failed" ] && [ "$(grep -c '' "$failed")" -le 5 ] || return 1
  if grep -qvE '^[0-9]+:((sanitized|tsan)/)?(unit|e2e|torch|slurm)/' "$failed"; then return 1; fi
  if grep -qE '(Thread|Address|Leak|UndefinedBehavior)Sanitizer|: runtime error: ' "$output"; then return 1; fi
}

rm -f "$failed"
status=0
run "$@" || status=$?
awk '/^[0-9]+\/[0-9]+ Testing: / { name = $0; sub(/^[^:]*: /, "", name) }
  /^Test time = / { printf "%s\t%s\n", $4, name }' "$output" >"$times" 2>/dev/null || true
if [ $status -eq 0 ]; then exit; fi
if [ $tries -eq 2 ] && deserves_second_try; then
  first=$(say_failures)
  if CTEST_PARALLEL_LEVEL=1 run --rerun-failed; then
    printf '%s\n%s\n' "$first" 'Each passed when it ran again, alone. Mend them, too.'
    exit
  fi
fi
say_failures
exit $status
