# shellcheck shell=bash disable=SC2154  # began_us, budget, out, self, table, window and work are gpu-check.sh's
# For gpu-check.sh --budget: the steps of a window, in phases with deadlines. The table grows with each result.

# A phase: its name, its share of 290 s, how many steps run at a time, and the steps as name:limit in seconds:least number of GPUs.
# The shares of a window and those of packing are 290 in all. What a phase does not need is left to the next ones.
packing_share=10
window_1=(
  "start 35 3 smoke:33:0 drives:15:0 python:33:0"
  "correctness 60 8 deterministic-vgg:40:1 modes:40:1 resume:40:0 tours:40:0 quiet-end:30:1 out-of-memory:20:1 same-bits:30:0
    virtual-rank:20:0 loads:30:0 counts:30:0 refusals:20:0 nccl-error:30:1 transport:20:1 bf16:30:0 fp16:30:1"
  "first-pairs 20 2 pair-collectives:20:0 pair-python:20:0"
  "pairs 50 4 pair-kill:45:0 pair-same-bits:30:0 pair-sync-batch-norm:25:0 pair-gradients:25:0 pair-resume:40:0 pair-graph:40:1
    pair-parity:45:0 pair-every-collective:45:0 pair-sync-bn:30:0 pair-memory:45:0 pair-in-process:45:0 pair-train-parity:35:0
    pair-kill-end:35:0 pair-half:30:0 pair-bad-loss:25:0 pair-scaler:20:0 pair-conversion:25:0 pair-buffers:20:0 pair-outputs:20:0
    pair-batches:20:0 pair-tours:40:0"
  "gpu-tests 35 1 gpu-tests-1:35:1"
  "rates 80 1 rate-resnet18-python:20:0 rate-resnet18-train:20:0 rate-gpt-python:20:1 rate-gpt-train:20:1
    rate-resnet18-python-fast:20:1 rate-resnet18-train-fast:20:1 rate-gpt-python-fast:20:1 rate-gpt-train-fast:20:1"
)
window_2=(
  "start 25 3 smoke:24:0 drives:15:0 python:24:0"
  "again 35 3 gpu-tests-2:34:1"
  "rates 40 1 rate-resnet50-python:20:1 rate-resnet50-train:20:1 rate-resnet50-python-fast:20:1 rate-resnet50-train-fast:20:1"
  "small 110 1 small-digits-train:30:0 small-digits-python:30:0 small-gpt-train:30:1 small-gpt-python:30:1 small-resnet18-train:30:1
    small-resnet18-python:30:1 small-digits-compile:35:1 small-gpt-compile:35:1 small-resnet18-compile:35:1"
  "costs 40 1 memory-snapshots:30:0 restarts:30:0 launches:15:1"
  "sanitizer 30 1 sanitize:30:1"
)

# Since this script began.
elapsed() { echo $((${EPOCHREALTIME/[.,]/} / 1000 - began_us / 1000)); }
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }

phases_of_window() {
  case $window in
    1) phases=("${window_1[@]}") ;;
    2) phases=("${window_2[@]}") ;;
  esac
}

limits_of_window() {
  local phase name share at_a_time list end=0 phases
  phases_of_window
  for phase in "${phases[@]}"; do
    read -r name share at_a_time list <<<"${phase//$'\n'/ }"
    end=$((end + share * budget * 1000 / 290))
    printf '%-12s until %s s, %d at a time\n' "$name" "$(seconds $end)" "$at_a_time"
  done
  printf '%-12s until %s s\n' packing "$(seconds $((end + packing_share * budget * 1000 / 290)))"
}

# Of a table: the steps that failed, and those for which there was no time.
failed_steps() {
  sed -n 's/^| \([a-z0-9-]*\) | failed | .*/\1/p; s/^| \([a-z0-9-]*\) | skipped | no time left.*/\1/p' "$1"
}

