# shellcheck shell=bash
# For gpu-check.sh: the steps that are right or wrong. The last line that a step prints is its result.

skip() { echo "$*" && exit 77; }
wrong() { echo "$*" && exit 1; }

# ranks N PROGRAM [words...]: one round of N workers.
ranks() {
  local count=$1 program=$2
  shift 2
  if [ -x "$GPU_CHECK_BIN/$program" ]; then program=$GPU_CHECK_BIN/$program; fi
  "$GPU_CHECK_BIN/ddprun" --nproc-per-node="$count" --max-restarts=0 "$program" "$@"
}

trains() {
  local count=$1
  shift
  ranks "$count" train "$@" --device "$GPU_CHECK_DEVICE"
}

# refuses TEXT COMMAND...: the command fails, and says a line with the text, which is printed.
refuses() {
  local text=$1
  shift
  if "$@" >refused.log 2>&1; then cat refused.log && wrong "it was to fail, and did not: $*"; fi
  grep -m 1 -F -- "$text" refused.log || { cat refused.log && wrong "it failed without the words '$text': $*"; }
}

# Of the packages beside torch; to import it takes seconds.
versions_of_wheels() {
  "$GPU_CHECK_PYTHON" - <<'END_OF_PYTHON' || true
import importlib.metadata, re
found = {}
for package in importlib.metadata.distributions():
    name = re.fullmatch("nvidia-(nccl|cudnn|cuda-runtime)(-cu[0-9]+)?", package.metadata["Name"] or "")
    if name:
        found[name[1]] = package.version
names = {"cuda-runtime": "CUDA", "nccl": "NCCL", "cudnn": "cuDNN"}
print("".join(f", {label} {found[name]}" for name, label in names.items() if name in found))
END_OF_PYTHON
}

try_drives() {
  local driver=unknown versions=''
  if command -v nvidia-smi >/dev/null; then
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed -n 1p) || true
  elif [ -r /proc/driver/nvidia/version ]; then
    driver=$(sed -n 's/^NVRM.*Module *\([0-9.]*\) .*/\1/p' /proc/driver/nvidia/version)
  fi
  if [ -n "$GPU_CHECK_PYTHON" ]; then versions=$(versions_of_wheels); fi
  echo "driver ${driver:-unknown}, torch $(torch_version)$versions, $(machine)"
}

# count_in_torch VALUE...: a line for each of what torch counts with this CUDA_VISIBLE_DEVICES; "-" leaves it out. It is imported once;
# each count is a child's.
count_in_torch() {
  "$GPU_CHECK_PYTHON" - "$@" <<'END_OF_PYTHON'
import os, sys
import torch
for value in sys.argv[1:]:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if value != "-":
        os.environ["CUDA_VISIBLE_DEVICES"] = value
    print(torch.cuda.device_count(), flush=True)
    os._exit(0)
END_OF_PYTHON
}

# torch's answers count where there is one.
try_counts() {
  local gpus uuid i ours values=(- 0 0,999 999 '' 0,0) right=()
  if [ "$GPU_CHECK_GPUS" = 0 ]; then
    [ -e "$GPU_CHECK_BIN/nvml/libnvidia-ml.so.1" ] || skip "the stand-in for NVML is not built (target nvml_stub)"
    export LD_LIBRARY_PATH=$GPU_CHECK_BIN/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    gpus=3 uuid=GPU-10
  else
    gpus=$(count_gpus) uuid=''
    if command -v nvidia-smi >/dev/null; then uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | tail -n 1); fi
  fi
  right=("$gpus" 1 1 0 0 0)
  if [ -n "$uuid" ]; then values+=("$uuid") right+=(1); fi
  if [ "$gpus" -gt 1 ]; then values+=(1,0) right+=(2); fi
  if [ "$GPU_CHECK_GPUS" -gt 0 ] && [ -n "$GPU_CHECK_PYTHON" ]; then mapfile -t right < <(count_in_torch "${values[@]}"); fi
  for i in "${!values[@]}"; do
    if [ "${values[i]}" = - ]; then unset CUDA_VISIBLE_DEVICES; else export CUDA_VISIBLE_DEVICES=${values[i]}; fi
    ours=$(count_by_ddprun counts.txt)
    [ "$ours" = "${right[i]:-}" ] || { cat counts.txt &&
      wrong "with CUDA_VISIBLE_DEVICES '${values[i]}' ddprun counts $ours GPUs, and ${right[i]:-no answer} is right"; }
  done
  echo "$gpus GPUs$([ "$GPU_CHECK_GPUS" -gt 0 ] || echo ' of a stand-in for NVML');" \
    "indices, UUIDs, unknown and repeated entries count as in torch"
}

