#!/usr/bin/env python3
"""Exports a PyTorch module's training step as a program of shardlab.

    scripts/export_program.py --out block.json
    scripts/export_program.py --factory mymodels:make --name mymodel --out mymodel.json

The factory takes no arguments and returns (module, positional inputs). The joint forward and
backward graph comes from aot_export_joint_with_descriptors on fake tensors, so nothing is computed
and no GPU is needed. As AutoParallel does, it puts an alias before the first reader of every tensor that
has several readers, and one behind every value that the graph returns. Without --factory a transformer
block is exported (an embedding, RMS norms, causal attention, a gated feed-forward layer).

Needs PyTorch 2.13 (scripts/setup --with-oracle). Source of the graph's form: PyTorch 2.13.0,
torch/_functorch/aot_autograd.py. Source of the aliases: AutoParallel at a54c252.
"""

import argparse
import contextlib
import importlib
import json
import pathlib

import torch
from torch import nn
from torch._decomp import core_aten_decompositions
from torch._functorch._aot_autograd import descriptors
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses.fake_tensor import FakeTensorMode

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.uint64: "u64",
    torch.complex64: "c64",
}
# These ops stay whole, and so do ops that have no decomposition (docs/autoparallel.md, "The graph").
WHOLE = (
    "embedding_dense_backward",
    "_softmax",
    "_softmax_backward_data",
    "native_layer_norm",
    "native_layer_norm_backward",
    "silu",
    "silu_backward",
)


class Block(nn.Module):
    """Tokens to logits through one transformer layer."""

    def __init__(self, vocabulary=32000, width=512, heads=8, hidden=1536):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def attention(self, x):
        """Causal attention, written out so that the graph has products and a softmax."""
        batch, rows, width = x.shape
        shape = (batch, rows, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = (q * shape[-1] ** -0.5) @ k.transpose(-1, -2)
        future = torch.ones(rows, rows, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -1e9).softmax(dim=-1)
        return self.projection((weights @ v).transpose(1, 2).reshape(batch, rows, width))

    def forward(self, tokens):
        """The logits of every position."""
        x = self.embedding(tokens)
        x = x + self.attention(self.attention_norm(x))
        h = self.ffn_norm(x)
        x = x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))
        return self.head(x)


def make_block():
    """The default factory."""
    return Block(), (torch.zeros(16, 256, dtype=torch.int64),)


def decompositions():
    """The core table without the ops that stay whole."""
    table = core_aten_decompositions()
    return {op: how for op, how in table.items() if op.overloadpacket.__name__ not in WHOLE}


def meta_json(value):
    """The dtype, shape and stride of a fake tensor."""
    if value.dtype not in DTYPES:
        raise SystemExit(f"found {value.dtype}, for which shardlab has no dtype")
    return {
        "dtype": DTYPES[value.dtype],
        "shape": [int(extent) for extent in value.shape],
        "stride": [int(stride) for stride in value.stride()],
    }


def is_tensors(value):
    """Whether this is a list of values of the graph, and not empty."""
    return isinstance(value, (list, tuple)) and any(isinstance(each, torch.fx.Node) for each in value)


def plain(value):
    """An argument that is no tensor, as JSON. Devices and memory layouts become null: they mean nothing to a program."""
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


