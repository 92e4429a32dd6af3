#!/usr/bin/env python3
"""Runs the commands of every page of docs/ in order. Each has to print what the page shows."""

import unittest

from console import BINARY, ROOT, Clone, examples, matches

PAGES = sorted((ROOT / "docs").rglob("*.md"))
WALKTHROUGHS = ("calibrate-from-your-log", "evaluate-a-change", "reproduce-a-tie", "run-a-plan", "solve-a-program", "tour")
OTHERS_WITH_COMMANDS = ("choices", "concepts", "index", "predict-a-step", "semantics")


class Pages(unittest.TestCase):
    def test_each_walkthrough_has_commands(self):
        with_commands = [page.stem for page in PAGES if len(examples(page.read_text())) >= 4]
        self.assertLessEqual(set(WALKTHROUGHS), set(with_commands))
        with_any = [page.stem for page in PAGES if examples(page.read_text())]
        self.assertLessEqual(set(OTHERS_WITH_COMMANDS), set(with_any))

    @unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
    def test_each_command_prints_what_its_page_shows(self):
        for page in PAGES:
            found = examples(page.read_text())
            with Clone() as clone:
                for command, expected in found:
                    with self.subTest(page=page.name, command=command):
                        printed = clone.run(command)
                        self.assertTrue(matches(expected, printed), "\n".join(printed))


if __name__ == "__main__":
    unittest.main()
