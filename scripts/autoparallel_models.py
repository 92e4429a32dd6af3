"""Models on which scripts/compare_autoparallel.py runs AutoParallel, and the GPU that it is told to plan for.

    made = problem("llama", "2x4", tied=True, mixed_precision=True)
    made.optimizer.get_solution()

No GPU is needed: the process group is PyTorch's fake one, the mesh is of CPUs, and the device says that it is an
H100, or another of DEVICES. On a CPU, fake tensors have a CPU's operators; those that choose a kernel are given CUDA's (exporting.as_cuda).

Constraints are AutoParallel's defaults: the batch is cut by the first mesh dim, and each parameter is kept at its
least fraction.
"""

import contextlib
import dataclasses
import math
import time
import types
from typing import Any
from unittest.mock import patch

import torch
from export_autoparallel import exporting
from torch import nn
from torch.nn import functional as F

try:
    from autoparallel.api import AutoParallel
except ImportError as error:
    raise exporting.ArgumentError(
        f"found no AutoParallel ({error}); valid: a PYTHONPATH with https://github.com/meta-pytorch/autoparallel and "
        "the package pulp"
    ) from error


class Mlp(nn.Module):
    """Two linear layers with biases."""

    def __init__(self, width=1024, hidden=4096):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        """The output of the second layer."""
        return self.down(F.relu(self.up(x)))


class Norm(nn.Module):
    """A residual layer with a layer norm and dropout."""

    def __init__(self, width=1024):
        super().__init__()
        self.norm, self.mlp, self.dropout = nn.LayerNorm(width), Mlp(width), nn.Dropout(0.1)

    def forward(self, x):
        """The residual and what the layer adds to it."""
        return x + self.dropout(self.mlp(self.norm(x)))


class Attention(nn.Module):
    """Attention by heads, with a mask where one is given."""

    def __init__(self, width=1024, heads=16, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, mask=None):
        """The attended values."""
        batch, rows, width = x.shape
        parts = (each(x).view(batch, rows, self.heads, -1).transpose(1, 2)
                 for each in (self.query, self.key, self.value))
        out = F.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=self.causal)
        return self.out(out.transpose(1, 2).reshape(batch, rows, width))


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, width=1024):
        super().__init__()
        self.attention, self.up = Attention(width), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        """The residual and what both layers add to it."""
        x = x + self.attention(x)
        return x + self.down(F.relu(self.up(x)))


