#!/usr/bin/env python3
"""The recorded suites are what scripts/record_suite.py records today. Needs PyTorch 2.13.0; skipped without it."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


@unittest.skipUnless(oracle_python(), "no PyTorch: run scripts/setup --with-oracle")
class RecordedSuites(unittest.TestCase):
    def check(self, program):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "suite.json"
            subprocess.run([oracle_python(), ROOT / "scripts" / "record_suite.py", program, "--out", out],
                           check=True, capture_output=True)
            committed = ROOT / "configs" / "suites" / f"{program}.json"
            self.assertEqual(out.read_text().splitlines(), committed.read_text().splitlines(),
                             f"record again: scripts/record_suite.py {program} --out {committed.name}")

    def test_tensor_parallel_suite_is_what_pytorch_asks_today(self):
        self.check("llama3-8b-tp")

    def test_fsdp_and_tensor_parallel_suite_is_what_pytorch_asks_today(self):
        self.check("llama3-8b-fsdp-tp")


if __name__ == "__main__":
    unittest.main()
