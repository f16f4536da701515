#!/usr/bin/env python3
"""Runs scripts of prefork_scripts/ at two ranks without and with an option of ddprun, and compares what comes out.

  prefork_scripts_check.py DDPRUN [--option=--prefork] [NAME ...]

`--option=` compares two runs without any option: whatever differs then is the script's own mistake. The scripts run under
PYTHON_EXEC, else under the Python of this check.
"""
from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zipapp
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "prefork_scripts"
LIMIT_S = 120
CALLERS_OWN = re.compile(r"PYTHON(?!_EXEC$)|PET_|OMP_|DDPRUN_|TORCH|PYTORCH_|NO_COLOR$")  # would change what scripts print
REPORT, QUOTED = "ddprun: the job failed: ", "    | "
VARYING = [(r"0x[0-9a-f]{6,}", "0x..."), (r"\bpid \d+", "pid N"), (r"\[?(127\.0\.0\.1|localhost)\]?:\d+", r"\1:N"),
           (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"), (r"\d+\.\d+ s\b", "N s")]


@dataclass
class Script:
    """A run of a script. {folder} in its words is a new folder for each run, which also has app.zip."""

    name: str
    words: str  # options of ddprun, program and arguments
    env: dict[str, str] = field(default_factory=dict)
    stdin: str = ""
    at: str = "."  # the current folder, from SCRIPTS
    terminal: bool = False
    code: int = 0  # ddprun's exit code without the option
    needs: str = ""  # a module that setup.sh installs only with --bench


TABLE = [
    Script("loader_fork", "loader_fork.py"),
    Script("loader_spawn", "loader_spawn.py --epochs 2"),
    Script("mp_spawn", "mp_spawn.py"),
    Script("pool_fork", "pool_fork.py"),
    Script("forkserver", "forkserver.py --epochs 2"),
    Script("arguments", "arguments.py digits --lr=0.5 --local-rank='${local_rank}' '' 'two words' -- --resume '$HOME'"),
    Script("arguments_options", "./arguments.py --local_rank '${local_rank}' --resume"),
    Script("module", "-m trainpkg.run --lr 0.1"),
    Script("module_main", "-m trainpkg"),
    Script("main_module", "main_module.py"),
    Script("main_module_elsewhere", "prefork_scripts/main_module.py", at=".."),
    Script("main_module_absolute", f"{SCRIPTS}/main_module.py", at="/"),
    Script("process_state", "process_state.py"),
    Script("process_state_terminal", "process_state.py", terminal=True),
    Script("process_state_files", "--log-dir={folder}/logs --redirects=3 process_state.py"),
    Script("process_state_tee", "--log-dir={folder}/logs --tee=3 process_state.py"),
    Script("environment", "environment.py"),
    Script("environment_options", "--role=trainer --omp-threads=2 --virtual-local-rank environment.py", {"PYTHONPATH": f"{SCRIPTS}/app"}),
    Script("random_state", "random_state.py", {"PYTHONHASHSEED": "0"}),
    Script("exit_order", "exit_order.py"),
    Script("record_error", "record_error.py", code=1),
    Script("uncaught", "uncaught.py", code=1),
    Script("whole", "./whole.py --local_rank '${local_rank}' --resume", code=1),
    Script("uncaught_torch", "uncaught.py shape", code=1),
    *(Script(f"exit_{way}", f"exits.py {way}", code=1) for way in "code text at_once interrupt abort segfault syntax".split()),
    Script("subprocesses", "subprocesses.py"),
    Script("compile_model", "compile_model.py"),
    Script("accelerate_loop", "accelerate_loop.py", needs="accelerate"),
    Script("lightning_fit", "lightning_fit.py", needs="pytorch_lightning"),
    Script("resume", "--max-restarts=1 resume.py --checkpoint-file={folder}/model.pt"),
    Script("threads", "threads.py", {"OMP_NUM_THREADS": "2"}),
    Script("threads_default", "threads.py"),
    Script("pickles", "pickles.py"),
    Script("warn_log", "warn_log.py", {"PYTHONWARNINGS": "default::UserWarning,ignore::DeprecationWarning,error::FutureWarning"}),
    Script("signals", "signals.py"),
    Script("local_names", "local_names.py"),
    Script("shadows", "shadows/train.py"),
    Script("read_stdin", "read_stdin.py", stdin="yes\nno\n"),
    Script("collectives", "collectives.py"),
    Script("archive", "--run-path {folder}/app.zip --lr 0.1"),
]


def environment(script: Script) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not CALLERS_OWN.match(name)}
    return {"PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"} | kept | script.env


def has_module(name: str, env: dict[str, str]) -> bool:
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)"
    return subprocess.run([env["PYTHON_EXEC"], "-c", find], env=env).returncode == 0


