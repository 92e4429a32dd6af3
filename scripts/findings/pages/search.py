"""What full expansion, PyTorch's priority queue and shardlab's bounds cost to find a strategy, and whether they agree."""

import json
import math
import statistics
from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import ROOT, Shardlab

TITLE = "Does removing premature optimisation matter?"
QUESTION = ("An operator's rules for one mesh dim are expanded to all combinations over the mesh: is that too slow, does a "
            "priority queue or a search with bounds pay, and do they still choose the same?")
THREAD = "https://github.com/pytorch/pytorch/pull/167677"
SLOW = True

RECORDED = ROOT / "scripts" / "findings" / "recorded" / "search.json"
SUITE = "ops-full"
STACKS = ("dtensor-2.13", "dtensor-2.15")
SEARCHES = {"queue": {"search": "dijkstra"}, "queue without its guard": {"search": "dijkstra", "nesting_guard": False},
            "bounds": {"search": "exact"}}
FULL = "full expansion"
COUNTED = {FULL: "enumeration", "queue": "queue", "bounds": "bounds"}  # the ways whose effort is shown, with their method
NEW_ROWS = ("aten.cat.default", "aten.mean.dim", "aten._softmax.default", "aten.sum.dim_IntList", "aten.amax.default")
NEW_SAMPLE = 12
ROWS_BEFORE, ROWS_SINCE = "with rows in 2.13", "with rows since 2.14"


