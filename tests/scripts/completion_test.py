#!/usr/bin/env python3
"""Types half a command line and the tab key into bash, zsh and fish, and looks at what the shell makes of it.

A shell that is not installed is skipped; scripts/setup installs all three.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from console import BINARY

PATIENCE_S = 60.0
READY = "shell-is-ready"


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, command: list[str], folder: Path, set_up: str):
        self.text = ""
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            environment = {"HOME": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "> ",
                           "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "200"}
            os.execvpe(command[0], command, environment)
        self.type(f"{set_up}; echo {READY[:5]}''{READY[5:]}\n")
        self.read_until(READY)

    def close(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.file)

    def type(self, text: str):
        os.write(self.file, text.encode())

    def read_some(self, seconds: float) -> bool:
        """Adds to `text` what the shell writes. False once nothing came for this long."""
        if not select.select([self.file], [], [], seconds)[0]:
            return False
        try:
            self.text += os.read(self.file, 65536).decode(errors="replace")
        except OSError:  # the shell has ended
            return False
        return True

    def read_until(self, what: str):
        deadline = time.monotonic() + PATIENCE_S
        while what not in self.text:
            if time.monotonic() > deadline:
                raise AssertionError(f"{what!r} did not come: {self.text!r}")
            self.read_some(0.2)

    def completed(self, typed: str) -> list[str]:
        """The words of the command line once the tab key was pressed at its end."""
        self.type(typed + "\t")
        # The words are printed once the shell has completed them: it reads its input in order.
        self.text = ""
        self.type("\x05 \x01printf '<%s>' begin \x05 end; echo done''-it\n")
        self.read_until("done-it")
        found = re.search(r"<begin>(.*)<end>", self.text, re.DOTALL)
        self.text = ""
        assert found, typed
        return re.findall(r"<(.*?)>", found.group(1))

    def offered(self, typed: str, expected: str) -> str:
        """What the shell shows after the tab key was pressed twice, up to a word that has to be there."""
        self.text = ""
        self.type(typed + "\t\t")
        self.read_until(expected)
        while self.read_some(0.5):
            pass
        shown = self.text
        self.type("\x15\n")  # an empty command line
        self.text = ""
        return shown


def needs(shell: str):
    return unittest.skipUnless(shutil.which(shell), f"there is no {shell} here; scripts/setup installs it")


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BINARY:
            raise unittest.SkipTest("SHARDLAB_BINARY names no program")
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin" / "shardlab").symlink_to(BINARY)
        (cls.folder / "mine-alone.json").write_text("{}")

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def expect_completes(self, terminal: Terminal):
        for typed, words in (
            ("shardlab solve-n", ["shardlab", "solve-network"]),
            ("shardlab compare --basel", ["shardlab", "compare", "--baseline"]),
            ("shardlab compare --baseline dtensor-v-c", ["shardlab", "compare", "--baseline", "dtensor-v-compute"]),
            ("shardlab compare --baseline=dtensor-v-c", ["shardlab", "compare", "--baseline=dtensor-v-compute"]),
            ("shardlab ties --suite ops-sm", ["shardlab", "ties", "--suite", "ops-small"]),
            ("shardlab plan --from \"S(0)R\" --topology h100-ro",
             ["shardlab", "plan", "--from", "S(0)R", "--topology", "h100-roce"]),
            ("shardlab plan --tensor 'bf16[8,8]' --planner gra",
             ["shardlab", "plan", "--tensor", "bf16[8,8]", "--planner", "graph"]),
            ("shardlab select --op aten._safe_softmax.", ["shardlab", "select", "--op", "aten._safe_softmax.default"]),
            ("shardlab describe model alpha_b", ["shardlab", "describe", "model", "alpha_beta"]),
            ("shardlab describe program transformer-bl", ["shardlab", "describe", "program", "transformer-block"]),
            ("shardlab solve ml", ["shardlab", "solve", "mlp"]),
            ("shardlab report mine-al", ["shardlab", "report", "mine-alone.json"]),
            ("shardlab compare --baseline=mine-al", ["shardlab", "compare", "--baseline=mine-alone.json"]),
            ("shardlab completion fi", ["shardlab", "completion", "fish"]),
            ("shardlab help regr", ["shardlab", "help", "regress"]),
            ("shardlab plan --set mine-al", ["shardlab", "plan", "--set", "mine-al"]),
        ):
            with self.subTest(typed):
                self.assertEqual(terminal.completed(typed), words)

    @needs("bash")
    def test_bash(self):
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], self.folder,
                            "source <(shardlab completion bash); bind 'set enable-bracketed-paste off'")
        try:
            self.expect_completes(terminal)
            shown = terminal.offered("shardlab regress R0", "R03")
            self.assertIn("R12", terminal.offered("shardlab regress R1", "R12"))
            self.assertNotIn("mine-alone", shown)
        finally:
            terminal.close()

    @needs("zsh")
    def test_zsh(self):
        terminal = Terminal(["zsh", "-f", "-i"], self.folder,
                            "bindkey -e; PROMPT='> '; autoload -Uz compinit; compinit -u -D; "
                            "source <(shardlab completion zsh)")
        try:
            self.expect_completes(terminal)
            self.assertIn("plan and price one redistribution",
                          terminal.offered("shardlab ", "plan and price one redistribution"))
        finally:
            terminal.close()

    @needs("fish")
    def test_fish(self):
        """fish itself says what it would offer: complete -C."""

        def offers(typed: str) -> dict[str, str]:
            script = "shardlab completion fish | source; complete -C $argv[1]"
            result = subprocess.run(
                ["fish", "--no-config", "-c", script, typed], capture_output=True, text=True, check=True,
                cwd=self.folder, timeout=PATIENCE_S,
                env={"HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "TERM": "dumb"})
            self.assertEqual(result.stderr, "", typed)
            return dict((line + "\t").split("\t")[:2] for line in result.stdout.splitlines())

        self.assertEqual(offers("shardlab solve-n"),
                         {"solve-network": "find the cheapest assignment of a cost-function network, and prove that it is"})
        self.assertEqual(list(offers("shardlab compare --baseline dtensor-v-c")), ["dtensor-v-compute"])
        self.assertEqual(list(offers("shardlab compare --baseline=dtensor-v-c")), ["--baseline=dtensor-v-compute"])
        self.assertEqual(list(offers('shardlab plan --from "S(0)R" --topology h100-ro')), ["h100-roce"])
        self.assertEqual(sorted(offers("shardlab plan --planner ")), ["graph", "greedy"])
        self.assertEqual(list(offers("shardlab select --op aten._safe_softmax.")), ["aten._safe_softmax.default"])
        self.assertEqual(list(offers("shardlab describe model alpha_b")), ["alpha_beta"])
        self.assertEqual(list(offers("shardlab report mine-al")), ["mine-alone.json"])
        self.assertEqual(list(offers("shardlab compare --baseline=mine-al")), ["--baseline=mine-alone.json"])
        self.assertEqual(offers("shardlab plan --set mine-al"), {})
        self.assertIn("R03", offers("shardlab regress R0"))


if __name__ == "__main__":
    unittest.main()
