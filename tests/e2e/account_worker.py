"""One of two ranks that train, and keep a diary of their own: account_worker.py FOLDER_OF_WORKER_CHANNEL FOLDER LAST

Each start is a round of PLAN. A line of the diary is a JSON list: seconds since 1970, what, and a number. Rank 0 writes what
it does; rank 1 its own failures."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, sys.argv[1])
import worker_channel as channel

FOLDER, LAST = sys.argv[2], int(sys.argv[3])
RANK = int(os.environ["RANK"])
# What happens before which step: to rank 1, or to ddprun.
PLAN = [("kill", 24), ("stop", 44), ("exit", 64), ("preempt", 84), None]
SLOW_ROUND, SAVE_EVERY, EVALUATE_EVERY = 4, 10, 15


def note(what, number=0):
    with open(f"{FOLDER}/diary", "a") as diary:
        diary.write(json.dumps([time.time(), what, number]) + "\n")


def path(name):
    return os.path.join(FOLDER, name)


def exchange(name):
    """Waits until the other rank is here, too, or this one is to leave."""
    open(path(f"{name}.{RANK}"), "w").close()
    with channel.wait("reduce"):
        while not os.path.exists(path(f"{name}.{1 - RANK}")):
            if channel.request() == channel.LEAVE:
                leave()
            time.sleep(0.001)


def leave(*_):
    if RANK == 0:
        note("left")
    os._exit(1)


def fail(how):
    if how == "preempt":
        return
    note("failed")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)


def part(phase, what, seconds, number=0):
    channel.phase(phase)
    note(what, number)
    time.sleep(seconds)
    channel.phase(channel.TRAINING)
    note("train")


class NoDiary:
    def __call__(self, *_):
        pass


if RANK != 0:
    own_note, note = note, NoDiary()
begun = 0
while os.path.exists(path(f"round{begun}.{RANK}")):
    begun += 1
open(path(f"round{begun}.{RANK}"), "w").close()
plan = PLAN[begun]
note("began", begun)
time.sleep(1.5 if begun == SLOW_ROUND else 0.1)
channel.attach()
signal.signal(signal.SIGTERM, lambda *of: leave() if channel.request() == channel.LEAVE else channel.on_signal(*of))
note("attached")
channel.phase(channel.LOADING)
saved = int(open(path("saved")).read()) if os.path.exists(path("saved")) else 0
time.sleep(0.3)
exchange(f"joined{begun}")
channel.phase(channel.TRAINING)
note("train")
if RANK != 0:
    note = own_note
step, asked = saved, None
while step < LAST:
    step += 1
    if plan == ("preempt", step) and RANK == 0:
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(0.03)
    if plan and plan[1] == step and RANK == 1:
        fail(plan[0])
    exchange(f"step{begun}.{step}")
    channel.step(step)
    if RANK == 0:
        note("step", step)
    request = channel.request()
    if request == channel.LEAVE:
        leave()
    if request is not None and asked is None:
        asked = request.step
        if RANK == 0:
            note("asked")
    saves = step % SAVE_EVERY == 0 or (asked is not None and step >= asked)
    if saves:
        if RANK == 0:
            part(channel.SAVING, "save", 0.1, step)
            with open(path("saving"), "w") as file:
                file.write(str(step))
            os.replace(path("saving"), path("saved"))
            channel.snapshot(step)
        exchange(f"saved{begun}.{step}")
        if RANK == 1:
            channel.snapshot(step)
        if asked is not None and step >= asked:
            sys.exit(0)
    if step % EVALUATE_EVERY == 0 and RANK == 0:
        part(channel.EVALUATING, "evaluate", 0.1)
channel.phase(channel.FINISHING)
if RANK == 0:
    note("finished")
