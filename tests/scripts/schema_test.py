#!/usr/bin/env python3
"""The JSON schemas of configs/schema are valid, hold for every shipped file, and are as strict as the program.

The tests need jsonschema (Debian: python3-jsonschema), and are skipped without it. written_schema_test.py tests what
commands write.
"""

import unittest

from schemas import (BINARY, CONFIGS, OPEN, ROOT, UNKNOWN, WRITTEN, jsonschema, kind_of, load, objects, run, schemas,
                     shipped, validator, with_unknown_key)


@unittest.skipIf(jsonschema is None, "no jsonschema: apt-get install python3-jsonschema")
class Schemas(unittest.TestCase):
    def test_each_is_a_valid_draft_7_schema(self):
        self.assertLessEqual({"case", "stack", "suite", "topology"}, set(schemas()))
        for kind, schema in schemas().items():
            with self.subTest(kind):
                self.assertEqual(schema["$schema"], "http://json-schema.org/draft-07/schema#")
                jsonschema.Draft7Validator.check_schema(schema)
                named = {} if kind == "plan" else {"const": f"shardlab/{kind}/1"}
                self.assertEqual(schema["properties"].get("schema", {}), named)

    def test_every_shipped_file_is_valid(self):
        counts: dict[str, int] = {}
        for path, document in shipped():
            with self.subTest(str(path.relative_to(ROOT))):
                kind = kind_of(document)
                counts[kind] = counts.get(kind, 0) + 1
                errors = sorted(validator(kind).iter_errors(document), key=lambda error: list(error.path))
                self.assertEqual([f"/{'/'.join(map(str, e.path))}: {e.message[:200]}" for e in errors[:3]], [])
        self.assertGreaterEqual(counts["stack"], 10)
        self.assertGreaterEqual(counts["topology"], 10)
        self.assertGreaterEqual(counts["suite"], 2)

    def test_every_object_of_a_schema_is_closed(self):
        for kind, schema in schemas().items():
            for pointer, part in objects(schema):
                # A part that only asks for one key, to branch on it, describes no whole object.
                if pointer.endswith("/if") or "then" in part or (kind, pointer) in OPEN:
                    continue
                with self.subTest(f"{kind}: {pointer}"):
                    self.assertIs(part.get("additionalProperties"), False)

    def test_each_rejects_an_unknown_key(self):
        for kind in set(schemas()) - WRITTEN:
            with self.subTest(kind):
                document = next(d for _, d in shipped() if kind_of(d) == kind)
                self.assertTrue(validator(kind).is_valid(document))
                self.assertFalse(validator(kind).is_valid({**document, UNKNOWN: 1}))

    def test_an_unknown_key_anywhere_in_a_stack_a_topology_or_a_suite_is_rejected(self):
        question = {"id": "a", "kind": "select", "op": "mm", "mesh": "4", "inputs": ["f32[8,8] R", "f32[8,8] R"]}
        redistribution = {"id": "b", "kind": "plan", "mesh": "4", "tensor": "f32[8]", "from": "R", "to": "S(0)"}
        suite = {"schema": "shardlab/suite/1", "name": "x", "questions": [question, redistribution]}
        documents = [load(CONFIGS / "stacks" / "alpha-beta.json"), load(CONFIGS / "topologies" / "gb200.json"),
                     load(CONFIGS / "suites" / "ops-small.json"), suite]
        for document in documents:
            kind = kind_of(document)
            self.assertEqual(list(validator(kind).iter_errors(document)), [])
            for pointer, changed in with_unknown_key(document):
                with self.subTest(f"{kind} /{pointer}"):
                    self.assertFalse(validator(kind).is_valid(changed))
                    if BINARY:
                        done = run(["describe", kind, "./bad.json"], changed)
                        self.assertEqual(done.returncode, 3, done.stderr)
                        self.assertIn(UNKNOWN, done.stderr)

    def test_a_key_that_the_schema_requires_is_one_that_the_program_requires(self):
        if not BINARY:
            self.skipTest("SHARDLAB_BINARY names no program")
        # A stack without a base: what a base says, the stack need not.
        for kind, name in [("stack", "dtensor-2.13"), ("topology", "gb200"), ("suite", "ops-small")]:
            document = load(next(CONFIGS.glob(f"*/{name}.json")))
            for key in document:
                changed = {k: v for k, v in document.items() if k != key}
                with self.subTest(f"{kind} without {key}"):
                    accepted = run(["describe", kind, "./bad.json"], changed).returncode == 0
                    self.assertEqual(validator(kind).is_valid(changed), accepted)

    def test_the_words_of_a_stack_are_those_of_the_program(self):
        if not BINARY:
            self.skipTest("SHARDLAB_BINARY names no program")
        schema = schemas()["stack"]
        words = {key: part["enum"] for key, part in schema["properties"].items() if "enum" in part}
        words["transitions"] = schema["definitions"]["transitions"]["enum"]
        self.assertEqual(set(words), {"rules", "transitions", "planner", "merge", "merge_rule", "policy", "search", "strided_kernels"})
        for key, valid in words.items():
            with self.subTest(key):
                document = {**load(CONFIGS / "stacks" / "dtensor-v3.json"), key: UNKNOWN}
                message = run(["describe", "stack", "./bad.json"], document).stderr
                self.assertEqual(message.strip().split("valid: ")[-1].split(", "), valid)


if __name__ == "__main__":
    unittest.main()
