#!/usr/bin/env python3
"""Record the questions that a real PyTorch DTensor program asks of its cost model, as a suite.

The program runs forward and backward on a fake process group with meta tensors: one process, no
memory, no GPU. Two kinds of questions are kept; equal questions are kept once, with how often they occurred:

    select  an operation on DTensors (those that shardlab has rules for; the others are counted
            under `skipped`)
    plan    a redistribution, whether the program asks for it or DTensor makes it for an operation's inputs

    scripts/record_suite.py llama3-8b-tp --out configs/suites/llama3-8b-tp.json
    scripts/record_suite.py llama3-8b-fsdp-tp --batch 8,16 --seqlen 2048,8192 --out suite.json
    scripts/record_suite.py --script train.py:step --mesh dp=4,tp=8 --out suite.json

A script of your own is a Python file with a function that takes a DeviceMesh (default: `run`). Everything that it
does on DTensors is recorded. Ops that shardlab has no rules for (see `shardlab list ops`) are counted under `skipped`.
Each question names the line that asked it first. The fake process group moves no data, so give tensors the device
"meta", or keep them small.

These programs can be named (shapes of LLaMA3-8B in bf16: one transformer block, final norm, output layer and loss):

llama3-8b-tp       mesh 8 (tp): tensor parallel with sequence parallel, the placements that
                   parallelize_module gives with ColwiseParallel and RowwiseParallel.
llama3-8b-fsdp-tp  mesh 8x8 (dp, tp): the same, the batch sharded on dp, and each parameter sharded on
                   dp as fully_shard does on top of tp: `_S(0,8)S(0)` or S(0)S(1), gathered on dp
                   before its use by an explicit redistribute.

llama3-8b-tp-only  mesh 8 (tp): tensor parallel alone, activations replicated between the parts.
moe-ep             mesh 8 (ep): a layer of 64 experts, each rank has 8; tokens reach them by a dense one-hot
                   dispatch as in GShard (Lepikhin et al., 2020), which is two products and a reduce-scatter.

The `_S` placements of the attention's bmm come from views that flatten batch and heads. PyTorch takes them for
placements of their own and not for an encoded shard order; a suite has no way to say that.
"""

import argparse
import functools
import json
import math
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from itertools import product
from pathlib import Path

from gen_golden_dtensor import (
    DTYPES, TORCH_VERSION, Oracle, input_text, layout_text, mesh_text, require_torch, tensor_text)

DIM, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4096, 14336, 32, 8, 128, 128256
# Products, pointwise ops, reductions and joins have a choice that is worth a question. Views and look-ups have
# one answer only.
KEPT_OPS = {
    f"aten.{name}" if "." in name else f"aten.{name}.default"
    for name in (
        "mm addmm bmm baddbmm dot mv add.Tensor sub.Tensor mul.Tensor div.Tensor mul.Scalar add_.Tensor "
        "mul_.Tensor relu neg exp abs gelu sqrt maximum minimum sum sum.dim_IntList mean mean.dim amax "
        "_softmax _log_softmax cat stack _foreach_add.List _foreach_mul.List _foreach_neg").split()
}
SEQLEN = "2048,8192"
LAYOUT = re.compile(r"(R|_?S\(\d+(,\d+)?\)(\[\d+\])?|P\((sum|avg|min|max|product)\)|NP\([\d.]+\)|MP\(\d+,\d+\))+")
# Handlers that answer a call themselves, without asking for a strategy.
ANSWERING_HANDLERS = {"is_same_size_handler", "is_pinned_handler", "found_inf_reduce_handler", "as_strided_handler"}
SCHEMA = "shardlab/suite/1"
STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class NoJson(Exception):
    """Raised for an argument that a suite has no form for."""


