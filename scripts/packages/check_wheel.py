#!/usr/bin/env python3
"""Checks a built wheel: check_wheel.py WHEEL PLATFORM_TAG FILE_WITH_WHAT_AUDITWHEEL_SHOW_SAID"""
import pathlib
import re
import sys

SIZE_MAX = 10_000_000


def glibc_of(tag):
    """None of a tag such as linux_x86_64: that wheel needs libraries that not every Linux has."""
    found = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return found and tuple(int(part) for part in found.groups())


def main():
    wheel, tag, said = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]).read_text()
    said = " ".join(said.split())
    fits = re.search(r'platform tag: "([^"]+)"', said)
    if not fits or not glibc_of(fits[1]) or glibc_of(fits[1]) > glibc_of(tag):
        sys.exit(f"package.sh: the wheel does not hold what its tag {tag} promises; auditwheel show: {said}")
    if wheel.stat().st_size > SIZE_MAX:
        sys.exit(f"package.sh: the wheel has {wheel.stat().st_size} bytes, more than {SIZE_MAX}")


if __name__ == "__main__":
    main()
