"""Which plans have reductions that can be merged onto a flattened mesh, and what each algorithm's merges save."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "Which plans does merging reductions merge, and what does it save?"
QUESTION = ("A pull request merges all-reduces over neighbouring mesh dims; its successor, which PyTorch has, merges any run of one collective "
            "where a flattened mesh is registered: how many plans does each merge, and what does that save on each mesh?")
THREAD = "https://github.com/pytorch/pytorch/pull/171913"
SLOW = True

STACK = "calibrated-h100"
SUITE = "ops-full"
REASONS = {"non_ascending_mesh_dims": "dims in the wrong order", "uneven_tensor_shape": "uneven shards", "no_flattened_mesh": "no flattened mesh"}


Merge = tuple[str, tuple[int, ...]]  # the collective and the mesh dims of a merged step


@dataclass(frozen=True)
class Merged:
    us: float
    merges: tuple[Merge, ...]


@dataclass(frozen=True)
class Plan:
    """One redistribution under the greedy planner, with every flattened mesh registered."""

    mesh: str
    apart_us: float
    first: Merged  # by the pull request's own rule
    second: Merged  # by its successor's, which PyTorch has
    refused: tuple[str, ...]
    graph: bool  # whether the successor merges something in the plan of the graph planner
    graph_refused: tuple[str, ...]


def find(program: Shardlab) -> Finding:
    plans = []
    for question in program.run("describe", "suite", SUITE, "--questions")["questions"]:
        if question["kind"] == "plan" and "x" in question["mesh"]:
            plan = planned(program, question)
            if plan:
                plans.append(plan)
    return Finding(answer(plans), body(plans, recorded(program)))


def planned(program: Shardlab, question: dict[str, Any]) -> Plan | None:
    names = "abcd"[: question["mesh"].count("x") + 1]
    mesh = ",".join(f"{name}={extent}" for name, extent in zip(names, question["mesh"].split("x")))
    words = ["plan", "--mesh", mesh, "--tensor", question["tensor"], "--from", question["from"], "--to", question["to"], "--stack", STACK,
             "--set", "stack.merge=execute"]
    for length in range(2, len(names) + 1):
        for dims in itertools.combinations(names, length):
            words += ["--flatten", ",".join(dims)]
    found = program.run(*words, "--planner", "greedy")
    if found["price_us"] is None or found["executed_us"] is None:
        return None
    first = program.run(*words, "--planner", "greedy", "--set", "stack.merge_rule=neighbouring-all-reduces")
    graph = program.run(*words, "--planner", "graph")
    return Plan(question["mesh"], found["price_us"], merged_in(first), merged_in(found), refusals(found),
                any(len(step["mesh_dims"]) > 1 for step in graph["steps"]), refusals(graph))


def refusals(found: Any) -> tuple[str, ...]:
    """Why runs of the plan are not merged; a reason once for each run."""
    return tuple(reason for warning in found["warnings"] for reason in REASONS if reason in json.dumps(warning))


def merged_in(found: Any) -> Merged:
    return Merged(found["executed_us"], tuple((step["collective"], tuple(step["mesh_dims"])) for step in found["steps"] if len(step["mesh_dims"]) > 1))


def recorded(program: Shardlab) -> list[tuple[str, int, int]]:
    """For each suite of a recorded program: inputs that move, and those of them that move by two or more steps."""
    found = []
    for suite in program.names("suites"):
        if not suite.startswith("ops-"):
            out = program.folder / f"{suite}.choices.json"
            program.run("record", "--stack", "dtensor-2.15", "--suite", suite, "--out", out)
            moved = several = 0
            for choice in json.loads(out.read_text())["choices"]:
                steps: dict[int, int] = {}
                for step in choice["steps"]:
                    steps[step["input"]] = steps.get(step["input"], 0) + 1
                moved += len(steps)
                several += sum(count > 1 for count in steps.values())
            found.append((suite, moved, several))
    return found


def saved(plans: list[Plan], rule: str) -> str:
    """The share of the time of the plans that the rule merges; "-" where it merges none."""
    merged = [plan for plan in plans if getattr(plan, rule).merges]
    apart = sum(plan.apart_us for plan in merged)
    return text.percent(sum(plan.apart_us - getattr(plan, rule).us for plan in merged), apart, 0) if merged else "-"


def change(plans: list[Plan]) -> float:
    """By how much the successor's merges change the time of the plans that it merges: -0.5 takes half of it."""
    merged = [plan for plan in plans if plan.second.merges]
    return sum(plan.second.us for plan in merged) / sum(plan.apart_us for plan in merged) - 1


def spread(plans: list[Plan]) -> str:
    """On which mesh the merges change the time least and most favourably, and which meshes lose."""
    meshes = {mesh: [plan for plan in plans if plan.mesh == mesh] for mesh in dict.fromkeys(plan.mesh for plan in plans)}
    changes = {mesh: change(here) for mesh, here in meshes.items() if any(plan.second.merges for plan in here)}
    worst, best = max(changes, key=lambda mesh: changes[mesh]), min(changes, key=lambda mesh: changes[mesh])
    slower = [mesh for mesh in changes if changes[mesh] > 0]
    return (f"from {100 * -changes[best]:.0f} % less on {best} to {100 * abs(changes[worst]):.0f} % {'more' if changes[worst] > 0 else 'less'} on {worst}"
            + (f", and more in all on {text.listed(slower)}" if len(slower) > 1 else ", the only mesh that loses in all" if slower else ""))


