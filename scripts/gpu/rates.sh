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

# our_rate N WORDS...: samples per second of the epochs 5 to 7 of 8.
our_rate() {
  local count=$1
  shift
  trains "$count" 8 100 --fresh --evaluate-every 100 "$@" >ours.log 2>&1 ||
    { cat ours.log >&2 && wrong "train fails: $(tail -n 1 ours.log)"; }
  awk '/^epoch [567] of/ { sum += $(NF - 1) } END { printf "%.0f\n", sum / 3; exit !sum }' ours.log
}

# peer_says N WORDS...: the number that the peer prints.
peer_says() {
  local count=$1
  shift
  ranks "$count" "$GPU_CHECK_PYTHON" "$peer" "$@" --device "$GPU_CHECK_DEVICE" >peer.said 2>peer.log ||
    { cat peer.log >&2 && wrong "Python's DDP fails: $(tail -n 1 peer.log)"; }
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
  ours_words=(--dataset synthetic --set "data.samples=$((steps_of_epoch * batch * GPU_CHECK_RANKS))" --set "data.height=$size"
    --set "data.width=$size" --set "data.classes=$classes" --set "model.width_divisor=$divisor" --model "$1" --head "$head"
    --batch-size "$batch" --precision bf16)
  peer_words=("$1" --size "$size" --classes "$classes" --width-divisor "$divisor" --batch-size "$batch" --precision bf16)
  if [ "$GPU_CHECK_DEVICE" = cpu ]; then peer_words+=(--steps 8); fi
}

has_model() { "$GPU_CHECK_BIN/train" --help | grep -q "^  $1 "; }

try_rate_resnet18() { images resnet18 256 && compare --channels-last --cudnn-benchmark; }

try_rate_resnet50() {
  has_model resnet50 || skip "train has no resnet50"
  images resnet50 128 && compare --channels-last --cudnn-benchmark
}

gpt_words() {
  ours_words=(--model gpt --context 256 --layers 6 --heads 6 --embedding 384 --set data.stride=4 --batch-size 64 --precision bf16)
  peer_words=(gpt --context 256 --layers 6 --heads 6 --embedding 384 --batch-size 64 --precision bf16)
}

try_rate_gpt() { gpt_words && compare; }

# launches_of EPOCHS WORDS...: kernels that train launches in so many epochs.
launches_of() {
  local epochs=$1
  shift
  rm -f trace.*
  nsys profile --trace=cuda --output=trace --force-overwrite=true \
    "$GPU_CHECK_BIN/train" "$epochs" 100 --fresh --evaluate-every 100 --device cuda "$@" >nsys.log 2>&1 || return 1
  nsys stats --report cuda_api_sum --format csv trace.nsys-rep 2>>nsys.log | awk -F, '
    /Num Calls/ { for (i = 1; i <= NF; ++i) if ($i ~ /Num Calls/) calls = i }
    calls && /LaunchKernel/ { sum += $calls }
    END { print sum + 0 }'
}

# our_launches EPOCHS WORDS...: what a run of two epochs more launches more, by their steps: neither the start nor the last
# evaluation counts.
our_launches() {
  local epochs=$1 short long
  shift
  short=$(launches_of "$epochs" "$@") && long=$(launches_of $((epochs + 2)) "$@") || return 1
  echo $(((long - short) / (2 * steps_of_epoch)))
}

try_launches() {
  local said='' launches
  GPU_CHECK_RANKS=1 images resnet18 32
  if command -v nsys >/dev/null; then
    launches=$(our_launches 1 "${ours_words[@]}") || wrong "nsys fails: $(tail -n 1 nsys.log)"
    said="resnet18, per step: train $launches"
    with_options --fused
    if [ ${#options[@]} -gt 0 ]; then
      launches=$(our_launches 1 "${ours_words[@]}" --fused) || wrong "nsys fails: $(tail -n 1 nsys.log)"
      said+=", with --fused $launches"
    fi
    with_options --cuda-graph
    if [ ${#options[@]} -gt 0 ]; then  # three epochs have the eleven steps before the graph
      launches=$(our_launches 3 "${ours_words[@]}" --cuda-graph) || wrong "nsys fails: $(tail -n 1 nsys.log)"
      said+=", with --cuda-graph $launches and a graph"
    fi
  else
    said="resnet18, per step: train's not counted, as nsys is not installed"
  fi
  if [ -z "$GPU_CHECK_PYTHON" ]; then
    command -v nsys >/dev/null || skip "neither nsys nor a Python with torch is here"
    echo "$said" && return
  fi
  launches=$(peer_says 1 "${peer_words[@]}" --launches) || wrong "$launches"
  said+="; Python $launches"
  launches=$(peer_says 1 "${peer_words[@]}" --launches --fused) || wrong "$launches"
  echo "$said, with --fused $launches"
}

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
  gpt_words
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
