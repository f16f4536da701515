# shellcheck shell=bash disable=SC2154  # build, project and work are gpu-check.sh's
# For gpu-check.sh: where programs, LibTorch, Python and GPUs are. What is found is exported for the steps, each a process.

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# The kit's folder as a whole path. A kit says in kit.txt for which LibTorch its programs are.
find_kit() {
  if [ -z "$GPU_CHECK_KIT" ]; then
    if $build; then refuse "--build needs --kit DIR; a checkout is built by cmake --build --preset release."; fi
    return
  fi
  [ -e "$GPU_CHECK_KIT/kit.txt" ] ||
    refuse "$GPU_CHECK_KIT is no kit (no kit.txt there): name the folder that scripts/package.sh gpu-kit has made."
  GPU_CHECK_KIT=$(realpath "$GPU_CHECK_KIT")
}

kit_value() { sed -n "s/^$1 //p" "$GPU_CHECK_KIT/kit.txt"; }

# Python without torch is of no use here.
has_torch() { "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; }

find_torch() {
  local candidate
  export GPU_CHECK_PYTHON='' GPU_CHECK_TORCH=${DDPRUN_TORCH_DIR:-}
  for candidate in "${PYTHON_EXEC:-}" "$project/.venv/bin/python" python3 python; do
    if [ -n "$candidate" ] && candidate=$(command -v "$candidate") && has_torch "$candidate"; then
      GPU_CHECK_PYTHON=$candidate
      break
    fi
  done
  if [ -z "$GPU_CHECK_TORCH" ] && [ -n "$GPU_CHECK_PYTHON" ]; then
    GPU_CHECK_TORCH=$("$GPU_CHECK_PYTHON" -c \
      'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
  fi
}

# As "2.11.0+cu130"; empty where there is none. A wheel has version.py, an unpacked libtorch build-version.
torch_version() {
  if [ -e "$GPU_CHECK_TORCH/version.py" ]; then
    sed -n "s/^__version__ = '\(.*\)'$/\1/p" "$GPU_CHECK_TORCH/version.py"
  elif [ -e "$GPU_CHECK_TORCH/build-version" ]; then
    cat "$GPU_CHECK_TORCH/build-version"
  fi
}

# The sources of the kit, with the headers that it brings, for this machine's LibTorch.
build_kit() {
  local tool log=$work/build.log
  [ -n "$GPU_CHECK_TORCH" ] || refuse "no LibTorch here to build for: activate a Python that has torch, or set DDPRUN_TORCH_DIR."
  for tool in cmake ninja; do
    command -v $tool >/dev/null || refuse "--build needs $tool, which is not installed."
  done
  command -v clang++ >/dev/null || command -v g++ >/dev/null || refuse "--build needs g++ or clang++; neither is installed."
  echo "gpu-check.sh: building for torch $(torch_version), a few minutes; its output goes to $log"
  {
    cmake -S "$GPU_CHECK_KIT/source" -B "$GPU_CHECK_KIT/built" -G Ninja -C "$GPU_CHECK_KIT/deps/kit.cmake" \
      -DCMAKE_BUILD_TYPE=Release -DDDPRUN_TORCH_DIR="$GPU_CHECK_TORCH" -DDDPRUN_TESTS_FOR_GPU=ON &&
      cmake --build "$GPU_CHECK_KIT/built" --target ddprun train ddp_worker gpu_tests nvml_stub
  } >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    cp "$log" "${out:-$PWD}/gpu-check-build.log"
    refuse "the build failed, see above; its whole output is in ${out:-$PWD}/gpu-check-build.log"
  }
}

find_programs() {
  local folder=${1:-$project/build/release} kits here program
  export GPU_CHECK_BIN
  if [ -n "$GPU_CHECK_KIT" ] && [ -x "$GPU_CHECK_KIT/built/bin/gpu_tests" ]; then
    folder=$GPU_CHECK_KIT/built
  elif [ -n "$GPU_CHECK_KIT" ]; then
    folder=$GPU_CHECK_KIT kits=$(kit_value torch) here=$(torch_version)
    [ -n "$here" ] || refuse "no LibTorch here: activate a Python that has torch, or set DDPRUN_TORCH_DIR."
    [ "$kits" = "$here" ] ||
      refuse "the kit's programs are for torch $kits, and $GPU_CHECK_TORCH has $here: pass --build, which builds them for this one."
    export LD_LIBRARY_PATH=$GPU_CHECK_TORCH/lib:$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  for program in ddprun train; do
    [ -x "$folder/bin/$program" ] ||
      refuse "there is no $folder/bin/$program: build it (cmake --build --preset release), or pass --build-dir or --kit."
  done
  GPU_CHECK_BIN=$(realpath "$folder/bin")
  export DDPRUN_TEST_PROGRAMS=$GPU_CHECK_BIN GPU_CHECK_LIB=${GPU_CHECK_BIN%/bin}/lib
}

# Without nvidia-smi, as in some containers, the device files are counted.
count_gpus() {
  if command -v nvidia-smi >/dev/null; then
    { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU ' || true
  else
    find /dev -maxdepth 1 -name 'nvidia[0-9]*' 2>/dev/null | wc -l
  fi
}

# What CUDA_VISIBLE_DEVICES hides is not there for the steps.
find_gpus() {
  export GPU_CHECK_GPUS=0 GPU_CHECK_DEVICE=cpu GPU_CHECK_RANKS=2
  if $1; then export CUDA_VISIBLE_DEVICES='' && return; fi
  if [ "$(count_gpus)" -gt 0 ]; then GPU_CHECK_GPUS=$(count_by_ddprun); fi
  [ "$GPU_CHECK_GPUS" -gt 0 ] ||
    refuse "this machine shows no NVIDIA GPU: check nvidia-smi -L and CUDA_VISIBLE_DEVICES, or pass --no-gpu for what needs none."
  GPU_CHECK_DEVICE=cuda GPU_CHECK_RANKS=$((GPU_CHECK_GPUS < 8 ? GPU_CHECK_GPUS : 8))
}

# count_by_ddprun [FILE]: how many workers --nproc-per-node=gpu starts; 0 where it refuses. FILE gets what it says.
count_by_ddprun() {
  local out
  out=$("$GPU_CHECK_BIN/ddprun" --nproc-per-node=gpu --max-restarts=0 printenv WORLD_SIZE 2>"${1:-/dev/null}") || out=0
  head -n 1 <<<"$out"
}

project_version() {
  if [ -n "$GPU_CHECK_KIT" ]; then
    kit_value commit
  else
    git -C "$project" describe --always --dirty 2>/dev/null || echo 'of an unknown commit'
  fi
}

machine() {
  local name=GPU
  if [ "$GPU_CHECK_GPUS" = 0 ]; then echo "$(nproc) cores, no GPU" && return; fi
  if command -v nvidia-smi >/dev/null; then name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n 1p); fi
  echo "$GPU_CHECK_GPUS × $name"
}
