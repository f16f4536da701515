#!/usr/bin/env python3
"""What packages say of what is linked in: its form, and that it has what CMake and the pages name: sbom_test.py BUILD-FOLDER"""
import copy
import json
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BUILD = Path(sys.argv.pop()).resolve()
SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts/packages"))
import sbom

# As CMake calls them, and as the list does. None: a shared library of the system, in this build.
NAMES = {"CLI11": "cli11", "nlohmann_json": "nlohmann-json3", "spdlog": "spdlog", "Asio": "asio", "tomlplusplus": "tomlplusplus",
         "PCRE2": "pcre2", "ZLIB": None, "OpenSSL": None, "Threads": None}
WITH_THEM = {"fmtlib", "libstdc++", "libgcc", "libtorch"}  # spdlog's, the compiler's, the trainer's
IN_PAGES = {"OpenSSL": "openssl", "elfutils": "elfutils", "xz": "xz-utils", "zlib": "zlib", "PCRE2": "pcre2"}
SPDX = {"Apache-2.0", "BSD-3-Clause", "BSL-1.0", "GPL-2.0-or-later", "GPL-3.0-or-later", "LGPL-3.0-or-later", "MIT", "Zlib",
        "bzip2-1.0.6", "GCC-exception-3.1", "LLVM-exception"}
PURL = re.compile(r"pkg:[a-z]+/[A-Za-z0-9._%/-]+@[A-Za-z0-9._%-]+(\?[a-z]+=[a-z0-9]+)?")


def written(part):
    words = [sys.executable, SOURCE / "scripts/packages/sbom.py", BUILD, "--part", part, "--torch", "2.15.0"]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def complaints_of_component(one):
    for field in ["type", "name", "version", "purl", "bom-ref"]:
        if not isinstance(one.get(field), str) or not one[field]:
            yield f"{one.get('name')} has no {field}"
    if one.get("type") not in ("application", "library"):
        yield f"{one.get('name')} is of type {one.get('type')}"
    if not PURL.fullmatch(str(one.get("purl"))):
        yield f"{one.get('purl')} is no package URL"
    expressions = [part.get("expression", "") for part in one.get("licenses", [])]
    if len(expressions) != 1:  # beside an expression there may be no other licence
        yield f"{one.get('name')} has {len(expressions)} licences"
    for name in re.split(r" (?:AND|OR|WITH) ", " AND ".join(expressions)):
        if name not in SPDX and not re.fullmatch(r"LicenseRef-[A-Za-z0-9.-]+", name):
            yield f"{name} is no licence of SPDX"


def complaints(bom):
    """What is not as in CycloneDX 1.6, of the parts that we use: their schema is not on every machine."""
    if set(bom) != {"bomFormat", "specVersion", "version", "metadata", "components", "dependencies"}:
        yield f"it has {sorted(bom)}"
        return
    if (bom["bomFormat"], bom["specVersion"], bom["version"]) != ("CycloneDX", "1.6", 1):
        yield "it is no CycloneDX 1.6"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bom["metadata"].get("timestamp", "")):
        yield "its time is none of RFC 3339"
    everything = [bom["metadata"]["component"], *bom["components"]]
    for one in everything:
        yield from complaints_of_component(one)
    known = [one.get("bom-ref") for one in everything]
    if len(set(known)) != len(known):
        yield "two components have one bom-ref"
    for one in bom["dependencies"]:
        for name in [one["ref"], *one["dependsOn"]]:
            if name not in known:
                yield f"{name} is needed and not listed"
        if len(set(one["dependsOn"])) != len(one["dependsOn"]):
            yield "a need is listed twice"


@unittest.skipUnless(shutil.which("dpkg-query"), "skipped: the list is of Debian's packages")
class OfThisBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.launcher, cls.trainer = written("launcher"), written("trainer")

    def test_it_has_the_form_of_cyclonedx(self):
        for bom in [self.launcher, self.trainer]:
            self.assertEqual(list(complaints(bom)), [])

    def test_it_is_of_the_version_in_cmake(self):
        for bom, name in [(self.launcher, "ddprun"), (self.trainer, "ddprun-train")]:
            component = bom["metadata"]["component"]
            self.assertEqual((component["name"], component["version"]), (name, sbom.project_version()))

    def test_it_has_what_cmake_looks_for_and_no_more(self):
        text = (SOURCE / "cmake/Dependencies.cmake").read_text().split("if(DDPRUN_TESTS)")[0]
        asked = set(re.findall(r"(?:FetchContent_Declare|find_package)\((\w+)", text))
        self.assertEqual(asked, set(NAMES))
        listed = {one["name"] for one in self.launcher["components"]}
        self.assertEqual(listed - WITH_THEM, {NAMES[name] for name in asked if NAMES[name]})
        self.assertLessEqual({one["name"] for one in self.trainer["components"]}, listed | WITH_THEM | {"zlib"})
        self.assertIn("libtorch", {one["name"] for one in self.trainer["components"]})

    def test_a_mistake_in_its_form_is_found(self):
        def broken(change):
            bom = copy.deepcopy(self.launcher)
            change(bom)
            return list(complaints(bom))
        first = lambda bom: bom["components"][0]
        for change in [
            lambda bom: bom.pop("specVersion"),
            lambda bom: bom.update(specVersion="1.2"),
            lambda bom: bom["metadata"].update(timestamp="yesterday"),
            lambda bom: first(bom).pop("version"),
            lambda bom: first(bom).update(type="librarie"),
            lambda bom: first(bom).update(purl="deb:asio"),
            lambda bom: first(bom).update(licenses=[{"expression": "Boost"}]),
            lambda bom: first(bom)["licenses"].append({"expression": "MIT"}),
            lambda bom: bom["components"].append(first(bom)),
            lambda bom: bom["components"].pop(),
            lambda bom: bom["dependencies"][0]["dependsOn"].append("pkg:deb/debian/gone@1"),
        ]:
            self.assertNotEqual(broken(change), [])


class InPages(unittest.TestCase):
    def test_what_is_linked_into_wheels_is_what_the_pages_say_and_has_a_licence(self):
        script = (SOURCE / "scripts/packages/zig.sh").read_text()
        built = re.search(r"^sources=\(([^)]*)\)", script, re.MULTILINE)[1].split()
        self.assertEqual(set(built), set(IN_PAGES.values()))
        self.assertEqual(set(built), set(re.findall(r"\[([\w-]+)\]=", re.search(r"versions=\((.*)\)", script)[1])))
        named = "{}, {}, {}, {} and {}".format(*IN_PAGES)
        for page in ["docs/packages.md", "SECURITY.md"]:
            self.assertIn(named, (SOURCE / page).read_text(), page)
        for name in built:
            self.assertTrue(sbom.LICENCES.get(name), name)

    def test_every_licence_is_one_of_spdx(self):
        for name, licence in sbom.LICENCES.items():
            if licence:
                one = {"type": "library", "name": name, "version": "1", "purl": "pkg:a/b@1", "bom-ref": "b", "licenses": [{"expression": licence}]}
                self.assertEqual(list(complaints_of_component(one)), [])


if __name__ == "__main__":
    unittest.main()
