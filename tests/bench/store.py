"""The store's server beside PyTorch's (libuv): each a process of its own on one core, the load on another.

The main figure is requests per second of the server's processor time: it holds also where the machine is busy, and most
of it is the kernel's way from socket to socket, the same for both. The two servers take turns of a fraction of a
second.
"""
import json
import os
import subprocess

from table import Row
from tools import BIN, PYTHON, raise_descriptor_limit

OPS = ("get", "set", "add", "wait", "multi_get")  # store_load.cpp says what each is
CONNECTIONS = (4, 64, 256, 1000)
TURNS = 9
SECONDS = 0.1
IDLE_CONNECTIONS = 10_000
PEER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=True)
print(store.port, flush=True)
sys.stdin.read()
"""


def cores():
    """(the server's, the load's); the same one where there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[-1], usable[0]


class Server:
    """Serves until its stdin ends, at the latest with us."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(["taskset", "-c", str(cores()[0]), *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.port = self.process.stdout.readline().strip()
        if not self.port:
            raise RuntimeError(f"{command[0]} does not serve")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)

    def place(self):
        return [self.port, str(self.process.pid)]


def store_load(*words):
    done = subprocess.run(["taskset", "-c", str(cores()[1]), str(BIN / "store_load"), *map(str, words)], check=True,
                          stdout=subprocess.PIPE, text=True, timeout=60)
    return json.loads(done.stdout)


def ours():
    return Server([str(BIN / "store_main")])


def peer():
    return Server([PYTHON, "-c", PEER], os.environ | {"LD_PRELOAD": str(BIN.parent / "lib/libnumeric_names_shim.so")})


def loads(how, connections, samples, servers):
    seen = store_load(how, connections, SECONDS, samples(TURNS), *(word for server in servers for word in server.place()))
    per_cpu = [[turn["requests"] / turn["cpu_seconds"] for turn in side] for side in seen]
    p99 = [[turn["p99_us"] for turn in side] for side in seen]
    what = f"{how}, {connections:,} connections"
    yield Row(f"{what}: requests per processor second", "/s", per_cpu[0], "libuv", per_cpu[1], ">= 1.5x",
              lambda mine, ratio: ratio >= 1.5, higher_is_better=True)
    yield Row(f"{what}: p99", "us", p99[0], "libuv", p99[1], "<= libuv's", lambda mine, ratio: ratio >= 1)


def memory():
    held = []
    for start in (ours, peer):  # new ones: memory that an old one freed would hide what is held
        with start() as server:
            held.append([store_load("hold", IDLE_CONNECTIONS, *server.place())])
    yield Row(f"resident memory of the server for each of {IDLE_CONNECTIONS:,} idle connections", "bytes", held[0],
              "libuv", held[1], "<= 2,048 bytes", lambda mine, ratio: mine <= 2048)


def bench(samples):
    raise_descriptor_limit(IDLE_CONNECTIONS)
    with ours() as mine, peer() as theirs:
        for how in OPS:
            for connections in CONNECTIONS:
                yield from loads(how, connections, samples, (mine, theirs))
    yield from memory()
