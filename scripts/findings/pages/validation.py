"""What PyTorch's validator of sharding rules finds, beside shardlab's proofs on virtual ranks."""

import json
import re
from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import ROOT, Shardlab

TITLE = "A missing strategy, or a wrong one: who finds it?"
QUESTION = ("PyTorch ships a validator of sharding rules, strategy_validation.py: on operators that shardlab proves too, what does each find, "
            "what does it miss, and what does it cost?")
THREAD = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_ops/strategy_validation.py"
SLOW = False

RECORDED = ROOT / "scripts" / "findings" / "recorded" / "validation.json"
RULES = "dtensor-2.13"
LISTED = 30
# What the validator tries of partials: PARTIAL_REDUCE_OPS of strategy_validation.py. It tries no strided shards.
TRIED = ("P(sum)", "P(avg)", "P(min)", "P(max)")
VIEWS = ("aten.view.default", "aten.view_copy.default")
RANDOM = ("aten.geometric_.default", "aten.log_normal_.default")


@dataclass(frozen=True)
class Verdicts:
    """Rows that somebody calls wrong, or missing, as (overload, "outputs | inputs")."""

    wrong: frozenset[tuple[str, str]]
    missing: frozenset[tuple[str, str]]


def find(program: Shardlab) -> Finding:
    recorded = json.loads(RECORDED.read_text())
    judged = [op for op in recorded["ops"] if not op["skipped"] and op["samples"]]
    tried = sorted({overload for op in judged for overload in op["overloads"]})
    proved = program.run("rules", "--rule-set", RULES)
    proved["ops"] = [op for op in proved["ops"] if op["op"] in tried]
    overloads = sorted(op["op"] for op in proved["ops"])
    theirs = Verdicts(rows_of(judged, "incorrect", overloads), rows_of(judged, "missing", overloads))
    ours = Verdicts(frozenset((op["op"], row["row"]) for op in proved["ops"] for row in op["unsound"]),
                    frozenset((op["op"], row["row"]) for op in proved["ops"] for row in [*op["missing"], *op["known_omissions"]]))
    witnesses = {(op["op"], row["row"]): row for op in proved["ops"] for row in op["unsound"]}
    return Finding(answer(recorded, judged, overloads, ours, theirs), body(recorded, judged, overloads, proved, ours, theirs, witnesses))


def rows_of(ops: list[Any], kind: str, overloads: list[str]) -> frozenset[tuple[str, str]]:
    return frozenset((overload, plain(row)) for op in ops for overload, rows in op[kind].items() if overload in overloads for row in rows)


def plain(row: str) -> str:
    """A row in shardlab's text form: NP(2) for _NormP(2), and _S(0,4) for _S(0, 4)."""
    return re.sub(r"\((\d+), (\d+)\)", r"(\1,\2)", row.replace("_NormP", "NP"))


def unsound_overloads() -> list[str]:
    """All overloads of which the committed proofs call a row unsound."""
    return sorted(set(re.findall(r"^  unsound (\S+)", (ROOT / "reports" / "findings" / f"rules-{RULES}.txt").read_text(), re.M)))


def answer(recorded: Any, judged: list[Any], overloads: list[str], ours: Verdicts, theirs: Verdicts) -> str:
    everything = unsound_overloads()
    reached = [overload for overload in everything if overload in overloads]
    seconds = sum(op["seconds"] for op in recorded["ops"])
    return (f"On {len(overloads)} overloads that both judged, both call {len(ours.wrong & theirs.wrong)} rows wrong, shardlab alone {len(ours.wrong - theirs.wrong)}, and the validator "
            f"alone {len(theirs.wrong - ours.wrong)}{blame(theirs.wrong - ours.wrong)}. Of the {len(everything)} overloads with a wrong row among all {all_proved()[0]} that shardlab proves, the validator judged {len(reached)}, "
            f"in {text.figure(seconds)} s for {len(recorded['ops'])} operators; shardlab proves all of them in {seconds_of_rules()} s.")


