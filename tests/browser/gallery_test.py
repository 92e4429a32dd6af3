#!/usr/bin/env python3
"""The screenshots in reports/gallery/ show what the reports say and look like today."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_gallery  # noqa: E402  pylint: disable=wrong-import-position
import pages  # noqa: E402  pylint: disable=wrong-import-position

ADVICE = "is stale; run scripts/make_gallery.py and look at the pictures"


class Gallery(unittest.TestCase):
    def setUp(self):
        self.noted = json.loads((make_gallery.GALLERY / "gallery.json").read_text(encoding="utf-8"))

    def test_is_of_todays_page_and_reports(self):
        self.assertEqual(self.noted["page_sha256"], make_gallery.digest_of_page(), f"the gallery {ADVICE}")
        with tempfile.TemporaryDirectory() as folder:
            today = make_gallery.notes(make_gallery.reports(pathlib.Path(folder)))
        self.assertEqual(self.noted["pictures"].keys(), today["pictures"].keys())
        for name, picture in today["pictures"].items():
            self.assertEqual(self.noted["pictures"][name], picture, f"{name} {ADVICE}")

    def test_pictures_are_small_pngs_and_all_are_noted(self):
        files = sorted(path.name for path in make_gallery.GALLERY.glob("*.png"))
        self.assertEqual(files, sorted(self.noted["pictures"]))
        for name in files:
            data = (make_gallery.GALLERY / name).read_bytes()
            self.assertTrue(data.startswith(b"\x89PNG\r\n"), name)
            self.assertLess(len(data), 200_000, name)


if __name__ == "__main__":
    pages.program()
    unittest.main()
