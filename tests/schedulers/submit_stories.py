"""`ddprun submit --to slurm` and the commands about a job, under a real Slurm: stories as those of stories.py.

Each command is a process of its own on the login host, which finds the job by its handle alone.
"""
from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from cluster import eventually
from slurm_job import LIMIT_S
from stories import EPOCHS, EPOCHS_OF_PREEMPTED, Bench, train

JOB_FILE = """\
name = "{name}"
program = {program}
nnodes = {nodes}
nproc-per-node = {workers}

[slurm]
nodelist = "{nodelist}"
cpus-per-task = 1
"""


class Submitted:
    """A job file, and the commands of ddprun about the job; all with one folder of records."""

    def __init__(self, bench: Bench, program: list[str], name: str = "digits"):
        self.bench, self.name, self.handle = bench, name, ""
        nodes = len(bench.nodes)
        self.file = bench.folder / f"{name}.toml"
        self.file.write_text(JOB_FILE.format(name=name, program=json.dumps(program), nodes=nodes, workers=2 // nodes,
                                             nodelist=bench.nodelist))
        self.state = bench.folder / '100% of "digits" #1'  # as bad a name as a folder may have
        self.records = self.state / "ddprun/jobs"

    def words(self, *words: str | Path) -> list[str]:
        return self.bench.cluster.on(self.bench.cluster.nodes, "env", f"XDG_STATE_HOME={self.state}", "ddprun", *words)

    def ran(self, *words: str | Path) -> subprocess.CompletedProcess:
        return subprocess.run(self.words(*words), env=self.bench.cluster.env, cwd=self.bench.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=2 * LIMIT_S)

    def said(self, *words: str | Path) -> str:
        ended = self.ran(*words)
        assert ended.returncode == 0, f"{words} exited with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def submit(self, *options: str) -> None:
        printed = self.said("submit", "--to", "slurm", self.file, *options)
        assert re.fullmatch(rf"slurm://{self.name}-[0-9a-z]{{6}}\n", printed), printed
        self.handle = printed.strip()

    def status(self) -> dict[str, str]:
        lines = self.said("status", self.handle).splitlines()
        return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}

    def log(self) -> str:
        return self.said("log", self.handle)

    def follow(self) -> subprocess.Popen:
        return subprocess.Popen(self.words("log", "-f", self.handle), env=self.bench.cluster.env, cwd=self.bench.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_log(self, pattern: str, times: int = 1) -> None:
        eventually(lambda: len(re.findall(pattern, self.log(), re.M)) >= times, LIMIT_S,
                   lambda: f"{times} x {pattern!r}: {self.status()}\n{self.log()}")

    def wait_state(self, *states: str) -> dict[str, str]:
        eventually(lambda: self.status()["state"] in states, LIMIT_S,
                   lambda: f"{states}: {self.status()}\n{self.log()}\n{self.bench.cluster.run('scontrol', 'show', 'jobs')}")
        return self.status()

    def check_token(self) -> None:
        """It is in a file of the user's own, and in no process's environment."""
        tokens = list(self.records.glob("*/token-*"))
        assert len(tokens) == 1 and tokens[0].stat().st_mode & 0o777 == 0o600, tokens
        secret = tokens[0].read_bytes().strip()
        assert len(secret) == 64, secret
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                assert secret not in environ.read_bytes(), environ
            except OSError:
                continue  # it has ended

    def check_finished(self, requeues: int, epochs: int) -> None:
        status = self.wait_state("succeeded")
        assert status["requeues"] == str(requeues), status
        steps = re.findall(r"^epoch (\d+) step (\d+) ", self.log(), re.M)
        assert len(steps) == len(set(steps)), f"steps done more than once:\n{self.log()}"
        self.bench.check_weights_of(self.log(), epochs)


def submitted_and_watched(bench: Bench) -> None:
    """From submit to the end: status, list, describe, log and log -f, each by the handle."""
    job = Submitted(bench, train())
    job.submit()
    assert job.status()["state"] in ("queued", "running"), job.status()
    job.wait_log("^epoch 1 step 1 ")
    status = job.status()
    assert (status["state"], status["id"]) == ("running", job.handle.removeprefix("slurm://")), status
    job.check_token()
    assert all(f"host{node}" in status["where"] or "host[" in status["where"] for node in bench.nodes), status
    follower = job.follow()
    job.check_finished(requeues=0, epochs=EPOCHS)
    output, _ = follower.communicate(timeout=LIMIT_S)
    assert output == job.log() and f"done: {EPOCHS} epochs" in output, output
    assert job.handle in job.said("list"), job.said("list")
    assert not list(job.records.glob("*/token-*")), "the token of a start outlives it"
    described = json.loads(job.said("describe", job.handle, "--json"))
    assert described["state"] == "succeeded", described
    assert job.said("status", job.name) == job.said("status", job.handle)  # the only job of this name


def submitted_and_preempted(bench: Bench) -> None:
    """Another job takes the nodes: it saves, waits in the queue and goes on by itself; log -f stays for that."""
    job = Submitted(bench, train(EPOCHS_OF_PREEMPTED))
    job.submit()
    follower = job.follow()
    job.wait_log("^epoch 5 step 1 ")
    bench.preempt(1)
    job.wait_log("^saved at step ")
    job.check_finished(requeues=1, epochs=EPOCHS_OF_PREEMPTED)
    output, _ = follower.communicate(timeout=LIMIT_S)
    assert f"done: {EPOCHS_OF_PREEMPTED} epochs" in output, output


def submitted_and_cancelled(bench: Bench) -> None:
    """It saves and does not come back, in KillWait or in a longer time; a second cancel changes nothing."""
    for name, *options in ["in-kill-wait"], ["longer", "--set", "stop-grace=45"]:
        job = Submitted(bench, train(EPOCHS_OF_PREEMPTED), name)
        for left in bench.folder.glob("run*.pt"):  # snapshots of the job before
            left.unlink()
        job.submit(*options)
        job.wait_log("^epoch 5 step 1 ")
        job.said("cancel", job.handle)
        job.wait_log("^saved at step ")
        status = job.wait_state("stopped")  # no process of it is left: before, Slurm calls it COMPLETING
        # In a longer time it ends with 75, which puts it into the queue again, from where it is removed.
        assert options or status["requeues"] == "0", status
        job.said("cancel", job.handle)
        assert job.status()["state"] == "stopped", job.status()
        assert len(re.findall("^epoch 1 step 1 ", job.log(), re.M)) == 1, job.log()


def submitted_and_held(bench: Bench) -> None:
    """It waits in the queue and says why; cancel removes it."""
    job = Submitted(bench, train())
    job.file.write_text(job.file.read_text() + "hold = true\n")
    job.submit()
    assert "JobHeldUser" in job.said("status", job.handle), job.status()
    assert job.status()["state"].startswith("queued"), job.status()
    job.said("cancel", job.handle)
    job.wait_state("stopped")


def submitted_and_waited_for(bench: Bench) -> None:
    """--wait shows the output and ends with the job's own code; list knows them all."""
    handles = []
    for code, program, text in ((0, ["echo", "two words"], "two words"), (1, ["sh", "-c", "echo to fail; exit 1"], "to fail"),
                                (93, ["sh", "-c", "echo to refuse; exit 2"], "to refuse")):
        job = Submitted(bench, program, name=f"ends-{code}")
        ended = job.ran("submit", "--to", "slurm", job.file, "--wait")
        assert ended.returncode == code, f"{program} gave {ended.returncode}, not {code}:\n{ended.stdout}{ended.stderr}"
        assert text in ended.stdout, ended
        handles.append(re.search("^slurm://.*", ended.stdout, re.M)[0])
    rows = {row.split()[0]: row.split()[1] for row in job.said("list").splitlines()}  # one question to Slurm about all
    assert [rows[handle] for handle in handles] == ["succeeded", "failed", "failed"], rows


def submitted_dry(bench: Bench) -> None:
    """--dry-run submits nothing; what it prints is a script that bash and sbatch accept."""
    job = Submitted(bench, train())
    script = bench.folder / "dry.sbatch"
    script.write_text(job.said("submit", "--to", "slurm", "--dry-run", job.file))
    assert script.read_text() == job.said("submit", "--to", "slurm", "--dry-run", job.file)
    subprocess.run(["bash", "-n", script], check=True)
    bench.cluster.run("sbatch", "--test-only", script)
    assert not list(job.records.glob("*")), list(job.records.glob("*"))


def submitted_wrongly(bench: Bench) -> None:
    """A word that would break the job, and one that sbatch does not know: a sentence each."""
    job = Submitted(bench, train())
    text = job.file.read_text()
    job.file.write_text(text + 'array = "1-3"\n')
    ended = job.ran("submit", "--to", "slurm", job.file)
    assert ended.returncode == 2 and "[slurm] array cannot be given: a job file is one job" in ended.stderr, ended
    job.file.write_text(text + 'partition = "nope"\n')
    ended = job.ran("submit", "--to", "slurm", job.file)
    assert ended.returncode != 0 and "invalid partition specified: nope" in ended.stderr, ended
    assert not list(job.records.glob("*")), "a refused job leaves a record"


# The number of nodes of each.
STORIES: dict[Callable[[Bench], None], int] = {
    submitted_and_watched: 2,
    submitted_and_preempted: 2,
    submitted_and_cancelled: 1,
    submitted_and_held: 1,
    submitted_and_waited_for: 1,
    submitted_dry: 1,
    submitted_wrongly: 1,
}
