#!/usr/bin/env python3
"""requeue-loop.sh and the systemd unit, with the real ddprun and train: scripts_test.py DDPRUN"""
from __future__ import annotations

import configparser
import contextlib
import filecmp
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import SOURCE, eventually

DDPRUN = Path(sys.argv.pop()).resolve()
SCRIPTS = SOURCE / "scripts/schedulers"
UNIT = SCRIPTS / "ddprun-train.service"
EPOCHS = 12
LIMIT_S = 60
TRAIN = [str(DDPRUN), "--nproc-per-node=2", "train", str(EPOCHS), "1", "--log-every=1", "--device=cpu", "--snapshot=run.pt",
         "--publish=weights.safetensors"]
ENV = os.environ | {"OMP_NUM_THREADS": "1"}
# Ends with the code whose turn it is, and 99 after the last one.
CODES = "echo x >>turns; turn=$(wc -l <turns); set -- $CODES 99; shift $((turn - 1)); exit $1"

# Ends half a second after the first Ctrl-C, or never.
INTERRUPTED = 'trap "echo interrupted; late=yes" INT; echo ready; until [ "$late" ]; do sleep 0.05; done; sleep 0.5; exit 7'


def children_of(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    for child in found:
        found += children_of(child)
    return found


class Job:
    """A command in a folder of its own, whose output goes to a file; in a session, which its end empties."""

    def __init__(self, test: unittest.TestCase, command: list, folder: Path, env: dict[str, str] | None = None):
        self.output = folder / "out"
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen(command, cwd=folder, env=env or ENV, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)
        self.pid = self.process.pid
        test.addCleanup(self.end)

    def end(self) -> None:
        for pid in [*descendants_of(self.pid), self.pid] if self.process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def printed(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        eventually(lambda: text in self.printed(), LIMIT_S, lambda: f"{text!r}:\n{self.printed()}")

    def wait_exit(self) -> int:
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.printed()}") from None


class TestCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ddprun-scripts-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def check_weights(self) -> None:
        alone = self.folder / "undisturbed"
        alone.mkdir()
        subprocess.run(TRAIN, cwd=alone, env=ENV, check=True, capture_output=True, timeout=LIMIT_S)
        self.assertTrue(filecmp.cmp(alone / "weights.safetensors", self.folder / "weights.safetensors", shallow=False))


class Loop(TestCase):
    def loop(self, *command) -> Job:
        return Job(self, [SCRIPTS / "requeue-loop.sh", *command], self.folder)

    def ends_with(self, codes: str, *options: str) -> tuple[int, int]:
        """The loop's code, and how often its command was started, if that ends with these codes."""
        (self.folder / "turns").unlink(missing_ok=True)
        command = [SCRIPTS / "requeue-loop.sh", "--max-delay", "0", *options, "sh", "-c", CODES]
        ran = subprocess.run(command, cwd=self.folder, env=ENV | {"CODES": codes}, capture_output=True, timeout=LIMIT_S)
        return ran.returncode, (self.folder / "turns").read_text().count("x")

    def test_75_is_started_again_until_the_work_is_done(self):
        self.assertEqual(self.ends_with("75 75 0"), (0, 3))

    def test_codes_that_another_start_does_not_change_end_the_loop(self):
        for code in 0, 1, 2, 73, 93, 130, 143:
            self.assertEqual(self.ends_with(str(code)), (code, 1))

    def test_a_ddprun_that_breaks_is_retried_so_often_and_no_more(self):
        self.assertEqual(self.ends_with("69 70 137 0"), (0, 4))
        self.assertEqual(self.ends_with("69 69 69", "--retries", "1"), (69, 2))

    def test_wrong_options_are_refused(self):
        for options in ["--retries", "x", "true"], ["--often", "true"], []:
            self.assertEqual(self.loop(*options).wait_exit(), 2)

    def test_a_preempted_run_goes_on_bit_for_bit(self):
        job = self.loop(*TRAIN)
        job.wait_for("epoch 4 step 1 ")
        [ddprun] = children_of(job.pid)
        os.kill(ddprun, signal.SIGTERM)
        self.assertEqual(job.wait_exit(), 0)
        self.assertIn("saved at step", job.printed())
        self.assertIn("resuming from", job.printed())
        self.check_weights()

    def test_its_own_signals_reach_ddprun_and_end_the_loop(self):
        for number, code in (signal.SIGTERM, 75), (signal.SIGINT, 130):  # Ctrl-C does not save
            job = self.loop(*TRAIN)
            job.wait_for("epoch 1 step 1 " if number == signal.SIGTERM else "resuming from")
            os.kill(job.pid, number)
            self.assertEqual(job.wait_exit(), code)
            self.assertIn(f"stopped by {number.name}", job.printed())
            self.assertEqual(descendants_of(job.pid), [])

    def test_a_signal_to_its_whole_group_saves_too(self):
        job = self.loop(*TRAIN)
        job.wait_for("epoch 1 step 1 ")
        os.killpg(job.pid, signal.SIGTERM)
        self.assertEqual(job.wait_exit(), 75)
        self.assertIn("saved at step", job.printed())

    def test_the_command_gets_one_ctrl_c(self):
        """ddprun takes a second one for "now"."""
        job = self.loop("bash", "-c", INTERRUPTED)
        job.wait_for("ready")
        os.killpg(job.pid, signal.SIGINT)
        self.assertEqual(job.wait_exit(), 7)
        self.assertEqual(job.printed().count("interrupted"), 1)

    def test_a_signal_between_two_starts_ends_it(self):
        job = Job(self, [SCRIPTS / "requeue-loop.sh", "sh", "-c", CODES], self.folder, ENV | {"CODES": "75 0"})
        job.wait_for("starting it again")
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.wait_exit(), 75)
        self.assertEqual((self.folder / "turns").read_text().count("x"), 1)