class Llama(nn.Module):
    """Tokens to logits, through layers with RMS norms and gates."""

    def __init__(self, layers=2, width=1024, hidden=2816, vocabulary=32000):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "attention": Attention(width, causal=True), "first": nn.RMSNorm(width), "second": nn.RMSNorm(width),
            "gate": nn.Linear(width, hidden, bias=False), "up": nn.Linear(width, hidden, bias=False),
            "down": nn.Linear(hidden, width, bias=False)}) for _ in range(layers))

    def forward(self, tokens):
        """The logits of every position."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer["attention"](layer["first"](x))
            h = layer["second"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return self.head(self.norm(x))


class Convolutions(nn.Module):
    """Two convolutions with biases and a batch norm, whose running statistics the step changes."""

    def __init__(self, channels=64):
        super().__init__()
        self.first, self.norm = nn.Conv2d(16, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.second, self.head = nn.Conv2d(channels, channels, 3, padding=1), nn.Linear(channels, 1000)

    def forward(self, x):
        """The classes of each image."""
        x = F.relu(self.norm(self.first(x)))
        return self.head(F.relu(self.second(x)).mean((2, 3)))


class Indexed(nn.Module):
    """An index of one dim, x[:, i], and tensors made from numbers."""

    def __init__(self, width=1024):
        super().__init__()
        self.linear, self.embedding = nn.Linear(width, width), nn.Embedding(1000, width)

    def forward(self, x, rows, tokens):
        """The rows of both."""
        y = self.linear(x)[:, rows] * self.embedding(tokens)[:, rows]
        return y + torch.rand(y.shape) + torch.randn(y.shape) + torch.full((y.shape[1], 1), 2.0)


class Experts(nn.Module):
    """A router, and experts that all compute, with the gates of those that were not chosen at zero."""

    def __init__(self, width=512, hidden=1024, experts=8):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))

    def forward(self, x):
        """The sum of what the chosen experts make."""
        weights = torch.softmax(self.router(x), -1)
        best, which = torch.topk(weights, 2, -1)
        gates = torch.zeros_like(weights).scatter(-1, which, best)
        y = torch.einsum("beth,ehd->betd", F.silu(torch.einsum("btd,edh->beth", x, self.up)), self.down)
        return (y * gates.permute(0, 2, 1).unsqueeze(-1)).sum(1)


def numbers(*shape):
    """An input of numbers."""
    return torch.rand(*shape)


def tokens(most, *shape):
    """An input of indices."""
    return torch.randint(0, most, shape)


# Each model, and the function that makes its inputs.
MODELS = {
    "mlp": (Mlp, lambda: (numbers(64, 512, 1024),)),
    "matrix": (Mlp, lambda: (numbers(2048, 1024),)),
    "norm": (Norm, lambda: (numbers(64, 512, 1024),)),
    "block": (Block, lambda: (numbers(64, 512, 1024),)),
    "mask": (Attention, lambda: (numbers(64, 256, 1024), numbers(64, 16, 256, 256))),
    "llama": (Llama, lambda: (tokens(32000, 64, 512),)),
    "llama-4": (lambda: Llama(4), lambda: (tokens(32000, 64, 512),)),
    "convolutions": (Convolutions, lambda: (numbers(128, 16, 32, 32),)),
    "indexed": (Indexed, lambda: (numbers(64, 256, 1024), tokens(256, 128), tokens(1000, 64, 256))),
    "experts": (Experts, lambda: (numbers(64, 256, 512),)),
}


@dataclasses.dataclass
class Problem:
    """A problem of AutoParallel, and how long its strategies and prices took."""

    optimizer: Any
    seconds: float


DEVICES = {"A100": (8, 0), "B200": (10, 0), "H100": (9, 0)}  # and their compute capabilities


def pretend_gpu(stack, device):
    """Lets PyTorch say that it runs on a host with 8 such devices."""
    capability = DEVICES[device]
    properties = types.SimpleNamespace(name=device, major=capability[0], minor=capability[1],
                                       total_memory=80 * 1024**3, multi_processor_count=132)
    answers = {"device_count": 8, "get_device_name": device, "get_device_properties": properties, "current_device": 0,
               "get_device_capability": capability}
    for module, create in ((torch.cuda, False), (torch.cpu, True)):
        for name, answer in answers.items():
            if not create or not name.startswith("current"):
                stack.enter_context(patch.object(module, name, lambda *_, is_=answer, **__: is_, create=create))
    stack.enter_context(exporting.as_cuda())


def mesh_of(text):
    """A mesh of CPUs on the fake process group."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # pylint: disable=import-outside-toplevel

    extents = tuple(int(extent) for extent in text.split("x"))
    group = torch.distributed
    if group.is_initialized():
        group.destroy_process_group()
    group.init_process_group("fake", store=FakeStore(), rank=0, world_size=math.prod(extents))
    names = tuple(f"dim{i}" for i in range(len(extents)))
    return group.device_mesh.init_device_mesh("cpu", extents, mesh_dim_names=names)


def problem(name, mesh_text, *, tied=True, mixed_precision=True, device="H100"):
    """The problem of a model, with the default constraints. It stays open until the process ends."""
    if name not in MODELS:
        raise exporting.ArgumentError(f'found --model "{name}"; valid: {", ".join(MODELS)}')
    make, inputs = MODELS[name]
    stack = contextlib.ExitStack()
    pretend_gpu(stack, device)
    mesh = mesh_of(mesh_text)
    with torch.device("meta"):
        model = make()
    policy = None
    if mixed_precision:
        policy = torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    start = time.time()
    autop = AutoParallel(model, inputs, mesh, policy, repeated_subgraphs=tied)
    trace = autop.build_model_graph

    def timed():
        nonlocal start
        trace()
        start = time.time()

    autop.build_model_graph = timed
    autop.__enter__()  # pylint: disable=unnecessary-dunder-call
    autop.add_parameter_memory_constraint()
    autop.sharding_optimizer.add_sharded_input_constraint()
    autop.sharding_optimizer.add_sharded_output_constraint()
    seconds = time.time() - start
    OPEN.append((stack, autop))
    return Problem(autop.sharding_optimizer, seconds)


OPEN = []  # what has to live as long as the problems
