"""The store's p99 beside unauthenticated peers that connect as fast as they can: to the store, and to a node that has a token.

The server is on one core; the load, a modest one with a fixed rate, and the peers share the other. The load has
real-time priority there, so that they delay the server, not its clock; what the kernel itself does for the peers it
cannot push aside. Quiet and attacked runs take turns. With a token the load goes the way of a worker on another node:
through a store proxy and a TLS link; listener, store and proxy are threads of one process, as in ddprun.
"""
import subprocess
import time

from store import Server, cores, pinned, store_load
from table import Row
from tools import BIN, in_turns, raise_descriptor_limit, raise_priority

CONNECTIONS, CONNECTIONS_HELD = 64, 2000  # the load's; at most those of its peers
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
FIRST = {"start_new_session": True, "preexec_fn": raise_priority}


def p99(port):
    return store_load("measure", CONNECTIONS, RATE, SECONDS, port, **FIRST)


def p99_during(how, load_port, open_port):
    """And the peers' connections a second."""
    peers = subprocess.Popen(pinned(cores()[1], BIN / "attack_load", how, open_port), stdout=subprocess.PIPE, text=True, **FIRST)
    try:
        time.sleep(0.2)  # they are many by then
        during = p99(load_port)
    finally:
        peers.terminate()
        connections = peers.communicate(timeout=20)[0]
    return during, float(connections)


def bench(samples):
    raise_descriptor_limit(CONNECTIONS_HELD)
    for options, kinds, place in (((), OPEN_ATTACKS, "no token"),
                                  (("--proxies", "1", "--token", "--control"), TOKEN_ATTACKS, "by token")):
        for how in kinds:
            with Server(*pinned(cores()[0], BIN / "store_main", *options), **FIRST) as server:
                *_, load_port, open_port = server.ports * 2 if len(server.ports) == 1 else server.ports
                quiet, attacked = in_turns(samples(RUNS), lambda: p99(load_port), lambda: p99_during(how, load_port, open_port))
            what = f"strangers {ATTACK_NAMES[how]}, {place}"
            yield Row(f"{what}: p99", "us", [p99 for p99, _ in attacked], "quiet", quiet,
                      (f"<= {GOAL} x quiet", lambda _, ratio: ratio >= 1 / GOAL))
            yield Row(f"{what}: their connections", "/s", [connections for _, connections in attacked])
