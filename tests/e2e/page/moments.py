"""Eight moments of a job, as the page is given them: moments.py FOLDER writes FOLDER/NAME.json, each {now, status, samples, rounds, marks}.

All times are fixed and all noise is of one seed, so the files are the same everywhere."""
import json
import math
import os
import random
import sys

NOW = 1790000000000  # 2026-09-21 14:13:20 UTC
KINDS = ("productive", "start", "restore", "save", "lost_work", "hang", "stop", "waiting")
GIB = 2 ** 30


def samples_of(seconds, pace, steps, useful, seed, until_pace=None, loss=(2.4, 0.19), apart=2):
    """One each `apart` seconds, of the `seconds` before NOW, from the first to the last of `steps`: pace and loss with noise, the useful
    share as it grows."""
    noise, step, out = random.Random(seed), steps[0], []
    count = int(seconds / apart)
    for i in range(count + 1):
        at = NOW - 1000 * apart * (count - i)
        now_pace = pace * (1 + 0.03 * noise.gauss(0, 1))
        if until_pace is not None:
            now_pace = until_pace(i * apart, now_pace)
        fell = loss[1] + (loss[0] - loss[1]) * math.exp(-step / 1800)
        value = fell * (1 + 0.04 * noise.gauss(0, 1))
        grown = useful * (1 - math.exp(-(i * apart + 3) / 25))
        out.append([at, round(step), None if now_pace is None else round(now_pace, 2), round(value, 4), round(grown, 3)])
        step += apart * (now_pace or 0)
    for sample in out:
        sample[1] = round(steps[0] + (sample[1] - steps[0]) * (steps[1] - steps[0]) / (step - apart * (now_pace or 0) - steps[0]))
    return out


def time_of(**seconds):
    total = sum(seconds.values())
    return {**dict.fromkeys(KINDS, 0), **seconds, "total": round(total, 3), "useful_share": round(seconds.get("productive", 0) / total, 3)}


def rank_of(rank, node, step, shares=(0.05, 0.8, 0.15), seconds=1260, **more):
    load, compute, wait = (round(seconds * share, 1) for share in shares)
    return {"rank": rank, "node": node, "group_rank": int(node[1:]), "activity": "train", "collective": "", "step": step, "age_seconds": 0.1,
            "snapshot_step": None, "snapshot_age_seconds": None, "snapshot_bytes": None, "samples_per_second": 1024.0, "loss": None,
            "memory_bytes": int((2.1 + 0.03 * rank % 0.4) * GIB), "processors": 0.97, "silent": False, "load_seconds": load,
            "compute_seconds": compute, "wait_seconds": wait, "pid": 41000 + rank, "stopped": False, "paused": False, "held": "",
            "last_output": None, "trouble": "", **more}


def node_of(index, ranks, **more):
    return {"name": f"n{index}", "host": f"node{index}", "state": "active", "group_rank": index, "ranks": ranks, "workers": len(ranks),
            "reason": "", **more}


def status_of(condition, ranks, nodes, **more):
    by_cause = dict.fromkeys(("error", "crash", "out_of_memory", "hang", "start", "unkillable", "usage", "lost_node", "preemption", "resize"), 0)
    by_cause.update(more.pop("by_cause", {}))
    return {"run_id": "mnist-large", "program": "train.py", "answered_by": "n0", "run_seconds": 1280.0, "state": "running",
            "state_seconds": 1270.0, "problem": "", "round": 1, "world_size": len(ranks), "activity": "train", "step": 6204,
            "total_steps": 12800, "steps_per_second": 5.0, "loss": 0.2486, "snapshot_step": 6000, "snapshot_age_seconds": 41.3,
            "snapshot_bytes": 3 * GIB, "progress": {"done_share": 0.4847, "percent": 48, "seconds_left": 1320, "text": "48.4 %, 22 min left"},
            "nodes": nodes, "nodes_min": len(nodes), "nodes_max": len(nodes), "coordinator": "n0", "elections": 1, "backoff_seconds": 0,
            "silent_nodes": [], "restarts": {"limit": 3, "charged": sum(by_cause.values()), "by_cause": by_cause},
            "time": time_of(productive=1236.0, start=9.2, restore=14.1, save=20.7), "last_output": None,
            "waits_for": {"ranks": [], "nodes": [], "text": ""}, "slow_ranks": [], "ranks": ranks, "ranks_total": len(ranks),
            "slowest": [], "last_failure": None, "condition": condition, **more}


