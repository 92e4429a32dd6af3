#!/usr/bin/env python3
"""Every command in a ```console block of README.md was run: its output here is its output now.

A block holds lines "$ build/release/bin/shardlab ..." each followed by its output. Other commands (scripts) are not run.
"""

import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SHARDLAB_BINARY", "")
PROGRAM = "build/release/bin/shardlab "


def examples(text):
    """(command, expected output) of every shardlab command in the console blocks."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        command, output = None, []
        for line in block.splitlines() + ["$ "]:
            if line.startswith("$ "):
                if command is not None and command.startswith(PROGRAM):
                    yield command, output
                command, output = line[2:], []
            else:
                output.append(line)


class ReadmeExamples(unittest.TestCase):
    def test_blocks_are_found_and_their_outputs_kept_apart(self):
        text = "x\n```console\n$ build/release/bin/shardlab list stacks\na\nb\n$ scripts/demo\nc\n```\n"
        self.assertEqual(list(examples(text)), [("build/release/bin/shardlab list stacks", ["a", "b"])])

    @unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
    def test_every_command_in_the_readme_prints_what_the_readme_shows(self):
        found = list(examples((ROOT / "README.md").read_text()))
        self.assertGreaterEqual(len(found), 4)
        for command, expected in found:
            with self.subTest(command=command), tempfile.TemporaryDirectory() as folder:
                words = [BINARY] + shlex.split(command[len(PROGRAM):])
                result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.rstrip("\n").splitlines(), expected)


if __name__ == "__main__":
    unittest.main()
