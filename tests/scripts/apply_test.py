#!/usr/bin/env python3
"""`shardlab apply` writes plans that PyTorch runs with the results of the unsharded module. Skipped without PyTorch.

This file runs in three roles: as a test; with --export FOLDER under PyTorch's Python, where it writes one program for
each of CASES; and with --run FOLDER MESH..., where it starts one process per rank (gloo, on the CPU) and runs all
plans that were written for these meshes.
"""

import collections
import contextlib
import copy
import functools
import importlib.util
import json
import math
import os
import re
import shlex
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
MESHES = ("4", "2x2", "2x4", "4x2")
TOLERANCE = 1e-10
# Collectives, as CommDebugMode and the written file call them.
KINDS = {
    "all_gather_single": "all_gather",
    "reduce_scatter_single": "reduce_scatter",
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
    def masked_attention():
        """A Boolean mask says which scores count."""

        def call(self, x, mask):
            q, k, v = self.heads(x).view(8, 16, 3, 4, 16).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.out(y.transpose(1, 2).flatten(2))

        mask = torch.ones(16, 16, dtype=torch.bool).tril()
        return Calls(call, heads=nn.Linear(64, 192), out=nn.Linear(64, 64)), (normal(8, 16, 64), mask)

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

    @case
    def views():
        """Outputs that are a view of another one and a parameter, and tensors in a list and in a dictionary."""

        def call(self, x):
            h = self.layer(x) * self.scales["layer.out"] + self.shifts[0]
            return h, h[:, 0], self.layer.weight

        held = {"shifts": [normal(16)], "scales": {"layer.out": normal(16)}}
        return Calls(call, layer=nn.Linear(24, 16), **held), (normal(8, 4, 24),)

    @case
    def flattened():
        """The dim behind the batch is cut twice, and then flattened: twice strided shards."""
        return nn.Sequential(nn.Tanh(), nn.Flatten(0, 1), nn.Linear(8, 8)), (normal(8, 4, 8),)


    @case
    def few_rows():
        """Five rows, of which the last of four ranks has none."""
        return Calls(lambda self, x: (self.scale * x).tanh() + 1.0, scale=nn.Parameter(normal(5, 8))), (normal(5, 8),)


def made(name):
    """The module in f64, and its inputs, the same in every process."""
    torch.manual_seed(len(name))
    module, inputs, *kwargs = CASES[name]()
    return module.double(), inputs, *kwargs


def dropout():
    """A module that draws numbers."""
    return nn.Sequential(nn.Linear(64, 128), nn.Dropout(0.5)).double(), (normal(64, 64),)


def export_all(folder):
    """Writes FOLDER/CASE.json for each case."""
    sys.path.insert(0, str(SCRIPTS))
    from export_program import exporting  # pylint: disable=import-outside-toplevel

    for name in CASES:
        module, inputs, *kwargs = made(name)
        program = exporting.export(module, inputs, *kwargs, name=name)
        (Path(folder) / f"{name}.json").write_text(exporting.text_of(program))
    drawing = exporting.export(*dropout(), name="dropout")
    (Path(folder) / "dropout.program").write_text(exporting.text_of(drawing))


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
        if loss.requires_grad:
            loss.backward()
    if counts is not None:
        for phase, mode in (("forward", forward), ("backward", backward)):
            counts[phase] = {COUNTED.get(str(op).rsplit(".", 1)[-1], str(op)): count
                             for op, count in mode.get_comm_counts().items() if count}
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    every = enumerate(tensors_in([list(inputs), kwargs]))
    given = {f"input {i}": each.grad for i, each in every if each.requires_grad}
    before = {name: each.detach().clone() for name, each in gradients.items()}
    if optimizer and before:
        optimizer.step()
    return loss, outputs, before, given


def run_plan(cases, path, mesh):
    """Runs a written file against the module as it is; returns errors by name, counts and the calls in order."""
    module, inputs, *kwargs = cases(path.stem.split("-")[0])
    kwargs = kwargs[0] if kwargs else {}
    written = loaded(path)
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
    for table in (2, 3):
        if found[table].keys() != expected[table].keys():
            errors[f"gradients {table}"] = f"{sorted(found[table])}, not {sorted(expected[table])}"
            continue
        for key, value in expected[table].items():
            difference(f"gradient of {key}", found[table][key], value, errors)
    for name, gradient in found[3].items():
        if hasattr(gradient, "placements"):
            errors[f"gradient of {name}"] = "a DTensor, where the input is a plain tensor"
    placements = {name: each.placements for name, each in sharded.named_parameters()}
    for name, gradient in found[2].items():
        if gradient.placements != placements[name]:
            errors[f"layout of {name}"] = f"{gradient.placements}, not {placements[name]}"
    for kind in ("named_parameters", "named_buffers"):
        for key, value in getattr(reference, kind)():
            difference(key, dict(getattr(sharded, kind)())[key], value, errors)
    return {"errors": errors, "counts": counts, "calls": recorder.calls}


def loaded(path):
    """A written file as a module."""
    spec = importlib.util.spec_from_file_location("written_" + path.stem.replace("-", "_"), path)
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    return written


def refusal(function):
    """What a call that must fail says."""
    try:
        function()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "no error"


def second_derivatives(outputs, parameters):
    torch.autograd.grad(outputs.full_tensor().square().sum(), [*parameters], create_graph=True)


def run_others(folder, mesh):
    """What else a written file does: DTensors as inputs, no gradients, a model without data, and refusals."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # pylint: disable=import-outside-toplevel

    path = Path(folder) / "mlp-2x2-sharded.py"
    module, inputs = made("mlp")
    expected = module(*inputs)
    errors = {}
    written, sharded = loaded(path), copy.deepcopy(module)
    assert written.apply(sharded, mesh) is sharded
    for placements in ([Shard(0), Shard(1)], [Replicate(), Shard(0)]):
        found = sharded(distribute_tensor(inputs[0], mesh, placements))
        difference(f"a DTensor in {placements}", found, expected, errors)
    with torch.no_grad():
        found = sharded(*inputs)
    errors["no gradient"] = "a graph" if found.requires_grad else 0.0
    difference("without gradients", found, expected, errors)
    with torch.inference_mode():
        difference("in inference mode", sharded(*inputs), expected, errors)
        turned = distribute_tensor(inputs[0], mesh, [Shard(0), Shard(1)])
        difference("a DTensor in inference mode", sharded(turned), expected, errors)
    difference("after inference mode", sharded(*inputs), expected, errors)
    again = loaded(path).apply(sharded, mesh)  # parameters that are DTensors already
    difference("applied twice", again(*inputs), expected, errors)
    twin = copy.deepcopy(sharded)
    with torch.no_grad():
        for each in twin.parameters():
            each.zero_()
    difference("a copy with parameters of its own", twin(*inputs), torch.zeros_like(expected), errors)
    difference("the module that was copied", sharded(*inputs), expected, errors)
    named = written.nested({".loss": 1, ".parts[0]": 2, ".parts[1]": 3})
    if (named.loss, named["parts"], named[1], hasattr(named, "logits")) != (1, (2, 3), (2, 3), False):
        errors["outputs with names"] = str(named)
    numbered = written.nested({".1": "a", ".0": "b"})
    if (numbered[1], numbered[0]) != ("a", "b"):
        errors["outputs with numbers as names"] = str(numbered)
    empty = loaded(path).apply(copy.deepcopy(module).to("meta"), mesh)
    lies = {name: (each.placements, each.device.type) for name, each in empty.named_parameters()}
    same = {name: (each.placements, "meta") for name, each in sharded.named_parameters()}
    errors["on the device meta"] = 0.0 if lies == same else f"{lies}, not {same}"
    narrow = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64), nn.LayerNorm(64)).double()
    more = nn.Sequential(*copy.deepcopy(module), nn.Linear(64, 64)).double()
    other = loaded(Path(folder) / "mlp-4-optimum.py")
    refused = {
        "mesh": refusal(lambda: other.apply(copy.deepcopy(module), mesh)),
        "shape": refusal(lambda: written.apply(narrow, mesh)),
        "less": refusal(lambda: written.apply(copy.deepcopy(module)[:3], mesh)),
        "more": refusal(lambda: written.apply(more, mesh)),
        "input": refusal(lambda: sharded(inputs[0][:8])),
        "name": refusal(lambda: sharded(x=inputs[0])),
        "create_graph": refusal(lambda: second_derivatives(sharded(*inputs), sharded.parameters())),
    }
    run_dropout(folder, mesh, errors)
    return {"errors": errors, "refused": refused}


def run_dropout(folder, mesh, errors):
    """Replicas drop the same elements, shards drop others, and the backward pass drops what the forward pass did."""
    torch.manual_seed(3)
    module, inputs = dropout()
    written = loaded(Path(folder) / "dropout.py")
    sharded = written.apply(module, mesh)
    outputs = sharded(*inputs)
    outputs.sum().backward()
    found = outputs.full_tensor().detach()
    every = [torch.empty_like(found) for _ in range(dist.get_world_size())]
    dist.all_gather(every, found)
    difference("dropout on replicas", every[-1], every[0], errors)
    kept = found != 0
    errors["dropped share"] = 0.0 if 0.4 < float(kept.double().mean()) < 0.6 else f"{kept.double().mean()}"
    errors["shards drop alike"] = "yes" if torch.equal(kept[:32], kept[32:]) else 0.0
    difference("gradient of dropout", sharded[0].bias.grad, 2 * kept.double().sum(0), errors)


def run_in_python(rank, size, port):
    """What one process does with a plan that never was a file: shardlab.solve(...).apply(model)."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    import shardlab as module  # pylint: disable=import-outside-toplevel,import-error

    model, inputs = made("mlp")
    whole_model = copy.deepcopy(model)
    plan = module.solve(module.export(model, inputs), mesh="dp=2,tp=2", set={"devices_per_host": 2},
                        pins={"0.weight": "S(0)[1]S(0)[0]", "2.weight": "RS(1)"})
    assert plan.apply(model) is model
    held = {name: list(each.placements) for name, each in model.named_parameters()}
    assert held == plan.placements(), f"{held}, not {plan.placements()}"
    assert model[0].weight.device_mesh.mesh_dim_names == ("dp", "tp")
    errors = {}
    difference("output", model(*inputs), whole_model(*inputs), errors)
    assert errors["output"] <= TOLERANCE, errors
    run_under_autocast(module)
    dist.destroy_process_group()


def run_under_autocast(module):
    """A plan in f32 stays in f32 under autocast, and one that was exported under autocast has its casts."""
    model, inputs = made("mlp")
    model, inputs = model.float(), [each.float() for each in inputs]
    in_bf16 = functools.partial(torch.autocast, "cpu", torch.bfloat16)

    def applied(context, **options):
        with context():
            program = module.export(model, inputs, **options)
        return module.solve(program, mesh="2x2", pin_inputs="S(0)R").apply(copy.deepcopy(model))

    def results(model, context):
        with context():
            output = model(*inputs)
            output.float().square().mean().backward()
        return {"output": output, **{name: each.grad for name, each in model.named_parameters()}}

    def differences(found, expected):
        errors = {}
        for name, each in found.items():
            difference(name, each, expected[name], errors)
        return max(errors.values())

    in_f32, low = (results(copy.deepcopy(model), context) for context in (contextlib.nullcontext, in_bf16))
    assert differences(results(applied(contextlib.nullcontext), in_bf16), in_f32) <= 1e-6
    exported_low = results(applied(in_bf16), in_bf16)
    assert differences(exported_low, in_f32) > 1e-4
    assert differences(exported_low, low) < 1e-2
    forward = applied(contextlib.nullcontext, backward=False)
    with torch.inference_mode(), in_bf16():
        output = forward(*inputs)
        assert differences({"output": output}, in_f32) <= 1e-6


def run_rank(rank, size, folder, mesh_text, port, cases):
    """What one process does."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    mesh = dist.device_mesh.init_device_mesh("cpu", tuple(map(int, mesh_text.split("x"))))
    works = {}
    for path in sorted(Path(folder).glob(f"*-{mesh_text}-*.py")):
        works[path.stem] = functools.partial(run_plan, cases or made, path, mesh)
    if mesh_text == "2x2" and cases is None:
        works["others"] = functools.partial(run_others, folder, mesh)
    results = {}
    for name, work in works.items():
        try:
            result = work()
        except Exception:  # pylint: disable=broad-except
            result = {"failure": traceback.format_exc()}
        every = [None] * size
        dist.all_gather_object(every, result)
        results[name] = joined(every)
    if rank == 0:
        (Path(folder) / f"results-{mesh_text}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def joined(results):
    """The first rank's result with the largest errors of all ranks."""
    failures = [each for each in results if "failure" in each]
    if failures:
        return failures[0]
    for each in results[1:]:
        for key, error in each["errors"].items():
            worst = results[0]["errors"][key]
            if isinstance(error, str) or not (isinstance(worst, str) or error <= worst):
                results[0]["errors"][key] = error
        for key in ("calls", "counts", "refused"):
            if each.get(key) != results[0].get(key):
                results[0]["errors"][key] = f"{each.get(key)} on one rank, {results[0].get(key)} on another"
    return results[0]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_all(folder, mesh_text, cases=None):
    """Starts the ranks, and waits for them. Forks of a process that has imported all start faster than new ones."""
    import torch.distributed.tensor.debug  # pylint: disable=import-outside-toplevel,unused-import
    import torch.multiprocessing as mp  # pylint: disable=import-outside-toplevel

    size = math.prod(map(int, mesh_text.split("x")))
    torch.set_num_threads(1)
    mp.start_processes(run_rank, (size, folder, mesh_text, free_port(), cases), size, start_method="fork")


# --- The test -------------------------------------------------------------------------------------------------


def oracle_python():
    given = os.environ.get("SHARDLAB_ORACLE_PYTHON")
    installed = ROOT / "build" / "oracle" / "bin" / "python"
    return given or (str(installed) if installed.exists() else "")


BINARY = os.environ.get("SHARDLAB_BINARY")
ALL_RANKS = {"4": 4, "2x2": 4, "2x4": 8, "4x2": 8}
ROWS = {"4": "S(0)", "2x2": "S(0)R", "2x4": "S(0)R"}
# As Megatron cuts products: the first weight by columns, the second by rows, over the last mesh dim.
COLUMNS = {"mlp": ["0.weight"], "encoder_layer": ["linear1.weight"], "llama_block": ["wq.weight", "w1.weight"],
           "convolutions": ["0.weight"], "language_model": ["embedding.weight"], "nested": [],
           "views": ["layer.weight"], "masked_attention": [], "flattened": [], "few_rows": []}
LINES = {"mlp": ["2.weight"], "encoder_layer": ["linear2.weight"], "llama_block": ["wo.weight", "w2.weight"],
         "convolutions": ["10.weight"], "language_model": [], "nested": [], "views": [],
         "masked_attention": ["out.weight"], "flattened": [], "few_rows": []}


ON_ONE_MESH = ("language_model", "nested", "views", "masked_attention", "flattened")


def meshes_of(case_name):
    if case_name == "few_rows":
        return ("4x2",)
    return MESHES[:3] if case_name not in ON_ONE_MESH else ("2x2",)


def plans_of(case_name, mesh):
    """The options of solve for each plan of a case."""
    if case_name == "few_rows":
        return {"tensor": [], "sharded": ["--pin=mul=S(0)S(1)", "--pin=tanh=S(0)S(1)", "--pin=add=S(0)S(0)"]}
    outer = "R" if mesh != "4" else ""
    pins = [f"{name}={outer}S(0)" for name in COLUMNS[case_name]] + [f"{name}={outer}S(1)" for name in LINES[case_name]]
    rows = ROWS[mesh] if case_name != "flattened" else "S(1)S(1)"
    sharded = ["--parameter-budget", str(1 / ALL_RANKS[mesh]), "--pin-inputs", rows]
    if case_name not in ON_ONE_MESH:
        sharded += ["--pin-outputs", ROWS[mesh]]
    if case_name == "mlp":  # from rows to columns by an all-to-all
        sharded += [f"--pin=addmm={ROWS[mesh]}", f"--pin=gelu={ROWS[mesh].replace('0', '1')}",
                    "--stack=alpha-beta"]
    small = {"optimum": []} if mesh == "4" else {}
    return small | {
        "sharded": [*sharded, "--set", "devices_per_host=2"],  # with shard orders, since links differ
        "tensor": [*(f"--pin={pin}" for pin in pins), "--pin-inputs", rows],
    }


def communicates(move):
    """Whether ranks exchange anything: some mesh dim shards or is partial, and does not stay as it is."""
    ends = [re.findall(r"((?:_S|MP|NP|[SPR])(?:\([^)]*\))?)(\[\d\])?", move[end]) for end in ("from", "to")]
    changed = any(one[0] not in ("R", other[0]) for one, other in zip(*ends))
    return changed or [one[0] for one in ends[0]] == [other[0] for other in ends[1]]  # in another order


def shardlab(*words):
    return subprocess.run([BINARY, *map(str, words)], check=False, capture_output=True, text=True)


@unittest.skipUnless(oracle_python(), "no PyTorch: run scripts/setup --with-oracle")
@unittest.skipUnless(BINARY, "SHARDLAB_BINARY is not set")
class AppliedPlans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        cls.folder = Path(kept.name)
        cls.plans, cls.reports, cls.results = {}, {}, {}
        cls.python(__file__, "--export", cls.folder)
        for path in sorted(cls.folder.glob("*.json")):
            for mesh in meshes_of(path.stem):
                for plan, options in plans_of(path.stem, mesh).items():
                    cls.write(path, mesh, plan, options)
        cls.write_lookup()
        plan = shardlab("solve", cls.folder / "dropout.program", "--mesh", "2x2", "--pin-inputs", "S(0)R", "--pin",
                        "native_dropout=S(0)R", "--format", "json").stdout
        (cls.folder / "dropout.plan").write_text(plan)
        drawing = shardlab("apply", cls.folder / "dropout.program", "--plan", cls.folder / "dropout.plan", "--out",
                           cls.folder / "dropout.py")
        if drawing.returncode:
            raise AssertionError(f"dropout: {drawing.stderr}")
        cls.python(__file__, "--run", cls.folder, *MESHES)
        for mesh in MESHES:
            cls.results.update(json.loads((cls.folder / f"results-{mesh}.json").read_text()))

    @classmethod
    def write_lookup(cls):
        """A plan by hand: a lookup in a table whose rows are cut, which solve cannot choose."""
        plan = copy.deepcopy(cls.plans["language_model-2x2-tensor"])
        rows = {row["node"]: row for row in plan["assignment"]}
        lookup = next(row for row in plan["assignment"] if row["op"] == "aten.embedding.default")
        lookup["layout_in"], lookup["layout_out"] = ["RS(0)", "S(0)R"], "S(0)MP(0,96)"
        file = cls.folder / "lookup.plan"
        file.write_text(json.dumps({**plan, "assignment": list(rows.values())}))
        applied = shardlab("apply", cls.folder / "language_model.json", "--plan", file, "--out",
                           cls.folder / "language_model-2x2-lookup.py", "--format", "json")
        if applied.returncode:
            raise AssertionError(f"lookup: {applied.stderr}")
        cls.lookup = json.loads(applied.stdout)

    @staticmethod
    def python(*words):
        ran = subprocess.run([oracle_python(), *words], check=False, capture_output=True, text=True)
        if ran.returncode:
            raise AssertionError(ran.stderr[-4000:])

    @classmethod
    def write(cls, program, mesh, plan, options):
        """Solves and applies; keeps the plan and what apply says."""
        name = f"{program.stem}-{mesh}-{plan}"
        solved = shardlab("solve", program, "--mesh", mesh, "--format", "json", "--no-timing", *options)
        if solved.returncode:
            raise AssertionError(f"{name}: {solved.stderr}{solved.stdout[:1000]}")
        file = cls.folder / f"{name}.plan"
        file.write_text(solved.stdout)
        sets = options[-2:] if "--set" in options else []
        applied = shardlab("apply", program, "--plan", file, "--out", cls.folder / f"{name}.py", "--format", "json", *sets)
        if applied.returncode:
            raise AssertionError(f"{name}: {applied.stderr}")
        cls.plans[name] = json.loads(solved.stdout)
        cls.reports[name] = json.loads(applied.stdout)

    def test_loss_gradients_buffers_and_an_optimizer_step_are_those_of_the_whole_module(self):
        self.assertEqual(len(self.results), len(self.plans) + 2)
        self.assertIn("= lookup(", (self.folder / "language_model-2x2-lookup.py").read_text())
        for name, result in self.results.items():
            with self.subTest(plan=name):
                self.assertNotIn("failure", result, result.get("failure"))
                wrong = {key: error for key, error in result["errors"].items()
                         if isinstance(error, str) or not error <= TOLERANCE}
                self.assertEqual(wrong, {})

    def test_every_collective_runs_where_and_when_the_plan_has_it(self):
        for name, report in self.reports.items():
            with self.subTest(plan=name):
                expected = {
                    phase: [[step["collective"], step["mesh_dim"]] for step in report["steps"] if step["phase"] == phase]
                    for phase in ("forward", "backward")
                }
                result = self.results[name]
                self.assertEqual(result["calls"], [*expected["forward"], "backward", *expected["backward"]])
                for phase, calls in expected.items():
                    counts = dict(collections.Counter(kind for kind, _ in calls))
                    found = dict(result["counts"][phase])
                    if name.startswith("nested"):  # the gradient of a plain input is made whole, which no plan counts
                        found.pop("c10d_functional.all_gather_into_tensor", None)
                    self.assertEqual(found, counts, "as CommDebugMode counts")
                self.assertEqual(report["notes"], [])

    def test_the_collectives_are_those_of_the_moves_of_the_plan(self):
        kinds = set()
        for name, report in self.reports.items():
            with self.subTest(plan=name):
                moves = {(node["node"], move["input"]): move for node in self.plans[name]["assignment"]
                         for move in node["moves"]}
                run = {(step["node"], step["input"]) for step in report["steps"]}
                self.assertLessEqual(run, moves.keys())
                self.assertEqual(run, {place for place, move in moves.items() if communicates(move)})
                kinds |= {step["collective"] for step in report["steps"]}
        self.assertEqual(kinds, set(COUNTED.values()))

    def test_the_plans_of_a_case_differ_and_have_orders_and_uneven_shards(self):
        for case_name in CASES or COLUMNS:
            for mesh in meshes_of(case_name):
                layouts = {json.dumps([node["layout_out"] for node in self.plans[f"{case_name}-{mesh}-{plan}"]["assignment"]])
                           for plan in ("tensor", "sharded")}
                self.assertEqual(len(layouts), 2, f"{case_name} on {mesh}")
        texts = [path.read_text().split("def chunk")[0] for path in self.folder.glob("*.py")]
        self.assertTrue(any("_StridedShard(" in text for text in texts))
        self.assertTrue(any("extent=" in text for text in texts))

    def test_a_written_file_needs_pytorch_alone_and_names_its_layouts(self):
        text = (self.folder / "mlp-4-tensor.py").read_text()
        imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
        self.assertEqual(imported - set(sys.stdlib_module_names), {"torch"})
        self.assertIn('    "0.weight": Layout((128, 64), torch.float64, [Shard(0)]),\n', text)
        lines = [line for line in text.splitlines() if not line.startswith("Written by ")]  # which has paths
        self.assertLessEqual(max(map(len, lines)), 120)

    def test_wrong_meshes_models_and_inputs_are_refused(self):
        plan = "for which the plan was made"
        self.assertEqual(self.results["others"]["refused"], {
            "mesh": "mesh: found a DeviceMesh of shape (2, 2); valid: (4,), which the plan is for",
            "shape": "0.weight: found torch.float64 of shape (96, 64); valid: torch.float64 of shape (128, 64), " + plan,
            "less": "3.weight: found no parameter of this name in the model; valid: the model of the plan",
            "more": "4.weight: found a parameter that the plan lacks; valid: 0.weight, 0.bias, 2.weight, 2.bias, "
                    "3.weight, 3.bias",
            "input": "input: found torch.float64 of shape (8, 64); valid: torch.float64 of shape (16, 64), " + plan,
            "name": "x: found a tensor; valid: input, " + plan,
            "create_graph": "An applied module has no second derivatives. Found a backward pass with "
                            "create_graph=True; valid: create_graph=False.",
        })

    def test_python_applies_what_it_solved(self):
        package = Path(BINARY).resolve().parents[1] / "python"
        if not (package / "shardlab").exists():
            self.skipTest("the Python module was not built")
        ran = subprocess.run([oracle_python(), __file__, "--python"], check=False, capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": str(package)})
        if "_shardlab" in ran.stderr and "ImportError" in ran.stderr:
            self.skipTest("the module was built for another Python")
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])

    def test_the_example_of_the_page_trains_as_the_page_shows(self):
        page = (ROOT / "docs" / "run-a-plan.md").read_text()
        blocks = re.findall(r"^```(sh|text)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        words = next(text for kind, text in blocks if kind == "sh" and text.startswith("torchrun")).split()
        printed = next(text for kind, text in blocks if kind == "text")
        program = ROOT / "docs" / "samples" / "block.json"
        solve = re.search(r"^\$ build/release/bin/shardlab (solve .*) > ", page, re.MULTILINE).group(1)
        plan = self.folder / "page.plan"
        plan.write_text(shardlab(*shlex.split(solve.replace("docs/", f"{ROOT}/docs/"))).stdout)
        self.assertEqual(shardlab("apply", program, "--plan", plan, "--out", self.folder / "sharded.py").returncode, 0)
        ran = subprocess.run([oracle_python(), "-m", "torch.distributed.run", *words[1:3], "--master-port",
                              str(free_port()), ROOT / words[3], self.folder], check=False, capture_output=True, text=True,
                             env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
        self.assertEqual(ran.stdout, printed)

    def refused(self, plan, code=3, program="mlp.json"):
        file = self.folder / "wrong.plan"
        file.write_text(plan if isinstance(plan, str) else json.dumps(plan))
        ran = shardlab("apply", self.folder / program, "--plan", file, "--out", self.folder / "wrong")
        self.assertEqual((ran.returncode, ran.stdout), (code, ""))
        self.assertFalse((self.folder / "wrong").exists())
        return ran.stderr.replace(f"shardlab: {file}", "").strip()

    def test_plans_that_are_none_of_this_program_are_refused(self):
        plan = self.plans["mlp-4-optimum"]
        less = {**plan, "assignment": plan["assignment"][:-1]}
        self.assertEqual(self.refused(less), f': has no node "{plan["assignment"][-1]["node"]}"')
        twice = {**plan, "assignment": plan["assignment"] + plan["assignment"][:1]}
        self.assertRegex(self.refused(twice), r'^:/assignment/\d+: found the node "\w+" a second time$')
        self.assertRegex(self.refused(self.plans["llama_block-4-optimum"]), r'found the node "\w+", which the program lacks$')
        self.assertEqual(self.refused({key: each for key, each in plan.items() if key != "mesh"}), ': missing key "mesh"')
        self.assertEqual(self.refused({**plan, "mesh": "0x4"})[:6], ":/mesh")
        self.assertRegex(self.refused({}), 'missing key "nodes"|missing key "mesh"')
        self.assertNotEqual(self.refused("no JSON"), "")
        infeasible = shardlab("solve", self.folder / "mlp.json", "--mesh", "4", "--format", "json", "--pin-inputs=R",
                              "--memory-budget", "1B")
        self.assertEqual(infeasible.returncode, 1)
        self.assertRegex(self.refused(infeasible.stdout), r"^:/infeasible: found no plan \(no assignment satisfies .*\); "
                                                          r"valid: a feasible plan$")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export_all(sys.argv[2])
    elif sys.argv[1:2] == ["--run"]:
        for each_mesh in sys.argv[3:]:
            run_all(sys.argv[2], each_mesh)
    elif sys.argv[1:2] == ["--python"]:
        torch.multiprocessing.start_processes(run_in_python, (4, free_port()), 4, start_method="fork")
    else:
        unittest.main()
