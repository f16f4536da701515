# shellcheck shell=bash disable=SC2154  # project is gpu-check.sh's
# For gpu-check.sh --budget: two ranks on one GPU, each the worker of an agent of its own. NCCL refuses a GPU that two ranks of
# a host share; here each agent has the name of another host. Without a GPU the ranks compute on the CPU, over gloo.

pair_env=(NCCL_DEBUG=WARN NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=lo NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0
  NCCL_CUMEM_HOST_ENABLE=0)
pair_options=(--max-restarts=0)  # of both agents
agents=()
next_port=${GPU_CHECK_PORT:-30000}

# A step has ten ports, below those that the kernel gives and above those of tests/support/free_port.
new_port() { port=$next_port next_port=$((next_port + 1)); }

# start_pair NAME PORT WORDS...: in the background; their pids in `agents`, their output in NAME.NODE.out and .err, each worker's
# pid in NAME.pid.RANK, and one line for each of its workers in NAME.started.RANK.
start_pair() {
  local name=$1 port=$2 node program=$3
  shift 3
  if [ -x "$GPU_CHECK_BIN/$program" ]; then program=$GPU_CHECK_BIN/$program; fi
  agents=()
  for node in 0 1; do
    # shellcheck disable=SC2016  # for the workers
    env "${pair_env[@]}" NCCL_HOSTID="half-$node" GPU_CHECK_PAIR="$PWD/$name" "$GPU_CHECK_BIN/ddprun" --nnodes=2 \
      --node_rank=$node --master_addr=127.0.0.1 --master_port="$port" --nproc_per_node=1 "${pair_options[@]}" \
      sh -c 'echo $$ >"$GPU_CHECK_PAIR.pid.$RANK" && echo $$ >>"$GPU_CHECK_PAIR.started.$RANK" && exec "$@"' sh \
      "$program" "$@" >"$name.$node.out" 2>"$name.$node.err" &
    agents+=($!)
  done
}

# The exit codes of both agents, in `codes`.
wait_for_pair() {
  local agent code
  codes=()
  for agent in "${agents[@]}"; do
    code=0
    wait "$agent" || code=$?
    codes+=($code)
  done
}

# pair NAME PORT WORDS...: both agents have to end well.
pair() {
  local name=$1
  start_pair "$@"
  wait_for_pair
  if [ "${codes[*]}" = '0 0' ]; then return; fi
  tail -n 40 "$name".?.out "$name".?.err
  wrong "$name: the agents' exit codes are ${codes[*]}: $(why_pair_failed "$name")"
}

# The most telling line: NCCL's, an error of `train` or Python, else the last one that is not about the job.
why_pair_failed() {
  local pattern files=("$1".?.err "$1".?.out)
  for pattern in 'Duplicate GPU' 'NCCL WARN\|nccl[A-Z][A-Za-z]*Error' '^train: \|[A-Za-z]Error: '; do
    if grep -h -m 1 "$pattern" "${files[@]}" | sed -n 1p | sed "s,^[ |]*,," | cut -c 1-200 | grep .; then return; fi
  done
  grep -h -v '^ddprun: \|^  [a-z ]*: \|^              ' "${files[@]}" | tail -n 1 | cut -c 1-200 | grep . || echo 'they say nothing'
}

# trains_pair NAME WORDS...
trains_pair() {
  local name=$1
  shift
  new_port
  pair "$name" "$port" train "$@" --device "$GPU_CHECK_DEVICE"
}

# scenario WORDS...: of ddp_worker.
scenario() {
  [ -x "$GPU_CHECK_BIN/ddp_worker" ] || skip "ddp_worker is not built"
  if [ "$GPU_CHECK_GPUS" -gt 0 ]; then export DDP_WORKER_ON_GPU=1; fi
  new_port
  pair "$1" "$port" ddp_worker "$@"
  echo "ddp_worker $* holds with two ranks"
}

try_pair_gradients() { scenario gradients; }
try_pair_sync_batch_norm() { scenario sync-batch-norm; }
try_pair_conversion() { scenario conversion; }
try_pair_scaler() { scenario scaler; }
try_pair_half() { scenario half; }
try_pair_outputs() { scenario outputs; }
try_pair_buffers() { scenario buffers; }
try_pair_batches() { scenario batches; }
try_pair_bad_loss() { scenario bad-loss skip; }
try_pair_every_collective() { scenario collectives; }

