#!/usr/bin/env python3
"""The pages of docs/ quote figures of the scoreboard. They have to be those that it holds."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCOREBOARD = (ROOT / "reports" / "scoreboard.md").read_text()


def table(text, heading):
    """The cells of the first table below a line that begins with `heading`, by their first cell."""
    begin = re.search(rf"^{re.escape(heading)}", text, re.M)
    assert begin, f"found no line that begins with {heading!r}"
    lines = text[begin.start():].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = {}
    for line in lines[first + 2:]:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[name] = cells
    return rows


class ScoreboardFigures(unittest.TestCase):
    def test_errors_with_few_rows(self):
        page = table((ROOT / "docs" / "calibrate-from-your-log.md").read_text(), "| known rows of a log whose source was left out")
        scores = table(SCOREBOARD, "## left-out source, few rows of the log")
        self.assertEqual({name.replace(",", "") for name in page}, set(scores))
        for name, cells in page.items():
            medians = scores[name.replace(",", "")][0::4]
            self.assertEqual(cells, [f"{median} %" for median in medians], name)

    def test_steps_of_sources_that_were_held_out(self):
        held_out = table(SCOREBOARD, "## whole sources held out")["shardlab"]
        given = table(SCOREBOARD, "## 3 rows of a new source given")["shardlab"]
        page = (ROOT / "docs" / "predict-a-step.md").read_text().replace("\n", " ")
        self.assertIn(f"more than {held_out[0]} % and one in ten by more than {held_out[1]} %; with three of its rows given, "
                      f"by {given[0]} % and {given[1]} %", page)
        page = (ROOT / "docs" / "limits.md").read_text().replace("\n", " ")
        self.assertRegex(page, rf"the median error is {held_out[0]} %, and {held_out[4]} % on dense +models")

    def test_regret_of_choices(self):
        page = table((ROOT / "docs" / "trust.md").read_text(), "| stack | above the best choice |")
        scores = table(SCOREBOARD, "| stack | dearer | mean |")
        names = {"fitted to six sizes of each log": "calibrated", "fitted to the logs of other sources alone": "calibrated, no rows"}
        self.assertEqual({names.get(name.strip("`"), name.strip("`")) for name in page}, set(scores))
        for name, cells in page.items():
            mean = scores[names.get(name.strip("`"), name.strip("`"))][1]
            self.assertLessEqual(abs(float(cells[0].removesuffix(" %")) - float(mean)), 0.0501, name)

    def test_errors_without_rows(self):
        page = " ".join((ROOT / "docs" / "trust.md").read_text().split())
        found = re.search(r"On sources that were left out they miss by ([\d.]+) % below 1 MB, ([\d.]+) % up to 64 MB and ([\d.]+) % above", page)
        self.assertTrue(found, "docs/trust.md has lost the errors of the shipped stacks")
        calibrated = table(SCOREBOARD, "all, ")["calibrated"]
        self.assertEqual(list(found.groups()), calibrated[0::3])


if __name__ == "__main__":
    unittest.main()
