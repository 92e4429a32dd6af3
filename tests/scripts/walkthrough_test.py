#!/usr/bin/env python3
"""The walkthroughs of docs/ run as they stand: every command, in order, prints what the page shows."""

import unittest

from console import BINARY, ROOT, Clone, examples, matches

PAGES = sorted((ROOT / "docs").glob("*.md"))


class Walkthroughs(unittest.TestCase):
    def test_there_are_four(self):
        self.assertGreaterEqual(len(PAGES), 4)

    @unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
    def test_each_command_prints_what_its_page_shows(self):
        for page in PAGES:
            found = examples(page.read_text())
            self.assertGreaterEqual(len(found), 4, page.name)
            with Clone() as clone:
                for command, expected in found:
                    with self.subTest(page=page.name, command=command):
                        printed = clone.run(command)
                        self.assertTrue(matches(expected, printed), "\n".join(printed))


if __name__ == "__main__":
    unittest.main()
