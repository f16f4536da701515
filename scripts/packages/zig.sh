#!/usr/bin/env bash
# For package.sh: fills build/zig/TARGET with a compiler for Linux with an older glibc than this machine's, and with what the launcher
# is built from there; cmake/zig.cmake takes them.
#   zig.sh TARGET
# TARGET: x86_64-linux-gnu.2.28 or the like. bin/: cc, c++, ar, ranlib, ccache. headers/: packages of this Debian that are nothing else.
# libraries/: static ones, built from Debian's source packages. The compiler is PyPI's ziglang in .venv-package (scripts/setup.sh --zig).
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${1:-}
# What Debian 12 itself has, which changes no more; of its security updates the sources are not on every mirror.
declare -A versions=([zlib]=1:1.2.13.dfsg-1 [pcre2]=10.42-1 [openssl]=3.0.20-1~deb12u2 [xz-utils]=5.4.1-1+deb12u2 [elfutils]=0.188-2.1)
sources=(zlib pcre2 openssl xz-utils elfutils)  # each needs only those before it
header_packages=(libcli11-dev libasio-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev)

fail() {
  echo "package.sh: $*" >&2
  exit 1
}

[[ $target =~ ^(x86_64|aarch64)-linux-gnu\.2\.[0-9]+$ ]] ||
  fail "no target '$target': it is x86_64-linux-gnu.2.28, or the like for aarch64 or another glibc"
machine=${target%%-*}
triplet=$machine-linux-gnu
cache=$PWD/build/zig
folder=$cache/$target
headers=$folder/headers libraries=$folder/libraries
log=$folder/log
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
mkdir -p "$folder/bin" "$headers/usr/include" "$libraries"/usr/{include,lib} "$cache/sources"
exec 8>"$cache/lock"
flock 8  # the sources and zig's cache are for all targets

