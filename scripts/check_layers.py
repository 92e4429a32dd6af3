#!/usr/bin/env python3
"""Reads each #include of ours against the table of rooms, and libraries for what only runner does.

    scripts/check_layers.py [--root DIR]

ROOMS below is the table. Prints "file:line: what stands there: what is right" per violation,
exits 1 when there is one. Not a C++ parser: it blanks comments and literals and matches lines.
"""

import argparse
import pathlib
import re
import sys
from typing import NamedTuple


class Room(NamedTuple):
    """What the files of one folder, and of those below it that have no row of their own, may know."""

    may_include: tuple[str, ...]  # other rooms
    third_party: tuple[str, ...]  # first folder of <...> includes, beside the standard library
    library: bool = True  # never prints, exits, reads the environment or writes files
    reads_files: bool = True


def _runner(*rooms: str) -> Room:
    """A room of runner: its own neighbours that it may know, and all libraries."""
    own = tuple(f"runner/{room}" for room in rooms)
    return Room(own + LIBRARIES, ("Eigen", "boost", "nlohmann"), library=False)


PRICES = ("costmodel", "costmodel/base")
RULES = ("strategies/rules", "sim", *PRICES)
LIBRARIES = (
    *("costmodel/base", "costmodel", "costmodel/measurements", "costmodel/calibrate", "sim"),
    *(f"strategies/{room}" for room in ("rules", "proof", "select", "solvers", "programs", "steps", "training", "cases")),
    *("reports/records", "reports"),
)
ROOMS = {
    "costmodel/base": Room((), ("nlohmann",), reads_files=False),
    "costmodel": Room(("costmodel/base",), ("Eigen", "nlohmann"), reads_files=False),
    "costmodel/models": Room(PRICES, ("Eigen", "nlohmann"), reads_files=False),
    "costmodel/measurements": Room(PRICES, ("nlohmann",), reads_files=False),
    "costmodel/calibrate": Room(
        ("costmodel/measurements", *PRICES), ("Eigen", "boost", "nlohmann"), reads_files=False
    ),
    "sim": Room(PRICES, ("Eigen", "boost"), reads_files=False),
    "strategies/rules": Room(("sim", *PRICES), ("boost", "nlohmann")),
    "strategies/proof": Room(RULES, ("Eigen", "boost", "nlohmann")),
    "strategies/select": Room(("reports/records", *RULES), ("boost", "nlohmann")),
    "strategies/solvers": Room(("costmodel/base",), ("boost", "nlohmann")),
    "strategies/programs": Room(
        ("strategies/proof", "strategies/select", "strategies/solvers", "reports/records", *RULES),
        ("boost", "nlohmann"),
    ),
    "strategies/steps": Room(
        ("strategies/programs", "strategies/solvers", "strategies/select", "strategies/proof", *RULES),
        ("boost", "nlohmann"),
    ),
    "strategies/training": Room(
        ("strategies/steps", "strategies/programs", *RULES), ("boost", "nlohmann")
    ),
    "strategies/cases": Room(
        (
            *("strategies/proof", "strategies/select", "strategies/solvers", "strategies/programs"),
            *RULES,
        ),
        ("boost", "nlohmann"),
    ),
    "reports/records": Room(("costmodel/base",), ("nlohmann",)),
    "reports": Room(("reports/records", "reports/writers", "costmodel/base"), ("nlohmann",)),
    "reports/sections": Room(("reports", "reports/records", "costmodel/base"), ("nlohmann",)),
    "reports/writers": Room(("reports", "reports/records", "costmodel/base"), ("nlohmann",)),
    "runner/base": Room(("costmodel/base",), ("nlohmann",), library=False),
    "runner/config": _runner("base"),
    "runner/session": _runner("base", "config")._replace(third_party=("CLI", "nlohmann")),
    "runner/launch": _runner("base", "session"),
    "runner/nccl": _runner("launch"),
    "runner/measure": _runner("base", "launch", "nccl"),
    "runner/choices": _runner("base", "config"),
    "runner/torch": _runner("base", "config", "session", "choices", "launch"),
    "runner/evaluation": _runner("base", "config", "session"),
    "runner/simulate": _runner("base", "config", "session", "evaluation"),
    "runner/solve": _runner("base", "config", "session", "evaluation", "simulate"),
    "runner/apply": _runner("base"),
    "runner/steps": _runner("base", "config", "session", "evaluation", "simulate", "solve"),
    "runner/help": _runner("base", "config", "session"),
    "runner/commands": _runner(
        *("base", "config", "session", "help", "launch", "nccl"),
        *("choices", "measure", "evaluation", "simulate", "solve", "apply", "steps"),
    ),
    "runner": _runner("base", "session", "help", "commands", "torch")._replace(third_party=("CLI",)),
}
RUNNER = tuple(room for room in ROOMS if room.startswith("runner"))
ROOMS["python"] = Room(RUNNER + LIBRARIES, ("nlohmann", "pybind11"), library=False)
ROOMS["tests"] = Room(
    tuple(ROOMS), ("CLI", "Eigen", "benchmark", "boost", "gmock", "gtest", "nlohmann"), library=False
)
FOLDERS = tuple(dict.fromkeys(room.split("/", 1)[0] for room in ROOMS))
VERSION_HEADER = "shardlab_version.h"  # generated; to runner alone
GPU_HEADER = re.compile(r"(cuda|cublas|curand|nccl|nvml)\w*\.h|cuda/.*")
GPU_FOLDERS = ("runner/nccl/", "tests/")
POSIX_FOLDERS = ("arpa", "net", "netinet", "sys")
SUFFIXES = {".cc", ".cpp", ".h", ".hpp", ".inc"}

