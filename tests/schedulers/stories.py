"""What happens to jobs under a real Slurm: each story is one interruption, on nodes of its own.

Every job is `train` on two ranks, with one of the scripts of scripts/schedulers/, and must end with the weights of a run that
nobody disturbed.
"""
from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from cluster import SOURCE, Cluster, eventually
from slurm_job import LIMIT_S, SlurmJob

SCRIPTS = SOURCE / "scripts/schedulers"
EPOCHS = 16
EPOCHS_OF_PREEMPTED = 40  # Slurm takes a second until it preempts, and the job must still run then
ENDLESS = 100_000
ASKED = "REQUEUED|0:0"  # sacct of a start that `scontrol requeue` ended
CANCELLED = "CANCELLED by 0|0:0"  # sacct: by root


def train(epochs: int = EPOCHS) -> list[str]:
    return ["train", str(epochs), "1", "--log-every=1", "--device=cpu", "--snapshot=run.pt", "--publish=weights.safetensors"]


def train_undisturbed(folder: Path, epochs: int = EPOCHS) -> Path:
    """Or goes on from the snapshot in the folder."""
    subprocess.run(["ddprun", "--nproc-per-node=2", *train(epochs)], cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    return folder / "weights.safetensors"


class Undisturbed:
    """The weights of runs that nobody disturbed; each is made once."""

    def __init__(self, folder: Path):
        self.folder, self.lock, self.weights = folder, threading.Lock(), {}

    def after(self, epochs: int) -> Path:
        with self.lock:
            if epochs not in self.weights:
                alone = self.folder / f"undisturbed-{epochs}"
                alone.mkdir()
                self.weights[epochs] = train_undisturbed(alone, epochs)
            return self.weights[epochs]


class Bench:
    """A story's place: a cluster, its nodes, a folder that they share, and the weights to compare with."""

    def __init__(self, cluster: Cluster, nodes: list[int], folder: Path, undisturbed: Undisturbed):
        self.cluster, self.nodes, self.folder, self.undisturbed = cluster, nodes, folder, undisturbed
        folder.mkdir()

    @property
    def nodelist(self) -> str:
        return ",".join(f"host{node}" for node in self.nodes)

    def ddprun_options(self) -> list[str]:
        """Two ranks, on however many nodes."""
        if len(self.nodes) == 1:
            return ["--nproc-per-node=2"]
        return ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=host{self.nodes[0]}:29400",
                "--rdzv-id=story"]

    @property
    def script(self) -> str:
        """The one for a site such as this."""
        return "slurm-requeue-exit.sbatch" if self.cluster.requeue_exit else "slurm-requeue.sbatch"

    def submit(self, script: str, *ddprun: str, sbatch: tuple[str, ...] = (), epochs: int = EPOCHS) -> SlurmJob:
        return self.submit_command(script, *self.ddprun_options(), *ddprun, *train(epochs), sbatch=sbatch)

    def submit_command(self, script: str | Path, *words: str, sbatch: tuple[str, ...] = (), name: str = "out") -> SlurmJob:
        return SlurmJob(self.cluster, self.folder / name, f"--nodes={len(self.nodes)}", f"--nodelist={self.nodelist}", *sbatch,
                        SCRIPTS / script, *words)

    @property
    def requeued(self) -> str:
        """What sacct shows of a start that ended with 75."""
        return "REQUEUED|75:0" if self.cluster.requeue_exit else ASKED

    def preempt(self, ranks: int) -> SlurmJob:
        """A short job of the higher partition that wants the same nodes; returns when it has run."""
        other = SlurmJob(self.cluster, self.folder / f"preemptor-{ranks}", "--partition=high", f"--nodes={len(self.nodes)}",
                         f"--nodelist={self.nodelist}", "--exclusive", "--wrap=true")
        other.wait_state("COMPLETED")
        return other

    def check_finished(self, job: SlurmJob, restarts: int, steps_lost: bool = False, task: str = "", epochs: int = EPOCHS,
                       accounted: str = "") -> None:
        """accounted: sacct's record of each start but the last, where it is not that of an exit with 75."""
        job.wait_state("COMPLETED", task=task)
        job.check(task, ExitCode="0:0", Restarts=str(restarts))
        job.check_accounted(*[accounted or self.requeued] * restarts, "COMPLETED|0:0", task=task)
        job.wait_for(f"^done: {epochs} epochs")
        if not steps_lost:
            job.check_each_step_once()
        self.check_weights(job, epochs)

    def check_weights(self, job: SlurmJob, epochs: int = EPOCHS) -> None:
        self.check_weights_of(job.printed(), epochs)

    def check_weights_of(self, printed: str, epochs: int) -> None:
        self._compare(self.folder / "weights.safetensors", self.undisturbed.after(epochs), printed)

    def check_saved(self, job: SlurmJob) -> None:
        """Stops an endless job, and compares one epoch more of its snapshot."""
        job.told("scancel")
        job.wait_state("CANCELLED")
        self.wait_idle()
        epochs = 1 + max(int(epoch) for epoch in re.findall(r"^epoch (\d+) ", job.printed(), re.M))
        self._compare(train_undisturbed(self.folder, epochs), self.undisturbed.after(epochs), job.printed())

    def wait_idle(self) -> None:
        def jobs() -> str:
            return "".join(self.cluster.jobs_on(node) for node in self.nodes)

        eventually(lambda: not jobs(), LIMIT_S, lambda: f"no job on the nodes: {jobs()}\n" +
                   "".join(self.cluster.processes(node) for node in self.nodes))

    def _compare(self, weights: Path, others: Path, printed: str) -> None:
        assert filecmp.cmp(weights, others, shallow=False), f"other weights:\n{printed}"


