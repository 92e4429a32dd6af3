"""What RaggedShard costs beside Shard, and what runs on it."""

import json
import math
import re
import statistics
from dataclasses import dataclass
from typing import Any

from findings import text
from findings.measured import errors_of_calibrated
from findings.page import Finding
from findings.program import ROOT, Shardlab

TITLE = "What does RaggedShard cost, and what runs on it?"
QUESTION = ("RaggedShard gives ranks unequal parts, so that blocks of a quantized weight, or whole matrices of an optimizer, stay in one piece: what do its "
            "collectives cost beside those of equal shards, what does it cost in memory, and which operators run on it?")
THREAD = "https://github.com/pytorch/pytorch/issues/169320"
SLOW = True

STACK = "calibrated-h100"
MESHES = {8: "8 ranks, one host", 64: "64 ranks, 8 hosts"}
TENSOR = "bf16[4096,14336]"
BLOCK = 128  # rows
ITEM_BYTES = 2


def divisions(ranks: int) -> dict[str, list[int]]:
    """Units by rank. Their sums are powers of two, and so divide the rows."""
    return {
        "equal": [1] * ranks,
        "one rank has nothing": [0] + [1] * (ranks - 2) + [2],
        "half on one rank": [1] * (ranks - 2) + [2, ranks],
        "all on one rank": [0] * (ranks - 1) + [1],
    }


def ragged(units: list[int]) -> str:
    return f"RG(0:{','.join(map(str, units))})"


@dataclass(frozen=True)
class Weights:
    """All matrices of a model, gathered one by one: microseconds, and the bytes of the fullest rank."""

    matrices: int
    us_by_shards: float
    us_by_blocks: float
    shards: float
    blocks_from_first: float
    blocks_in_turn: float
    cut: int  # matrices whose blocks equal shards cut


def find(program: Shardlab) -> Finding:
    moves = {(ranks, name): priced(program, ranks, units) for ranks in MESHES for name, units in divisions(ranks).items()}
    matrices = [tuple(node["outputs"][0]["shape"]) for node in program.run("program", "llama3-8b", "--batch", 64)["nodes"]
                if node.get("kind") == "parameter" and len(node["outputs"][0]["shape"]) == 2]
    weights = {ranks: weighed(program, ranks, matrices) for ranks in MESHES}
    plain = accepted(program.run("rules"))
    mixed = accepted(program.run("rules", "--placement", "ragged_shard"))
    passing = sorted(op for op in mixed if mixed[op] > plain[op])
    return Finding(answer(moves, weights, passing, len(mixed)), body(moves, weights, passing, len(mixed)))


def priced(program: Shardlab, ranks: int, units: list[int]) -> dict[str, float]:
    """Microseconds of the moves of TENSOR, by their names."""
    def us(source: str, target: str) -> float:
        plan = program.run("plan", "--mesh", ranks, "--tensor", TENSOR, "--from", source, "--to", target, "--stack", STACK)
        return float(plan["price_us"])

    own = ragged(units)
    return {"gathered": us(own, "R"), "reduced": us("P(sum)", own), "moved": us(ragged(divisions(ranks)["equal"]), own)}


