#!/usr/bin/env python3
"""shardlab finds the optima of AutoParallel's own graphs, and prices its plans as it does.

The graphs of tests/golden/autoparallel/side_by_side were exported from AutoParallel (a54c252) under PyTorch 2.15.0 by
scripts/compare_autoparallel.py --keep, with what it said of them; they need the binary alone, SHARDLAB_BINARY. Under a
Python that has AutoParallel, live problems are compared too, node by node.
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "golden" / "autoparallel" / "side_by_side"
BINARY = os.environ.get("SHARDLAB_BINARY")
LIVE = ("matrix", "indexed")

try:
    import autoparallel as library
except ImportError:
    library = None


def solve(folder, *more):
    """What `shardlab solve` says of a recorded problem."""
    words = json.loads((folder / "arguments.json").read_text())
    command = [BINARY, "solve", str(folder / "program.json"), *words, *more, "--format", "json", "--no-timing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no binary")
class Recorded(unittest.TestCase):
    """The graphs that are kept."""

    def each(self):
        """The folders, and what AutoParallel said."""
        folders = sorted(RECORDED.iterdir())
        self.assertGreaterEqual(len(folders), 8)
        return [(folder, json.loads((folder / "answers.json").read_text())) for folder in folders]

    def test_the_optimum_and_the_price_of_the_plan_are_autoparallels(self):
        for folder, answers in self.each():
            found = solve(folder, "--diff", str(folder / "plan.json"))
            self.assertTrue(found["optimal"], folder.name)
            own = found["objective_us"]
            self.assertAlmostEqual(found["diff"]["objective_us"], answers["plan"], delta=1e-9 * answers["plan"],
                                   msg=folder.name)
            if answers["is_attainable"]:
                self.assertAlmostEqual(own, answers["objective"], delta=1e-9 * own, msg=folder.name)
            self.assertLessEqual(own, answers["plan"] * (1 + 1e-9), folder.name)

    def test_every_op_has_a_rule(self):
        for folder, _ in self.each():
            self.assertEqual([note for note in solve(folder)["notes"] if "no sharding rule" in note], [], folder.name)

    def test_repeated_layers_are_tied_as_autoparallel_ties_them(self):
        tied = 0
        for folder, answers in self.each():
            found = {tie["node"]: tie["to"] for tie in solve(folder)["ties"]}
            self.assertEqual(found, answers["ties"], folder.name)
            tied += len(found)
        self.assertGreater(tied, 0)

    def test_a_tie_costs_and_is_kept(self):
        for folder, answers in self.each():
            if not answers["ties"]:
                continue
            words = json.loads((folder / "arguments.json").read_text())
            free = [BINARY, "solve", str(folder / "program.json"), *(word for word in words if word != "--tie-repeated")]
            done = subprocess.run([*free, "--format", "json"], capture_output=True, text=True, check=False)
            tied = solve(folder)
            self.assertLessEqual(json.loads(done.stdout)["objective_us"], tied["objective_us"] + 1e-9)
            chosen = {node["node"]: (node["layout_out"], node["layout_in"]) for node in tied["assignment"]}
            for node, root in answers["ties"].items():
                self.assertEqual(chosen[node], chosen[root])


@unittest.skipUnless(BINARY and library, "AutoParallel is not installed, or SHARDLAB_BINARY names no binary")
class Live(unittest.TestCase):
    """Problems that AutoParallel states and solves now."""

    def test_lists_prices_ties_and_optima_are_autoparallels(self):
        for model in LIVE:
            with self.subTest(model):
                command = [sys.executable, str(ROOT / "scripts" / "compare_autoparallel.py"), "--model", model, "--mesh", "8",
                           "--json"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
