"""Which flattened meshes pay for their process groups in a training step."""

from dataclasses import dataclass
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "What does a process group cost, and which flattened meshes pay for themselves?"
QUESTION = ("Steps of a plan are merged only where a flattened mesh is registered, and each flattened mesh is a process group more: which of "
            "them would pay for themselves in a training step?")
THREAD = "https://github.com/pytorch/pytorch/pull/172610"
SLOW = False

STACK = "calibrated-h100"
EAGER = ("dtensor-2.13", "dtensor-2.15")
LAYERS = 4
LEAST_SHARE = 0.001  # of a step: what a mesh saves below this is too little to speak of
# Recipe, mesh, and the sequences of a batch.
CASES = (("fsdp-tp", "dp=2,tp=4", 8), ("fsdp-tp", "dp=8,tp=8", 64), ("fsdp-tp-sp", "dp=8,tp=8", 64), ("hsdp", "ddp=8,fsdp=8", 64),
         ("fsdp-tp", "ddp=2,fsdp=8,tp=8", 128))


@dataclass(frozen=True)
class Case:
    """One program on one mesh, with the advice for who decides its layouts."""

    recipe: str
    mesh: str
    advice: dict[str, dict[str, Any]]  # by who decides: a stack's op by op choices, or `solve`


def span_of(steps: list[float]) -> str:
    """The least and the most of sorted numbers, or the one number where both look alike."""
    texts = [f"{steps[0]:,.0f}", f"{steps[-1]:,.0f}"]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def find(program: Shardlab) -> Finding:
    cases = [case_of(program, *case) for case in CASES]
    return Finding(answer(cases), body(cases))


def case_of(program: Shardlab, recipe: str, mesh: str, batch: int) -> Case:
    model = program.folder / f"llama-{batch}.json"
    program.write("program", "llama3-8b", "--layers", LAYERS, "--batch", batch, "--matmul", "native", "--out", model)
    advice = {}
    compared = program.run("compare", "--baseline", EAGER[0], "--candidate", EAGER[1], "--program", model, "--mesh", mesh, "--recipe", recipe,
                           "--reference", STACK, "--advise-flattened")
    for one in compared["steps"][0]["flattened_meshes"]:
        advice[f"`{one['stack']}`, op by op"] = one
    solved = program.run("solve", model, "--mesh", mesh, "--recipe", recipe, "--stack", STACK, "--advise-flattened")
    advice["`solve`"] = solved["flattened_meshes"]
    return Case(recipe, mesh, advice)


def saved(advice: dict[str, Any]) -> float:
    return sum(float(one["saved_us"]) for one in advice["worth"])


def answer(cases: list[Case]) -> str:
    every = [advice for case in cases for advice in case.advice.values()]
    group = every[0]["group_seconds"]
    begin = (f"A process group takes {text.figure(group['median'])} s to make in the median of what is published ({text.figure(group['least'])} to "
             f"{text.figure(group['most'])} s) and {text.size(every[0]['group_bytes']['median'])} of each GPU. ")
    shorter = [advice for advice in every if saved(advice) >= LEAST_SHARE * advice["step_us"]]
    if not shorter:
        return begin + f"No flattened mesh shortens the step by more than {100 * LEAST_SHARE:g} % in any of {len(every)} cases."
    shares = [saved(advice) / advice["step_us"] for advice in shorter]
    steps = sorted(one["break_even_steps"]["median"] for advice in shorter for one in advice["worth"])
    return (begin + f"In {len(shares)} of {len(every)} cases of LLaMA3-8B a flattened mesh shortens the step by more than {100 * LEAST_SHARE:g} %, "
            f"by {100 * min(shares):.2f} to {100 * max(shares):.2f} %; it has paid for its process group after {span_of(steps)} steps.")


def body(cases: list[Case]) -> str:
    rows = []
    for case in cases:
        for who, advice in case.advice.items():
            begin = [f"`{case.recipe}`", f"`{case.mesh}`", who, text.microseconds(advice["step_us"]), advice["tried"]]
            if saved(advice) < LEAST_SHARE * advice["step_us"]:
                rows.append([*begin, "none", "-", "-", "-"])
                continue
            for one in advice["worth"]:
                steps = one["break_even_steps"]
                rows.append([*begin, f"`{','.join(one['axes'])}`", text.microseconds(one["saved_us"]), f"{steps['median']:,.0f}",
                             f"{steps['least']:,.0f} to {steps['most']:,.0f}"])
    recipe, mesh, batch = CASES[0]
    return f"""
## By program

{text.table(["recipe", "mesh", "who decides", "step:", "flattened meshes tried:", "worth registering", "saved of a step:", "paid for after steps:",
             "with the least and the most published time"], rows)}

LLaMA3-8B with {LAYERS} layers, 8192 tokens a sequence; parameters are laid out as in the best plan that follows the recipe. A step saves what is merged
and does not lie behind kernels, so that many merges save nothing. Savings below {100 * LEAST_SHARE:g} % of the step count as none.

## What to do

- Register a flattened mesh where the table of your own program shows one: `--advise-flattened` tries every set of mesh dims.
- Make it at the start, with all others: the groups of one flattened mesh are made at the same time, and later ones stop every rank.
- Count its memory where a device is nearly full: NCCL keeps it outside PyTorch's allocator.

## By hand

{text.commands(f"shardlab program llama3-8b --layers {LAYERS} --batch {batch} --matmul native --out llama.json",
               f"shardlab compare --baseline {EAGER[0]} --candidate {EAGER[1]} --program llama.json --mesh {mesh} --recipe {recipe} --reference {STACK} "
               "--advise-flattened",
               f"shardlab solve llama.json --mesh {mesh} --recipe {recipe} --advise-flattened")}

## What this rests on

Steps are simulated on one rank, with communication beside kernels, by `{STACK}`, which is fitted to public logs. The time and the memory of a process
group are published figures of other people's clusters, of 2 to 128 ranks, listed with their threads in `costmodel/process_group.cpp`
([nccl#534](https://github.com/NVIDIA/nccl/issues/534), [#964](https://github.com/NVIDIA/nccl/issues/964),
[#1412](https://github.com/NVIDIA/nccl/issues/1412), [#1605](https://github.com/NVIDIA/nccl/issues/1605),
[#1646](https://github.com/NVIDIA/nccl/issues/1646), [nccl-tests#273](https://github.com/NVIDIA/nccl-tests/issues/273)). They differ by up to a factor of 40,
and hardly with the number of ranks; none was measured here.
"""
