"""What a choice that is cheaper now costs later."""

from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "How often is the locally cheaper choice dearer later?"
QUESTION = ("DTensor decides op by op, and a partial that is kept now is paid for by whoever reads it: how often does a choice that is cheaper "
            "on its own lose, once what follows from it is counted?")
THREAD = "https://github.com/pytorch/pytorch/pull/172282"
SLOW = True

REFERENCE = "calibrated-h100"
PROGRAMS = (("llama3-8b", ("--layers", "2", "--batch", "8", "--matmul", "native")),
            ("gpt2-xl", ("--layers", "2", "--batch", "8", "--matmul", "native")))
MESHES = ("2x4", "8x8")
RECIPES = ("fsdp-tp", "fsdp-tp-sp", "tp-sp")
CHANGES = (("dtensor-v3", "dtensor-v4"), ("dtensor-v3", "dtensor-v3-rp"), ("dtensor-2.13", "dtensor-2.15"), ("dtensor-2.13", "alpha-beta"),
           ("dtensor-legacy", "dtensor-2.13"))
MOST_FLIPS = 15


@dataclass
class Change:
    """The flips of one change of stack, over all programs, meshes and recipes."""

    before: str
    after: str
    flips: list[tuple[str, dict[str, Any]]]
    compared: int = 0

    def cheaper(self) -> list[dict[str, Any]]:
        return [flip for _, flip in self.flips if flip["delta_local_us"] < 0]

    def lost(self) -> list[dict[str, Any]]:
        return [flip for flip in self.cheaper() if flip["delta_sum_us"] > 0]


def find(program: Shardlab) -> Finding:
    changes = [Change(before, after, []) for before, after in CHANGES]
    for name, options in PROGRAMS:
        path = program.folder / f"{name}.json"
        program.write("program", name, *options, "--out", path)
        for mesh in MESHES:
            for recipe in RECIPES:
                for change in changes:
                    compare(program, change, path, f"{name}, {recipe}, {mesh}", mesh, recipe)
    return Finding(answer(changes), body(changes))


def compare(program: Shardlab, change: Change, path: object, where: str, mesh: str, recipe: str) -> None:
    folder = program.folder / f"{change.before}-{change.after}-{where.replace(', ', '-')}"
    program.write("compare", "--baseline", change.before, "--candidate", change.after, "--program", path, "--mesh", mesh,
                  "--recipe", recipe, "--reference", REFERENCE, "--downstream", "--out", folder, passes=(0, 2, 3))
    if not (folder / "record.json").exists():
        return
    change.compared += 1
    for step in program.read(folder / "record.json")["steps"]:
        change.flips += [(where, flip) for flip in step["flips"]]


def answer(changes: list[Change]) -> str:
    flips = sum(len(change.flips) for change in changes)
    cheaper = sum(len(change.cheaper()) for change in changes)
    lost = sum(len(change.lost()) for change in changes)
    return (f"Of {flips} flipped decisions, {cheaper} are cheaper on their own, and {lost} of these ({text.percent(lost, cheaper, 0)}) cost more than "
            "they save once all that follows is counted.")


def body(changes: list[Change]) -> str:
    rows = []
    for change in changes:
        cheaper, lost = change.cheaper(), change.lost()
        rows.append([f"`{change.before}` to `{change.after}`", change.compared, len(change.flips), len(cheaper), len(lost),
                     text.microseconds(sum(flip["delta_local_us"] for flip in cheaper)),
                     text.microseconds(sum(flip["delta_sum_us"] for flip in cheaper)),
                     text.microseconds(sum(flip["delta_step_us"] for flip in cheaper))])
    every = [(change, where, flip) for change in changes for where, flip in change.flips]
    every.sort(key=lambda item: (-abs(item[2]["delta_sum_us"] - item[2]["delta_local_us"]), item[1], item[2]["node"]))
    largest = [[where, f"`{flip['op']}` at `{flip['node']}`", flip["count"], text.microseconds(flip["delta_local_us"]),
                text.microseconds(flip["delta_sum_us"]), text.microseconds(flip["delta_step_us"]), flip["followers"],
                f"`{flip['baseline']}` becomes `{flip['candidate']}`"] for _, where, flip in every[:MOST_FLIPS]]
    return f"""
## By change

{text.table(["change", "steps:", "flips:", "cheaper alone:", "of these dearer later:", "alone:", "with what follows:", "in the step:"], rows)}

Each flip is taken alone, wherever its program asks the same question, and every later operator decides anew under the baseline, as eager DTensor
does. "Alone" is the operator with what brings its inputs there, "with what follows" the sum of all kernels and moves of the training
step, and "in the step" its simulated time, where moves hide behind kernels. The last three columns sum over the flips that are
cheaper alone. Below zero is a saving. Steps are the programs, recipes and meshes whose decisions can run: on 8x8 most stacks stop at a view, of 25
heads over 8 ranks in GPT-2 XL, and of a strided shard whose order they do not know in LLaMA3-8B.

## The largest differences

{text.table(["program, recipe, mesh", "operator", "nodes:", "alone:", "with what follows:", "in the step:", "nodes that follow:", "change"], largest) if largest else "No flip."}

## What to do

- Read a flip's local price as a hint. `compare --program --downstream` has both figures for a program of your own.
- A rule that keeps a partial is worth it where the reader reduces it anyway, and costs where several readers each do.

## By hand

{text.commands("shardlab program llama3-8b --layers 2 --batch 8 --matmul native --out llama.json",
               "shardlab compare --baseline dtensor-2.13 --candidate dtensor-2.15 --program llama.json --mesh 2x4 --recipe fsdp-tp "
               f"--reference {REFERENCE} --downstream",
               "scripts/generate_findings.sh hidden-tax")}

## What this rests on

Programs: shardlab's LLaMA3-8B and GPT-2 XL with two layers, forward and backward, with parameters as the recipe lays them out. Decisions: shardlab's stacks of
DTensor (docs/trust.md). Prices: `{REFERENCE}`, fitted to public logs of nccl-tests, and datasheet kernels. The largest error of this method is that of
the prices ([scoreboard](../scoreboard.md)). No GPU was measured for this page.
"""
