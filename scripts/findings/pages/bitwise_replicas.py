"""Which plans may leave replicas that differ in their last bits."""

import itertools
from collections.abc import Iterator
from typing import Any

from findings import text
from findings.page import Finding
from findings.program import Shardlab

TITLE = "Which plans of DTensor leave replicas that differ?"
QUESTION = ("Reductions that run one after the other may round differently in groups that lie differently on hosts, so that replicas of "
            "one value are not equal bit by bit, and a maintainer \"would prefer we error out\": how many plans would that be?")
THREAD = "https://github.com/pytorch/pytorch/issues/171916"
SLOW = False

STACK = "dtensor-2.15"
HOST = 8  # GPUs of a host of topology h100
MESHES = ((2, 4), (4, 2), (2, 8), (8, 8), (16, 8), (3, 8), (8, 3), (4, 6), (8, 5), (5, 8), (8, 12), (2, 12), (3, 5), (2, 2, 6), (2, 3, 4), (4, 4, 4))
TARGETS = ("R", "S(0)")


def find(program: Shardlab) -> Finding:
    rows = []
    totals = {"plans": 0, "apart": 0, "merged": 0}
    fitting = 0
    for mesh in MESHES:
        counts = count_plans(program, mesh)
        for key, number in counts.items():
            totals[key] += number
        if all(size % HOST == 0 or HOST % size == 0 for size in running_sizes(mesh)):
            fitting += counts["apart"]
        rows.append(["x".join(map(str, mesh)), counts["plans"], counts["apart"], counts["merged"]])
    return Finding(answer(totals, fitting, worse(rows)), body(program, rows))


def worse(rows: list[list[Any]]) -> list[str]:
    """The meshes on which more plans may leave replicas that differ once their steps are merged."""
    return [f"{mesh} ({apart} become {merged})" for mesh, _, apart, merged in rows if merged > apart]


def running_sizes(mesh: tuple[int, ...]) -> list[int]:
    """How many ranks the innermost dims span together: 8, then 5 x 8, ..."""
    return list(itertools.accumulate(reversed(mesh), lambda a, b: a * b))


def reductions(ndim: int) -> Iterator[tuple[str, str]]:
    """All layouts with at least one partial mesh dim, and where they may go."""
    for source in itertools.product(("P", "R"), repeat=ndim):
        if "P" not in source:
            continue
        for target in itertools.product(TARGETS, repeat=ndim):
            yield "".join(source), "".join(target)


def count_plans(program: Shardlab, mesh: tuple[int, ...]) -> dict[str, int]:
    names = [f"d{i}" for i in range(len(mesh))]
    named = ",".join(f"{name}={size}" for name, size in zip(names, mesh))
    flattened = [",".join(chosen) for size in range(2, len(mesh) + 1) for chosen in itertools.combinations(names, size)]
    counts = {"plans": 0, "apart": 0, "merged": 0}
    for source, target in reductions(len(mesh)):
        words = ["plan", "--mesh", named, "--tensor", "bf16[960,960]", "--from", source, "--to", target, "--stack", STACK,
                 "--require-bitwise-replicas"]
        counts["plans"] += 1
        counts["apart"] += bool(program.run(*words, passes=(0, 1))["replicas_may_differ"])
        for dims in flattened:
            words += ["--flatten", dims]
        counts["merged"] += bool(program.run(*words, passes=(0, 1))["replicas_may_differ"])
    return counts


def answer(totals: dict[str, int], fitting: int, more: list[str]) -> str:
    return (f"Of {totals['plans']} reductions on {len(MESHES)} meshes, {totals['apart']} may leave replicas that differ; "
            f"{'none' if fitting == 0 else fitting} of them on a mesh whose dims fill hosts of {HOST} evenly, where nothing needs to be refused. With all meshes flattened that PyTorch can merge on, "
            f"{totals['merged']} are left, where a reduce-scatter stands between the reductions or the steps stand in another order than the mesh dims."
            + (f" Flattening makes it worse on {text.listed(more)}." if more else ""))


def body(program: Shardlab, rows: list[list[Any]]) -> str:
    example = ["plan", "--mesh", "ddp=8,fsdp=5", "--tensor", "bf16[960,960]", "--from", "PP", "--to", "RR", "--stack", STACK,
               "--require-bitwise-replicas"]
    fault = program.run(*example, passes=(1,))["replicas_may_differ"][0]
    return f"""
## By mesh

{text.table(["mesh on hosts of 8", "reductions:", "may differ:", "may differ if all merge that can:"], rows)}

Every layout of P and R with at least one P, to every layout of R and S(0), as `{STACK}` plans it. A plan may leave different replicas if
a sum of more than two floating-point numbers runs in several groups at once that hold the same values, and these groups lie
differently on the NVLink domains. Groups that lie alike are taken to add up in the same order. For each such plan shardlab's fake process group, which can add
up inside domains first, finds different bits in most runs with random data, and never in a plan that is said to be safe
(`tests/unit/sim/replicas_test.cpp`).

The text names the step: "{fault}".
{why_worse(program, rows)}
## What to do

- Register a flattened mesh over dims that are reduced together (`DeviceMesh._flatten`), or choose mesh dims that fill hosts evenly. Ask again with the flattened
  mesh, as `--flatten` does: it may be the merged sum that differs.
- A check that refuses such plans needs no data and no knowledge of NCCL's algorithm: `--require-bitwise-replicas` of `plan`, `simulate`, `solve` and
  `compare` exits with 1.

## By hand

{text.commands(f'shardlab plan --mesh ddp=8,fsdp=5 --tensor "bf16[960,960]" --from PP --to RR --stack {STACK} --require-bitwise-replicas',
               "scripts/generate_findings.sh bitwise-replicas")}

## What this rests on

Plans of `{STACK}`, which agree with recorded decisions of PyTorch 2.15.0 (docs/trust.md), and the places of groups on hosts of {HOST}. Which order NCCL
takes is not known; the figure counts what may differ under an algorithm that sums inside a domain first, as in the thread. No GPU was used.
"""


def why_worse(program: Shardlab, rows: list[list[Any]]) -> str:
    """An example of a plan that is safe until its steps are merged, on the first mesh where merging makes more plans unsafe."""
    mesh = next((mesh for mesh, _, apart, merged in rows if merged > apart), None)
    if mesh is None:
        return ""
    sizes = mesh.split("x")
    names = [f"d{i}" for i in range(len(sizes))]
    words = ["plan", "--mesh", ",".join(f"{name}={size}" for name, size in zip(names, sizes)), "--tensor", "bf16[960,960]", "--from", "PP" + "R" * (len(sizes) - 2),
             "--to", "R" * len(sizes), "--stack", STACK, "--require-bitwise-replicas"]
    program.run(*words, passes=(0,))
    fault = program.run(*words, "--flatten", "d0,d1", passes=(1,))["replicas_may_differ"][0]
    ranks = int(sizes[0]) * int(sizes[1])
    return f"""
Merging can also do harm. On {mesh} two sums over groups of {sizes[0]} and {sizes[1]} ranks come out equal everywhere, since two numbers have one sum in either order;
merged, {ranks} numbers are added up in one group, which lies differently for other replicas: "{fault}".
"""
