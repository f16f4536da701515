#!/usr/bin/env python3
"""Which commit --version names, in each kind of sources, and what a commit builds again: commit_test.py BUILD-FOLDER"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop()).resolve()
SOURCE = Path(__file__).resolve().parents[2]
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@localhost",
       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@localhost"}


def run(*words, cwd=None):
    return subprocess.run(words, cwd=cwd, env={**os.environ, **GIT}, check=True, capture_output=True, text=True).stdout.strip()


class Commit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.sources = self.folder / "sources"
        (self.sources / "cmake").mkdir(parents=True)
        for name in [".gitattributes", "cmake/commit.txt"]:
            shutil.copy(SOURCE / name, self.sources / name)
        (self.sources / "file").write_text("1\n")

    def commit(self, folder):
        """Makes a repository of a folder, and returns its commit as --version is to have it."""
        run("git", "init", "-q", cwd=folder)
        run("git", "add", ".", cwd=folder)
        run("git", "commit", "-qm", "1", cwd=folder)
        return run("git", "rev-parse", "HEAD", cwd=folder)[:7]

    def found(self, sources=None, output="commit.txt", **words):
        file = self.folder / output
        run("cmake", f"-DSOURCE={sources or self.sources}", f"-DOUTPUT={file}", *(f"-D{key}={value}" for key, value in words.items()),
            "-P", str(SOURCE / "cmake/FindCommit.cmake"))
        return file.read_text().removesuffix("\n")

    def test_a_clone_has_its_commit_and_says_where_files_have_been_changed(self):
        commit = self.commit(self.sources)
        self.assertEqual(self.found(), commit)
        (self.sources / "new").write_text("not the repository's\n")
        self.assertEqual(self.found(), commit)
        (self.sources / "file").write_text("2\n")
        self.assertEqual(self.found(), commit + "-dirty")
        run("git", "tag", "v1", cwd=self.sources)
        self.assertEqual(self.found(), commit + "-dirty")

    def test_an_archive_has_the_commit_it_was_made_of(self):
        commit = self.commit(self.sources)
        run("git", "archive", "--prefix=there/", "-o", str(self.folder / "there.tar"), "HEAD", cwd=self.sources)
        run("tar", "-xf", "there.tar", cwd=self.folder)
        self.assertEqual(self.found(self.folder / "there"), commit)
        self.commit(self.folder / "there")
        self.assertEqual(self.found(self.folder / "there"), commit)  # what somebody imported from an archive, too

    def test_sources_without_git_have_none_and_take_none_of_a_repository_around_them(self):
        self.assertEqual(self.found(), "unknown")
        self.commit(self.folder)
        self.assertEqual(self.found(), "unknown")
        (self.sources / "cmake/commit.txt").unlink()
        self.assertEqual(self.found(), "unknown")

    def test_a_repository_that_git_does_not_read_has_none(self):
        (self.sources / ".git").mkdir()
        self.assertEqual(self.found(), "unknown")

    def test_a_package_may_name_it(self):
        self.commit(self.sources)
        self.assertEqual(self.found(COMMIT="abc1234"), "abc1234")
        self.assertEqual(self.found(COMMIT="0123456789abcdef0123456789abcdef01234567"), "0123456")
        self.assertEqual(self.found(COMMIT="0.2.0-1ubuntu1"), "0.2.0-1ubuntu1")
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            self.found(COMMIT='a"b')
        self.assertIn("is no commit", failed.exception.stderr)

    def test_the_file_of_cpp_is_written_only_if_the_commit_is_another_one(self):
        self.commit(self.sources)
        text = self.found(output="commit.cpp")
        self.assertRegex(text, r'^#include "rendezvous/base/version.h"\n\nconst char\* const ddprun::kCommit = "[0-9a-f]{7}";$')
        os.utime(self.folder / "commit.cpp", (1, 1))
        self.assertEqual(self.found(output="commit.cpp"), text)
        self.assertEqual((self.folder / "commit.cpp").stat().st_mtime, 1)
        (self.sources / "file").write_text("2\n")
        self.assertNotEqual(self.found(output="commit.cpp"), text)


class Build(unittest.TestCase):
    def test_another_commit_is_compiled_into_one_file_and_linked_into_the_programs_alone(self):
        def users(file):
            outputs = run("ninja", "-C", str(BUILD), "-t", "query", file).split("outputs:")[1].split()
            return {name for name in outputs if not name.startswith("||")}
        self.assertEqual(users("CMakeFiles/ddprun_commit.dir/commit.cpp.o") - {"ddprun_commit"}, {"libddprun_commit.a"})
        self.assertEqual({name for name in users("libddprun_commit.a") if re.match("(bin|lib)/", name)}, {"bin/ddprun", "bin/train"})


if __name__ == "__main__":
    unittest.main()
