#!/usr/bin/env python3
"""Installs the program into a folder of its own, and uses it there: from elsewhere, and without the source tree.

Where namespaces may be made (as root), an empty folder lies over the source tree meanwhile, so that nothing can be
read from it. The packages that are made of the same rules are tried by scripts/package --try.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from console import BINARY, ROOT

BUILD = Path(BINARY).parents[1] if BINARY else Path()
HIDE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(ROOT)]
MOST_SECONDS = 60


def can_hide() -> bool:
    """Whether this process may hide the source tree. A build inside the tree is hidden with it."""
    try:
        shown = subprocess.run([*HIDE, "ls", ROOT], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return shown.returncode == 0 and not shown.stdout


def cached(variable: str) -> str:
    """A variable of the build's CMake cache."""
    found = re.search(rf"^{variable}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


@unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
class Pages(unittest.TestCase):
    def test_a_component_gets_manual_pages_and_completions_in_its_own_folder(self):
        """As the wheel does, whose folder of data only scikit-build-core knows."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "CMakeLists.txt").write_text(f"""
                cmake_minimum_required(VERSION 3.25)
                project(pages LANGUAGES NONE)
                add_executable(shardlab IMPORTED)
                set_target_properties(shardlab PROPERTIES IMPORTED_LOCATION "{BINARY}")
                include("{ROOT}/cmake/install_pages.cmake")
                install_pages(wheel "{folder}/data/share")
            """)
            cmake = cached("CMAKE_COMMAND")
            subprocess.run([cmake, "-S", folder, "-B", folder / "build"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([cmake, "--install", folder / "build", "--component", "wheel"], check=True,
                           stdout=subprocess.DEVNULL)
            share = folder / "data" / "share"
            self.assertIn(".TH", (share / "man" / "man1" / "shardlab-compare.1").read_text())
            for shell, path in (
                ("bash", "bash-completion/completions/shardlab"),
                ("fish", "fish/vendor_completions.d/shardlab.fish"),
                ("zsh", "zsh/site-functions/_shardlab"),
            ):
                written = subprocess.run([BINARY, "completion", shell], capture_output=True, text=True, check=True)
                self.assertEqual((share / path).read_text(), written.stdout, shell)

    def test_the_wheel_has_them(self):
        self.assertIn("install_pages(wheel ${SKBUILD_DATA_DIR}/share)", (ROOT / "cmake" / "install.cmake").read_text())


@unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        first = Path(cls.folder.name) / "first"
        subprocess.run([cached("CMAKE_COMMAND"), "--install", BUILD, "--prefix", first, "--component", "program"],
                       check=True, stdout=subprocess.DEVNULL)
        cls.prefix = first.rename(Path(cls.folder.name) / "moved")  # an installation can be moved
        cls.elsewhere = Path(cls.folder.name) / "elsewhere"
        cls.elsewhere.mkdir()
        cls.before = HIDE if can_hide() else []

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def shardlab(self, *words: str, timeout: float = MOST_SECONDS) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHARDLAB")}
        result = subprocess.run([*self.before, self.prefix / "bin" / "shardlab", *words], capture_output=True, text=True,
                                cwd=self.elsewhere, env=environment, check=False, timeout=timeout)
        self.assertEqual((result.returncode, result.stderr), (0, ""), words)
        return result.stdout

    def test_the_demo_writes_its_report_within_a_minute(self):
        printed = self.shardlab("demo", "--out", "report")
        self.assertIn("report: report/report.html", printed)
        self.assertIn("<html", (self.elsewhere / "report" / "report.html").read_text()[:200])
        again = printed.split("the same: ", 1)[1].split()
        self.assertEqual(again[:2], ["shardlab", "compare"])
        self.shardlab(*again[1:-1], "again")
        for name in ("report.json", "record.json"):
            one, other = (json.loads((self.elsewhere / where / name).read_text()) for where in ("report", "again"))
            for document in (one, other):
                document.pop("timing", None)
            self.assertEqual(one, other, name)

    def test_configurations_are_those_beside_the_program(self):
        stacks = self.prefix / "share" / "shardlab" / "configs" / "stacks"
        shipped = self.shardlab("list", "stacks")
        self.assertIn("dtensor-2.15", shipped)
        own = stacks / "only-here.json"
        shutil.copy(stacks / "dtensor-2.15.json", own)
        try:
            self.assertIn("only-here", self.shardlab("list", "stacks"))
        finally:
            own.unlink()

    def test_every_kind_of_configuration_is_installed(self):
        shipped = {path.relative_to(ROOT / "configs") for path in (ROOT / "configs").rglob("*") if path.is_file()}
        installed = self.prefix / "share" / "shardlab" / "configs"
        self.assertEqual({path.relative_to(installed) for path in installed.rglob("*") if path.is_file()}, shipped)
        self.assertTrue((installed.parent / "torch_worker" / "worker.py").is_file())

    def test_shells_and_man_find_what_they_read_in_the_folders_where_they_look(self):
        share = self.prefix / "share"
        for shell, place in (("bash", "bash-completion/completions/shardlab"), ("zsh", "zsh/vendor-completions/_shardlab"),
                             ("zsh", "zsh/site-functions/_shardlab"),
                             ("fish", "fish/vendor_completions.d/shardlab.fish")):
            self.assertEqual((share / place).read_text(), self.shardlab("completion", shell), place)
        pages = {path.name for path in (share / "man" / "man1").iterdir()}
        self.assertIn("shardlab.1", pages)
        self.assertIn("shardlab-compare.1", pages)

    def test_the_version_is_that_of_the_project(self):
        version = re.search(r"project\(shardlab VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertTrue(self.shardlab("--version").startswith(f"shardlab {version} (commit "))
        self.assertIn(f"## {version}\n", (ROOT / "CHANGELOG.md").read_text())
        self.assertNotIn(f'"{version}"', (ROOT / "pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
