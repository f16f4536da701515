#!/usr/bin/env python3
"""Prints what is linked into a package, as CycloneDX: asks the build itself, so that nothing is forgotten.

What counts: the headers that were compiled (ninja's dependencies), the members of static libraries that the linker took (its
maps), and the shared libraries that come along (*.bundled). Each file leads to its Debian package, and that to its version. Of a
build by zig the static libraries that scripts/packages/zig.sh has made lead to their source packages. A package that LICENCES does
not know is an error: look up its licence, and add a line.

    sbom.py BUILD [--part launcher|trainer] [--licences FOLDER] [--torch VERSION]
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

# SPDX expressions. None: an interface of the system, of which nothing is in the package.
LICENCES = {
    "libasio-dev": "BSL-1.0",
    "libbz2-1.0": "bzip2-1.0.6",
    "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libcli11-dev": "BSD-3-Clause",
    "libdw1": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libelf1": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libfmt-dev": "MIT",
    "liblzma5": "LicenseRef-public-domain",
    "libpcre2-dev": "BSD-3-Clause",
    "libspdlog-dev": "MIT",
    "libssl3": "Apache-2.0",
    "libtomlplusplus-dev": "MIT",
    "nlohmann-json3-dev": "MIT",
    "openssl": "Apache-2.0",
    "pcre2": "BSD-3-Clause",
    "xz-utils": "LicenseRef-public-domain",
    "ziglang": "MIT AND Apache-2.0 WITH LLVM-exception",  # of LLVM: libc++, libc++abi, libunwind
    "zlib": "Zlib",
    "libtorch": "BSD-3-Clause",
    "libstdc++": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libgcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libclang-common": None,
    "libc6-dev": None,
    "linux-libc-dev": None,
    "libdw-dev": None,  # linked as shared libraries: libdw1, libssl3, zlib1g
    "libelf-dev": None,
    "libssl-dev": None,
    "zlib1g-dev": None,
}
# Objects that are in one part alone.
TRAINER_ONLY = ("trainer/",)
LAUNCHER_ONLY = ("agent/", "launcher/CMakeFiles/ddprun.dir/", "launcher/CMakeFiles/ddprun_launcher.dir/")
COMPILER = re.compile(r"^(libstdc\+\+|libgcc|libclang-common)-\d+-dev$")
TORCH = re.compile(r"/torch/include/")
CUDA = re.compile(r"/(nvidia|cuda)")  # names of types and functions of shared libraries
ZIG = re.compile(r"/site-packages/ziglang/")


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def compiled_headers(build, part):
    """The headers outside of the project that objects of this part include."""
    files, counts = set(), False
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            if counts:  # ccache makes some relative
                files.add(os.path.normpath(os.path.join(os.path.abspath(build), line.strip())))
        elif line:
            others = TRAINER_ONLY if part == "launcher" else LAUNCHER_ONLY
            counts = not line.startswith(others + ("tests/",))
    project = os.path.abspath(pathlib.Path(__file__).parent.parent.parent)
    inside = re.compile(re.escape(project) + r"/(?!\.venv)")
    return {file for file in files if not inside.match(file)}


def linked_archives(build, part):
    files = set()
    for path in build.glob("**/*.map"):
        if ("train" in path.name or "libddprun_ddp" in path.name) == (part == "trainer"):
            files |= set(re.findall(r"^(/[^(\s]+\.a)\(", path.read_text(errors="replace"), re.MULTILINE))
    return {os.path.realpath(file) for file in files if not file.startswith(str(build.resolve()))}


def bundled_libraries(build):
    return {file for path in build.glob("*.bundled") for file in path.read_text().split(";") if file}


def zig_folder(build):
    """What scripts/packages/zig.sh made for this build, if zig compiled it."""
    found = re.search(r"^DDPRUN_ZIG:PATH=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found and pathlib.Path(found[1])


def zig_libraries(build, zig):
    """The source packages of the libraries that are linked, with their versions. zig's linker writes no map."""
    commands = run("ninja", "-C", str(build), "-t", "commands", "ddprun")
    archives = set(re.findall(re.escape(str(zig)) + r"/libraries/usr/lib/[\w.+-]+\.a\b", commands))
    return sorted({tuple(pathlib.Path(archive + ".source").read_text().split()) for archive in archives})


def debian_packages(files):
    """Package → one of its files."""
    out = {}
    files = sorted(files)
    for begin in range(0, len(files), 500):
        # A file may be known by its place before Debian merged /lib into /usr/lib.
        names = [name for file in files[begin:begin + 500] for name in {file, os.path.realpath(file), file.removeprefix("/usr")}]
        found = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True).stdout
        for line in found.splitlines():
            owners, _, file = line.partition(": ")
            if not owners.startswith("diversion "):
                out.setdefault(owners.split(",")[0].split(":")[0], set()).add(file)
    return out


