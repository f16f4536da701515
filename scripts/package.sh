#!/usr/bin/env bash
# Builds what users install: a wheel, Debian packages, and the list of what is linked into them; and a kit to try the GPU path.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/package.sh wheel|release|deb|sbom|gpu-kit
                          [--target PROCESSOR] [--native] [--without-train]
                          [--dry-run] [--draft] [--torch VERSION] [--output DIR]

Installs what is missing (scripts/setup.sh), builds, and says what it has
written.

  wheel     the launcher with its Python side, for any Python on any Linux with
            glibc 2.28 or newer (where PyTorch's wheels run); no LibTorch is
            needed. The first one takes some minutes
  release   all files of a release, of a commit whose tag is its version: such
            wheels for x86_64 and aarch64, their sources (sdist), the Debian
            packages, an archive of all sources, of each package what is linked
            in, the notes from CHANGELOG.md, and SHA256SUMS. Publishes nothing
  deb       ddprun, and ddprun-train: train, the library and its headers, for
            the LibTorch of scripts/setup.sh
  sbom      what is linked into the wheel, as CycloneDX; the packages contain
            theirs
  gpu-kit   one .tar.gz, of 40 MiB at most, with all that scripts/gpu-check.sh
            needs on a machine without registries (docs/internals/
            gpu-run.md)
  --target PROCESSOR   of the wheel: x86_64 or aarch64 (default: this machine's)
  --native  one wheel, by this machine's compiler, for its glibc or a newer one;
            what the project's build has compiled is not compiled again
  --without-train   of the Debian packages only ddprun, which needs no LibTorch
  --dry-run   says which files a release would have, and why the commit may not
            be released (exit code 1)
  --draft   makes the files of a release also of a commit that may not be
            released, and says why it may not
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

output=build/packages what='' trainer=ON torch='' target=''
native=false dry=false draft=false
while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    wheel | release | deb | sbom | gpu-kit) what=$option ;;
    --target=*) target=${option#*=} ;;
    --target) target=${1:-} && shift ;;
    --native) native=true ;;
    --without-train) trainer=OFF ;;
    --dry-run) dry=true ;;
    --draft) draft=true ;;
    --torch=*) torch=${option#*=} ;;
    --torch) torch=${1:-} && shift ;;
    --output=*) output=${option#*=} ;;
    --output) output=${1:-} && shift ;;
    -h | --help) usage && exit ;;
    *) echo "package.sh: unknown option $option" >&2 && usage >&2 && exit 2 ;;
  esac
done
[ -n "$what" ] || { usage >&2 && exit 2; }

here=$(uname -m)
if $native && [ "${target:=$here}" != "$here" ]; then fail "--native is for this machine's processor, $here, and not for $target"; fi
case $what,$native,${target:=$here} in
  wheel,false,x86_64 | wheel,false,aarch64 | sbom,false,x86_64 | sbom,false,aarch64) ;;
  wheel,false,* | sbom,false,*) fail "there is a wheel for x86_64 and one for aarch64, and none for $target: pass --target, or --native" ;;
esac

if { $dry || $draft; } && [ "$what" != release ]; then fail "--dry-run and --draft are of a release, and this is $what"; fi

# The name of a wheel of this project, by its tag.
wheel_of() { echo "ddprun-$version-py3-none-$1.whl"; }

native_tag() {
  local glibc
  glibc=$(getconf GNU_LIBC_VERSION)
  echo "manylinux_$(tr . _ <<<"${glibc#* }")_$here"
}

packages_of_release() {
  local architecture processor
  if $native; then
    wheel_of "$(native_tag)"
  else
    for processor in x86_64 aarch64; do wheel_of "manylinux_2_28_$processor"; done
  fi
  architecture=$(dpkg --print-architecture)
  echo "ddprun_${version}_$architecture.deb"
  if [ $trainer = ON ]; then echo "ddprun-train_${version}_$architecture.deb"; fi
}

files_of_release() {
  local file
  for file in $(packages_of_release); do printf '%s\n' "$file" "${file%.*}.cdx.json"; done
  printf '%s\n' "ddprun-$version.tar.gz" "ddprun_${version}_source.tar.gz" "ddprun_${version}_notes.md" SHA256SUMS
}

# Says why this commit may not be released.
may_release() {
  local reasons
  if reasons=$(scripts/packages/release.py check 2>&1); then return 0; fi
  sed 's/^/package.sh: no release: /' <<<"$reasons" >&2
  return 1
}

if [ "$what" = release ]; then
  command -v dpkg >/dev/null || fail "the Debian packages of a release are made on Debian, and this machine has no dpkg"
  version=$(scripts/packages/release.py version)
  if $dry; then
    files_of_release | sed "s|^|$output/|"
    may_release || $draft && exit
    exit 1
  fi
  may_release || $draft || fail "--draft makes its files all the same"
fi

venv=.venv${torch:+-$torch} wheel='' stage=''
case $what in
  gpu-kit) scripts/setup.sh ${torch:+--torch "$torch"} ;;
  wheel | sbom) scripts/setup.sh --wheel $($native || echo --zig) ;;
  release) scripts/setup.sh --release --package $($native || echo --zig) ;;
  deb) scripts/setup.sh --package ;;
esac
case $what,$trainer in deb,ON | release,ON) scripts/setup.sh ;; esac  # LibTorch

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

quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "$1 failed, see above"; }; }

# What the wheel is built from, with pyproject.toml and README.md on top; its build folder is inside, named as that of
# the preset, so that ccache has what was compiled there. The files keep
# their times: a second build compiles what has changed.
stage_sources() {
  local sources=(CMakeLists.txt LICENSE agent cmake launcher rendezvous scripts/monitoring scripts/packages/sbom.py)
  mkdir -p "$stage"
  find "$stage" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  { git ls-files -z --cached --others --exclude-standard -- "${sources[@]}" 2>/dev/null || find "${sources[@]}" -type f -print0; } |
    while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
    tar --null --files-from=- --create | tar -C "$stage" --extract
  mv "$stage"/launcher/python/{pyproject.toml,README.md} "$stage/"
  cmake -DSOURCE="$PWD" -DOUTPUT="$stage/cmake/commit.txt" -P cmake/FindCommit.cmake
}

# build_wheel TAG CMAKE-ARGUMENT...
build_wheel() {
  local tag=$1
  shift
  stage_sources
  rm -rf "$work/wheel"
  quietly env PIP_DISABLE_PIP_VERSION_CHECK=1 SKBUILD_WHEEL_TAGS="py3-none-$tag" CMAKE_GENERATOR=Ninja \
    SKBUILD_CMAKE_ARGS="-DDDPRUN_SBOM=ON$(printf ';%s' "$@")" \
    .venv-package/bin/python -m pip wheel "./$stage" --no-build-isolation --no-deps --no-index --wheel-dir "$work/wheel"
  wheel=$(ls "$work"/wheel/*.whl)
  quietly .venv-package/bin/auditwheel show "$wheel"
  .venv-package/bin/python scripts/packages/check_wheel.py "$wheel" "$tag" "$work/log"
}

build_native_wheel() {
  local map_flags="-Wl,-Map=%"  # a map of each linked file tells which members of static libraries are in it
  stage=build/wheel
  build_wheel "$(native_tag)" "-DCMAKE_EXE_LINKER_FLAGS=$map_flags" "-DCMAKE_MODULE_LINKER_FLAGS=$map_flags"
}

# build_portable_wheel PROCESSOR. A ddprun of this processor writes the manual page for another one.
build_portable_wheel() {
  local zig=$PWD/build/zig/$1-linux-gnu.2.28 arguments=()
  if [ "$1" != "$here" ]; then
    build_portable_wheel "$here"
    arguments=("-DDDPRUN_RUNS_HERE=$PWD/$stage/build/release/bin/ddprun")
  fi
  scripts/packages/zig.sh "$1-linux-gnu.2.28"
  stage=build/wheel-$1
  cmp -s cmake/zig.cmake "$stage/cmake/zig.cmake" || rm -rf "$stage"  # CMake reads a toolchain's flags only once
  build_wheel "manylinux_2_28_$1" "-DCMAKE_TOOLCHAIN_FILE=$PWD/$stage/cmake/zig.cmake" "-DDDPRUN_ZIG=$zig" -DDDPRUN_BUNDLE_LIBRARIES=OFF \
    "${arguments[@]}"
}

build_wanted_wheel() { if $native; then build_native_wheel; else build_portable_wheel "$target"; fi; }

# To the user's folder, with a line that says so.
hand_over() {
  local file
  for file; do
    mv "$file" "$output/"
    echo "package.sh: $output/$(basename "$file")"
  done
}

build_release() {
  local processor file
  mkdir "$work/release"
  if $native; then
    build_native_wheel
    mv "$wheel" "$work/release/"
  else
    for processor in x86_64 aarch64; do
      build_portable_wheel $processor
      mv "$wheel" "$work/release/"
    done
  fi
  quietly env -C "$stage" "$PWD/.venv-package/bin/python" -c "import scikit_build_core.build, sys; scikit_build_core.build.build_sdist(sys.argv[1])" "$work/release"
  quietly .venv-package/bin/twine check --strict "$work"/release/*.whl "$work"/release/*.tar.gz
  quietly scripts/packages/debian.sh "$work/release" $trainer
  for file in "$work"/release/*.whl "$work"/release/*.deb; do scripts/packages/release.py sbom "$file" >"${file%.*}.cdx.json"; done
  git archive --prefix="ddprun-$version/" HEAD | gzip -9n >"$work/release/ddprun_${version}_source.tar.gz"
  scripts/packages/release.py notes >"$work/release/ddprun_${version}_notes.md"
  (cd "$work/release" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
  diff <(files_of_release | LC_ALL=C sort) <(cd "$work/release" && printf '%s\n' * | LC_ALL=C sort) >&2 || fail "these files are not those that --dry-run names"
  hand_over "$work"/release/*
}

build_deb() {
  quietly scripts/packages/debian.sh "$work/deb" $trainer
  hand_over "$work"/deb/*.deb
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
  wheel)
    build_wanted_wheel
    hand_over "$wheel"
    ;;
  release) build_release ;;
  gpu-kit) build_kit ;;
  deb) build_deb ;;
  sbom)
    build_wanted_wheel
    .venv-package/bin/python scripts/packages/sbom.py "$stage/build/release" >"$output/ddprun.cdx.json"
    echo "package.sh: $output/ddprun.cdx.json"
    ;;
esac
