#!/usr/bin/env bash
# For package.sh: fills a folder with what scripts/gpu-check.sh needs on a machine without registries.
#   gpu_kit.sh FOLDER VENV BUILD
# bin/, lib/, share/: programs for the LibTorch of VENV, which BUILD is built with. source/, deps/: the sources, and what they need
# of Debian's packages, to build them for another LibTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
kit=$1 venv=$2 build=$3
mib_max=64  # what can be carried everywhere

fail() {
  echo "package.sh: $*" >&2
  exit 1
}

# In the folder that tests of this LibTorch are run from: compiling the trainer once more takes minutes.
build() {
  if [ ! -e "$build/build.ninja" ]; then
    cmake --preset release -B "$build" -DDDPRUN_TESTS=ON -DDDPRUN_VENV="$PWD/$venv"
  fi
  cmake --build "$build" --target ddprun train ddp_worker gpu_tests nvml_stub
}

# Stripped, and without the paths of this machine: gpu-check.sh says where LibTorch is.
copy_programs() {
  local file
  mkdir -p "$kit/bin/nvml" "$kit/lib" "$kit/share/ddprun"
  cp "$build"/bin/{ddprun,train,ddp_worker,gpu_tests} "$kit/bin/"
  cp "$build"/bin/nvml/* "$kit/bin/nvml/"
  cp -P "$build"/lib/libddprun_*.so* "$kit/lib/"
  cp -r "$build"/lib/ddprun "$kit/lib/"
  cp -r data "$kit/share/ddprun/"
  [ -e "$kit/lib/libddprun_gpu.so" ] || fail "the LibTorch in $venv is one without CUDA: a kit needs one with it"
  find "$kit/bin" "$kit/lib" -type f | while read -r file; do
    strip "$file"
    printf 'file(RPATH_REMOVE FILE "%s")\n' "$file"
  done >"$kit/strip.cmake"
  cmake -P "$kit/strip.cmake"
  rm "$kit/strip.cmake"
}

# The commit's files, but for tests that need no GPU and much else; what is not committed is not in it.
copy_sources() {
  mkdir -p "$kit/source"
  git archive HEAD -- . ':!docs/notebook.ipynb' ':!tests/conformance' ':!tests/fuzz' ':!tests/schedulers' | tar -x -C "$kit/source"
}

libraries=$(gcc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)

# Of these packages headers, CMake's files and the libraries that those name.
copy_deps() {
  local package files=() shared="lib(fmt|spdlog|tomlplusplus)\.so" static="lib(z|crypto|ssl|pcre2-8)\.a"
  local wanted="include/|(lib|share)(/$libraries)?/cmake/|lib/libCatch2|lib/$libraries/($shared|$static)"
  command -v dpkg-query >/dev/null || fail "a kit takes headers from Debian's packages, and this is no Debian"
  for package in libcli11-dev libasio-dev libspdlog-dev libspdlog1.10 libfmt-dev libfmt9 nlohmann-json3-dev libtomlplusplus-dev \
    libtomlplusplus3 zlib1g-dev libssl-dev libpcre2-dev catch2; do
    dpkg-query -L "$package" >/dev/null 2>&1 || fail "the Debian package $package is not installed: run scripts/setup.sh --test"
    mapfile -t -O ${#files[@]} files < <(dpkg-query -L "$package" | grep -E "^/usr/($wanted)" |
      while read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done)
  done
  mkdir -p "$kit/deps"
  printf '%s\0' "${files[@]#/usr/}" | tar -C /usr -c --null -T - | tar -x -C "$kit/deps"
  cp -r "$kit/deps/include/$libraries/." "$kit/deps/include/"  # the compiler of another system does not look there
  rm -r "${kit:?}/deps/include/$libraries"
  sed "s/@libraries@/$libraries/" scripts/packages/kit.cmake.in >"$kit/deps/kit.cmake"
}

copy_check() {
  {
    echo "commit $(git describe --always --dirty)"
    echo "torch $(sed -n "s/^__version__ = '\(.*\)'$/\1/p" "$venv"/lib/python3*/site-packages/torch/version.py)"
  } >"$kit/kit.txt"
  cat >"$kit/gpu-check.sh" <<'SCRIPT'
#!/usr/bin/env bash
# Tries the GPU path with this folder's programs; --build builds them for this machine's LibTorch.
kit=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
exec "$kit/source/scripts/gpu-check.sh" --kit "$kit" "$@"
SCRIPT
  chmod +x "$kit/gpu-check.sh"
}

build
rm -rf "$kit"
mkdir -p "$kit"
copy_programs
copy_sources
copy_deps
copy_check
mib=$(du -sm --apparent-size "$kit" | cut -f1)
[ "$mib" -le $mib_max ] || fail "the kit has $mib MiB, and may have $mib_max: $(du -sm "$kit"/* | tr '\t\n' ' ;')"
