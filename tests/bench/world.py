"""A world of many simulated agents, over real sockets of few processes (world_load.cpp): how long it takes to form one
without a token and with one, to start again after a worker's failure, and to go on once its coordinator is killed.

All agents but those of the first 64 ranks share one core; the coordinator has the other. On as many machines their part
is done at the same time, so what carries over to larger worlds is the processor time of the coordinator (docs/figures/scale.md).

torchrun's c10d rendezvous is measured beside it as far as it goes, as threads of one process, which share one store.
"""
import json
import subprocess

from table import Row, at_most
from tools import BIN, PYTHON, raise_descriptor_limit

SIZES = (16, 64, 256, 1_000, 4_000)
FAILOVER_AGENTS_MAX = {"plain": 4_000, "token": 1_000}  # more agents than one core can have vote within their lease
PEER_SIZES = (16, 64)
PEER_LIMIT = 60  # seconds
TURNS = 5
GOALS = {"plain": 2, "token": 8}  # seconds for 4,000
WORDS = {"plain": "", "token": ", by token"}
PEER = """
import sys, threading, time
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
import logging, os
logging.disable(logging.CRITICAL)
agents = int(sys.argv[1])
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
ends = []
def join():
    client = TCPStore("127.0.0.1", store.port, is_master=False, wait_for_workers=False)
    backend = C10dRendezvousBackend(client, "world")
    parameters = RendezvousParameters("c10d", "127.0.0.1", "world", agents, agents, local_addr="127.0.0.1")
    create_handler(client, backend, parameters).next_rendezvous()
    ends.append(time.monotonic())
threads = [threading.Thread(target=join, daemon=True) for _ in range(agents)]
begin = time.monotonic()
for thread in threads: thread.start()
for thread in threads: thread.join()
print(max(ends) - begin, flush=True)
os._exit(0)
"""


def world(how, agents, credentials):
    failover = ["failover"] if how == "elastic" and agents <= FAILOVER_AGENTS_MAX[credentials] else []
    done = subprocess.run([str(BIN / "world_load"), how, str(agents), credentials, *failover], check=True, stdout=subprocess.PIPE,
                          text=True, timeout=180)
    return json.loads(done.stdout)


def peer(agents):
    """Its seconds, and what became of it."""
    try:
        done = subprocess.run([PYTHON, "-c", PEER, str(agents)], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=PEER_LIMIT)
        return [float(done.stdout)], ""
    except subprocess.TimeoutExpired:
        return [], f": not within {PEER_LIMIT} s"
    except subprocess.CalledProcessError:
        return [], ": failed"


def per_agent(turn, agents, which):
    """(messages, bytes) of one that keeps no record, without heartbeats, which come by time; of the agents' processes."""
    counts = {kind: count for kind, count in turn[which].items() if kind not in ("heartbeat", "record")}
    return [sum(count[i] for count in counts.values()) / (agents - 1) for i in range(2)]


def rows_of_size(agents, credentials, samples):
    world("elastic", agents, credentials)  # warms up
    turns = [world("elastic", agents, credentials) for _ in range(samples(TURNS))]
    words = WORDS[credentials]

    def figures(stage, name):
        return [turn[stage][name] for turn in turns if turn[stage]]

    beside = credentials == "plain" and agents in PEER_SIZES
    theirs, failure = peer(agents) if beside else ([], "")
    peer_name = "c10d in threads" + failure if beside else ""
    goal = [at_most(GOALS[credentials], "s")] if agents == SIZES[-1] else []
    yield Row(f"a world of {agents:,} agents{words}", "s", figures("form", "seconds"), peer_name, theirs, *goal)
    yield Row(f"{agents:,} agents{words}: processor time of the coordinator", "s",
              figures("form", "coordinator_cpu_seconds"))
    yield Row(f"{agents:,} agents{words}: processor time of the agents", "s", figures("form", "agents_cpu_seconds"))
    yield Row(f"{agents:,} agents{words}: peak memory of the coordinator", "MiB", figures("form", "coordinator_peak_mib"))
    if credentials == "plain":
        forms = [turn["form"] for turn in turns]
        for which in ("sent", "received"):
            for i, unit in enumerate(("messages", "bytes")):
                yield Row(f"{agents:,} agents: {which} by each", unit, [per_agent(f, agents, which)[i] for f in forms])
        yield Row(f"{agents:,} agents: the round's record, to each of the first 64", "bytes",
                  [f["received"]["record"][1] / f["received"]["record"][0] for f in forms])
    for stage, name, what in (("failure", "told_seconds", "a worker fails -> the last agent is told to stop"),
                              ("failure", "seconds", "a worker fails -> the next round starts"),
                              ("failover", "found_seconds", "the coordinator is killed -> all have found the next"),
                              ("failover", "seconds", "the coordinator is killed -> the next round starts")):
        if figures(stage, name):  # else: not within the limit
            yield Row(f"{agents:,} agents{words}: {what}", "s", figures(stage, name))


def bench(samples):
    raise_descriptor_limit(SIZES[-1])
    for agents in SIZES:
        for credentials in WORDS:
            yield from rows_of_size(agents, credentials, samples)
    turns = [world("static", SIZES[-1], "plain") for _ in range(samples(TURNS))]
    yield Row(f"a world of {SIZES[-1]:,} agents with fixed ranks", "s", [turn["form"]["seconds"] for turn in turns],
              goal=at_most(2, "s"))
