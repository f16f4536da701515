"""A worker that keeps a state with a copy on the next node after each step: "copies_worker.py STEPS BYTES".

The ranks meet in files of their folder, which all test hosts share. A state names its rank, world size and step, and every
round that led to it with the step at which that began: states that do not belong together are noticed, as are torn ones.
Each rank appends lines to the file "story": "round rank world what step". Exits with 9 if a state is not what it should be.
"""
import hashlib
import json
import os
import sys
import time

import worker_channel as channel

ROUND, RANK, WORLD = (int(os.environ[name]) for name in ("DDPRUN_ROUND", "RANK", "WORLD_SIZE"))
STEPS, BYTES = int(sys.argv[1]), int(sys.argv[2])


def tell(what, step):
    with open("story", "a") as story:
        story.write(f"{ROUND} {RANK} {WORLD} {what} {step}\n")


def check(holds, what):
    if not holds:
        tell("WRONG", what.replace(" ", "-"))
        sys.exit(9)


def gather(name, value):
    """What each rank says, by rank; returns when all have."""
    temporary = f"{name}-{ROUND}-{RANK}.new"
    with open(temporary, "w") as file:
        json.dump(value, file)
    os.rename(temporary, f"{name}-{ROUND}-{RANK}")
    said = []
    while len(said) < WORLD:
        try:
            with open(f"{name}-{ROUND}-{len(said)}") as file:
                said.append(json.load(file))
        except FileNotFoundError:
            time.sleep(0.0005)
    return said


def state_at(step, rounds):
    about = {"rank": RANK, "world": WORLD, "step": step, "rounds": rounds}
    body = hashlib.sha256(json.dumps(about).encode()).digest() * (BYTES // 32)
    head = json.dumps({**about, "digest": hashlib.sha256(body).hexdigest()}).encode()
    return len(head).to_bytes(8, "little") + head + body


def rounds_of(state, step):
    size = int.from_bytes(state[:8], "little")
    about, body = json.loads(state[8:8 + size]), state[8 + size:]
    check((about["rank"], about["world"], about["step"]) == (RANK, WORLD, step), "another state")
    check(about["digest"] == hashlib.sha256(body).hexdigest() and len(body) == BYTES // 32 * 32, "a torn state")
    return about["rounds"]


steps = gather("steps", channel.kept_steps())
newest = max(set.intersection(*map(set, steps)), default=0)
rounds = rounds_of(channel.kept(newest), newest) if newest else []
check(len(set(map(str, gather("rounds", rounds)))) == 1, "states of different rounds")
tell("resumed", newest)
rounds.append([ROUND, newest])
for step in range(newest + 1, STEPS + 1):
    gather(f"step-{step}", 0)
    check(channel.keep(step, state_at(step, rounds), copy=True), "no room")
    tell("kept", step)
gather("end", 0)
tell("done", STEPS)
