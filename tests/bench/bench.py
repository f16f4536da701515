"""Measures ddprun beside its peers, in one run: medians, ratios, goals. Started by scripts/bench.sh, which builds first.

Every part is a generator of rows; a row holds both sides' samples, so that build/bench/*.json has all of them. Ours and
the peer's runs alternate where they are long, so that a busy moment of the machine hits both.
"""
import argparse
import json
import os
import platform
import sys
import time
import traceback

import attack
import beats
import count
import ddp
import death
import etcd
import everyday
import from_python
import launch
import models
import snapshots
import regroup
import stacks
import store
import table
import tee
import tools
import trainer
import watch
import world

PAGE = table.Page(tools.ROOT / "docs/figures/bench.md")
PARTS = {  # word: (the section's title, what measures it)
    "launch": ("Launch", launch.bench),
    "death": ("News of a death", death.bench),
    "restart": ("Restart", death.bench_restart),
    "regroup": ("Nodes come and go", regroup.bench),
    "etcd": ("Nodes that find each other at etcd", etcd.bench),
    "tee": ("Tee", tee.bench),
    "memory": ("Memory", launch.bench_memory),
    "store": ("Store", store.bench),
    "barrier": ("Barrier through store proxies", store.bench_barrier),
    "attack": ("Store under attack", attack.bench),
    "world": ("A world of many agents", world.bench),
    "count": ("Instructions", lambda samples: count.bench(samples, PAGE)),
    "stacks": ("Stacks", stacks.bench),
    "step": ("Death to the next training step", trainer.bench_step),
    "prefork": ("Prefork", trainer.bench_prefork),
    "snapshots": ("Snapshots in memory", snapshots.bench),
    "train": ("Training", trainer.bench_train),
    "ddp": ("DistributedDataParallel", ddp.bench),
    "models": ("Models", models.bench),
    "modes": ("Fused steps and channels last", models.bench_modes),
    "beats": ("Beats", beats.bench),
    "watch": ("Watch", watch.bench),
    "python": ("Python", from_python.bench),
    "everyday": ("What people do every day", everyday.bench),
}


def conditions(load_before, seconds):
    return (f"{os.cpu_count()} cores, Linux {platform.release()}, load {load_before:.1f} before and "
            f"{os.getloadavg()[0]:.1f} after, {seconds:.0f} s.")


def run(part, samples, keep):
    title, measure = PARTS[part]
    print(f"bench: {part} ...", file=sys.stderr, flush=True)
    load, begin = os.getloadavg()[0], time.monotonic()
    rows = list(measure(samples))
    words = conditions(load, time.monotonic() - begin)
    (tools.ROOT / f"build/bench/{part}.json").write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    print(f"\n{title} ({words})\n{table.text(rows)}", flush=True)
    if keep:
        PAGE.keep(title, f"{table.markdown(rows)}\n\n{words}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[], metavar="|".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    (tools.ROOT / "build/bench").mkdir(parents=True, exist_ok=True)
    failed = []
    for part in arguments.parts or PARTS:
        try:
            run(part, (lambda many: 1) if arguments.quick else (lambda many: many), arguments.keep)
        except Exception:  # the other parts are worth having
            failed.append(part)
            traceback.print_exc()
    if failed:
        sys.exit(f"bench: not measured, see above: {' '.join(failed)}")


if __name__ == "__main__":
    main()