tour_pair() {
  new_port
  pair "$1" "$port" train tour "$1" --device "$GPU_CHECK_DEVICE"
}

try_pair_collectives() {
  local chosen=''
  pair_env+=(NCCL_DEBUG=INFO)
  tour_pair collectives
  if [ "$GPU_CHECK_GPUS" -gt 0 ]; then chosen=", over $(connections collectives.?.out collectives.?.err)"; fi
  echo "the tour of all collectives is right with two ranks$chosen"
}

try_pair_tours() {
  local tour
  for tour in sampler sync reduce dp-vs-ddp; do tour_pair $tour; done
  echo "sampler, sync, reduce and dp-vs-ddp end well with two ranks"
}

try_pair_python() {
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  new_port
  pair python "$port" "$GPU_CHECK_PYTHON" "$peer" digits --size 8 --classes 10 --batch-size 64 --steps 20 --device "$GPU_CHECK_DEVICE"
  echo "Python's DDP trains with two ranks: $(tail -n 1 python.0.out)"
}

# The run that others are compared with: two ranks, 24 steps an epoch, and enough epochs that it is under way when it is disturbed.
pair_run=($((${GPU_CHECK_GPUS:-0} > 0 ? 40 : 10)) 1 --batch-size 32 --deterministic --log-every 1)
whole=${GPU_CHECK_WORK:-}/whole-pair.safetensors

# By the first step that needs it; others wait for it.
whole_pair() {
  exec 9>"$whole.lock"
  flock 9
  if [ ! -e "$whole" ]; then
    trains_pair whole "${pair_run[@]}" --snapshot whole.pt --publish whole.safetensors
    mv whole.safetensors "$whole"
  fi
  exec 9>&-
}

compare_with_whole() {
  whole_pair
  cmp "$1" "$whole" || wrong "it ends with other weights than an undisturbed run"
}

try_pair_same_bits() {
  whole_pair
  trains_pair again "${pair_run[@]}" --snapshot again.pt --publish again.safetensors
  compare_with_whole again.safetensors
  echo "two runs of two ranks with --deterministic end with the same weights"
}

try_pair_sync_bn() {
  local name words=(2 --fresh --deterministic --batch-size 32 --sync-bn)
  for name in one two; do trains_pair $name "${words[@]}" --snapshot $name.pt --publish $name.safetensors; done
  cmp one.safetensors two.safetensors || wrong "two runs with --sync-bn end with other weights"
  echo "--sync-bn, two runs, the same weights: $(tail -n 1 two.0.out)"
}

try_pair_graph() {
  local way
  for way in fused cuda-graph; do
    trains_pair $way 2 --fresh --deterministic --lr 0.0625 --batch-size 32 --$way --snapshot $way.pt --publish $way.safetensors
  done
  cmp fused.safetensors cuda-graph.safetensors || wrong "with --cuda-graph two ranks end with other weights than with --fused"
  echo "with --cuda-graph two ranks end with the weights of --fused"
}

# start_long_pair NAME WORDS...: the run that is disturbed, once there is a snapshot to resume from: it is written while steps are taken.
start_long_pair() {
  local name=$1
  shift
  new_port
  start_pair "$name" "$port" train "${pair_run[@]}" --device "$GPU_CHECK_DEVICE" --snapshot part.pt \
    --publish part.safetensors "$@"
  wait_for '^epoch 2 step' "$name.0.out" "${agents[0]}"
  until [ -e part.pt ]; do sleep 0.02; done
}

# killed_pair NAME WORDS...: the worker of the second rank is killed; `took` is the time to the next step, in milliseconds.
killed_pair() {
  local name=$1 since
  start_long_pair "$@"
  since=$(milliseconds)
  kill -9 "$(cat "$name.pid.1")"
  wait_for 'resuming' "$name.0.out" "${agents[0]}"
  until sed -n '/resuming/,$p' "$name.0.out" | grep '^epoch [0-9]* step' >/dev/null; do sleep 0.02; done
  took=$(($(milliseconds) - since))
  wait_for_pair
  [ "${codes[*]}" = '0 0' ] || { cat "$name".?.err && wrong "after kill -9 of a rank the agents exit with ${codes[*]}"; }
}

try_pair_kill() {
  local took
  pair_options=(--max-restarts=1)
  killed_pair kill
  compare_with_whole part.safetensors
  echo "$took ms from kill -9 of one rank to the next step; the weights are an undisturbed run's"
}

