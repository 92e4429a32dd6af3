#!/usr/bin/env python3
"""`shardlab apply` writes plans that PyTorch runs with the results of the unsharded module. Skipped without PyTorch.

This file runs in three roles: as a test; with --export FOLDER under PyTorch's Python, where it writes one program for
each of CASES; and with --run FOLDER MESH, where it starts one process per rank (gloo, on the CPU) and runs all plans
that were written for that mesh.
"""

import contextlib
import copy
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import traceback
import unittest
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    torch = None

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
MESHES = ("4", "2x2", "2x4")
TOLERANCE = 1e-10
# Collectives, as CommDebugMode and the written file call them.
KINDS = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all_single": "all_to_all",
}
COUNTED = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allreduce_": "all_reduce",
    "alltoall_base_": "all_to_all",
}
CASES = {}  # name -> function that makes (module, inputs[, keyword inputs])


def case(make):
    """Registers what makes a module, under its own name."""
    CASES[make.__name__] = make
    return make


if torch:

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64)

    class Calls(nn.Module):
        """A module whose forward is the function given, on itself and its inputs."""

        def __init__(self, function, **parts):
            super().__init__()
            self.function = function
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *args, **kwargs):
            return self.function(self, *args, **kwargs)

    @case
    def mlp():
        return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64)), (normal(16, 64),)

    @case
    def encoder_layer():
        layer = nn.TransformerEncoderLayer(64, 8, 128, 0.0, "gelu", batch_first=True)
        return layer, (normal(8, 16, 64),)

    class LlamaBlock(nn.Module):
        """LLaMA's block, with grouped queries and rotary embeddings."""

        def __init__(self, width=64, count=8, groups=4, length=16):
            super().__init__()
            self.count, self.groups = count, groups
            self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
            narrow = width * groups // count
            self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.wk, self.wv = nn.Linear(width, narrow, bias=False), nn.Linear(width, narrow, bias=False)
            self.w1, self.w3 = nn.Linear(width, 128, bias=False), nn.Linear(width, 128, bias=False)
            self.w2 = nn.Linear(128, width, bias=False)
            half = width // count // 2
            angles = torch.outer(torch.arange(length).double(), 1e4 ** (-torch.arange(half) / half))
            self.register_buffer("cos", angles.cos().repeat(1, 2), persistent=False)
            self.register_buffer("sin", angles.sin().repeat(1, 2), persistent=False)

        def rotated(self, x):
            left, right = x.chunk(2, dim=-1)
            return x * self.cos + torch.cat([-right, left], dim=-1) * self.sin

        def heads(self, x, count):
            return x.view(*x.shape[:-1], count, -1).transpose(1, 2)

        def forward(self, x):
            h = self.attention_norm(x)
            q = self.rotated(self.heads(self.wq(h), self.count))
            k = self.rotated(self.heads(self.wk(h), self.groups))
            v = self.heads(self.wv(h), self.groups)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.wo(y.transpose(1, 2).reshape(x.shape))
            h = self.ffn_norm(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    @case
    def llama_block():
        return LlamaBlock(), (normal(8, 16, 64),)

    @case
    def convolutions():
        body = nn.Sequential(
            nn.Conv2d(4, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.GroupNorm(8, 32), nn.SiLU(),
            nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 16))
        return body, (normal(8, 4, 16, 16),)

    @case
    def language_model():
        """Tied embeddings, a frozen parameter, and the loss inside."""

        def call(self, ids, labels):
            h = self.norm(self.embedding(ids) + self.positions)
            return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten())

        parts = {"embedding": nn.Embedding(96, 32), "head": nn.Linear(32, 96, bias=False), "norm": nn.LayerNorm(32),
                 "positions": nn.Parameter(torch.randn(16, 32), requires_grad=False)}
        model = Calls(call, **parts)
        model.head.weight = model.embedding.weight
        return model, (torch.randint(96, (8, 16)), torch.randint(96, (8, 16)))

    @case
    def nested():
        """Nested inputs and outputs, an input with a gradient, and shards of different lengths."""

        def call(self, batch, *more, mask=None):
            x = self.layer(batch["x"]) + batch["pair"][1] + more[0]
            return {"logits": x.masked_fill(mask, 0.0), "parts": [x, x.sum()], "none": None}

        batch = {"x": normal(10, 24).requires_grad_(), "pair": (normal(10, 18), normal(10, 18))}
        return Calls(call, layer=nn.Linear(24, 18)), (batch, normal(10, 18)), {"mask": torch.rand(10, 18) > 0.5}


def made(name):
    """The module in f64, and its inputs, the same in every process."""
    torch.manual_seed(len(name))
    module, inputs, *kwargs = CASES[name]()
    return module.double(), inputs, *kwargs


def export_all(folder):
    """Writes FOLDER/CASE.json for each case."""
    sys.path.insert(0, str(SCRIPTS))
    from export_program import exporting  # pylint: disable=import-outside-toplevel

    for name in CASES:
        module, inputs, *kwargs = made(name)
        program = exporting.export(module, inputs, *kwargs, name=name)
        (Path(folder) / f"{name}.json").write_text(exporting.text_of(program))


# --- One rank -------------------------------------------------------------------------------------------------


class Recorder:
    """torch.distributed, noting each collective that the written file calls: kind and number of ranks."""

    def __init__(self, groups):
        self.groups = groups
        self.calls = []

    def __getattr__(self, name):
        function = getattr(dist, name)
        if name not in KINDS:
            return function

        def noted(*args, group, **kwargs):
            self.calls.append((KINDS[name], self.groups.index(group)))
            return function(*args, group=group, **kwargs)

        return noted


