"""What unauthenticated peers of many sources cost a node that has a token, and how long a member takes to join meanwhile.

  flood.py [--floods A,B] [--seconds N] [--joins N] [--how HOW] [--nat] [BIN ...]     each folder of programs in turn

Sources are loopback addresses. The flood holds so many connections, each in place of one that was refused. A: 64 sources,
B: 500 sources and 3,000 connections, C: 3,000 connections, each from a new source, D: 2,000 sources and 3,000 connections,
E: as C with 8,000 connections, more than the kernel's queue holds. --nat: the member's source is one of theirs; only its
first join counts then, as later ones are at an address that a member has come from. The server's cost is its processor time
from the flood's first connection on, system calls included.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import time

from tools import BIN, raise_descriptor_limit

FLOODS = {"none": None, "A": (64, 256), "B": (500, 3000), "C": (0, 3000), "D": (2000, 3000), "E": (0, 8000)}
LIMIT = 30_000  # milliseconds, of one join


def cpu_seconds(pid):
    return sum(int(task.joinpath("schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def measure(folder, flood, given):
    """The server's part of a core in percent, the joins' milliseconds, the flood's connections a second."""
    server = subprocess.Popen([folder / "store_main", "--proxies", "1", "--token", "--control"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    port, peers, connections = server.stdout.readline().split()[-1], None, "0"
    begin, before = time.monotonic(), cpu_seconds(server.pid)
    if FLOODS[flood]:
        first = ["127.0.0.1"] if given.nat else []
        peers = subprocess.Popen([BIN / "attack_load", given.how, port, *map(str, FLOODS[flood]), *first], stdout=subprocess.PIPE, text=True)
        time.sleep(given.warm_up)
    taken = subprocess.run([BIN / "join_load", port, str(given.joins), str(LIMIT)], stdout=subprocess.PIPE, text=True, check=True).stdout
    time.sleep(max(0, begin + given.seconds - time.monotonic()))
    share = (cpu_seconds(server.pid) - before) / (time.monotonic() - begin) * 100
    if peers:
        peers.terminate()
        connections = peers.communicate()[0]
    server.communicate("")
    return share, [float(line) for line in taken.split()], float(connections)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--joins", type=int, default=12)
    words.add_argument("--seconds", type=float, default=20)
    words.add_argument("--warm-up", type=float, default=2)
    words.add_argument("--how", default="wrong")
    words.add_argument("--nat", action="store_true")
    words.add_argument("--floods", default="none,A,B,C,D,E")
    words.add_argument("bins", nargs="*", type=pathlib.Path, default=[BIN])
    given = words.parse_args()
    raise_descriptor_limit(10000)
    for flood in given.floods.split(","):
        for folder in given.bins:
            share, taken, connections = measure(folder, flood, given)
            print(f"{flood:4} {folder}: {share:.1f} % of a core, joins {statistics.median(taken):.1f} ms, worst "
                  f"{max(taken):.1f} ms of {len(taken)}; {connections:.0f} connections/s")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
