#!/usr/bin/env bash
# Builds what users install: a wheel, Debian packages, and the list of what is linked into them; and a kit to try the GPU path.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/package.sh wheel|release|deb|sbom|gpu-kit
                          [--without-train] [--torch VERSION] [--output DIR]

Installs what is missing (scripts/setup.sh), builds, and says what it has
written.

  wheel     the launcher with its Python side, for any Python on any Linux with
            this machine's glibc or a newer one; no LibTorch is needed
  release   the wheel, its sources (sdist) and SHA256SUMS, for twine to upload
  deb       ddprun, and ddprun-train: train, the library and its headers, for
            the LibTorch of scripts/setup.sh
  sbom      what is linked into the wheel, as CycloneDX; the packages contain
            theirs
  gpu-kit   one .tar.gz, of 40 MiB at most, with all that scripts/gpu-check.sh
            needs on a machine without registries (docs/internals/
            gpu-run.md)
  --without-train   of the Debian packages only ddprun, which needs no LibTorch
  --torch VERSION   for which LibTorch the kit's programs are, as for
                    scripts/setup.sh
  --output DIR      where to (default build/packages)

The same commit gives the same bytes.
END
}

fail() {
  echo "package.sh: $*" >&2
  exit 1
}

output=build/packages what='' trainer=ON torch=''
while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    wheel | release | deb | sbom | gpu-kit) what=$option ;;
    --without-train) trainer=OFF ;;
    --torch=*) torch=${option#*=} ;;
    --torch) torch=${1:-} && shift ;;
    --output=*) output=${option#*=} ;;
    --output) output=${1:-} && shift ;;
    -h | --help) usage && exit ;;
    *) echo "package.sh: unknown option $option" >&2 && usage >&2 && exit 2 ;;
  esac
done
[ -n "$what" ] || { usage >&2 && exit 2; }

venv=.venv${torch:+-$torch} wheel=''
case $what in
  gpu-kit) scripts/setup.sh ${torch:+--torch "$torch"} ;;
  wheel | sbom) scripts/setup.sh --wheel ;;
  release) scripts/setup.sh --wheel --release ;;
  deb) scripts/setup.sh --package ;;
esac
if [ "$what" = deb ] && [ $trainer = ON ]; then scripts/setup.sh; fi  # LibTorch

mkdir -p build "$output"
output=$(realpath "$output")
exec 9>build/package.lock
flock 9  # one at a time: their build folders are fixed, for ccache
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
# Else scikit-build-core and Debian's tools would take the compiler that their Python was built with.
if [ -z "${CXX:-}" ]; then CXX=$(command -v clang++ || command -v g++); fi
export CXX
# A map of each linked file tells which members of static libraries are in it.
map_flags="-Wl,-Map=%"

quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "$1 failed, see above"; }; }

# What the wheel is built from, with pyproject.toml and README.md on top; its build folder is inside, named as that of
# the preset, so that ccache has what was compiled there. The files keep
# their times: a second build compiles what has changed.
stage=build/wheel
stage_sources() {
  local sources=(CMakeLists.txt LICENSE agent cmake launcher rendezvous scripts/monitoring scripts/packages/sbom.py)
  mkdir -p $stage
  find $stage -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  { git ls-files -z --cached --others --exclude-standard -- "${sources[@]}" 2>/dev/null || find "${sources[@]}" -type f -print0; } |
    while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
    tar --null --files-from=- --create | tar -C $stage --extract
  mv $stage/launcher/python/{pyproject.toml,README.md} $stage/
}

build_wheel() {
  local glibc tag
  glibc=$(getconf GNU_LIBC_VERSION)
  tag=manylinux_$(tr . _ <<<"${glibc#* }")_$(uname -m)
  stage_sources
  quietly env PIP_DISABLE_PIP_VERSION_CHECK=1 SKBUILD_WHEEL_TAGS="py3-none-$tag" CMAKE_GENERATOR=Ninja \
    SKBUILD_CMAKE_ARGS="-DCMAKE_EXE_LINKER_FLAGS=$map_flags;-DCMAKE_MODULE_LINKER_FLAGS=$map_flags;-DDDPRUN_SBOM=ON" \
    .venv-package/bin/python -m pip wheel ./$stage --no-build-isolation --no-deps --no-index --wheel-dir "$work/wheel"
  wheel=$(ls "$work"/wheel/*.whl)
  quietly .venv-package/bin/auditwheel show "$wheel"
  .venv-package/bin/python scripts/packages/check_wheel.py "$wheel" "$tag" "$work/log"
  mv "$wheel" "$output/"
  wheel=$output/$(basename "$wheel")
  echo "package.sh: $wheel"
}

build_release() {
  local sdist
  build_wheel
  quietly env -C $stage "$PWD/.venv-package/bin/python" -c "import scikit_build_core.build, sys; scikit_build_core.build.build_sdist(sys.argv[1])" "$work/sdist"
  sdist=$(ls "$work"/sdist/*.tar.gz)
  quietly .venv-package/bin/twine check --strict "$wheel" "$sdist"
  mv "$sdist" "$output/"
  sdist=$output/$(basename "$sdist")
  (cd "$output" && sha256sum "$(basename "$wheel")" "$(basename "$sdist")" >SHA256SUMS)
  echo "package.sh: $sdist"
  echo "package.sh: $output/SHA256SUMS"
}

build_deb() {
  local package
  quietly scripts/packages/debian.sh "$work/deb" $trainer
  for package in "$work"/deb/*.deb; do
    mv "$package" "$output/"
    echo "package.sh: $output/$(basename "$package")"
  done
}

kit_mib_max=40

build_kit() {
  local name file bytes
  name=ddprun-gpu-kit-$(git describe --always --dirty 2>/dev/null || echo unknown)
  file=$output/$name.tar.gz
  quietly scripts/packages/gpu_kit.sh "$work/$name" "$venv" "build/${torch:+torch-}${torch:-release}"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" | gzip -9n >"$file"
  bytes=$(stat -c %s "$file")
  if [ "$bytes" -gt $((kit_mib_max << 20)) ]; then
    rm "$file"
    fail "the kit takes $((bytes >> 20)) MiB packed, and may take $kit_mib_max: $(du -sm "$work/$name"/* | tr '\t\n' ' ;')"
  fi
  echo "package.sh: $file, $(((bytes + (1 << 19)) >> 20)) MiB"
}

case $what in
  wheel) build_wheel ;;
  release) build_release ;;
  gpu-kit) build_kit ;;
  deb) build_deb ;;
  sbom)
    build_wheel
    .venv-package/bin/python scripts/packages/sbom.py $stage/build/release >"$output/ddprun.cdx.json"
    echo "package.sh: $output/ddprun.cdx.json"
    ;;
esac
