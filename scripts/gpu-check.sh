#!/usr/bin/env bash
# Tries the GPU path of ddprun and train on this machine, and writes one table of what it saw.
set -euo pipefail
began_us=${EPOCHREALTIME/[.,]/}
self=$(realpath "${BASH_SOURCE[0]}")
project=$(dirname "$(dirname "$self")")
# shellcheck source=scripts/gpu/places.sh
source "$project/scripts/gpu/places.sh"
# shellcheck source=scripts/gpu/promises.sh
source "$project/scripts/gpu/promises.sh"
# shellcheck source=scripts/gpu/rates.sh
source "$project/scripts/gpu/rates.sh"
# shellcheck source=scripts/gpu/small.sh
source "$project/scripts/gpu/small.sh"
# shellcheck source=scripts/gpu/pairs.sh
source "$project/scripts/gpu/pairs.sh"
# shellcheck source=scripts/gpu/window.sh
source "$project/scripts/gpu/window.sh"

usage() {
  cat <<'END_OF_USAGE'
usage: scripts/gpu-check.sh [options] [STEP ...]

Ten minutes on one GPU; with two and more it also tries what takes several.
Each step has a limit and ends in one line: ok, failed or skipped, and why. A
step that fails does not stop the others.

  --no-gpu          only what needs no GPU, on the CPU over gloo
  --build-dir DIR   the programs of this build (default build/release)
  --kit DIR         the programs of an unpacked kit (scripts/package.sh gpu-kit)
  --build           with --kit: first build its sources for the LibTorch of
                    this machine
  --output FILE     write the table there (default: docs/internals/gpu-run.md,
                    between its two markers; with --kit gpu-check.md; with
                    --no-gpu or with STEPs nowhere)
  --list            name the steps; with --budget those of the window, with
                    what --again adds

A machine that is to be had for some minutes only: other steps, several at a
time, in phases with deadlines. STEPs are of these.

  --budget SECONDS  end within that time; what does not fit is skipped. 290 is
                    what the phases are made for, 10 the least
  --out DIR         with --budget: table.md, which grows with each result, and
                    logs.tar.gz, at most 16 MiB
  --window 1|2      with --budget: 1 (default) is right or wrong, then the
                    largest models' rates; 2 is what failed in another window,
                    then small models, what options cost, and compute-sanitizer
  --again FILE      with --window 2: that window's table.md
  --limits          print the phases of the window, each with its deadline

LibTorch and the Python peer: DDPRUN_TORCH_DIR and PYTHON_EXEC, else the
project's .venv, else python3. Exits with 0 if no step failed, 1 if one did, 2
if nothing could be tried: wrong options, no programs, no GPU.
END_OF_USAGE
}

refuse() {
  echo "gpu-check.sh: $*" >&2
  if [ -n "$table" ]; then echo "gpu-check.sh: $*" >"$table"; fi
  exit 2
}

# name:limit in seconds:least number of GPUs; 0: it can be tried without one.
steps=(drives:60:0 counts:120:0 loads:60:0 refusals:60:0 virtual-rank:60:0 nccl-error:90:1 transport:90:1 quiet-end:90:1
  out-of-memory:120:1 same-bits:120:0 deterministic-vgg:120:1 bf16:60:0 fp16:60:1 resume:120:0 kill:120:0 tours:180:0
  gpu-tests:420:1 sanitizer:240:1 modes:180:1 cuda-graph:300:1 rate-resnet18:240:0 rate-resnet50:240:1 rate-gpt:240:1
  launches:240:1 scaling:420:2)

no_gpu=false build=false list=false limits=false output='' build_dir='' chosen=() only_step=''
budget='' out='' table='' window=1 failed_table=''
export GPU_CHECK_KIT=${GPU_CHECK_KIT:-}
while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    --no-gpu) no_gpu=true ;;
    --build) build=true ;;
    --list) list=true ;;
    --limits) limits=true ;;
    --build-dir=* | --kit=* | --output=* | --budget=* | --out=* | --window=* | --again=*) set -- "${option%%=*}" "${option#*=}" "$@" ;;
    --build-dir | --kit | --output | --out | --again | --budget | --window)
      [ -n "${1:-}" ] || refuse "$option takes a $(case $option in --budget | --window) echo number ;; *) echo path ;; esac)."
      case $option in
        --build-dir) build_dir=$1 ;;
        --kit) GPU_CHECK_KIT=$1 ;;
        --output) output=$1 ;;
        --out) out=$1 ;;
        --again) failed_table=$1 ;;
        --budget) budget=$1 ;;
        --window) window=$1 ;;
      esac
      shift
      ;;
    --step) only_step=$1 && shift ;;  # by this script itself: one step, in this process
    -h | --help) usage && exit ;;
    -*) echo "gpu-check.sh: unknown option $option" >&2 && usage >&2 && exit 2 ;;
    *) chosen+=("$option") ;;
  esac
done

if [ -n "$only_step" ]; then
  cd "$GPU_CHECK_WORK"
  rm -rf "$only_step.files" && mkdir "$only_step.files" && cd "$only_step.files"
  "try_${only_step//-/_}"
  exit
