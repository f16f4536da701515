# shellcheck shell=bash disable=SC2154  # peer and window_s are those of rates.sh
# For gpu-check.sh --budget: small models in each mode, and what options cost.

# Models whose steps are so short that the host limits them. small_digits, small_resnet18, small_gpt: `ours_words` and `peer_words`.
small_digits() {
  local samples=192000 every=500
  if [ "$GPU_CHECK_DEVICE" = cpu ]; then samples=12800 every=50; fi
  step_samples=$((64 * GPU_CHECK_RANKS)) within_epoch=0
  ours_words=(--dataset synthetic --set "data.samples=$((samples * GPU_CHECK_RANKS))" --set data.channels=1 --set data.height=8
    --set data.width=8 --model convnet --batch-size 64 --log-every $every)
  peer_words=(digits --size 8 --classes 10 --batch-size 64)
}

small_resnet18() {
  step_samples=$((64 * GPU_CHECK_RANKS)) within_epoch=0
  ours_words=(--dataset synthetic --set "data.samples=$((64000 * GPU_CHECK_RANKS))" --set data.height=32 --set data.width=32
    --model resnet18 --head small --batch-size 64 --precision bf16 --log-every 100)
  peer_words=(resnet18 --size 32 --classes 10 --batch-size 64 --precision bf16)
}

small_gpt() { gpt_words 8; }

# ours_in_modes: a line that grows with each mode, as the step's limit may end it.
ours_in_modes() {
  local mode rate said=train
  for mode in '' --fused --cuda-graph; do
    if [ "$mode" = --cuda-graph ] && [ "$GPU_CHECK_DEVICE" = cpu ]; then continue; fi
    with_options ${mode:+"$mode"}
    if [ -n "$mode" ] && [ ${#options[@]} = 0 ]; then said+="; it has no $mode" && continue; fi
    rate=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" "${options[@]}") || wrong "$said; then with ${mode:-no option} $rate"
    said+=", ${mode:-default} $rate"
    echo "$said samples/s"
  done
}

# peer_in_modes MODES
peer_in_modes() {
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  ranks "$GPU_CHECK_RANKS" "$GPU_CHECK_PYTHON" "$peer" "${peer_words[@]}" --modes "$1" --window "$window_s" \
    --device "$GPU_CHECK_DEVICE" 2>peer.log | tee peer.said ||
    { cat peer.log >&2 && wrong "Python's DDP: $(tail -n 1 peer.said); then it fails: $(peer_error)"; }
  echo "Python's DDP: $(tail -n 1 peer.said)"
}

python_modes=default,fused,graph
if [ "${GPU_CHECK_DEVICE:-}" = cpu ]; then python_modes=default,fused; fi
try_small_digits_train() { small_digits && ours_in_modes; }
try_small_digits_python() { small_digits && peer_in_modes $python_modes; }
try_small_digits_compile() { small_digits && peer_in_modes compile; }
try_small_resnet18_train() { small_resnet18 && ours_in_modes; }
try_small_resnet18_python() { small_resnet18 && peer_in_modes $python_modes; }
try_small_resnet18_compile() { small_resnet18 && peer_in_modes compile; }
try_small_gpt_train() { small_gpt && ours_in_modes; }
try_small_gpt_python() { small_gpt && peer_in_modes $python_modes; }
try_small_gpt_compile() { small_gpt && peer_in_modes compile; }

# What `ddprun --memory-snapshots` costs: as often as train chooses, and after every step.
try_memory_snapshots() {
  local rate said
  if [ "$GPU_CHECK_DEVICE" = cpu ]; then small_digits; else gpt_words 64; fi
  rate=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --fused) || wrong "$rate"
  said="without $rate"
  launch_options=(--memory-snapshots=8G)
  rate=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --fused) || wrong "$said; then with them $rate"
  said+=", with --memory-snapshots $rate"
  echo "$said samples/s"
  rate=$(our_rate "$GPU_CHECK_RANKS" "${ours_words[@]}" --fused --memory-steps 1) || wrong "$said; then after every step $rate"
  echo "$said, after every step $rate samples/s"
}

# From kill -9 of a worker to the next step, by the way it is started.
try_restarts() {
  local said='' took way words
  for way in '' '--prefork --memory-snapshots=1G'; do
    read -ra words <<<"$way"
    time_restart "${words[@]}"
    said+="${said:+, }${way:-default} $took ms"
    echo "from kill -9 of a worker to the next step: $said"
  done
}

try_launches() {
  local launches said
  [ -n "$GPU_CHECK_PYTHON" ] || skip "no Python with torch is here"
  GPU_CHECK_RANKS=1 images resnet18 32
  launches=$(peer_says 1 "${peer_words[@]}" --launches) || wrong "$launches"
  said="resnet18, kernels per step: Python $launches"
  echo "$said"
  launches=$(peer_says 1 "${peer_words[@]}" --launches --fused) || wrong "$launches"
  echo "$said, with --fused $launches"
}