def preempted_twice(bench: Bench) -> None:
    """The higher partition takes both nodes, twice."""
    job = bench.submit(bench.script, epochs=EPOCHS_OF_PREEMPTED)
    for times, epoch in (1, 5), (2, 15):
        job.wait_for(f"^epoch {epoch} step 1 ")
        bench.preempt(times)
        job.wait_for("^saved at step ", times)
    bench.check_finished(job, restarts=2, epochs=EPOCHS_OF_PREEMPTED)


def preempted_once(bench: Bench, *ddprun: str, sbatch: tuple[str, ...], accounted: str = "") -> SlurmJob:
    job = bench.submit(bench.script, *ddprun, sbatch=sbatch, epochs=EPOCHS_OF_PREEMPTED)
    job.wait_for("^epoch 5 step 1 ")
    bench.preempt(1)
    bench.check_finished(job, restarts=1, epochs=EPOCHS_OF_PREEMPTED, accounted=accounted)
    return job


def preempted_without_grace(bench: Bench) -> None:
    """GraceTime=0: Slurm requeues whatever the exit code, and KillWait is the time to save."""
    preempted_once(bench, sbatch=("--partition=low0",), accounted="PREEMPTED|0:0")


def preempted_by_the_users_signal(bench: Bench) -> None:
    """preempt_send_user_signal in slurm.conf: the signal of --signal, at a preemption, too."""
    preempted_once(bench, "--preempt-signal=USR1", sbatch=("--signal=USR1@60",)).wait_for("SIGUSR1")


def signalled_ranks_by_usr1(bench: Bench) -> None:
    """As --signal=USR1@120 does it."""
    job = bench.submit(bench.script, "--preempt-signal=USR1")
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--signal=USR1")
    bench.check_finished(job, restarts=1)


def example(bench: Bench) -> None:
    """examples/slurm as its README says: a rank is killed, then the job is preempted, and no step is done again that was saved."""
    shutil.copytree(SOURCE / "examples/slurm", bench.folder, dirs_exist_ok=True)
    job = SlurmJob(bench.cluster, bench.folder / "train.out", f"--nodelist={bench.nodelist}", bench.folder / "job.sbatch", "250")
    job.wait_for("^saved after step 50 ", limit_s=2 * LIMIT_S)  # torch is loaded beside twenty ranks of other stories
    bench.cluster.kill_worker(bench.nodes[1])
    job.wait_for("^saved after step 100 ", limit_s=2 * LIMIT_S)
    bench.preempt(1)
    job.wait_state("COMPLETED", limit_s=2 * LIMIT_S)
    job.check(ExitCode="0:0", Restarts="1")
    job.check_accounted(bench.requeued, "COMPLETED|0:0")
    saved = [int(step) for step in re.findall(r"^saved after step (\d+) of 250: ", job.printed(), re.M)]
    assert saved == sorted(set(saved)) and {50, 100, 150, 200, 250} < set(saved), job.printed()
    assert re.search(r"rank \d on host\d was killed by SIGKILL", job.printed()), job.printed()


