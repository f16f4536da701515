#!/usr/bin/env bash
# Measures ddprun and train beside torchrun, mpirun and Python DDP, and prints medians, ratios and goals.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/bench.sh [launch] [spawn] [restart] [death] [step] [train] [tee]

  launch    start and end of two workers that do nothing: time and memory, beside torchrun and mpirun
  spawn     starting 1 to 256 workers, beside a loop of posix_spawn
  restart   a worker's death to the new workers' first line, beside torchrun
  death     a large worker's death to its peer's SIGTERM, with and without its channel
  step      a worker's death to the next training step
  train     training samples per second, beside Python DDP
  tee       eight workers' lines through the launcher into files and, prefixed, onto the console

Without words: all seven, in a few minutes. The samples go to build/bench/. A quiet machine gives the better figures.
END
}

case " $* " in *' -h '* | *' --help '*) usage && exit ;; esac
# The stock PyTorch resolves its peers' names; a slow resolver would be measured with it.
export RES_OPTIONS='timeout:1 attempts:1'
scripts/setup.sh --bench
tests=()
[ -e build/release/build.ninja ] || tests=(-DDDPRUN_TESTS=OFF)
cmake --preset release -DDDPRUN_BENCH=ON "${tests[@]}" >/dev/null
cmake --build --preset release --target ddprun train stamp_worker peak_memory spawn_bench line_writer -- -j"$(nproc)" --quiet
exec python3 tests/bench/bench.py "$@"
