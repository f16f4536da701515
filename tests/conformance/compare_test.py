#!/usr/bin/env python3
"""What the conformance suite takes for a difference, and for one that is allowed."""
import unittest

from case import Case, Difference
from compare import Judge, unfounded
from record import compact, others


def complaints(torchrun: dict, ddprun: dict, *rules: Difference) -> list[str]:
    return Judge([]).complaints(Case(name="a case", differs=list(rules)), torchrun, ddprun)


class Comparison(unittest.TestCase):
    def test_another_value_is_named_with_both_answers(self):
        self.assertEqual(complaints({"a": {"b": 1}}, {"a": {"b": "1"}}), ['a.b\n    torchrun  1\n    ddprun    "1"'])

    def test_each_difference_that_no_rule_allows_and_each_rule_without_use_is_a_complaint(self):
        nothing_there, two = Difference(field="workers.*"), Difference(field="exit", ddprun=2, because="codes")
        brackets = Difference(field="stdout", ddprun="[a]*")
        rows = {
            "equal answers": (0, {"exit": 0, "a": {"b": [1]}}, {"exit": 0, "a": {"b": [1]}}),
            "only torchrun has it": (1, {"a": 1}, {}),
            "only ddprun has it": (1, {}, {"a": None}),
            "the rule names the value": (0, {"exit": 1}, {"exit": 2}, two),
            "the rule names another value": (2, {"exit": 1}, {"exit": 3}, two),
            "the rule names another answer of torchrun": (
                2, {"exit": 1}, {"exit": 2}, Difference(field="exit", torchrun="7", ddprun=2)),
            "a rule without an answer of ddprun: nothing is there": (
                0, {"workers": {"a": {"end": "exit 0"}}}, {"workers": {}}, nothing_there),
            "nothing needs the rule": (1, {"exit": 0}, {"exit": 0}, Difference(field="exit", ddprun=0)),
            "brackets stand for themselves": (0, {"stdout": ""}, {"stdout": "[a]: x"}, brackets),
            "and for nothing else": (2, {"stdout": ""}, {"stdout": "a: x"}, brackets),
        }
        for name, (count, *case) in rows.items():
            with self.subTest(name):
                self.assertEqual(len(complaints(*case)), count)

    def test_a_rule_for_every_case_that_none_needs_is_a_mistake(self):
        judge = Judge([Difference(field="exit", ddprun=2), Difference(field="stdout", ddprun="x")])
        judge.complaints(Case(name="a case"), {"exit": 1}, {"exit": 2})
        self.assertEqual(len(judge.needless()), 1)

    def test_a_reason_must_have_a_name_and_stand_on_the_page(self):
        rules = [Difference(field="exit", because="codes")]
        self.assertEqual(unfounded(rules, {"codes": "tell them apart"}, "so that one can tell\nthem apart"), [])
        self.assertEqual(len(unfounded(rules, {"codes": "tell them apart"}, "nothing of it")), 1)
        self.assertEqual(len(unfounded(rules, {}, "")), 1)

    def test_of_an_older_torchrun_only_what_it_answers_otherwise_is_kept(self):
        newest = {"a": {"exit": 0, "workers": {}}, "b": {"exit": 0}}
        self.assertEqual(others({"a": {"exit": 0}, "b": {"exit": 1}, "c": {"exit": 0}}, newest),
                         {"b": {"exit": 1}, "c": {"exit": 0}})

    def test_the_recording_is_json_on_lines_that_fit(self):
        self.assertEqual(compact({"a": [1, {"b": "ä"}]}), '{"a": [1, {"b": "ä"}]}')
        self.assertEqual(compact({"a": "x" * 120, "b": {}}), '{\n "a": "' + "x" * 120 + '",\n "b": {}\n}')


if __name__ == "__main__":
    unittest.main()
