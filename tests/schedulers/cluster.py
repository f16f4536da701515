#!/usr/bin/env python3
"""A real Slurm on this machine: munged, slurmctld and a slurmd for each node, every node a host of its own (scripts/hosts.sh).

  cluster.py [--nodes N] [--proctrack linuxproc|cgroup] [--without-requeue-exit] [--accounting] [COMMAND ...]
                                                            runs COMMAND (default: a shell) on the login host

All files are in one temporary folder; nothing outlives the command. Needs root and Debian's slurmctld, slurmd and slurm-client;
for --accounting (sacct) its slurmdbd and mariadb-server-core, too.
Partitions: `low` (default) is preempted by `high` with REQUEUE, `low0` the same without GraceTime.
"""
from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
HOSTS = SOURCE / "scripts/hosts.sh"
UP_LIMIT_S = 60
FREEZER = Path("/sys/fs/cgroup/freezer")

# Two limits of Slurm are shortened, because they only cost a test time: a requeued job waits cred_expire (120 s), and finished
# jobs are looked after every sched_interval (60 s).
CONFIG = """\
ClusterName=test
SlurmctldHost=host{login}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=30
SlurmdTimeout=6
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/finished-jobs
NodeName=host[0-{last}] CPUs=4 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 MaxTime=INFINITE
PartitionName=low0 Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=0 MaxTime=INFINITE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
"""
# Two kinds of sites. The second one sends the signal of --signal at a preemption.
REQUEUE_EXIT = "RequeueExit=75\nRequeueExitHold=93\n"
NO_REQUEUE_EXIT = "SlurmctldParameters=preempt_send_user_signal\n"

# Accounting: the password is munge's socket.
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=host{login}
AccountingStoragePass={folder}/munge.socket
"""
DBD_CONFIG = """\
DbdHost=host{login}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""
# The database is for a few jobs: small and never synced. Only its socket, in a folder of root's, leads to it.
DATABASE = ["mariadbd", "--no-defaults", "--user=root", "--silent-startup", "--skip-networking", "--skip-grant-tables",
            "--debug-no-sync", "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M", "--skip-innodb-file-per-table"]
DATABASE_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")

# Slurm's folders of cgroups are named for the node, and each cluster has a host0: each gets a folder of its own as its root. The
# plugin is named even where no cgroup is used, as slurmd would look for one to choose it.
CGROUP_CONFIG = "CgroupPlugin=cgroup/v1\nCgroupMountpoint={folder}/cgroup\n"
MOUNT_FREEZER = 'mount -t cgroup -o freezer freezer "$1" && mount --bind "$1/$2" "$1" && shift 2 && exec "$@"'


def missing() -> str:
    """Why this machine cannot run the cluster, or nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    programs = [p for p in ("munged", "slurmctld", "slurmd", "sbatch", "ip") if not shutil.which(p)]
    if programs:
        return f"there is no {programs[0]}: scripts/setup.sh --test installs it"
    allowed = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0
    return "" if allowed else "it needs a machine that allows network namespaces"


def missing_for_cgroup() -> str:
    if not (FREEZER / "cgroup.procs").exists():  # cgroup v2: Slurm 22.05 asks systemd over D-Bus for a scope
        return f"there is no {FREEZER} (cgroup v1)"
    return "" if os.access(FREEZER, os.W_OK) else f"{FREEZER} cannot be written"


def missing_for_accounting() -> str:
    programs = [p for p in ("mariadbd", "slurmdbd", DATABASE_TABLES) if not shutil.which(p, os.F_OK)]
    return f"there is no {programs[0]}: scripts/setup.sh --test installs it" if programs else ""


def eventually(condition: Callable[[], object], limit_s: float, what: str | Callable[[], str]) -> object:
    """The first true value of the condition."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.05)
    return value


