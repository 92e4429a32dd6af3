"""A block of a transformer, and its input: what docs/run-a-plan.md shards."""

import torch
from torch import nn


def make():
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    return block, (torch.randn(16, 64, 256),)
