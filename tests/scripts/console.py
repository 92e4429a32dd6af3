"""Reads the commands in a document's ```console blocks, and what they are said to print.

    $ first command
    > its second line
    what it prints
    ...                     any lines
    [exit 1]                its exit code, if it is not 0

SHARDLAB_BINARY=... console.py FILE.md... writes what the commands print now in place of what stands there.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SHARDLAB_BINARY", "")
# No command takes as long as CTest gives its whole test. Where the first commands hang, the test says which.
LIMIT_S = float(os.environ.get("SHARDLAB_TEST_SECONDS", "300")) - 20
PROGRAM = "build/release/bin/shardlab"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
ANY = "..."


class Example(NamedTuple):
    command: str
    output: list[str]


def examples(text: str) -> list[Example]:
    """The examples of all console blocks, in order."""
    found = []
    for block in BLOCK.findall(text):
        in_command = False
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Example(line[2:], []))
                in_command = True
            elif in_command and line.startswith("> "):
                found[-1] = Example(f"{found[-1].command}\n{line[2:]}", [])
            elif found:
                in_command = False
                found[-1].output.append(line)
    return found


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines are those expected; a line "..." stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0] == ANY:
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and printed[0] == expected[0] and matches(expected[1:], printed[1:])


class Clone:
    """A folder that looks like a fresh clone with a build, and may be written to."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        for entry in ROOT.iterdir():
            if entry.name not in ("build", ".git"):
                (self.path / entry.name).symlink_to(entry)
        program = self.path / PROGRAM
        program.parent.mkdir(parents=True)
        program.symlink_to(BINARY)

    def __enter__(self) -> "Clone":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, error messages included, and its exit code if it is not 0."""
        result = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=self.path, check=False, timeout=LIMIT_S)
        lines = result.stdout.rstrip("\n").splitlines()
        return lines + ([f"[exit {result.returncode}]"] if result.returncode else [])


def updated(text: str) -> str:
    """The document with what its commands print now; outputs that hold "..." stay as they are."""
    with Clone() as clone:
        def block(match: re.Match) -> str:
            lines = []
            for example in examples(f"```console\n{match.group()}```"):
                printed = clone.run(example.command)
                first, *more = example.command.split("\n")
                lines += [f"$ {first}", *(f"> {line}" for line in more)]
                lines += example.output if ANY in example.output else printed
            return "".join(line + "\n" for line in lines)
        return BLOCK.sub(block, text)


if __name__ == "__main__":
    if not BINARY:
        sys.exit("console: SHARDLAB_BINARY names no program")
    for name in sys.argv[1:]:
        Path(name).write_text(updated(Path(name).read_text()))
