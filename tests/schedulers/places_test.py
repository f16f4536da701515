#!/usr/bin/env python3
"""The scripts that `ddprun submit --to slurm` makes, and what it asks Slurm, under a real Slurm: places_test.py SLURM_PLACES

In place of ddprun a shell script runs: `run --record FOLDER` executes FOLDER/body on each node.
"""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import cluster as bed
from cluster import eventually

TOOL = Path(sys.argv.pop()).resolve()
LIMIT_S = 60
DDPRUN = """\
#!/bin/sh
if [ "$1" = --make-token ]; then od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'; exit; fi
[ "$1 $2" = "run --record" ] || exit 2
exec "$3/body"
"""
# Saves for a second when it is asked to stop, and says 75.
SAVES = 'trap "sleep 1; echo saved; exit 75" TERM; echo it runs; while :; do sleep 0.1; done'


def setUpModule() -> None:
    global cluster
    accounting = not bed.missing_for_accounting()
    cluster = bed.Cluster(2, requeue_exit=False, accounting=accounting)
    unittest.addModuleCleanup(cluster.down)
    ddprun = cluster.folder / "ddprun"
    ddprun.write_text(DDPRUN)
    ddprun.chmod(0o755)


class Job:
    """One that runs a body on each node, with a record in a folder whose name is as bad as it may be."""

    def __init__(self, name: str, body: str, *words: str, nodes: int = 1):
        self.record = cluster.folder / f"100% of \"{name}\" #1"
        self.record.mkdir()
        (self.record / "body").write_text(f"#!/bin/sh\n{body}\n")
        (self.record / "body").chmod(0o755)
        self.script = self.record / "slurm.sbatch"
        self.script.write_text(tool("script", str(self.record), str(cluster.folder / "ddprun"), str(nodes), *words))
        self.id = tool("submit", str(self.script)).strip()

    def state(self) -> dict:
        return json.loads(tool("state", self.id))

    def printed(self) -> str:
        log = self.record / "log"
        return log.read_text() if log.exists() else ""

    def wait_printed(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.printed().count(text) >= times, LIMIT_S,
                   lambda: f"{times} x {text!r}: {self.state()}\n{self.printed()}{cluster.logs()}")

    def wait_phase(self, phase: str) -> dict:
        eventually(lambda: self.state()["phase"] == phase, LIMIT_S,
                   lambda: f"{phase}: {self.state()}\n{self.printed()}{cluster.logs()}")
        return self.state()


def tool(*words: str) -> str:
    return cluster.run(TOOL, *words)


def refusal(*words: str) -> str:
    ended = subprocess.run(cluster.on(cluster.nodes, TOOL, *words), env=cluster.env, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 1, ended
    return ended.stderr


class Places(unittest.TestCase):
    def check(self, state: dict, **expected) -> None:
        self.assertEqual(state | expected, state)

    def test_a_job_runs_on_all_its_nodes_with_one_token(self):
        job = Job("both", 'echo "token $DDPRUN_TOKEN in $(pwd)"', nodes=2)
        self.check(job.wait_phase("succeeded"), exit_code=0, requeues=0, where="host[0-1]")
        [first, second] = [line for line in job.printed().splitlines() if line.startswith("token ")]
        self.assertEqual(first, second)
        self.assertRegex(first, rf"^token [0-9a-f]{{32}} in {re.escape(str(job.record))}$")

    def test_75_is_requeued_and_counted_and_93_is_not(self):
        job = Job("again", 'echo "start $SLURM_RESTART_COUNT $DDPRUN_TOKEN"; [ "$SLURM_RESTART_COUNT" = 2 ] || exit 75')
        self.check(job.wait_phase("succeeded"), requeues=2, exit_code=0)
        starts = [line.split()[-1] for line in job.printed().splitlines() if line.startswith("start ")]
        self.assertEqual(len(set(starts)), 3)  # tokens of three starts
        final = Job("final", "exit 93")
        self.check(final.wait_phase("failed"), requeues=0, exit_code=93)
        never = Job("never", "exit 75", "no-requeue")
        self.check(never.wait_phase("preempted"), requeues=0, exit_code=75)

    def test_a_job_waits_and_says_why_and_its_cancel_removes_it(self):
        job = Job("held", "true", "hold")
        self.check(job.state(), phase="queued", detail="waiting: JobHeldUser")
        tool("cancel", job.id, "25")
        self.check(job.wait_phase("stopped"), detail="cancelled")

    def test_a_cancelled_job_saves_and_does_not_come_back(self):
        for name, grace in ("short", "25"), ("longer than KillWait", "45"):
            job = Job(name, SAVES)
            job.wait_printed("it runs")
            self.check(job.state(), phase="running", requeues=0)
            self.assertRegex(job.state()["where"], "^host[01]$")
            tool("cancel", job.id, grace)
            job.wait_printed("saved")
            self.check(job.wait_phase("stopped"))
            self.assertEqual(job.printed().count("it runs"), 1)
            tool("cancel", job.id, grace)  # again: nothing happens
            self.check(job.state(), phase="stopped")

    def test_a_failure_has_its_code(self):
        self.check(Job("fails", "exit 1").wait_phase("failed"), exit_code=1)
        self.check(Job("killed", "kill -9 $$").wait_phase("failed"), exit_code=137)

    def test_what_slurm_says_is_passed_on(self):
        script = cluster.folder / "nowhere.sbatch"
        script.write_text("#!/bin/sh\n#SBATCH --partition=nope\n")
        self.assertRegex(refusal("submit", str(script)), "^cannot submit the job to Slurm: .*invalid partition specified: nope")
        self.assertIn("nope", refusal("test", str(script)))
        script.write_text("#!/bin/sh\n#SBATCH --partiton=low\n")
        self.assertIn("unrecognized option '--partiton=low'", refusal("submit", str(script)))
        script.write_text("#!/bin/sh\n")
        self.assertRegex(tool("test", str(script)), r"^Job \d+ to start at ")

    def test_a_job_that_slurm_does_not_know_is_gone(self):
        self.check(json.loads(tool("state", "99999")), phase="gone")

    def test_zz_slurmctld_is_down(self):
        daemon = cluster.daemons["slurmctld"]
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        begin = time.monotonic()
        self.assertIn("cannot ask Slurm about the job 1: ", refusal("state", "1"))
        self.assertLess(time.monotonic() - begin, 40)


if __name__ == "__main__":
    if why := bed.missing():
        print(f"skipped: no Slurm here: {why}")
        sys.exit(0)
    os.umask(0o022)
    bed.end_by_sigterm()
    unittest.main()