def signalled_script(bench: Bench) -> None:
    """As --signal=B:TERM@120 does it: the script passes it on."""
    job = bench.submit("slurm-forward.sbatch")
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--batch", "--signal=TERM")
    bench.check_finished(job, restarts=1, accounted=ASKED)


def cancelled(bench: Bench) -> None:
    """scancel: the job saves in KillWait and does not come back, though its script asks for requeues."""
    job = bench.submit(bench.script)
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel")
    job.wait_state("CANCELLED")
    job.wait_for("^saved at step ")
    bench.wait_idle()
    job.check(JobState="CANCELLED", Restarts="0")
    job.check_accounted(CANCELLED)


def requeued_by_somebody(bench: Bench) -> None:
    """The node is drained while the job runs, which changes nothing; scontrol requeue then moves the job away, and it saves."""
    node = f"nodename={bench.nodelist}"
    job = bench.submit(bench.script)
    job.wait_for("^epoch 5 step 1 ")
    bench.cluster.run("scontrol", "update", node, "state=drain", "reason=repair")
    job.wait_for("^epoch 6 step 1 ")
    job.told("scontrol", "requeue")
    job.wait_for("^saved at step ")
    eventually(lambda: bench.cluster.state_of(bench.nodes[0]).startswith("drain"), 30, "the node is drained")
    bench.wait_idle()
    job.check(JobState="PENDING", Restarts="1")
    bench.cluster.run("scontrol", "update", node, "state=resume")
    bench.check_finished(job, restarts=1, accounted=ASKED)


def told_by_slurm_alone(bench: Bench) -> None:
    """`srun ddprun train` without options, one worker on each node: ddprun takes all from Slurm's variables."""
    job = bench.submit_command(bench.script, *train())
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--signal=TERM")
    bench.check_finished(job, restarts=1)


def node_lost(bench: Bench) -> None:
    """slurmd and all that it has started are killed, and the node is marked as down, which Slurm itself does later: it requeues the
    job, which goes on from the last epoch's snapshot."""
    node = f"nodename=host{bench.nodes[1]}"
    job = bench.submit(bench.script)
    job.wait_for("^epoch 5 step 1 ")
    bench.cluster.kill_node(bench.nodes[1])
    bench.cluster.run("scontrol", "update", node, "state=down", "reason=lost")
    eventually(lambda: "JobState=NODE_FAIL" in bench.cluster.finished(job.id), LIMIT_S, lambda: f"NODE_FAIL{bench.cluster.logs()}")
    bench.cluster.start_node(bench.nodes[1])  # and comes back by itself
    bench.check_finished(job, restarts=1, steps_lost=True, accounted="NODE_FAIL|0:0")


def chain(bench: Bench) -> None:
    """An array of jobs, one at a time: the second goes on where the first was stopped, and the third is not needed."""
    # Where Slurm requeues by the exit code it does so in spite of --no-requeue, and nobody needs a chain.
    job = bench.submit("slurm-chain.sbatch", sbatch=("--array=1-3%1",))
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--signal=TERM", task="_1", check=False)  # it repeats its request, by when the task may have ended
    job.wait_state("FAILED", task="_1")
    job.check("_1", ExitCode="75:0", Restarts="0")
    job.wait_state("COMPLETED", task="_2")
    job.wait_state("CANCELLED", task="_3")
    job.check_accounted("FAILED|75:0", "COMPLETED|0:0", CANCELLED)
    job.check_each_step_once()
    bench.check_weights(job)


def chain_without_progress(bench: Bench) -> None:
    """The same failure in the first three jobs of a chain: the third ends with 93, and there is no fourth."""
    job = bench.submit_command("slurm-chain.sbatch", "--state-dir=state", "--max-restarts=0", "sh", "-c", "exit 5",
                               sbatch=("--array=1-5%1",))
    for task, code in ("_1", 1), ("_2", 1), ("_3", 93):
        job.wait_state("FAILED", task=task)
        job.check(task, ExitCode=f"{code}:0")
    queue = ["squeue", "--noheader", f"--jobs={job.id}"]
    eventually(lambda: not bench.cluster.run(*queue).strip(), LIMIT_S, "the others are cancelled")
    job.check_accounted("FAILED|1:0", "FAILED|1:0", "FAILED|93:0", CANCELLED)
    assert job.printed().count("the job failed") == 3, job.printed()