quietly() { "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "$1 failed, see above and $log"; }; }

zig=$(echo "$PWD"/.venv-package/lib/python3*/site-packages/ziglang/zig)
[ -x "$zig" ] || fail "there is no zig in .venv-package: run scripts/setup.sh --zig"
zig_version=$("$zig" version)

# write_program NAME: from stdin. One that has not changed keeps its time, by which ninja and CMake know it.
write_program() {
  local file=$folder/bin/$1
  { echo '#!/bin/sh' && cat; } >"$file.new"
  chmod +x "$file.new"
  if cmp -s "$file.new" "$file"; then rm "$file.new"; else mv "$file.new" "$file"; fi
}

# Without -g0 every object has zig's debug information. Of the caches each call would else ask the home folder. What differs between
# clones is here and not in the words of a call, which OpenSSL writes into its library and by which ccache knows an object.
write_programs() {
  local name flags
  for name in cc c++ ar ranlib; do
    flags=''
    if [[ $name == c* ]]; then flags="-target $target -g0 -isystem '$headers/usr/include' -isystem '$libraries/usr/include' -L'$libraries/usr/lib' '-ffile-prefix-map=$folder=.'"; fi
    write_program $name <<END
export ZIG_GLOBAL_CACHE_DIR='$cache/cache' ZIG_LOCAL_CACHE_DIR='$folder/objects'
exec '$zig' $name $flags "\$@"
END
  done
  # By default ccache knows a compiler by its name and its time.
  write_program ccache <<END
export CCACHE_COMPILERTYPE=clang CCACHE_COMPILERCHECK='string:zig $zig_version $target -g0'
exec '$(command -v ccache || echo /usr/bin/env)' "\$@"
END
}

# Apart from /usr/include, where this machine's glibc has its headers. What CMake's files say of libraries is left out: none is linked.
copy_headers() {
  local package file to
  for package in "${header_packages[@]}"; do
    dpkg-query -L "$package" >/dev/null 2>&1 || fail "the Debian package $package is not installed: run scripts/setup.sh"
    dpkg-query -L "$package" | grep -E '^/usr/(include/|(lib/[^/]+|share)/cmake/)' | grep -v -- '-none\.cmake$\|Targets-none' |
      while read -r file; do
        [ -f "$file" ] || continue
        to=$headers$(sed -E 's|^/usr/lib/[^/]+/|/usr/lib/|' <<<"$file")
        mkdir -p "$(dirname "$to")"
        cp -p "$file" "$to"
      done
  done
}

# The servers from which this machine has its packages, whatever its list says of sources. Security updates come last: their list has
# packages whose files are elsewhere.
apt_sources() {
  local key=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$cache"/apt/{lists,archives}/partial
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -ru |
    sed "s|^|deb-src [signed-by=$key] |" >"$cache/apt/sources.list"
  apt_options=(-q -o Acquire::Retries=3 -o "APT::Sandbox::User=" -o "Dir::Etc::SourceList=$cache/apt/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt")
}

fetch() {
  local name=$1 version=${versions[$1]}
  local file=$cache/sources/${name}_${version#*:}.dsc
  if [ ! -e "$file" ]; then
    apt_sources
    [ -e "$cache/apt/updated" ] || { quietly apt-get "${apt_options[@]}" update && touch "$cache/apt/updated"; }
    (cd "$cache/sources" && quietly apt-get "${apt_options[@]}" source --download-only "$name=$version")
  fi
  rm -rf "${folder:?}/$name"
  quietly dpkg-source --no-check --no-copy -x "$file" "$folder/$name"
}

# Every name hidden: what links a static library shows none of it. The time is one that OpenSSL writes into its library.
flags="-O2 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections"
for_target() {
  quietly env PATH="$folder/bin:$PATH" CCACHE_BASEDIR="$folder" SOURCE_DATE_EPOCH=0 CC="ccache cc" AR=ar RANLIB=ranlib CFLAGS="$flags" "$@"
}
make_all() { for_target make -j"$jobs" "$@"; }

install_libraries() {
  local file
  for file; do
    cp "$file" "$libraries/usr/lib/"
    echo "$name ${versions[$name]}" >"$libraries/usr/lib/$(basename "$file").source"  # for scripts/packages/sbom.py
  done
}
install_headers() { cp -r "$@" "$libraries/usr/include/"; }

build_zlib() {
  for_target ./configure --prefix=/usr --static
  make_all libz.a
  install_libraries libz.a
  install_headers zlib.h zconf.h
}

build_pcre2() {
  for_target ./configure --host="$triplet" --disable-shared --enable-jit
  make_all libpcre2-8.la
  install_libraries .libs/libpcre2-8.a
  install_headers src/pcre2.h
}

# Without what no TLS 1.2 or 1.3 needs. OpenSSL's own folder of authorities is Debian's; rendezvous/peer/authorities knows others.
build_openssl() {
  for_target ./Configure "linux-$machine" --prefix=/usr --openssldir=/usr/lib/ssl no-shared no-dso no-engine no-legacy no-tests no-comp \
    no-ssl3 no-dtls no-srp no-cms no-cmp no-ts no-ct no-gost no-ec2m no-sm2 no-sm3 no-sm4 no-aria no-bf no-camellia no-cast no-idea no-md4 no-mdc2 \
    no-rc2 no-rc4 no-rmd160 no-seed no-whirlpool no-blake2 no-scrypt no-siphash
  make_all build_libs
  install_libraries libssl.a libcrypto.a
  install_headers include/openssl
}

build_xz-utils() {
  for_target ./configure --host="$triplet" --disable-shared --disable-{nls,xz,xzdec,lzmadec,lzmainfo,scripts,doc}
  make_all -C src/liblzma liblzma.la
  install_libraries src/liblzma/.libs/liblzma.a
  install_headers src/liblzma/api/lzma.h src/liblzma/api/lzma
}

# libdw.a has the objects of the folders before it. Its own flags have -Werror.
build_elfutils() {
  local part
  for_target CFLAGS="$flags -Wno-error" ./configure --host="$triplet" --disable-nls --disable-debuginfod --disable-libdebuginfod --with-zlib --without-bzlib --without-zstd --with-lzma
  for part in lib/libeu libelf/libelf libebl/libebl libcpu/libcpu backends/libebl_backends libdwelf/libdwelf libdwfl/libdwfl libdw/libdw; do
    make_all -C "${part%/*}" "${part#*/}.a"
  done
  install_libraries libelf/libelf.a libdw/libdw.a
  mkdir -p elfutils
  cp version.h libebl/libebl.h libdwelf/libdwelf.h libdwfl/libdwfl.h libdw/libdw.h elfutils/
  install_headers elfutils libelf/{libelf,gelf}.h libdw/dwarf.h
}

build() {
  local name=$1 stamp=$folder/$1.built
  local inputs
  inputs="${versions[$name]} $(declare -f "build_$name" for_target install_libraries | sha256sum) $flags zig $zig_version"
  if [ "$(cat "$stamp" 2>/dev/null)" = "$inputs" ]; then return; fi
  echo "package.sh: building $name ${versions[$name]} for $target"
  fetch "$name"
  (cd "$folder/$name" && "build_$name")
  mkdir -p "$libraries/usr/share/doc/$name"
  cp "$folder/$name/debian/copyright" "$libraries/usr/share/doc/$name/"
  rm -rf "${folder:?}/$name"
  echo "$inputs" >"$stamp"
}

rm -rf "$folder/objects"  # zig keeps each object that it ever made; ccache has those that are worth it
write_programs
copy_headers
for name in "${sources[@]}"; do build "$name"; done