# One rank, one epoch: without this nothing else makes sense.
try_smoke() {
  local last
  last=$(trains 1 1 --fresh | tail -n 1)
  echo "one rank of train, --device $GPU_CHECK_DEVICE: $last"
  [[ $last == done:* ]]
}

# What Python's torch says of itself and the GPU, and how long that takes.
try_python() {
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  "$GPU_CHECK_PYTHON" - <<'END_OF_PYTHON'
import time
began = time.monotonic()
import torch
imported = time.monotonic() - began
gpu = "no GPU"
if torch.cuda.is_available():
    torch.ones(1, device="cuda").sum().item()
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    gpu = f"{torch.cuda.get_device_name()}, compute capability {'.'.join(map(str, torch.cuda.get_device_capability()))}, NCCL {nccl}"
print(f"torch {torch.__version__} is imported in {imported:.1f} s, with the first kernel {time.monotonic() - began:.1f} s: {gpu}")
END_OF_PYTHON
}

# loaded DEVICE: the names of the libraries that train loads with it.
loaded() {
  rm -f files.*
  LD_DEBUG=files LD_DEBUG_OUTPUT=files "$GPU_CHECK_BIN/train" 1 --device "$1" --fresh >trained.log 2>&1 || return 1
  sed -n 's/.*file=\([^ ]*\) .*generating link map.*/\1/p' files.* | xargs -rn1 basename | sort -u
}

try_loads() {
  local names missing library
  names=$(loaded cpu) || wrong "train --device cpu fails: $(tail -n 1 trained.log)"
  if grep -q 'torch_cuda\|ddprun_gpu' <<<"$names"; then wrong "train --device cpu loads CUDA"; fi
  if [ -e "$GPU_CHECK_LIB/libddprun_gpu.so" ]; then
    missing=$(ldd "$GPU_CHECK_LIB/libddprun_gpu.so" | grep 'not found' || true)
    [ -z "$missing" ] || wrong "libddprun_gpu.so finds not all it needs: $missing"
  fi
  if [ "$GPU_CHECK_GPUS" = 0 ]; then
    echo "train --device cpu loads nothing of CUDA; libddprun_gpu.so $([ -e "$GPU_CHECK_LIB/libddprun_gpu.so" ] &&
      echo 'finds all that it needs' || echo 'is not built')"
    return
  fi
  names=$(loaded cuda) || wrong "train --device cuda fails: $(tail -n 1 trained.log)"
  for library in libddprun_gpu.so libtorch_cuda.so; do
    grep -qx "$library" <<<"$names" || wrong "train --device cuda does not load $library"
  done
  echo "libddprun_gpu.so and libtorch_cuda.so with --device cuda, neither with --device cpu"
}

try_refusals() {
  local sentences
  export CUDA_VISIBLE_DEVICES=''
  sentences=$(refuses 'shows no GPU of NVIDIA, AMD or Intel' "$GPU_CHECK_BIN/ddprun" --nproc-per-node=gpu true) || wrong "$sentences"
  sentences=$(refuses '--device is cuda but' "$GPU_CHECK_BIN/train" 1 --device cuda) || wrong "$sentences"
  if [ "$GPU_CHECK_GPUS" -gt 0 ]; then
    CUDA_VISIBLE_DEVICES=0
    sentences=$(refuses 'a GPU of its own for each rank' ranks 2 train 1 --device cuda) || wrong "$sentences"
  fi
  tail -n 1 <<<"$sentences"
}

