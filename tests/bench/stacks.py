"""The stacks of hanging Python workers that have loaded LibTorch, beside eu-stack and gdb."""
import os
import shutil
import signal
import subprocess
import time

from table import Row, at_most
from tools import BIN, PYTHON

WORKERS, THREADS = 64, 8

# Forked, so that they share LibTorch's memory; each may be traced by anybody, as eu-stack is not their ancestor.
PROGRAM = f"""
import ctypes, os, threading, time
import torch
torch.set_num_threads(1)

def evaluate(event):
    event.wait()

def work():
    ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1))  # PR_SET_PTRACER, PR_SET_PTRACER_ANY
    event = threading.Event()
    for i in range({THREADS}):
        threading.Thread(target=evaluate, args=(event,)).start()
    print(os.getpid(), flush=True)
    evaluate(event)

for i in range({WORKERS}):
    if os.fork() == 0:
        work()
time.sleep(10000)
"""


class Workers:
    def __enter__(self):
        self.parent = subprocess.Popen([PYTHON, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
        self.pids = [self.parent.stdout.readline().strip() for _ in range(WORKERS)]
        time.sleep(1)  # the last threads
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(int(pid), signal.SIGKILL)
        self.parent.kill()
        self.parent.wait()


def ours(pids, *options):
    """Milliseconds, and the longest pause of a thread in ms."""
    done = subprocess.run([str(BIN / "stack_taker"), *options, *pids], check=True, stdout=subprocess.PIPE, text=True)
    took, pause, threads, missing, _ = map(float, done.stdout.split())
    if threads != len(pids) * (THREADS + 1) or missing:
        raise RuntimeError(f"{threads:.0f} threads, of which {missing:.0f} have no frames")
    return took, pause


def milliseconds_of(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.monotonic() - begin) * 1000


def eu_stack(pids):
    return sum(milliseconds_of(["eu-stack", "-p", pid]) for pid in pids)


def gdb(pid):
    return milliseconds_of(["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "thread apply all bt", "-p", pid])


def bench(samples):
    native, python, peer, pauses, one, one_by_gdb = [], [], [], [], [], []
    with Workers() as workers:
        for _ in range(samples(3)):
            for times, options in ((native, []), (python, ["--python"])):
                took, pause = ours(workers.pids, *options)
                times.append(took)
                pauses.append(pause)
            peer.append(eu_stack(workers.pids))
            one.append(ours(workers.pids[:1])[0])
            one_by_gdb.append(gdb(workers.pids[0]))
    what = f"stacks of {WORKERS} Python workers with {THREADS + 1} threads each"
    yield Row(what, "ms", native, "eu-stack", peer, at_most(5000, "ms"))
    spy = os.path.join(os.path.dirname(PYTHON), "py-spy")
    if os.path.exists(spy) or shutil.which("py-spy"):
        yield Row(what + ", and their Python frames", "ms", python, goal=at_most(5000, "ms"))
    yield Row("stacks of one of them", "ms", one, "gdb", one_by_gdb)
    yield Row("longest time for which one of their threads was stopped", "ms", pauses, goal=at_most(50, "ms"))