def remove(folder: Path, freezer: Path) -> None:
    def freezer_gone() -> bool:  # as soon as the last process in it is
        subprocess.run(["find", freezer, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"], stderr=subprocess.DEVNULL,
                       check=False)
        return not freezer.exists()

    eventually(freezer_gone, 10, f"no process in {freezer}")
    shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Of clusters whose process was killed."""
    for parent in Path(tempfile.gettempdir()), FREEZER:
        for left in parent.glob("ddprun-*-slurm-*"):
            if not Path("/proc", left.name.split("-")[1]).exists():
                remove(Path(tempfile.gettempdir()) / left.name, FREEZER / left.name)


def end_by_sigterm() -> None:
    """A `with` then takes its cluster down."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class Cluster:
    """Up when the constructor returns; `with` takes it down."""

    def __init__(self, nodes: int, proctrack: str = "linuxproc", requeue_exit: bool = True, accounting: bool = False):
        self.nodes, self.proctrack, self.requeue_exit, self.accounting = nodes, proctrack, requeue_exit, accounting
        self.name = f"{os.getpid()}-slurm-{secrets.token_hex(3)}"
        self.folder = Path(tempfile.gettempdir()) / f"ddprun-{self.name}"
        self.folder.mkdir(0o755)
        self.daemons: dict[str, subprocess.Popen] = {}
        config = CONFIG.format(login=nodes, last=nodes - 1, folder=self.folder, proctrack=proctrack)
        config += REQUEUE_EXIT if requeue_exit else NO_REQUEUE_EXIT
        config += ACCOUNTING.format(login=nodes, folder=self.folder) if accounting else ""
        (self.folder / "slurm.conf").write_text(config)
        self.env = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self._up()
        except BaseException:
            self.down()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def on(self, host: int, *command: str | Path) -> list[str]:
        return [str(HOSTS), "exec", self.name, str(host), *map(str, command)]

    def run(self, *command: str | Path, check: bool = True, **options) -> str:
        """On the login host."""
        ended = subprocess.run(self.on(self.nodes, *command), env=self.env, capture_output=True, text=True, **options)
        if check and ended.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))} exited with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def start_node(self, node: int) -> None:
        prefix: list[str | Path] = []
        if self.proctrack == "cgroup":
            prefix = ["sh", "-c", MOUNT_FREEZER, "sh", self.folder / "cgroup/freezer", self._freezer().name]
        self._start(f"slurmd-host{node}", node, *prefix, "slurmd", "-D", "-N", f"host{node}")

    def kill_node(self, node: int) -> None:
        """The node's power fails: slurmd, its steps and all that they have started get SIGKILL."""
        subprocess.run(["kill", "-9", *self._pids(node)], stderr=subprocess.DEVNULL, check=False)
        self.daemons.pop(f"slurmd-host{node}").wait()

    def kill_worker(self, node: int) -> None:
        workers = [pid for pid in self._pids(node) if b"\0RANK=" in Path("/proc", pid, "environ").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)

    # Not by the node's state: what sinfo shows may be older than the job's end, until something else changes a node.
    def jobs_on(self, node: int) -> str:
        """One line each; those that are completing, too."""
        return self.run("squeue", "--noheader", f"--nodelist=host{node}", "--format=%i %j %T %M")

    def processes(self, node: int) -> str:
        return subprocess.run(["ps", "-o", "pid,ppid,stat,wchan,etimes,args", *self._pids(node)], capture_output=True, text=True,
                              check=False).stdout

    def state_of(self, node: int) -> str:
        return self.run("sinfo", "-h", "-N", "-n", f"host{node}", "-o", "%T", check=False).split("\n")[0]

    def finished(self, job: str) -> str:
        """What Slurm has recorded of a job: a line for each time that it ended."""
        lines = (self.folder / "finished-jobs").read_text().splitlines(True)
        return "".join(line for line in lines if line.startswith(f"JobId={job} "))

    def logs(self) -> str:
        """The last lines of all daemons; not those about MPI, which nothing here uses, nor munged's credentials."""
        said = ""
        for log in sorted(self.folder.glob("*.log")):
            lines = [line for line in log.read_text(errors="replace").splitlines(True)
                     if "mpi" not in line.lower() and "munged: Info" not in line]
            said += f"\n--- {log.name}\n" + "".join(lines[-100:])
        return said

    def down(self) -> None:
        subprocess.run([HOSTS, "down", self.name], check=False)
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()
        remove(self.folder, self._freezer())

    def _pids(self, node: int) -> list[str]:
        return subprocess.run(["ip", "netns", "pids", f"ddprun-{self.name}-{node}"], capture_output=True, text=True,
                              check=True).stdout.split()

    def _up(self) -> None:
        subprocess.run([HOSTS, "up", self.name, str(self.nodes + 1)], check=True)  # and ends what killed clusters have left running
        remove_leftovers()
        (self.folder / "state").mkdir()
        (self.folder / "finished-jobs").touch()
        (self.folder / "cgroup.conf").write_text(CGROUP_CONFIG.format(folder=self.folder))
        if self.proctrack == "cgroup":
            (self.folder / "cgroup/freezer").mkdir(parents=True)
            self._freezer().mkdir()
        self._start_munged()
        if self.accounting:
            self._start_accounting()
        self._start("slurmctld", self.nodes, "slurmctld", "-D")
        for node in range(self.nodes):
            self.start_node(node)
        self.wait_idle(range(self.nodes))

    def wait_idle(self, nodes) -> None:
        eventually(lambda: self._alive() and all(self.state_of(node) == "idle" for node in nodes), UP_LIMIT_S,
                   lambda: f"all nodes idle{self.logs()}")

    def _alive(self) -> bool:
        for name, daemon in self.daemons.items():
            if daemon.poll() is not None:
                raise AssertionError(f"{name} exited with {daemon.returncode}{self.logs()}")
        return True

    # It refuses a folder that others than its user may write to.
    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._start("munged", self.nodes, "munged", "--foreground", "--force",
                    f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                    f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed",
                    f"--log-file={self.folder}/munged-own.log")
        eventually((self.folder / "munge.socket").exists, UP_LIMIT_S, lambda: f"munged's socket{self.logs()}")

    # Slurm creates tables and procedures, for which the server needs its own tables. slurmctld wants to find slurmdbd up.
    def _start_accounting(self) -> None:
        database = self.folder / "database"
        database.mkdir(0o700)
        tables = database / "tables.sql"
        tables.write_text("CREATE DATABASE mysql;\nUSE mysql;\n" + DATABASE_TABLES.read_text())
        self._start("mariadbd", self.nodes, *DATABASE, f"--datadir={database}", f"--init-file={tables}",
                    f"--socket={database}/socket", f"--pid-file={database}/pid")
        eventually(lambda: self._alive() and (database / "socket").exists(), UP_LIMIT_S,
                   lambda: f"the database's socket{self.logs()}")
        config = self.folder / "slurmdbd.conf"
        config.touch(0o600)  # slurmdbd refuses one that others may read
        config.write_text(DBD_CONFIG.format(login=self.nodes, folder=self.folder))
        self._start("slurmdbd", self.nodes, "env", f"MYSQL_UNIX_PORT={database}/socket", "slurmdbd", "-D")
        eventually(lambda: self._alive() and self.run("sacctmgr", "--noheader", "list", "qos", check=False), UP_LIMIT_S,
                   lambda: f"slurmdbd answers{self.logs()}")

    def _start(self, name: str, host: int, *command: str | Path) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.daemons[name] = subprocess.Popen(self.on(host, *command), env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                                                  stdout=log, stderr=log)

    def _freezer(self) -> Path:
        return FREEZER / f"ddprun-{self.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2, help="1 to 9 (default 2)")
    parser.add_argument("--proctrack", choices=["linuxproc", "cgroup"], default="linuxproc")
    parser.add_argument("--without-requeue-exit", action="store_true", help="no RequeueExit=75, RequeueExitHold=93 in slurm.conf")
    parser.add_argument("--accounting", action="store_true", help="slurmdbd and a database, for sacct")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if why := (missing() or (args.proctrack == "cgroup" and missing_for_cgroup())
               or (args.accounting and missing_for_accounting())):
        print(f"cluster.py: {why}", file=sys.stderr)
        return 1
    end_by_sigterm()
    with Cluster(args.nodes, args.proctrack, not args.without_requeue_exit, args.accounting) as cluster:
        command = args.command or [os.environ.get("SHELL", "sh")]
        return subprocess.run(cluster.on(args.nodes, *command), env=cluster.env).returncode


if __name__ == "__main__":
    sys.exit(main())