NEVER_PRINTS = "a library returns data and never prints"
CALLER_READS = "the caller reads the file and passes its text"
HEADERS_THAT_PRINT = ("iostream", "print", "syncstream")
HEADERS_OF_FILES = ("filesystem", "fstream")


def _call(names: str) -> re.Pattern[str]:
    """A call of one of the functions, plain or of std, but no member and no other namespace's."""
    return re.compile(rf"(?<![\w.>:])(?:(?:std)?::)?({names})\s*\(")


# What no library does. snprintf is absent on purpose: it writes to a buffer and prints nothing.
LIBRARY_NEVER = (
    (re.compile(r"\bstd::(w?(?:cout|cerr|clog))\b"), NEVER_PRINTS),
    (_call("v?f?printf|v?dprintf|f?puts|f?putc|putchar|fwrite|perror"), NEVER_PRINTS),
    (_call("_?exit|_Exit|quick_exit|abort"), "a library throws; runner/main.cpp ends the process"),
    (_call("(?:secure_)?getenv|setenv|putenv"), "runner/base/env.h reads the environment"),
    (re.compile(r"\bstd::(system)\s*\("), "runner starts processes"),
    (re.compile(r"\bstd::(o?fstream)\b"), "a library never writes files"),
)

TOKEN = re.compile(
    r"""
      (?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)")
    | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    | (?P<include>^[ \t]*\#[ \t]*include\b[^\n]*)
    | (?P<literal>"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*')
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
INCLUDE = re.compile(
    r"""^[ \t]*\#[ \t]*include[ \t]*(?:"(?P<quoted>[^"]*)"|<(?P<angled>[^>]*)>)""",
    re.MULTILINE | re.VERBOSE,
)


def blank_text(source: str) -> str:
    """The source without comments and literals. Line breaks and the names of includes stay."""

    def replace(match: re.Match[str]) -> str:
        if match["include"] is not None:
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return TOKEN.sub(replace, source)


def room_of(path: str) -> str | None:
    """The room that a file is in: the nearest folder above it that has a row in ROOMS."""
    folder = path
    while "/" in folder:
        folder = folder.rsplit("/", 1)[0]
        if folder in ROOMS:
            return folder
    return None


def check_include(path: str, included: str, *, angled: bool) -> str | None:
    """What is wrong with one include of the file at `path`; None when nothing is."""
    name = room_of(path)
    assert name is not None
    room = ROOMS[name]
    top, slash, _ = included.partition("/")

    if slash and top in FOLDERS:
        if angled:
            return f'<{included}> is ours: write #include "{included}"'
        if room_of(included) in (name, *room.may_include):
            return None
        rooms = ", ".join(room.may_include) or "no other room"
        return f'"{included}": {name} may include {rooms}'
    if included == VERSION_HEADER:
        return None if path.startswith("runner/") else f'"{included}": only runner may include it'
    if not angled:
        folder = path.split("/", 1)[0]
        return f'"{included}": quotes are for our files, named from the root: "{folder}/..."'

    if GPU_HEADER.fullmatch(included):
        known = path.startswith(GPU_FOLDERS)
        return None if known else f"<{included}>: only {GPU_FOLDERS[0]} may include headers of CUDA and NCCL"
    if not slash and not included.endswith(".h"):
        if room.library and included in HEADERS_THAT_PRINT:
            return f"<{included}>: {NEVER_PRINTS}"
        if not room.reads_files and included in HEADERS_OF_FILES:
            return f"<{included}>: {CALLER_READS}"
        return None  # the standard library
    if slash and top in room.third_party:
        return None
    if not room.library and included.endswith(".h") and (not slash or top in POSIX_FOLDERS):
        return None
    return (
        f"<{included}>: {name} may include the C++ standard library and "
        f"{', '.join(room.third_party)}"
    )


def check_file(path: str, source: str) -> list[str]:
    """The violations of one file; `path` is relative to the root, with forward slashes."""
    name = room_of(path)
    if name is None:
        folder = path.split("/", 1)[0]
        rooms = ", ".join(room for room in ROOMS if room.startswith(f"{folder}/"))
        return [f"{path}:1: the file stands in no room of {folder}; its rooms: {rooms}"]
    room = ROOMS[name]
    text = blank_text(source)
    found: list[tuple[int, str]] = []

    def add(position: int, message: str) -> None:
        found.append((text.count("\n", 0, position) + 1, message))

    for match in INCLUDE.finditer(text):
        angled = match["angled"] is not None
        message = check_include(path, match["angled"] if angled else match["quoted"], angled=angled)
        if message is not None:
            add(match.start(), message)
    if room.library:
        for pattern, reason in LIBRARY_NEVER:
            for match in pattern.finditer(text):
                add(match.start(1), f"{match[1]}: {reason}")
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        found.append((1, "the header has no #pragma once"))
    return [f"{path}:{line}: {message}" for line, message in sorted(found)]


def check_tree(root: pathlib.Path) -> tuple[int, list[str]]:
    """How many files were read, and all violations in order of path and line."""
    count = 0
    violations: list[str] = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                count += 1
                path = file.relative_to(root).as_posix()
                violations += check_file(path, file.read_text(encoding="utf-8"))
    return count, violations


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--root", type=pathlib.Path, default=here.parent, help="default: this tree")
    root = parser.parse_args().root
    count, violations = check_tree(root)
    for violation in violations:
        print(violation)
    print(f"{count} files, {len(violations)} violations", file=sys.stderr)
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