# window_steps PHASES...: as they are written there.
window_steps() {
  local phase
  for phase in "$@"; do
    read -ra words <<<"${phase//$'\n'/ }"
    printf '%s\n' "${words[@]:3}"
  done
}

add_row() {
  printf '%-8s %-26s %s (%s s)\n' "$2" "$1" "$3" "$4"
  echo "| $1 | $2 | ${3//|/\\|} | $4 |" >>"$table"
  if [ "$2" = failed ]; then failed=1; fi
}

# Ends what still runs of a step: its session, and processes that left it, which have its mark in their environment. Twice none is
# found: one that was just being started has no environment yet.
end_step() {
  local name=$1 pid=${2:-} file found empty=0 try
  if [ -n "$pid" ]; then kill -KILL -- "-$pid" 2>/dev/null || true; fi
  for try in {1..40}; do
    found=$(grep -lzx "GPU_CHECK_MARK=$mark.$name" /proc/[0-9]*/environ 2>/dev/null || true)
    for file in $found; do
      file=${file#/proc/}
      kill -KILL "${file%/environ}" 2>/dev/null || true
    done
    if [ -n "$found" ]; then empty=0; else empty=$((empty + 1)); fi
    if [ $empty = 2 ]; then return 0; fi
    sleep 0.02
  done
  echo "gpu-check.sh: processes of $name remain after $try attempts to end them" >&2
}

# The libraries of LibTorch and CUDA are gigabytes, which the first program would read at its start. Those that every run needs
# come first.
warm_page_cache() {
  local folders=("$GPU_CHECK_TORCH/lib")
  if [ -d "$GPU_CHECK_TORCH/../nvidia" ]; then folders+=("$GPU_CHECK_TORCH/../nvidia"); fi
  GPU_CHECK_MARK=$mark.warm setsid nice -n 19 bash -c '
    read_all() { xargs -0 -r -n 1 -P 4 cat >/dev/null 2>&1; }
    find "$@" -type f \( -name "libtorch_c*.so" -o -name "libcu[db]*.so*" -o -name "libnccl.so*" \) -print0 2>/dev/null | read_all
    find "$@" -type f -name "*.so*" -size +1024k -print0 2>/dev/null | read_all' bash "${folders[@]}" </dev/null >/dev/null 2>&1 &
  warming=$!
  disown $warming  # bash need not say that it was killed
}

end_warming() {
  if [ -z "$warming" ]; then return 0; fi
  end_step warm "$warming"
  warming=''
}

# start_step NAME LIMIT_MS: in a session of its own.
start_step() {
  local limit
  limit=$(seconds "$2")
  port=$((port + 10))
  began_of[$1]=$(elapsed)
  GPU_CHECK_MARK=$mark.$1 GPU_CHECK_PORT=$port setsid timeout --signal=KILL "$limit" bash "$self" --step "$1" \
    >"$work/$1.log" 2>&1 </dev/null &
  name_of[$!]=$1
}

# What ended: a row.
step_ended() {
  local pid=$1 status=$2 name text verdict took
  name=${name_of[$pid]}
  unset "name_of[$pid]"
  took=$(($(elapsed) - began_of[$name]))
  text=$(last_line "$work/$name.log")
  case $status in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124 | 137) verdict=failed text="ended after $((took / 1000)) s, its limit; last: $text" ;;
    *) verdict=failed ;;
  esac
  if [ "$verdict" != ok ]; then end_step "$name" "$pid"; fi
  verdict_of[$name]=$verdict
  status_of[$name]=$status
  add_row "$name" "$verdict" "$text" "$(printf '%d.%d' $((took / 1000)) $((took % 1000 / 100)))"
}

# Pairs of ranks on one GPU: not where NCCL refuses them, nor where they fail in Python, too.
why_no_pairs() {
  if [ "${verdict_of[pair-collectives]:-ok}" != failed ]; then return; fi
  if grep -rqs 'Duplicate GPU' "$work/pair-collectives.files"; then
    echo "NCCL refuses one GPU for two ranks here: Duplicate GPU"
  elif [ "${verdict_of[pair-python]:-ok}" = failed ]; then
    echo "two ranks do not work here, in Python neither: see pair-collectives and pair-python"
  fi
}