def component(name, version, licence, purl):
    return {"type": "library", "name": name, "version": version, "licenses": [{"expression": licence}], "purl": purl, "bom-ref": purl}


def debian_component(package):
    name, version, upstream, architecture = run(
        "dpkg-query", "-W", "-f", "${source:Package} ${Version} ${source:Upstream-Version} ${Architecture}\n", package
    ).split("\n")[0].split()
    compiler = COMPILER.match(package)
    purl = f"pkg:deb/debian/{urllib.parse.quote(package)}@{urllib.parse.quote(version)}?arch={architecture}"
    return component(compiler[1] if compiler else name, upstream, LICENCES[compiler[1] if compiler else package], purl)


def source_component(name, version):
    upstream = version.split(":")[-1].rsplit("-", 1)[0]
    purl = f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version)}?arch=source"
    return component(name, upstream, LICENCES[name], purl)


def zig_component(headers):
    """The C++ library's headers are beside the compiler, and so is its licence."""
    package = next(pathlib.Path(file[:ZIG.search(file).end()]) for file in headers if ZIG.search(file))
    version = next(package.parent.glob("ziglang-*.dist-info")).name.removeprefix("ziglang-").removesuffix(".dist-info")
    texts = [package / "LICENSE", package / "lib/libcxx/LICENSE.TXT"]
    return texts, component("ziglang", version, LICENCES["ziglang"], f"pkg:pypi/ziglang@{version}")


def zig_components(build, zig, headers):
    for name, version in zig_libraries(build, zig):
        yield name, [zig / "libraries/usr/share/doc" / name / "copyright"], source_component(name, version)
    yield "ziglang", *zig_component(headers)


def components(build, part, torch):
    """Name, files with its licence, and CycloneDX component of each."""
    headers = compiled_headers(build, part)
    zig = zig_folder(build)
    if zig:
        # ccache may have compiled an object in another clone, and then names its folders.
        headers = {re.sub(rf"^.*/(?=\.venv-package/|build/zig/{re.escape(zig.name)}/)", f"{zig.parents[2]}/", file) for file in headers}
        yield from zig_components(build, zig, headers)
        copied, built = f"{zig}/headers/", f"{zig}/libraries/"
        headers = {"/" + file.removeprefix(copied) if file.startswith(copied) else file for file in headers
                   if not ZIG.search(file) and not file.startswith(built)}
    ours = {file for file in headers if not TORCH.search(file) and not CUDA.search(file)}
    files = ours | linked_archives(build, part) | (bundled_libraries(build) if part == "launcher" else set())
    packages = debian_packages(files)
    unowned = {file for file in ours if not any(file in found or os.path.realpath(file) in found for found in packages.values())}
    strange = [name for name in packages if (COMPILER.match(name)[1] if COMPILER.match(name) else name) not in LICENCES]
    if unowned or strange:
        sys.exit("sbom.py: scripts/packages/sbom.py does not know the licence of "
                 + (", ".join(sorted(strange)) or f"{min(unowned)}, which is of no package") + ". Add it to LICENCES there.")
    if any(TORCH.search(file) for file in headers):
        yield "libtorch", [], component("libtorch", torch, LICENCES["libtorch"], f"pkg:pypi/torch@{torch}")
    for package in sorted(packages):
        if LICENCES[COMPILER.match(package)[1] if COMPILER.match(package) else package]:
            yield package, [pathlib.Path("/usr/share/doc", package, "copyright")], debian_component(package)


def project_version():
    text = (pathlib.Path(__file__).parent.parent.parent / "CMakeLists.txt").read_text()
    return re.search(r"project\(ddprun VERSION ([0-9.]+)", text)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--part", choices=["launcher", "trainer"], default="launcher")
    parser.add_argument("--licences", type=pathlib.Path, help="copies the packages' licences there")
    parser.add_argument("--torch", default="", help="the version of LibTorch")
    options = parser.parse_args()
    name = "ddprun" if options.part == "launcher" else "ddprun-train"
    version = project_version()
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    parts = list(components(options.build, options.part, options.torch))
    if options.licences:
        options.licences.mkdir(parents=True, exist_ok=True)
        for name_of_part, texts, _ in parts:
            if texts:
                (options.licences / f"{name_of_part}.txt").write_bytes(b"\n".join(text.read_bytes() for text in texts))
    purl = f"pkg:generic/{name}@{version}"
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "name": name, "version": version, "purl": purl, "bom-ref": purl,
                          "licenses": [{"expression": "Apache-2.0"}]},
        },
        "components": [part for _, _, part in parts],
        "dependencies": [{"ref": purl, "dependsOn": [part["bom-ref"] for _, _, part in parts]}],
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
