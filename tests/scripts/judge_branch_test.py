#!/usr/bin/env python3
"""scripts/judge_branch compares two revisions of a PyTorch checkout. Skipped without PyTorch."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from console import BINARY, ROOT

SCRIPT = ROOT / "scripts" / "judge_branch"


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


def judge(*words):
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "SHARDLAB_BINARY": str(BINARY)})


class Usage(unittest.TestCase):
    def test_mistakes_are_named(self):
        self.assertIn("found 1 revisions; valid: BASE and HEAD", judge("main").stderr)
        self.assertIn("--checkout, --python and --out are required", judge("a", "b").stderr)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "init", "-q", folder], check=True)
            judged = judge("no-such", "b", "--checkout", folder, "--python", "python3", "--out", f"{folder}/out")
            self.assertEqual(judged.returncode, 2)
            self.assertIn("has no revision no-such", judged.stderr)


@unittest.skipUnless(oracle_python() and BINARY, "no PyTorch: run scripts/setup --with-oracle")
class Branches(unittest.TestCase):
    def test_the_comment_and_the_report_name_what_a_branch_flips(self):
        where = subprocess.run(
            [oracle_python(), "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
            capture_output=True, text=True, check=True).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            checkout, out = pathlib.Path(folder) / "pytorch", pathlib.Path(folder) / "out"
            package = checkout / "torch" / "distributed" / "tensor"
            shutil.copytree(pathlib.Path(where) / "distributed" / "tensor", package,
                            ignore=shutil.ignore_patterns("__pycache__"))

            def git(*words):
                subprocess.run(["git", "-C", checkout, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True,
                               capture_output=True)

            git("init", "-q")
            git("add", "-A")
            git("commit", "-qm", "the release")
            costs = package / "_collective_utils.py"
            before, after = costs.read_text().split("def allreduce_cost", 1)
            costs.write_text(before + "def allreduce_cost" + after.replace("latency = 6.6", "latency = 66.6", 1))
            git("commit", "-qam", "dearer all-reduces")
            judged = judge("HEAD~1", "HEAD", "--checkout", str(checkout), "--python", oracle_python(), "--out", str(out),
                           "--suite", "ops-small", "--verify", "2", "--quiet")
            self.assertEqual(judged.returncode, 0, judged.stderr)
            comment = (out / "comment.md").read_text()
            self.assertEqual(comment, judged.stdout)
            self.assertRegex(comment, r"flips [1-9][0-9]* of \d+ decisions")
            self.assertIn("allreduce_cost", (out / "report.md").read_text())
            self.assertTrue((out / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
