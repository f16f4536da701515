"""scripts/check.sh reads again what changed, and only that: check_test.py SOURCE-FOLDER. A stand-in for clang-tidy says what it reads."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
wanted = ["rendezvous/base", "launcher/settings"]
reader = """#!/bin/sh
if [ "$1" = --version ]; then echo stand-in 1; exit; fi
for word in "$@"; do case $word in *.cpp) echo "$word" >>"$READ_LOG"; file=$word;; esac; done
! cat $(sed -n 's|^#include "\\(.*\\)"|../../\\1|p' "$file") | grep MISTAKE >/dev/null
"""

with tempfile.TemporaryDirectory() as name:
    project = pathlib.Path(name) / "project"
    for part in ["launcher", "agent", "rendezvous", "trainer", "cmake", "scripts"]:
        shutil.copytree(source / part, project / part)
    for part in ["CMakeLists.txt", ".clang-tidy"]:
        shutil.copy(source / part, project / part)
    tidy = project / "stand_in"
    tidy.write_text(reader)
    tidy.chmod(0o755)
    log = project / "read.log"
    environment = {**os.environ, "CCACHE_DIR": f"{name}/cache", "DDPRUN_CLANG_TIDY": str(tidy), "READ_LOG": str(log),
                   "DDPRUN_VENV": os.environ.get("DDPRUN_VENV", f"{source}/.venv")}
    environment.pop("DDPRUN_SOAK", None)

    def check():
        """What is read, by the names of groups, and whether it is without a finding."""
        log.write_text("")
        code = subprocess.run(["scripts/check.sh", "-j", "2", *wanted], cwd=project, env=environment).returncode
        return sorted(os.path.basename(line) for line in log.read_text().split()), code == 0

    def groups_with(header):
        """Those that include it, as the compiler tells; of those that were read at first."""
        found = []
        for entry in json.loads((project / "build/clang-tidy/compile_commands.json").read_text()):
            group = os.path.basename(entry["file"])
            if group not in everything:
                continue
            words = shlex.split(entry["command"])
            words = [word for before, word in zip([""] + words, words) if word not in ("-o", "-c") and before != "-o"]
            made_of = subprocess.run([*words, "-MM", "-MT", "x"], cwd=entry["directory"], capture_output=True, text=True, check=True)
            if f"/{header}" in made_of.stdout:
                found.append(group)
        return sorted(found)

    def expect(what, is_so):
        if not is_so:
            sys.exit(f"not so: {what}")

    everything, fine = check()
    expect("all is read at first, without a finding", len(everything) >= 2 and fine)
    expect("nothing is read twice", check() == ([], True))

    header = "launcher/settings/option.h"
    users = groups_with(header)
    expect("some include the header and some do not", 0 < len(users) < len(everything))
    with open(project / header, "a") as file:
        file.write("// NOLINT is a comment, too\n")
    expect("a header that changed is read again with all that include it", check() == (users, True))

    with open(project / header, "a") as file:
        file.write("// more\n")
    with open(project / "launcher/settings/values.cpp", "a") as file:
        file.write("// MISTAKE\n")
    read, fine = check()
    expect("what includes either is read", set(users) <= set(read) and not fine)
    again, fine = check()
    expect("a finding is told again", len(again) == 1 and not fine)
    text = (project / "launcher/settings/values.cpp").read_text()
    (project / "launcher/settings/values.cpp").write_text(text.replace("// MISTAKE\n", ""))
    check()
    (project / ".clang-tidy").write_text((project / ".clang-tidy").read_text() + "# another\n")
    expect("all is read when .clang-tidy changes", check() == (everything, True))
