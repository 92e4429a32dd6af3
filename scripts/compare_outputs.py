#!/usr/bin/env python3
"""Record what the program says, and compare: has a change of the code changed anything that a user sees?

    scripts/compare_outputs.py record build/release/bin/shardlab --out build/outputs
    scripts/compare_outputs.py compare build/outputs build/release/bin/shardlab
    scripts/compare_outputs.py compare build/outputs build/release/bin/shardlab --only '^solve '
    scripts/compare_outputs.py compare build/outputs build/other-outputs

`record` runs every command line of scripts/compare_outputs.txt and keeps what each one printed, its exit code and
the files that it wrote. `compare` runs them again, with another build or after a change, prints the differences as
short diffs, and exits 1 when there are any. It can also compare two recordings without running anything.

Before two outputs are compared, everything that two builds may not have in common is replaced by a name in braces:
the commit, the compiler and the build type in records and reports, the digest of a sweep (it covers the commit), the
folder that the command ran in ({scratch}), the folder of the shipped configurations ({configs}) and this repository
({root}).

The list has one command line per line, quoted as in a shell, without the name of the program. `&&` separates
commands that run one after the other in the same folder, and `> NAME` at the end of a command puts what it prints
into a file there. Each line runs in an empty folder that holds the fixtures which the line names. Fixtures are lines
of the list too:

    @file NAME TEXT          a file with this text; escapes such as \\n and \\xff are understood
    @patch NAME FILE JSON    a JSON file, changed by a JSON merge patch (RFC 7386: null removes a key)
    @copy NAME FILE          a copy of a file of this repository ({root}/...) or of the configurations ({configs}/...)
    # ...                    a comment
"""

import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".txt")
OUTPUTS = "outputs.jsonl"  # in the folder of a recording, one line per command line
TIMEOUT_S = 60
KEPT_BYTES = 1 << 18  # of a longer file only the hash is kept
WIDE = 200  # longer lines are broken before they are compared, else one number would show a whole document
LONG = 2000  # lines of a text in which differences are looked for, from the first one on
CLIPPED = 160  # columns of a line of a diff

# What describes the build, in JSON records, in Markdown, in HTML and in prose.
BUILD = [
    (re.compile(r'("(commit|compiler|build_type)":\s*)"[^"]*"'), r'\1"{\2}"'),
    (re.compile(r'("(digest)":\s*)"[0-9a-f]{16}"'), r'\1"{\2}"'),  # of a sweep; it covers the commit
    (re.compile(r"(\| (commit|compiler|build type) \| )[^|]*( \|)"), r"\1{\2}\3"),
    (re.compile(r"(<t[dh][^>]*>(commit|compiler|build type)</t[dh]><td[^>]*>)[^<]*"), r"\1{\2}"),
    (re.compile(r"(at commit (?:`|<code>))[^`<]*"), r"\1{commit}"),
]


class Failure(Exception):
    """Something the caller can mend; its text says what."""


def read_list(path):
    """The fixtures, by name, and the command lines of a list."""
    fixtures, lines = {}, []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise Failure(f"{path}:{number}: {error}") from None
        if not line.startswith("@"):
            if line in lines:
                raise Failure(f"{path}:{number}: this command line stands twice: {line}")
            lines.append(line)
        elif (words[0], len(words)) in (("@file", 3), ("@patch", 4), ("@copy", 3)):
            if words[1] in fixtures:
                raise Failure(f"{path}:{number}: fixture {words[1]} stands twice")
            fixtures[words[1]] = words
        else:
            raise Failure(f"{path}:{number}: valid: @file NAME TEXT, @patch NAME FILE JSON or @copy NAME FILE")
    return fixtures, lines


def merged(value, patch):
    """A JSON value after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def find_configs(binary):
    """The configurations that the program finds: those above its own folder, else this repository's."""
    for folder in binary.resolve().parents:
        if (folder / "configs" / "stacks").is_dir():
            return folder / "configs"
    return ROOT / "configs"