def condition(kind, level, text, seconds=None, why=""):
    return {"kind": kind, "level": level, "seconds": seconds, "why": why, "text": text}


def slowest(*rows):
    return [{"phase": phase, "rank": rank, "node": node, "seconds": seconds, "median_seconds": median}
            for phase, rank, node, seconds, median in rows]


def two_nodes():
    return [node_of(0, [0, 1]), node_of(1, [2, 3])]


def round_of(number, begin, end, story="", rank=None, node="", causes=None, **spent_seconds):
    return {"first": number, "last": number, "start": begin, "end": end, "causes": causes or {}, "story": story, "rank": rank, "node": node,
            "spent": spent_seconds}


SHARES = ((0.04, 0.81, 0.15), (0.05, 0.79, 0.16), (0.04, 0.83, 0.13), (0.05, 0.82, 0.13))


def running():
    """Mid-way, all is well."""
    ranks = [rank_of(rank, f"n{rank // 2}", 6204, SHARES[rank]) for rank in range(4)]
    begin = NOW - 1280000
    return {"now": NOW,
            "status": status_of(condition("running", "good", "running"), ranks, two_nodes(),
                                slowest=slowest(("load", 1, "n0", 63.0, 57.0), ("compute", 2, "n1", 1045.8, 1027.0), ("wait", 1, "n0", 201.6, 176.4))),
            "samples": samples_of(1250, 4.96, (4, 6204), 0.966, 1),
            "rounds": [round_of(1, begin, None, productive=1236.0, start=9.2, restore=14.1, save=20.7)],
            "marks": [[NOW - 845000, "snapshot", "step 2000"], [NOW - 443000, "snapshot", "step 4000"], [NOW - 41300, "snapshot", "step 6000"]]}


def straggler():
    """Rank 3 computes 2.4 times as long as the others."""
    out, shares = running(), ((0.03, 0.35, 0.62), (0.03, 0.36, 0.61), (0.03, 0.36, 0.61), (0.03, 0.87, 0.10))
    ranks = [rank_of(rank, f"n{rank // 2}", 6204, shares[rank]) for rank in range(4)]
    ranks[3].update(trouble="slow 2.4x", activity="train")
    text = "rank 3 computes 2.4x slower than the median"
    out["status"] = status_of(condition("slowed", "attention", "slowed: " + text, 93.0, text), ranks, two_nodes(), steps_per_second=2.1,
                              progress={"done_share": 0.4847, "percent": 48, "seconds_left": 3120, "text": "48.4 %, 52 min left"},
                              slow_ranks=[{"rank": 3, "phase": "compute", "ratio": 2.4}],
                              slowest=slowest(("load", 1, "n0", 37.8, 37.8), ("compute", 3, "n1", 1096.2, 453.6), ("wait", 0, "n0", 781.2, 768.6)))
    out["samples"] = samples_of(1250, 5.3, (4, 6204), 0.966, 2, lambda at, pace: pace if at < 1157 else pace * 0.4)
    out["marks"].append([NOW - 93000, "straggler", text])
    return out


