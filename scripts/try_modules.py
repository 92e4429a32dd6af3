#!/usr/bin/env python3
"""Takes modules that others wrote through export, solve and simulate, and says what becomes of each.

    pip install transformers timm torchvision diffusers
    scripts/try_modules.py
    scripts/try_modules.py t5 mamba2 --stack shardlab

The modules are those of scripts/foreign_modules.py, with short extents. Each training step is exported, its best
layouts on the mesh are sought, and the step runs with data on virtual ranks, where every node is compared with the
module on one device. A row says how many nodes the program has, what the best plan takes and whether that is proved,
which operators have no sharding rule, and how many nodes came out wrong. Needs those packages, PyTorch 2.13 or newer,
and a build of shardlab (SHARDLAB_BINARY, or build/release/bin/shardlab).

Exit code 0: whatever could be exported was solved, and no node is wrong; 1 otherwise; 2 for a wrong argument.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("SHARDLAB_BINARY", str(ROOT / "build" / "release" / "bin" / "shardlab"))
SECONDS = 600  # for each command


class Refused(Exception):
    """A command that ended with another exit code than 0, and its last line."""


def run(*command):
    """The standard output of a command. Raises Refused."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                              timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"took more than {SECONDS} s") from error
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error
    # Exit code 1 beside a document is an answer: solve has no plan that fits, or simulate found nodes that are wrong.
    if done.returncode not in (0, 1) or (done.returncode == 1 and not done.stdout.strip()):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Refused(lines[-1])
    return done.stdout


def unknown_operators(notes):
    """The operators that the notes of solve name as having no sharding rule."""
    marker = " has no sharding rule"
    return [note.split(marker)[0] for note in notes if marker in note]


class Trial(collections.namedtuple("Trial", "folder mesh options")):
    """Where the files go, and what each command is given."""

    def export(self, name):
        """The file of the module's training step."""
        file = self.folder / f"{name}.json"
        run(sys.executable, ROOT / "scripts" / "export_program.py", "--factory",
            f"foreign_modules:{name.replace('-', '_')}", "--name", name, "--out", file)
        if not file.exists():
            raise Refused("no program was written")
        return file

    def judge(self, file):
        """What solve and simulate say of a program, as the cells of a row, and whether all is right."""
        plan = file.with_suffix(".plan.json")
        begin = time.monotonic()
        plan.write_text(run(BINARY, "solve", file, "--mesh", self.mesh, "--format", "json", *self.options),
                        encoding="utf-8")
        solved_s = time.monotonic() - begin
        solution = json.loads(plan.read_text(encoding="utf-8"))
        if solution["objective_us"] is None:
            raise Refused("has no plan that fits into a device")
        begin = time.monotonic()
        simulated = json.loads(run(BINARY, "simulate", file, "--mesh", self.mesh, "--plan", plan, "--data", "on",
                                   "--memory", "16GiB", "--format", "json", *self.options))
        simulated_s = time.monotonic() - begin
        wrong = simulated["wrong_nodes"]
        cells = [str(solution["nodes"]), f"{solution['objective_us']:.5g}", "yes" if solution["optimal"] else "no",
                 f"{solved_s:.1f}", str(len(wrong)), f"{simulated_s:.0f}",
                 " ".join(unknown_operators(solution["notes"]))]
        return cells, solution["optimal"] and not wrong


def parser(names):
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    made.add_argument("modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(names)}")
    made.add_argument("--mesh", default="2x4", help="default: 2x4")
    made.add_argument("--stack", help="default: what solve takes by itself")
    made.add_argument("--keep", type=pathlib.Path, help="folder for the programs and the plans")
    return made


def main():
    """Runs the command line and returns the exit code."""
    try:
        from foreign_modules import FACTORIES  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        sys.exit(f"found no {error.name}; valid: the Python of an environment that has PyTorch")
    arguments = parser(FACTORIES).parse_args()
    for name in arguments.modules:
        if name not in FACTORIES:
            print(f'found module "{name}"; valid: {", ".join(FACTORIES)}', file=sys.stderr)
            return 2
    options = ["--stack", arguments.stack] if arguments.stack else []
    all_right = True
    row = "{:14} {:>6} {:>8} {:>7} {:>6} {:>6} {:>6}  {}".format
    print(row("module", "nodes", "best us", "proved", "s", "wrong", "s", "operators without a rule"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        trial = Trial(folder, arguments.mesh, options)
        for name in arguments.modules or FACTORIES:
            try:
                file = trial.export(name)
            except Refused as refused:
                print(f"{name:14} is not exported: {refused}", flush=True)
                continue
            try:
                cells, is_right = trial.judge(file)
                print(row(name, *cells).rstrip(), flush=True)
            except Refused as refused:
                print(f"{name:14} {refused}", flush=True)
                is_right = False
            all_right = all_right and is_right
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