def task_of_an_array(bench: Bench) -> None:
    """A task of an array asks for its own requeue."""
    job = bench.submit(bench.script, sbatch=("--array=7",))
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--signal=TERM", task="_7", check=False)  # it repeats its request, by when the task may have ended
    bench.check_finished(job, restarts=1, task="_7")


def heterogeneous(bench: Bench) -> None:
    """A job of two parts, one node each; its id is that of the first part."""
    script = bench.folder / "two-parts.sbatch"
    script.write_text((SCRIPTS / bench.script).read_text().replace("srun ddprun", "srun --het-group=0,1 ddprun"))
    first, second = (["--nodes=1", f"--nodelist=host{node}", "--cpus-per-task=1"] for node in bench.nodes)
    job = SlurmJob(bench.cluster, bench.folder / "out", *first, ":", *second, script, *bench.ddprun_options(), *train())
    job.wait_for("^epoch 5 step 1 ")
    job.told("scancel", "--signal=TERM")
    for part in "+0", "+1":
        bench.check_finished(job, restarts=1, task=part)


def program_without_the_channel(bench: Bench) -> None:
    """ddprun cannot know whether it has saved: 143, which Slurm takes for a failure, and sacct for an end by signal 15."""
    job = bench.submit_command(bench.script, "sh", "-c", "echo it runs; exec sleep 600")
    job.wait_for("^it runs")
    job.told("scancel", "--signal=TERM")
    job.wait_state("FAILED")
    job.check(ExitCode="143:0", Restarts="0")
    job.check_accounted("FAILED|15:0")


def program_that_is_started_again_all_the_same(bench: Bench) -> None:
    """Such a program with --exit-on-preempt=75, and one that has a code of its own for "saved"."""
    # The signal may reach what sh has started before sh itself.
    runs = 'echo it runs; [ -z "$SLURM_RESTART_COUNT" ] || exit 0; '
    for option, program in (("--exit-on-preempt=75", runs + "exec sleep 600"),
                            ("--preempt-exit-code=3", 'trap "exit 3" TERM; ' + runs + "while :; do sleep 0.1; done")):
        job = bench.submit_command(bench.script, option, "sh", "-c", program, name=option)
        job.wait_for("^it runs")
        job.told("scancel", "--signal=TERM")
        job.wait_state("COMPLETED")
        job.check(ExitCode="0:0", Restarts="1")
        job.check_accounted(bench.requeued, "COMPLETED|0:0")


def exit_codes(bench: Bench) -> None:
    """Slurm's state and code for the codes of ddprun that no story above shows."""
    def ended(code: int) -> SlurmJob:
        commands = {1: ["sh", "-c", "exit 1"], 2: ["--no-such-option"], 73: ["sh", "-c", "exit 73"], 93: ["sh", "-c", "exit 2"]}
        return bench.submit_command(bench.script, *commands[code], name=f"exits-{code}")

    jobs = {code: ended(code) for code in (1, 2, 73, 93)}
    for code in 1, 2, 73:
        jobs[code].wait_state("FAILED")
        jobs[code].check(ExitCode=f"{code}:0", Reason="NonZeroExitCode", Restarts="0")
        jobs[code].check_accounted(f"FAILED|{code}:0")
    if bench.cluster.requeue_exit:  # RequeueExitHold: back in the queue, held, for somebody to look at
        jobs[93].wait_state("SPECIAL_EXIT")
        jobs[93].check(ExitCode="93:0", Reason="JobHeldUser")
        jobs[93].check_accounted("REQUEUED|93:0", "PENDING|0:0")
        jobs[93].told("scancel")
    else:
        jobs[93].wait_state("FAILED")
        jobs[93].check(ExitCode="93:0", Reason="NonZeroExitCode", Restarts="0")
        jobs[93].check_accounted("FAILED|93:0")


# With 60 s the warning may come at the job's start and end a process that does not handle it yet.
WARNING_S = 20


def check_goes_on(bench: Bench, job: SlurmJob, accounted: str) -> None:
    """It was requeued once, and lost no step."""
    job.check(Restarts="1")
    job.check_accounted(accounted, "RUNNING|0:0")
    job.check_each_step_once()
    bench.check_saved(job)


def warned_before_the_limit(bench: Bench) -> None:
    """--signal to the ranks before the time limit: Slurm looks every 30 s and may be 60 s early."""
    job = bench.submit(bench.script, "--preempt-signal=USR1", sbatch=("--time=1", f"--signal=USR1@{WARNING_S}"), epochs=ENDLESS)
    job.wait_for("^resuming from ")
    check_goes_on(bench, job, bench.requeued)


