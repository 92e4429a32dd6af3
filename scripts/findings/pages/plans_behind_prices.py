"""How often a price that strategy selection is given has no plan that costs as much."""

from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "Does every strategy price have a plan of that price?"
QUESTION = ("The price of a strategy and the plan that runs come from different code: Shard to Partial is infinite for one and free for the "
            "other. How often do the two disagree, and in which releases?")
THREAD = "https://github.com/pytorch/pytorch/pull/191828"
SLOW = False

STACKS = ("dtensor-2.13", "dtensor-2.14", "dtensor-2.15", "dtensor-v3", "dtensor-v4", "dtensor-v-compute")
CHECKS = (("priced_plan_runs", "a price without a plan that runs"), ("price_is_executed", "a price that its plan does not cost"),
          ("running_plan_is_priced", "a plan that runs without a price"))


def find(program: Shardlab) -> Finding:
    words: list[Any] = ["compare", "--baseline", STACKS[0]]
    for stack in STACKS[1:]:
        words += ["--candidate", stack]
    folder = program.folder / "invariants"
    program.write(*words, "--suite", "torchtitan-llama3-8b-full-dtensor", "--reference", "calibrated-h100", "--out", folder)
    found = {(each["stack"], each["name"]): each for each in program.read(folder / "record.json")["invariants"]}
    return Finding(answer(found), body(found))


def answer(found: dict[tuple[str, str], Any]) -> str:
    def shares(name: str) -> str:
        each = [text.percent(found[stack, name]["violated"], found[stack, name]["checked"]) for stack in STACKS[:3]]
        return each[0] if len(set(each)) == 1 else text.listed(each)

    unrunnable = sum(found[stack, "priced_plan_runs"]["violated"] for stack in STACKS[:3])
    return (f"Under PyTorch 2.13, 2.14 and 2.15 {'every' if unrunnable == 0 else 'not every'} price has a plan that runs. Of these prices "
            f"{shares('price_is_executed')} are not what the plan's steps cost, since merged steps are priced as if they were not merged. Of the redistributions with "
            f"a plan that runs, {shares('running_plan_is_priced')} have an infinite price: those in which a shard becomes a partial.")


def body(found: dict[tuple[str, str], Any]) -> str:
    rows = []
    for stack in STACKS:
        for name, meaning in CHECKS:
            each = found[stack, name]
            worst = each["worst"]
            rows.append([f"`{stack}`", meaning, f"{each['checked']:,}", f"{each['violated']:,}", worst["witness"] if worst else "-"])
    return f"""
## By stack

{text.table(["stack", "what is wrong", "checked:", "found:", "the worst case"], rows)}

Random tensors and meshes, with sharded, replicated and partial layouts on both ends, on topology `h100`; half of the meshes have a flattened mesh
for all dims, and half of the tensors do not divide evenly. The price is what strategy selection is given for a
redistribution, and the plan is what the same stack would run. `--seed` draws others.

## What to do

- Price what is merged as it runs. By DTensor's own latencies one collective among all ranks of several hosts can cost more than the two that it replaces.
- A layout change that the planner can run and the cost function calls impossible hides a strategy from selection. Since 2.14 that is every change of a shard
  into a partial: one price for it, zero or that of writing zeros, would let strategies use what the planner does anyway. Case [R90](../../configs/regressions/R90.json) has one
  such change, whose price is finite under 2.13 and infinite since.

## By hand

{text.commands("shardlab compare --baseline dtensor-2.13 --candidate dtensor-2.15 --suite ops-small --out report/   # the section on invariants",
               "scripts/generate_findings.sh plans-behind-prices")}

## What this rests on

shardlab's stacks of the three releases, whose prices and plans agree with recorded answers of these releases (docs/trust.md). No GPU was used.
"""
