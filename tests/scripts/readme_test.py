#!/usr/bin/env python3
"""Runs every shardlab command in a ```console block of README.md, which has to print what README.md shows.

Other commands, such as scripts, are not run.
"""

import unittest

from console import BINARY, PROGRAM, ROOT, Clone, Example, examples, matches


class Examples(unittest.TestCase):
    def test_blocks_are_found_and_their_outputs_kept_apart(self):
        text = "x\n```console\n$ cat <<END\n> a\n> END\na\n[exit 1]\n$ scripts/demo\nc\n```\n"
        self.assertEqual(examples(text), [Example("cat <<END\na\nEND", ["a", "[exit 1]"]), Example("scripts/demo", ["c"])])

    def test_dots_stand_for_any_lines(self):
        self.assertTrue(matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(matches(["..."], []))
        self.assertFalse(matches(["a", "...", "d"], ["a", "b", "c"]))
        self.assertFalse(matches([], ["a"]))


class Readme(unittest.TestCase):
    @unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
    def test_every_command_prints_what_the_readme_shows(self):
        found = [e for e in examples((ROOT / "README.md").read_text()) if e.command.startswith(PROGRAM + " ")]
        self.assertGreaterEqual(len(found), 2)
        with Clone() as clone:
            for command, expected in found:
                with self.subTest(command=command):
                    printed = clone.run(command)
                    self.assertTrue(matches(expected, printed), "\n".join(printed))


if __name__ == "__main__":
    unittest.main()
