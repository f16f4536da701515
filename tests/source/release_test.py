#!/usr/bin/env python3
"""One version everywhere, and what may be released of which commit: release_test.py BUILD-FOLDER"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BUILD = Path(sys.argv.pop()).resolve()
SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts/packages"))
import release

VERSION = release.project_version()
CHANGELOG = (SOURCE / "CHANGELOG.md").read_text()
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a",
               "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@localhost"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # a release writes none without it


class OneVersion(unittest.TestCase):
    def test_programs_wheel_and_pages_have_that_of_cmake(self):
        for name in ["ddprun", "train"]:
            said = subprocess.run([BUILD / "bin" / name, "--version"], check=True, capture_output=True, text=True)
            self.assertRegex(said.stdout, rf"\A{name} {re.escape(VERSION)} \(commit ([0-9a-f]{{7}}(-dirty)?|unknown)\)\n\Z")
            self.assertEqual(said.stderr, "")
        # Beside its program, as in a tree that no wheel has made; -S: without what is installed for this Python.
        said = subprocess.run([sys.executable, "-S", "-B", "-c", "import ddprun; print(ddprun.__version__)"], check=True, capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(BUILD / "share/ddprun/python")})
        self.assertEqual(said.stdout, VERSION + "\n")
        wheel = tomllib.loads((SOURCE / "launcher/python/pyproject.toml").read_text())["tool"]["scikit-build"]["metadata"]["version"]
        self.assertEqual(re.search(wheel["regex"], (SOURCE / wheel["input"]).read_text())["value"], VERSION)
        page = (SOURCE / "docs/packages.md").read_text()
        self.assertEqual(set(re.findall(r"\bddprun(?:-train)?[-_](\d+\.\d+\.\d+)[-_.]", page)), {VERSION})

    def test_the_changelog_has_it_and_the_form_of_keep_a_changelog(self):
        heads = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
        self.assertEqual(heads[0], "[Unreleased]")
        numbers = []
        for head in heads[1:]:
            found = re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (?:\d{4}-\d\d-\d\d|unreleased|never released)", head)
            self.assertIsNotNone(found, head)
            numbers.append(tuple(int(part) for part in found.groups()))
        self.assertEqual(numbers, sorted(set(numbers), reverse=True))
        self.assertEqual(".".join(str(part) for part in numbers[0]), VERSION)
        self.assertTrue(release.part_of(VERSION, CHANGELOG)[1])
        kinds = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
        self.assertLessEqual(kinds, {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})


class Notes(unittest.TestCase):
    log = "# C\n\n## [Unreleased]\n- x\n\n## [1.2.0-rc] - d\n- no\n\n## [1.2.0] - 2026-01-02\n- a [b](docs/b.md) [c](https://c)\n\n### Fixed\n- d\n\n## [1.1.0]\n- old\n"

    def test_they_are_the_part_of_one_version_without_links_into_the_repository(self):
        self.assertEqual(release.notes("1.2.0", self.log), "# ddprun 1.2.0\n\n- a b [c](https://c)\n\n### Fixed\n- d\n")
        self.assertEqual(release.notes("1.1.0", self.log), "# ddprun 1.1.0\n\n- old\n")
        for other in ["1.2", "2.0", "1x2.0"]:
            with self.assertRaises(SystemExit):
                release.notes(other, self.log)

    def test_those_of_this_version_can_be_cut(self):
        self.assertNotRegex(release.notes(VERSION, CHANGELOG), r"\]\((?!https?://)|^## ")


class DryRun(unittest.TestCase):
    """In a repository that has of ours what a dry run reads."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ["CMakeLists.txt", "scripts/package.sh", "scripts/packages/release.py", "scripts/packages/sbom.py"]:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.folder / name)
        (self.folder / "scripts/setup.sh").write_text("#!/bin/sh\ntouch set-up\nexit 9\n")
        (self.folder / "scripts/setup.sh").chmod(0o755)

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.folder, env=ENVIRONMENT, check=True, capture_output=True)

    def commit(self, head=f"## [{VERSION}] - 2026-12-31\n- all\n", tag=f"v{VERSION}"):
        (self.folder / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n" + head)
        if not (self.folder / ".git").exists():
            self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "1")
        if tag:
            self.git("tag", tag)

    def release(self, *words):
        """Exit code, files without their folder, and what stderr has."""
        ended = subprocess.run(["scripts/package.sh", "release", *words], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertFalse((self.folder / "set-up").exists())
        return ended.returncode, [line.removeprefix("build/packages/") for line in ended.stdout.splitlines()], ended.stderr

    def refused(self, *reasons):
        code, files, said = self.release("--dry-run")
        self.assertEqual((code, len(files) > 8), (1, True))
        self.assertEqual(said.splitlines(), [f"package.sh: no release: {reason}" for reason in reasons])
        self.assertEqual(self.release("--dry-run", "--draft"), (0, files, said))
        code, files, said_then = self.release()
        self.assertEqual((code, files), (1, []))
        self.assertEqual(said_then, said + "package.sh: --draft makes its files all the same\n")

    @unittest.skipUnless(shutil.which("dpkg"), "skipped: releases are made on Debian")
    def test_it_names_the_files_and_makes_none(self):
        self.commit()
        machine = subprocess.check_output(["uname", "-m"], text=True).strip()
        debian = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
        common = [f"ddprun-{VERSION}.tar.gz", f"ddprun_{VERSION}_source.tar.gz", f"ddprun_{VERSION}_notes.md", "SHA256SUMS"]
        launcher = [f"ddprun_{VERSION}_{debian}.deb", f"ddprun_{VERSION}_{debian}.cdx.json"]
        trainer = [f"ddprun-train_{VERSION}_{debian}.deb", f"ddprun-train_{VERSION}_{debian}.cdx.json"]
        wheels = [f"ddprun-{VERSION}-py3-none-manylinux_2_28_{one}.{kind}" for one in ["x86_64", "aarch64"] for kind in ["whl", "cdx.json"]]
        self.assertEqual(self.release("--dry-run"), (0, [*wheels, *launcher, *trainer, *common], ""))
        code, files, said = self.release("--dry-run", "--native", "--without-train")
        self.assertEqual((code, files[2:], said), (0, [*launcher, *common], ""))
        self.assertRegex(files[0], rf"^ddprun-{VERSION}-py3-none-manylinux_2_\d+_{machine}\.whl$")
        self.git("update-index", "--refresh")
        self.assertEqual(subprocess.check_output(["git", "status", "--porcelain", "--ignored"], cwd=self.folder, env=ENVIRONMENT), b"")

    def test_another_kind_of_package_has_no_dry_run(self):
        ended = subprocess.run(["scripts/package.sh", "wheel", "--dry-run"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (1, "package.sh: --dry-run and --draft are of a release, and this is wheel\n"))
        self.assertFalse((self.folder / "set-up").exists())

    @unittest.skipUnless(shutil.which("dpkg"), "skipped: releases are made on Debian")
    def test_a_commit_that_may_not_be_released_is_refused_with_every_reason(self):
        self.commit(tag=None)
        no_tag = f"CMakeLists.txt has version {VERSION}, and the commit has no tag: it needs v{VERSION}"
        self.refused(no_tag)
        self.git("tag", "v9.9.9")
        self.refused(no_tag.replace("no tag", "the tag v9.9.9"))
        self.git("tag", f"v{VERSION}")
        (self.folder / "new").write_text("")
        self.refused("the tree is not clean: new")
        (self.folder / "CMakeLists.txt").write_text((self.folder / "CMakeLists.txt").read_text() + "\n")
        self.refused("the tree is not clean: CMakeLists.txt and 1 more")
        self.commit(head=f"## [{VERSION}] - unreleased\n- all\n", tag=None)
        no_day = f"CHANGELOG.md has no day for {VERSION}, as in: ## [{VERSION}] - 2026-12-31"
        self.refused(no_tag, no_day)  # the tag is on the commit before
        self.git("tag", "--force", f"v{VERSION}")
        self.refused(no_day)

    @unittest.skipUnless(shutil.which("dpkg"), "skipped: releases are made on Debian")
    def test_a_draft_goes_on_to_the_set_up_of_such_a_commit(self):
        self.commit(tag=None)
        ended = subprocess.run(["scripts/package.sh", "release", "--draft"], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertTrue((self.folder / "set-up").exists(), ended.stderr)
        self.assertEqual(ended.returncode, 9)
        self.assertIn("the commit has no tag", ended.stderr)

    def test_the_changelog_has_to_say_something_of_it(self):
        nothing = [f"CHANGELOG.md says nothing of {VERSION}"]
        for log in ["# C\n## [Unreleased]\n", f"## [{VERSION}] - 2026-12-31\n\n## [0.0.1] - 2026-01-01\n- x\n"]:
            self.assertEqual(list(release.problems(VERSION, [f"v{VERSION}"], [], log)), nothing)
        self.assertEqual(list(release.problems("1.0.0", ["v1.0.0", "nightly"], [], "## [1.0.0] - 2026-12-31\n- x\n")), [])

    def test_sources_without_git_make_no_release(self):
        (self.folder / "CHANGELOG.md").write_text(CHANGELOG)
        code, _, said = self.release("--dry-run")
        self.assertEqual(code, 1)
        self.assertIn("no release: a release is made of a commit, and these sources have no repository of git\n", said)


if __name__ == "__main__":
    unittest.main()
