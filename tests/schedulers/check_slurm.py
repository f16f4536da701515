#!/usr/bin/env python3
"""Runs the stories under a real Slurm, side by side.

  check_slurm.py DDPRUN [--proctrack linuxproc|cgroup] [--without-requeue-exit] [--accounting] [STORY ...]
"""
from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from pathlib import Path

import cluster as bed
from stories import ONLY_WITHOUT_REQUEUE_EXIT, STORIES, Bench, Undisturbed
from submit_stories import STORIES as SUBMITTED

NODES = 9            # as many hosts as scripts/hosts.sh makes, less the login host
STORIES |= SUBMITTED


class Stories:
    """Runs stories side by side as far as there are nodes."""

    def __init__(self, cluster: bed.Cluster, folder: Path, undisturbed: Undisturbed):
        self.cluster, self.folder, self.undisturbed = cluster, folder, undisturbed
        self.free = list(range(cluster.nodes))
        self.changed = threading.Condition()
        self.failed: list[str] = []

    def run(self, stories) -> list[str]:
        """What is to be said of those that failed."""
        threads = [threading.Thread(target=self._run, args=(story,), daemon=True) for story in stories]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.failed

    def _run(self, story) -> None:
        count = STORIES[story]
        with self.changed:
            self.changed.wait_for(lambda: len(self.free) >= count)
            nodes, self.free = self.free[:count], self.free[count:]
        begin = time.monotonic()
        try:
            story(Bench(self.cluster, nodes, self.folder / story.__name__, self.undisturbed))
            print(f"ok      {story.__name__}, {time.monotonic() - begin:.1f} s", flush=True)
        except Exception:
            title = f"FAILED  {story.__name__}, {time.monotonic() - begin:.1f} s"
            print(title, flush=True)
            self.failed.append(f"{title}: {story.__doc__}\n{traceback.format_exc()}")
        with self.changed:
            self.free += nodes
            self.changed.notify_all()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=Path)
    parser.add_argument("--proctrack", choices=["linuxproc", "cgroup"], default="linuxproc")
    parser.add_argument("--without-requeue-exit", action="store_true", help="as at a site without RequeueExit=75 in slurm.conf")
    parser.add_argument("--accounting", action="store_true", help="compare what sacct shows, too")
    parser.add_argument("stories", nargs="*", metavar="STORY", help=", ".join(story.__name__ for story in STORIES))
    args = parser.parse_intermixed_args()
    if why := bed.missing():
        print(f"skipped: no Slurm here: {why}")
        return 0
    if args.proctrack == "cgroup" and (why := bed.missing_for_cgroup()):
        print(f"with proctrack/linuxproc instead: {why}")
        args.proctrack = "linuxproc"
    if args.accounting and (why := bed.missing_for_accounting()):
        print(f"without accounting: {why}")
        args.accounting = False
    chosen = [story for story in STORIES if not args.stories or story.__name__ in args.stories]
    if not args.without_requeue_exit:
        chosen = [story for story in chosen if story not in ONLY_WITHOUT_REQUEUE_EXIT]
    os.environ["PATH"] = f"{args.ddprun.resolve().parent}:{os.environ['PATH']}"
    os.environ["OMP_NUM_THREADS"] = "1"
    bed.end_by_sigterm()
    with bed.Cluster(NODES, args.proctrack, not args.without_requeue_exit, args.accounting) as cluster:
        folder = cluster.folder / "stories"
        folder.mkdir()
        failed = Stories(cluster, folder, Undisturbed(folder)).run(chosen)
        if failed:  # the reasons come last: who reads a long log sees its end
            print(cluster.logs(), *failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