def stands_still():
    """Rank 2 is stopped by a signal; the others wait for it."""
    out = running()
    ranks = [rank_of(rank, f"n{rank // 2}", 6204, SHARES[rank], activity="wait", collective="all_reduce", age_seconds=4.7, processors=0.02)
             for rank in range(4)]
    ranks[2].update(activity="compute", collective="", stopped=True, trouble="stopped", step=6203, processors=0.0)
    why = "ranks 0, 1 and 3 wait for rank 2 (stopped)"
    out["status"] = status_of(condition("stands still", "attention", "stands still for 4.7 s: " + why, 4.7, why), ranks, two_nodes(),
                              steps_per_second=0, progress={"done_share": 0.4847, "percent": 48, "seconds_left": None, "text": "48.4 %"},
                              waits_for={"ranks": [2], "nodes": ["n1"], "text": "rank 2 on n1 has computed for 4.7 s, after step 6203; 3 ranks wait"},
                              slowest=out["status"]["slowest"])
    out["samples"] = samples_of(1250, 4.98, (4, 6204), 0.966, 3, lambda at, pace: pace if at < 1246 else 0.0)
    out["marks"].append([NOW - 4700, "still", why])
    return out


def after_kill():
    """Round 2: rank 1 was killed in round 1, and 25 s of its work is done again."""
    first, second, story = NOW - 420000, NOW - 48000, "rank 1 on n0 was killed by SIGKILL"
    ranks = [rank_of(rank, f"n{rank // 2}", 1712, SHARES[rank], 41, age_seconds=0.2) for rank in range(4)]
    status = status_of(condition("running", "good", "running"), ranks, two_nodes(), round=2, state_seconds=41.0, run_seconds=421.0, step=1712,
                       steps_per_second=5.1, loss=1.0412, snapshot_step=1500, snapshot_age_seconds=77.0, by_cause={"crash": 1},
                       progress={"done_share": 0.13375, "percent": 13, "seconds_left": 2174, "text": "13.3 %, 37 min left"},
                       time=time_of(productive=346.3, start=16.4, restore=18.9, save=7.3, lost_work=25.0, stop=3.1, waiting=4.0),
                       last_failure={"round": 1, "rank": 1, "node": "n0", "text": story, "age_seconds": 55.1},
                       slowest=slowest(("load", 1, "n0", 2.1, 1.9), ("compute", 2, "n1", 34.0, 33.4), ("wait", 1, "n0", 6.6, 5.7)))
    before = [[at - 55000, *rest] for at, *rest in samples_of(346, 5.0, (10, 1625), 0.93, 4)]
    between = [[NOW - 1000 * ago, None, None, None, 0.8] for ago in range(54, 41, -2)]  # no round runs
    samples = before + between + samples_of(40, 5.0, (1501, 1712), 0.823, 5)
    return {"now": NOW, "status": status, "samples": samples,
            "rounds": [round_of(1, first, second, story, 1, "n0", {"crash": 1}, productive=310.3, start=8.3, restore=12.0, save=7.3, lost_work=25.0, stop=3.1,
                                waiting=4.0),
                       round_of(2, second, None, productive=36.0, start=8.1, restore=6.9)],
            "marks": [[NOW - 244000, "snapshot", "step 750"], [NOW - 77000, "snapshot", "step 1500"], [NOW - 55100, "failure", story],
                      [NOW - 48000, "restart", "round 2"]]}


STACKS = """rank 3 on n1 hung in all_reduce (model.py:212), in round 3, after step 8120
  the other ranks have waited for it for 10 min: 0 and 1 on n0, 2 on n1

  rank 3 on n1, pid 41703, main thread:
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    average_gradients (model.py:212)
    train_step (train.py:88)
    main (train.py:131)
    <module> (train.py:140)
  rank 0 on n0, pid 41200, main thread:
    wait (torch/distributed/distributed_c10d.py:601)
    average_gradients (model.py:209)
    train_step (train.py:88)
    main (train.py:131)
  ranks 1 and 2: as rank 0

last lines of rank 3:
  step 8119 loss 0.2391
  step 8120 loss 0.2377
newest snapshot: checkpoints/step-8000.pt, step 8000, reported in round 3; a program that loads it goes on from there"""


def report_of(ended, began, failure):
    return {"command": "ddprun --nnodes=2 --nproc_per_node=2 --max-restarts=3 --snapshot checkpoints/ train.py --batch 256", "host": "node0",
            "began": began, "ended": ended, "ranks": 4, "failure": failure}


