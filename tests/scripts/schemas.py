"""What the tests of schemas share: the JSON schemas of configs/schema, and documents to check against them."""

import copy
import functools
import json
import os
import subprocess
import tempfile
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
# A case or an experiment may hold a stack with a base. The schema of stacks says which keys such a stack has.
OPEN = {("case", "/definitions/stack_object"), ("experiment", "/definitions/stack_object"),
        ("record", "/definitions/named")}
# No file of these kinds is shipped; commands write them.
WRITTEN = {"choices", "plan", "record", "report", "sweep"}


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def schemas() -> dict[str, Any]:
    """Kind -> schema, from configs/schema/<kind>.schema.json."""
    return {path.name.removesuffix(".schema.json"): load(path) for path in sorted((CONFIGS / "schema").glob("*.json"))}


def with_refs_to(kind: str, part: Any) -> Any:
    """A part of a schema whose references within its file point to where that file stands among the definitions."""
    if isinstance(part, dict):
        return {key: f"#/definitions/{kind}" + value[1:] if key == "$ref" and value.startswith("#")
                else with_refs_to(kind, value) for key, value in part.items()}
    return [with_refs_to(kind, each) for each in part] if isinstance(part, list) else part


def bundled(kind: str) -> Any:
    """A schema that refers to parts of the record's schema, as one document, because versions of jsonschema differ
    in how they find the other file."""
    text = json.dumps(schemas()[kind]).replace('"record.schema.json#/', '"#/definitions/record/')
    schema = json.loads(text)
    if kind != "record":
        schema.setdefault("definitions", {})["record"] = with_refs_to("record", schemas()["record"])
    return schema


@functools.lru_cache(maxsize=None)
def validator(kind: str, definition: str = "") -> Any:
    """The validator of a kind, or of one of its definitions."""
    schema = bundled(kind)
    if definition:
        schema = {"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]}
    return jsonschema.Draft7Validator(schema)


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
    """Runs the program on a document, which it finds as bad.json."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bad.json").write_text(json.dumps(document), encoding="utf-8")
        return subprocess.run([BINARY, *arguments], cwd=folder, capture_output=True, text=True, check=False)
