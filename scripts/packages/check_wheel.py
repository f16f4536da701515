#!/usr/bin/env python3
"""Checks a built wheel: check_wheel.py WHEEL PLATFORM_TAG FILE_WITH_WHAT_AUDITWHEEL_SHOW_SAID"""
import io
import pathlib
import re
import sys
import zipfile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

SIZE_MAX = 8 << 20
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


def glibc_of(tag):
    """None of a tag such as linux_x86_64: that wheel needs libraries that not every Linux has."""
    found = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return found and tuple(int(part) for part in found.groups())


def needs(elf):
    """Versions of glibc that a file's symbols need."""
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, versions in section.iter_versions():
                for version in versions:
                    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version.name)
                    if found:
                        yield (int(found[1]), int(found[2])), version.name


def complaints(wheel, tag):
    """auditwheel does not look at the programs of a wheel."""
    machine = tag.split("_", 3)[3]
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            content = files.read(name)
            if not content.startswith(b"\x7fELF"):
                continue
            elf = ELFFile(io.BytesIO(content))
            if elf["e_machine"] != MACHINES.get(machine, elf["e_machine"]):
                yield f"{name} is for {elf['e_machine']}"
            for version, text in needs(elf):
                if version > glibc_of(tag):
                    yield f"{name} needs {text}"


def main():
    wheel, tag, said = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]).read_text()
    said = " ".join(said.split())
    fits = re.search(r'platform tag: "([^"]+)"', said)
    if not fits or not glibc_of(fits[1]) or glibc_of(fits[1]) > glibc_of(tag):
        sys.exit(f"package.sh: the wheel does not hold what its tag {tag} promises; auditwheel show: {said}")
    for complaint in complaints(wheel, tag):
        sys.exit(f"package.sh: the wheel does not hold what its tag {tag} promises: {complaint}")
    if wheel.stat().st_size > SIZE_MAX:
        sys.exit(f"package.sh: the wheel has {wheel.stat().st_size} bytes, more than {SIZE_MAX}")


if __name__ == "__main__":
    main()
