#!/usr/bin/env python3
"""The pictures of reports, which are SVG: nothing overlaps or leaves its picture, names can be read in light, dark and
on paper, and a picture that is wider than a narrow window scrolls in its box and says so."""

import pathlib
import sys
import unittest

import pages

# Texts of a picture whose boxes overlap each other or leave the picture by more than a pixel.
MISPLACED = """
const bad = [];
for (const svg of document.querySelectorAll('.picture svg[role=img]')) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map((node) => [node, node.getBoundingClientRect()]);
  for (const [node, box] of texts) {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      bad.push(`outside: ${node.textContent}`);
  }
  for (let i = 0; i < texts.length; ++i) for (let j = 0; j < i; ++j) {
    const [a, b] = [texts[i][1], texts[j][1]];
    if (a.left + 1 < b.right && b.left + 1 < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
      bad.push(`overlap: ${texts[i][0].textContent} / ${texts[j][0].textContent}`);
  }
  for (const text of svg.querySelectorAll('text.on-bar, text.on-wait')) {
    const bar = text.parentNode.querySelector('rect').getBoundingClientRect();
    const box = text.getBoundingClientRect();
    if (box.left < bar.left - 1 || box.right > bar.right + 1) bad.push(`wider than its bar: ${text.textContent}`);
  }
}
return bad;
"""

# Contrast of each text with what is drawn behind it: the shape before it in its group, or the page.
CONTRASTS = """
const lum = ([r, g, b]) => {
  const one = (v) => { const s = v / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
};
const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const mix = (top, share, below) => top.map((v, i) => v * share + below[i] * (1 - share));
const poor = [];
for (const text of document.querySelectorAll('.picture svg[role=img] text')) {
  const figure = rgb(getComputedStyle(text.closest('figure')).backgroundColor);
  let ground = figure;
  const box = text.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  for (const shape of text.closest('.scroll').querySelectorAll('rect, path.area')) {
    if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
    const at = shape.getBoundingClientRect();
    if (x < at.left || x > at.right || y < at.top || y > at.bottom) continue;
    const style = getComputedStyle(shape);
    if (style.fill === 'none') continue;
    ground = mix(rgb(style.fill), Number(style.fillOpacity), ground);
  }
  const [a, b] = [lum(rgb(getComputedStyle(text).fill)), lum(ground)];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} "${text.textContent}"`);
}
return [...new Set(poor)];
"""

# Pictures that are wider than their box without saying so, or that say so and are not.
HINTS = """
return [...document.querySelectorAll('.picture')].filter((figure) => {
  const box = figure.querySelector('.scroll');
  const scrolls = box.scrollWidth > box.clientWidth + 1;
  const says = getComputedStyle(figure.querySelector('.hint')).display !== 'none';
  return scrolls !== says;
}).map((figure) => figure.id);
"""

# Pictures without a single shape that is wider and higher than a pixel.
EMPTY = """
return [...document.querySelectorAll('.picture svg[role=img]')].filter((svg) =>
  ![...svg.querySelectorAll('rect:not(.lane), path, circle')].some((shape) => {
    const box = shape.getBoundingClientRect();
    return box.width > 1 && box.height > 1;
  })).map((svg) => svg.getAttribute('aria-label'));
"""

# The reports that have pictures, and which.
PICTURES = {
    "solve": ["picture-memory"],
    "solve-asked": ["picture-memory"],
    "simulate": ["picture-run", "picture-mesh"],
    "simulate-slow": ["picture-run", "picture-mesh"],
    "simulate-many": ["picture-run", "picture-mesh"],
    "plan": ["picture-layouts"],
    "plan-partial": ["picture-layouts"],
    "plan-large": ["picture-layouts"],
}


