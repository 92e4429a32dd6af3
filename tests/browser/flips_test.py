#!/usr/bin/env python3
"""The table of flips in the report of a comparison can be sorted, filtered, searched, paged and opened, by mouse and
by keyboard, and shows what report.json holds."""

import pathlib
import sys
import tempfile
import unittest

import pages

STATUS = "return document.querySelector('#browser-flips [role=status]').textContent"
COLUMN = """
return [...document.querySelectorAll('#browser-flips > .scroll > table > tbody > tr.row')].map((row) => {
  const cell = row.children[arguments[0]].cloneNode(true);
  cell.querySelectorAll('.note, .turn').forEach((note) => note.remove());
  return cell.textContent.trim();
});
"""
CHOOSE = """
const select = document.querySelector(`#browser-flips select[data-facet="${arguments[0]}"]`);
select.value = arguments[1] === '' ? '' : [...select.options].find((o) => o.textContent.startsWith(arguments[1] + ' (')).value;
select.dispatchEvent(new Event('change'));
"""
SEARCH = """
const field = document.querySelector('#browser-flips input[type=search]');
field.value = arguments[0];
field.dispatchEvent(new Event('input'));
"""
SORTS = "return [...document.querySelectorAll('#browser-flips > .scroll > table > thead th')].map((th) => th.getAttribute('aria-sort'))"
CLICK_HEAD = "document.querySelectorAll('#browser-flips > .scroll > table > thead button')[arguments[0]].click()"
VERDICT, CHANGE, OP, MESH = 0, 1, 2, 3


def number(text: str) -> float | None:
    """The number in a cell; None for a dash."""
    return None if text == "\u2013" else float(text.replace(",", ""))