def plain(value):
    """An argument that is no tensor, in the form that a suite has for it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NoJson("an argument that is not finite")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if type(value).__name__ in ("device", "layout", "memory_format"):
        return None  # these decide nothing
    name = str(value).removeprefix("torch.")
    for short, long in DTYPES.items():
        if name == long:
            return short
    raise NoJson(f"an argument of type {type(value).__name__}")


class NoTensor:
    """An optional tensor that a call leaves out."""


def positional(function, args, kwargs):
    """The arguments in the order of the op's schema, up to the last one that differs from its default."""
    schema = function._schema.arguments
    values, given = list(args), len(args)
    for argument in schema[len(args):]:
        value = kwargs.get(argument.name, argument.default_value)
        values.append(value)
        if isinstance(value, list) or type(value) is not type(argument.default_value) or value != argument.default_value:
            given = len(values)
    types = [str(argument.type) for argument in schema]
    # A list of tensors that is empty is left out, too.
    is_absent = {"Tensor": None, "Optional[Tensor]": None, "List[Tensor]": []}
    return [NoTensor if kind in is_absent and isinstance(value, (list, type(None))) and value == is_absent[kind] else value
            for value, kind in zip(values[:given], types)]


def specs_of(values):
    """The arguments with the spec of each DTensor in its place, and of each tensor that DTensor takes for one: a single
    number is on all ranks alike, and under `implicit_replication` any tensor is."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
    from torch.utils._pytree import tree_leaves, tree_map_only

    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    meshes = {tensor.device_mesh for tensor in tensors if isinstance(tensor, DTensor)}
    replicates = DTensor._op_dispatcher._allow_implicit_replication

    def spec(tensor):
        if isinstance(tensor, DTensor):
            return tensor._spec
        if tensor.numel() != 1 and not replicates:
            raise NoJson("a plain tensor among DTensors")
        mesh = next(iter(meshes))
        return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))

    if len(meshes) > 1:
        raise NoJson("DTensors of several meshes")
    return tree_map_only(torch.Tensor, spec, values)


class Recorder:
    """Counts questions in the order of their first occurrence."""

    def __init__(self, kept_ops=KEPT_OPS, script=None):
        self.questions = {}  # text of the question -> [question, count]
        self.skipped = Counter()
        self.kept_ops = kept_ops
        self.script = script  # questions name its lines
        self.where = {}

    def count(self, question):
        text = json.dumps(question)
        if text not in self.questions and self.script is not None:
            self.where[text] = self.line()
        self.questions.setdefault(text, [question, 0])[1] += 1

    def line(self):
        """The innermost line that runs now outside PyTorch, Python's library and this folder."""
        frame = sys._getframe(1)
        while frame is not None:
            place = self.place(frame.f_code.co_filename)
            if place is not None:
                return f"{place}:{frame.f_lineno}"
            frame = frame.f_back
        return self.script.name

    @functools.lru_cache(maxsize=None)
    def place(self, file):
        """What questions call a source file: the script's name, or a package's file below the folder of its import."""
        if file == str(self.script):
            return self.script.name
        folders = [folder for folder in map(Path, sys.path) if folder.is_absolute() and folder in Path(file).parents]
        if not folders or Path(file).parent == Path(__file__).resolve().parent:
            return None
        place = Path(file).relative_to(max(folders, key=lambda folder: len(folder.parts)))
        is_standard = file.startswith(STANDARD_LIBRARY) and "site-packages" not in file
        return None if is_standard or place.parts[0] == "torch" else str(place)

    def operation(self, op, args):
        """One call on DTensors; `args` are its positional arguments with specs for tensors."""
        inputs, rest, mesh = [], [], None
        for arg in args:
            if arg is NoTensor:
                inputs.append(input_text(None))
                continue
            given = arg if isinstance(arg, (list, tuple)) else [arg]
            specs = [spec for spec in given if hasattr(spec, "placements")]
            if not specs:
                rest.append(arg)
                continue
            if not all(LAYOUT.fullmatch(layout_text(spec)) for spec in specs):
                self.skipped[f"{op} (a layout without text form)"] += 1
                return
            inputs.append(input_text(arg))
            mesh = specs[0].mesh
        if op not in self.kept_ops:
            self.skipped[op] += 1
            return
        try:
            rest = plain(rest)
            while rest and rest[-1] is None:
                rest.pop()
        except NoJson as reason:
            self.skipped[f"{op} ({reason})"] += 1
            return
        self.count({"kind": "select", "op": op, "mesh": mesh_text(mesh.shape), "inputs": inputs,
                    "args": rest})

    def redistribution(self, source, target):
        texts = layout_text(source), layout_text(target)
        if texts[0] == texts[1]:
            return
        if not all(map(LAYOUT.fullmatch, texts)):
            self.skipped["redistribute (a layout without text form)"] += 1
            return
        tensor = tensor_text(source.shape, source.tensor_meta.dtype)
        self.count({"kind": "plan", "mesh": mesh_text(source.mesh.shape), "tensor": tensor,
                    "from": texts[0], "to": texts[1]})