class Exporter:
    """Nodes of a joint graph, written one by one."""

    def __init__(self, graph):
        self.graph = graph
        self.nodes = []
        self.names = {}  # node of the graph -> the name under which its readers read it
        self.parts = {}  # node with several outputs -> which of them are tensors
        self.count = 0

    def reference(self, node):
        """NAME or NAME:OUTPUT of a value."""
        return self.names[node]

    def add_alias(self, source, value, kind, phase):
        """An alias of what `source` names."""
        name = "alias_default" + (f"_{self.count}" if self.count else "")
        self.count += 1
        alias = {"name": name, "op": "aten.alias.default", "inputs": [source]}
        if kind != "op":
            alias["kind"] = kind
        self.nodes.append({**alias, "outputs": [meta_json(value)], "phase": phase})
        return name

    def add_op(self, node, phase):
        """A call of an operator: tensors are inputs, all else are arguments in the schema's order."""
        inputs, args, missing = [], [], False
        values = list(node.args)
        schema = node.target._schema.arguments  # pylint: disable=protected-access
        for argument in schema[len(values) :]:
            values.append(node.kwargs.get(argument.name, argument.default_value))
        for argument, value in zip(schema, values):
            tensor = "Tensor" in str(argument.type)
            if isinstance(value, torch.fx.Node):
                if missing:
                    raise SystemExit(f"{node.name}: found a tensor argument after one that was left out")
                inputs.append(self.reference(value))
            elif is_tensors(value):
                inputs.append([self.reference(each) for each in value])
            elif tensor and value is None:
                missing = True
            else:
                args.append(plain(value))
        while args and args[-1] is None:
            args.pop()
        made = node.meta["val"]
        tensors = list(made) if isinstance(made, (list, tuple)) else [made]
        kept = [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor)]
        self.parts[node] = kept
        entry = {"name": node.name, "op": str(node.target), "inputs": inputs}
        if args:
            entry["args"] = {"positional": args}
        entry["outputs"] = [meta_json(tensors[i]) for i in kept]
        self.nodes.append({**entry, "phase": phase})
        self.names[node] = node.name

    def add_part(self, node, phase):
        """A node that shows one of several outputs."""
        of, index = node.args
        output = self.parts[of].index(index)
        source = self.names[of] + (f":{output}" if output else "")
        outputs = [meta_json(node.meta["val"])]
        entry = {"name": node.name, "op": "_operator.getitem", "inputs": [source]}
        self.nodes.append({**entry, "outputs": outputs, "phase": phase})
        self.names[node] = node.name

    def add_source(self, node):
        """A parameter, buffer, input or tangent."""
        desc = node.meta["desc"]
        kinds = (
            (descriptors.ParamAOTInput, "parameter"),
            (descriptors.BufferAOTInput, "buffer"),
            (descriptors.TangentAOTInput, "tangent"),
        )
        kind = next((kind for of, kind in kinds if isinstance(desc, of)), "input")
        phase = "backward" if kind == "tangent" else "forward"
        outputs = [meta_json(node.meta["val"])]
        self.nodes.append({"name": node.name, "kind": kind, "outputs": outputs, "phase": phase})
        self.names[node] = node.name

    def run(self):
        """The nodes and the pairs."""
        nodes = list(self.graph.nodes)
        output = nodes[-1]
        backward, pairs = set(), []
        sources = {node.meta["desc"]: node for node in nodes if node.op == "placeholder"}
        tangents = {
            desc.output: node
            for desc, node in sources.items()
            if isinstance(desc, descriptors.TangentAOTInput)
        }
        first_reader = {}
        position = {node: i for i, node in enumerate(nodes)}
        for node in nodes[:-1]:
            if len(node.users) > 1 and isinstance(node.meta.get("val"), torch.Tensor):
                reader = min(node.users, key=position.get)
                if reader is not output:
                    first_reader.setdefault(reader, []).append(node)
        returned = list(zip(output.args[0], output.meta["desc"]))
        for node in nodes[:-1]:
            reads = set(node.all_input_nodes)
            if node in tangents.values() or reads & backward:
                backward.add(node)
            phase = "backward" if node in backward else "forward"
            for value in first_reader.get(node, []):
                own = "backward" if value in backward else "forward"
                self.names[value] = self.add_alias(
                    self.names[value], value.meta["val"], "op", own
                )
            if node.op == "placeholder":
                self.add_source(node)
            elif node.op == "call_function" and node.target.__name__ == "getitem":
                self.add_part(node, phase)
            elif node.op == "call_function":
                self.add_op(node, phase)
            else:
                raise SystemExit(f"{node.name}: found a node of kind {node.op}")
        for value, desc in returned:
            if not isinstance(value, torch.fx.Node):
                continue
            gradient = isinstance(desc, descriptors.GradAOTOutput)
            kind, phase = ("gradient", "backward") if gradient else ("output", "forward")
            name = self.add_alias(self.names[value], value.meta["val"], kind, phase)
            if gradient:
                pairs.append([sources[desc.grad_of].name, name])
            elif desc in tangents:
                pairs.append([name, tangents[desc].name])
        return self.nodes, pairs


def export(factory):
    """The joint graph of the factory's module, as nodes and pairs."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        module, inputs = factory()
        with contextlib.ExitStack() as stack:
            joint = aot_export_joint_with_descriptors(
                stack, module, inputs, decompositions=decompositions()
            )
            graph = joint.graph_module.graph
            graph.eliminate_dead_code()
            return Exporter(graph).run()


def main():
    """Reads the command line and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--factory", help="MODULE:FUNCTION that makes the model; default: a transformer block")
    parser.add_argument("--name", default="transformer-block")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    factory = make_block
    if arguments.factory:
        module, _, function = arguments.factory.partition(":")
        factory = getattr(importlib.import_module(module), function)
    nodes, pairs = export(factory)
    source = f"exported by scripts/export_program.py from PyTorch {torch.__version__}"
    lines = ",\n".join(json.dumps(node) for node in nodes)
    ties = ",\n".join(json.dumps(pair) for pair in pairs)
    arguments.out.write_text(
        f'{{"schema": "shardlab/program/1",\n"name": {json.dumps(arguments.name)},\n'
        f'"source": {json.dumps(source)},\n"nodes": [\n{lines}],\n"pairs": [\n{ties}]}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