class Flips(unittest.TestCase):
    page: pages.Page

    def setUp(self):
        self.page.open(pages.report("compare") / "report.html")
        self.flips = pages.report_json("compare")["flips"]

    def column(self, index: int) -> list[str]:
        return self.page.script(COLUMN, index)

    def count(self) -> int:
        return len(self.column(VERDICT))

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains  # pylint: disable=import-outside-toplevel

        for key in keys:
            ActionChains(self.page.driver).send_keys(key).perform()

    def test_shows_the_flips_of_the_record_in_the_order_of_their_time(self):
        shown = self.column(VERDICT)
        changes = [abs(flip["delta_us"]) for flip in self.flips if flip["delta_us"] is not None]
        self.assertEqual(changes, sorted(changes, reverse=True))
        for text, flip in zip(self.column(CHANGE), self.flips):
            if flip["delta_us"] is None:
                self.assertIsNone(number(text))
            else:
                self.assertAlmostEqual(number(text), flip["delta_us"], delta=0.0051)
        self.assertEqual([text.split()[-1] for text in shown], [flip["verdict"] for flip in self.flips[:200]])
        self.assertIn(f"of {len(self.flips):,} flips", self.page.script(STATUS))

    def test_each_filter_keeps_what_it_names(self):
        def band(flip):
            return "<1MB" if flip["bytes"] < 1e6 else "1-64MB" if flip["bytes"] < 64e6 else ">=64MB"

        keys = {"op": lambda flip: flip["op"], "mesh": lambda flip: flip["mesh"], "size": band,
                "verdict": lambda flip: flip["verdict"]}
        for facet, key in keys.items():
            values = [key(flip) for flip in self.flips]
            value = min(set(values), key=lambda v: (values.count(v), v))
            with self.subTest(facet=facet, value=value):
                self.page.script(CHOOSE, facet, value)
                self.assertEqual(self.count(), min(200, values.count(value)))
                self.page.script(CHOOSE, facet, "")
        op = self.flips[0]["op"]
        self.page.script(CHOOSE, "op", op)
        self.page.script(CHOOSE, "verdict", "worse")
        both = [flip for flip in self.flips if flip["op"] == op and flip["verdict"] == "worse"]
        self.assertEqual(self.count(), len(both))

    def test_flips_below_a_share_of_the_time_can_be_hidden(self):
        shares = [None if flip["share_percent"] is None else abs(flip["share_percent"]) for flip in self.flips]
        for share in (0.001, 0.01, 0.1):
            kept = sum(one is None or one >= share for one in shares)
            self.assertLess(kept, len(shares))
            self.assertGreater(kept, 0)
            with self.subTest(share=share):
                self.page.script(CHOOSE, "share of its suite", f"at least {share} %")
                self.assertEqual(self.count(), min(200, kept))
        # It holds together with the other filters, and "Show all" takes it back.
        self.page.script(CHOOSE, "verdict", "worse")
        both = sum((one is None or one >= 0.1) and flip["verdict"] == "worse" for one, flip in zip(shares, self.flips))
        self.assertEqual(self.count(), both)
        self.page.script("document.querySelector('#browser-flips .controls button').click()")
        self.assertEqual(self.count(), min(200, len(self.flips)))
        options = self.page.script(
            "return [...document.querySelectorAll('#browser-flips select[data-facet=\"share of its suite\"] option')]"
            ".map((option) => option.textContent)")
        self.assertFalse([text for text in options if text.startswith("below")], "that would hide nothing")

    def test_time_leads_the_page(self):
        order = self.page.script("return [...document.querySelectorAll('main caption')].map((c) => c.textContent)")
        places = [next(i for i, text in enumerate(order) if text.startswith(start))
                  for start in ("Time of each suite", "Collectives of each suite", "Decisions that flip", "Regret and rank")]
        self.assertEqual(places, sorted(places))
        suite = pages.report_json("compare")["suites"][0]
        cells = self.page.script("""
            const table = [...document.querySelectorAll('main table')].find((t) => t.caption.textContent.startsWith('Time of each'));
            return [...table.tBodies[0].rows[0].cells].map((cell) => cell.firstChild.textContent)""")
        self.assertAlmostEqual(number(cells[2]), suite["total_us"]["baseline"], delta=0.051)
        self.assertAlmostEqual(number(cells[3]), suite["total_us"]["candidate"], delta=0.051)

    def test_what_verdicts_rest_on_is_noted_and_filters(self):
        self.page.open(pages.report("compare-measured") / "report.html")
        flips = pages.report_json("compare-measured")["flips"]
        keys = {"measured": "measured", "carried over": "carried_over", "local work": "local_work", "not judged": None}
        notes = """
            return [...document.querySelectorAll('#browser-flips > .scroll > table > tbody > tr.row')].map(
                (row) => row.children[0].querySelector('.note')?.textContent ?? 'not judged')"""
        counts = {text: sum(flip.get("rests_on") == key for flip in flips) for text, key in keys.items()}
        self.assertEqual(sum(counts.values()), len(flips))
        self.assertGreater(counts["carried over"], 0)
        self.assertGreater(counts["local work"] + counts["measured"], 0)
        for text, count in counts.items():
            if count == 0:
                continue
            with self.subTest(text):
                self.page.script(CHOOSE, "rests on", text)
                self.assertEqual(self.page.script(notes), [text] * min(200, count))
        self.page.script(CHOOSE, "rests on", "carried over")
        self.page.script("document.querySelector('#browser-flips .opener').click()")
        facts = self.page.script("return document.querySelector('#browser-flips tr.detail .facts').textContent")
        self.assertIn("carried over; calibrated-h100 has no measured rows of ", facts)

    def test_search_finds_questions_and_layouts_and_says_when_nothing_matches(self):
        question = self.flips[3]["question"]
        self.page.script(SEARCH, question.upper())
        self.assertEqual(self.count(), 1)
        self.page.script(SEARCH, "no such layout")
        self.assertEqual(self.count(), 0)
        self.assertIn("No flip matches", self.page.script("return document.querySelector('#browser-flips tbody').textContent"))
        self.page.script("document.querySelector('#browser-flips .controls button').click()")
        self.assertEqual(self.count(), min(200, len(self.flips)))

    def test_sorts_down_up_and_back(self):
        before = self.column(CHANGE)
        self.page.script(CLICK_HEAD, CHANGE)
        self.assertEqual(self.page.script(SORTS)[CHANGE], "descending")
        falling = [number(text) for text in self.column(CHANGE)]
        known = [value for value in falling if value is not None]
        self.assertEqual(known, sorted(known, reverse=True))
        self.assertEqual(falling[:len(known)], known, "what has no value comes last")
        self.page.script(CLICK_HEAD, CHANGE)
        self.assertEqual(self.page.script(SORTS)[CHANGE], "ascending")
        known = [number(text) for text in self.column(CHANGE)]
        self.assertEqual(known, sorted(known))
        self.page.script(CLICK_HEAD, CHANGE)
        self.assertEqual(set(self.page.script(SORTS)), {"none"})
        self.assertEqual(self.column(CHANGE), before)
        for column in (VERDICT, OP, MESH):
            self.page.script(CLICK_HEAD, column)
            self.assertEqual(self.page.script(SORTS).count("none"), 7, "one column at a time")

    def test_pages_hold_two_hundred_rows(self):
        self.assertGreater(len(self.flips), 200, "the sample should fill more than a page")
        self.page.script("document.querySelector('[aria-label=\"Next page\"]').click()")
        self.assertEqual(self.count(), len(self.flips) - 200)
        self.assertTrue(self.page.script("return document.querySelector('[aria-label=\"Next page\"]').disabled"))

    def test_a_row_opens_candidates_steps_and_what_flips_it(self):
        flip = self.flips[0]
        self.page.script("document.querySelector('#browser-flips .opener').click()")
        detail = self.page.script("""
            const detail = document.querySelector('#browser-flips tr.detail');
            return {facts: detail.querySelector('.facts').textContent,
                    tables: [...detail.querySelectorAll('table')].map((t) => [t.caption.textContent, t.tBodies[0].rows.length])}""")
        self.assertIn(flip["question"], detail["facts"])
        for stack in ("dtensor-v3", "shardlab"):
            self.assertIn(f"flips {stack} first", detail["facts"])
        rows = dict(detail["tables"])
        self.assertEqual(rows["The choices; the reference prices the path that the stack ran"], 3)
        both = ("baseline_detail", "candidate_detail")
        self.assertEqual([count for caption, count in rows.items() if caption.startswith("Candidates")],
                         [sum(len(flip[side]["candidates"]) for side in both)])
        self.assertEqual([count for caption, count in rows.items() if caption.startswith("Steps")],
                         [steps for steps in [sum(len(flip[side]["steps"]) for side in both)] if steps > 0])
        self.assertEqual(self.page.script("return document.querySelector('.opener').getAttribute('aria-expanded')"), "true")
        self.page.script("document.querySelector('#browser-flips .opener').click()")
        self.assertFalse(self.page.script("return document.querySelector('#browser-flips tr.detail') !== null"))

    def test_the_keyboard_reaches_sorts_and_opens(self):
        from selenium.webdriver.common.keys import Keys  # pylint: disable=import-outside-toplevel

        self.press(Keys.TAB)
        self.assertEqual(self.page.script("return document.activeElement.className"), "skip", "first stop")
        self.page.script("document.querySelectorAll('#browser-flips > .scroll > table > thead button')[1].focus()")
        self.press(Keys.ENTER)
        self.assertEqual(self.page.script(SORTS)[CHANGE], "descending")
        self.page.script("document.querySelector('#browser-flips .opener').focus()")
        outline = self.page.script("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertNotEqual(outline, "none", "the focus is seen")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.assertEqual(self.page.script("""
            const rows = [...document.querySelectorAll('#browser-flips > .scroll > table > tbody > tr.row')];
            return rows.findIndex((row) => row.classList.contains('open'))"""), 2)
        self.press(Keys.SPACE)
        self.assertFalse(self.page.script("return document.querySelector('#browser-flips tr.detail') !== null"))

    def test_a_series_of_a_chart_can_be_hidden(self):
        state = """
            const button = document.querySelector('.legend button');
            const canvas = button.closest('figure').querySelector('canvas');
            return [button.getAttribute('aria-pressed'), canvas.toDataURL()]"""
        pressed, with_it = self.page.script(state)
        self.page.script("document.querySelector('.legend button').click()")
        hidden, without_it = self.page.script(state)
        self.assertEqual((pressed, hidden), ("true", "false"))
        self.assertNotEqual(with_it, without_it)

    def test_twenty_thousand_questions_are_printed_how_long_they_take(self):
        """Prints times for people to read. Only the sizes are judged."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            pages.make_report(["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite", "ops-full"], out)
            seconds = self.page.open(out / "report.html")
            size = (out / "report.html").stat().st_size
            print(f"ops-full: {size / 1e6:.2f} MB of HTML open in {seconds:.2f} s", file=sys.stderr)
            self.assertLess(size, 5_000_000)
            self.assertEqual(self.page.complaints(), [])


def main():
    """Runs the tests with one browser for all."""
    pages.require_browser()
    with pages.browser() as page:
        Flips.page = page
        result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