def observe(recorder, run):
    """Runs `run` with every DTensor operation and every redistribution told to `recorder`."""
    import torch.distributed.tensor._redistribute as redistribute
    from torch.distributed.tensor import DTensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_any

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if tree_any(lambda value: isinstance(value, DTensor), (args, kwargs)):
                try:
                    if is_answered_elsewhere(function):
                        raise NoJson("answered by a handler")
                    recorder.operation(str(function), specs_of(positional(function, args, kwargs or {})))
                except NoJson as reason:
                    recorder.skipped[f"{function} ({reason})"] += 1
            return function(*args, **(kwargs or {}))

    def is_answered_elsewhere(function):
        """Whether a handler takes the call, such as those of `loss_parallel`, and no strategy is asked for."""
        handler = DTensor._op_dispatcher._custom_op_handlers.get(function)
        return handler is not None and (
            handler.__name__ in ANSWERING_HANDLERS or handler.__module__ == "torch.distributed.tensor.parallel.loss")

    original = redistribute.redistribute_local_tensor

    def observed(local_tensor, current_spec, target_spec, **options):
        recorder.redistribution(current_spec, target_spec)
        return original(local_tensor, current_spec, target_spec, **options)

    name = original.__name__
    # Modules that import lazily would import for `getattr`.
    users = [module for module in list(sys.modules.values()) if getattr(module, "__dict__", {}).get(name) is original]
    for module in users:
        module.redistribute_local_tensor = observed
    try:
        with Operations():
            run()
    finally:
        for module in users:
            module.redistribute_local_tensor = original


