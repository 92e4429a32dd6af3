#!/usr/bin/env python3
"""The recorded suites are what scripts/record_suite.py records today. Skipped without PyTorch 2.13.0."""

import json
import os
import re
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
            without_check = re.sub(r', "checked": \{[^}]*\}', "", committed.read_text())
            self.assertEqual(out.read_text().splitlines(), without_check.splitlines(),
                             f"record again: scripts/record_suite.py {program} --out {committed.name}")

    def test_tensor_parallel_suite_is_what_pytorch_asks_today(self):
        self.check("llama3-8b-tp")

    def test_tensor_parallel_alone_is_what_pytorch_asks_today(self):
        self.check("llama3-8b-tp-only")

    def test_the_experts_are_what_pytorch_asks_today(self):
        self.check("moe-ep")

    def test_a_script_is_recorded_with_its_lines(self):
        program = """import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
def step(mesh):
    x = DTensor.from_local(torch.empty(64, 512, device="meta"), mesh, [Replicate(), Shard(0)], run_check=False)
    y = torch.nn.functional.gelu(x)
    return y.to(torch.bfloat16).redistribute(mesh, [Replicate(), Replicate()])
"""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "mine.py"
            script.write_text(program)
            record = [oracle_python(), ROOT / "scripts" / "record_suite.py", "--script"]
            ran = subprocess.run([*record, f"{script}:step", "--mesh", "dp=2,tp=4"], check=True, capture_output=True,
                                 text=True)
            asked = [(q.get("op", q["kind"]), q["mesh"], q.get("args"), q["where"])
                     for q in json.loads(ran.stdout)["questions"]]
            self.assertEqual(asked, [
                ("aten.gelu.default", "2x4", [], "mine.py:5"),
                ("aten._to_copy.default", "2x4", ["bf16"], "mine.py:6"),
                ("plan", "2x4", None, "mine.py:6")])
            wrong = subprocess.run([*record, f"{script}:stp"], check=False, capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("mine.py has no function stp; valid: ", wrong.stderr)

    def test_fsdp_and_tensor_parallel_suite_is_what_pytorch_asks_today(self):
        self.check("llama3-8b-fsdp-tp")


if __name__ == "__main__":
    unittest.main()