class Runner:
    """Runs command lines of a list with one build of the program."""

    def __init__(self, binary, fixtures):
        self.binary = Path(shutil.which(binary) or binary).resolve()
        if not os.access(self.binary, os.X_OK) or self.binary.is_dir():
            raise Failure(f"{binary}: found no program there")
        self.configs = find_configs(self.binary)
        self.fixtures = {name: self.content(words) for name, words in fixtures.items()}

    def expanded(self, text):
        return text.replace("{configs}", str(self.configs)).replace("{root}", str(ROOT))

    def content(self, words):
        """The bytes of a fixture."""
        kind, name, text = words[:3]
        if kind == "@file":
            return text.encode("utf-8").decode("unicode_escape").encode("latin-1")
        try:
            source = Path(self.expanded(text)).read_bytes()
            if kind == "@copy":
                return source
            return json.dumps(merged(json.loads(source), json.loads(words[3]))).encode("utf-8")
        except (OSError, ValueError) as error:
            raise Failure(f"fixture {name}: {error}") from None

    def normalized(self, text, scratch):
        """A text without what two builds need not have in common."""
        for path, name in ((str(scratch), "{scratch}"), (str(self.configs), "{configs}"), (str(ROOT), "{root}")):
            text = text.replace(path, name)
        for pattern, replacement in BUILD:
            text = pattern.sub(replacement, text)
        return text

    def write_fixtures(self, line, scratch):
        """Writes the fixtures that a line names, and those that these name in turn; returns their paths."""
        waiting, written = [line], set()
        while waiting:
            text = waiting.pop()
            for name, content in self.fixtures.items():
                if name not in written and name in text:
                    written.add(name)
                    waiting.append(content.decode("utf-8", "replace"))
                    path = scratch / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
        return written

    def run(self, line):
        """What a command line prints and writes: a step per command, and the files."""
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="shardlab-") as folder:
            scratch = Path(folder).resolve() / "scratch"  # one name for all: messages may hold it without its path
            scratch.mkdir()
            written = self.write_fixtures(line, scratch)
            environment = {
                "PATH": os.environ.get("PATH", ""), "HOME": str(scratch), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
            steps, words = [], []
            for word in [*shlex.split(line), "&&"]:
                if word != "&&":
                    words.append(self.expanded(word))
                    continue
                steps.append(self.step(words, scratch, environment))
                words = []
            files = {}
            for path in sorted(scratch.rglob("*")):
                name = path.relative_to(scratch).as_posix()
                if path.is_file() and (name not in written or path.read_bytes() != self.fixtures[name]):
                    files[name] = self.file(path, scratch)
        return {"line": line, "steps": steps, "files": files}, time.monotonic() - start

    def step(self, words, scratch, environment):
        """What one command prints, and its exit code."""
        words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
        try:
            done = subprocess.run([self.binary, *words], cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=TIMEOUT_S, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            code, out, err = f"none: ended after {TIMEOUT_S} s", b"", b""
        if target is not None:
            (scratch / target).write_bytes(out)
        texts = [self.normalized(text.decode("utf-8", "backslashreplace"), scratch) for text in (out, err)]
        return {"exit code": code, "stdout": texts[0], "stderr": texts[1]}

    def file(self, path, scratch):
        """The hash of a written file, and its text unless it is long."""
        text = self.normalized(path.read_bytes().decode("utf-8", "backslashreplace"), scratch)
        entry = {"sha256": hashlib.sha256(text.encode("utf-8")).hexdigest()}
        if len(text) <= KEPT_BYTES:
            entry["text"] = text
        return entry


def run_all(arguments, lines, fixtures, binary):
    """The outputs of these command lines, by line, and the seconds that each took."""
    runner = Runner(binary, fixtures)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(runner.run, lines))
    outputs = {output["line"]: output for output, _ in results}
    return outputs, {output["line"]: seconds for output, seconds in results}


def read_recording(folder):
    try:
        lines = (Path(folder) / OUTPUTS).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Failure(f"{folder}: holds no recording: {error.strerror}") from None
    outputs = [json.loads(line) for line in lines]
    return {output["line"]: output for output in outputs}


def parts(output):
    """What is compared of a command line: title -> text."""
    found = {}
    many = len(output["steps"]) > 1
    for index, step in enumerate(output["steps"], 1):
        for key, value in step.items():
            found[f"{key} of step {index}" if many else key] = str(value)
    for name, entry in output["files"].items():
        found[f"file {name}"] = entry.get("text", f"sha256 {entry['sha256']}")
    return found


def pieces(text):
    """The lines of a text; long ones (JSON, HTML) are broken where a value or an element ends."""
    for line in text.splitlines():
        yield from re.sub(r"(?<=[,>])", "\n", line).splitlines() if len(line) > WIDE else [line]


def short_diff(old, new, shown):
    """The first lines of a unified diff, each of them clipped."""
    before, after = list(pieces(old)), list(pieces(new))
    if before == after:
        return ["the texts differ in the ends of their lines alone"]
    # Finding the shortest diff of two long texts takes minutes: what they begin and end with is left out first.
    same = len(os.path.commonprefix([before, after]))
    start = max(same - 1, 0)
    ends = len(os.path.commonprefix([before[same:][::-1], after[same:][::-1]]))
    before, after = (text[start:len(text) - max(ends - 1, 0)][:LONG] for text in (before, after))
    # The hunks are all that matters: the two lines that name the files go.
    lines = [line[:CLIPPED] for line in difflib.unified_diff(before, after, n=1, lineterm="")][2:]
    lines = [re.sub(r"^@@ -(\d+).*", lambda hunk: f"@@ line {int(hunk[1]) + start} @@", line) for line in lines]
    more = [f"... {len(lines) - shown} more lines"] if len(lines) > shown else []
    return lines[:shown] + more


def differences(old, new, shown):
    """The lines that show how two outputs of one command line differ; empty when they are equal."""
    before, after = parts(old), parts(new)
    lines = []
    for title in sorted(before.keys() | after.keys()):
        if title not in after:
            lines.append(f"{title}: only the first has it")
        elif title not in before:
            lines.append(f"{title}: only the second has it")
        elif before[title] != after[title]:
            lines += [f"{title}:", *short_diff(before[title], after[title], shown)]
    return lines


def selected(lines, only):
    try:
        return [line for line in lines if not only or re.search(only, line)]
    except re.error as error:
        raise Failure(f"--only: {error}") from None


def record(arguments):
    fixtures, lines = read_list(arguments.list)
    lines = selected(lines, arguments.only)
    start = time.monotonic()
    outputs, seconds = run_all(arguments, lines, fixtures, arguments.binary)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(output, ensure_ascii=False) + "\n" for output in outputs.values())
    (folder / OUTPUTS).write_text(text, encoding="utf-8")
    counts = Counter(line.split()[0] for line in lines)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    for line in sorted(lines, key=seconds.get, reverse=True)[:3]:
        print(f"slow: {seconds[line]:.1f} s  {line[:CLIPPED]}")
    print(f"{folder}: {len(lines)} command lines recorded in {time.monotonic() - start:.0f} s")
    return 0


