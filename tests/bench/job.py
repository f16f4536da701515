"""A job that is killed from outside, and the times its workers leave in files."""
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

MARK = "DDPRUN_BENCH_MARK"


class Job:
    """A command in a folder of its own whose processes are found by a mark; nothing of it is left at the end."""

    def __init__(self, command, env=None):
        self.folder = tempfile.mkdtemp(prefix="ddprun-bench-")
        command = [word.replace("FOLDER", self.folder) for word in command]
        self.mark = os.path.basename(self.folder)
        self.began = time.monotonic_ns()
        self.process = subprocess.Popen(command, cwd=self.folder, env={**os.environ, **(env or {}), MARK: self.mark},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            pass
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self, **variables):
        wanted = [f"{name}={value}".encode() for name, value in {**variables, MARK: self.mark}.items()]
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                entries = pathlib.Path("/proc", pid, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(entry in entries for entry in wanted):
                found.append(int(pid))
        return found

    def stamps(self, count, prefix="", limit=60):
        """The times that `count` workers wrote, once they are all there: {pid: ns}."""
        named = re.compile(re.escape(prefix) + r"(\d+)")
        end = time.monotonic() + limit
        while True:
            found = [(name, path) for path in pathlib.Path(self.folder).iterdir() if (name := named.fullmatch(path.name))]
            if len(found) >= count:
                return {int(name[1]): int(path.read_text()) for name, path in found}
            if time.monotonic() > end:
                raise RuntimeError(f"{len(found)} of {count} workers within {limit} s")
            time.sleep(0.001)

    def wait_for_line(self, pattern, limit=60):
        """The time at which such a line came; None after the limit."""
        end = time.monotonic() + limit
        while True:
            while (line := self.next_line()) is not None:
                if re.search(pattern, line):
                    return time.monotonic_ns()
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError(f"{self.process.args[:3]} ended without a line like {pattern}")
            self.text += data.decode()

    def next_line(self):
        line, newline, rest = self.text.partition("\n")
        if not newline:
            return None
        self.text = rest
        return line
