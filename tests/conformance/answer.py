"""What a run came to, in words that are the same on every machine and at every time: no pid, port, random id or folder."""
from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

from case import Case
from driver import Launcher, Run

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# torchrun: .../attempt_0/1/error.json, local ranks; ddprun: .../round-1/rank-1/error.json, or without logs
# .../round-1-rank-1-error.json, global ones. On one node they are the same.
WORKER_FILE = re.compile(r"(?:attempt_(?P<attempt>\d+)|round-(?P<round>\d+))[/-]"
                         r"(?:(?:rank-)?(?P<rank>\d+)[/-])?(?P<file>[^/]+)$")
WORKER_LINE = "said:"  # what probes write to stderr holds it, what launchers write themselves does not
REPORTED = "    | "    # before ddprun's own quotation of a worker's last lines


def answer(case: Case, launcher: Launcher, run: Run) -> dict:
    makers = {
        "exit": lambda: "no end" if run.exit is None else run.exit,
        "stdout": lambda: lines(run, run.stdout),
        "stderr": lambda: [line for line in lines(run, run.stderr)
                           if WORKER_LINE in line and not line.startswith(REPORTED)],
        "workers": lambda: count(case, launcher, run) if case.cpus else workers(case, run),
        "environment": lambda: environments(run),
        "logs": lambda: logs(run),
        "paths": lambda: paths(run),
        "events": lambda: events(run),
        "cause": lambda: cause(run),
        "error file": lambda: error_file(run),
        "left running": lambda: run.left_running,
        "left in tmp": lambda: sorted(re.sub(r"^(torchelastic_|ddprun-).*", r"\1<random>", entry.name)
                                      for entry in (run.folder / "tmp").iterdir()),
        "mentions": lambda: {word: plain(run, word) in text(run, run.stderr) for word in case.mentions},
    }
    made = {name: makers[name]() for name in case.fields() if name in makers}
    return {name: said for name, said in made.items() if said != [] or name not in ("stdout", "stderr")}


def plain(run: Run, said: str) -> str:
    """The same text for every run of this case."""
    for path, name in ((run.values["logs"], "<logs>"), (f"{run.folder}/tmp", "<tmp>"), (str(run.folder), "<folder>"),
                       (run.values["probe"], "<probe>"), (run.values["here"], "<here>")):
        said = said.replace(path, name)
    for name in sorted({socket.gethostname(), socket.getfqdn()}, key=len, reverse=True):
        said = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", "<host>", said)
    said = UUID.sub("<uuid>", said)
    return re.sub(rf"\b{run.values['port']}\b", "<given port>", said)


def text(run: Run, raw: bytes) -> str:
    return plain(run, raw.decode(errors="backslashreplace"))


def lines(run: Run, raw: bytes) -> list[str]:
    """Sorted: workers write side by side. A last line without an end shows."""
    found = text(run, raw).split("\n")
    return sorted(found[:-1] + ([found[-1] + "<no end>"] if found[-1] else []))


def count(case: Case, launcher: Launcher, run: Run) -> dict:
    # ddprun counts the CPUs this process may run on, torchrun those of the machine.
    cpus = len(os.sched_getaffinity(0)) if launcher.name == "ddprun" else os.cpu_count()
    return {"started": "<cpus>" if len(run.diaries) == cpus else len(run.diaries)}


def named(first: dict) -> str:
    return f"attempt {first['attempt']} rank {first['rank']}"


def workers(case: Case, run: Run) -> dict:
    """A process that the worker started is "... child"."""
    out = {}
    for first, *events in run.diaries:
        name = named(first)
        said = {"end": next((e["end"] for e in events if "end" in e), "cut off")}
        if signals := [e["signal"] for e in events if "signal" in e]:
            said["signals"] = signals
        said |= {"read": e["read"] for e in events if "read" in e}
        if "child" in first:
            out[name + " child"] = said
            continue
        out[name] = {"argv": argv(run, first["argv"])} | said
        if "process" in case.fields():
            out[name]["process"] = process(run, first)
    return dict(sorted(out.items()))


def argv(run: Run, words: list[str]) -> list[str]:
    python = re.fullmatch(r"python[\d.]*", Path(words[0]).name)
    return ["<python>" if python else plain(run, words[0])] + [plain(run, word) for word in words[1:]]


def environments(run: Run) -> dict:
    """What all workers find alike, and what each finds for itself."""
    found = {named(first): environment(run, first["environment"]) for first, *_ in run.diaries if "child" not in first}
    alike = {(name, value) for one in found.values() for name, value in one.items()
             if all((name, value) in other.items() for other in found.values())}
    return {"all": dict(sorted(alike))} | {
        worker: own for worker, one in sorted(found.items()) if (own := dict(sorted(one.items() - alike)))}


