#!/usr/bin/env python3
"""The files of .github: their YAML, the form of what they hold, and that they name what there is."""
import re
import subprocess
import unittest
from pathlib import Path

import yaml

SOURCE = Path(__file__).resolve().parents[2]
FOLDER = SOURCE / ".github"
FORMS = sorted((FOLDER / "ISSUE_TEMPLATE").glob("*.yml"))


class EachKeyOnce(yaml.SafeLoader):
    """Of a key that is there twice, SafeLoader takes the second."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) != len(keys):
            raise yaml.YAMLError(f"a key is there twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def read(path):
    return yaml.load(path.read_text(), EachKeyOnce)


class Files(unittest.TestCase):
    def test_each_is_yaml(self):
        files = [path for path in FOLDER.rglob("*") if path.is_file()]
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            with self.subTest(path.name):
                self.assertEqual(path.suffix, ".yml")
                self.assertIsInstance(read(path), dict)

    def test_a_key_that_is_there_twice_is_found(self):
        with self.assertRaises(yaml.YAMLError):
            yaml.load("a: {b: 1, b: 2}", EachKeyOnce)


class Forms(unittest.TestCase):
    def test_they_have_the_form_of_githubs(self):
        self.assertEqual([path.name for path in FORMS], ["bug.yml", "feature.yml"])
        for path in FORMS:
            form = read(path)
            self.assertLessEqual({"name", "description", "body"}, set(form))
            self.assertLessEqual(set(form), {"name", "description", "body", "labels", "title", "assignees"})
            ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
            self.assertEqual(len(set(ids)), len(ids))
            for field in form["body"]:
                with self.subTest(f"{path.name}: {field.get('id')}"):
                    self.check(field)

    def check(self, field):
        self.assertIn(field["type"], {"markdown", "textarea", "input", "dropdown", "checkboxes"})
        self.assertLessEqual(set(field), {"type", "id", "attributes", "validations"})
        if field["type"] == "markdown":
            return self.assertEqual(set(field["attributes"]), {"value"})
        self.assertLessEqual(set(field["attributes"]), {"label", "description", "placeholder", "render", "options", "value"})
        self.assertTrue(field["attributes"]["label"])
        self.assertEqual(set(field.get("validations", {"required": True})), {"required"})
        if field["type"] == "dropdown":
            self.assertTrue(all(isinstance(option, str) for option in field["attributes"]["options"]))

    def test_a_bug_asks_for_what_is_needed_and_by_commands_that_there_are(self):
        text = (FOLDER / "ISSUE_TEMPLATE/bug.yml").read_text()
        for words in ["ddprun --version", "ddprun stacks", "ddprun status", "ddprun report", "SECURITY.md"]:
            self.assertIn(words, text)
        form = read(FOLDER / "ISSUE_TEMPLATE/bug.yml")
        required = {field["id"] for field in form["body"] if field.get("validations", {}).get("required")}
        self.assertLessEqual({"command", "seen", "version"}, required)


class Workflow(unittest.TestCase):
    def setUp(self):
        self.text = (FOLDER / "workflows/ci.yml").read_text()
        self.workflow = read(FOLDER / "workflows/ci.yml")
        self.job = self.workflow["jobs"]["test"]
        self.steps = self.job["steps"]

    def test_it_runs_all_tests_within_ninety_minutes_and_may_only_read(self):
        runs = [step["run"] for step in self.steps if "run" in step]
        self.assertTrue(any(re.search(r"(^|\s)\.ci/run\b", run) for run in runs))
        self.assertTrue((SOURCE / ".ci/run").stat().st_mode & 0o100)
        self.assertEqual(self.job["timeout-minutes"], 90)
        self.assertEqual(self.workflow["permissions"], {"contents": "read"})
        self.assertEqual(set(self.workflow[True]), {"push", "pull_request"})  # YAML 1.1 takes "on" for a truth value

    def test_each_step_does_one_thing_and_each_action_has_a_version(self):
        for step in self.steps:
            self.assertEqual(("run" in step) + ("uses" in step), 1, step)
            if "uses" in step:
                self.assertRegex(step["uses"], r"^actions/[a-z-]+@v\d+$")

    def test_caches_are_known_by_files_that_there_are(self):
        caches = {step["with"]["path"].split()[0]: step["with"] for step in self.steps if "/cache@" in step.get("uses", "")}
        self.assertEqual(set(caches), {".cache/ccache", ".venv"})
        self.assertIn("scripts/setup.sh", caches[".venv"]["key"])
        self.assertNotIn("restore-keys", caches[".venv"])  # an older one would be mended by pip, and grow
        self.assertIn('CCACHE_DIR="$PWD/.cache/ccache"', self.text)
        tracked = subprocess.run(["git", "-C", SOURCE, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                                 capture_output=True, text=True).stdout.split()
        for name in re.findall(r"'([^']+)'", " ".join(re.findall(r"hashFiles\(([^)]*)\)", self.text))):
            pattern = re.compile(re.escape(name).replace(r"\*\*", ".*"))
            self.assertTrue(any(pattern.fullmatch(path) for path in tracked), name)

    def test_nothing_names_the_host_of_a_registry(self):
        for path in FOLDER.rglob("*.yml"):
            self.assertNotRegex(path.read_text(), r"https?://|\b[a-z0-9-]+\.(io|com|org|net)/")


if __name__ == "__main__":
    unittest.main()
