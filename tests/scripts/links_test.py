#!/usr/bin/env python3
"""Links and anchors of all Markdown files, as scripts/site_pages.py checks them, and what those checks find."""

import tempfile
import unittest
from pathlib import Path

import site_pages


class Links(unittest.TestCase):
    def test_no_page_of_the_tree_has_a_dead_link(self):
        pages = site_pages.markdown_files()
        self.assertGreater(len(pages), 30)
        self.assertGreater(sum(len(site_pages.links(page.read_text())) for page in pages), 200)
        self.assertEqual([line for page in pages for line in site_pages.dead_links(page, page.read_text())], [])

    def test_every_page_of_docs_is_on_the_map_of_the_site(self):
        site_map = (site_pages.ROOT / "mkdocs.yml").read_text()
        for page in (site_pages.ROOT / "docs").glob("*.md"):
            self.assertIn(f": {page.name}\n", site_map, page.name)

    def test_every_finding_has_a_link_in_the_docs(self):
        pages = [site_pages.ROOT / "README.md", *(site_pages.ROOT / "docs").rglob("*.md")]
        linked = {(page.parent / link.group(2).split("#")[0]).resolve() for page in pages for link in site_pages.links(page.read_text())}
        findings = list((site_pages.ROOT / "reports" / "findings").glob("*.md"))
        self.assertGreater(len(findings), 10)
        unread = sorted(each.name for each in findings if each.resolve() not in linked)
        self.assertEqual(unread, [], "a sentence of docs, or of README.md, has to lead to each finding")

    def test_a_dead_link_and_a_dead_anchor_are_found(self):
        page = site_pages.ROOT / "docs" / "no-such-page.md"
        text = "# Title: a `b`\n\n[a](limits.md) [b](#title-a-b) [c](https://no.such) `[d](gone.md)`\n"
        self.assertEqual(site_pages.dead_links(page, text), [])
        self.assertEqual(site_pages.dead_links(page, text + "```text\n[e](gone.md)\n```\n"), [])
        self.assertEqual(site_pages.dead_links(page, text + "[f](gone.md)\n"),
                         ["docs/no-such-page.md:4: gone.md: there is no such file"])
        self.assertEqual(site_pages.dead_links(page, text + "[f](#gone) [g](limits.md#gone)\n"),
                         ["docs/no-such-page.md:4: #gone: the page has no such heading",
                          "docs/no-such-page.md:4: limits.md#gone: the page has no such heading"])

    def test_anchors_are_those_of_github(self):
        text = "# Recorded choices: `shardlab/choices/1`\n## A - b\n## Twice\n## Twice\n```\n# no heading\n```\n### [A link](x.md) here\n"
        self.assertEqual(site_pages.anchors(text),
                         {"recorded-choices-shardlabchoices1", "a---b", "twice", "twice-1", "a-link-here"})

    def test_the_built_site_is_checked_too(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.html").write_text('<h1 id="x">X</h1><a href="b.html#y">b</a><a href="#x">x</a>'
                                                 '<script src="https://elsewhere/x.js"></script><img src="no.svg">')
            (Path(folder) / "b.html").write_text('<a href="a.html#x">a</a><a href="c.html">c</a>')
            self.assertEqual(site_pages.wrong_in_site(Path(folder)), [
                "a.html: b.html#y: the page has no such anchor",
                "a.html: fetches https://elsewhere/x.js from elsewhere",
                "a.html: no.svg: there is no such file on the site",
                "b.html: c.html: there is no such file on the site"])


if __name__ == "__main__":
    unittest.main()