def find(program: Shardlab) -> Finding:
    recorded = json.loads(RECORDED.read_text())
    asked = {question["id"]: question for question in program.run("describe", "suite", SUITE, "--questions")["questions"]}
    found = {(ROWS_BEFORE, stack, row["dims"]): [ask(program, stack, asked[name]) for name in row["ids"]]
             for stack in STACKS for row in recorded["dims"]}
    for stack in STACKS:
        for dims in range(1, 5):
            same = [question for question in asked.values() if question.get("op") in NEW_ROWS and question["mesh"].count("x") + 1 == dims]
            found[ROWS_SINCE, stack, dims] = [ask(program, stack, same[index * len(same) // NEW_SAMPLE]) for index in range(NEW_SAMPLE)]
    return Finding(answer(recorded, found), body(recorded, found))


@dataclass(frozen=True)
class Effort:
    method: str
    states: int
    prices: int


@dataclass(frozen=True)
class Asked:
    """One question under one stack: its candidates, and for each search how the full expansion prices what it chose."""

    question: Any
    candidates: int
    least_us: float
    chosen: dict[str, tuple[str, float | None]]  # the inputs, and None where no candidate has them
    effort: dict[str, Effort]  # of the full expansion and of each search

    def is_wrong(self, name: str) -> bool:
        price = self.chosen[name][1]
        return price is None or price > self.least_us * (1 + 1e-9) + 1e-9


def ask(program: Shardlab, stack: str, question: Any) -> Asked:
    words = ["select", "--op", question["op"], "--mesh", question["mesh"], "--verify", 0]
    if question["args"]:
        words += ["--args", json.dumps(question["args"])]
    words += ["--inputs", *question["inputs"], "--stack"]
    expanded = program.run(*words, stack)
    listed = expanded["candidates"]
    effort = {FULL: effort_of(expanded)}
    prices = {tuple(each["inputs"]): price_or_infinite(each["total_us"]) for each in listed}
    chosen = {}
    for name, changes in SEARCHES.items():
        found = program.run(*words, program.variant(stack, changes))
        inputs = found["selected"]["inputs"]
        chosen[name] = ", ".join(inputs), prices.get(tuple(inputs))
        effort[name] = effort_of(found)
    return Asked(question, len(listed), min(prices.values()), chosen, effort)


def effort_of(found: Any) -> Effort:
    return Effort(found["search"]["method"], found["search"]["states_visited"], found["search"]["prices_asked"])


def price_or_infinite(price: float | None) -> float:
    return math.inf if price is None else price


def answer(recorded: Any, found: dict[tuple[str, str, int], list[Asked]]) -> str:
    last = recorded["dims"][-1]
    full, queue = last["full"], last["queue"]
    wrong = sum(row["wrong"] for row in recorded["dims"])
    answered = sum(row["answered"] for row in recorded["dims"])
    every = [each for asked in found.values() for each in asked]
    bounds = sum(each.is_wrong("bounds") for each in every)
    ratio = full["us"]["median"] / queue["us"]["median"]
    return (
        f"From three mesh dims on it does. On {last['dims']} mesh dims the expansion of PyTorch {recorded['torch'].split('+')[0]} takes "
        f"{text.microseconds(full['us']['median'])} for a question in the median and the queue {text.microseconds(queue['us']['median'])} "
        f"({text.figure(ratio)} times less), but at worst the queue takes {at_worst(last)} against "
        f"{text.microseconds(full['us']['worst'])}. The queue finds a dearer strategy in {wrong} of {answered} of these questions; "
        f"shardlab's search with bounds does in {bounds} of {len(every)} "
        "under the rules of two releases.")


def at_worst(row: Any) -> str:
    time = text.microseconds(row["queue"]["us"]["worst"])
    return f"more than {time}, when it was stopped," if row["endless"] else time


def body(recorded: Any, found: dict[tuple[str, str, int], list[Asked]]) -> str:
    rows = []
    for row in recorded["dims"]:
        for way, name in (("full", "full expansion"), ("queue", "priority queue")):
            cells = [f"{row[way][key]['median']:,g} / {row[way][key]['worst']:,g}" for key in ("candidates", "prices")]
            times = f"{text.microseconds(row[way]['us']['median'])} / {text.microseconds(row[way]['us']['worst'])}"
            rows.append([row["dims"] if way == "full" else "", row["answered"] if way == "full" else "", name, *cells,
                         times + (" (stopped)" if way == "queue" and row["endless"] else ""), row["wrong"] if way == "queue" else "-"])
    agreed = []
    for (kind, stack, dims), asked in found.items():
        numbers = [each.candidates for each in asked]
        agreed.append([kind, f"`{stack}`", dims, len(asked), f"{text.figure(sum(numbers) / len(numbers))} / {max(numbers):,}",
                       *(sum(each.is_wrong(name) for each in asked) for name in SEARCHES)])
    efforts = []
    for dims in range(1, 5):
        for name, method in COUNTED.items():
            # Questions in which the searches did not fall back to the expansion, so that all ways are counted on the same ones.
            asked = [each for (_, stack, here), some in found.items() if (stack, here) == (STACKS[1], dims) for each in some
                     if all(each.effort[way].method == ran for way, ran in COUNTED.items())]
            states, prices = [each.effort[name].states for each in asked], [each.effort[name].prices for each in asked]
            if asked:
                efforts.append([dims if name == FULL else "", len(asked) if name == FULL else "", name, *(
                    f"{statistics.median(numbers):,g} / {max(numbers):,}" for numbers in (states, prices))])
    first = next((row["first_wrong"] for row in recorded["dims"] if row["first_wrong"]), None)
    return f"""
## PyTorch's own two ways

{text.table(["mesh dims:", "questions:", "way", "candidates, median / worst:", "prices asked, median / worst:", "time, median / worst:", "dearer strategies:"], rows)}

Candidates are the strategies that the expansion makes, and the states that the queue takes in; prices are calls of PyTorch's price of one
step. {wrong_sentence(first)}

## shardlab's searches, and the filters of 2.15

{text.table(["operators", "stack", "mesh dims:", "questions:", "candidates, mean / most:", *(f"dearer by {name}:" for name in SEARCHES)], agreed)}

The same questions, and {NEW_SAMPLE} for each number of mesh dims on operators that have got rows since ({", ".join(f"`{name}`" for name in NEW_ROWS)}). Candidates are those of the full expansion after its filters, which in 2.15 also look at the layout of the whole mesh; the last columns count the
questions in which a search finds a strategy that the full expansion prices above its cheapest one, or does not list. The queue is PyTorch's; without its guard it is as before
[#175462](https://github.com/pytorch/pytorch/pull/175462). Bounds (`--search exact`) is shardlab's own.

{same_sentence(found)} {first_sentence(found)}

## What shardlab's searches look at, under `{STACKS[1]}`

{text.table(["mesh dims:", "questions:", "way", "states visited, median / worst:", "prices asked, median / worst:"], efforts)}

States are candidates for the expansion, layouts of all inputs for the queue, and partial and whole candidates for the bounds. Prices are moves of one
input from its layout into another; for the queue they are changes of one placement along one mesh dim. The same questions as above, as far as no search
fell back to the expansion. `select --effort` prints both figures.

## What to do

- Keep the expansion on meshes of one and two dims: its worst case is short there, and its order of candidates decides ties.
- On three and more, price each move of an input once rather than in each candidate, and leave out candidates by a bound: the answer stays that of
  the expansion, which the queue's does not.
- If the queue is turned on, its price of a path has to become the planner's: it prices steps that the greedy planner does not take.

## By hand

{text.commands("shardlab select --op aten.mm.default --mesh 2x2x2 --inputs 'bf16[8192,8192] S(0)RR' 'bf16[8192,8192] S(0)S(1)R' --stack dtensor-2.13 --search dijkstra",
               "shardlab describe suite ops-full --questions --format json > questions.json",
               "PYTHONHASHSEED=0 build/oracle/bin/python scripts/findings/record_search.py questions.json > scripts/findings/recorded/search.json",
               "scripts/generate_findings.sh search")}

## What this rests on

The first table: PyTorch {recorded['torch']} on a fake process group, one thread, caches cleared, on questions evenly spread over `{SUITE}`; times are of one busy
machine, taken once, and only their ratios mean something. The others: shardlab's stacks of the releases, which agree with
recorded decisions of PyTorch (docs/trust.md), and count their own states and prices; their times beside PyTorch's are in
[speed](../../docs/speed.md).
"""


def wrong_sentence(first: Any) -> str:
    if first is None:
        return "The queue found a strategy of least price in every question."
    price = "which the expansion does not list" if first["us"] is None else f"which costs {text.microseconds(first['us'])}"
    if first["us"] is not None and math.isinf(first["us"]):
        price = "which cannot run by the expansion's price"
    return (f"The first question in which the queue's strategy is dearer: `{first['op']}` on {first['mesh']} of {', '.join(f'`{each}`' for each in first['inputs'])}; "
            f"it takes `{'`, `'.join(first['chosen'])}`, {price}, where {text.microseconds(first['least_us'])} is possible.")


def same_sentence(found: dict[tuple[str, str, int], list[Asked]]) -> str:
    """Whether the filters of the newer release change how many candidates these questions have."""
    words = []
    for kind in (ROWS_BEFORE, ROWS_SINCE):
        pairs = [(old.candidates, new.candidates) for (each, stack, dims), asked in found.items() if (each, stack) == (kind, STACKS[0])
                 for old, new in zip(asked, found[kind, STACKS[1], dims])]
        words.append(f"for operators {kind}, release 2.15 lists fewer candidates in {sum(new < old for old, new in pairs)} of {len(pairs)} questions and more in "
                     f"{sum(new > old for old, new in pairs)}")
    return f"{words[0].capitalize()}; {words[1]}."


def first_sentence(found: dict[tuple[str, str, int], list[Asked]]) -> str:
    for name in ("bounds", "queue"):
        for (_, stack, _), asked in found.items():
            for each in asked:
                if each.is_wrong(name):
                    price = each.chosen[name][1]
                    said = "which the expansion does not list" if price is None else f"which costs {text.microseconds(price)}"
                    return (f"The first dearer one under `{stack}` by {name}: `{each.question['op']}` on {each.question['mesh']} of "
                            f"{', '.join(f'`{value}`' for value in each.question['inputs'])} takes `{each.chosen[name][0]}`, {said}, where "
                            f"{text.microseconds(each.least_us)} is possible.")
    return "No search finds a dearer strategy."
