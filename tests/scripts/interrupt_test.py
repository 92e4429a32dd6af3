#!/usr/bin/env python3
"""Ctrl-C ends a long command with what is known by then, a plan or a part of the answers, and with the exit code 130."""

import json
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from console import BINARY

NOTE = re.compile(r"interrupted after (\d+) of (\d+) (questions|explanations|ops|cases|rows)")


def interrupted(*words: str) -> str:
    """What a command prints that gets SIGINT some time after its start.

    A signal that comes before the loop ends the command as any program: then the next try waits longer.
    """
    wait = 0.25
    while wait < 60:
        with subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
            time.sleep(wait)
            command.send_signal(signal.SIGINT)
            printed, errors = command.communicate()
        if command.returncode == 130:
            return printed
        if command.returncode != -signal.SIGINT:
            raise AssertionError(f"{words}: exit {command.returncode} after {wait} s\n{printed}{errors}")
        wait *= 1.5
    raise AssertionError(f"{words}: no loop that could be interrupted within {wait} s")


def left(wait: float, *words: str) -> tuple[str, float]:
    """What a command prints that gets SIGINT after some `wait` seconds, and how many seconds it takes to end.

    A signal that comes when the command has done its last item is tried again earlier. One that comes before the
    first loop, or between two, ends the command as any program, and is tried again later.
    """
    waits: list[float] = []
    for _ in range(12):
        waits.append(round(wait, 3))
        with subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
            time.sleep(wait)
            command.send_signal(signal.SIGINT)
            start = time.monotonic()
            printed, errors = command.communicate()
            seconds = time.monotonic() - start
        if command.returncode == 130:
            return printed, seconds
        if command.returncode == 0:
            wait *= 0.8
        elif command.returncode == -signal.SIGINT:
            wait *= 1.5
        else:
            break
    raise AssertionError(f"{words}: the last exit code is {command.returncode}; signals came after {waits} s\n{printed[:2000]}{errors}")


# The goal is 0.2 s. Tests share their machine with others.
AT_ONCE_S = 1.0


