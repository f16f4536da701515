"""Runs a case under a launcher, in a folder and an environment of its own, and brings back what happened, as it was."""
from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from case import HERE, Case

sys.path.append(str(HERE.parent / "support"))
from free_port import free_port  # noqa: E402

T = TypeVar("T")
LIMIT_S = 75       # torchrun's 30 s of grace, twice, and a slow machine
QUIET_S = 0.5      # how long is waited for what shall not happen
GONE_S = 1.0       # nothing of a job is alive a second after its launcher


@dataclass(frozen=True)
class Launcher:
    name: str          # torchrun or ddprun
    program: Path


@dataclass
class Run:
    """One run, not yet normalised."""
    folder: Path
    exit: int | None                   # of several launchers the first that is not 0; None: it had to be killed
    stdout: bytes
    stderr: bytes
    diaries: list[list[dict]]
    left_running: list[str]
    values: dict[str, str]             # of the placeholders
    given: dict[str, str]              # the launcher's environment
    limits: dict                       # and what else of it may be handed down


def filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def placeholders(folder: Path) -> dict[str, str]:
    return {"probe": str(HERE / "probe.py"), "here": str(HERE), "folder": str(folder), "logs": str(folder / "logs"),
            "port": str(free_port()), "other_python": str(folder / "other-python")}


def environment(case: Case, launcher: Launcher, folder: Path, values: dict[str, str]) -> dict[str, str]:
    env = {"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8",
           "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1", "RES_OPTIONS": "timeout:1 attempts:1",
           "PROBE_FOLDER": str(folder / "diaries"), "PROBE_STEPS": filled(json.dumps(case.steps), values)}
    if launcher.name == "torchrun" and not case.default_port:  # runs side by side must not meet at 29500
        env["PET_MASTER_PORT"] = str(free_port())
    return env | {name: filled(value, values) for name, value in case.env.items()}


def prepare(case: Case, folder: Path, values: dict[str, str]) -> None:
    for name in ("tmp", "diaries", "cwd"):
        (folder / name).mkdir()
    (folder / "other-python").symlink_to(os.path.realpath(sys.executable))
    for name, content in case.files.items():
        path = folder / name.removeprefix("+x ")
        path.write_text(filled(content, values))
        path.chmod(0o755 if name.startswith("+x ") else 0o644)


def diaries(folder: Path) -> dict[int, list[dict]]:
    found = {}
    for path in (folder / "diaries").iterdir():
        if path.name.isdigit():
            found[int(path.name)] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def carry_out(step: str, process: subprocess.Popen, folder: Path) -> None:
    """up N: wait until N workers wait for a signal. told N: until N of them got one. SIGNAL launcher, SIGNAL RANK: send
    it. SIGNAL launcher, if quiet: only where no worker was told anything for a moment."""
    def noted(key: str) -> int:
        return sum(any(key in event for event in diary[1:]) for diary in diaries(folder).values())

    word, _, rest = step.partition(" ")
    if word == "up":
        until(lambda: noted("ready") >= int(rest) or process.poll() is not None)
    elif word == "told":
        until(lambda: noted("signal") >= int(rest) or process.poll() is not None)
    elif rest.startswith("launcher"):
        if not (rest.endswith("if quiet") and until(lambda: noted("signal"), QUIET_S)) and process.poll() is None:
            process.send_signal(getattr(signal, word))
    else:
        for pid, diary in diaries(folder).items():
            if diary[0]["rank"] == rest and "child" not in diary[0]:
                os.kill(pid, getattr(signal, word))


def alive(pid: int, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def end_what_is_left(folder: Path) -> list[str]:
    """Who of the probes is alive a second later; they are ended here."""
    until(lambda: not any(alive(pid, folder) for pid in diaries(folder)), GONE_S)
    named = []
    for pid, diary in diaries(folder).items():
        if alive(pid, folder):
            named.append(("child of rank " if "child" in diary[0] else "rank ") + diary[0]["rank"])
            os.kill(pid, signal.SIGKILL)
    return sorted(named)


def limits() -> dict:
    """Those of a person's shell, so that a change of them shows; children inherit ours."""
    out = {"oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()), "nice": os.nice(0)}
    for name, soft_max in (("core", resource.RLIM_INFINITY), ("nofile", 1024)):
        kind = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(kind)[1]
        out[name] = [hard if soft_max == resource.RLIM_INFINITY else min(soft_max, hard), hard]
        resource.setrlimit(kind, out[name])
    return out


def begin_as_from_a_shell() -> None:
    """Whoever starts a test run (nohup, cron, a script's background job) may ignore or block signals and set a umask; the
    recordings are of a person's shell. Call it before any thread starts."""
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)


def ignore(names: list[str]) -> None:
    for name in names:
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def ended(process: subprocess.Popen) -> int | None:
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def run(case: Case, launcher: Launcher, folder: Path) -> Run:
    values = placeholders(folder)
    prepare(case, folder, values)
    env = environment(case, launcher, folder, values)
    options = case.options + (case.ddprun_options if launcher.name == "ddprun" else [])
    command = [str(launcher.program)] + [filled(word, values) for word in options + case.program]
    handed_down = limits()
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        stdin = subprocess.DEVNULL if case.stdin is None else subprocess.PIPE
        start = partial(subprocess.Popen, command, stdin=stdin, stdout=out, stderr=err, env=env, cwd=folder / "cwd",
                        start_new_session=True, preexec_fn=partial(ignore, case.ignored) if case.ignored else None)
        process, *further = [start() for _ in range(case.launchers)]
        if case.stdin is not None:
            process.stdin.write(case.stdin.encode())
            process.stdin.close()
        for step in case.scenario:
            carry_out(step, process, folder)
        codes = [ended(one) for one in (process, *further)]
        code = None if None in codes else next((one for one in codes if one != 0), 0)
    left = end_what_is_left(folder)
    return Run(folder, code, (folder / "out").read_bytes(), (folder / "err").read_bytes(),
               list(diaries(folder).values()), left, values, env, handed_down)


def run_all(cases: list[Case], launcher: Launcher, use: Callable[[Case, Launcher, Run], T]) -> list[T]:
    """What `use` makes of each run, side by side in folders of their own."""
    def one(case: Case) -> T:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            return use(case, launcher, run(case, launcher, Path(folder)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, cases))