def weighed(program: Shardlab, ranks: int, matrices: list[tuple[int, ...]]) -> Weights:
    prices: dict[tuple[tuple[int, ...], bool], float] = {}
    fullest: dict[str, float] = {"shards": 0.0}
    held = {"first": [0.0] * ranks, "turn": [0.0] * ranks}
    next_rank, cut = 0, 0
    for rows, columns in matrices:
        blocks = rows // BLOCK
        units = [blocks // ranks + (rank < blocks % ranks) for rank in range(ranks)]
        for source in ("S(0)", ragged(units)):
            key = ((rows, columns), source == "S(0)")
            if key not in prices:
                prices[key] = program.run("plan", "--mesh", ranks, "--tensor", f"bf16[{rows},{columns}]", "--from", source, "--to", "R",
                                          "--stack", STACK)["price_us"]
        row_bytes = columns * ITEM_BYTES
        shard_rows = math.ceil(rows / ranks)
        cut += shard_rows % BLOCK != 0
        fullest["shards"] += shard_rows * row_bytes
        for rank in range(ranks):
            held["first"][rank] += units[rank] * BLOCK * row_bytes
            held["turn"][(rank + next_rank) % ranks] += units[rank] * BLOCK * row_bytes
        next_rank = (next_rank + blocks) % ranks
    return Weights(len(matrices), sum(prices[matrix, True] for matrix in matrices), sum(prices[matrix, False] for matrix in matrices), fullest["shards"],
                   max(held["first"]), max(held["turn"]), cut)


def broadcasts() -> tuple[int, list[float], list[float]]:
    """From logs with both collectives among more than two ranks: how many groups there are; from 64 MB on, the time of a broadcast over what an
    all_gather of n/(n-1) times as many bytes takes; and below 1 MB, its time over that of an all_gather."""
    logs: dict[tuple[str, str, int, int], dict[str, dict[float, float]]] = {}
    for file in sorted((ROOT / "configs" / "measurements").glob("*.json")):
        log = json.loads(file.read_text())
        if log["health"] != "healthy" or log["ranks"] <= 2:
            continue
        key = (re.sub(r"[^/]*$", "", log["source"]), log["gpu"], log["ranks"], log["hosts"])
        for row in log["rows"]:
            logs.setdefault(key, {}).setdefault(row["collective"], {})[row["bytes"]] = row["time_us"]
    groups, large, small = 0, [], []
    for (_, _, ranks, _), times in logs.items():
        gathers, sends = times.get("all_gather", {}), times.get("broadcast", {})
        both = gathers.keys() & sends.keys()
        groups += bool(both)
        large += [sends[size] / (gathers[size] * ranks / (ranks - 1)) for size in both if size >= 64 << 20]
        small += [sends[size] / gathers[size] for size in both if size < 1 << 20]
    return groups, large, small


def accepted(proofs: Any) -> dict[str, int]:
    return {op["op"]: op["accepted"] for op in proofs["ops"]}


def answer(moves: dict[tuple[int, str], dict[str, float]], weights: dict[int, Weights], passing: list[str], every: int) -> str:
    one, wide = (moves[ranks, "all on one rank"]["gathered"] / moves[ranks, "equal"]["gathered"] - 1 for ranks in MESHES)
    many = weights[max(MESHES)]
    return (
        f"Little: gathering parts of any sizes takes at most {100 * one:.0f} % longer than gathering equal ones on {min(MESHES)} ranks and {100 * wide:.1f} % on "
        f"{max(MESHES)}, if ranks send their parts without padding. Blocks of {BLOCK} rows in one piece, which equal shards of {max(MESHES)} ranks cut in {many.cut} of {many.matrices} "
        f"matrices of LLaMA3-8B, cost memory instead: the fullest rank holds {text.figure(many.blocks_from_first / many.shards)} times what it holds of equal shards, and "
        f"{text.figure(many.blocks_in_turn / many.shards)} times if each matrix begins at the rank where the last one ended. {len(passing)} of {every:,} proved operators run on such parts; the others "
        "gather first.")


def body(moves: dict[tuple[int, str], dict[str, float]], weights: dict[int, Weights], passing: list[str], every: int) -> str:
    rows = []
    for ranks, name in MESHES.items():
        for division, units in divisions(ranks).items():
            found, equal = moves[ranks, division], moves[ranks, "equal"]
            rows.append([name if division == "equal" else "", division, text.percent(max(units), sum(units)), text.figure(found["gathered"]),
                         f"{100 * (found['gathered'] / equal['gathered'] - 1):+.1f} %", text.figure(found["reduced"]), text.figure(found["moved"])])
    parts = text.table(["group", "parts", "largest part:", "all_gather, us:", "against equal:", "reduce_scatter, us:", "all_to_all from equal parts, us:"], rows)
    rows = [[MESHES[ranks], f"{found.cut} of {found.matrices}", text.figure(found.us_by_shards / 1e3), text.figure(found.us_by_blocks / 1e3), text.size(found.shards),
             text.size(found.blocks_from_first), text.size(found.blocks_in_turn)] for ranks, found in weights.items()]
    blocks = text.table(["group", "matrices whose blocks S(0) cuts:", "gathered from S(0), ms:", "gathered from whole blocks, ms:", "fullest rank, S(0):",
                         "whole blocks from rank 0 on:", "whole blocks in turn:"], rows)
    groups, large, small = broadcasts()
    eight = ragged(divisions(min(MESHES))["half on one rank"])
    return f"""
## Unequal parts of one tensor

{parts}

`{TENSOR}` by `{STACK}`. A gather of unequal parts is priced by what its busiest rank receives, which is the one with the smallest part: at most the whole
tensor, where equal parts leave out an n-th of it. So the more ranks, the less the sizes matter. An all-to-all counts the largest part.

## Blocks in one piece

{blocks}

The matrices of LLaMA3-8B in bf16, in blocks of {BLOCK} rows, gathered one by one. With fewer blocks than ranks some ranks hold none; if every matrix
begins at rank 0 these are always the same ranks.

## What runs on such parts

{len(passing)} of {every:,} operators of the rule set `shardlab`: the pointwise ones, each proved on 2 and 3 virtual ranks with all rows on one rank and with
rising parts, for one tensor dim and for two dims together. Every other operator asks for R, S or P, and an input in RaggedShard is gathered for it.

## What to do

- Give RaggedShard a price of its own in a cost model only where groups are small: beyond {max(MESHES)} ranks it is that of equal shards.
- Do not plan between RaggedShard and Shard by one exchange without a rule for it: the thread's implementation goes over R, and so does this one.

## By hand

{text.commands("shardlab describe placement ragged_shard",
               f"shardlab plan --mesh 8 --tensor '{TENSOR}' --from '{eight}' --to R --stack {STACK}",
               "shardlab simulate --mesh 4 --tensor 'f32[16,3]' --from 'RG(0:1,3,2,2)' --to R",
               "shardlab rules aten.add.Tensor --placement ragged_shard")}

## What this rests on

No release of PyTorch has the placement, so that nothing of it was compared with PyTorch; its behaviour follows the thread and the implementation that the
thread names. Prices are those of `{STACK}`, which on sources that were left out is off by {text.listed([f"{each} %" for each in errors_of_calibrated()])}
below 1 MB, up to 64 MB and above for collectives of equal parts ([scoreboard](../scoreboard.md)). No log has unequal parts, except for the extreme: with all
on one rank a gather is a broadcast. In {groups} groups of more than two ranks with logs of both, a broadcast takes {statistics.median(large):.2f} of the price that unequal parts
have here, from 64 MB on ({min(large):.2f} to {max(large):.2f}), and {statistics.median(small):.2f} of an all_gather's time below 1 MB, in the median. That a group of several broadcasts takes no longer to start than one collective is assumed ([semantics](../../docs/semantics.md#registered-placements)).
"""
