# shellcheck shell=bash disable=SC2154  # project is gpu-check.sh's
# For gpu-check.sh: the steps that measure, beside Python's DistributedDataParallel (tests/bench/gpu_ddp.py) on the same GPUs.

peer=$project/tests/bench/gpu_ddp.py
steps_of_epoch=6  # of 256 images, which `train` still keeps on the GPU

# Of these options of train those that this one has, in `options`.
with_options() {
  local option help words
  help=$("$GPU_CHECK_BIN/train" --help)
  options=()
  for option in "$@"; do
    if grep -q -- "^  \(-., \)\?${option%% *}\( \|$\)" <<<"$help"; then read -ra words <<<"$option" && options+=("${words[@]}"); fi
  done
}

launch_options=()  # of ddprun, for our_rate
window_s=$([ "${GPU_CHECK_GPUS:-0}" -gt 0 ] && echo 1 || echo 0.3)

# median_rate FILE SAMPLES WITHIN_EPOCH: samples per second in the median of three windows of metrics rows, after as much time that
# does not count; SAMPLES are a step's, of all ranks. With WITHIN_EPOCH=1 a window does not cross the end of an epoch, whose last
# batch may be smaller.
median_rate() {
  awk -v samples="$2" -v within="$3" -v least="$window_s" '
    function number(name) {
      if (!match($0, "\"" name "\":[0-9.]+")) return 0
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0
    }
    within && /epoch_loss/ { next }
    {
      step = number("step"); time = number("time"); epoch = number("epoch")
      if (within && epoch != last_epoch) { last_epoch = epoch; from = 0 }
      if (!began) began = time
      if (time - began < least || step < 20) next
      if (!from) { from = time; from_step = step; next }
      if (time - from < least || step == from_step) next
      rates[++count] = (step - from_step) * samples / (time - from)
      from = time; from_step = step
      if (count == 3) exit
    }
    END {
      if (count < 3) exit 1
      low = rates[1]; high = rates[1]; sum = 0
      for (i = 1; i <= 3; ++i) { sum += rates[i]; if (rates[i] < low) low = rates[i]; if (rates[i] > high) high = rates[i] }
      printf "%.0f\n", sum - low - high
    }' "$1" 2>/dev/null
}

# our_rate N WORDS...: samples per second of all ranks. The run is stopped once that is known; the step's limit ends it if it never is.
our_rate() {
  local count=$1 job rate=''
  shift
  rm -f rows.jsonl
  "$GPU_CHECK_BIN/ddprun" --nproc-per-node="$count" --max-restarts=0 "${launch_options[@]}" "$GPU_CHECK_BIN/train" 1000000 1000000 \
    --fresh --evaluate-every 1000000 --metrics rows.jsonl --device "$GPU_CHECK_DEVICE" "$@" >ours.log 2>&1 &
  job=$!
  until rate=$(median_rate rows.jsonl "$step_samples" "$within_epoch"); do
    kill -0 $job 2>/dev/null || { cat ours.log >&2 && wrong "train fails: $(tail -n 1 ours.log)"; }
    sleep 0.2
  done
  kill -TERM $job
  wait $job || true
  echo "$rate"
}

# Python's own error, which ddprun shows in its words about the failed job.
peer_error() { { grep -o '[A-Za-z.]*Error: .*' peer.log || tail -n 1 peer.log; } | tail -n 1; }

# peer_says N WORDS...: the number that the peer prints.
peer_says() {
  local count=$1
  shift
  ranks "$count" "$GPU_CHECK_PYTHON" "$peer" "$@" --window "$window_s" --device "$GPU_CHECK_DEVICE" >peer.said 2>peer.log ||
    { cat peer.log >&2 && wrong "Python's DDP fails: $(peer_error)"; }
  sed -n 's/^\([0-9][0-9]*\) [a-z].*/\1/p' peer.said | grep . || wrong "Python's DDP prints no number"
}