class Pictures(unittest.TestCase):
    """Each test walks through all reports that have pictures."""

    page: pages.Page

    def each(self, **emulation):
        """Opens one report after another."""
        for name in PICTURES:
            with self.subTest(report=name, **emulation):
                self.page.open(pages.report(name) / "report.html", **emulation)
                yield name

    def test_every_report_has_its_pictures_and_none_is_empty(self):
        for name in self.each():
            self.assertEqual(self.page.script("return [...document.querySelectorAll('.picture')].map((f) => f.id)"),
                             PICTURES[name])
            self.assertEqual(self.page.script(EMPTY), [])

    def test_captions_are_sentences(self):
        for _ in self.each():
            for caption in self.page.script("return [...document.querySelectorAll('.picture figcaption')].map((c) => c.textContent)"):
                self.assertRegex(caption, r"^[A-Z].* .*\.$")

    def test_nothing_overlaps_or_leaves_its_picture(self):
        for width in (1280, 400):
            for _ in self.each(width=width):
                self.assertEqual(self.page.script(MISPLACED), [])

    def test_names_are_legible_in_light_and_dark_and_on_paper(self):
        for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
            for _ in self.each(scheme=scheme, media=media):
                self.assertEqual(self.page.script(CONTRASTS), [])

    def test_a_wide_picture_scrolls_in_its_box_and_says_so(self):
        for width in (1280, 820, 400):
            for _ in self.each(width=width):
                self.assertEqual(self.page.script("return document.documentElement.scrollWidth"), width)
                self.assertEqual(self.page.script(HINTS), [])

    def test_even_axes_begin_at_zero(self):
        self.page.open(pages.report("solve-asked") / "report.html")
        axes = self.page.script("""return [...document.querySelectorAll('.plot canvas')].map((canvas) => Chart.getChart(canvas))
            .filter((chart) => chart.config.type === 'line')
            .flatMap((chart) => [chart.scales.x, chart.scales.y]).filter((axis) => axis.type === 'linear').map((axis) => axis.min)""")
        self.assertEqual(axes, [0, 0])

    def test_a_device_is_a_tile_whose_fill_is_to_scale(self):
        self.page.open(pages.report("plan") / "report.html")
        shares = self.page.script("""return [...document.querySelectorAll('.stage')].map((stage) =>
            [...stage.querySelectorAll('g')].map((tile) => {
              const whole = tile.querySelector('.tensor').getBoundingClientRect();
              const parts = [...tile.querySelectorAll('.held')].map((held) => held.getBoundingClientRect());
              return parts.reduce((sum, box) => sum + box.width * box.height, 0) / (whole.width * whole.height);
            }))""")
        expected = [1 / 8, 1 / 8, 1 / 4, 1 / 4]  # S(0)S(0), S(0)S(1), RS(1) and RS(0) on 2 x 4 devices
        self.assertEqual([len(stage) for stage in shares], [8] * len(expected))
        for stage, share in zip(shares, expected):
            for tile in stage:
                self.assertAlmostEqual(tile, share, delta=0.25 * share)  # the outline is a pixel wide

    def test_parts_replicas_and_partial_sums_differ_by_more_than_colour(self):
        self.page.open(pages.report("plan-partial") / "report.html")
        stages = self.page.script("""return [...document.querySelectorAll('.stage')].map((stage) => ({
            layout: stage.querySelector('code').textContent,
            labels: [...stage.querySelectorAll('text.small')].map((text) => text.textContent),
            striped: stage.querySelectorAll('.stripes').length,
            frames: stage.querySelectorAll('.frame').length}))""")
        self.assertEqual([stage["layout"] for stage in stages], ["S(0)P(sum)", "S(0)S(1)", "RS(1)"])
        self.assertEqual([stage["striped"] for stage in stages], [8, 0, 0])
        self.assertEqual([stage["frames"] for stage in stages], [2, 4, 0])  # rows reduce, then columns gather
        self.assertIn("sum 2/4", stages[0]["labels"])
        self.assertEqual(stages[2]["labels"], ["1", "2", "3", "4"] * 2)

    def test_a_slice_of_a_large_mesh_says_so(self):
        self.page.open(pages.report("plan-large") / "report.html")
        text = self.page.script("return document.querySelector('#planned_layouts').textContent")
        self.assertIn("Only 64 devices of 4,096 are drawn", text)
        self.assertEqual(self.page.script("return document.querySelector('.stage').querySelectorAll('.tile').length"), 64)

    def test_stages_stand_below_each_other_in_a_narrow_window_and_beside_each_other_in_a_wide_one(self):
        tops = "return [...document.querySelectorAll('.stage')].map((stage) => stage.getBoundingClientRect().top)"
        self.page.open(pages.report("plan") / "report.html", width=400)
        narrow = self.page.script(tops)
        self.assertEqual(len(set(narrow)), len(narrow))
        self.page.open(pages.report("plan") / "report.html", width=1280)
        self.assertLess(len(set(self.page.script(tops))), len(narrow))

    def test_a_wait_is_lighter_than_a_task_and_named(self):
        self.page.open(pages.report("simulate-slow") / "report.html")
        waits = self.page.script("""return [...document.querySelectorAll('rect.waits')].map((rect) =>
            [rect.parentNode.querySelector('title')?.textContent, Number(getComputedStyle(rect).fillOpacity)])""")
        named = [name for name, _ in waits if name]
        self.assertTrue(any(name.startswith("waits for rank ") for name in named), named)
        self.assertTrue(all(opacity < 0.5 for _, opacity in waits), waits)


def main():
    """Runs the tests with one browser for all."""
    pages.require_browser()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    with pages.browser() as page:
        Pictures.page = page
        result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