fi

# What --budget takes and needs.
check_budget() {
  if [ -z "$budget" ]; then
    if [ "$out$failed_table$window" != 1 ]; then refuse "--out, --window and --again need --budget SECONDS."; fi
    return
  fi
  if ! [[ $budget =~ ^[1-9][0-9]{1,3}$ ]] || [ "$budget" -lt 10 ]; then refuse "--budget takes seconds, 10 to 9999, not $budget."; fi
  [[ $window =~ ^[12]$ ]] || refuse "--window is 1 or 2, not $window."
  [ -z "$output" ] || refuse "--output is for runs without --budget; the table of this one goes to --out DIR."
  if [ -n "$failed_table" ] && [ ! -r "$failed_table" ]; then refuse "--again names a table.md, and $failed_table cannot be read."; fi
}

# The second window has those of the first one, too: if they are named, or failed there.
known_steps() {
  case ${budget:+$window} in
    '') printf '%s\n' "${steps[@]%%:*}" ;;
    1) window_steps "${window_1[@]}" | sed 's/:.*//' ;;
    2) window_steps "${window_2[@]}" "${window_1[@]}" | sed 's/:.*//' | awk '!seen[$0]++' ;;
  esac
}

if $limits && [ -z "$budget" ]; then budget=290; fi
check_budget
if $limits; then limits_of_window; exit; fi
if $list && [ -n "$budget" ]; then planned_steps; exit; fi
if $list; then known_steps; exit; fi
for step in "${chosen[@]}"; do
  known_steps | grep -x -- "$step" >/dev/null || refuse "there is no step $step; --list names the steps."
done
if [ -n "$budget" ]; then
  [ -n "$out" ] || refuse "--budget needs --out DIR, for its table and logs."
  mkdir -p "$out" && out=$(realpath "$out") && table=$out/table.md
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-check.XXXXXX")
failed=0 child=''
# shellcheck disable=SC2317  # called by the trap
leave() {
  if [ -n "$child" ]; then kill "$child" 2>/dev/null || true; fi
  if [ "$failed" = 0 ]; then rm -rf "$work"; else echo "gpu-check.sh: what the steps printed is in $work" >&2; fi
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The last line that a step printed, without a table's or a list's beginning.
last_line() { grep -av '^[[:space:]]*$' "$1" | tail -n 1 | sed 's/^[ |]*//' | cut -c 1-300 || true; }

export GPU_CHECK_WORK=$work
find_kit
find_torch
if $build; then build_kit; fi
find_programs "$build_dir"
find_gpus $no_gpu
if [ -n "$budget" ]; then run_window; fi

# run_step NAME LIMIT: sets verdict and text.
run_step() {
  local log=$work/$1.log status=0
  timeout --kill-after=10 "$2" bash "$self" --step "$1" >"$log" 2>&1 </dev/null &
  child=$!
  wait $child || status=$?
  child=''
  text=$(last_line "$log")
  case $status in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124 | 137) verdict=failed text="it took longer than $2 s; last: $text" ;;
    *) verdict=failed ;;
  esac
}

rows=()
for step in "${steps[@]}"; do
  IFS=: read -r name limit gpus_needed <<<"$step"
  if [ ${#chosen[@]} -gt 0 ] && [[ " ${chosen[*]} " != *" $name "* ]]; then continue; fi
  began=$SECONDS
  if [ "$gpus_needed" -gt "$GPU_CHECK_GPUS" ]; then
    verdict=skipped text="it takes $gpus_needed GPU$([ "$gpus_needed" = 1 ] || echo s), here: $GPU_CHECK_GPUS"
  else
    run_step "$name" "$limit"
  fi
  if [ $verdict = failed ]; then failed=1; fi
  printf '%-8s %-18s %s (%d s)\n' "$verdict" "$name" "$text" $((SECONDS - began))
  rows+=("| $name | $verdict | ${text//|/\\|} | $((SECONDS - began)) |")
done

print_table() {
  echo "$(date -u +%Y-%m-%d), ddprun $(project_version), $(machine):"
  echo
  echo "| step | result | what was seen | s |"
  echo "|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
}

# write_between FILE: the table between its two markers.
write_between() {
  local first last
  first=$(grep -n '^<!-- gpu-check: begin -->$' "$1" | cut -d: -f1) || refuse "$1 has no line <!-- gpu-check: begin -->."
  last=$(grep -n '^<!-- gpu-check: end -->$' "$1" | cut -d: -f1) || refuse "$1 has no line <!-- gpu-check: end -->."
  { head -n "$first" "$1" && print_table && tail -n "+$last" "$1"; } >"$work/page"
  cat "$work/page" >"$1"
}

if [ -n "$output" ]; then
  print_table >"$output"
elif $no_gpu || [ ${#chosen[@]} -gt 0 ]; then
  :
elif [ -n "$GPU_CHECK_KIT" ]; then
  output=gpu-check.md
  print_table >"$output"
else
  output=$project/docs/internals/gpu-run.md
  write_between "$output"
fi
if [ -n "$output" ]; then echo "gpu-check.sh: the table is in $output"; fi
exit $failed