def failed():
    """A report: rank 3 hung, and no restart was left."""
    began = NOW - 3000000
    text = "rank 3 hung in all_reduce (model.py:212)"
    edges = (began, began + 640000, began + 1300000, NOW)
    rounds = [round_of(1, edges[0], edges[1], "rank 1 on n0 was killed by SIGKILL", 1, "n0", {"crash": 1}, productive=571.0, start=9.0, restore=13.0,
                       save=12.0, lost_work=30.0, stop=3.0, waiting=2.0),
              round_of(2, edges[1], edges[2], "node n1 was lost", None, "n1", {"lost_node": 1}, productive=560.0, start=9.0, restore=12.0, save=13.0,
                       lost_work=14.0, stop=7.0, waiting=45.0),
              round_of(3, edges[2], edges[3], text, 3, "n1", {"hang": 1}, productive=1030.0, start=9.0, restore=12.0, save=19.0, hang=615.0, stop=15.0)]
    times = {}
    for one in rounds:
        for kind, seconds in one["spent"].items():
            times[kind] = times.get(kind, 0) + seconds
    noise, samples = random.Random(6), []
    for i in range(51):
        at = began + 60000 * i
        step, pace = min(8120, 120 + 200 * i), 3.4 if i <= 40 else 0
        samples.append([at, step, round(pace * (1 + 0.03 * noise.gauss(0, 1)), 2), round((0.19 + 2.2 * math.exp(-step / 1800)) * (1 + 0.03 * noise.gauss(0, 1)), 4),
                        None])
    status = {"run_id": "mnist-large", "finished": True, "starts": 1, "state": "failed", "error": text, "round": 3, "step": 8120, "total_steps": 12800,
              "steps_per_second": 0.0, "loss": 0.2377, "snapshot_step": 8000, "time": time_of(**times),
              "condition": condition("failed", "bad", "failed: " + text, None, text), "last_failure": None,
              "restarts": {"limit": 3, "charged": 2, "by_cause": {"crash": 1, "hang": 1, "lost_node": 1}}, "report": report_of(NOW, began, STACKS)}
    return {"now": NOW, "status": status, "samples": samples, "rounds": rounds,
            "marks": [[edges[1], "failure", "rank 1 on n0 was killed by SIGKILL"], [edges[1] + 2000, "restart", "round 2"],
                      [edges[2], "failure", "node n1 was lost"], [edges[2] + 45000, "restart", "round 3"], [NOW - 615000, "still", "ranks 0, 1 and 2 wait for rank 3"],
                      [NOW, "failure", text]]}


def ended():
    """A report of a job that has ended well."""
    began = NOW - 11520000
    noise, samples = random.Random(7), []
    for i in range(193):
        step = min(12800, 67 * i)
        samples.append([began + 60000 * i, step, round(1.12 * (1 + 0.02 * noise.gauss(0, 1)), 3),
                        round((0.011 + 2.2 * math.exp(-step / 1500)) * (1 + 0.05 * noise.gauss(0, 1)), 4), None])
    status = {"run_id": "mnist-large", "finished": True, "starts": 1, "state": "succeeded", "round": 1, "step": 12800, "total_steps": 12800,
              "steps_per_second": 1.12, "loss": 0.0115, "snapshot_step": 12800, "last_failure": None,
              "time": time_of(productive=11385.0, start=9.4, restore=21.6, save=96.0, stop=8.0),
              "condition": condition("ended", "over", "ended well after 3 h 12 min", 11520, ""),
              "restarts": {"limit": 3, "charged": 0, "by_cause": {}}, "report": report_of(NOW, began, "")}
    return {"now": NOW, "status": status, "samples": samples,
            "rounds": [round_of(1, began, NOW, productive=11385.0, start=9.4, restore=21.6, save=96.0, stop=8.0)],
            "marks": [[began + 3600000 * i, "snapshot", f"step {4000 * i}"] for i in (1, 2, 3)]}