@unittest.skipUnless(BINARY, "SHARDLAB_BINARY names no program")
class Interrupted(unittest.TestCase):
    def done(self, printed: str) -> tuple[int, int]:
        note = NOTE.search(printed)
        self.assertIsNotNone(note, printed)
        done, total = int(note[1]), int(note[2])
        self.assertLess(done, total)
        return done, total

    def test_ties_counts_the_questions_that_it_asked(self):
        result = json.loads(
            interrupted("ties", "--suite", "ops-full", "--stack", "alpha-beta", "--jobs", "1", "--format", "json")
        )
        done, total = self.done(result["interrupted"])
        self.assertEqual(result["questions"], done)
        self.assertEqual(total, 23625)

    def test_compare_reports_on_the_questions_that_it_asked(self):
        with tempfile.TemporaryDirectory() as out:
            words = ["compare", "--baseline", "alpha-beta", "--candidate", "dtensor-v3g", "--suite", "ops-full"]
            printed = interrupted(*words, "--jobs", "1", "--out", out)
            done, _ = self.done(printed)
            if done > 0:
                record = json.loads((Path(out) / "record.json").read_text())
                self.assertIn("interrupted after", record["configuration"]["suites"][0]["source"])
                self.assertLessEqual(len(record["questions"]), done)
                self.assertTrue((Path(out) / "report.html").exists())

    def test_rules_lists_the_ops_that_it_proved(self):
        result = json.loads(interrupted("rules", "--jobs", "1", "--format", "json"))
        done, _ = self.done(result["interrupted"])
        self.assertEqual(len(result["ops"]) + len(result["refused"]), done)

    def test_regress_lists_the_cases_that_it_checked(self):
        result = json.loads(interrupted("regress", "--jobs", "1", "--format", "json"))
        done, _ = self.done(result["interrupted"])
        self.assertEqual(len(result["cases"]), done)
        self.assertEqual(result["failed"], 0)

    def test_a_case_that_runs_is_left(self):
        printed, seconds = left(1.0, "regress", "R18", "R03", "--jobs", "1", "--format", "json")
        result = json.loads(printed)
        done, _ = self.done(result["interrupted"])
        self.assertEqual(len(result["cases"]), done)
        self.assertLess(seconds, AT_ONCE_S)

    def test_a_fit_to_steps_says_that_nothing_is_fitted(self):
        printed, seconds = left(1.0, "calibrate", "--steps", "published", "--jobs", "1", "--format", "json")
        self.assertRegex(
            json.loads(printed)["interrupted"],
            r"^interrupted while fitting terms to \d+ published steps, before there was a result$",
        )
        self.assertLess(seconds, AT_ONCE_S)

    def test_recipes_are_compared_as_far_as_they_are_known(self):
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "llama.json")
            subprocess.run([BINARY, "program", "llama3-8b", "--out", program], check=True)
            printed = interrupted("solve", program, "--mesh", "8x8", "--compare-recipes", "--format", "json")
            result = json.loads(printed)
            if "recipes" in result:
                note = re.fullmatch(r"interrupted after (\d+) of (\d+) recipes", result["interrupted"])
                self.assertEqual(len(result["recipes"]), int(note[1]))
                self.assertEqual(result["recipes"][0]["name"], "optimum")
            else:
                self.assertIn("while comparing recipes, before there was a result", result["interrupted"])

    def test_solve_takes_the_best_plan_that_it_has(self):
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "llama.json")
            subprocess.run([BINARY, "program", "llama3-8b", "--out", program], check=True)
            words = ["solve", program, "--mesh", "2x4x8", "--format", "json", "--quiet"]
            wait = 1.0
            while wait < 60:
                command = subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, text=True)
                time.sleep(wait)
                command.send_signal(signal.SIGINT)
                printed, _ = command.communicate()
                # The program was still read, or its strategies were being listed.
                if command.returncode != -signal.SIGINT:
                    break
                wait *= 1.5
            self.assertEqual(command.returncode, 130)
            plan = json.loads(printed)
            self.assertFalse(plan["optimal"])
            self.assertIn("the search was interrupted; this is the best plan that it had", plan["notes"])
            self.assertGreater(plan["lower_bound_us"], 0.5 * plan["objective_us"])
            self.assertLess(plan["lower_bound_us"], plan["objective_us"])

    def test_a_program_is_compared_as_far_as_it_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "llama.json")
            subprocess.run([BINARY, "program", "llama3-8b", "--layers", "4", "--out", program], check=True)
            words = ["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--program", program]
            printed, seconds = left(1.0, *words, "--mesh", "8x8", "--format", "json")
            self.assertIn("interrupted", json.loads(printed))
            self.assertLess(seconds, AT_ONCE_S)

    def test_a_sweep_goes_on_where_it_was_interrupted(self):
        with tempfile.TemporaryDirectory() as out:
            experiment = Path(out) / "experiment.json"
            experiment.write_text(
                json.dumps(
                    {
                        "schema": "shardlab/experiment/1",
                        "name": "long",
                        "title": "Long enough to be interrupted",
                        "topologies": ["h100"],
                        "suites": ["ops-full"],
                        "stacks": ["dtensor-v3", "alpha-beta"],
                        "reference": "alpha-beta",
                    }
                )
            )
            words = ["sweep", str(experiment), "--out", str(Path(out) / "sweep"), "--jobs", "1"]
            self.assertIn("--resume goes on", interrupted(*words))
            rows = len((Path(out) / "sweep" / "part-0001-of-0001.jsonl").read_text().splitlines()) - 1
            words += ["--resume", "--format", "json"]
            resumed = json.loads(subprocess.run([BINARY, *words], stdout=subprocess.PIPE, check=True).stdout)
            self.assertEqual(resumed["resumed_rows"], rows)
            self.assertLess(rows, resumed["rows"])
            self.assertTrue(resumed["complete"])


if __name__ == "__main__":
    unittest.main()
