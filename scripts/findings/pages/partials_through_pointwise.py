"""What changed when pointwise operators learned which partial sums they may keep."""

from collections import defaultdict
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "What did letting partial sums through pointwise operators change?"
QUESTION = ("Before, few pointwise operators kept a partial sum and the others reduced it first; now each operator says for which "
            "partials it is linear. Which all-reduces disappear, which appear, and what is that worth?")
THREAD = "https://github.com/pytorch/pytorch/pull/157340"
SLOW = True

BASELINE, CANDIDATE, REFERENCE = "dtensor-legacy", "dtensor-2.13", "calibrated-h100"
FOLLOWS = "follows its inputs' layouts"
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
MOST_OPS = 20

Flip = dict[str, Any]


class Tally:
    """What the flips of one operator or of one suite change."""

    def __init__(self) -> None:
        self.flips = 0
        self.verdicts: dict[str, int] = defaultdict(int)
        self.delta_us = 0.0
        self.collectives: dict[str, dict[str, list[float]]] = {
            side: {kind: [0.0, 0.0] for kind in COLLECTIVES} for side in ("baseline", "candidate")}

    def add(self, flip: Flip, answers: list[dict[str, Any]]) -> None:
        """A flip, and what the record says of both stacks' answers."""
        self.flips += 1
        self.verdicts[flip["verdict"]] += 1
        self.delta_us += flip["delta_us"] or 0.0
        for of_side, own in zip(self.collectives.values(), answers):
            for kind, traffic in (own.get("collectives") or {}).items():
                of_side[kind][0] += flip["count"] * traffic["count"]
                of_side[kind][1] += flip["count"] * traffic["bytes"]

    def number(self, kind: str) -> str:
        before, after = (self.collectives[side][kind][0] for side in ("baseline", "candidate"))
        return f"{before:,.0f} to {after:,.0f}" if before or after else "-"

    def bytes(self, kind: str) -> str:
        before, after = (self.collectives[side][kind][1] for side in ("baseline", "candidate"))
        return f"{text.size(before)} to {text.size(after)}" if before or after else "-"


def find(program: Shardlab) -> Finding:
    pointwise = pointwise_operators(program)
    suites = [suite for suite in program.names("suites") if suite != "ops-small"]
    words: list[Any] = ["compare", "--baseline", BASELINE, "--candidate", CANDIDATE, "--reference", REFERENCE]
    for suite in suites:
        words += ["--suite", suite]
    program.write(*words, "--out", program.folder / "pointwise")
    found = program.read(program.folder / "pointwise" / "report.json")
    answers = {question["id"]: question["answers"] for question in program.read(program.folder / "pointwise" / "record.json")["questions"]}
    flips = [flip for flip in found["flips"] if flip["op"] in pointwise]
    by_op: dict[str, Tally] = defaultdict(Tally)
    by_suite: dict[str, Tally] = {suite: Tally() for suite in suites}
    for flip in flips:
        by_op[flip["op"]].add(flip, answers[flip["question"]])
        by_suite[flip["suite"]].add(flip, answers[flip["question"]])
    return Finding(answer(by_suite), body(found, by_op, by_suite, len(pointwise)))


def pointwise_operators(program: Shardlab) -> set[str]:
    """The operators whose rule followed the layouts of its inputs, and has rows for one mesh dim since."""
    found = set()
    for op in program.names("ops"):
        forms = {rule["rule_set"]: rule["form"] for rule in program.run("describe", "op", op)["rules"]}
        if forms.get("dtensor-legacy") == FOLLOWS and forms.get("dtensor-2.13") not in (None, FOLLOWS):
            found.add(op)
    return found


def answer(by_suite: dict[str, Tally]) -> str:
    generated = by_suite["ops-full"]
    programs = [tally for name, tally in by_suite.items() if name != "ops-full"]
    flips = sum(tally.flips for tally in programs)
    before, after = (sum(tally.collectives[side]["all_reduce"][0] for tally in programs) for side in ("baseline", "candidate"))
    sizes = [sum(tally.collectives[side]["all_reduce"][1] for tally in programs) for side in ("baseline", "candidate")]
    return (f"In programs next to nothing: of all questions of {len(programs)} recorded programs {text.count(flips, 'pointwise decision')} "
            f"{'changes' if flips == 1 else 'change'}; the all-reduces of these decisions go from {before:,.0f} ({text.size(sizes[0])}) to {after:,.0f} "
            f"({text.size(sizes[1])}). On random layouts {generated.flips:,} decisions change: "
            f"{generated.number('all_reduce')} all-reduces, {generated.bytes('all_reduce')}; {generated.verdicts['better']:,} are better for certain and "
            f"{generated.verdicts['worse']:,} worse.")


def body(found: dict[str, Any], by_op: dict[str, Tally], by_suite: dict[str, Tally], operators: int) -> str:
    op_rows = [row(f"`{op}`", tally) for op, tally in
               sorted(by_op.items(), key=lambda item: (-item[1].flips, item[0]))[:MOST_OPS]]
    suite_rows = [row(f"`{suite}`", tally) for suite, tally in by_suite.items() if tally.flips]
    columns = ["flips:", "better:", "worse:", "equal:", "undecided:", "all-reduces:", "bytes of these:", "reduce-scatters:", "time:"]
    left_out = len(found["not_asked"])
    return f"""
## By suite

{text.table(["suite", *columns], suite_rows)}

Suites without a row have no flip of a pointwise operator. Only decisions that flip are counted, with what brings their inputs where the
choice wants them. An operator that keeps a partial hands its reduction on to whoever reads it next, so a saved all-reduce may be
paid for later: `compare --program --downstream` says so for a program ([the hidden tax](hidden-tax.md)).

## By operator

{text.table(["operator", *columns], op_rows)}

The {min(MOST_OPS, len(by_op))} operators with the most flips, of {len(by_op)} with any, of {operators} pointwise operators. Time is what all flips of the row change
together, below zero where they save. Operators that are not linear, such as `exp` and `relu`, change as well: the older rules follow the layout of one
input and reduce a partial to a replica, where rows for one mesh dim also allow a reduce-scatter.

## What to do

- Do not expect a faster program from linearity alone: recorded programs hardly ever bring a partial sum to a pointwise operator.
- Where they do, an additive operator such as `add.Tensor` turns a replicated input into a partial one for nothing, and the reduction waits.

## By hand

{text.commands(f"shardlab compare --baseline {BASELINE} --candidate {CANDIDATE} --suite ops-full --reference {REFERENCE}",
               "scripts/generate_findings.sh partials-through-pointwise")}

## What this rests on

Rules: shardlab's transcription of the rules before the pull request (`{BASELINE}`) and of PyTorch 2.13.0 (`{CANDIDATE}`), of which the latter agrees with
recorded decisions of that release (docs/trust.md); the former is covered by the regression cases R18, R35 and R58 alone. Other rules differ between the two as well,
so only flips of pointwise operators are counted; {left_out:,} questions are not asked, because the older rules lack the operator. Prices:
`{REFERENCE}`, fitted to public logs of nccl-tests. No GPU was measured for this page.
"""


def row(name: str, tally: Tally) -> list[object]:
    judged = [tally.verdicts[verdict] for verdict in ("better", "worse", "equal")]
    return [name, f"{tally.flips:,}", *judged, tally.flips - sum(judged), tally.number("all_reduce"), tally.bytes("all_reduce"),
            tally.number("reduce_scatter"), text.microseconds(tally.delta_us)]
