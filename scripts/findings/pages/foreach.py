"""What one coalesced collective would save where a foreach op redistributes each tensor by its own."""

import math
import re
from dataclasses import dataclass
from typing import Any

from findings import text
from findings.measured import GENERATIONS, errors_of_calibrated
from findings.page import Finding
from findings.program import Shardlab

TITLE = "What would foreach ops save with one collective?"
QUESTION = ("DTensor redistributes each tensor of a foreach op by a collective of its own: what would one coalesced collective save in "
            "an optimizer step of the LLaMA programs?")
THREAD = "https://github.com/pytorch/pytorch/issues/170367"
SLOW = False

MODELS = ("llama3-8b", "llama3-70b")
ITEM_BYTES = 2  # bf16


@dataclass(frozen=True)
class Case:
    """Tensors of an optimizer step that have to move."""

    name: str
    norms_only: bool
    source: str
    target: str
    mesh: str


CASES = (
    Case("gradients of norms, all-reduced over tensor-parallel ranks", True, "P(sum)", "R", "8"),
    Case("all gradients, all-reduced (data parallel)", False, "P(sum)", "R", "64"),
    Case("all gradients, reduced and scattered (ZeRO)", False, "P(sum)", "S(0)", "64"),
    Case("all parameters, gathered (ZeRO-1)", False, "S(0)", "R", "64"),
)


@dataclass(frozen=True)
class Cost:
    """Microseconds of a case on one GPU: by tensor, by block of the model, and at once; and the copies into and out of buffers."""

    tensors: int
    blocks: int
    bytes: float
    by_tensor: float
    by_block: float
    at_once: float
    copies: float

    def saved(self, grouped: float) -> float:
        return self.by_tensor - grouped - self.copies


def find(program: Shardlab) -> Finding:
    costs: dict[tuple[str, Case, str], Cost] = {}
    for model in MODELS:
        nodes = program.run("program", model, "--batch", 64)["nodes"]
        parameters = [(node["label"], math.prod(node["outputs"][0]["shape"]), len(node["outputs"][0]["shape"]))
                      for node in nodes if node.get("kind") == "parameter"]
        for case in CASES:
            chosen = [(label, size) for label, size, rank in parameters if rank == 1 or not case.norms_only]
            for gpu in GENERATIONS:
                costs[model, case, gpu] = cost(program, case, gpu, chosen)
    evidence = program.run("select", "--op", "aten._foreach_add_.List", "--mesh", 8, "--stack", "dtensor-2.15", "--verify", 0,
                           "--inputs", "[f32[4096] R; f32[4096] R]", "[f32[4096] P(sum); f32[4096] P(sum)]")
    return Finding(answer(costs), body(costs, evidence))


def cost(program: Shardlab, case: Case, gpu: str, parameters: list[tuple[str, int]]) -> Cost:
    blocks: dict[str, int] = {}
    for label, size in parameters:
        layer = re.match(r"layers\.\d+\.", label)
        name = layer[0] if layer else "others"
        blocks[name] = blocks.get(name, 0) + size
    prices: dict[int, Any] = {}
    total = sum(size for _, size in parameters)
    for size in {size for _, size in parameters} | set(blocks.values()) | {total}:
        prices[size] = program.run("plan", "--mesh", case.mesh, "--tensor", f"bf16[{size}]", "--from", case.source, "--to", case.target,
                                   "--stack", f"calibrated-{gpu}", "--topology", gpu)
    bandwidth = program.run("describe", "topology", gpu)["device"]["memory_bandwidth_gb_per_s"]
    whole_at_both_ends = case.source != "S(0)" and case.target == "R"  # a shard of a 64th is too small to count
    return Cost(len(parameters), len(blocks), total * ITEM_BYTES, sum(prices[size]["price_us"] for _, size in parameters),
                sum(prices[size]["price_us"] for size in blocks.values()), prices[total]["price_us"],
                (4 if whole_at_both_ends else 2) * total * ITEM_BYTES / (bandwidth * 1e3))


