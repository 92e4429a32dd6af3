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
NOISE_US = 1e-6  # what sums of the same kernels and moves may differ by


Seen = tuple[str, str, str, dict[str, Any]]  # program, recipe, mesh, and what the record says of the flip


@dataclass(frozen=True)
class Flip:
    """One decision that flips and comes out the same way under some recipes. Times are means over these, in microseconds."""

    program: str
    mesh: str
    recipes: tuple[str, ...]
    seen: tuple[dict[str, Any], ...]

    def us(self, key: str) -> float:
        return sum(float(each[key]) for each in self.seen) / len(self.seen)

    @property
    def cheaper(self) -> bool:
        return self.us("delta_local_us") < -NOISE_US

    @property
    def lost(self) -> bool:
        return self.cheaper and self.us("delta_sum_us") > NOISE_US


@dataclass
class Change:
    """The flips of one change of stack, over all programs, meshes and recipes."""

    before: str
    after: str
    seen: list[Seen]
    compared: int = 0

    def flips(self) -> list[Flip]:
        """Distinct ones: recipes that lay a node's inputs out alike ask the same question there, and get the same answer."""
        alike: dict[tuple[object, ...], list[Seen]] = {}
        for program, recipe, mesh, flip in self.seen:
            cheaper, lost = flip["delta_local_us"] < -NOISE_US, flip["delta_sum_us"] > NOISE_US
            key = (program, mesh, flip["node"], flip["baseline"], flip["candidate"], cheaper, cheaper and lost)
            alike.setdefault(key, []).append((program, recipe, mesh, flip))
        return [Flip(same[0][0], same[0][2], tuple(recipe for _, recipe, _, _ in same), tuple(flip for *_, flip in same)) for same in alike.values()]


def find(program: Shardlab) -> Finding:
    changes = [Change(before, after, []) for before, after in CHANGES]
    for name, options in PROGRAMS:
        path = program.folder / f"{name}.json"
        program.write("program", name, *options, "--out", path)
        for mesh in MESHES:
            for recipe in RECIPES:
                for change in changes:
                    compare(program, change, path, name, mesh, recipe)
    return Finding(answer(changes), body(changes))


def compare(program: Shardlab, change: Change, path: object, name: str, mesh: str, recipe: str) -> None:
    folder = program.folder / f"{change.before}-{change.after}-{name}-{recipe}-{mesh}"
    program.write("compare", "--baseline", change.before, "--candidate", change.after, "--program", path, "--mesh", mesh,
                  "--recipe", recipe, "--reference", REFERENCE, "--downstream", "--out", folder, passes=(0, 2, 3))
    if not (folder / "record.json").exists():
        return
    change.compared += 1
    for step in program.read(folder / "record.json")["steps"]:
        change.seen += [(name, recipe, mesh, flip) for flip in step["flips"]]


def answer(changes: list[Change]) -> str:
    flips = [flip for change in changes for flip in change.flips()]
    cheaper = sum(flip.cheaper for flip in flips)
    lost = sum(flip.lost for flip in flips)
    return (f"In shardlab's built-in LLaMA3-8B and GPT-2 XL, {cheaper} of {len(flips)} distinct flipped decisions are cheaper on their own, and {lost} of these "
            f"({text.percent(lost, cheaper, 0)}) cost more than they save once all that follows is counted.")


def body(changes: list[Change]) -> str:
    rows = []
    for change in changes:
        flips = change.flips()
        cheaper = [flip for flip in flips if flip.cheaper]
        rows.append([f"`{change.before}` to `{change.after}`", change.compared, len(change.seen), len(flips), len(cheaper), sum(flip.lost for flip in cheaper),
                     *(text.microseconds(sum(flip.us(key) for flip in cheaper)) for key in ("delta_local_us", "delta_sum_us", "delta_step_us"))])
    every = [flip for change in changes for flip in change.flips()]
    every.sort(key=lambda flip: (-abs(flip.us("delta_sum_us") - flip.us("delta_local_us")), flip.program, flip.mesh, flip.seen[0]["node"]))
    largest = [[f"{flip.program}, {flip.mesh}", ", ".join(flip.recipes), f"`{flip.seen[0]['op']}` at `{flip.seen[0]['node']}`", span(flip, "count"),
                *(text.microseconds(flip.us(key)) for key in ("delta_local_us", "delta_sum_us", "delta_step_us")), span(flip, "followers"),
                f"`{flip.seen[0]['baseline']}` becomes `{flip.seen[0]['candidate']}`"] for flip in every[:MOST_FLIPS]]
    counted = sum(len(change.seen) for change in changes)
    return f"""
## By change

{text.table(["change", "steps:", "flips:", "distinct:", "cheaper alone:", "of these dearer later:", "alone:", "with what follows:", "in the step:"], rows)}

Each flip is taken alone, wherever its program asks the same question, and every later operator decides anew under the baseline, as eager DTensor
does. "Alone" is the operator with what brings its inputs there, "with what follows" the sum of all kernels and moves of the training
step, and "in the step" its simulated time, where moves hide behind kernels. The same flip at the same node under several recipes counts once, unless it comes
out otherwise: {counted} flips of all steps are {len(every)} distinct ones. From the fifth column on only distinct flips count, with the mean over their recipes, and the
last three columns sum over those that are cheaper alone. Below zero is a saving. Steps are the programs, recipes and meshes whose decisions can run: on 8x8 most
stacks stop at a view, of 25 heads over 8 ranks in GPT-2 XL, and of a strided shard whose order they do not know in LLaMA3-8B.

## The largest differences

{text.table(["program, mesh", "recipes", "operator", "nodes:", "alone:", "with what follows:", "in the step:", "nodes that follow:", "change"], largest) if largest else "No flip."}

## What to do

- Read a flip's local price as a hint. `compare --program --downstream` has both figures for a program of your own.
- A rule that keeps a partial is worth it where the reader reduces it anyway, and costs where several readers each do.

## By hand

{text.commands("shardlab program llama3-8b --layers 2 --batch 8 --matmul native --out llama.json",
               "shardlab compare --baseline dtensor-2.13 --candidate dtensor-2.15 --program llama.json --mesh 2x4 --recipe fsdp-tp "
               f"--reference {REFERENCE} --downstream",
               "scripts/generate_findings.sh hidden-tax")}

## What this rests on

Programs: shardlab's built-in LLaMA3-8B and GPT-2 XL with two layers, forward and backward, with parameters as the recipe lays them
out; no program that was recorded from PyTorch is among them. Decisions: shardlab's stacks of DTensor (docs/trust.md). Prices: `{REFERENCE}`, fitted to public logs of nccl-tests, and datasheet kernels. The largest error of this method is that of
the prices ([scoreboard](../scoreboard.md)). No GPU was measured for this page.
"""


def span(flip: Flip, key: str) -> str:
    """A count, or its least and largest over the recipes."""
    counts = sorted({each[key] for each in flip.seen})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
