#!/usr/bin/env bash
# Measures ddprun and train beside torchrun, mpirun and Python DDP, and prints medians, ratios and goals.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/bench.sh [--quick] [--keep] [part ...]

  launch    start and end of 1, 2, 8, 64 and 256 workers that do nothing,
            beside a bare loop, mpirun and torchrun
  death     a worker of 2 GB dies, until the other is told: with and without
            the worker channel, beside torchrun
  restart   a worker's death to the new workers' first line, beside torchrun
  regroup   nodes join, leave, die and are cut off over three hosts, until all
            ranks train again
  etcd      the same with an etcd of three members: start, and losses of workers
            and nodes, beside the own election and torchrun
  tee       eight workers' lines through the launcher into files and, prefixed,
            onto the console
  memory    the launcher's peak memory with 1, 8 and 64 workers, beside mpirun
            and torchrun
  store     requests per processor second of the store's server, p99, memory of
            an idle client, beside PyTorch's libuv
  barrier   16,000 simulated ranks pass a barrier behind 16 store proxies,
            beside clients of the store itself
  attack    the store's p99 beside unauthenticated peers that connect, send
            garbage or begin TLS as fast as they can
  world     16 to 4,000 simulated agents meet, start again after a failure, and
            lose their coordinator
  count     instructions of one launch, by callgrind, beside the last figure
            kept
  stacks    the stacks of 64 hanging Python workers, and for how long their
            threads are stopped, beside eu-stack and gdb
  step      a worker's death to the next training step
  snapshots what a snapshot in memory after each step costs, and a death to
            the next step with them
  prefork   the same for workers that are forked from a template, and the
            memory of all, beside torchrun
  train     training samples per second, beside Python DDP
  ddp       the library: training, snapshots, overlap, loader, beside Python DDP
  models    ConvNet, VGG11_bn and GPT: samples per second, and from the command
            to the first step, beside Python DDP
  modes     ConvNet, VGG11_bn and GPT with Adam and SGD: fused or not, channels
            last or not, beside Python in the same modes
  python    a function on ranks from within a program, in Python and C++,
            beside torch.multiprocessing.spawn and accelerate
  everyday  what people do every day: seconds, and lines to read, beside
            torchrun
  watch     what --watch costs a script's step, start and processor time
  beats     what a report to the worker channel costs, and all of them in
            training steps of a millisecond

  --quick   one sample of each: does it run?
  --keep    write what was measured into docs/figures/bench.md

Without words: all of them, in about 45 minutes. The samples go to
build/bench/. A quiet machine gives the better figures.
END
}

words=()
for word in "$@"; do
  case $word in
    -h | --help) usage && exit ;;
    --quick | --keep | launch | death | restart | regroup | etcd | tee | memory | store | barrier | attack | world | count | stacks | step | snapshots | prefork | train | ddp | models | modes | beats | watch | python | everyday) words+=("$word") ;;
    *) echo "bench.sh: there is no '$word'" >&2 && usage >&2 && exit 2 ;;
  esac
done
parts=()
for word in "${words[@]}"; do [[ $word == --* ]] || parts+=("$word"); done

# The stock PyTorch resolves its peers' names; a slow resolver would be measured with it.
export RES_OPTIONS='timeout:1 attempts:1'
scripts/setup.sh --bench
options=(-DDDPRUN_BENCH=ON)
[ -e build/release/build.ninja ] || options+=(-DDDPRUN_TESTS=OFF)
targets=(bench_programs)
wants() { [ ${#parts[@]} -eq 0 ] || [[ " ${parts[*]} " == *" $1 "* ]]; }
if wants step || wants snapshots || wants prefork || wants train || wants models; then targets+=(train); fi
if wants ddp || wants beats || wants watch || wants snapshots; then targets+=(ddp_load); fi
if wants models || wants modes; then targets+=(model_worker); fi
if wants python; then targets+=(launch_load); fi
if [ ${#targets[@]} -gt 1 ]; then options+=(-DDDPRUN_TRAINER=ON); fi
cmake --preset release "${options[@]}" >/dev/null
cmake --build --preset release --target "${targets[@]}" -- -j"$(nproc)" --quiet
exec python3 -B tests/bench/bench.py "${words[@]}"