def without_varying(lines: list[str], folder: str) -> list[str]:
    out = []
    for line in lines:
        line = line.rstrip("\r").replace(folder, "{folder}")
        for pattern, replacement in VARYING:
            line = re.sub(pattern, replacement, line)
        out.append(line)
    return out


def written_files(folder: str) -> list[str]:
    """The lines of the ranks' log files, each with the last two parts of its file's path."""
    paths = {path.resolve() for path in Path(folder).glob("logs/*/round-*/rank-*/std*.log")}  # `latest` is a link to one run
    return [f"{path.parent.name}/{path.name}: {line}" for path in sorted(paths) for line in path.read_text().splitlines()]


def written_by_ranks(stderr: str) -> list[str]:
    """The ranks' lines, also those quoted by ddprun's report, and the report's first line: it has the exit code or the signal."""
    out, in_report = [], False
    for line in stderr.splitlines():
        if line.startswith("ddprun: "):
            in_report = line.startswith(REPORT)
            if in_report:
                out.append(line)
        elif line.startswith(QUOTED):
            out.append(line.removeprefix(QUOTED))
        elif not in_report:
            out.append(line)
    return [line for line in out if line.strip()]  # ddprun quotes an empty line without the blank


def outcome(ddprun: Path, option: str, script: Script) -> list[str]:
    """The exit code and the lines of one run, without what varies. A traceback is on stderr or in the report, hence sorted and unique."""
    with tempfile.TemporaryDirectory() as folder:
        zipapp.create_archive(SCRIPTS / "app", f"{folder}/app.zip")
        own = [word.replace("{folder}", folder) for word in shlex.split(script.words)]
        words = [str(ddprun), "--nproc-per-node=2", "--max-restarts=0", *([option] if option else []), *own]
        if script.terminal:
            words = ["script", "-qec", shlex.join(words), "/dev/null"]
        try:
            done = subprocess.run(words, cwd=SCRIPTS / script.at, env=environment(script), input=script.stdin, capture_output=True,
                                  text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired as late:
            return [f"still runs after {LIMIT_S} s", *(late.stdout or b"").decode().splitlines()]
        stdout = without_varying(done.stdout.splitlines() + written_files(folder), folder)
        stderr = without_varying(written_by_ranks(done.stderr), folder)
    return [f"exit code {done.returncode}", *sorted(stdout), "stderr:", *sorted(set(stderr))]


def check(ddprun: Path, option: str, script: Script, show: bool) -> bool:
    begin = time.monotonic()
    without = outcome(ddprun, "", script)
    took = time.monotonic() - begin
    given = outcome(ddprun, option, script)
    failed = without[0] != f"exit code {script.code}"  # equal failures prove nothing
    verdict = "FAILED " if failed else "ok     " if without == given else "DIFFERS"
    print(f"{verdict} {script.name}, {took:.1f} s and {time.monotonic() - begin - took:.1f} s")
    if show or failed:
        print(*(f"    {line}" for line in without), sep="\n")
    for line in difflib.unified_diff(without, given, "without", f"with {option}", n=1, lineterm=""):
        print(f"    {line}")
    sys.stdout.flush()
    return without == given and not failed


def chosen(table: list, names: list[str], parser: argparse.ArgumentParser):
    """Those of the table whose modules are here."""
    if unknown := set(names) - {script.name for script in table}:
        parser.error(f"no such script: {', '.join(sorted(unknown))}")
    for script in table:
        if names and script.name not in names:
            continue
        if script.needs and not has_module(script.needs, environment(script)):
            print(f"skipped {script.name}: no {script.needs} here")
            continue
        yield script


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=Path)
    parser.add_argument("--option", default="--prefork", help="given to ddprun in the second run of each script (default --prefork)")
    parser.add_argument("--show", action="store_true", help="print what the first run of each script gave, too")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(script.name for script in TABLE))
    args = parser.parse_intermixed_args()
    passed = [check(args.ddprun.resolve(), args.option, script, args.show) for script in chosen(TABLE, args.names, parser)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
