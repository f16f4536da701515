#!/usr/bin/env bash
# For scripts/package.sh deb: builds and packs the Debian packages into a folder.
# usage: debian.sh FOLDER ON|OFF     whether also ddprun-train
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD output=$(realpath -m "$1") trainer=$2
mkdir -p "$output"
build=$source/build/deb targets=(ddprun train)
if [ "$trainer" = OFF ]; then build=$source/build/deb-launcher targets=(ddprun); fi
hardening=-Wl,-z,relro,-z,now,-Map=%
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDPRUN_TESTS=OFF -DDDPRUN_TRAINER="$trainer" -DDDPRUN_TORCH_AT_START=ON \
  -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib/ddprun \
  -DCMAKE_EXE_LINKER_FLAGS="$hardening" -DCMAKE_MODULE_LINKER_FLAGS="$hardening" -DCMAKE_SHARED_LINKER_FLAGS="$hardening"
cmake --build "$build" --target "${targets[@]}"

value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
version=$(value CMAKE_PROJECT_VERSION)
libtorch=none
if [ "$trainer" = ON ]; then
  libtorch=$(sed -n 's/.*Torch_VERSION STREQUAL "\([^"]*\)".*/\1/p' "$build/trainer/ddp/ddprunLibrary.cmake")
fi
torch_folder=$(value Torch_DIR)
maintainer=$(git log -1 --format='%an <%ae>' 2>/dev/null || echo 'nobody <nobody@localhost>')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r scripts/packages/debian "$work/"
cd "$work"
if [ "$trainer" = OFF ]; then
  sed -i '/^Package: ddprun-train$/,$d' debian/control
  rm debian/ddprun-train.* debian/train.1
fi
find debian -type f -exec sed -i "s/@MAINTAINER@/$maintainer/; s/@TORCH@/$libtorch/; s/@VERSION@/$version/" {} +
printf 'ddprun (%s) unstable; urgency=medium\n\n  * See the history of the sources.\n\n -- %s  %s\n' "$version" "$maintainer" \
  "$(date -Rud "@$SOURCE_DATE_EPOCH")" >debian/changelog
DEB_BUILD_OPTIONS=noautodbgsym DEB_RULES_REQUIRES_ROOT=no DDPRUN_SOURCE=$source DDPRUN_BUILD=$build DDPRUN_OUTPUT=$output \
  DDPRUN_TRAINER=$trainer DDPRUN_TORCH=$libtorch DDPRUN_TORCH_LIBRARIES=${torch_folder:+${torch_folder%/share/cmake/Torch}/lib} \
  debian/rules binary
lintian --allow-root --fail-on error,warning "$output"/*.deb
