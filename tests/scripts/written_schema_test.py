#!/usr/bin/env python3
"""What every command writes is valid by its schema. Schema and program alike refuse a document that is damaged.

The tests need jsonschema (Debian: python3-jsonschema) and SHARDLAB_BINARY, and are skipped without them.
"""

import collections
import copy
import json
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas import BINARY, UNKNOWN, jsonschema, run, validator, with_unknown_key

KINDS = ["compare", "ties", "validate", "solve", "simulate", "plan"]
# Two decisions that dtensor-v3-rp takes differently, one that neither stack can take, and a plan.
SUITE = {
    "schema": "shardlab/suite/1", "name": "few",
    "questions": [
        {"id": "a", "kind": "select", "op": "aten.add.Tensor", "mesh": "2x4",
         "inputs": ["bf16[12,13,13] RS(0)", "bf16[12,13,13] P(avg)S(2)"]},
        {"id": "b", "kind": "select", "op": "aten.addmm.default", "mesh": "2x2x2",
         "inputs": ["f32[4096] S(0)RP(max)", "f32[4096,4096] RRP(sum)", "f32[4096,4096] RRR"]},
        {"id": "c", "kind": "select", "op": "aten.cat.default", "mesh": "8x8",
         "inputs": ["[f32[32,32] P(sum)S(0); f32[32,32] P(max)R]"], "args": [0]},
        {"id": "d", "kind": "plan", "mesh": "2x4", "tensor": "f32[64,32]", "from": "S(0)R", "to": "RS(1)"}]}
EXPERIMENT = {"schema": "shardlab/experiment/1", "topologies": ["h100"], "suites": ["few.json"],
              "stacks": ["dtensor-v3", "dtensor-v3-rp"]}
# A cost function of a user's, which makes records and reports say where their answers are from.
COST = "def price(collective, bytes, group):\n    return 10.0 + group.ranks + bytes / 1e5\n"
RUNS = {
    "compare": ["--baseline", "dtensor-v3", "--candidate", "dtensor-v3-rp", "--suite", "few.json"],
    "ties": ["--suite", "few.json"],
    "validate": ["h100_1x8_all_reduce_dgxc", "--stack", "alpha-beta"],
    "solve": ["mlp", "--mesh", "2x4", "--margins", "--best", "2", "--explain", "S(0)R", "--diff", "plan.json",
              "--greedy", "--sensitivity", "--budget-curve", "3", "--then", "h=RR"],
    "simulate": ["--mesh", "2x4", "--tensor", "f32[16,8]", "--from", "S(0)P(sum)", "--to", "RS(1)"],
    "plan": ["--mesh", "2", "--tensor", "f32[16,8]", "--from", "P(sum)", "--to", "S(1)", "--against", "alpha-beta"]}
# The program reads only a part of these, or nothing: the configuration is shown as it is, and what validate says of
# errors is computed again from its rows.
UNREAD = ["configuration/topology", "configuration/stacks/", "result/by", "result/worst/"]


