#!/usr/bin/env python3
"""What holds for every report, whichever command wrote it: it opens from a file without a complaint, draws its
charts, fits the window, reads in light and dark, prints, and can be used without a mouse or without eyes."""

import pathlib
import sys
import unittest

import pages

WIDTHS = (1280, 420)

# Contrast as the Web Content Accessibility Guidelines 2.1 define it (relative luminance, then (a + 0.05) / (b + 0.05)).
CONTRASTS = """
const lum = (rgb) => {
  const [r, g, b] = rgb.map((v) => { const s = v / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const rgb = (text) => { const parts = text.match(/[\\d.]+/g).map(Number); return {rgb: parts.slice(0, 3), a: parts.length > 3 ? parts[3] : 1}; };
const ground = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const color = rgb(getComputedStyle(at).backgroundColor);
    if (color.a > 0) return color.rgb;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.querySelectorAll('main *, header *, nav *')) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim() !== '');
  if (!own || node.offsetParent === null || node.closest('button:disabled')) continue;
  const [a, b] = [lum(rgb(getComputedStyle(node).color).rgb), lum(ground(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${node.tagName}.${node.className}: ${ratio.toFixed(2)} "${node.textContent.slice(0, 30)}"`);
}
return [...new Set(poor)];
"""

# Finds charts without a single painted pixel, and charts whose pixels are all alike.
BLANK_CHARTS = """
return [...document.querySelectorAll('.plot canvas')].filter((canvas) => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length && seen.size < 3; i += 4) if (data[i + 3] > 0) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size < 3;
}).map((canvas) => canvas.id);
"""

UNNAMED = """
const name = (node) => (node.getAttribute('aria-label') || node.textContent || '').trim();
const bad = [];
for (const button of document.querySelectorAll('button, summary, a')) if (name(button) === '') bad.push(button.outerHTML.slice(0, 80));
for (const field of document.querySelectorAll('select, input')) if (!field.closest('label') || name(field.closest('label')) === '') bad.push(field.outerHTML.slice(0, 80));
for (const table of document.querySelectorAll('table')) if (!table.caption || table.caption.textContent.trim() === '') bad.push('table without caption: ' + table.textContent.slice(0, 60));
for (const head of document.querySelectorAll('th')) if (!head.hasAttribute('scope')) bad.push('th without scope: ' + head.textContent);
for (const canvas of document.querySelectorAll('.plot canvas')) if (canvas.getAttribute('role') !== 'img' || !canvas.getAttribute('aria-label')) bad.push('canvas ' + canvas.id);
for (const region of document.querySelectorAll('[role=region]')) if (region.tabIndex !== 0 || name(region) === '') bad.push('region ' + region.outerHTML.slice(0, 60));
const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push('id twice: ' + id);
return [...new Set(bad)];
"""

OPEN_ALL = "document.querySelectorAll('details').forEach((details) => { details.open = true; });"


class EveryReport(unittest.TestCase):
    """Each test walks through all of pages.REPORTS."""

    page: pages.Page

    def each(self, **emulation):
        """Opens one report after another."""
        for name in pages.REPORTS:
            with self.subTest(report=name, **emulation):
                self.page.open(pages.report(name) / "report.html", **emulation)
                yield name

    def test_opens_from_a_file_without_complaint_or_request(self):
        for _ in self.each():
            self.page.script(OPEN_ALL)
            self.page.settle()
            self.assertEqual(self.page.complaints(), [])
            self.assertEqual(self.page.script("return performance.getEntriesByType('resource').map((e) => e.name)"), [])

    def test_begins_with_the_answer_and_four_figures(self):
        for name in self.each():
            self.assertEqual(self.page.script("return document.querySelector('.lede').textContent.trim().replaceAll('\u00a0', ' ')"),
                             pages.report_json(name)["summary"])
            self.assertEqual(self.page.script(
                "return document.querySelector('main > section .figures').children.length"), 4)

    def test_every_chart_draws(self):
        for scheme in ("light", "dark"):
            charts = 0
            for _ in self.each(scheme=scheme):
                self.page.script(OPEN_ALL)
                self.page.settle()
                charts += self.page.script("return document.querySelectorAll('.plot canvas').length")
                self.assertEqual(self.page.script(BLANK_CHARTS), [])
            self.assertGreater(charts, 0)

    def test_numbers_of_charts_stand_in_tables(self):
        for _ in self.each():
            self.assertEqual(self.page.script("""
                return [...document.querySelectorAll('figure.chart')].filter((figure) =>
                  !figure.querySelector('.numbers table tbody tr') && !figure.closest('section').querySelector('table tbody tr'))
                  .map((figure) => figure.textContent)"""), [])

    def test_fits_the_window(self):
        for width in WIDTHS:
            for _ in self.each(width=width):
                self.page.script(OPEN_ALL)
                self.page.script("document.querySelectorAll('tr.row .opener').forEach((b, i) => { if (i < 2) b.click(); })")
                self.page.settle()
                self.assertEqual(self.page.script("return document.documentElement.scrollWidth"), width)

    def test_text_is_legible_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            for _ in self.each(scheme=scheme):
                self.page.script(OPEN_ALL)
                self.page.script("document.querySelectorAll('tr.row .opener').forEach((b, i) => { if (i < 1) b.click(); })")
                self.assertEqual(self.page.script(CONTRASTS), [])

    def test_dark_is_dark_and_light_is_light(self):
        for scheme, is_dark in (("light", False), ("dark", True)):
            for _ in self.each(scheme=scheme):
                red = self.page.script("return Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
                self.assertEqual(red < 128, is_dark)

    def test_everything_has_a_name_and_tables_have_captions(self):
        for _ in self.each():
            self.page.script("document.querySelectorAll('tr.row .opener').forEach((b, i) => { if (i < 2) b.click(); })")
            self.assertEqual(self.page.script(UNNAMED), [])

    def test_headings_go_down_one_level_at_a_time(self):
        for _ in self.each():
            levels = self.page.script("return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
            self.assertEqual(levels[0], 1)
            self.assertEqual(levels.count(1), 1)
            for before, after in zip(levels, levels[1:]):
                self.assertLessEqual(after, before + 1)

    def test_prints_light_and_without_controls(self):
        for _ in self.each(scheme="dark"):
            self.page.emulate(media="print", scheme="dark")
            self.assertEqual(self.page.script("""
                return [...document.querySelectorAll('nav, .controls, .pager')].filter((n) => n.offsetParent !== null).length"""), 0)
            self.assertEqual(self.page.script("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
            self.assertTrue(self.page.pdf().startswith(b"%PDF"))

    def test_is_below_its_limits(self):
        for name in pages.REPORTS:
            files = pages.report(name)
            self.assertLess((files / "report.html").stat().st_size, 5_000_000)
            self.assertLess((files / "report.md").stat().st_size, 60_000)


def main():
    """Runs the tests with one browser for all."""
    pages.require_browser()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    with pages.browser() as page:
        EveryReport.page = page
        result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
