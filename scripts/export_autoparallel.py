#!/usr/bin/env python3
"""Exports a live problem of AutoParallel as a program of shardlab, with the arguments that state the same problem.

    scripts/export_autoparallel.py --factory mymodels:autop --out mlp
    shardlab solve mlp/program.json ...          the whole command line is printed

The factory takes no arguments and returns AutoParallel, entered or not, or its sharding_optimizer, with all
constraints added. The folder gets program.json, arguments.json (the words of `shardlab solve` after the program) and,
with --solve or where the factory has solved the problem, plan.json, which `solve --diff` and `simulate --plan` read.

In a program of your own, call shardlab.export_autoparallel(autop.sharding_optimizer).write("mlp") instead.

Needs PyTorch and AutoParallel (https://github.com/meta-pytorch/autoparallel), but no build of shardlab. Exit code 2
stands for a wrong argument, 1 for a graph that cannot be exported; stderr says why, in one sentence.
"""

import argparse
import importlib
import pathlib
import sys
import types

try:
    import torch  # noqa: F401
except ImportError:
    sys.exit("found no PyTorch; valid: the Python of an environment that has it, such as build/oracle-2.15.0/bin/python")

ROOT = pathlib.Path(__file__).resolve().parents[1]


def load(name):
    """A module of python/shardlab, without the package around it, which needs a build."""
    package = sys.modules.setdefault("shardlab_exporters", types.ModuleType("shardlab_exporters"))
    package.__path__ = [str(ROOT / "python" / "shardlab")]
    return importlib.import_module(f"shardlab_exporters.{name}")


exporting = load("exporting")
autoparallel = load("autoparallel")


def optimizer_of(factory, text):
    """The optimizer that the factory makes."""
    made = factory()
    if not hasattr(made, "sharding_optimizer") and hasattr(made, "build_model_graph"):
        made.__enter__()  # left open: what AutoParallel knows about the topology is gone when it is closed
    made = getattr(made, "sharding_optimizer", made)
    if not hasattr(made, "decision_vars"):
        raise exporting.ArgumentError(
            f'found --factory "{text}", which returns {type(made).__name__}; valid: AutoParallel or its '
            "sharding_optimizer"
        )
    return made


def factory_named(text):
    """The function that MODULE:FUNCTION names, with modules of the current folder first."""
    name, colon, function = text.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(name), function, None) if name and colon and function else None
    except ImportError as error:
        raise exporting.ArgumentError(f'found --factory "{text}", whose module cannot be imported ({error}); valid: a '
                                      "module on PYTHONPATH or in the current folder") from error
    if not callable(found):
        raise exporting.ArgumentError(f'found --factory "{text}"; valid: MODULE:FUNCTION')
    return found


def parser():
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    made.add_argument("--factory", required=True, help="MODULE:FUNCTION that makes AutoParallel's problem")
    made.add_argument("--name", help="the program's name; default: the folder's")
    made.add_argument("--out", required=True, type=pathlib.Path, help="folder to write")
    made.add_argument("--solve", action="store_true", help="let AutoParallel solve its problem first, for its plan")
    return made


def run(arguments):
    """Exports, writes the files and prints the command line that solves them."""
    optimizer = optimizer_of(factory_named(arguments.factory), arguments.factory)
    if arguments.solve:
        optimizer.get_solution()
    exported = autoparallel.export_autoparallel(optimizer, name=arguments.name or arguments.out.name)
    try:
        exported.write(arguments.out)
    except OSError as error:
        raise exporting.ArgumentError(f"found --out {arguments.out} ({error.strerror}); valid: a folder that can be "
                                      "written") from error
    for note in exported.notes:
        print(f"note: {note}", file=sys.stderr)
    print(exported.command(arguments.out))


def main():
    """Runs the command line and returns the exit code."""
    arguments = parser().parse_args()
    try:
        run(arguments)
    except exporting.ExportError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, exporting.ArgumentError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
