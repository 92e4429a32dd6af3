#!/usr/bin/env python3
"""strategies/rules/op_kinds.txt says of every op of ATen what the PyTorch that is installed does with it.

Skipped where PyTorch is not installed, or a release that the file does not have.
"""

import sys
import unittest
from pathlib import Path

import oracle

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import make_op_schemas  # noqa: E402

RELEASES = ("2.13", "2.14", "2.15")  # the columns, in the order of strategies/rules/rule_set.h


class OpKinds(unittest.TestCase):
    def test_the_file_is_sorted_and_has_a_known_letter_for_each_release(self):
        lines = (ROOT / "strategies" / "rules" / "op_kinds.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines, sorted(lines))
        for line in lines:
            self.assertRegex(line, f"^[A-Za-z0-9_.]+ [chsudn-]{{{len(RELEASES)}}}$")

    @unittest.skipUnless(oracle.has_torch(), "no PyTorch: run scripts/setup --with-oracle")
    def test_the_file_says_what_pytorch_does(self):
        known = make_op_schemas.known_to(oracle.ORACLE)
        release = ".".join(known["torch"].split(".")[:2])
        if release not in RELEASES:
            self.skipTest(f"the file does not have PyTorch {release}")
        column = RELEASES.index(release)
        kinds = {}
        for line in (ROOT / "strategies" / "rules" / "op_kinds.txt").read_text(encoding="utf-8").splitlines():
            name, letters = line.split(" ")
            if letters[column] != "-":
                kinds[name] = letters[column]
        self.assertEqual(kinds, known["kinds"])


if __name__ == "__main__":
    unittest.main()