def script_warned_before_the_limit(bench: Bench) -> None:
    """--signal to the script before the time limit."""
    job = bench.submit("slurm-forward.sbatch", sbatch=("--time=1", f"--signal=B:TERM@{WARNING_S}"), epochs=ENDLESS)
    job.wait_for("^resuming from ")
    check_goes_on(bench, job, ASKED)


def at_the_limit(bench: Bench) -> None:
    """The time is over without a warning: KillWait is the time to save, and the job is requeued all the same."""
    job = bench.submit(bench.script, sbatch=("--time=1", "--signal=CONT@5"), epochs=ENDLESS)
    job.wait_for("^resuming from ", limit_s=180)
    assert "JobState=TIMEOUT" in bench.cluster.finished(job.id), bench.cluster.finished(job.id)
    check_goes_on(bench, job, bench.requeued)


def save_longer_than_the_grace(bench: Bench) -> None:
    """The disk hangs at the time limit: ddprun ends the save after --stop-grace, with 143."""
    save_cut_at_the_limit(bench, exit_code="143:0", accounted="REQUEUED|15:0")


def save_longer_than_kill_wait(bench: Bench) -> None:
    """The same with a --stop-grace longer than KillWait: Slurm's SIGKILL ends everything."""
    save_cut_at_the_limit(bench, "--stop-grace=170", exit_code="0:9", accounted="REQUEUED|0:9")


def save_cut_at_the_limit(bench: Bench, *ddprun: str, exit_code: str, accounted: str) -> None:
    """Steps are lost: the job stays down. Once somebody requeues it, it goes on from the snapshot before."""
    stuck = bench.folder / "stuck"
    library = Path(shutil.which("ddprun")).parent / "stuck_fsync.so"
    job = bench.submit_command(bench.script, *bench.ddprun_options(), *ddprun, "env", f"LD_PRELOAD={library}",
                               f"DDPRUN_TEST_DISK_IS_STUCK={stuck}", *train(), sbatch=("--time=1", "--signal=CONT@5"))
    job.wait_for("^epoch 5 step 1 ")
    stuck.touch()  # by now three or four epochs are saved; the next snapshot hangs, and the run waits for it
    job.wait_state("TIMEOUT", limit_s=180)
    bench.wait_idle()
    job.check(JobState="TIMEOUT", ExitCode=exit_code, Restarts="0")
    job.check_accounted("TIMEOUT|0:0")
    assert list(bench.folder.glob("run.pt.writing.*")), "no save was cut"
    stuck.unlink()
    job.told("scontrol", "requeue")
    bench.check_finished(job, restarts=1, steps_lost=True, accounted=accounted)
    job.wait_for(f"^resuming from run.pt: [34] of {EPOCHS} epochs done$")
    job.wait_for("^epoch 5 step 1 ", times=2)


# The number of nodes of each.
STORIES: dict[Callable[[Bench], None], int] = {
    example: 2,
    preempted_twice: 2,
    told_by_slurm_alone: 2,
    node_lost: 2,
    preempted_without_grace: 1,
    preempted_by_the_users_signal: 1,
    signalled_ranks_by_usr1: 1,
    signalled_script: 1,
    cancelled: 1,
    requeued_by_somebody: 1,
    chain: 1,
    chain_without_progress: 1,
    task_of_an_array: 1,
    heterogeneous: 2,
    program_without_the_channel: 1,
    program_that_is_started_again_all_the_same: 1,
    exit_codes: 1,
}
# Slurm's time limits are whole minutes.
LONG_STORIES: dict[Callable[[Bench], None], int] = {
    warned_before_the_limit: 2,
    script_warned_before_the_limit: 1,
    at_the_limit: 1,
    save_longer_than_the_grace: 1,
    save_longer_than_kill_wait: 1,
}
ONLY_WITHOUT_REQUEUE_EXIT = [preempted_by_the_users_signal, chain, chain_without_progress]
if os.environ.get("DDPRUN_SOAK"):
    STORIES |= LONG_STORIES
else:  # what is the same at both sites runs at one
    ONLY_WITHOUT_REQUEUE_EXIT += [told_by_slurm_alone, example, node_lost, task_of_an_array, heterogeneous, program_without_the_channel]