def answer(costs: dict[tuple[str, Case, str], Cost]) -> str:
    norms = [costs[MODELS[0], CASES[0], gpu] for gpu in GENERATIONS]
    whole = [costs[MODELS[0], CASES[1], gpu] for gpu in GENERATIONS]
    share = [found.saved(found.by_block) / found.by_tensor for found in whole]
    return (
        f"For small tensors nearly everything, for large ones a part. The {norms[0].tensors} norm gradients of LLaMA3-8B on 8 tensor-parallel ranks take "
        f"{text.microseconds(min(each.by_tensor for each in norms))} to {text.microseconds(max(each.by_tensor for each in norms))} one by one and "
        f"{text.microseconds(min(each.at_once for each in norms))} to {text.microseconds(max(each.at_once for each in norms))} at once, by GPU. All "
        f"{whole[0].tensors} gradients on 64 ranks, coalesced by block and copied into and out of buffers, take {100 * min(share):.0f} to {100 * max(share):.0f} % less time than one by one.")


def body(costs: dict[tuple[str, Case, str], Cost], evidence: Any) -> str:
    sections = []
    for model in MODELS:
        rows = []
        for case in CASES:
            for gpu in GENERATIONS:
                found = costs[model, case, gpu]
                rows.append([
                    f"{case.name}: {found.tensors} tensors, {text.size(found.bytes)}, {case.source} to {case.target} on {case.mesh}" if gpu == next(iter(GENERATIONS)) else "",
                    f"`{gpu}`", text.figure(found.by_tensor / 1e3), text.figure(found.by_block / 1e3), text.figure(found.at_once / 1e3),
                    text.figure(found.copies / 1e3), f"{100 * found.saved(found.by_block) / found.by_tensor:.0f} %",
                    f"{100 * (found.by_tensor - found.at_once) / found.by_tensor:.0f} %"])
        heads = ["what moves", "GPU", "by tensor, ms:", "by block, ms:", "at once, ms:", "copies, ms:", "saved by block, with copies:", "saved at once, without copies:"]
        sections.append(f"## {model}\n\n{text.table(heads, rows)}")
    children = evidence["children"]
    each = [child["selected"]["total_us"] for child in children]
    tables = "\n\n".join(sections)
    return f"""
{tables}

Times are the sum of the collectives, one after another, in bf16. Copies: what flattening into a buffer and back reads and writes, at the memory bandwidth of
the datasheet; grouped calls of NCCL need none. By block: one collective for each transformer block and one for the rest.

That DTensor moves them one by one: `dtensor-2.15` decides `aten._foreach_add_.List` of two tensors as {text.count(len(children), "decision")}, of
{text.listed([text.figure(price) + " us" for price in each])}.

## What to do

- Coalesce the small ones: tensors below 1 MB cost their latency, whatever their bytes ([communication](communication.md)).
- For large ones use the bucket of a block: most of what can be saved is saved, and the buffer stays small.
- In a model with tensor parallelism, reduce the gradients of norms together before the optimizer.

## By hand

{text.commands('shardlab plan --mesh 8 --tensor "bf16[4096]" --from "P(sum)" --to R --stack calibrated-h100',
               'shardlab plan --mesh 8 --tensor "bf16[266240]" --from "P(sum)" --to R --stack calibrated-h100',
               "scripts/generate_findings.sh foreach")}

## What this rests on

Prices of the calibrated stacks, which are fitted to public logs of nccl-tests and carried over to groups and sizes that no log has. On sources
left out their median error is {text.listed([f"{each} %" for each in errors_of_calibrated()])} below 1 MB, up to 64 MB and above ([scoreboard](../scoreboard.md)). Parameters are those of
`shardlab program llama3-8b` and `llama3-70b`. Nothing was run on GPUs.
"""