# compare OPTIONS: `ours_words` and `peer_words`, both as they are, then both with --fused and these; on a CPU only the first.
compare() {
  local count=$GPU_CHECK_RANKS said rate fast=(--fused "$@")
  if [ "$GPU_CHECK_GPUS" = 0 ]; then fast=(); fi
  rate=$(our_rate "$count" "${ours_words[@]}") || wrong "$rate"
  said="$count ranks: train $rate"
  with_options "${fast[@]}"
  if [ ${#options[@]} -gt 0 ]; then
    rate=$(our_rate "$count" "${ours_words[@]}" "${options[@]}") || wrong "$rate"
    said+=", with ${options[*]} $rate"
  fi
  if [ -n "$GPU_CHECK_PYTHON" ]; then
    rate=$(peer_says "$count" "${peer_words[@]}") || wrong "$rate"
    said+="; Python $rate"
    if [ ${#fast[@]} -gt 0 ]; then
      rate=$(peer_says "$count" "${peer_words[@]}" "${fast[@]}") || wrong "$rate"
      said+=", with ${fast[*]} $rate"
    fi
  else
    said+="; no Python with torch to compare with"
  fi
  echo "$said samples/s"
}

# images MODEL BATCH: six steps an epoch on each rank, of 224 by 224 in bf16; on a CPU a small net.
images() {
  local size=224 classes=1000 divisor=1 head=imagenet batch=$2
  if [ "$GPU_CHECK_DEVICE" = cpu ]; then size=32 classes=10 divisor=16 head=small batch=8; fi
  step_samples=$((batch * GPU_CHECK_RANKS)) within_epoch=0
  ours_words=(--dataset synthetic --set "data.samples=$((steps_of_epoch * batch * GPU_CHECK_RANKS))" --set "data.height=$size"
    --set "data.width=$size" --set "data.classes=$classes" --set "model.width_divisor=$divisor" --model "$1" --head "$head"
    --batch-size "$batch" --precision bf16)
  peer_words=("$1" --size "$size" --classes "$classes" --width-divisor "$divisor" --batch-size "$batch" --precision bf16)
}

has_model() { "$GPU_CHECK_BIN/train" --help | grep "^  $1 " >/dev/null; }

try_rate_resnet18() { images resnet18 256 && compare --channels-last --cudnn-benchmark; }

try_rate_resnet50() {
  has_model resnet50 || skip "train has no resnet50"
  images resnet50 128 && compare --channels-last --cudnn-benchmark
}

# gpt_words BATCH: 25,000 samples an epoch, some of which are not a whole batch.
gpt_words() {
  local size=(--context 256 --layers 6 --heads 6 --embedding 384 --batch-size "$1" --precision bf16)
  step_samples=$(($1 * GPU_CHECK_RANKS)) within_epoch=1
  ours_words=(--model gpt --set data.stride=1 --log-every $((1280 / $1)) "${size[@]}")
  peer_words=(gpt "${size[@]}")
}

try_rate_gpt() { gpt_words 64 && compare; }

# With --budget each rate is a step: python before train, whose line says how many times as fast it is.
# one_rate MODEL python|train OPTIONS...
one_rate() {
  local model=$1 who=$2 rate file=$GPU_CHECK_WORK/rate.$1 theirs=''
  shift 2
  if [ "$GPU_CHECK_DEVICE" = cpu ]; then set --; fi
  file+=${*:+.fast}
  if [ "$who" = python ]; then
    [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
    rate=$(peer_says "$GPU_CHECK_RANKS" "${peer_words[@]}" "$@") || wrong "$rate"
    echo "$rate" >"$file"
    echo "Python's DDP${*:+, $*}: $rate samples/s"
    return
  fi
  with_options "$@"
  rate=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" "${options[@]}") || wrong "$rate"
  if [ -e "$file" ]; then theirs=", $(awk -v ours="$rate" '{ printf "%.2f", ours / $1 }' "$file") × Python's"; fi
  echo "train${*:+, $*}: $rate samples/s$theirs"
}

fast_images=(--fused --channels-last --cudnn-benchmark)
try_rate_resnet18_python() { images resnet18 256 && one_rate resnet18 python; }
try_rate_resnet18_train() { images resnet18 256 && one_rate resnet18 train; }
try_rate_resnet18_python_fast() { images resnet18 256 && one_rate resnet18 python "${fast_images[@]}"; }
try_rate_resnet18_train_fast() { images resnet18 256 && one_rate resnet18 train "${fast_images[@]}"; }
try_rate_resnet50_python() { images resnet50 128 && one_rate resnet50 python; }
try_rate_resnet50_train() { images resnet50 128 && one_rate resnet50 train; }
try_rate_resnet50_python_fast() { images resnet50 128 && one_rate resnet50 python "${fast_images[@]}"; }
try_rate_resnet50_train_fast() { images resnet50 128 && one_rate resnet50 train "${fast_images[@]}"; }
try_rate_gpt_python() { gpt_words 64 && one_rate gpt python; }
try_rate_gpt_train() { gpt_words 64 && one_rate gpt train; }
try_rate_gpt_python_fast() { gpt_words 64 && one_rate gpt python --fused; }
try_rate_gpt_train_fast() { gpt_words 64 && one_rate gpt train --fused; }

# Each option alone, on the digits.
try_modes() {
  local option last said=''
  for option in --fused --channels-last --cudnn-benchmark '--float32-matmul high'; do
    with_options "$option"
    if [ ${#options[@]} = 0 ]; then said+="; train has no ${option%% *}" && continue; fi
    last=$(trains "$GPU_CHECK_RANKS" 3 --fresh "${options[@]}" | tail -n 1)
    [[ $last == done:* ]] || wrong "it does not end with ${options[*]}: $last"
    said+="; ${options[*]}: $(grep -o 'accuracy [0-9.]*' <<<"$last")"
  done
  echo "${said#; }"
}

# same_with_graph WORDS...: three epochs with and without the graph end with the same weights. The rate is a float, as the
# graph's is.
same_with_graph() {
  local way
  for way in --fused --cuda-graph; do
    trains "$GPU_CHECK_RANKS" 3 --fresh --deterministic "$way" --publish "with$way.safetensors" "$@"
  done
  cmp with--fused.safetensors with--cuda-graph.safetensors || wrong "with --cuda-graph it ends with other weights: $*"
}

try_cuda_graph() {
  local without with said=''
  with_options --cuda-graph
  [ ${#options[@]} -gt 0 ] || skip "train has no --cuda-graph"
  same_with_graph --lr 0.0625
  same_with_graph --optimizer adam --precision fp16 --lr 0.0078125
  same_with_graph --model gpt --dropout 0.1 --lr 0.00390625 --set data.stride=16
  gpt_words 64
  without=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --fused) || wrong "$without"
  with=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --cuda-graph) || wrong "$with"
  said="gpt, $GPU_CHECK_RANKS ranks: --fused $without samples/s, --cuda-graph $with"
  images resnet18 32
  without=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --fused) || wrong "$without"
  with=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --cuda-graph) || wrong "$with"
  echo "the weights are those without; $said; resnet18 in batches of 32: $without, $with"
}

# Of resnet18, on one GPU, two, four and all.
try_scaling() {
  local count rate said=resnet18 all=$GPU_CHECK_RANKS
  for count in 1 2 4 "$all"; do
    if [ "$count" -gt "$all" ] || { [ "$count" = "$all" ] && [[ $said == *", $all ranks"* ]]; }; then continue; fi
    GPU_CHECK_RANKS=$count images resnet18 256
    rate=$(our_rate "$count" "${ours_words[@]}") || wrong "$rate"
    said+=", $count ranks $rate"
    if [ -n "$GPU_CHECK_PYTHON" ]; then
      rate=$(peer_says "$count" "${peer_words[@]}") || wrong "$rate"
      said+=" (Python $rate)"
    fi
  done
  echo "$said samples/s"
}