def answer(plans: list[Plan]) -> str:
    merged = [plan for plan in plans if plan.second.merges]
    first = [plan for plan in plans if plan.first.merges]
    longer = [plan for plan in merged if plan.second.us > plan.apart_us]
    refused = [plan for plan in plans if plan.refused]
    return (f"Of {len(plans):,} random redistributions on meshes of two and more dims, the pull request's algorithm merges {len(first)} and its successor {len(merged)}; "
            f"the successor's merges take {saved(plans, 'second')} less time than the steps apart, "
            f"by `{STACK}`: {spread(plans)}. By the same prices {len(longer)} of them would be slower merged ({losers(longer)}), and {len(refused)} plans have a run that is refused.")


def wrong_order(plans: list[Plan]) -> str:
    """Why the greedy planner's runs are never in the wrong order, or how many are after all."""
    wrong = sum("non_ascending_mesh_dims" in plan.refused for plan in plans)
    if wrong:
        return f"{wrong} plans have a run whose mesh dims stand in the wrong order."
    return ("No run of these stands in the wrong order, and none can: the greedy planner gathers from the last mesh dim to the first, and it cuts a tensor dim on a mesh dim\n"
            "only after all mesh dims to the left that cut it.")


def losers(longer: list[Plan]) -> str:
    """The meshes of plans that are slower merged, those with the most first."""
    counts = {mesh: sum(plan.mesh == mesh for plan in longer) for mesh in dict.fromkeys(plan.mesh for plan in longer)}
    return text.listed([f"{count} on {mesh}" for mesh, count in sorted(counts.items(), key=lambda item: -item[1])])


def body(plans: list[Plan], programs: list[tuple[str, int, int]]) -> str:
    rows = []
    for mesh in dict.fromkeys(plan.mesh for plan in plans):
        here = [plan for plan in plans if plan.mesh == mesh]
        merged = [plan for plan in here if plan.second.merges]
        rows.append([mesh, len(here), sum(bool(plan.first.merges) for plan in here), len(merged),
                     sum(plan.second.us > plan.apart_us for plan in merged), saved(here, "first"), saved(here, "second"),
                     *(sum(reason in plan.refused for plan in here) for reason in REASONS)])
    graph_rows = [[mesh, len(here), sum(plan.graph for plan in here), *(sum(reason in plan.graph_refused for plan in here) for reason in REASONS)]
                  for mesh in dict.fromkeys(plan.mesh for plan in plans) for here in [[plan for plan in plans if plan.mesh == mesh]]]
    kinds: dict[str, list[int]] = {}
    for plan in plans:
        for collective, dims in plan.second.merges:
            counts = kinds.setdefault(collective, [0, 0, 0])
            counts[0] += 1
            counts[1] += (collective, dims) in plan.first.merges
            counts[2] += max(dims) - min(dims) + 1 > len(dims)
    alone = sum(merge not in plan.second.merges for plan in plans for merge in plan.first.merges)
    kind_rows = [[f"`{kind}`", *counts] for kind, counts in sorted(kinds.items())]
    number, apart = (sum(counts[index] for counts in kinds.values()) for index in (0, 2))
    program_rows = [[f"`{suite}`", moved, several] for suite, moved, several in programs]
    return f"""
## By mesh

{text.table(["mesh", "plans:", "merged by #171913:", "merged by the successor:", "slower merged:", "saved of the first, time:", "saved of the second, time:",
             *(f"refused, {reason}:" for reason in REASONS.values())], rows)}

Saved is the share of the time of those plans alone. The greedy planner's steps, with every flattened mesh registered.
{wrong_order(plans)}

## By the graph planner

{text.table(["mesh", "plans:", "merged:", *(f"refused, {reason}:" for reason in REASONS.values())], graph_rows)}

The plans of least cost for the same redistributions. On the way they may cut a tensor dim on an inner mesh dim first (`S(0)[1]S(0)[0]`), and what they gather or scatter
after that stands in an order that no flattened mesh has.

## By collective

{text.table(["merged step", "number:", "as in #171913:", "over dims that are not neighbours:"], kind_rows)}

The merges of the successor. {alone} merges are those of #171913 alone, which merges a part of a longer run.

## Recorded programs

{text.table(["suite", "inputs that move:", "by two or more steps:"], program_rows)}

A merge needs two steps; a program whose inputs move by one step each has nothing to merge.

## What to do

- Keep the successor: reduce-scatters and all-gathers are merged by it alone.
- Register flattened meshes of neighbouring dims first: {apart} of {number} merges are over dims that are not neighbours.
- Ask the price before merging: where some mesh dims stay inside a host, steps apart move most bytes there, and a merged group may not.

## By hand

{text.commands('shardlab plan --mesh "a=2,b=4" --tensor "bf16[8192,4096]" --from PP --to RR --stack calibrated-h100 --planner greedy --set stack.merge=execute --flatten a,b',
               "shardlab plan ... --set stack.merge_rule=neighbouring-all-reduces", "scripts/generate_findings.sh merging")}

## What this rests on

The redistributions of `{SUITE}` (random layouts, 1 B to 8 GiB); plans of DTensor's greedy planner and its rules of merging, which agree with PyTorch step for step (docs/trust.md), except
that uneven all-gathers are refused, since PyTorch loses rows there ([#194457](https://github.com/pytorch/pytorch/pull/194457)). Prices of `{STACK}` on 8 GPUs a host, fitted to public
logs and carried over to groups that no log has, such as 8 ranks on 8 hosts: whether a single plan gains is less sure than the sums. The pull request's own algorithm (`"merge_rule": "neighbouring-all-reduces"`) is what its thread says: all-reduces
only, over neighbouring mesh dims; where the thread is silent, sim/planners/merge.h says what is assumed.
"""
