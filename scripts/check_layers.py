#!/usr/bin/env python3
"""Reads each #include of ours against the levels, and libraries for what only runner does.

    scripts/check_layers.py [--root DIR]

LAYERS below is the table. Prints "file:line: what stands there: what is right" per violation,
exits 1 when there is one. Not a C++ parser: it blanks comments and literals and matches lines.
"""

import argparse
import pathlib
import re
import sys
from typing import NamedTuple


class Layer(NamedTuple):
    """What one folder may know."""

    own: tuple[str, ...]  # path prefixes of ours that may be included
    third_party: tuple[str, ...]  # first folder of <...> includes, beside the standard library
    never_own: tuple[str, ...] = ()  # exceptions to `own`
    library: bool = True  # never prints, exits, reads the environment or writes files
    reads_files: bool = True


NO_MODEL = ("costmodel/models/",)
LAYERS = {
    "costmodel": Layer(("costmodel/",), ("Eigen", "nlohmann"), reads_files=False),
    "sim": Layer(("sim/", "costmodel/"), ("Eigen", "boost"), NO_MODEL, reads_files=False),
    "strategies": Layer(("strategies/", "sim/", "costmodel/"), ("boost", "nlohmann"), NO_MODEL),
    "reports": Layer(("reports/", "costmodel/base/units.h", "costmodel/base/error.h"), ("nlohmann",)),
    "runner": Layer(
        ("runner/", "reports/", "strategies/", "sim/", "costmodel/"),
        ("CLI", "Eigen", "boost", "nlohmann"),
        library=False,
    ),
    "python": Layer(
        ("runner/", "strategies/", "sim/", "costmodel/"), ("nlohmann", "pybind11"), library=False
    ),
    "tests": Layer(
        ("tests/", "runner/", "reports/", "strategies/", "sim/", "costmodel/"),
        ("CLI", "Eigen", "benchmark", "boost", "gmock", "gtest", "nlohmann"),
        library=False,
    ),
}
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
    """The source without comments and literals, lines kept; the names of includes stay."""

    def replace(match: re.Match[str]) -> str:
        if match["include"] is not None:
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return TOKEN.sub(replace, source)


def check_include(path: str, included: str, *, angled: bool) -> str | None:
    """What is wrong with one include of the file at `path`; None when nothing is."""
    folder = path.split("/", 1)[0]
    layer = LAYERS[folder]
    top, slash, _ = included.partition("/")

    if slash and top in LAYERS:
        if angled:
            return f'<{included}> is ours: write #include "{included}"'
        if included.startswith(layer.own) and not included.startswith(layer.never_own):
            return None
        but = f" but not {', '.join(layer.never_own)}" if layer.never_own else ""
        return f'"{included}": {folder} may include {", ".join(layer.own)}{but}'
    if included == VERSION_HEADER:
        return None if folder == "runner" else f'"{included}": known to runner alone'
    if not angled:
        return f'"{included}": quotes are for our files, named from the root: "{folder}/..."'

    if GPU_HEADER.fullmatch(included):
        known = path.startswith(GPU_FOLDERS)
        return None if known else f"<{included}>: CUDA and NCCL are known to {GPU_FOLDERS[0]} alone"
    if not slash and not included.endswith(".h"):
        if layer.library and included in HEADERS_THAT_PRINT:
            return f"<{included}>: {NEVER_PRINTS}"
        if not layer.reads_files and included in HEADERS_OF_FILES:
            return f"<{included}>: {CALLER_READS}"
        return None  # the standard library
    if slash and top in layer.third_party:
        return None
    if not layer.library and included.endswith(".h") and (not slash or top in POSIX_FOLDERS):
        return None
    return (
        f"<{included}>: {folder} may include the C++ standard library and "
        f"{', '.join(layer.third_party)}"
    )


def check_file(path: str, source: str) -> list[str]:
    """The violations of one file; `path` is relative to the root, with forward slashes."""
    layer = LAYERS[path.split("/", 1)[0]]
    text = blank_text(source)
    found: list[tuple[int, str]] = []

    def add(position: int, message: str) -> None:
        found.append((text.count("\n", 0, position) + 1, message))

    for match in INCLUDE.finditer(text):
        angled = match["angled"] is not None
        message = check_include(path, match["angled"] if angled else match["quoted"], angled=angled)
        if message is not None:
            add(match.start(), message)
    if layer.library:
        for pattern, reason in LIBRARY_NEVER:
            for match in pattern.finditer(text):
                add(match.start(1), f"{match[1]}: {reason}")
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        found.append((1, "a header begins with #pragma once"))
    return [f"{path}:{line}: {message}" for line, message in sorted(found)]


def check_tree(root: pathlib.Path) -> tuple[int, list[str]]:
    """How many files were read, and all violations in order of path and line."""
    count = 0
    violations: list[str] = []
    for folder in LAYERS:
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