def environment(run: Run, given: dict[str, str]) -> dict[str, str]:
    """What the launcher added, changed or took away."""
    changed = {name: variable(run, name, value) for name, value in given.items() if run.given.get(name) != value}
    return changed | {name: "<taken away>" for name in run.given if name not in given}


def variable(run: Run, name: str, value: str) -> str:
    if name == "MASTER_PORT" and value not in (run.values["port"], "29500"):
        return "<free>"
    if name == "TORCHELASTIC_ERROR_FILE" and value:
        return of_worker(plain(run, value))
    if name == "PYTHONPATH" and value.endswith("/share/ddprun/python"):
        return "<python package>"
    return {"DDPRUN_JOB": "<cookie>", "DDPRUN_CHANNEL_FD": "<channel>", "DDPRUN_RECORD": "<record>"}.get(name) or plain(run, value)


def of_worker(path: str) -> str:
    """<tmp>/torchelastic_x/none_y/attempt_0/1/error.json -> <tmp>/attempt 0/rank 1/error.json"""
    found = WORKER_FILE.search(path)
    if not found:
        return path
    attempt = found["attempt"] or str(int(found["round"]) - 1)
    rank = f"/rank {found['rank']}" if found["rank"] else ""  # lines of all ranks that a filter chose
    return f"{path.split('/')[0]}/attempt {attempt}{rank}/{found['file']}"


def process(run: Run, first: dict) -> dict:
    same = lambda name: "as given" if first[name] == run.limits[name] else first[name]
    hard = run.limits["nofile"][1]
    channel = first["environment"].get("DDPRUN_CHANNEL_FD")
    plainly = ("stdin", "leads a session", "blocked signals", "ignored signals", "umask")
    return {name: first[name] for name in plainly} | {
        "nice": first["nice"] - run.limits["nice"],
        "open descriptors": ["<channel>" if str(fd) == channel else fd for fd in first["open descriptors"]],
        "cwd": plain(run, first["cwd"]),
        "core": "soft limit 0" if first["core"][0] == 0 else same("core"),
        "nofile": "hard limit" if first["nofile"] == [hard, hard] else same("nofile"),
        "oom_score_adj": f"{first['oom_score_adj'] - run.limits['oom_score_adj']:+d}"}


def log_files(run: Run) -> list[tuple[str, Path]]:
    out = []
    for name, root in (("<logs>", Path(run.values["logs"])), ("<tmp>", run.folder / "tmp")):
        out += [(f"{name}/{path.relative_to(root)}", path) for path in root.rglob("*")
                if path.is_file() and not linked(path, root)]
    return sorted(out)


def linked(path: Path, root: Path) -> bool:
    return any(parent.is_symlink() for parent in [path, *path.parents] if parent != root and root in parent.parents)


def logs(run: Run) -> dict[str, list[str] | str]:
    """Every file of a worker, by "<logs>/attempt 0/rank 1/stdout.log". Where ranks share one, their lines are sorted."""
    found = {of_worker(name): text(run, path.read_bytes()).splitlines(keepends=True)
             for name, path in log_files(run)}
    return {name: said if "/rank " in name else sorted(said) for name, said in sorted(found.items())}


def paths(run: Run) -> list[str]:
    names = [re.sub(r"_\w{6,8}(?=/)", "_<random>", name) for name, _ in log_files(run)]
    return [UUID.sub("<uuid>", name) for name in names]


def events(run: Run) -> dict[str, list[str]]:
    """The states that the agent and each worker went through, in order."""
    out: dict[str, list[str]] = {}
    for line in run.stderr.decode(errors="replace").splitlines():
        if line.startswith("{") and '"torchelastic.' in line:
            event = json.loads(line)
            rank = event.get("metadata", event).get("global_rank")  # ddprun's are of one level
            who = f"worker {rank}" if event["source"] == "WORKER" else "agent"
            out.setdefault(who, []).append(event["name"].rsplit(".", 1)[-1])
    return dict(sorted(out.items()))


def cause(run: Run) -> dict | None:
    """Whom the report names first, and how that one ended."""
    said = run.stderr.decode(errors="replace")
    theirs = re.search(r"Root Cause.*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)", said, re.S)
    if theirs:
        return {"rank": int(theirs[1]), "exit": int(theirs[2])}
    ours = re.search(r"job failed.*?rank (\d+)(?: \(.*?\))? (?:exited with code (\d+)|was killed by (SIG\w+))", said, re.S)
    if not ours:
        return None
    return {"rank": int(ours[1]), "exit": int(ours[2]) if ours[2] else -getattr(signal, ours[3])}


def error_file(run: Run) -> object:
    """What the launcher's own TORCHELASTIC_ERROR_FILE holds in the end."""
    path = Path(run.given["TORCHELASTIC_ERROR_FILE"])
    if not path.exists():
        return None
    try:
        return json.loads(re.sub(r'"timestamp": ?"?\d+"?', '"timestamp": "<time>"', plain(run, path.read_text())))
    except ValueError:
        return path.read_text()