try_virtual_rank() {
  local seen
  # shellcheck disable=SC2016  # for the workers
  seen=$(CUDA_VISIBLE_DEVICES=3,5 "$GPU_CHECK_BIN/ddprun" --nproc-per-node=2 --virtual-local-rank \
    sh -c 'echo "$RANK:$LOCAL_RANK:$CUDA_VISIBLE_DEVICES"' | sort)
  [ "$seen" = $'0:0:3\n1:0:5' ] || wrong "the workers see: $seen"
  # It needs the variable, and each device's entry in it.
  CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$(seq -s , 0 $((GPU_CHECK_RANKS - 1)))} "$GPU_CHECK_BIN/ddprun" \
    --virtual-local-rank --nproc-per-node="$GPU_CHECK_RANKS" --max-restarts=0 \
    "$GPU_CHECK_BIN/train" 1 --device "$GPU_CHECK_DEVICE" --fresh
  echo "$GPU_CHECK_RANKS ranks train, each with local rank 0 and its own entry of CUDA_VISIBLE_DEVICES"
}

try_nccl_error() {
  export NCCL_SOCKET_IFNAME=none
  if trains "$GPU_CHECK_RANKS" 1 --fresh >said 2>&1; then wrong "training succeeds over a network interface that does not exist"; fi
  cat said
  grep -q NCCL said || wrong "nothing printed names NCCL"
  grep -m 1 'interface' said || wrong "NCCL's own last line, about the interface, is not shown"
}

# connections FILE...: what NCCL_DEBUG=INFO says of them, each kind with its number.
connections() {
  local chosen
  chosen=$({ grep -oh 'via [A-Z][A-Za-z0-9/]*' "$@" || true; } | sort | uniq -c | awk '{ printf "%s%s × %s", sep, $1, $3; sep = ", " }')
  echo "${chosen:-no connection}"
}

try_transport() {
  local version
  NCCL_DEBUG=INFO trains "$GPU_CHECK_RANKS" 1 --fresh >said 2>&1 || { cat said && wrong "training fails with NCCL_DEBUG=INFO"; }
  version=$(grep -o -m 1 'NCCL version [^ ]*' said) || wrong "NCCL says nothing with NCCL_DEBUG=INFO"
  echo "$version, by $GPU_CHECK_RANKS ranks: $(connections said)$(! grep -q NVLS said || echo ', NVLS named')"
}

try_quiet_end() {
  local warning='ProcessGroupNCCL|destroy_process_group|NCCL (WARN|ERROR)'
  [ -x "$GPU_CHECK_BIN/ddp_worker" ] || skip "ddp_worker is not built"
  trains "$GPU_CHECK_RANKS" 1 --fresh 2>&1 | tee train.said
  DDP_WORKER_ON_GPU=1 ranks "$GPU_CHECK_RANKS" ddp_worker gradients 2>&1 | tee ddp_worker.said
  if grep -E -m 1 "$warning" train.said ddp_worker.said; then exit 1; fi
  echo "train, and a program that destroys its process group, end without a warning of NCCL's"
}

# The output of the first convolution is 155 GB in one piece: refused at once, and no other step goes without memory.
try_out_of_memory() {
  if trains 1 1 --fresh --dataset synthetic --set data.samples=4096 --set data.height=384 --set data.width=384 \
    --set data.channels=1 --model vgg11_bn --head imagenet --batch-size 4096 >said 2>&1; then wrong "155 GB fit into this GPU"; fi
  cat said
  grep -i -m 1 'CUDA out of memory' said || wrong "the last words are not that CUDA is out of memory: $(tail -n 1 said)"
}

try_same_bits() {
  local name
  for name in one two; do
    trains "$GPU_CHECK_RANKS" 2 --deterministic --snapshot $name.pt --publish $name.safetensors
  done
  cmp one.safetensors two.safetensors || wrong "two runs with --deterministic end with other weights"
  echo "two runs of $GPU_CHECK_RANKS ranks with --deterministic end with the same weights"
}

