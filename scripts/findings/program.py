"""Runs shardlab, and reads what it prints and what it ships."""

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


class Shardlab:
    """The program. `run` returns the JSON of one command; `folder` is for files that a page needs meanwhile."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.folder = folder

    def run(self, *words: Any, passes: tuple[int, ...] = (0,)) -> Any:
        """What `shardlab WORDS` prints as JSON. An exit code that is not among `passes` ends the script."""
        command = [self.binary, *map(str, words), "--format", "json", "--no-timing"]
        if words[0] not in ("list",):
            command.append("--quiet")
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if ran.returncode not in passes:
            raise SystemExit(f"shardlab {' '.join(map(str, words))}: exit code {ran.returncode}: {ran.stderr}")
        return json.loads(ran.stdout)

    def write(self, *words: Any, passes: tuple[int, ...] = (0,)) -> None:
        """Runs a command for the files that it writes. An exit code that is not among `passes` ends the script."""
        command = [self.binary, *map(str, words), "--quiet"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if ran.returncode not in passes:
            raise SystemExit(f"shardlab {' '.join(map(str, words))}: exit code {ran.returncode}: {ran.stderr}")

    def read(self, path: Path) -> Any:
        """The JSON of a file."""
        return json.loads(path.read_text())

    def refusal(self, *words: Any) -> str | None:
        """The first line of what shardlab says when it refuses a command; None if it does not."""
        ran = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, check=False, cwd=ROOT)
        return ran.stderr.strip().splitlines()[0] if ran.returncode else None

    def names(self, registry: str) -> list[str]:
        """The names of a registry, such as "suites"."""
        return list(self.run("list", registry)[registry])

    def file(self, name: str, content: Any) -> Path:
        """Writes a JSON file that later commands read."""
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def variant(self, base: str, changes: dict[str, Any]) -> Path:
        """A stack that differs from a shipped one by some of its keys."""
        text = json.dumps([base, changes], sort_keys=True)
        name = f"{base}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return self.file(f"{name}.json", {"schema": "shardlab/stack/1", "base": base, "name": name, **changes})


def shardlab(folder: Path) -> Shardlab:
    return Shardlab(os.environ.get("SHARDLAB_BINARY", str(ROOT / "build/release/bin/shardlab")), folder)


def temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="shardlab-findings-")
