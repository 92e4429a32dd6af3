#!/usr/bin/env python3
"""scripts/profile_attention.py traces attention on the CPU, and refuses what it cannot do. Skipped without PyTorch."""

import gzip
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from oracle import ORACLE, ROOT, has_torch

SCRIPT = ROOT / "scripts" / "profile_attention.py"


@unittest.skipUnless(has_torch(), "no PyTorch is installed")
class ProfileAttention(unittest.TestCase):
    """The script as a user runs it."""

    def run_script(self, *words):
        command = [ORACLE, "-B", str(SCRIPT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    def test_traces_both_passes_of_each_shape(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "made" / "attention.json.gz"
            small = "--device cpu --min-seq 8 --max-seq 32 --tokens 64 --warmup 1 --runs 2".split()
            result = self.run_script(*small, "--out", str(out))
            self.assertEqual(result.returncode, 0, result.stderr)
            with gzip.open(out, "rt") as file:
                events = json.load(file)["traceEvents"]
        self.assertEqual(result.stdout, f"shardlab validate {out} --stack steps --rows\n")
        operator = "aten::_scaled_dot_product_flash_attention_for_cpu"
        forward = [e["args"]["Input Dims"][:3] for e in events if e.get("name") == operator]
        backward = [e for e in events if e.get("name") == operator + "_backward"]
        # Two widths of heads, three sequences and three odd ones, with and without a mask; and more keys than queries.
        self.assertEqual(len(forward), 2 * (2 * 6 * 2 + 2))
        self.assertEqual(len(backward), len(forward))
        self.assertIn([[2, 16, 32, 64]] * 3, forward)
        self.assertIn([[8, 32, 8, 128]] * 3, forward)
        self.assertIn([[2, 32, 29, 128]] * 3, forward)
        self.assertIn([[1, 32, 8, 128], [1, 32, 32, 128], [1, 32, 32, 128]], forward)

    def test_refuses_what_is_no_size(self):
        for words, message in (
            (["--tokens", "0"], "--tokens: found 0; valid: at least 1"),
            (["--warmup", "-1"], "--warmup: found -1; valid: at least 0"),
            (["--max-seq", "256"], "--min-seq must be at most --max-seq, and that at most --tokens"),
        ):
            result = self.run_script("--out", "unused.json", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(message, result.stderr)

    def test_needs_a_gpu_unless_it_rehearses(self):
        check = [ORACLE, "-c", "import sys, torch; sys.exit(torch.cuda.is_available())"]
        if subprocess.run(check, check=False).returncode != 0:
            self.skipTest("this machine has a GPU")
        result = self.run_script("--out", "unused.json")
        self.assertIn("profile_attention: found no GPU that PyTorch can use", result.stderr)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