try_deterministic_vgg() {
  local last
  last=$(trains "$GPU_CHECK_RANKS" 1 --fresh --deterministic --model vgg11_bn --head imagenet --dataset synthetic \
    --set data.samples=128 --set data.height=224 --set data.width=224 --set model.width_divisor=8 --batch-size 16 | tail -n 1)
  echo "$last"
  [[ $last == done:* ]] || wrong "it does not end: $last"
}

# learns PRECISION: the digits, as well as in float.
learns() {
  local last accuracy
  last=$(trains "$GPU_CHECK_RANKS" 3 --fresh --precision "$1" | tail -n 1)
  accuracy=$(sed -n 's/.*accuracy \([0-9.]*\).*/\1/p' <<<"$last")
  awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy > 0.8) }' || wrong "$1 learns too little: $last"
  echo "$last"
}
try_bf16() { learns bf16; }
try_fp16() { learns fp16; }

# wait_for PATTERN FILE PID: until the file has such a line; the step's limit ends it.
wait_for() {
  until grep -q "$1" "$2"; do
    kill -0 "$3" 2>/dev/null || { cat "$2" && wrong "the job ended before it printed $1"; }
    sleep 0.02
  done
}

long_run=(6 1 --batch-size 8 --deterministic --log-every 1)

restart_options=()  # of ddprun

# start_long_run RESTARTS WORDS...: in the background, as `job`; output in out and err, each worker's pid in pid.RANK.
start_long_run() {
  local restarts=$1
  shift
  # shellcheck disable=SC2016  # for the workers
  GPU_CHECK_FOLDER=$PWD "$GPU_CHECK_BIN/ddprun" --nproc-per-node="$GPU_CHECK_RANKS" --max-restarts="$restarts" "${restart_options[@]}" \
    sh -c 'echo $$ >"$GPU_CHECK_FOLDER/pid.$RANK" && exec "$@"' sh \
    "$GPU_CHECK_BIN/train" "${long_run[@]}" --device "$GPU_CHECK_DEVICE" "$@" >out 2>err &
  job=$!
}

try_resume() {
  local job code=0
  trains "$GPU_CHECK_RANKS" "${long_run[@]}" --snapshot whole.pt --publish whole.safetensors >whole.log
  start_long_run 0 --snapshot part.pt --publish part.safetensors
  wait_for '^epoch 2 step' out "$job"
  kill -TERM "$job"
  wait "$job" || code=$?
  [ $code = 75 ] || wrong "after SIGTERM it exits with $code, where 75 is right"
  trains "$GPU_CHECK_RANKS" "${long_run[@]}" --snapshot part.pt --publish part.safetensors >rest.log
  grep -q 'resuming' rest.log || wrong "the next run does not resume"
  cmp whole.safetensors part.safetensors || wrong "stopped and resumed it ends with other weights"
  echo "SIGTERM, exit code 75, and the weights of a whole run after the next one"
}

# time_restart OPTIONS...: of ddprun. Kills a worker; `took` is the time to the next step, in milliseconds.
time_restart() {
  local job began
  rm -f snapshot*.pt* out err pid.*
  restart_options=("$@")
  start_long_run 1 --fresh
  wait_for '^epoch 3 step' out "$job"
  until [ -e snapshot-convnet-digits.pt ]; do sleep 0.02; done
  began=$(milliseconds)
  kill -9 "$(cat pid.$((GPU_CHECK_RANKS - 1)))"
  wait_for 'resuming' out "$job"
  until sed -n '/resuming/,$p' out | grep '^epoch [0-9]* step' >/dev/null; do sleep 0.02; done
  took=$(($(milliseconds) - began))
  wait "$job" || { cat out err && wrong "the job fails after kill -9 of a worker"; }
}

try_kill() {
  local took
  time_restart
  echo "$took ms from kill -9 of a worker of $GPU_CHECK_RANKS to the next step; the job ends well"
}

