#!/usr/bin/env python3
"""Makes one mistake of mutations.toml at a time in a copy of the sources, and tells which test finds it.

The copy is a git worktree, build/mutations/tree. Each mutation is built there and shown to the tests in three tiers until
one fails: unit programs and the simulation, the [fast] cases of real jobs, then the cases that the mutation names. A test
has found it if it fails twice with it and passes without it. Exit code 1: a mutation was not found, or is not valid.
"""
import argparse
import fcntl
import html
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build/mutations/tree"
BUILD = TREE / "build/release"
LOCK = ROOT / "build/mutations/lock"
UNIT = {"agent": ["agent_tests"], "rendezvous": ["rendezvous_tests", "simulation_tests"],
        "launcher": ["launcher_tests"], "trainer": ["trainer_tests"]}
FAST = ["launch_tests", "nodes_tests"]
LIMITS = {"unit": 240, "fast": 240, "full": 900}  # seconds; a program that takes longer has failed
BY_CHANCE_MAX = 5  # cases of a program that may fail once and not again


class Invalid(Exception):
    pass


def lock():
    """Held by every process of this run, so also by what is left of one that was killed."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(LOCK, os.O_CREAT | os.O_RDWR)
    os.set_inheritable(held, True)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run has {TREE}")


def run(command, cwd=BUILD, limit=None, **environment):
    """Output and exit status; what takes longer than the limit is killed, with status None."""
    process = subprocess.Popen(["nice", *command], cwd=cwd, env={**os.environ, **environment}, close_fds=False, text=True,
                               errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        return process.communicate(timeout=limit)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], None
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)  # ninja ends its compilers
        process.wait()
        raise


def must(command, cwd=BUILD, **environment):
    output, status = run(command, cwd, **environment)
    if status != 0:
        raise Invalid(f"{' '.join(command)}: {output[-2000:]}")


class Cases:
    """Of a program of tests those that Catch2 chooses by `spec`."""

    def __init__(self, tier, program, spec=""):
        self.tier, self.program, self.spec = tier, program, spec

    def run(self, spec):
        return run([f"bin/{self.program}", "--abort", "-r", "xml", *filter(None, [spec])], limit=LIMITS[self.tier])

    def first_failure(self, without):
        output, status = self.run("".join("~" + self.escaped(case) for case in without) + self.spec)
        cases = re.findall(r'<TestCase name="([^"]*)"', output)
        if status != 0 and not cases:
            raise Invalid(f"{self.program} does not run: {output[-2000:]}")
        return html.unescape(cases[-1]) if status != 0 else None

    def fails(self, case):
        return self.run(self.escaped(case))[1] != 0

    def finder(self, fail_anyway):
        """The first case that fails, and fails again alone."""
        without = list(fail_anyway)
        while len(without) < len(fail_anyway) + BY_CHANCE_MAX and (case := self.first_failure(without)):
            if self.fails(case):
                return case
            without.append(case)
        return None

    @staticmethod
    def escaped(case):
        return '"' + re.sub(r'([\\,\["])', r"\\\1", case) + '"'


def cases_of(mutation):
    folder = mutation["file"].split("/")[0]
    yield from (Cases("unit", program) for program in UNIT[folder])
    if folder != "trainer":
        yield from (Cases("fast", program, "[fast]") for program in FAST)
    yield from (Cases("full", program, spec) for program, spec in mutation.get("full", {}).items())


def occurrences(mutation, root):
    path = root / mutation["file"]
    return path.read_text().count(mutation["old"]) if path.exists() else 0


def check(mutations):
    wrong = [f"{one['name']}: its old text occurs {count} times in {one['file']}, and has to occur once" for one in mutations
             if (count := occurrences(one, ROOT)) != 1]
    return "\n".join(wrong + [f"{one['name']}: it changes nothing" for one in mutations if one["old"] == one["new"]])


def build(program, jobs, **environment):
    must(["ninja", f"-j{jobs}", program], **environment)


def try_one(mutation, jobs, fail_anyway):
    """The tier and the case that found it."""
    if occurrences(mutation, TREE) != 1:
        raise Invalid("its old text does not occur exactly once")
    path = TREE / mutation["file"]
    original = path.read_text()
    for cases in cases_of(mutation):
        build(cases.program, jobs)
        while True:
            path.write_text(original.replace(mutation["old"], mutation["new"]))
            try:
                build(cases.program, jobs, CCACHE_READONLY="1")  # no mistake gets into the cache
                found_by = cases.finder(fail_anyway)
            finally:
                path.write_text(original)
            if not found_by:
                break
            build(cases.program, jobs, CCACHE_READONLY="1")
            if not cases.fails(found_by):
                return cases.tier, found_by
            fail_anyway.append(found_by)
    return "not found", ""


def make_tree(commit):
    if not TREE.exists():
        must(["git", "worktree", "prune"], ROOT)
        must(["git", "worktree", "add", "--detach", str(TREE)], ROOT)
        (TREE / ".venv").symlink_to(ROOT / ".venv")
    must(["git", "checkout", "--quiet", "--force", "--detach", commit], TREE)
    must(["cmake", "--preset", "release", "-DDDPRUN_TESTS=ON"], TREE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the mutations, without running them")
    parser.add_argument("--check", action="store_true", help="only whether each old text occurs exactly once")
    parser.add_argument("--at", metavar="COMMIT", default="HEAD", help="sources and tests of that commit (default: HEAD)")
    parser.add_argument("--jobs", default=str(os.cpu_count()), help="compilers at a time (default: the number of cores)")
    parser.add_argument("parts", metavar="NAME-PART", nargs="*", help="only mutations whose name has one of these parts")
    options = parser.parse_args()
    mutations = tomllib.loads((Path(__file__).parent / "mutations.toml").read_text())["mutation"]
    chosen = [one for one in mutations if not options.parts or any(part in one["name"] for part in options.parts)]
    if options.list:
        return print("\n".join(f"{one['name']:62} {one['file']}" for one in chosen))
    if options.check:
        sys.exit(check(chosen) or 0)
    lock()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    make_tree(subprocess.check_output(["git", "rev-parse", options.at], cwd=ROOT, text=True).strip())
    print("| mutation | file | found in tier | by | seconds |\n|---|---|---|---|---|", flush=True)
    found, fail_anyway = 0, []
    for one in chosen:
        begin = time.monotonic()
        try:
            tier, by = try_one(one, options.jobs, fail_anyway)
        except Invalid as why:
            tier, by = "not valid", " ".join(str(why).split())[-300:]
        found += tier in LIMITS
        print(f"| {one['name']} | {one['file']} | {tier} | {by} | {time.monotonic() - begin:.0f} |", flush=True)
    print(f"\n{found} of {len(chosen)} found", *(f"fails without a mutation, too: {case}" for case in fail_anyway), sep="\n")
    sys.exit(found < len(chosen))


main()
