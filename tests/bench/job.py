"""A job that is killed from outside, and the times its workers leave in files; and ranks without a launcher."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from tools import free_port, raise_priority

MARK = "DDPRUN_BENCH_MARK"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
ANSWER_LIMIT = 120  # s


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


class Ranks:
    """A job of so many without a launcher, of one thread each, before whatever else runs on this machine; nothing of it is left at
    the end."""

    def __init__(self, count, command, *words, pages=(), memory=None):
        """`pages`: descriptors of the ranks' worker channels; `memory`: of what they share for snapshots."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count),
                 "LOCAL_WORLD_SIZE": str(count)}
        channel = [{"DDPRUN_CHANNEL_FD": str(page)} for page in pages] or [{}] * count
        kept = {"DDPRUN_SNAPSHOT_MEMORY": f"{memory}:0"} if memory is not None else {}
        self.workers = [subprocess.Popen(
            [*command, *map(str, words)], text=True, start_new_session=True, preexec_fn=raise_priority,
            pass_fds=[*pages, *([memory] if memory is not None else [])],
            env={**os.environ, **ONE_THREAD, **place, **channel[rank], **kept, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def output(self, limit=300):
        """Rank 0's, once all have ended well."""
        texts = [worker.communicate(timeout=limit) for worker in self.workers]
        for worker, (_, error) in zip(self.workers, texts):
            if worker.returncode != 0:
                raise RuntimeError(f"{worker.args} ended with {worker.returncode}:\n{error}")
        return texts[0][0]

    def answer(self):
        """Rank 0's next line."""
        first = self.workers[0]
        if not select.select([first.stdout], [], [], ANSWER_LIMIT)[0]:
            raise RuntimeError(f"{first.args} says nothing for {ANSWER_LIMIT} s")
        line = first.stdout.readline()
        if not line:
            raise RuntimeError(f"{first.args} ended:\n{first.stderr.read()}")
        return json.loads(line)

    def turn(self, *words):
        for worker in self.workers:
            print(*words, file=worker.stdin, flush=True)
        return self.answer()