def plain():
    """A script that reports nothing."""
    ranks = [rank_of(rank, "n0", None, (0, 0, 0), activity="runs", silent=True, age_seconds=725.0, samples_per_second=0,
                     memory_bytes=int((3.1 + 0.2 * rank) * GIB), processors=(1.02, 0.98, 1.01, 3.4)[rank],
                     last_output={"line": f"[rank{rank}] epoch 3 step {1200 + rank} loss 0.81{rank}", "age_seconds": 2.0 + 0.4 * rank})
             for rank in range(4)]
    status = status_of(condition("running", "good", "running"), ranks, [node_of(0, [0, 1, 2, 3])], step=None, total_steps=None, progress=None,
                       steps_per_second=None, loss=None, snapshot_step=None, snapshot_age_seconds=None, snapshot_bytes=None, activity="runs",
                       state_seconds=725.0, run_seconds=728.0, time={**dict.fromkeys(KINDS, 0), "productive": 725.0, "start": 3.0, "total": 728.0, "useful_share": None},
                       last_output={"line": "[rank0] epoch 3 step 1200 loss 0.810", "age_seconds": 2.0, "node": "n0", "rank": 0})
    samples = [[NOW - 2000 * i, None, None, None, None] for i in reversed(range(364))]
    return {"now": NOW, "status": status, "samples": samples, "rounds": [round_of(1, NOW - 728000, None, productive=725.0, start=3.0)], "marks": []}


def many():
    """256 ranks on 32 nodes: rank 77 is stopped, rank 130 slow, rank 201 behind, and all others wait."""
    trouble = {77: ("stopped", "x"), 130: ("slow 2.1x", "s"), 201: ("behind", "b")}
    listed = sorted(list(trouble) + list(range(61)))
    ranks = [rank_of(rank, f"n{rank // 8}", 6204, SHARES[rank % 4], activity="wait", collective="all_reduce", age_seconds=6.2, processors=0.03)
             for rank in listed]
    for one in ranks:
        if one["rank"] in trouble:
            one.update(trouble=trouble[one["rank"]][0], activity="compute", collective="", stopped=one["rank"] == 77, step=6203 - 2 * (one["rank"] == 201))
    codes = "".join(trouble[rank][1] if rank in trouble else "." if rank % 29 == 5 else "w" for rank in range(256))
    why = "253 ranks wait for rank 77 (stopped)"
    status = status_of(condition("stands still", "attention", "stands still for 6.2 s: " + why, 6.2, why), ranks,
                       [node_of(node, list(range(8 * node, 8 * node + 8))) for node in range(32)], world_size=256, ranks_total=256, steps_per_second=0,
                       progress={"done_share": 0.4847, "percent": 48, "seconds_left": None, "text": "48.4 %"},
                       strip=[{"node": f"n{node}", "first": 8 * node, "codes": codes[8 * node:8 * node + 8]} for node in range(32)],
                       waits_for={"ranks": [77], "nodes": ["n9"], "text": "rank 77 on n9 has computed for 6.2 s, after step 6203; 253 ranks wait"},
                       slow_ranks=[{"rank": 130, "phase": "compute", "ratio": 2.1}],
                       slowest=slowest(("load", 12, "n1", 71.2, 57.0), ("compute", 130, "n16", 1211.3, 1027.0), ("wait", 5, "n0", 201.6, 176.4)))
    out = running()
    out["status"] = status
    out["samples"] = samples_of(1250, 4.98, (4, 6204), 0.966, 8, lambda at, pace: pace if at < 1244 else 0.0)
    out["marks"] += [[NOW - 700000, "straggler", "rank 130 computes 2.1x slower than the median"], [NOW - 6200, "still", why]]
    return out


MOMENTS = {"running": running, "straggler": straggler, "stands-still": stands_still, "after-a-kill": after_kill, "failed": failed, "ended": ended,
           "plain": plain, "many": many}


def moment(name):
    out = MOMENTS[name]()
    status, last = out["status"], out["samples"][-1]
    last[1:4] = status["step"], status["steps_per_second"], status["loss"]  # a sample is what the status has been
    return out


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in MOMENTS:
        with open(os.path.join(sys.argv[1], name + ".json"), "w") as out:
            json.dump(moment(name), out)


if __name__ == "__main__":
    main()
