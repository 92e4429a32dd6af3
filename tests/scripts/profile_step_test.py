#!/usr/bin/env python3
"""scripts/profile_step.py trains and traces a small LLaMA on the CPU, and refuses what it cannot do. Skipped without PyTorch."""

import gzip
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from oracle import ORACLE, ROOT, has_torch

SCRIPT = ROOT / "scripts" / "profile_step.py"
SMALL = "--layers 2 --seq 32 --width 64 --heads 8 --kv-heads 2 --ffn 96 --vocabulary 128 --warmup 1 --steps 2".split()


@unittest.skipUnless(has_torch(), "no PyTorch is installed")
class ProfileStep(unittest.TestCase):
    """The script as a user runs it."""

    def run_script(self, *words):
        command = [ORACLE, "-B", str(SCRIPT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    def test_traces_steps_with_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "made" / "eager.json.gz"
            result = self.run_script("--device", "cpu", *SMALL, "--out", str(out))
            self.assertEqual(result.returncode, 0, result.stderr)
            with gzip.open(out, "rt") as file:
                events = json.load(file)["traceEvents"]
        steps = {e["name"] for e in events if str(e.get("name")).startswith("ProfilerStep#")}
        self.assertEqual(len(steps), 2, steps)
        products = [e["args"]["Input Dims"] for e in events if e.get("name") == "aten::mm"]
        # Forward, and backward by weight and by input: 7 products of each of 2 blocks, and that of the output.
        self.assertEqual(len(products), 2 * 3 * (2 * 7 + 1))
        self.assertIn([[32, 64], [64, 96]], [dims[:2] for dims in products])
        names = {e.get("name") for e in events}
        self.assertTrue({"aten::embedding", "aten::_fused_adamw_", "aten::_fused_rms_norm"} <= names)
        self.assertIn(
            "shardlab step llama3-8b --mesh fsdp=1 --sharding full --layers 2 --width 64 --heads 8 --kv-heads 2 --ffn 96 "
            f"--vocabulary 128 --seq 32 --micro-batch 1 --profile {out}\n",
            result.stdout,
        )

    def test_refuses_what_is_no_size(self):
        for words, message in (
            (["--layers", "0"], "--layers: found 0; valid: at least 1"),
            (["--warmup", "-1"], "--warmup: found -1; valid: at least 0"),
            (["--heads", "6"], "--heads: must divide --width, and --kv-heads must divide --heads"),
            (["--width", "96", "--heads", "32"], "--heads: the width of a head must be even"),
        ):
            result = self.run_script("--out", "unused.json", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(message, result.stderr)

    def test_needs_a_gpu_unless_it_rehearses(self):
        check = [ORACLE, "-c", "import sys, torch; sys.exit(torch.cuda.is_available())"]
        if subprocess.run(check, check=False).returncode != 0:
            self.skipTest("this machine has a GPU")
        result = self.run_script("--out", "unused.json", *SMALL)
        self.assertIn("profile_step: found no GPU that PyTorch can use", result.stderr)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
