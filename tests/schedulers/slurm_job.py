"""One job of the cluster: submitted, watched in its output file, asked about by scontrol and sacct."""
from __future__ import annotations

import re
from pathlib import Path

from cluster import Cluster, eventually

LIMIT_S = 90
STEP = re.compile(r"^epoch (\d+) step (\d+) ", re.M)


class SlurmJob:
    def __init__(self, cluster: Cluster, output: Path, *sbatch: str | Path):
        self.cluster, self.output = cluster, output
        self.id = cluster.run("sbatch", "--parsable", f"--output={output}", f"--chdir={output.parent}", "--cpus-per-task=1",
                              *sbatch).strip()

    def printed(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def asked(self, task: str = "") -> dict[str, str]:
        """What scontrol shows, by name."""
        shown = self.cluster.run("scontrol", "--oneliner", "show", "job", self.id + task)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def accounted(self, task: str = "") -> list[str]:
        """What sacct shows: `state|exit code` of each start."""
        return self.cluster.run("sacct", "--parsable2", "--noheader", "--duplicates", "--allocations", "--format=State,ExitCode",
                                f"--jobs={self.id}{task}").splitlines()

    def told(self, *command: str, task: str = "", check: bool = True) -> None:
        self.cluster.run(*command, self.id + task, check=check)

    def wait_for(self, pattern: str, times: int = 1, limit_s: float = LIMIT_S) -> None:
        """Until so many of its lines match."""
        eventually(lambda: len(re.findall(pattern, self.printed(), re.M)) >= times, limit_s,
                   lambda: f"{times} x {pattern!r} of job {self.id}: {self.asked()}\n{self.printed()}")

    def wait_state(self, *states: str, task: str = "", limit_s: float = LIMIT_S) -> dict[str, str]:
        eventually(lambda: self.asked(task)["JobState"] in states, limit_s,
                   lambda: f"{states} of job {self.id}{task}: {self.asked(task)}\n{self.printed()}")
        return self.asked(task)

    def check(self, task: str = "", **expected: str) -> None:
        asked = self.asked(task)
        for name, value in expected.items():
            assert asked.get(name) == value, f"{name} is {asked.get(name)}, not {value}: {asked}\n{self.printed()}"

    def check_accounted(self, *records: str, task: str = "") -> None:
        """At a site with accounting, which is told a little later."""
        if self.cluster.accounting:
            eventually(lambda: self.accounted(task) == list(records), LIMIT_S,
                       lambda: f"sacct shows {records} of job {self.id}{task}: {self.accounted(task)}\n{self.printed()}")

    def check_each_step_once(self) -> None:
        steps = STEP.findall(self.printed())
        again = sorted({step for step in steps if steps.count(step) > 1})
        assert steps and not again, f"steps done more than once: {again}\n{self.printed()}"