class Llama:
    """One block of LLaMA3-8B with its output layer, on DTensors over `mesh`, whose last dim is tp."""

    sequence_parallel = True

    def __init__(self, torch, mesh, batch, seqlen):
        from torch.distributed.tensor import Replicate, Shard

        self.torch, self.mesh, self.batch, self.seqlen = torch, mesh, batch, seqlen
        self.whole, self.shard = Replicate(), Shard
        self.has_dp = mesh.ndim == 2
        column, row = self.shard(0), self.shard(1)
        kv = KV_HEADS * HEAD_DIM
        self.weights = {name: self.parameter(shape, tp) for name, shape, tp in (
            ("wq", (DIM, DIM), column), ("wk", (kv, DIM), column), ("wv", (kv, DIM), column),
            ("wo", (DIM, DIM), row), ("w1", (FFN, DIM), column), ("w3", (FFN, DIM), column),
            ("w2", (DIM, FFN), row), ("output", (VOCABULARY, DIM), column),
            *((name, (DIM,), self.whole) for name in ("norm1", "norm2", "norm3")))}

    def tensor(self, shape, placements, requires_grad=False, dtype=None):
        """A DTensor of this global shape whose local part is a meta tensor."""
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        local_shape, _ = compute_local_shape_and_global_offset(shape, self.mesh, placements)
        local = self.torch.empty(local_shape, dtype=dtype or self.torch.bfloat16, device="meta")
        strides = self.torch.empty(shape, device="meta").stride()
        tensor = DTensor.from_local(local, self.mesh, placements, run_check=False,
                                    shape=self.torch.Size(shape), stride=strides)
        return tensor.detach().requires_grad_(requires_grad)

    def parameter(self, shape, tp):
        """A parameter as fully_shard leaves it: dim 0 is sharded on dp, strided if tp has sharded it before."""
        from torch.distributed.tensor.placement_types import _StridedShard

        placements = [tp]
        if self.has_dp:
            strided = tp == self.shard(0)
            dp = _StridedShard(0, split_factor=self.mesh.size(1)) if strided else self.shard(0)
            placements = [dp, tp]
        return self.tensor(shape, placements, requires_grad=True), tp

    def layout(self, tp):
        return [self.shard(0), tp] if self.has_dp else [tp]

    def weight(self, name):
        """The parameter, gathered on dp."""
        tensor, tp = self.weights[name]
        return tensor.redistribute(self.mesh, [self.whole, tp]) if self.has_dp else tensor

    def to(self, tensor, tp):
        return tensor.redistribute(self.mesh, self.layout(tp))

    def norm(self, x, name):
        wide = x.float()
        scaled = wide * self.torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return scaled.to(x.dtype) * self.weight(name)

    def linear(self, x, name):
        return self.torch.nn.functional.linear(x, self.weight(name))

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + self.torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin

    def repeat_heads(self, x):
        """Each key or value head serves a group of query heads."""
        groups = (self.batch, self.seqlen, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
        return x.unsqueeze(3).expand(groups).reshape(self.batch, self.seqlen, HEADS, HEAD_DIM)

    def attention(self, x):
        torch, batch, seqlen = self.torch, self.batch, self.seqlen
        everywhere = [self.whole] * self.mesh.ndim
        cos, sin = (self.tensor((seqlen, 1, HEAD_DIM), everywhere) for _ in range(2))
        mask = self.tensor((seqlen, seqlen), everywhere)
        q = self.linear(x, "wq").view(batch, seqlen, HEADS, HEAD_DIM)
        k = self.linear(x, "wk").view(batch, seqlen, KV_HEADS, HEAD_DIM)
        v = self.linear(x, "wv").view(batch, seqlen, KV_HEADS, HEAD_DIM)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        k, v = map(self.repeat_heads, (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * HEAD_DIM**-0.5 + mask
        mixed = torch.matmul(torch.softmax(scores.float(), -1).to(q.dtype), v)
        return self.linear(mixed.transpose(1, 2).reshape(batch, seqlen, DIM), "wo")

    def mlp(self, x):
        gate = self.torch.nn.functional.silu(self.linear(x, "w1"))
        return self.linear(gate * self.linear(x, "w3"), "w2")

    def run(self):
        """Forward and backward; with sequence parallel, activations are sharded along the sequence between the parts."""
        sequence = self.shard(1) if self.sequence_parallel else self.whole
        shape = (self.batch, self.seqlen)
        x = self.tensor((*shape, DIM), self.layout(sequence), requires_grad=True)
        targets = self.tensor(shape, self.layout(self.whole), dtype=self.torch.int64)
        x = x + self.to(self.attention(self.to(self.norm(x, "norm1"), self.whole)), sequence)
        x = x + self.to(self.mlp(self.to(self.norm(x, "norm2"), self.whole)), sequence)
        logits = self.linear(self.to(self.norm(x, "norm3"), self.whole), "output")
        logits = self.to(logits, self.whole).flatten(0, 1).float()
        self.torch.nn.functional.cross_entropy(logits, targets.flatten(0, 1)).backward()


class LlamaWithoutSequenceParallel(Llama):
    sequence_parallel = False


class Experts(Llama):
    """A layer of EXPERTS experts of width FFN on mesh dim ep, forward and backward; each token goes to CHOSEN of them."""

    EXPERTS, CHOSEN, EXPERT_FFN = 64, 8, 2048

    def __init__(self, torch, mesh, batch, seqlen):
        super().__init__(torch, mesh, batch, seqlen)
        split = [self.shard(0)]
        self.router = self.tensor((DIM, self.EXPERTS), [self.whole], requires_grad=True)
        self.up, self.gate = (self.tensor((self.EXPERTS, DIM, self.EXPERT_FFN), split, requires_grad=True)
                              for _ in range(2))
        self.down = self.tensor((self.EXPERTS, self.EXPERT_FFN, DIM), split, requires_grad=True)

    def run(self):
        torch, whole, split = self.torch, [self.whole], [self.shard(0)]
        tokens = self.batch * self.seqlen
        slots = tokens * self.CHOSEN // self.EXPERTS  # of one expert
        x = self.tensor((tokens, DIM), split, requires_grad=True)
        weights = torch.softmax(torch.mm(x, self.router).float(), -1).to(x.dtype)
        # Which token each slot of an expert takes. It comes from topk, which has no gradient.
        taken = self.tensor((self.EXPERTS * slots, tokens), split)
        inside = torch.mm(taken, x.redistribute(self.mesh, whole)).view(self.EXPERTS, slots, DIM)
        hidden = torch.nn.functional.silu(torch.bmm(inside, self.gate)) * torch.bmm(inside, self.up)
        outside = torch.bmm(hidden, self.down).view(self.EXPERTS * slots, DIM)
        back = torch.mm(taken.t(), outside).redistribute(self.mesh, split)
        (back * weights.amax(-1, keepdim=True) + x).sum().backward()


BLOCK = "LLaMA3-8B block and output layer, forward and backward"
PROGRAMS = {  # name: program, mesh shape, names of its dims, default batch sizes, description
    "llama3-8b-tp": (Llama, (8,), ("tp",), "2,8", f"{BLOCK}, tensor and sequence parallel on 8"),
    "llama3-8b-tp-only": (LlamaWithoutSequenceParallel, (8,), ("tp",), "2,8", f"{BLOCK}, tensor parallel on 8"),
    "moe-ep": (Experts, (8,), ("ep",), "1,4",
               f"layer of {Experts.EXPERTS} experts of {DIM} x {Experts.EXPERT_FFN}, {Experts.CHOSEN} a token, forward "
               "and backward, expert parallel on 8"),
    "llama3-8b-fsdp-tp": (
        Llama, (8, 8), ("dp", "tp"), "8,16",
        f"{BLOCK}, mesh dp x tp = 8 x 8; FSDP is emulated: parameters have the placements that "
        "fully_shard gives on top of tensor parallel and are gathered on dp by explicit "
        "redistributes (fully_shard's own collectives do not pass through DTensor)"),
}


def suite_text(name, source, recorder, title=None):
    """JSON with one question per line."""
    head = {"schema": SCHEMA, "name": name, **({"title": title} if title else {}), "source": source}
    lines = []
    for number, (text, (question, count)) in enumerate(recorder.questions.items(), 1):
        what = question.get("op", "redistribute")
        where = {"where": recorder.where[text]} if text in recorder.where else {}
        lines.append(json.dumps({"id": f"{name}/{number:04d} {what}", **question, "count": count, **where}))
    skipped = json.dumps(dict(sorted(recorder.skipped.items())))
    questions = ",\n".join(lines)
    return f'{json.dumps(head)[:-1]}, "questions": [\n{questions}\n], "skipped": {skipped}}}\n'


def known_ops():
    """The ops that shardlab has rules for."""
    binary = os.environ.get("SHARDLAB_BINARY") or Path(__file__).resolve().parents[1] / "build/release/bin/shardlab"
    try:
        result = subprocess.run([binary, "list", "ops", "--format", "json"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"record_suite: {binary}: {error}; valid: a built shardlab (scripts/build), or SHARDLAB_BINARY")
    return {op if isinstance(op, str) else op["op"] for op in json.loads(result.stdout)["ops"]}


def read_script(text):
    """The path and the function in FILE.py[:FUNCTION]."""
    file, _, function = text.partition(":")
    path, function = Path(file).resolve(), function or "run"
    if not path.is_file():
        sys.exit(f"record_suite: --script: {file}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        sys.exit(f"record_suite: --script: found {file}; valid: a Python file, NAME.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        names = ", ".join(name for name, value in vars(module).items() if callable(value) and name[0] != "_")
        sys.exit(f"record_suite: --script: {file} has no function {function}; valid: {names or 'none'}")
    return path, getattr(module, function)


def read_mesh(text):
    """The sizes and names of a mesh such as "dp=8,tp=8" or "8x8"."""
    try:
        if "=" in text:
            pairs = [part.split("=") for part in text.split(",")]
            shape, names = tuple(int(size) for _, size in pairs), tuple(name for name, _ in pairs)
        else:
            shape, names = tuple(int(size) for size in text.split("x")), None
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        sys.exit(f"record_suite: --mesh: found {text}; valid: 8x8, or dp=8,tp=8")
    return shape, names


def record_script(arguments, torch):
    """The name, source and recorder of a script that the user wrote."""
    path, function = read_script(arguments.script)
    mesh = arguments.mesh or "8"
    shape, names = read_mesh(mesh)
    oracle, recorder = Oracle(torch), Recorder(known_ops(), path)
    oracle.enter(shape, names=names)
    observe(recorder, lambda: function(oracle.mesh))
    source = f"recorded by scripts/record_suite.py from {path.name}, torch {torch.__version__.split('+')[0]}, mesh {mesh}"
    return path.stem, source, recorder


def record_program(arguments, torch):
    """The same for one of the programs above."""
    program, shape, names, batch, description = PROGRAMS[arguments.program]
    batch, seqlens = arguments.batch or batch, arguments.seqlen or SEQLEN
    oracle, recorder = Oracle(torch), Recorder()
    oracle.enter(shape, names=names)
    for size, seqlen in product(map(int, batch.split(",")), map(int, seqlens.split(","))):
        observe(recorder, program(torch, oracle.mesh, size, seqlen).run)
    source = (f"recorded by scripts/record_suite.py, torch {torch.__version__.split('+')[0]}, "
              f"{description}; batch {batch}, sequence {seqlens}, bf16")
    return arguments.program, source, recorder


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    option = parser.add_argument
    option("program", nargs="?", choices=PROGRAMS, metavar="PROGRAM", help=" or ".join(PROGRAMS))
    option("--script", metavar="FILE.py[:FUNCTION]", help="instead of PROGRAM: a function of yours that takes a DeviceMesh")
    option("--mesh", metavar="MESH", help="mesh of the script: 8x8, or dp=8,tp=8 (default 8)")
    option("--out", metavar="FILE", help="the suite to write (default stdout)")
    option("--batch", metavar="N[,N...]", help="global batch sizes (default: the program's)")
    option("--seqlen", metavar="N[,N...]", help=f"sequence lengths (default {SEQLEN})")
    option("--any-version", action="store_true", help=f"accept a PyTorch other than {TORCH_VERSION}")
    arguments = parser.parse_args(argv)
    if (arguments.program is None) == (arguments.script is None):
        parser.error("found neither or both of PROGRAM and --script; valid: one of them")
    if arguments.script and (arguments.batch or arguments.seqlen):
        parser.error("--batch and --seqlen are for a PROGRAM; a script decides these itself")
    if arguments.program and arguments.mesh:
        parser.error("--mesh is for a --script; a PROGRAM has its own mesh")
    torch = require_torch(arguments.any_version)
    torch.set_num_threads(1)
    name, source, recorder = (record_script if arguments.script else record_program)(arguments, torch)
    text = suite_text(name, source, recorder)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        Path(arguments.out).write_text(text)
        print(f"{arguments.out}: {len(recorder.questions)} questions", file=sys.stderr)


if __name__ == "__main__":
    main()