def shardlab(folder: Path, arguments: list[str], exit_code: int = 0) -> str:
    done = subprocess.run([BINARY, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != exit_code:
        raise AssertionError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def without_a_key(document: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a document, each without one key of one of its objects."""
    for pointer, marked in with_unknown_key(document):
        at = marked
        for part in pointer.split("/") if pointer else []:
            at = at[int(part) if isinstance(at, list) else part]
        del at[UNKNOWN]
        for key in list(at):
            value = at.pop(key)
            yield f"{pointer}/{key}".lstrip("/"), copy.deepcopy(marked)
            at[key] = value


def two_of_each_form(changes: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The changes without those that two others of the same place, in other items of the same lists, stand for."""
    seen: collections.Counter[str] = collections.Counter()
    for pointer, changed in changes:
        form = "/".join("*" if part.isdigit() else part for part in pointer.split("/"))
        seen[form] += 1
        if seen[form] <= 2:
            yield pointer, changed


@unittest.skipIf(jsonschema is None, "no jsonschema: apt-get install python3-jsonschema")
@unittest.skipIf(not BINARY, "SHARDLAB_BINARY names no program")
class Written(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        (cls.folder / "few.json").write_text(json.dumps(SUITE), encoding="utf-8")
        (cls.folder / "all.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
        (cls.folder / "mine.py").write_text(COST, encoding="utf-8")
        plan = shardlab(cls.folder, ["solve", "mlp", "--mesh", "2x4", "--format", "json"])
        (cls.folder / "plan.json").write_text(plan, encoding="utf-8")
        for kind, arguments in RUNS.items():
            shardlab(cls.folder, [kind, *arguments, "--out", kind])

    def written(self, path: str) -> Any:
        return json.loads((self.folder / path).read_text(encoding="utf-8"))

    def expect_valid(self, kind: str, document: Any, definition: str = "") -> None:
        errors = validator(kind, definition).iter_errors(document)
        self.assertEqual([f"/{'/'.join(map(str, e.path))}: {e.message[:200]}" for e in errors][:3], [])

    def test_the_record_and_the_report_of_every_kind(self):
        for kind in KINDS:
            with self.subTest(kind):
                record = self.written(f"{kind}/record.json")
                self.assertEqual(record["kind"], kind)
                self.expect_valid("record", record)
                self.expect_valid("report", self.written(f"{kind}/report.json"))
                for stack in record["configuration"]["stacks"]:
                    self.expect_valid("stack", stack)
                if record["configuration"]["topology"]:
                    self.expect_valid("topology", record["configuration"]["topology"])
        flips = self.written("compare/report.json")["flips"]
        self.assertEqual([flip["question"] for flip in flips if "candidate_detail" in flip], ["few/b", "few/a"])
        self.assertIsNone(self.written("compare/record.json")["questions"][2]["answers"][0]["price_us"])

    def test_records_of_other_runs(self):
        runs = [
            ["compare", "--baseline", "dtensor-v3", "--suite", "few.json", "--set", "stack.transition_us=2"],
            ["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v3+cost=mine.py:price", "--suite", "few.json"],
            ["ties", "--suite", "few.json", "--stack", "dtensor-v3+cost=mine.py:price"],
            ["plan", "--mesh", "4", "--tensor", "f32[64,32]", "--from", "S(0)", "--to", "R", "--stack",
             "dtensor-v3+cost=mine.py:price"],
            ["ties", "--suite", "few.json", "--no-flips", "--all", "--no-timing"],
            ["validate", "h100_1x8_all_reduce_dgxc", "a100-40g_1x8_alltoall_superbench", "--stack", "dtensor-v0"],
            ["solve", "transformer-block", "--mesh", "8", "--recipe", "fsdp", "--memory-budget", "80GB"],
            ["solve", "mlp", "--mesh", "2x4", "--memory-budget", "1B"],
            ["solve", "mlp", "--mesh", "2x4", "--compare-recipes"],
            ["simulate", "mlp", "--mesh", "2x4", "--pin-inputs", "S(0)R", "--data", "off"],
            ["plan", "--mesh", "4x4x16", "--tensor", "f32[64,32]", "--from", "S(0)PR", "--to", "RS(1)S(1)", "--stack", "nccl"],
            ["plan", "--mesh", "4", "--tensor", "f32[64,32]", "--from", "S(0)", "--to", "P", "--against", "graph"],
            ["plan", "--mesh", "dp=2,tp=4", "--tensor", "f32[16,9]", "--from", "PP", "--to", "RR", "--flatten", "dp,tp"],
            ["simulate", "--mesh", "4", "--op", "aten.mm.default", "--inputs", "f32[8,8] S(1)", "f32[8,8] R"]]
        for number, arguments in enumerate(runs):
            with self.subTest(" ".join(arguments)):
                code = 1 if "1B" in arguments else 0
                shardlab(self.folder, [*arguments, "--out", f"run{number}"], code)
                self.expect_valid("record", self.written(f"run{number}/record.json"))
                self.expect_valid("report", self.written(f"run{number}/report.json"))

    def test_a_damaged_record_is_refused_by_schema_and_program(self):
        for kind in KINDS:
            record = self.written(f"{kind}/record.json")
            for changes in (with_unknown_key, without_a_key):
                for pointer, changed in two_of_each_form(changes(record)):
                    with self.subTest(f"{kind} /{pointer}: {changes.__name__}"):
                        valid = validator("record").is_valid(changed)
                        unread = any(pointer.startswith(part) for part in UNREAD)
                        if changes is with_unknown_key:
                            self.assertEqual(valid, pointer.startswith("configuration/topology") or
                                             pointer.startswith("configuration/stacks/"))
                        if unread:
                            continue
                        done = run(["report", "bad.json", "--format", "json"], changed)
                        self.assertEqual(done.returncode, 0 if valid else 3, done.stderr)

    def test_what_prices_rest_on(self):
        shardlab(self.folder, ["compare", *RUNS["compare"], "--reference", "calibrated-h100", "--out", "measured"])
        record = self.written("measured/record.json")
        report = self.written("measured/report.json")
        self.expect_valid("record", record)
        self.expect_valid("report", report)
        self.assertTrue(all("rests_on" in flip for flip in report["flips"] if flip["verdict"] != "undecided"))
        told = 0
        for changes in (with_unknown_key, without_a_key):
            for pointer, changed in two_of_each_form(changes(record)):
                if "/rests_on" in pointer:
                    told += 1
                    with self.subTest(f"/{pointer}: {changes.__name__}"):
                        valid = validator("record").is_valid(changed)
                        self.assertEqual(valid, pointer.endswith("/rests_on") and changes is without_a_key)
                        done = run(["report", "bad.json", "--format", "json"], changed)
                        self.assertEqual(done.returncode, 0 if valid else 3, done.stderr)
        self.assertGreater(told, 10)
        for pointer, changed in with_unknown_key(report):
            if "rests_on" in pointer or "not_measured" in pointer:
                with self.subTest(f"/{pointer}"):
                    self.assertFalse(validator("report").is_valid(changed))

    def test_a_damaged_report_is_invalid(self):
        for kind in KINDS:
            for pointer, changed in with_unknown_key(self.written(f"{kind}/report.json")):
                if pointer.startswith("configuration/topology") or pointer.startswith("configuration/stacks/"):
                    continue
                with self.subTest(f"{kind} /{pointer}"):
                    self.assertFalse(validator("report").is_valid(changed))

    def test_plans_of_solve(self):
        plan = ["solve", "mlp", "--mesh", "2x4", "--format", "json"]
        text = shardlab(self.folder, plan)
        (self.folder / "plan.json").write_text(text, encoding="utf-8")
        self.expect_valid("plan", json.loads(text))
        whole = json.loads(shardlab(self.folder, [
            *plan, "--margins", "--best", "3", "--explain", "S(0)R", "--diff", "plan.json", "--greedy",
            "--sensitivity", "--budget-curve", "4", "--then", "h=RR"]))
        self.expect_valid("plan", whole)
        for key in ["explain", "diff", "greedy", "sensitivity", "budget_curves", "then"]:
            self.assertTrue(whole[key], key)
        for pointer, changed in with_unknown_key(whole):
            if pointer != "greedy/layouts":  # its keys are nodes
                with self.subTest(pointer):
                    self.assertFalse(validator("plan").is_valid(changed))
        self.expect_valid("plan", json.loads(shardlab(self.folder, [*plan, "--memory-budget", "1B"], 1)))
        shardlab(self.folder, ["simulate", "mlp", "--mesh", "2x4", "--plan", "plan.json"])
        without = {key: value for key, value in json.loads(text).items() if key != "assignment"}
        self.assertFalse(validator("plan").is_valid(without))
        self.assertEqual(run(["simulate", "mlp", "--mesh", "2x4", "--plan", "bad.json"], without).returncode, 3)

    def test_the_files_of_a_sweep(self):
        for part in ["1/2", "2/2"]:
            shardlab(self.folder, ["sweep", "all.json", "--out", "sweep", "--part", part])
        for name in ["part-0001-of-0002.jsonl", "part-0002-of-0002.jsonl", "results.jsonl"]:
            head, *rows = (self.folder / "sweep" / name).read_text(encoding="utf-8").splitlines()
            with self.subTest(name):
                self.expect_valid("sweep", json.loads(head))
                self.assertFalse(validator("sweep").is_valid({**json.loads(head), UNKNOWN: 1}))
                self.assertEqual(len(rows), json.loads(head)["rows"])
                for row in rows:
                    self.expect_valid("sweep", json.loads(row), "row")
                    for pointer, changed in with_unknown_key(json.loads(row)):
                        self.assertFalse(validator("sweep", "row").is_valid(changed), pointer)

    def test_files_of_the_other_commands(self):
        shardlab(self.folder, ["calibrate", "h100_1x8_all_reduce_dgxc", "--out", "fitted.json"])
        self.expect_valid("stack", self.written("fitted.json"))
        self.expect_valid("program", json.loads(shardlab(self.folder, ["program", "gpt2-xl", "--layers", "1"])))
        self.expect_valid("measurements", json.loads(
            shardlab(self.folder, ["describe", "measurement", "h100_1x8_all_reduce_dgxc"])))
        shardlab(self.folder, ["measure", "--backend", "cpu", "--collective", "all_reduce", "--max-bytes", "4KiB",
                               "--out", "measured.json"])
        self.expect_valid("measurements", self.written("measured.json"))


if __name__ == "__main__":
    unittest.main()
