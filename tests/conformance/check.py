#!/usr/bin/env python3
"""Runs the cases under ddprun and holds its answers against those recorded of torchrun.

  check.py DDPRUN [THEME...]        all themes (cases/*.toml) where none is named
  check.py DDPRUN -k TEXT --show    only cases whose name holds TEXT; prints ddprun's answers, too
"""
from __future__ import annotations

import argparse
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from answer import answer, text
from case import HERE, Case, Difference, all_cases, themes
from compare import Judge, unfounded
from driver import Launcher, Run, begin_as_from_a_shell, run_all
from record import compact, recorded

HOME = "environment"  # the theme in which every rule of differences.toml is needed
SHOWN = 6  # complaints about one case, lines of its stderr
PAGE = HERE.parents[1] / "docs" / "differences.md"


def differences() -> tuple[dict[str, str], list[Difference]]:
    table = tomllib.loads((HERE / "differences.toml").read_text())
    return table["reasons"], [Difference(**rule) for rule in table["everywhere"]]


@dataclass(frozen=True)
class Said:
    answer: dict
    stderr: str  # helps to see why an answer is another one


def ask(cases: list[Case], ddprun: Path) -> list[Said]:
    def said(case: Case, launcher: Launcher, run: Run) -> Said:
        return Said(answer(case, launcher, run), text(run, run.stderr))

    return run_all(cases, Launcher("ddprun", ddprun), said)


def judged(judge: Judge, case: Case, said: Said) -> list[str]:
    theirs = recorded(case.theme).get(case.name)
    if theirs is None:
        return ["torchrun's answer is not recorded: run record.py"]
    found = judge.complaints(case, theirs, said.answer)
    more = [f"... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    heard = ["    | " + line for line in said.stderr.splitlines()[:SHOWN]]
    return found[:SHOWN] + more + heard if found else []


def about_rules(judge: Judge, reasons: dict[str, str], every: list[Case], ran: set[str]) -> list[str]:
    rules = judge.everywhere + [rule for case in every for rule in case.differs]
    unused = sorted(set(reasons) - {rule.because for rule in rules})
    return unfounded(rules, reasons, PAGE.read_text()) + [
        f"differences.toml: nothing differs because of '{name}'" for name in unused] + (
        judge.needless() if ran >= {case.name for case in every if case.theme == HOME} else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ddprun", type=Path)
    parser.add_argument("themes", nargs="*", metavar="THEME", help=", ".join(themes()))
    parser.add_argument("-k", metavar="TEXT", default="")
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    begin_as_from_a_shell()
    every = all_cases()
    cases = [case for case in every if case.theme in (asked.themes or themes()) and asked.k in case.name]
    reasons, everywhere = differences()
    judge = Judge(everywhere)
    wrong = 0
    for case, said in zip(cases, ask(cases, asked.ddprun.resolve())):
        if asked.show:
            print(f"{case.theme}: {case.name} {compact(said.answer)}")
        if found := judged(judge, case, said):
            print("\n  ".join([f"{case.theme}: {case.name}", *found]))
            wrong += 1
    rules = about_rules(judge, reasons, every, {case.name for case in cases})
    wrong_rules = f", {len(rules)} wrong in the list of differences" if rules else ""
    print("\n".join(rules + [f"{len(cases) - wrong} of {len(cases)} cases as they shall be{wrong_rules}"]))
    return 1 if wrong or rules or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
