#!/usr/bin/env python3
"""Every question of the shipped suites is one that PyTorch has accepted."""

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_questions.py"


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


def script():
    spec = importlib.util.spec_from_file_location("check_questions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CheckedSuites(unittest.TestCase):
    def test_each_suite_says_which_pytorch_has_accepted_the_questions_that_it_has_today(self):
        check = script()
        paths = sorted((ROOT / "configs" / "suites").glob("*.json"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(path.stem):
                checked = json.loads(path.read_text())["checked"]
                questions = check.questions_of(path.stem)
                self.assertEqual(checked, {"torch": "2.13.0", "questions": len(questions),
                                           "digest": check.digest_of(questions)},
                                 f"ask again: build/oracle/bin/python scripts/check_questions.py {path.stem} --record")

    def test_a_digest_follows_what_is_asked_and_nothing_else(self):
        check = script()
        question = {"id": "a", "kind": "select", "op": "aten.neg.default", "mesh": "8", "inputs": ["f32[8] R"],
                    "args": [], "count": 1}
        same = {**question, "id": "b", "count": 3, "where": "x.py:1"}
        self.assertEqual(check.digest_of([question]), check.digest_of([same]))
        self.assertNotEqual(check.digest_of([question]), check.digest_of([{**question, "inputs": ["f32[9] R"]}]))


@unittest.skipUnless(oracle_python(), "no PyTorch: run scripts/setup --with-oracle")
class LiveCheck(unittest.TestCase):
    def ask(self, *words):
        return subprocess.run([oracle_python(), SCRIPT, *words], check=False, capture_output=True, text=True)

    def test_pytorch_accepts_the_questions_of_suites(self):
        ran = self.ask("ops-small", "moe-ep")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(ran.stdout, "ops-small: PyTorch 2.13.0 accepts 816 of 816\n"
                                     "moe-ep: PyTorch 2.13.0 accepts 77 of 77\n")

    def test_what_pytorch_refuses_is_printed_with_its_reason(self):
        suite = {"schema": "shardlab/suite/1", "name": "bad", "questions": [
            {"id": "predicate", "kind": "select", "op": "aten.where.self", "mesh": "8",
             "inputs": ["f32[8] R", "f32[8] R", "f32[8] R"], "args": []},
            {"id": "fine", "kind": "plan", "mesh": "8", "tensor": "f32[8]", "from": "S(0)", "to": "R"}]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.json"
            path.write_text(json.dumps(suite))
            ran = self.ask(str(path))
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn("accepts 1 of 2", ran.stdout)
        self.assertIn("predicate", ran.stdout)
        self.assertIn("expected predicate to be bool", ran.stdout)
        self.assertNotIn("fine", ran.stdout)


if __name__ == "__main__":
    unittest.main()
