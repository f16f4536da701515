#!/usr/bin/env bash
# From a fresh clone to a trained model: installs, builds, trains on two workers, says what to try next.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '') ;;
  *) printf '%s\n' "usage: scripts/quickstart.sh" "Installs what the build needs, builds, installs ddprun into .venv, and trains on" "the shipped digits." && [[ $1 == -h || $1 == --help ]]; exit ;;
esac

scripts/setup.sh
echo "quickstart: building ddprun and train (the first time takes a few minutes)"
tests=() quiet=()
[ -e build/release/build.ninja ] || tests=(-DDDPRUN_TESTS=OFF)  # the tests' build needs more packages
[ -t 1 ] || quiet=(--quiet)
cmake --preset release "${tests[@]}" >/dev/null
cmake --build --preset release --target ddprun train -- -j"$(nproc)" "${quiet[@]}"

bin=$PWD/build/release/bin enter="export PATH=\"$PWD/build/release/bin:\$PATH\""
if [ -x .venv/bin/python ]; then  # there is none where DDPRUN_TORCH_DIR has named a LibTorch
  rm -rf build/quickstart
  scripts/package.sh wheel --native --output build/quickstart
  wheel=$(echo build/quickstart/*.whl)
  pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input install -q)
  "${pip[@]}" --force-reinstall --no-deps "$wheel"
  "${pip[@]}" "$wheel"  # and what it needs: cloudpickle
  cmake --install build/release --component train --prefix .venv >/dev/null
  bin=$PWD/.venv/bin enter="source $PWD/.venv/bin/activate"
fi

export PATH=$bin:$PATH
echo "quickstart: training a small ConvNet on 1,500 handwritten digits, on two workers:"
echo "  ddprun --nproc_per_node=2 train --fresh --snapshot build/quickstart.pt"
ddprun --nproc_per_node=2 train --fresh --snapshot build/quickstart.pt

cat <<END

That was a whole job: two workers, one model, its accuracy in the last line. What to try next:
  $enter
  ddprun --nproc_per_node=4 train 300 --fresh      then, in another terminal:  pkill -9 --newest -x train
                                                   one worker dies, all come back from the last snapshot
  ddprun --nproc_per_node=2 your_script.py         your own PyTorch script, as you would start it with torchrun
  train --help                                     models, data sets, options
  ddprun --help all                                all options; docs/README.md names the page for each task
END
