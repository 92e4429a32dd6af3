#!/usr/bin/env python3
"""Runs a DTensor program twice, with PyTorch's cost function and with a shardlab stack in its place, and prints
which ops changed their sharding.

    PYTHONPATH=build/release/python python3 python/examples/swap_cost_function.py --stack calibrated-h100

Needs torch 2.13.0 (scripts/setup --with-oracle). One process plays all ranks: a fake process group, meta tensors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import shardlab

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _collective_utils, debug, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError as error:
    sys.exit(f"swap_cost_function: {error}; valid: a Python with torch 2.13.0, e.g. build/oracle/bin/python")

# PyTorch's functions that say what a redistribution costs; modules that import them hold them by name.
COST_FUNCTIONS = ("redistribute_cost", "one_step_redistribute_cost")


def program(mesh: DeviceMesh) -> list[tuple[str, DTensor]]:
    """A block of a decoder in two layouts that leave the ops a choice: (op, its result)."""
    def tensor(shape, *placements):
        return distribute_tensor(torch.empty(shape, device="meta", dtype=torch.bfloat16), mesh, placements)

    done = []

    def note(name: str, result: DTensor) -> DTensor:
        done.append((name, result))
        return result

    x = tensor((8192, 4096), Shard(0), Shard(1))
    up = tensor((4096, 14336), Shard(0), Shard(1))
    down = tensor((14336, 4096), Shard(1), Shard(0))
    bias = tensor((14336,), Replicate(), Shard(0))
    h = note("mm (up)", torch.mm(x, up))
    h = note("add (bias)", torch.add(h, bias))
    h = note("gelu", torch.nn.functional.gelu(h))
    y = note("mm (down)", torch.mm(h, down))
    y = note("add (residual)", torch.add(y, x))
    note("mul", torch.mul(y, tensor((4096,), Shard(0), Replicate())))
    note("sum", torch.sum(y, 0))
    partial = DTensor.from_local(torch.empty((64, 512), device="meta"), mesh, [Partial(), Replicate()],
                                 run_check=False)
    note("add (partial)", torch.add(partial, distribute_tensor(torch.empty((64, 512), device="meta"), mesh,
                                                               [Shard(0), Shard(1)])))
    return done


def swap(cost: Callable[..., float]) -> dict[tuple[str, str], Callable[..., float]]:
    """Puts a cost function in the place of PyTorch's, everywhere; what stood there is returned."""
    before = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch.distributed.tensor"):
            continue
        for function in COST_FUNCTIONS:
            if getattr(module, function, None) is getattr(_collective_utils, function):
                before[name, function] = getattr(module, function)
    for name, function in before:
        setattr(sys.modules[name], function, cost)
    return before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stack", default="calibrated-h100", help="shardlab's stack (default: %(default)s)")
    parser.add_argument("--topology", default="h100", help="topology of the virtual GPUs (default: %(default)s)")
    parser.add_argument("--mesh", default="4x8", help="a mesh of two dims (default: %(default)s)")
    arguments = parser.parse_args()
    shape = tuple(int(size) for size in arguments.mesh.split("x"))
    if len(shape) != 2:
        parser.error(f"--mesh: found {arguments.mesh}; valid: two mesh dims, e.g. 4x8")

    ranks = shape[0] * shape[1]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    mesh = DeviceMesh("cpu", torch.arange(ranks).reshape(shape))
    pricer = shardlab.Pricer(arguments.stack, arguments.topology)
    asked = 0

    def cost(current_spec, target_spec, *_, **__) -> float:
        nonlocal asked
        asked += 1
        return pricer.price(current_spec, target_spec)

    debug._clear_sharding_prop_cache()
    before = program(mesh)
    swap(cost)
    debug._clear_sharding_prop_cache()
    try:
        after = program(mesh)
    except (RuntimeError, AssertionError) as error:
        print(f"swap_cost_function: PyTorch can't run the layouts that {pricer.stack} chooses: {error}", file=sys.stderr)
        return 1

    changed = 0
    print(f"{'op':<16} {'PyTorch':<24} {pricer.stack}")
    for (name, old), (_, new) in zip(before, after):
        texts = [shardlab.layout_text(result.placements) for result in (old, new)]
        changed += texts[0] != texts[1]
        print(f"{name:<16} {texts[0]:<24} {texts[1]}{'   changed' if texts[0] != texts[1] else ''}")
    print(f"{changed} of {len(before)} ops changed their sharding; {asked} redistributions priced under {pricer.stack}")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
