"""The pages of reports/findings: a stale one is found. The tests findings.PAGE say which are fresh."""

import contextlib
import io
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from findings import __main__ as command
from findings import page, text
from findings.measured import Row
from findings.ring import Constants, fit, unknown

ROOT = Path(__file__).resolve().parent.parent.parent


class Findings(unittest.TestCase):
    def test_a_page_that_differs_is_stale_until_it_is_written(self) -> None:
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
            file = Path(folder) / "page.md"
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertFalse(command.keep(file, "new\n", check=True))
            self.assertIn("page.md is stale", said.getvalue())
            self.assertTrue(command.keep(file, "new\n", check=False))
            self.assertTrue(command.keep(file, "new\n", check=True))

    def test_the_index_names_every_page_with_its_answer(self) -> None:
        lines = [line for line in page.index().splitlines() if line.startswith("- ")]
        files = [file for file in page.FOLDER.glob("*.md") if file.name != "README.md"]
        self.assertEqual(len(lines), len(files))
        for each in page.all_pages():
            self.assertTrue(any(f"({each.name}.md): " in line for line in lines), f"the page {each.name} was not written")

    def test_every_page_says_its_question_and_thread(self) -> None:
        for each in page.all_pages():
            self.assertTrue(each.module.QUESTION.endswith("?"), each.name)
            self.assertTrue(each.module.THREAD.startswith("https://github.com/pytorch/") or
                            each.module.THREAD.startswith("https://github.com/meta-pytorch/"), each.name)

    def test_figures_have_their_digits(self) -> None:
        self.assertEqual([text.figure(value) for value in (0, 0.012345, 1.5, 12.34, 999.6, 123456)],
                         ["0", "0.0123", "1.50", "12.3", "1,000", "123,000"])
        self.assertEqual([text.size(value) for value in (12, 4096, 64e3, 999.7e6)], ["12 B", "4.1 KB", "64 KB", "1,000 MB"])
        self.assertEqual(text.listed(["a", "b", "c"]), "a, b and c")


class RingFit(unittest.TestCase):
    """The fit of DTensor's constants gives back those that made the times."""

    TRUE = Constants(9.0, 1.1, 4.0, 200.0, 0.3)

    def rows(self, meshes: list[tuple[int, int]]) -> list[Row]:
        made = []
        for ranks, hosts in meshes:
            for collective in ("all_gather", "all_reduce"):
                for power in range(6, 33, 2):
                    row = Row(f"{collective}-{ranks}", "source", "h100", collective, ranks, hosts, 2.0**power, 1.0)
                    made.append(replace(row, time_us=self.TRUE.price(row)))
        return made

    def test_constants_are_recovered(self) -> None:
        found = fit(self.rows([(4, 1), (8, 1), (16, 2), (64, 8)]))
        for name, value in self.TRUE.__dict__.items():
            self.assertAlmostEqual(getattr(found, name) / value, 1.0, delta=0.02, msg=name)

    def test_what_no_row_says_stays(self) -> None:
        rows = self.rows([(16, 2), (64, 8)])
        self.assertEqual(unknown(rows), ("intra_host_hop_us", "bandwidth_gb_per_s"))
        self.assertEqual(fit(rows).intra_host_hop_us, Constants().intra_host_hop_us)


if __name__ == "__main__":
    unittest.main()