def compare(arguments):
    before = read_recording(arguments.recording)
    if Path(arguments.other).is_dir():
        after = read_recording(arguments.other)
        lines = selected(before, arguments.only)
        both = [line for line in lines if line in after]
        unmatched = [line for line in selected(after, arguments.only) if line not in before]
    else:
        fixtures, listed = read_list(arguments.list)
        lines = selected(before, arguments.only)
        both = [line for line in lines if line in listed]
        unmatched = [line for line in selected(listed, arguments.only) if line not in before]
        after, _ = run_all(arguments, both, fixtures, arguments.other)
    differ = 0
    for line in both:
        shown = differences(before[line], after[line], arguments.lines)
        if shown:
            differ += 1
            print(f"== shardlab {line}")
            print("\n".join(shown) + "\n")
    if len(both) < len(lines):
        print(f"note: {len(lines) - len(both)} command lines stand in the first recording alone and are not compared")
    if unmatched:
        print(f"note: {len(unmatched)} command lines are not in the first recording and are not compared")
    print(f"{len(both)} command lines, {differ} differ")
    return 1 if differ else 0


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    commands = parser.add_subparsers(required=True, metavar="record|compare")
    recording = commands.add_parser("record", help="run all command lines and keep what they print and write")
    recording.add_argument("binary", metavar="BINARY", help="the program")
    recording.add_argument("--out", required=True, metavar="DIR", help="the folder that the recording goes to")
    recording.set_defaults(run=record)
    comparison = commands.add_parser("compare", help="compare a recording with a run, or with another recording")
    comparison.add_argument("recording", metavar="DIR", help="a recording")
    comparison.add_argument("other", metavar="BINARY|DIR", help="the program to run, or another recording")
    comparison.add_argument("--lines", type=positive, default=12, metavar="N",
                            help="the most lines of a diff to print (default 12)")
    comparison.set_defaults(run=compare)
    for command in (recording, comparison):
        command.add_argument("--jobs", type=positive, default=1, metavar="N",
                             help="command lines that run at the same time (default 1)")
        command.add_argument("--only", metavar="REGEX", help="only the command lines in which this is found")
        command.add_argument("--list", default=LIST, metavar="FILE", help=f"the command lines (default {LIST.name})")
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except Failure as failure:
        print(f"compare_outputs: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
