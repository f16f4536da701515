#!/usr/bin/env python3
"""Asks the real torchrun and keeps its answers in recorded/, which check.py holds against ddprun's.

The files there are of torchrun NEWEST; recorded/torchrun-VERSION/ holds the answers of an older one that are others.

  record.py                     asks every case anew (2.4 s each and more) and writes the files of its version
  record.py --torchrun PATH     asks another torchrun than .venv's
  record.py -k TEXT             only those whose name holds TEXT
  record.py --compare 10        asks ten, drawn by DDPRUN_SEED or the date, and fails where an answer is not the recorded one
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import re
import sys
from pathlib import Path

from answer import answer
from case import HERE, Case, all_cases, themes
from compare import flat, leaf, unequal
from driver import Launcher, begin_as_from_a_shell, run_all

NEWEST = "2.15"
TORCHRUN = HERE.parents[1] / ".venv" / "bin" / "torchrun"
WIDTH = 118


def version_of(torchrun: Path) -> str:
    """2.15, as its package says it."""
    for file in torchrun.absolute().parents[1].glob("lib/python*/site-packages/torch/version.py"):
        if found := re.search(r"__version__ = '(\d+\.\d+)", file.read_text()):
            return found[1]
    sys.exit(f"record.py: there is no torch beside {torchrun}, so its version is not known.")


def place(theme: str, version: str) -> Path:
    return HERE / "recorded" / ("." if version == NEWEST else f"torchrun-{version}") / f"{theme}.json"


def kept(theme: str, version: str) -> dict:
    path = place(theme, version)
    return json.loads(path.read_text()) if path.exists() else {}


def recorded(theme: str, version: str = NEWEST) -> dict:
    return kept(theme, NEWEST) | kept(theme, version)


def compact(value: object, indent: int = 0) -> str:
    """JSON for reading: a value on one line where it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        inner = (f"{json.dumps(key, ensure_ascii=False)}: {compact(item, indent + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(pad + text for text in inner) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + compact(item, indent + 1) for item in value) + "\n" + " " * indent + "]"


def write(theme: str, version: str, answers: dict) -> None:
    path = place(theme, version)
    if not answers:
        return path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.write_text(compact(answers) + "\n")


def ask(cases: list[Case], torchrun: Path) -> dict[tuple[str, str], dict]:
    answers = run_all(cases, Launcher("torchrun", torchrun), answer)
    return {(case.theme, case.name): said for case, said in zip(cases, answers)}


def others(answers: dict, newest: dict) -> dict:
    """What an older torchrun answers otherwise."""
    return {name: said for name, said in answers.items() if unequal(flat(newest.get(name, {})), flat(said))}


def keep(fresh: dict[tuple[str, str], dict], version: str) -> None:
    for theme in themes():
        names = [case.name for case in all_cases() if case.theme == theme]
        known = kept(theme, version) | {name: said for (of, name), said in fresh.items() if of == theme}
        answers = {name: known[name] for name in names if name in known}
        write(theme, version, answers if version == NEWEST else others(answers, kept(theme, NEWEST)))


def complaints(fresh: dict[tuple[str, str], dict], version: str) -> list[str]:
    out = []
    for (theme, name), said in fresh.items():
        before = flat(recorded(theme, version).get(name, {}))
        for field in unequal(before, flat(said)):
            out.append(f"{theme}: {name}\n  {field}\n    recorded  {leaf(before, field)}\n"
                       f"    torchrun  {leaf(flat(said), field)}")
    return out


def sample(cases: list[Case], size: int) -> list[Case]:
    seed = os.environ.get("DDPRUN_SEED") or datetime.date.today().isoformat()
    print(f"DDPRUN_SEED={seed} draws the same {size}:")
    drawn = random.Random(seed).sample([case for case in cases if not (case.slow or case.default_port)], size)
    for case in drawn:
        print(f"  {case.theme}: {case.name}")
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="TEXT", default="")
    parser.add_argument("--compare", metavar="N", type=int)
    parser.add_argument("--torchrun", type=Path, default=TORCHRUN)
    asked = parser.parse_args()
    begin_as_from_a_shell()
    if not asked.torchrun.exists():
        sys.exit(f"record.py: there is no {asked.torchrun}; scripts/setup.sh --test makes it.")
    cases = [case for case in all_cases() if asked.k in f"{case.theme}: {case.name}"]
    version = version_of(asked.torchrun)
    if asked.compare is None:
        keep(ask(cases, asked.torchrun), version)
        return 0
    found = complaints(ask(sample(cases, asked.compare), asked.torchrun), version)
    print("\n".join(found) or "as recorded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
