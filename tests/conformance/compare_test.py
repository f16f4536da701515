#!/usr/bin/env python3
"""What the conformance suite takes for a difference, and for one that is allowed."""
import unittest

from case import Case, Difference
from compare import Judge, unfounded
from record import compact, others


def complaints(torchrun: dict, ddprun: dict, *rules: Difference) -> list[str]:
    return Judge([]).complaints(Case(name="a case", differs=list(rules)), torchrun, ddprun)


class Comparison(unittest.TestCase):
    def test_equal_answers_are_right(self):
        self.assertEqual(complaints({"exit": 0, "a": {"b": [1]}}, {"exit": 0, "a": {"b": [1]}}), [])

    def test_another_value_is_named_with_both_answers(self):
        self.assertEqual(complaints({"a": {"b": 1}}, {"a": {"b": "1"}}), ['a.b\n    torchrun  1\n    ddprun    "1"'])

    def test_what_only_one_of_them_has_is_a_difference(self):
        self.assertEqual(len(complaints({"a": 1}, {})), 1)
        self.assertEqual(len(complaints({}, {"a": None})), 1)

    def test_a_rule_allows_the_value_it_names_and_no_other(self):
        rule = Difference(field="exit", ddprun=2, because="codes")
        self.assertEqual(complaints({"exit": 1}, {"exit": 2}, rule), [])
        self.assertEqual(len(complaints({"exit": 1}, {"exit": 3}, rule)), 2)  # the difference, and a rule without use

    def test_a_rule_may_name_what_torchrun_answers(self):
        rule = Difference(field="exit", torchrun="7", ddprun=2)
        self.assertEqual(len(complaints({"exit": 1}, {"exit": 2}, rule)), 2)

    def test_a_rule_without_an_answer_of_ddprun_means_nothing_is_there(self):
        rule = Difference(field="workers.*")
        self.assertEqual(complaints({"workers": {"a": {"end": "exit 0"}}}, {"workers": {}}, rule), [])

    def test_a_rule_that_nothing_needs_is_a_mistake(self):
        self.assertEqual(len(complaints({"exit": 0}, {"exit": 0}, Difference(field="exit", ddprun=0))), 1)

    def test_a_rule_for_every_case_that_none_needs_is_a_mistake(self):
        judge = Judge([Difference(field="exit", ddprun=2), Difference(field="stdout", ddprun="x")])
        judge.complaints(Case(name="a case"), {"exit": 1}, {"exit": 2})
        self.assertEqual(len(judge.needless()), 1)

    def test_brackets_in_an_answer_stand_for_themselves(self):
        rule = Difference(field="stdout", ddprun="[a]*")
        self.assertEqual(complaints({"stdout": ""}, {"stdout": "[a]: x"}, rule), [])
        self.assertEqual(len(complaints({"stdout": ""}, {"stdout": "a: x"}, rule)), 2)

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
