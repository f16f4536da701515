"""The store's p99 beside unauthenticated peers that connect as fast as they can: to the store, and to a node that has a token.

The server is on one core; the load, a modest one with a fixed rate, and the peers share the other. The load has
real-time priority there, so that they delay the server, not its clock; what the kernel itself does for the peers it
cannot push aside. Quiet and attacked runs take turns. With a token the load goes the way of a worker on another node:
through a store proxy and a TLS link; listener, store and proxy are threads of one process, as in ddprun.
"""
import json
import subprocess
import time

from store import cores
from table import Row
from tools import BIN, raise_priority

CONNECTIONS = 64
RATE = 2000
SECONDS = 2
RUNS = 15
GOAL = 2  # times the quiet p99
OPEN_ATTACKS = ("close", "garbage", "half", "hello")
TOKEN_ATTACKS = ("close", "garbage", "half", "plain", "hello", "wrong", "replay")
ATTACK_NAMES = {  # attack_load.cpp says what each is
    "close": "connect and close",
    "garbage": "send garbage",
    "half": "send half a greeting and wait",
    "plain": "speak the store's protocol",
    "hello": "send half a TLS hello and wait",
    "wrong": "begin TLS with a wrong token",
    "replay": "say a member's TLS hello again",
}


def start(core, *command):
    return subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, start_new_session=True, preexec_fn=raise_priority)


class Server:
    def __init__(self, *options):
        self.process = start(cores()[0], BIN / "store_main", *options)
        ports = self.process.stdout.readline().split()
        self.load_port, self.open_port = ports[-2 if len(ports) > 1 else 0], ports[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)

    def p99(self):
        load = start(cores()[1], BIN / "attack_load", "measure", CONNECTIONS, RATE, SECONDS, self.load_port)
        return json.loads(load.communicate(timeout=60)[0])["p99_us"]

    def p99_during(self, how):
        """And the peers' connections a second."""
        peers = start(cores()[1], BIN / "attack_load", "attack", how, self.open_port)
        try:
            time.sleep(0.2)  # they are many by then
            p99 = self.p99()
        finally:
            peers.terminate()
            connections = peers.communicate(timeout=20)[0]
        return p99, float(connections)


def bench(samples):
    for options, kinds, place in (((), OPEN_ATTACKS, "no token"),
                                  (("--proxies", "1", "--token", "--control"), TOKEN_ATTACKS, "by token")):
        for how in kinds:
            with Server(*options) as server:
                quiet, attacked = [], []
                for _ in range(samples(RUNS)):
                    quiet.append(server.p99())
                    attacked.append(server.p99_during(how))
            what = f"strangers {ATTACK_NAMES[how]}, {place}"
            yield Row(f"{what}: p99", "us", [p99 for p99, _ in attacked], "quiet", quiet, f"<= {GOAL} x quiet",
                      lambda mine, ratio: ratio >= 1 / GOAL)
            yield Row(f"{what}: their connections", "/s", [connections for _, connections in attacked])
