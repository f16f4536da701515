"""The store's server beside PyTorch's (libuv): each a process of its own on one core, the load on another.

The main figure is requests per second of the server's processor time: it holds also where the machine is busy, and most
of it is the kernel's way from socket to socket, the same for both. The two servers take turns of a fraction of a
second.

A barrier of 16,000 simulated ranks behind 16 store proxies, beside the same barrier of clients of the store itself: the ranks are
connections of one process with one thread; the store and its proxies are threads of another one, as many nodes are not at hand. So
both sides are as fast as that load on these cores lets them be. What a store far away gains is the other row: the processor time of
its own thread, which is all that 16 nodes would share.
"""
import json
import os
import subprocess

from table import Row, at_most, times
from tools import BIN, PYTHON, raise_descriptor_limit

OPS = ("get", "set", "add", "wait", "multi_get")  # store_load.cpp says what each is
CONNECTIONS = (4, 64, 256, 1000)
TURNS = 9
SECONDS = 0.1
IDLE_CONNECTIONS = 10_000
RANKS = 16_000
PROXIES = 16
BARRIER_TURNS = 5
BARRIERS = {"barrier": "BARRIER", "add_wait": "ADD and WAIT, as PyTorch's barrier does"}
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
    """A program that prints its ports and serves until its stdin ends, at the latest with us."""

    def __init__(self, *command, **how):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, **how)
        self.ports = self.process.stdout.readline().split()
        if not self.ports:
            raise RuntimeError(f"{command} does not serve")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)

    def place(self):
        return [self.ports[0], str(self.process.pid)]


def pinned(core, *command):
    return ["taskset", "-c", str(core), *map(str, command)]


def store_load(*words, prefix=pinned(cores()[1]), **how):
    done = subprocess.run([*prefix, str(BIN / "store_load"), *map(str, words)], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=120, **how)
    return json.loads(done.stdout)


def ours():
    return Server(*pinned(cores()[0], BIN / "store_main"))


def peer():
    shim = str(BIN.parent / "lib/libnumeric_names_shim.so")
    return Server(*pinned(cores()[0], PYTHON, "-c", PEER), env=os.environ | {"LD_PRELOAD": shim})


def loads(how, connections, samples, servers):
    seen = store_load(how, connections, SECONDS, samples(TURNS), *(word for server in servers for word in server.place()))
    per_cpu = [[turn["requests"] / turn["cpu_seconds"] for turn in side] for side in seen]
    p99 = [[turn["p99_us"] for turn in side] for side in seen]
    what = f"{how}, {connections:,} connections"
    yield Row(f"{what}: requests per processor second", "/s", per_cpu[0], "libuv", per_cpu[1], times(1.5))
    yield Row(f"{what}: p99", "us", p99[0], "libuv", p99[1], ("<= libuv's", lambda _, ratio: ratio >= 1))


def memory():
    held = []
    for start in (ours, peer):  # new ones: memory that an old one freed would hide what is held
        with start() as server:
            held.append([store_load("hold", IDLE_CONNECTIONS, *server.place())])
    yield Row(f"resident memory of the server for each of {IDLE_CONNECTIONS:,} idle connections", "bytes", held[0],
              "libuv", held[1], at_most(2048, "bytes"))


def bench(samples):
    raise_descriptor_limit(IDLE_CONNECTIONS)
    with ours() as mine, peer() as theirs:
        for how in OPS:
            for connections in CONNECTIONS:
                yield from loads(how, connections, samples, (mine, theirs))
    yield from memory()


def values(turns, name):
    return [turn[name] for turn in turns]


def bench_barrier(samples):
    raise_descriptor_limit(RANKS)
    for options, words in ((), ""), (("--token",), ", by token"):
        for how, name in BARRIERS.items():
            with Server(BIN / "store_main", "--proxies", PROXIES, *options) as server:
                own, *proxies = server.ports

                def load(ports, ranks=RANKS):
                    return store_load(how, ranks, samples(BARRIER_TURNS), server.process.pid, *ports, prefix=[])

                proxied, direct = load(proxies), load([own])
                one, alone = load(proxies[:1], RANKS // PROXIES), load([own], RANKS // PROXIES)
            what = f"barrier of {RANKS:,} ranks behind {PROXIES} proxies{words}: {name}"
            yield Row(what, "s", values(proxied, "seconds"), "without proxies", values(direct, "seconds"), at_most(0.5, "s"))
            yield Row(f"{what}: processor time of the store's thread", "s", values(proxied, "store_cpu_seconds"),
                      "without proxies", values(direct, "store_cpu_seconds"))
            yield Row(f"barrier of {RANKS // PROXIES:,} ranks behind one proxy{words}: {name}", "s", values(one, "seconds"),
                      "without a proxy", values(alone, "seconds"))
