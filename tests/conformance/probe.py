#!/usr/bin/env python3
"""A worker that writes down what it was given and does as it is told.

PROBE_FOLDER takes one file per process: a first line of facts, then a line for each thing that happens to it.
PROBE_STEPS is JSON: for "RANK@ATTEMPT", else "RANK", else "*", a list of steps (the functions below, by name).
Signals are blocked and taken one by one by the step that waits, so that none is lost between two steps.
"""
import json
import os
import resource
import signal
import sys
import time

NOTED = [getattr(signal, name) for name in "SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGALRM".split()]
PATIENCE_S = 90
FOLDER = os.environ["PROBE_FOLDER"]
RANK = os.environ.get("RANK", "-")
ATTEMPT = os.environ.get("TORCHELASTIC_RESTART_COUNT", "-")


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def status(name: str) -> str:
    return next(line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith(name))


def kind(descriptor: int) -> str:
    target = os.readlink(f"/proc/self/fd/{descriptor}")
    return "terminal" if os.isatty(descriptor) else "pipe" if target.startswith("pipe:") else target


def facts() -> dict:
    return {
        "rank": RANK, "attempt": ATTEMPT, "pid": os.getpid(),
        "argv": read("/proc/self/cmdline").split("\0")[:-1],
        "environment": dict(os.environ), "cwd": os.getcwd(), "stdin": kind(0),
        "leads a session": os.getsid(0) == os.getpid(),
        "open descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd") if kind_or_gone(n)),
        "blocked signals": status("SigBlk"), "ignored signals": status("SigIgn"),
        "umask": status("Umask"), "nice": os.nice(0), "oom_score_adj": int(read("/proc/self/oom_score_adj")),
        "core": resource.getrlimit(resource.RLIMIT_CORE), "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
    }


def kind_or_gone(descriptor: str) -> bool:  # the folder's own descriptor is in its list
    return os.path.exists(f"/proc/self/fd/{descriptor}")


class Diary:
    def __init__(self, first: dict):
        self.path = f"{FOLDER}/{os.getpid()}"
        with open(self.path + ".new", "w") as file:
            file.write(json.dumps(first) + "\n")
        os.rename(self.path + ".new", self.path)  # whoever sees the file sees all of it

    def note(self, **event) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(event) + "\n")


def leave(code: int) -> None:
    for number in sorted(signal.sigpending()):
        diary.note(signal=signal.Signals(number).name)
    diary.note(end=f"exit {code}")
    os._exit(code)


def next_signal() -> None:
    number = signal.sigwait(NOTED)
    if number == signal.SIGALRM:  # what it waits for never comes
        leave(99)
    diary.note(signal=signal.Signals(number).name)


def wait() -> None:
    diary.note(ready=True)
    next_signal()


def deaf() -> None:
    diary.note(ready=True)
    while True:
        next_signal()


def die(name: str) -> None:
    number = getattr(signal, name)
    diary.note(end=f"killed by {name} of its own")
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def child() -> None:
    """Starts a process of the same group that waits for a signal."""
    global diary
    ready, told = os.pipe()
    if os.fork() == 0:
        diary = Diary({"rank": RANK, "attempt": ATTEMPT, "pid": os.getpid(), "child": True})
        signal.alarm(PATIENCE_S)
        os.write(told, b".")
        next_signal()
        leave(0)
    os.read(ready, 1)


def after(rank: str, what: str) -> None:
    """Waits until that rank of the same attempt has noted "ready" or "end"."""
    while not any(f'"rank": "{rank}", "attempt": "{ATTEMPT}"' in text and f'"{what}"' in text
                  for text in map(read, diaries())):
        if signal.SIGALRM in signal.sigpending():
            leave(99)
        time.sleep(0.005)


def diaries() -> list[str]:
    return [entry.path for entry in os.scandir(FOLDER) if entry.name.isdigit()]


def leave_error(text: str) -> None:
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        file.write(text)


def stdin() -> None:
    diary.note(read=sys.stdin.read())


def follow(step: str) -> None:
    word, _, rest = step.partition(" ")
    {
        "out": lambda: os.write(1, rest.replace("{rank}", RANK).encode()),
        "err": lambda: os.write(2, rest.replace("{rank}", RANK).encode()),
        "bytes": lambda: os.write(1, bytes.fromhex(rest)),
        "exit": lambda: leave(int(rest)),
        "die": lambda: die(rest),
        "after": lambda: after(*rest.split()),
        "error": lambda: leave_error(rest),
        "wait": wait, "deaf": deaf, "child": child, "stdin": stdin,
    }[word]()


def my_steps() -> list[str]:
    steps = json.loads(os.environ.get("PROBE_STEPS", "{}"))
    return steps.get(f"{RANK}@{ATTEMPT}", steps.get(RANK, steps.get("*", [])))


if __name__ == "__main__":
    diary = Diary(facts())
    signal.pthread_sigmask(signal.SIG_BLOCK, NOTED)
    signal.alarm(PATIENCE_S)
    for one in my_steps():
        follow(one)
    leave(0)