try_pair_kill_end() {
  local since took
  start_long_pair end
  since=$(milliseconds)
  kill -9 "$(cat end.pid.1)"
  wait_for_pair
  took=$(($(milliseconds) - since))
  cat end.?.err
  [ "${codes[0]}" != 0 ] && [ "${codes[1]}" != 0 ] || wrong "after kill -9 of a rank without restarts the agents exit with ${codes[*]}"
  echo "$took ms from kill -9 of one rank to the end, exit codes ${codes[*]}: $(grep -h -m 1 'SIGKILL' end.?.err | sed -n 1p)"
}

try_pair_memory() {
  local took
  pair_options=(--max-restarts=1 --memory-snapshots=256M)
  killed_pair memory --memory-steps 1
  grep -q 'resuming from memory' memory.0.out || wrong "it does not resume from memory: $(grep -m 1 resuming memory.0.out)"
  compare_with_whole part.safetensors
  echo "$took ms from kill -9 of one rank to the next step, from memory; the weights are an undisturbed run's"
}

try_pair_in_process() {
  local took
  pair_options=(--max-restarts=1 --memory-snapshots=256M --in-process)
  killed_pair stays --memory-steps 1
  compare_with_whole part.safetensors
  [ "$(wc -l <stays.started.0)" = 1 ] || wrong "the other rank did not stay, but was started again; $took ms to the next step"
  echo "$took ms from kill -9 of one rank to the next step; the other one stays; the weights are an undisturbed run's"
}

try_pair_resume() {
  start_long_pair stop
  kill -TERM "${agents[@]}"
  wait_for_pair
  [ "${codes[*]}" = '75 75' ] || { cat stop.?.err && wrong "after SIGTERM the agents exit with ${codes[*]}, where 75 is right"; }
  trains_pair rest "${pair_run[@]}" --snapshot part.pt --publish part.safetensors
  grep -q 'resuming' rest.0.out || wrong "the next run does not resume"
  compare_with_whole part.safetensors
  echo "SIGTERM, exit code 75 twice, and the weights of an undisturbed run after the next one"
}

# same_lines WHAT OURS PYTHONS: the lines are equal.
same_lines() {
  local different
  [ -s "$2" ] || wrong "$1: ours prints no line to compare"
  different=$(paste -d '|' "$2" "$3" | awk -F '|' '$1 != $2 { print $1 " and " $2; exit }')
  [ -z "$different" ] || wrong "$1: ours and Python's: $different"
}

# Each mode of DistributedDataParallel, ours and Python's.
try_pair_parity() {
  local modes=(plain bucket-views accumulate unused static fp16-hook bf16)
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  [ -x "$GPU_CHECK_BIN/ddp_worker" ] || skip "ddp_worker is not built"
  export CUBLAS_WORKSPACE_CONFIG=:4096:8
  if [ "$GPU_CHECK_GPUS" -gt 0 ]; then export DDP_WORKER_ON_GPU=1; fi
  new_port
  pair ours "$port" ddp_worker parity "${modes[@]}"
  new_port
  pair theirs "$port" "$GPU_CHECK_PYTHON" "$project/tests/trainer/ddp_parity.py" --device "$GPU_CHECK_DEVICE" "${modes[@]}"
  same_lines 'DDP' ours.0.out theirs.0.out
  echo "losses and weights of ${#modes[@]} modes of DDP are Python's, bit for bit: ${modes[*]}"
}

# `train` beside the tutorial in Python, from the same seed.
try_pair_train_parity() {
  local words=(2 2 --batch-size 32 --seed 5 --log-every 1)
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  export CUBLAS_WORKSPACE_CONFIG=:4096:8
  trains_pair ours "${words[@]}" --deterministic --snapshot ours.pt
  new_port
  pair theirs "$port" "$GPU_CHECK_PYTHON" "$project/tests/trainer/python_ddp.py" "${words[@]}" --threads 1 --loader tensor \
    --device "$GPU_CHECK_DEVICE" --snapshot theirs.pt
  grep '^epoch [0-9]* step' ours.0.out >ours.lines
  grep '^epoch [0-9]* step' theirs.0.out >theirs.lines
  same_lines 'train' ours.lines theirs.lines
  echo "the losses of all $(wc -l <ours.lines) steps of train are Python's, bit for bit"
}
