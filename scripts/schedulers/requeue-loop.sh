#!/usr/bin/env bash
# Runs a command again and again, as a scheduler would, on a machine that has none.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: requeue-loop.sh [--retries N] [--max-delay SECONDS] [--] COMMAND...

  requeue-loop.sh ddprun --nproc-per-node=8 --state-dir state --rdzv-id my-job \
    train 90

COMMAND's exit code decides:
  75                     preempted, nothing lost: starts it again
  69, 70, 134, 137, 139  no rendezvous, or ddprun itself broke or was killed:
                         starts it again, N times in a row (default 3)
  others                 ends with that code: 0 done, 1 no restart was left, 2
                         usage, 73 and 93 do not start it again, 128+N
                         interrupted by signal N

Before a start it waits 1 s, 2 s, 4 s ... up to --max-delay (default 60); a run
of a minute or more resets delay and count. SIGTERM, SIGINT and SIGHUP go to
COMMAND and end the loop with its code (ddprun saves on SIGTERM, not on
Ctrl-C); SIGUSR1 and SIGUSR2 are passed on.
TEXT
}

retries=3 max_delay=60
long_run=60
while [ $# -gt 0 ]; do
  case $1 in
    --retries | --max-delay)
      [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "requeue-loop.sh: $1 takes a number, not '${2:-}'" >&2; exit 2; }
      declare "$(tr - _ <<<"${1#--}")=$2"
      shift 2
      ;;
    -h | --help) usage && exit ;;
    --) shift && break ;;
    -*) echo "requeue-loop.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { usage >&2 && exit 2; }

say() { echo "requeue-loop.sh: $*" >&2; }

stopped_by='' child='' interrupted=''
pass_on() {
  interrupted=yes
  [ -z "$child" ] || kill -s "$1" "$child" 2>/dev/null
}
for signal in TERM INT HUP; do trap "stopped_by=$signal; pass_on $signal" "$signal"; done
for signal in USR1 USR2; do trap "pass_on $signal" "$signal"; done
# A group of its own for COMMAND: Ctrl-C and kill -- -PGID reach it once, through us. Otherwise bash would let it ignore Ctrl-C.
set -m

# wait returns early when a trap has run.
wait_for_child() {
  while
    interrupted=
    wait "$child"
    code=$?
    [ -n "$interrupted" ]
  do :; done
  child=
}

delay=1 failures=0
while :; do
  begin=$SECONDS
  "$@" </dev/null &
  child=$!
  [ -z "$stopped_by" ] || kill -s "$stopped_by" "$child"  # it came between the last check and the start
  wait_for_child
  if [ -n "$stopped_by" ]; then say "stopped by SIG$stopped_by; the command ended with $code"; exit "$code"; fi
  if [ $((SECONDS - begin)) -ge $long_run ]; then delay=1 failures=0; fi
  case $code in
    75) why='preempted' failures=0 ;;
    69 | 70 | 134 | 137 | 139)
      failures=$((failures + 1))
      if [ $failures -gt "$retries" ]; then say "the command ended with $code, and no retry is left"; exit "$code"; fi
      why="retry $failures of $retries"
      ;;
    *) exit "$code" ;;
  esac
  say "the command ended with $code ($why); starting it again in $delay s"
  for ((left = delay; left > 0; --left)); do
    if [ -z "$stopped_by" ]; then sleep 1; fi
  done
  if [ -n "$stopped_by" ]; then say "stopped by SIG$stopped_by"; exit "$code"; fi
  delay=$((delay * 2 < max_delay ? delay * 2 : max_delay))
done
