#!/usr/bin/env python3
"""Makes one mistake of mutations.toml at a time in a copy of the sources, and tells which test finds it.

The copy is a git worktree, build/mutations/tree. Each mutation is built there and shown to the tests in three tiers until
one fails: unit programs and the simulation, the [fast] cases of real jobs, then the cases that the mutation names. A test
has found it if it fails twice with it and passes without it. Exit code 1: a mutation was not found, or is not valid.
"""
import argparse
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
UNIT = {"agent": ["agent_tests"], "rendezvous": ["rendezvous_tests", "simulation_tests"],
        "launcher": ["launcher_tests"], "trainer": ["trainer_tests"]}
FAST = ["launch_tests", "nodes_tests"]
LIMITS = {"unit": 900, "fast": 300, "full": 1800}  # seconds; a test that takes longer has failed
BY_CHANCE_MAX = 5  # tests that may fail once and not again


class Invalid(Exception):
    pass


def run(command, cwd=BUILD, limit=None):
    """Exit status and output; what takes longer than the limit is killed, with status None."""
    process = subprocess.Popen(["nice", *command], cwd=cwd, text=True, errors="replace", stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.communicate(timeout=limit)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], None
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def must(command, cwd=BUILD):
    output, status = run(command, cwd)
    if status != 0:
        raise Invalid(f"{' '.join(command)}: {output[-2000:]}")


class Program:
    """Cases of a program of tests."""

    def __init__(self, tier, name, spec=""):
        self.tier, self.targets, self.name, self.spec = tier, [name], name, spec

    def first_failure(self, without):
        spec = self.spec + "".join("~" + self.escaped(case) for case in without)
        output, status = run([f"bin/{self.name}", "--abort", "-r", "xml", *filter(None, [spec])], limit=LIMITS[self.tier])
        cases = re.findall(r'<TestCase name="([^"]*)"', output)
        return None if status == 0 else html.unescape(cases[-1]) if cases else self.name

    def fails(self, case):
        spec = [self.spec] if case == self.name else [self.escaped(case)]
        return run([f"bin/{self.name}", *filter(None, spec)], limit=LIMITS[self.tier])[1] != 0

    @staticmethod
    def escaped(case):
        return '"' + re.sub(r'([\\,\["])', r"\\\1", case) + '"'


class Cases:
    """Tests of ctest by a pattern."""
    tier = "full"

    def __init__(self, targets, pattern):
        self.targets, self.pattern = targets, pattern

    def first_failure(self, without):
        left_out = [word for name in without for word in ("-E", f"^{re.escape(name)}$")]
        output, status = run(["ctest", "--stop-on-failure", "--no-tests=error", "-R", self.pattern, *left_out[-2:]])
        failed = re.findall(r"^\s+\d+ - (.*?) \((?:Failed|Timeout|SEGFAULT|Subprocess)", output, re.M)
        if status != 0 and not failed:
            raise Invalid(f"ctest -R {self.pattern}: {output[-2000:]}")
        return failed[0] if failed else None

    def fails(self, name):
        return run(["ctest", "-R", f"^{re.escape(name)}$"])[1] != 0


def tests_of(mutation):
    folder = mutation["file"].split("/")[0]
    yield from (Program("unit", name) for name in mutation.get("unit", UNIT[folder]))
    if folder != "trainer":
        yield from (Program("fast", name, "[fast]") for name in mutation.get("fast", FAST))
    if "full" in mutation:
        yield Cases(*mutation["full"])


def finder(tests):
    """The first test that fails, and fails again alone."""
    without = []
    while len(without) < BY_CHANCE_MAX and (name := tests.first_failure(without)):
        if tests.fails(name):
            return name
        without.append(name)
    return None


def occurrences(mutation, root):
    path = root / mutation["file"]
    return path.read_text().count(mutation["old"]) if path.exists() else 0


def try_one(mutation, build):
    if occurrences(mutation, TREE) != 1:
        raise Invalid("its old text does not occur exactly once")
    path = TREE / mutation["file"]
    original = path.read_text()
    try:
        path.write_text(original.replace(mutation["old"], mutation["new"]))
        for tests in tests_of(mutation):
            build(tests.targets)
            if name := finder(tests):
                break
        else:
            return "not found", ""
    finally:
        path.write_text(original)
    build(tests.targets)
    return ("not found", f"fails without it, too: {name}") if tests.fails(name) else (tests.tier, name)


def check(mutations):
    wrong = [f"{one['name']}: its old text occurs {count} times in {one['file']}" for one in mutations
             if (count := occurrences(one, ROOT)) != 1]
    return "\n".join(wrong + [f"{one['name']}: it changes nothing" for one in mutations if one["old"] == one["new"]])


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
    parser.add_argument("--at", metavar="COMMIT", help="the sources and tests of that commit (default: the last one here)")
    parser.add_argument("--jobs", default=str(os.cpu_count()), help="compilers at a time (default: the number of cores)")
    parser.add_argument("parts", metavar="NAME-PART", nargs="*", help="only mutations whose name has one of these parts")
    options = parser.parse_args()
    mutations = tomllib.loads((Path(__file__).parent / "mutations.toml").read_text())["mutation"]
    chosen = [one for one in mutations if not options.parts or any(part in one["name"] for part in options.parts)]
    if options.list:
        return print("\n".join(f"{one['name']:62} {one['file']}" for one in chosen))
    if options.check:
        sys.exit(check(chosen) or 0)
    commit = options.at or "HEAD"
    make_tree(subprocess.check_output(["git", "rev-parse", commit], cwd=ROOT, text=True).strip())
    print("| mutation | file | found in tier | by | seconds |\n|---|---|---|---|---|", flush=True)
    found = 0
    for one in chosen:
        begin = time.monotonic()
        try:
            tier, by = try_one(one, lambda targets: must(["ninja", f"-j{options.jobs}", *targets]))
        except Invalid as why:
            tier, by = "not valid", " ".join(str(why).split())[-300:]
        found += tier in LIMITS
        print(f"| {one['name']} | {one['file']} | {tier} | {by} | {time.monotonic() - begin:.0f} |", flush=True)
    print(f"\n{found} of {len(chosen)} found")
    sys.exit(found < len(chosen))


main()
