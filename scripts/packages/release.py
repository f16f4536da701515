#!/usr/bin/env python3
"""For scripts/package.sh release: may this commit be released, and what is told of it.

    release.py version          that of CMakeLists.txt
    release.py check            prints a line for each reason why not; exit code 1 if there is one
    release.py notes            prints the version's part of CHANGELOG.md
    release.py sbom FILE        prints the list of what is linked in that a wheel or Debian package has in it
"""
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

sys.dont_write_bytecode = True  # it would be a change of the tree
from sbom import project_version

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def part_of(version, changelog):
    """Heading and text of a version in CHANGELOG.md; None if it has none."""
    found = re.search(rf"^(## \[{re.escape(version)}\][^\n]*)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found and (found[1], found[2].strip())


def problems(version, tags, changed, changelog):
    """Sentences. `tags`: those of the commit. `changed`: files that are not as in the commit, as git status names them."""
    if changed:
        yield f"the tree is not clean: {changed[0]}" + (f" and {len(changed) - 1} more" if len(changed) > 1 else "")
    if f"v{version}" not in tags:
        others = [tag for tag in tags if re.fullmatch(r"v[0-9].*", tag)]
        yield (f"CMakeLists.txt has version {version}, and the commit has " + (f"the tag {others[0]}" if others else "no tag")
               + f": it needs v{version}")
    part = part_of(version, changelog)
    if not part or not part[1]:
        yield f"CHANGELOG.md says nothing of {version}"
    elif not re.fullmatch(rf"## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", part[0]):
        yield f"CHANGELOG.md has no day for {version}, as in: ## [{version}] - 2026-12-31"


def lines_of_git(*words):
    """None: git has no repository here."""
    ended = subprocess.run(["git", "--no-optional-locks", "-C", SOURCE, *words], capture_output=True, text=True)
    return None if ended.returncode else ended.stdout.splitlines()


def check(version, changelog):
    if not (SOURCE / ".git").exists():
        sys.exit("a release is made of a commit, and these sources have no repository of git")
    tags, changed = lines_of_git("tag", "--points-at", "HEAD"), lines_of_git("status", "--porcelain")
    if tags is None or changed is None:
        sys.exit("git does not tell the commit of these sources")
    found = list(problems(version, tags, [line[3:] for line in changed], changelog))
    print("".join(line + "\n" for line in found), end="")
    return 1 if found else 0


def notes(version, changelog):
    part = part_of(version, changelog)
    if not part:
        sys.exit(f"CHANGELOG.md says nothing of {version}")
    # Where the notes are read, the pages are not beside them.
    return f"# ddprun {version}\n\n" + re.sub(r"\[([^\]]+)\]\((?![a-z]+:)[^)]+\)", r"\1", part[1]) + "\n"


def sbom_in(file):
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return next(wheel.read(name) for name in wheel.namelist() if name.endswith(".cdx.json"))
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", file], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as package:
        return next(package.extractfile(member).read() for member in package if member.name.endswith(".cdx.json"))


def main():
    what, *files = sys.argv[1:] or [""]
    version, changelog = project_version(), SOURCE / "CHANGELOG.md"
    if what == "version":
        print(version)
    elif what == "check":
        sys.exit(check(version, changelog.read_text()))
    elif what == "notes":
        print(notes(version, changelog.read_text()), end="")
    elif what == "sbom" and len(files) == 1:
        sys.stdout.buffer.write(sbom_in(pathlib.Path(files[0])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