class Unit(TestCase):
    """What systemd does is in two words of the unit: KillMode, and which codes it restarts. Here its part is played by the test."""

    def setUp(self) -> None:
        super().setUp()
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str
        parser.read(UNIT)
        self.service = dict(parser["Service"])

    def codes(self, key: str) -> set[int]:
        return {int(code) for code in self.service[key].split()}

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_takes_it(self):
        unit = self.folder / UNIT.name
        unit.write_text(UNIT.read_text().replace("/usr/local/bin/ddprun", str(DDPRUN)).replace("/srv/train", str(self.folder)))
        ran = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=LIMIT_S)
        said = [line for line in ran.stderr.splitlines() if UNIT.name in line]
        self.assertEqual((ran.returncode, said), (0, []))

    def test_it_restarts_what_is_worth_it_and_nothing_else(self):
        self.assertEqual(self.codes("RestartForceExitStatus"), {75, 69, 70, 134, 137, 139})
        self.assertEqual(self.service["Restart"], "on-abnormal")  # no exit code
        self.assertEqual(self.codes("SuccessExitStatus"), {75})

    def test_stopped_by_either_kill_mode_it_saves_within_its_time(self):
        self.assertEqual(self.service["KillMode"], "mixed")
        words = shlex.split(self.service["ExecStart"])
        self.assertEqual(Path(words[0]).name, "ddprun")
        train = words.index("train")
        command = [str(DDPRUN), *words[1:train], "--nproc-per-node=2", *TRAIN[2:]]
        for mode in "mixed", "control-group":
            job = Job(self, command, self.folder)
            job.wait_for("epoch 1 step 1 " if mode == "mixed" else "resuming from")
            everything = descendants_of(job.pid)
            for pid in [job.pid] if mode == "mixed" else [job.pid, *everything]:
                with contextlib.suppress(ProcessLookupError):  # ddprun has been faster, or it was short
                    os.kill(pid, signal.SIGTERM)
            self.assertEqual(job.process.wait(int(self.service["TimeoutStopSec"])), 75)
            left = [pid for pid in everything if Path(f"/proc/{pid}").exists()]
            self.assertEqual(left, [], "systemd would have to kill these")


if __name__ == "__main__":
    unittest.main()
