"""A barrier of 16,000 simulated ranks behind 16 store proxies, beside the same barrier of clients of the store itself.

The ranks are connections of one process with one thread; the store and its proxies are threads of another one, as many
nodes are not at hand. So both sides are as fast as that load on these cores lets them be. What a store far away gains is
the other row: the processor time of its own thread, which is all that 16 nodes would share.
"""
import json
import subprocess

from table import Row
from tools import BIN, raise_descriptor_limit

RANKS = 16_000
PROXIES = 16
TURNS = 5
WAYS = {"barrier": "BARRIER", "add_wait": "ADD and WAIT, as PyTorch's barrier does"}


class Store:
    """Serves until its stdin ends, at the latest with us."""

    def __init__(self, *options):
        self.process = subprocess.Popen([str(BIN / "store_main"), "--proxies", str(PROXIES), *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.own_port, *self.proxy_ports = self.process.stdout.readline().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)

    def load(self, how, ports, turns, ranks=RANKS):
        done = subprocess.run([str(BIN / "barrier_load"), how, str(ranks), str(turns), str(self.process.pid), *ports],
                              check=True, stdout=subprocess.PIPE, text=True, timeout=120)
        return json.loads(done.stdout)


def values(turns, name):
    return [turn[name] for turn in turns]


def bench(samples):
    raise_descriptor_limit(RANKS)
    for options, words in ((), ""), (("--token",), ", by token"):
        for how, name in WAYS.items():
            with Store(*options) as store:
                proxied = store.load(how, store.proxy_ports, samples(TURNS))
                direct = store.load(how, [store.own_port], samples(TURNS))
                one = store.load(how, store.proxy_ports[:1], samples(TURNS), RANKS // PROXIES)
                alone = store.load(how, [store.own_port], samples(TURNS), RANKS // PROXIES)
            what = f"barrier of {RANKS:,} ranks behind {PROXIES} proxies{words}: {name}"
            yield Row(what, "s", values(proxied, "seconds"), "without proxies", values(direct, "seconds"), "<= 0.5 s",
                      lambda mine, ratio: mine <= 0.5)
            yield Row(f"{what}: processor time of the store's thread", "s", values(proxied, "store_cpu_seconds"),
                      "without proxies", values(direct, "store_cpu_seconds"))
            yield Row(f"barrier of {RANKS // PROXIES:,} ranks behind one proxy{words}: {name}", "s", values(one, "seconds"),
                      "without a proxy", values(alone, "seconds"))