def blame(rows: frozenset[tuple[str, str]]) -> str:
    """How many of the rows that the validator alone calls wrong it calls so by its own fault."""
    settled = sum(fault(*row) != "open" for row in rows)
    if not settled:
        return ""
    return f", {'all' if settled == len(rows) else settled} of these by a fault of its own"


def fault(op: str, row: str) -> str:
    """Why the validator calls a right row wrong; "open" where that is not known."""
    if any(placement.startswith(("P(", "NP(", "_S(")) and placement not in TRIED for placement in re.findall(r"\w+\([^)]*\)", row)):
        return "never runs it"
    if op in VIEWS:
        return "runs it with the whole tensor's shape"
    return "draws other numbers on each rank" if op in RANDOM else "open"


def seconds_of_rules() -> str:
    found = re.search(r"^\| `rules`, all operators \| \S+ \| (\S+) \|$", (ROOT / "docs" / "speed.md").read_text(), re.M)
    assert found, "docs/speed.md has lost the time of `rules`"
    return found[1]


def body(recorded: Any, judged: list[Any], overloads: list[str], proved: Any, ours: Verdicts, theirs: Verdicts, witnesses: dict[tuple[str, str], Any]) -> str:
    rows = [[kind, len(mine & their), len(mine - their), len(their - mine)]
            for kind, mine, their in (("wrong rows", ours.wrong, theirs.wrong), ("missing rows", ours.missing, theirs.missing))]
    only_ours = [[f"`{op}`", f"`{row.replace('|', chr(92) + '|')}`", f"`{cut(witnesses[op, row]['call'])}` on {witnesses[op, row]['mesh']} ranks: {cut(witnesses[op, row]['found'])}"]
                 for op, row in sorted(ours.wrong - theirs.wrong)][:LISTED]
    only_theirs = [[f"`{op}`", f"`{row.replace('|', chr(92) + '|')}`", fault(op, row), verdict(op, row, proved)] for op, row in sorted(theirs.wrong - ours.wrong)][:LISTED]
    skipped: dict[str, int] = {}
    for op in recorded["ops"]:
        reason = op["skipped"] and op["skipped"].split(":")[0] or (None if op["samples"] else "no sample that is one overload")
        if reason:
            skipped[reason] = skipped.get(reason, 0) + 1
    reasons = text.listed([f"{count} ({reason})" for reason, count in sorted(skipped.items())]) if skipped else "none"
    slowest = sorted(judged, key=lambda op: -op["seconds"])[:3]
    uneven = sum(witnesses[each]["mesh"] == "3" for each in ours.wrong - theirs.wrong)
    everything = unsound_overloads()
    out_of_reach = [overload for overload in everything if overload not in overloads]
    return f"""
## What each finds

{text.table(["on the same overloads", "both:", "shardlab alone:", "the validator alone:"], rows)}

Rows are placements on one mesh dim, "outputs | inputs". A missing row is right and in no rule. The two lists differ since shardlab calls a row right only if it
is so in every sample call of its own, and since the validator sees {recorded["max_samples"]} samples.

## Wrong rows that shardlab alone finds

{text.table(["overload", "row", "witness"], only_ours) if only_ours else "None."}

## Wrong rows that the validator alone finds

{text.table(["overload", "row", "the validator", "shardlab says"], only_theirs) if only_theirs else "None."}

That the validator calls a row wrong does not make it wrong. It holds the rows of the rule against the combinations that came out right in its own runs, so that
a row which it never runs counts as wrong: it runs sums, averages, minima and maxima, and no products (`P(product)`), norms (`NP`) or strided shards (`_S`).
So `P(product) | P(product)` of `aten._to_copy.default` is right, and the fault is the validator's: the rule keeps a product only where the cast keeps factors,
and shardlab, which runs it with factors on each rank, finds no call that breaks it. A view is run on the part of a rank with
the shape of the whole tensor ("shape '[16, 4]' is invalid for input of size 32"), where DTensor would hand it the shape of the part. Operators that draw random numbers draw others on each
rank, so that their shards are not those of the whole tensor's numbers. Which combinations are run, and what each said, was noted at `validate_aten_combination`.

## What each misses

The validator was asked about {asked(recorded)} operators that have a strategy and an OpInfo, {len(recorded["suspected"])} of which have a row that shardlab calls wrong; it
judged {len(judged)}. Not judged: {reasons}. It knows no `out` variants, no foreach operators and no operators without an OpInfo: {len(out_of_reach)} of the {len(everything)} overloads with a wrong
row are out of its reach or were not judged ({", ".join(f"`{name}`" for name in out_of_reach[:12])}{" and others" if len(out_of_reach) > 12 else ""}). Its tensors divide evenly over {recorded["ranks"]} ranks, so that rows
that fail for uneven or empty shards pass.

shardlab needs a reference kernel and sample calls for each operator; what has none is not proved, and its samples are small shapes on one mesh dim ([limits](../../docs/limits.md)).

## What each costs

{text.table(["", "operators or overloads:", "combinations tried:", "seconds:"],
            [["the validator", len(recorded["ops"]), f"{sum(op.get('combinations', 0) for op in recorded['ops']):,}", text.figure(sum(op["seconds"] for op in recorded["ops"]))],
             ["shardlab, all operators", *all_proved(), seconds_of_rules()]])}

The validator ran with {recorded["max_samples"]} samples for each operator, stopped after {recorded["patience_s"]} s each, on one busy core; its slowest that came to an end: {text.listed([f"`{op['op']}` ({text.figure(op['seconds'])} s)" for op in slowest])}.
shardlab's seconds are those of [speed](../../docs/speed.md), on two threads.

## What to do

- Run the validator on three ranks and on extents that they do not divide: {uneven} of the {len(ours.wrong - theirs.wrong)} rows that shardlab alone calls wrong fail on
  3 ranks first, the others on arguments and values that its samples lack.
- Let the validator call a row wrong only if it ran it, and hand views the shapes of their parts.
- Give `out` variants the filter of their plain form, or test them: nothing looks at them now.

## By hand

{text.commands("shardlab rules aten.max.default --rule-set dtensor-2.13",
               "build/oracle/bin/python -m torch.distributed.tensor._ops.strategy_validation --op max --device cpu",
               "build/oracle/bin/python scripts/findings/record_validation.py 2000 scripts/findings/recorded/validation.json", "scripts/generate_findings.sh validation")}

## What this rests on

PyTorch {recorded["torch"]} (its tests need the package expecttest), recorded once; shardlab's proofs of `{RULES}` on virtual ranks with real bytes. A row that neither calls wrong may still be.
"""


def asked(recorded: Any) -> str:
    """How many operators were asked about, of how many."""
    count, every = len(recorded["ops"]), recorded["registered"]
    return f"all {every}" if count == every else f"{count} of {every}"


def all_proved() -> tuple[str, str]:
    """How many overloads the committed proofs are of, and how many combinations they tried."""
    found = re.search(r": (\d+) ops, .*\(of (\d+) combinations tried\)", (ROOT / "reports" / "findings" / f"rules-{RULES}.txt").read_text())
    assert found
    return f"{int(found[1]):,}", f"{int(found[2]):,}"


def verdict(op: str, row: str, proved: Any) -> str:
    """What shardlab's proofs say of a row that they do not call wrong."""
    entry = next(each for each in proved["ops"] if each["op"] == op)
    if any(each["row"] == row for each in [*entry["missing"], *entry["known_omissions"]]):
        return "right, and not in the rule set"
    return f"not wrong in any of {entry['calls']} calls, or no row that was tried"


def cut(said: str) -> str:
    return said if len(said) < 90 else said[:87] + "..."
