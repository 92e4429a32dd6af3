"""Trains the block whole and sharded, on as many processes as the plan has ranks (docs/run-a-plan.md).

    torchrun --nproc-per-node 4 docs/examples/train_block.py FOLDER     FOLDER has sharded.py, which shardlab apply wrote
"""

import sys

import torch
import torch.distributed as dist
from block import make
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, sys.argv[1])
import sharded  # noqa: E402

whole, (x,) = make()
block, _ = make()  # the same parameters, since make() sets the seed
kind = "cuda" if torch.cuda.is_available() else "cpu"
sharded.apply(block, init_device_mesh(kind, sharded.MESH))
if dist.get_rank() == 0:
    print(f"linear1.weight: {tuple(block.linear1.weight.to_local().shape)} of {tuple(block.linear1.weight.shape)}")
optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (whole, block)]
for step in range(3):
    losses = []
    for model, optimizer in zip((whole, block), optimizers):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.full_tensor() if model is block else loss)
    if dist.get_rank() == 0:
        print(f"step {step}: whole {losses[0]:.5f}, sharded {losses[1]:.5f}")
dist.destroy_process_group()
