#!/usr/bin/env python3
"""The JSON schemas of configs/schema: valid themselves, true of every shipped file, and as strict as the program.

Needs jsonschema (Debian: python3-jsonschema); skipped without it.
"""

import copy
import json
import os
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
BINARY = os.environ.get("SHARDLAB_BINARY", "")
UNKNOWN = "no_such_key"
# A case or an experiment may hold a stack with a base; the stack's own schema says which keys.
OPEN = {("case", "/definitions/stack_object"), ("experiment", "/definitions/stack_object")}


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def schemas() -> dict[str, Any]:
    """Kind -> schema, from configs/schema/<kind>.schema.json."""
    return {path.name.removesuffix(".schema.json"): load(path) for path in sorted((CONFIGS / "schema").glob("*.json"))}


def shipped() -> Iterator[tuple[Path, Any]]:
    for path in sorted(CONFIGS.rglob("*.json")):
        if path.parent.name != "schema":
            yield path, load(path)


def kind_of(document: Any) -> str:
    return document["schema"].split("/")[1]


def objects(schema: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every part of a schema that describes an object by its keys."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield pointer, schema
        for key, value in schema.items():
            yield from objects(value, f"{pointer}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from objects(value, f"{pointer}/{index}")


def with_unknown_key(document: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a document, each with one more key in one of its objects."""
    pointers: list[list[Any]] = [[]]
    while pointers:
        pointer = pointers.pop()
        changed = copy.deepcopy(document)
        at = changed
        for key in pointer:
            at = at[key]
        if isinstance(at, dict):
            pointers += [pointer + [key] for key in at]
            at[UNKNOWN] = "x"
            yield "/".join(map(str, pointer)), changed
        elif isinstance(at, list):
            pointers += [pointer + [index] for index in range(min(len(at), 2))]


def run(arguments: list[str], document: Any) -> subprocess.CompletedProcess[str]:
    """The program on a document, which it finds as bad.json."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bad.json").write_text(json.dumps(document), encoding="utf-8")
        return subprocess.run([BINARY, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@unittest.skipIf(jsonschema is None, "no jsonschema: apt-get install python3-jsonschema")
class Schemas(unittest.TestCase):
    def validator(self, kind: str) -> Any:
        return jsonschema.Draft7Validator(schemas()[kind])

    def test_each_is_a_valid_draft_7_schema(self):
        self.assertLessEqual({"case", "stack", "suite", "topology"}, set(schemas()))
        for kind, schema in schemas().items():
            with self.subTest(kind):
                self.assertEqual(schema["$schema"], "http://json-schema.org/draft-07/schema#")
                jsonschema.Draft7Validator.check_schema(schema)
                self.assertEqual(schema["properties"]["schema"], {"const": f"shardlab/{kind}/1"})

    def test_every_shipped_file_is_valid(self):
        counts: dict[str, int] = {}
        for path, document in shipped():
            with self.subTest(str(path.relative_to(ROOT))):
                kind = kind_of(document)
                counts[kind] = counts.get(kind, 0) + 1
                errors = sorted(self.validator(kind).iter_errors(document), key=lambda error: list(error.path))
                self.assertEqual([f"/{'/'.join(map(str, e.path))}: {e.message[:200]}" for e in errors[:3]], [])
        self.assertGreaterEqual(counts["stack"], 10)
        self.assertGreaterEqual(counts["topology"], 5)
        self.assertGreaterEqual(counts["suite"], 2)

    def test_every_object_of_a_schema_is_closed(self):
        for kind, schema in schemas().items():
            for pointer, part in objects(schema):
                # A part that only asks for a word, to branch on it, describes no whole object.
                if pointer.endswith("/if") or "then" in part or (kind, pointer) in OPEN:
                    continue
                with self.subTest(f"{kind}: {pointer}"):
                    self.assertIs(part.get("additionalProperties"), False)

    def test_each_rejects_an_unknown_key(self):
        for kind in schemas():
            with self.subTest(kind):
                document = next(d for _, d in shipped() if kind_of(d) == kind)
                self.assertTrue(self.validator(kind).is_valid(document))
                self.assertFalse(self.validator(kind).is_valid({**document, UNKNOWN: 1}))

    def test_an_unknown_key_anywhere_in_a_stack_a_topology_or_a_suite_is_rejected(self):
        question = {"id": "a", "kind": "select", "op": "mm", "mesh": "4", "inputs": ["f32[8,8] R", "f32[8,8] R"]}
        redistribution = {"id": "b", "kind": "plan", "mesh": "4", "tensor": "f32[8]", "from": "R", "to": "S(0)"}
        suite = {"schema": "shardlab/suite/1", "name": "x", "questions": [question, redistribution]}
        documents = [load(CONFIGS / "stacks" / "dtensor-v3-rp.json"), load(CONFIGS / "topologies" / "gb200.json"),
                     load(CONFIGS / "suites" / "ops-small.json"), suite]
        for document in documents:
            kind = kind_of(document)
            self.assertEqual(list(self.validator(kind).iter_errors(document)), [])
            for pointer, changed in with_unknown_key(document):
                with self.subTest(f"{kind} /{pointer}"):
                    self.assertFalse(self.validator(kind).is_valid(changed))
                    if BINARY:
                        done = run(["describe", kind, "./bad.json"], changed)
                        self.assertEqual(done.returncode, 3, done.stderr)
                        self.assertIn(UNKNOWN, done.stderr)

    def test_a_key_that_the_schema_requires_is_one_that_the_program_requires(self):
        if not BINARY:
            self.skipTest("SHARDLAB_BINARY names no program")
        for kind, name in [("stack", "dtensor-v3"), ("topology", "gb200"), ("suite", "ops-small")]:
            document = load(next(CONFIGS.glob(f"*/{name}.json")))
            for key in document:
                changed = {k: v for k, v in document.items() if k != key}
                with self.subTest(f"{kind} without {key}"):
                    accepted = run(["describe", kind, "./bad.json"], changed).returncode == 0
                    self.assertEqual(self.validator(kind).is_valid(changed), accepted)

    def test_the_words_of_a_stack_are_those_of_the_program(self):
        if not BINARY:
            self.skipTest("SHARDLAB_BINARY names no program")
        schema = schemas()["stack"]
        words = {key: part["enum"] for key, part in schema["properties"].items() if "enum" in part}
        words["transitions"] = schema["definitions"]["transitions"]["enum"]
        self.assertEqual(set(words), {"rules", "transitions", "planner", "merge", "policy", "search"})
        for key, valid in words.items():
            with self.subTest(key):
                document = {**load(CONFIGS / "stacks" / "dtensor-v3.json"), key: UNKNOWN}
                message = run(["describe", "stack", "./bad.json"], document).stderr
                self.assertEqual(message.strip().split("valid: ")[-1].split(", "), valid)


if __name__ == "__main__":
    unittest.main()
