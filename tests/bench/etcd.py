"""Jobs that find their coordinator at an etcd of three members, beside our own election and torchrun's c10d, over test hosts."""
import os
import subprocess
import time

import regroup
from table import Row, at_most
from tools import BIN, DDPRUN, TORCHRUN, in_turns

ETCD_HOSTS = 3, 4, 5
ENDPOINT = ",".join(f"10.99.0.1{host}:2379" for host in ETCD_HOSTS)
WORKER = str(BIN / "host_worker")


class OwnJob(regroup.HostJob):
    RENDEZVOUS = ["--rdzv-backend=c10d", "--rdzv-endpoint=host0:29400", "--rdzv-id=bench", "--rdzv-conf=last_call_timeout=1"]

    def __init__(self, nodes="1:3"):
        super().__init__()
        self.range = nodes

    def command(self, host):
        return [DDPRUN, f"--nnodes={self.range}", *self.RENDEZVOUS, "--exclude-after=0", WORKER]


class EtcdJob(OwnJob):
    COUNT = 6
    RENDEZVOUS = ["--rdzv-backend=etcd", f"--rdzv-endpoint={ENDPOINT}", "--rdzv-id=bench", "--rdzv-conf=last_call_timeout=1"]

    def __init__(self, nodes="1:3"):
        super().__init__(nodes)
        self.members = [self.start_member(host) for host in ETCD_HOSTS]
        self.wait_for_etcd()

    def __exit__(self, *words):
        for member in self.members:
            member.kill()
            member.wait()
        super().__exit__(*words)

    def start_member(self, host):
        url = f"http://10.99.0.1{host}"
        others = ",".join(f"m{other}=http://10.99.0.1{other}:2380" for other in ETCD_HOSTS)
        return subprocess.Popen(
            [regroup.HOSTS, "exec", self.set, str(host), "etcd", "--name", f"m{host}", "--data-dir", f"{self.folder}/m{host}",
             "--listen-client-urls", f"{url}:2379", "--advertise-client-urls", f"{url}:2379", "--listen-peer-urls", f"{url}:2380",
             "--initial-advertise-peer-urls", f"{url}:2380", "--initial-cluster", others, "--log-level", "error"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_for_etcd(self):
        health = [regroup.HOSTS, "exec", self.set, str(ETCD_HOSTS[0]), "etcdctl", "--endpoints", ENDPOINT, "endpoint", "health"]
        end = time.monotonic() + regroup.LIMIT
        while subprocess.run(health, env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, check=False).returncode:
            if time.monotonic() > end:
                raise RuntimeError("etcd does not answer")


class TorchrunJob(OwnJob):
    def start(self, host):
        os.environ["DDPRUN_ROUND"] = "1"  # as host_worker writes it
        super().start(host)
        del os.environ["DDPRUN_ROUND"]

    def command(self, host):
        return [TORCHRUN, "--no-python", f"--nnodes={self.range}", "--nproc-per-node=1", *self.RENDEZVOUS[:3],
                f"--local-addr=host{host}", WORKER]


def time_to_start(kind):
    with kind("2") as job:
        return job.change(2, lambda: [job.start(host) for host in (0, 1)])


def times_of_losses(kind, nodes):
    """In ms: a worker killed, another node, the coordinator's node."""
    with kind(f"1:{nodes}") as job:
        job.change(1, lambda: job.start(0))
        job.change(nodes, lambda: [job.start(host) for host in range(1, nodes)])
        worker = job.change(nodes, lambda: job.kill(1, "worker"))
        other = job.change(nodes - 1, lambda: job.kill(1, "node"))
        job.change(nodes, lambda: job.start(1))
        return worker, other, job.change(nodes - 1, lambda: job.kill(0, "node"))


def bench(samples):
    etcd, own, torchrun = in_turns(samples(5), *(lambda kind=kind: time_to_start(kind) for kind in (EtcdJob, OwnJob, TorchrunJob)))
    yield Row("start of 2 nodes -> all ranks train", "ms", etcd, "own election", own)
    yield Row("start of 2 nodes -> all ranks train", "ms", etcd, "torchrun c10d", torchrun)
    three, own = in_turns(samples(10), lambda: times_of_losses(EtcdJob, 3), lambda: times_of_losses(OwnJob, 3))
    two = [times_of_losses(EtcdJob, 2) for _ in range(samples(10))]
    for at, what in enumerate(["a worker", "a node", "the coordinator's node"]):
        mine, theirs = ([each[at] for each in side] for side in (three, own))
        yield Row(f"3 nodes, {what} killed -> all ranks train", "ms", mine, "own election", theirs, goal=at_most(2_000, "ms"))
        yield Row(f"2 nodes, {what} killed -> all ranks train", "ms", [each[at] for each in two], goal=at_most(2_000, "ms"))