try_tours() {
  local tour tours=(collectives sampler sync reduce dp-vs-ddp)
  if [ "$GPU_CHECK_GPUS" = 0 ]; then tours=(collectives reduce); fi
  for tour in "${tours[@]}"; do
    ranks "$GPU_CHECK_RANKS" train tour "$tour" --device "$GPU_CHECK_DEVICE" || wrong "the tour $tour fails"
  done
  echo "${tours[*]}, by $GPU_CHECK_RANKS ranks"
}

# Each test case is a process. Few at a time where two ranks share a GPU, on which they take turns; with --budget first those with one
# rank, as the pairs have shown what two do.
try_gpu_tests() { gpu_tests_at_a_time 3; }
try_gpu_tests_1() { DDPRUN_GPU_TESTS_RANKS=1 gpu_tests_at_a_time 8; }
try_gpu_tests_2() { gpu_tests_at_a_time 3; }

# gpu_tests_at_a_time N: at most half as many as there are cores.
gpu_tests_at_a_time() {
  local number=0 name names failures=() at_a_time=$(($(nproc) / 2))
  [ -x "$GPU_CHECK_BIN/gpu_tests" ] || skip "gpu_tests is not built"
  mapfile -t names < <("$GPU_CHECK_BIN/gpu_tests" --list-test-names-only 2>/dev/null)
  if [ ${#names[@]} = 0 ]; then mapfile -t names < <("$GPU_CHECK_BIN/gpu_tests" --list-tests --verbosity quiet); fi  # Catch2 3
  [ ${#names[@]} -gt 0 ] || wrong "gpu_tests names no test case"
  for name in "${names[@]}"; do
    number=$((number + 1))
    while [ "$(jobs -rp | wc -l)" -ge $((at_a_time < 1 ? 1 : at_a_time < $1 ? at_a_time : $1)) ]; do wait -n || true; done
    run_gpu_test "$number" ${#names[@]} "$name" &
  done
  wait
  for number in $(seq ${#names[@]}); do
    name=${names[number - 1]}
    cat "test.$number.log"
    if [ "$(cat "test.$number.code" 2>/dev/null)" != 0 ]; then failures+=("'$name'"); fi
  done
  cat test.*.log >tests.log
  [ ${#failures[@]} = 0 ] || wrong "${#failures[@]} of ${#names[@]} test cases fail: ${failures[*]}"
  echo "${#names[@]} test cases pass, $(grep -c 'skipped: ' tests.log || true) of them skipped"
}

# run_gpu_test NUMBER OF NAME: in test.NUMBER.log, its exit code in test.NUMBER.code. A comma in a name is not a list's.
run_gpu_test() {
  local code=0 began
  began=$(milliseconds)
  echo "$3" >"test.$1.log"
  "$GPU_CHECK_BIN/gpu_tests" "${3//,/\\,}" >>"test.$1.log" 2>&1 || code=$?
  echo $code >"test.$1.code"
  echo "$(find . -name 'test.*.code' | wc -l) of $2 ended, the last with $code after $(($(milliseconds) - began)) ms: $3"
}

sanitized=(gradients sync-batch-norm scaler)  # scenarios of ddp_worker

try_sanitizer() {
  local tool scenario cuda=${CUDA_HOME:-/usr/local/cuda}
  tool=$(command -v compute-sanitizer || find "$cuda/" -maxdepth 3 -name compute-sanitizer -type f 2>/dev/null | sed -n 1p || true)
  [ -n "$tool" ] || skip "compute-sanitizer is not installed (it comes with the CUDA toolkit)"
  [ -x "$GPU_CHECK_BIN/ddp_worker" ] || skip "ddp_worker is not built"
  export DDP_WORKER_ON_GPU=1
  for scenario in "${sanitized[@]}"; do
    ranks 1 "$tool" --tool memcheck --report-api-errors no --error-exitcode 9 "$GPU_CHECK_BIN/ddp_worker" "$scenario" ||
      wrong "compute-sanitizer finds errors in ddp_worker $scenario"
  done
  echo "memcheck finds no error in ddp_worker's $(sed 's/ /, /g' <<<"${sanitized[*]}")"
}

try_sanitize() { sanitized=(gradients) && try_sanitizer; }
