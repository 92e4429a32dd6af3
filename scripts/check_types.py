#!/usr/bin/env python3
"""Finds two types with the same name and namespace in one program, which is undefined behaviour that no linker reports.

    scripts/check_types.py [--root DIR]

Prints "file:line: NAME is defined in FILE too" for each type that a second file defines outside anonymous
namespaces and functions, and exits 1 if there is one. This is no C++ parser: it blanks comments and literals
and counts braces. Each folder of tests is a program of its own, together with tests/support and the libraries.
"""

import argparse
import pathlib
import re
import sys

import check_layers

LIBRARIES = ("costmodel", "sim", "strategies", "reports", "runner", "python")
TOKEN = re.compile(
    r"""
      (?<!using\s)\bnamespace\b\s*(?P<namespace>[\w:]*)\s*\{
    | \b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[[^\]]*\]\]\s*)?
      (?P<type>\w+(?:::\w+)*)\s*(?P<arguments><[^;{}()]*>)?\s*(?:final\b\s*)?(?::(?!:)[^;{}()]*)?(?P<open>\{)
    | \{ | \}
    """,
    re.VERBOSE,
)


def types_of(source: str) -> list[tuple[str, int]]:
    """The full names of the types that a source defines for the whole program, with their lines."""
    text = check_layers.blank_text(source)
    found = []
    namespaces: list[str] = []  # the namespaces that are open here; "" is an anonymous one
    depth = 0
    for match in TOKEN.finditer(text):
        if match["namespace"] is not None:
            if depth == len(namespaces):
                namespaces.append(match["namespace"])
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth < len(namespaces):
                namespaces.pop()
        else:
            if match["type"] is not None and depth == len(namespaces) and "" not in namespaces:
                line = text.count("\n", 0, match.start("type")) + 1
                name = match["type"] + "".join((match["arguments"] or "").split())  # a specialisation is its own type
                found.append(("::".join([*namespaces, name]), line))
            depth += 1
    return found


def program_of(path: str) -> str:
    """The program that a file belongs to; "" for a file of the libraries, which belong to all programs."""
    parts = path.split("/")
    if parts[0] != "tests" or parts[1] == "support":
        return ""
    if parts[1] in ("bench", "fuzz"):
        return path
    return "/".join(parts[:3]) if parts[1] == "unit" else parts[1]


def check_tree(root: pathlib.Path) -> tuple[int, list[str]]:
    """How many types there are, and a line for each that is defined a second time."""
    defined: dict[str, list[tuple[str, int]]] = {}
    for folder in (*LIBRARIES, "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in check_layers.SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            for type_name, line in types_of(path.read_text(encoding="utf-8")):
                defined.setdefault(type_name, []).append((name, line))
    violations = []
    for type_name, places in defined.items():
        for i, (path, line) in enumerate(places):
            for other, _ in places[:i]:
                programs = {program_of(other), program_of(path)}
                if other != path and (len(programs) == 1 or "" in programs):
                    violations.append(f"{path}:{line}: {type_name} is defined in {other} too")
                    break
    return len(defined), violations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    root = parser.parse_args().root
    count, violations = check_tree(root)
    for violation in violations:
        print(violation)
    if count == 0:
        print(f"{root}: no types found")
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
