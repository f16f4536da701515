"""Holds two answers against each other. Pure: answers and rules in, complaints out.

A difference is right only where a case or a rule of differences.toml names the field, ddprun's answer there, and the reason,
whose words are to be found in docs/differences.md. A rule that nothing needs any more is itself a mistake.
"""
from __future__ import annotations

import json
from fnmatch import fnmatchcase

from case import Case, Difference

Flat = dict[str, object]


def flat(value: object, path: str = "") -> Flat:
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay whole, what is empty vanishes."""
    if isinstance(value, dict):
        out: Flat = {}
        for key, item in value.items():
            out |= flat(item, f"{path}.{key}" if path else key)
        return out
    return {path: value}


def leaf(answer: Flat, field: str) -> str:
    return json.dumps(answer[field], ensure_ascii=False) if field in answer else "(nothing)"


def unequal(one: Flat, other: Flat) -> list[str]:
    return [field for field in dict.fromkeys([*one, *other])
            if (field in one, one.get(field)) != (field in other, other.get(field))]


def is_like(value: object, pattern: object) -> bool:
    if isinstance(pattern, str):  # fnmatch reads [ as a set, answers hold many
        return fnmatchcase(str(value), pattern.replace("[", "[[]")) if value is not None else pattern == "*"
    return value == pattern


def allows(rule: Difference, field: str, torchrun: object, ddprun: object) -> bool:
    return (fnmatchcase(field, rule.field) and is_like(torchrun, rule.torchrun)
            and is_like(ddprun, rule.ddprun))


class Judge:
    """Keeps which of the rules for every case were needed."""

    def __init__(self, everywhere: list[Difference]):
        self.everywhere = everywhere
        self.needed: list[Difference] = []

    def complaints(self, case: Case, torchrun: dict, ddprun: dict) -> list[str]:
        theirs, ours = flat(torchrun), flat(ddprun)
        used: list[Difference] = []
        out = []
        for field in unequal(theirs, ours):
            rules = [r for r in case.differs + self.everywhere if allows(r, field, theirs.get(field), ours.get(field))]
            used += rules
            if not rules:
                out.append(f"{field}\n    torchrun  {leaf(theirs, field)}\n    ddprun    {leaf(ours, field)}")
        self.needed += [rule for rule in used if rule in self.everywhere]
        return out + [f"{r.field} does not differ as the case says (ddprun: {json.dumps(r.ddprun)}): take that out"
                      for r in case.differs if r not in used]

    def needless(self) -> list[str]:
        return [f"differences.toml: no case needs the rule for {r.field} (ddprun: {json.dumps(r.ddprun)}) any more"
                for r in self.everywhere if r not in self.needed]


def unfounded(rules: list[Difference], reasons: dict[str, str], page: str) -> list[str]:
    """Rules whose reason has no name, and reasons that the page does not give."""
    page = " ".join(page.split())
    return [f"{r.field}: differences.toml has no reason called '{r.because}'" for r in rules if r.because not in reasons] + [
        f"docs/differences.md does not say (any more): {words}" for words in reasons.values() if words not in page]
