#!/usr/bin/env python3
"""The manual pages are those of all commands, mandoc finds nothing to object to, and they say what the help says."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from console import BINARY


@unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name) / "man1"
        subprocess.run([BINARY, "__man", cls.folder], check=True)
        start = subprocess.run([BINARY], capture_output=True, text=True, check=True).stdout
        cls.commands = re.findall(r"^  ([a-z-]+)  +\S", start, re.MULTILINE)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def shown(self, page: str, *options: str) -> str:
        """A page as a wide terminal shows it, without overstriking."""
        result = subprocess.run(["mandoc", "-Tutf8", "-Owidth=400", *options, self.folder / page], capture_output=True,
                                text=True, check=True)
        return re.sub(".\b", "", result.stdout)

    def test_there_is_a_page_for_each_command_and_for_the_program(self):
        self.assertIn("compare", self.commands)
        self.assertIn("completion", self.commands)
        pages = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual(pages, sorted(["shardlab.1", *(f"shardlab-{name}.1" for name in self.commands)]))

    @unittest.skipUnless(shutil.which("mandoc"), "there is no mandoc here; scripts/setup installs it")
    def test_mandoc_has_no_warnings(self):
        for page in sorted(self.folder.iterdir()):
            result = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stdout), (0, ""), page.name)

    @unittest.skipUnless(shutil.which("mandoc"), "there is no mandoc here; scripts/setup installs it")
    def test_a_page_has_every_option_example_and_exit_code_of_the_help(self):
        for name in self.commands:
            text = " ".join(self.shown(f"shardlab-{name}.1").split())
            told = subprocess.run([BINARY, name, "--help"], capture_output=True, text=True, check=True).stdout
            options = re.findall(r"^  (?:-h,)?(--[a-z-]+)", told, re.MULTILINE)
            self.assertIn("--help", options)
            examples = re.findall(rf"^  (shardlab {name}\b.*\S)", told, re.MULTILINE)
            self.assertTrue(examples, name)
            codes = told.partition("Exit codes:\n")[2].splitlines()
            self.assertGreaterEqual(len(codes), 6)
            for wanted in [*options, *examples, *codes]:
                self.assertIn(" ".join(wanted.split()), text, name)

    def test_a_folder_that_cannot_be_made_is_an_error_of_the_environment(self):
        result = subprocess.run([BINARY, "__man", self.folder / "shardlab.1" / "man1"], capture_output=True, text=True,
                                check=False)
        self.assertEqual((result.returncode, result.stdout), (4, ""))
        self.assertIn("can't be made", result.stderr)


if __name__ == "__main__":
    unittest.main()