# What measures runs alone.
measures() { [[ $1 =~ ^(rate|small)- || $1 =~ ^(memory-snapshots|restarts|launches)$ ]]; }

# run_phase END_MS AT_A_TIME STEP...: a step is started while half of its limit, which shrinks with the budget, is left, those
# of the phase `start` always. Others are `postponed`: what later phases leave may be enough for them.
run_phase() {
  local end=$1 at_a_time=$2 step name limit gpus left why
  shift 2
  if [ "$at_a_time" -gt 1 ] && [ "$at_a_time" -gt $(($(nproc) / 2)) ]; then at_a_time=$((($(nproc) + 1) / 2)); fi
  for step in "$@"; do
    IFS=: read -r name limit gpus <<<"$step"
    if [ ${#chosen[@]} -gt 0 ] && [[ " ${chosen[*]} " != *" $name "* ]]; then continue; fi
    if [ "$gpus" -gt "$GPU_CHECK_GPUS" ]; then
      add_row "$name" skipped "it takes $gpus GPU, here: $GPU_CHECK_GPUS" 0
      continue
    fi
    while [ ${#name_of[@]} -ge "$at_a_time" ]; do wait_for_step; done
    if [[ $name == pair-* ]]; then
      why=$(why_no_pairs)
      if [ -n "$why" ]; then add_row "$name" skipped "$why" 0 && continue; fi
    fi
    left=$((end - 500 - $(elapsed)))
    if ! $starting && [ "$left" -lt $((limit * budget * 500 / (budget > 290 ? budget : 290))) ]; then
      postponed+=("$step")
      continue
    fi
    start_step "$name" $((left < limit * 1000 ? left : limit * 1000))
  done
  while [ ${#name_of[@]} -gt 0 ]; do wait_for_step; done
}

wait_for_step() {
  local pid='' status=0
  { wait -n -p pid "${!name_of[@]}"; } 2>/dev/null || status=$?  # bash would say who was killed
  if [ -n "$pid" ]; then step_ended "$pid" $status; fi
}

# run_postponed END_MS: what measures first, and alone.
run_postponed() {
  local end=$1 step alone=() others=()
  for step in "${postponed[@]}"; do
    if measures "${step%%:*}"; then alone+=("$step"); else others+=("$step"); fi
  done
  postponed=()
  run_phase "$end" 1 "${alone[@]}"
  run_phase "$end" 3 "${others[@]}"
}

add_rows_of_postponed() {
  local step
  for step in "${postponed[@]}"; do add_row "${step%%:*}" skipped "no time left" 0; done
}

# Each file's beginning and end, of all steps: packed anew after each phase, so that a kill loses one phase's.
pack_logs() {
  local kept=$1 folder=$work/packed/logs file to
  rm -rf "$work/packed" && mkdir -p "$folder"
  while IFS= read -r -d '' file; do
    to=$folder/${file#"$work/"}
    mkdir -p "${to%/*}"
    if [ "$(stat -c %s "$file")" -le "$kept" ]; then
      cat "$file" >"$to"
    else
      { head -c $((kept / 4)) "$file" && printf '\n... (left out)\n' && tail -c $((kept / 4 * 3)) "$file"; } >"$to"
    fi
  done < <(find "$work" -path "$work/packed" -prune -o -type f -size -1000000k \( -name '*.log' -o -name '*.out' -o -name '*.err' \
    -o -name said -o -name '*.said' -o -name out -o -name err -o -name '*.jsonl' -o -name '*.lines' \) -print0)
  tar -C "$work/packed" -czf "$work/packed/logs.tar.gz" logs
}

keep_logs() {
  local kept
  for kept in 262144 32768 4096; do
    pack_logs $kept 2>/dev/null || return 0
    if [ "$(stat -c %s "$work/packed/logs.tar.gz")" -le $((16 << 20)) ]; then
      cp "$work/packed/logs.tar.gz" "$out/.logs.tar.gz" && mv "$out/.logs.tar.gz" "$out/logs.tar.gz"
      return 0
    fi
  done
}

# shellcheck disable=SC2317  # called by the trap
leave_window() {
  local status=$? pid name
  trap '' TERM INT
  set +e
  for pid in "${!name_of[@]}"; do
    name=${name_of[$pid]}
    kill -KILL "$pid" 2>/dev/null
    { wait "$pid"; } 2>/dev/null  # bash would say that it was killed
    end_step "$name" "$pid"
    add_row "$name" failed "the check was ended while it ran; last: $(last_line "$work/$name.log")" \
      $((($(elapsed) - began_of[$name]) / 1000))
  done
  add_rows_of_postponed
  end_warming
  echo >>"$table"
  echo "Ended after $(seconds "$(elapsed)") s of $budget s." >>"$table"
  keep_logs
  rm -rf "$work"
  echo "gpu-check.sh: $table and $out/logs.tar.gz, after $(seconds "$(elapsed)") s"
  exit $status
}

# try_smoke_again END_MS: a first run that its limit ended may have waited for a disk.
try_smoke_again() {
  case ${status_of[smoke]:-0} in
    124 | 137) run_phase "$1" 1 smoke:30:0 ;;
  esac
}

# with_others PHASE STEPS: and those of the first window that are named, or failed there: among the rates what measures, in the phase
# `again` everything else.
with_others() {
  local step name own
  echo "$2"
  own=$(window_steps "${window_2[@]}" | sed 's/:.*//')
  {
    printf '%s\n' "${chosen[@]}"
    if [ -n "$failed_table" ]; then failed_steps "$failed_table"; fi
  } | { grep -vxF "$own" || true; } | sort -u | while read -r name; do
    if measures "$name"; then [ "$1" = rates ] || continue; else [ "$1" = again ] || continue; fi
    for step in $(window_steps "${window_1[@]}"); do
      if [ "${step%%:*}" = "$name" ]; then echo "$step"; fi
    done
  done
}

planned_steps() {
  local phase name share at_a_time list phases
  phases_of_window
  for phase in "${phases[@]}"; do
    read -r name share at_a_time list <<<"${phase//$'\n'/ }"
    if [ "$window" = 2 ]; then list=$(with_others "$name" "$list"); fi
    # shellcheck disable=SC2086  # it is words
    printf '%s\n' $list | sed 's/:.*//'
  done
}

run_window() {
  local phase name share at_a_time list end=0 phases
  declare -gA name_of=() began_of=() verdict_of=() status_of=()
  mark=gpu-check.$$ port=$((30000 + RANDOM % 200 * 10)) warming='' postponed=() starting=true
  phases_of_window
  trap leave_window EXIT
  if [ "$GPU_CHECK_GPUS" -gt 0 ]; then warm_page_cache; fi
  {
    echo "$(date -u +%Y-%m-%d), ddprun $(project_version), $(machine), torch $(torch_version); window $window of $budget s:"
    echo
    echo "| step | result | what was seen | s |"
    echo "|---|---|---|---|"
  } >"$table"
  for phase in "${phases[@]}"; do
    read -r name share at_a_time list <<<"${phase//$'\n'/ }"
    end=$((end + share * budget * 1000 / 290))
    if [ "$window" = 2 ]; then list=$(with_others "$name" "$list"); fi
    if [ "$name" = rates ]; then end_warming; fi
    # shellcheck disable=SC2086  # it is words
    run_phase $end "$at_a_time" $list
    keep_logs
    starting=false
    if [ "$name" = start ]; then try_smoke_again $((end + 30 * budget * 1000 / 290)); fi
    if [ "$name" = start ] && [ "${verdict_of[smoke]:-ok}" = failed ]; then
      add_row "everything else" skipped "the first run failed" 0
      exit 1
    fi
  done
  run_postponed $end
  exit $failed
}