def tensors_in(value):
    """The tensors of a nest of containers, by the names that the exporter gives them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for each in value for leaf in tensors_in(each)] if isinstance(value, (list, tuple)) else []


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def loss_of(outputs):
    """A number that depends on all elements of all outputs."""
    losses = []
    for each in tensors_in(outputs):
        if each.is_floating_point():
            weights = torch.linspace(0.5, 1.5, each.numel(), dtype=torch.float64).reshape(each.shape)
            losses.append((whole(each).double() * weights).square().sum() / each.numel())
    return sum(losses)


def difference(name, found, expected, errors):
    """Notes the largest difference, relative to the largest element."""
    found, expected = whole(found.detach()), expected.detach()
    if found.shape != expected.shape:
        errors[name] = f"shape {tuple(found.shape)}, not {tuple(expected.shape)}"
        return
    if expected.numel() == 0:
        return
    scale = max(1.0, float(expected.abs().max())) if expected.dtype != torch.bool else 1.0
    errors[name] = float((found.double() - expected.double()).abs().max()) / scale


def step_of(model, inputs, kwargs, counts=None, recorder=None):
    """Forward, backward and one step of AdamW."""
    from torch.distributed.tensor.debug import CommDebugMode  # pylint: disable=import-outside-toplevel

    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, foreach=False) if parameters else None
    counting = CommDebugMode if counts is not None else contextlib.nullcontext
    with counting() as forward:
        outputs = model(*inputs, **kwargs)
    loss = loss_of(outputs)
    if recorder:
        recorder.calls.append("backward")
    with counting() as backward:
        loss.backward()
    if counts is not None:
        for phase, mode in (("forward", forward), ("backward", backward)):
            counts[phase] = {COUNTED.get(str(op).rsplit(".", 1)[-1], str(op)): count
                             for op, count in mode.get_comm_counts().items() if count}
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    given = {f"input {i}": each.grad for i, each in enumerate(tensors_in([list(inputs), kwargs])) if each.requires_grad}
    before = {name: each.detach().clone() for name, each in gradients.items()}
    if optimizer:
        optimizer.step()
    return loss, outputs, before, given


def run_plan(name, module, inputs, kwargs, path, mesh):
    """Runs a written file against the module as it is; returns errors by name, counts and the calls in order."""
    spec = importlib.util.spec_from_file_location("written_" + path.stem.replace("-", "_"), path)
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    reference, sharded = copy.deepcopy(module), copy.deepcopy(module)
    given, others = copy.deepcopy((inputs, kwargs)), copy.deepcopy((inputs, kwargs))
    errors, counts = {}, {}
    expected = step_of(reference, *given)
    written.apply(sharded, mesh)
    recorder = written.dist = Recorder([mesh.get_group(m) for m in range(mesh.ndim)])
    found = step_of(sharded, *others, counts, recorder)
    difference("loss", found[0], expected[0], errors)
    for i, (one, other) in enumerate(zip(tensors_in(found[1]), tensors_in(expected[1]))):
        difference(f"output {i}", one, other, errors)
    for table, label in ((2, "gradient of "), (3, "gradient of ")):
        if found[table].keys() != expected[table].keys():
            errors[label] = f"{sorted(found[table])}, not {sorted(expected[table])}"
            continue
        for key, value in expected[table].items():
            difference(label + key, found[table][key], value, errors)
    for kind in ("named_parameters", "named_buffers"):
        for key, value in getattr(reference, kind)():
            difference(key, dict(getattr(sharded, kind)())[key], value, errors)
    return {"errors": errors, "counts": counts, "calls": recorder.calls}


def run_rank(rank, size, folder, mesh_text, port, cases):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    sizes = tuple(map(int, mesh_text.split("x")))
    mesh = dist.device_mesh.init_device_mesh("cpu", sizes)
    results = {}
    for path in sorted(Path(folder).glob(f"*-{mesh_text}-*.py")):
        name = path.stem.split("-")[0]
        try:
            module, inputs, *kwargs = (cases or made)(name)
            result = run_plan(name, module, inputs, kwargs[0] if kwargs else {}, path, mesh)
        except Exception:  # pylint: disable=broad-except
            result = {"failure": traceback.format_exc()}
        every = [None] * size
        dist.all_gather_object(every, result)
        failures = [each["failure"] for each in every if "failure" in each]
        results[path.stem] = {"failure": failures[0]} if failures else every[0]
        for each in every:
            for key, error in each.get("errors", {}).items():
                worst = results[path.stem].get("errors", {}).get(key, 0)
                if not failures and (isinstance(error, str) or not isinstance(worst, str) and not error <= worst):
                    results[path.stem]["errors"][key] = error
    if rank == 0:
        (Path(folder) / f"results-{mesh_text}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def run_all(folder, mesh_text, cases=None):
    """Starts the ranks, and waits for them."""
    import torch.multiprocessing as mp  # pylint: disable=import-outside-toplevel

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    size = 1
    for each in mesh_text.split("x"):
        size *= int(each)
    mp.spawn(run_rank, (size, folder, mesh_text, port, cases), size)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export_all(sys.argv[2])
    elif sys.argv[1:2] == ["--run"]:
        run_all(*sys.argv[2:])
    else:
        unittest.main()
