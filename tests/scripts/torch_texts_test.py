#!/usr/bin/env python3
"""The recorded texts of PyTorch are what its releases print today. Skipped where a release is not installed."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASES = {"2.13": "oracle", "2.14": "oracle-2.14.1", "2.15": "oracle-2.15.0"}


class RecordedTexts(unittest.TestCase):
    def test_every_installed_release_prints_what_is_recorded(self):
        installed = {release: ROOT / "build" / folder / "bin" / "python" for release, folder in RELEASES.items()}
        installed = {release: python for release, python in installed.items() if python.exists()}
        if not installed:
            self.skipTest("no PyTorch: run scripts/setup --with-oracle")
        for release, python in installed.items():
            committed = ROOT / "tests" / "differential" / "golden" / release / "texts.json"
            with self.subTest(release=release), tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "texts.json"
                subprocess.run([python, ROOT / "scripts" / "record_torch_texts.py", "--out", out], check=True,
                               capture_output=True)
                self.assertEqual(json.loads(out.read_text()), json.loads(committed.read_text()))


if __name__ == "__main__":
    unittest.main()
