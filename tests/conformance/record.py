#!/usr/bin/env python3
"""Asks the real torchrun and keeps its answers in recorded/, which check.py holds against ddprun's.

  record.py                     asks every case anew (2.4 s each and more) and writes the files
  record.py -k TEXT             only those whose name holds TEXT
  record.py --compare 10        asks ten, drawn by DDPRUN_SEED or the date, and fails where an answer is not the recorded one
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from answer import answer
from case import HERE, Case, all_cases, themes
from compare import flat, leaf, unequal
from driver import Launcher, in_a_folder_of_its_own

TORCHRUN = HERE.parents[1] / ".venv" / "bin" / "torchrun"
WIDTH = 118


def recorded(theme: str) -> dict:
    path = HERE / "recorded" / f"{theme}.json"
    return json.loads(path.read_text()) if path.exists() else {}


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


def write(theme: str, answers: dict) -> None:
    (HERE / "recorded" / f"{theme}.json").write_text(compact(answers) + "\n")


def ask(cases: list[Case], torchrun: Path) -> dict[tuple[str, str], dict]:
    launcher = Launcher("torchrun", torchrun)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(lambda case: in_a_folder_of_its_own(case, launcher, answer), cases)
        return {(case.theme, case.name): said for case, said in zip(cases, answers)}


def keep(fresh: dict[tuple[str, str], dict]) -> None:
    for theme in themes():
        names = [case.name for case in all_cases() if case.theme == theme]
        known = recorded(theme) | {name: said for (of, name), said in fresh.items() if of == theme}
        write(theme, {name: known[name] for name in names if name in known})


def complaints(fresh: dict[tuple[str, str], dict]) -> list[str]:
    out = []
    for (theme, name), said in fresh.items():
        kept = flat(recorded(theme).get(name, {}))
        for field in unequal(kept, flat(said)):
            out.append(f"{theme}: {name}\n  {field}\n    recorded  {leaf(kept, field)}\n"
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
    if not asked.torchrun.exists():
        sys.exit(f"record.py: there is no {asked.torchrun}; scripts/setup.sh --test makes it.")
    cases = [case for case in all_cases() if asked.k in f"{case.theme}: {case.name}"]
    if asked.compare is None:
        keep(ask(cases, asked.torchrun))
        return 0
    found = complaints(ask(sample(cases, asked.compare), asked.torchrun))
    print("\n".join(found) or "as recorded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
