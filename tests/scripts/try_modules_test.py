#!/usr/bin/env python3
"""scripts/try_modules.py exports, solves and simulates modules, and says what went wrong. Skipped without PyTorch."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from oracle import ORACLE, ROOT, has_torch

SCRIPT = ROOT / "scripts" / "try_modules.py"
BINARY = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build" / "release" / "bin" / "shardlab"))


@unittest.skipUnless(has_torch(), "no PyTorch is installed")
class TryModules(unittest.TestCase):
    """The script on the modules that are PyTorch's own, since the tests install no other package."""

    def run_script(self, *words, binary=BINARY):
        return subprocess.run([ORACLE, "-B", str(SCRIPT), *words], capture_output=True, text=True, check=False,
                              timeout=240, env={**os.environ, "SHARDLAB_BINARY": binary})

    def test_says_what_becomes_of_each_module(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_script("transformer", "no-module", "--keep", folder)
            self.assertEqual(result.returncode, 2)
            self.assertIn('found module "no-module"; valid: llama, ', result.stderr)
            result = self.run_script("transformer", "lstm", "llama", "--keep", folder)
            kept = {path.name for path in Path(folder).iterdir()}
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
        for name in ("transformer", "lstm"):
            _, nodes, best_us, proved, _, wrong, *_ = rows[name]
            self.assertGreater(int(nodes), 100, name)
            self.assertGreater(float(best_us), 0.0, name)
            self.assertEqual((proved, wrong), ("yes", "0"), name)
            self.assertTrue({f"{name}.json", f"{name}.plan.json"} <= kept, kept)
        # A package that is missing is said, and is no fault. Whoever has it sees a row.
        self.assertRegex(result.stdout.splitlines()[-1], r"^llama +(is not exported: .*transformers|\d+ )")

    def test_fails_where_a_command_does(self):
        result = self.run_script("lstm", binary="/nonexistent/shardlab")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nonexistent/shardlab: No such file or directory", result.stdout)


if __name__ == "__main__":
    unittest.main()
