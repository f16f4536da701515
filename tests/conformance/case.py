"""A case: what is typed, what the workers do, what is done to them, and where the answers may differ. cases/*.toml hold
them."""
from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALWAYS = ["exit", "stdout", "stderr", "workers"]
MORE = ["environment", "process", "logs", "paths", "events", "cause", "error file", "left running", "left in tmp"]


class BadCase(Exception):
    pass


@dataclass(frozen=True)
class Difference:
    field: str                 # a path in the answer, "environment.*.RANK"; * stands for any run of characters
    ddprun: object = None      # what ddprun answers; None: nothing there
    because: str = ""          # a name in differences.toml, which quotes docs/differences.md
    torchrun: object = "*"     # what torchrun answers, where that is not to be seen in the recording


@dataclass
class Case:
    """In options, program, env and steps: {probe} {here} {folder} {logs} {port} {other_python} stand for this run's."""
    name: str
    theme: str = ""
    options: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=lambda: ["{probe}"])
    env: dict[str, str] = field(default_factory=dict)
    stdin: str | None = None   # text through a pipe; None: /dev/null
    files: dict[str, str] = field(default_factory=dict)   # made in {folder}; "+x NAME" may be run
    steps: dict[str, list[str]] = field(default_factory=dict)  # of the probe, by "RANK@ATTEMPT", "RANK" or "*"
    scenario: list[str] = field(default_factory=list)     # what is done from outside, see driver.py
    look_at: list[str] = field(default_factory=list)      # beyond ALWAYS
    look_only_at: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)     # words that stderr may hold
    ignored: list[str] = field(default_factory=list)      # signals the launcher is started with as ignored
    default_port: bool = False  # torchrun gets no free port from us, but takes its own 29500
    launchers: int = 1          # so many side by side, all with the same words
    cpus: bool = False          # as many workers as CPUs: only their number is looked at
    ddprun_options: list[str] = field(default_factory=list)
    differs: list[Difference] = field(default_factory=list)
    slow: bool = False          # torchrun's 30 s of grace: not in the sample

    def fields(self) -> list[str]:
        return self.look_only_at or ALWAYS + self.look_at + (["mentions"] if self.mentions else [])


def made(table: dict, theme: str) -> Case:
    known = {f.name for f in fields(Case)}
    if unknown := set(table) - known:
        raise BadCase(f"{theme}.toml, '{table.get('name')}': there is no {', '.join(sorted(unknown))}")
    case = Case(**{**table, "theme": theme, "differs": [Difference(**d) for d in table.get("differs", [])]})
    if wrong := set(case.look_at + case.look_only_at) - set(ALWAYS + MORE):
        raise BadCase(f"{theme}.toml, '{case.name}': nothing called {', '.join(sorted(wrong))} to look at")
    return case


def themes() -> list[str]:
    return sorted(path.stem for path in (HERE / "cases").glob("*.toml"))


def cases_of(theme: str) -> list[Case]:
    tables = tomllib.loads((HERE / "cases" / f"{theme}.toml").read_text())["case"]
    cases = [made(table, theme) for table in tables]
    names = [case.name for case in cases]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadCase(f"{theme}.toml: two cases are called {', '.join(sorted(twice))}")
    return cases


def all_cases() -> list[Case]:
    return [case for theme in themes() for case in cases_of(theme)]
