#!/usr/bin/env python3
"""Runs shardlab on a terminal: colours, and tables that fit its width."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
import unittest

from console import BINARY

PATIENCE_S = 60.0
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ERASED = re.compile(r"[^\n]*\r\x1b\[K")  # the progress that a slow command shows, each over the one before
SELECT = ["select", "--op", "aten.mm.default", "--mesh", "2x4", "--inputs", "f32[16,16] S(0)R", "f32[16,16] RR"]
SOLVE = ["solve", "mlp", "--mesh", "2x4", "--margins", "--no-timing"]


def on_terminal(words: list[str], columns: int = 80, **variables: str) -> str:
    """What the program writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", "COLUMNS": "", "SHARDLAB_CONFIGS": "", **variables}
    with subprocess.Popen([BINARY, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        deadline = time.monotonic() + PATIENCE_S
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the program has ended
                break
            if not part:
                break
            written += part
        process.wait(PATIENCE_S)
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def in_pipe(words: list[str]) -> str:
    return subprocess.run([BINARY, *words], stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S,
                          env={**os.environ, "SHARDLAB_CONFIGS": ""}).stdout


def width(line: str) -> int:
    letters = COLOUR.sub("", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in letters)


def words_of(text: str) -> list[str]:
    return sorted(COLOUR.sub("", text).split())


class TerminalTest(unittest.TestCase):
    def test_colours_are_there_unless_something_forbids_them(self):
        self.assertIn("\x1b[32mchosen\x1b[0m", on_terminal(SELECT))
        for variables in [{"NO_COLOR": "1"}, {"NO_COLOR": "0"}, {"TERM": "dumb"}, {"TERM": ""}]:
            self.assertNotIn("\x1b", on_terminal(SELECT, **variables), variables)
        self.assertNotIn("\x1b", on_terminal([*SELECT, "--color", "never"]))
        self.assertIn("\x1b[32m", on_terminal([*SELECT, "--color", "always"], NO_COLOR="1"))

    def test_an_error_is_red_on_a_terminal(self):
        self.assertIn("\x1b[31mshardlab:\x1b[0m plan: ", on_terminal(["plan"]))
        self.assertTrue(on_terminal(["plan"], NO_COLOR="1").startswith("shardlab: plan: "))

    def test_a_wide_terminal_shows_what_a_pipe_gets(self):
        for command in [SELECT, SOLVE, ["list", "stacks"], ["ties", "--suite", "ops-small"]]:
            self.assertEqual(COLOUR.sub("", ERASED.sub("", on_terminal(command, 400))), in_pipe(command))

    def test_tables_fit_the_terminal_and_lose_no_word(self):
        for command in [["list", "stacks"], ["list", "suites"], SELECT]:
            whole = in_pipe(command)
            for columns in [100, 80] if command is SELECT else [100, 80, 60]:
                lines = on_terminal(command, columns).splitlines()
                table = lines[1:] if command is SELECT else lines  # the first line of it is a sentence
                self.assertLess(0, len(table))
                for line in table:
                    if not line.startswith("  8 candidates"):
                        self.assertLessEqual(width(line), columns, line)
                self.assertEqual(words_of("\n".join(lines)), words_of(whole), (command, columns))

    def test_help_fits_the_terminal_and_its_command_lines_stay_whole(self):
        for command in [[], ["--help"], ["help"], ["plan", "--help"], ["help", "solve"]]:
            whole = in_pipe(command)
            for columns in [100, 60]:
                shown = on_terminal(command, columns)
                self.assertEqual(words_of(shown), words_of(whole), (command, columns))
                for line in shown.splitlines():
                    if not line.lstrip().startswith("shardlab ") and " " in line.strip():
                        self.assertLessEqual(width(line), columns, (command, line))
                examples = [line for line in whole.splitlines() if line.startswith("  shardlab ")]
                self.assertEqual([line for line in shown.splitlines() if line.startswith("  shardlab ")], examples)

    def test_a_number_is_never_cut(self):
        for command in [SOLVE, ["ties", "--suite", "ops-small", "--all"]]:
            figures = re.findall(r"(?<!\S)\d+\.\d+(?!\S)", in_pipe(command))
            self.assertLess(5, len(figures))
            for columns in [80, 40, 20]:
                shown = re.findall(r"(?<!\S)\d+\.\d+(?!\S)", COLOUR.sub("", on_terminal(command, columns)))
                self.assertEqual(shown, figures, (command, columns))

    def test_the_variable_columns_counts_more_than_the_terminal(self):
        narrow = on_terminal(["list", "stacks"], 200, COLUMNS="60")
        self.assertLessEqual(max(map(width, narrow.splitlines())), 60)
        self.assertGreater(max(map(width, on_terminal(["list", "stacks"], 200).splitlines())), 60)
        for senseless in ["0", "-5", "wide", ""]:
            lines = on_terminal(["list", "stacks"], 70, COLUMNS=senseless).splitlines()
            self.assertLessEqual(max(map(width, lines)), 70)

    def test_a_terminal_that_does_not_say_its_width_gets_whole_lines(self):
        self.assertEqual(COLOUR.sub("", on_terminal(["list", "stacks"], 0)), in_pipe(["list", "stacks"]))


if __name__ == "__main__":
    unittest.main()
