"""Turns a PyTorch module into a program of shardlab: shardlab.export and scripts/export_program.py.

    program = export(model, (tokens,), name="mymodel")      # a dict, of schema shardlab/program/1
    program = export(model, (), {"input_ids": tokens}, mixed_precision="bf16", backward=False)

The joint forward and backward graph comes from aot_export_joint_with_descriptors on fake tensors: nothing is
computed, no parameter is copied, and no GPU is needed. As AutoParallel does, it puts an alias before the first
reader of every tensor that has several readers, and one behind every value that the graph returns.

What the file says, beyond strategies/programs/program.h:

- An optional tensor argument that is absent is null in "inputs": ["x", null, "w"], and inside a tensor list, as in
  x[:, i], which is index.Tensor of ["x", [null, "i"]]. Nulls at the end are left out.
- Arguments that are no tensors stay in the schema's order in args.positional; nulls at its end are left out.
  Infinities and NaN are the strings "inf", "-inf" and "nan"; devices, layouts and memory formats are null.
- Of an op with several outputs, those that are None are left out of "outputs" (the gradient of a missing bias).
- A buffer (or a parameter) that the step changes, such as BatchNorm's running_mean, has its new value named by a
  node of kind "buffer_update", which "pairs" ties to the buffer where the shapes are equal.
- Labels: parameters and buffers have their full name, gradients and buffer updates that of what they belong to;
  inputs have the name of the argument of forward, with "[0]" or ".key" behind it where tensors are nested; outputs
  are "output", "output[0]" or "output.logits". An op has the full name of the module that it comes from, in the
  backward pass too. A tensor with several names, as tied parameters have, appears once, under the first.
- A tensor that the module holds as a plain attribute is a buffer of that name, and one in a list or dictionary has its
  place there behind it: "scales.0". A tensor that forward makes from numbers is a buffer without a name of the module.
- Each output that has a gradient has a tangent, also where it shares memory with a source or with another output.
- The checks of linalg's inv, cholesky and solve, which have no result, are left out.
- A frozen parameter is a parameter without a gradient.
- AOTAutograd ignores hooks on saved tensors, so that activations which forward checkpoints (torch.utils.checkpoint) or
  offloads (save_on_cpu) are kept like all others. A note on stderr says so; `solve --recompute` computes them again.

Where the operators of a CPU differ from those of a GPU, the program has the latter (see `as_cuda`).

Sources: PyTorch 2.13.0, torch/_functorch/aot_autograd.py (the graph's form), aten/src/ATen/native/transformers/cuda/
sdp_utils.cpp (the choice of attention's kernel), aten/src/ATen/autocast_mode.h (the lists of autocast); AutoParallel
at a54c252 (the aliases); torch/distributed/fsdp/_fully_shard (mixed precision).
"""

import collections.abc
import contextlib
import dataclasses
import inspect
import json
import logging
import math
import os
import sys
import traceback
import warnings

import torch
import torch.utils.checkpoint
from torch import nn
from torch._decomp import core_aten_decompositions
from torch._dynamo import utils as dynamo_utils
from torch._functorch._aot_autograd import descriptors
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses import fake_tensor
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._traceback import CapturedTraceback

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
MIXED_PRECISION = {"bf16": torch.bfloat16, "f16": torch.float16}
# These ops stay whole, and so do ops that have no decomposition (docs/autoparallel.md, "The graph").
WHOLE = (
    "embedding_dense_backward",
    "_softmax",
    "_softmax_backward_data",
    "native_layer_norm",
    "native_layer_norm_backward",
    "silu",
    "silu_backward",
    "stack",
)
DECOMPOSITIONS = ("core", "inductor")
# What AutoParallel keeps whole of what Inductor would break up (docs/autoparallel.md, "The graph"), and casts, by which
# the rules of precision know those of mixed precision.
WHOLE_FOR_INDUCTOR = (
    "_to_copy",
    "full_like",
    "empty_like",
    "threshold_backward",
    "native_layer_norm",
    "native_layer_norm_backward",
    "embedding_dense_backward",
    "_softmax",
    "_softmax_backward_data",
    "stack",
)
# What CUDA's autocast computes in f32 and CPU's leaves as it is, by the operator's name in the dispatcher.
AUTOCAST_F32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm group_norm cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
    margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp prod prod.dim_int softmax.int log_softmax.int
    cumprod cumsum sum sum.dim_IntList""".split()
# What a trace raises where the program would depend on the values of tensors.
DEPENDENT = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
TORCH = os.path.dirname(torch.__file__)


class ExportError(ValueError):
    """A module that cannot be exported, in one sentence."""


class ArgumentError(ExportError):
    """An argument that is wrong whatever the module is."""


# --- Nested arguments and results -------------------------------------------------------------------------


def mapped(value, name, visit):
    """The same nest of containers with visit(leaf, name) in the place of each leaf."""
    if isinstance(value, collections.abc.Mapping):
        items = {key: mapped(each, f"{name}.{key}", visit) for key, each in value.items()}
        return items if type(value) is not dict and not isinstance(value, dict) else rebuilt(value, items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, f"{name}.{key}", visit) for key, each in zip(value._fields, value)))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(each, f"{name}[{i}]", visit) for i, each in enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field.name for field in dataclasses.fields(value) if field.init)
        changed = {key: mapped(getattr(value, key), f"{name}.{key}", visit) for key in fields}
        return dataclasses.replace(value, **changed)
    return visit(value, name)


def rebuilt(value, items):
    """A dictionary of the type of `value` where that can be made from one, such as an OrderedDict."""
    try:
        return type(value)(items)
    except Exception:  # pylint: disable=broad-except
        return items


class Call:
    """The arguments of forward: their tensors as a list, each once, and all else as it is."""

    def __init__(self, module, args, kwargs):
        self.tensors, self.labels = [], []
        self.places = {}  # id of a tensor -> its index in the list
        parameters = self.signature(module)
        names = []
        for parameter in parameters[: len(args)]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}[{i}]" for i in range(len(args) - len(names))]
                break
            names.append(parameter.name)
        names += [f"args[{i}]" for i in range(len(names), len(args))]
        self.args = tuple(mapped(value, name, self.add) for value, name in zip(args, names))
        self.kwargs = {key: mapped(value, key, self.add) for key, value in kwargs.items()}

    @staticmethod
    def signature(module):
        """The parameters of forward."""
        try:
            return list(inspect.signature(module.forward).parameters.values())
        except (TypeError, ValueError):
            return []

    def add(self, value, name):
        """A leaf: a tensor becomes its place in the list."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self.places:
            self.places[id(value)] = len(self.tensors)
            self.tensors.append(value)
            self.labels.append(name)
        return Place(self.places[id(value)])

    def filled(self, tensors):
        """The arguments with these tensors in their places."""

        def fill(value, _):
            return tensors[value.index] if isinstance(value, Place) else value

        args = tuple(mapped(value, "", fill) for value in self.args)
        return args, {key: mapped(value, "", fill) for key, value in self.kwargs.items()}


class Place:
    """Where an input goes."""

    def __init__(self, index):
        self.index = index


class Results:
    """The tensors that forward returned, and their labels."""

    def __init__(self, value):
        self.tensors, self.labels, self.left_out = [], [], []
        mapped(value, "output", self.add)

    def add(self, value, name):
        """A leaf: what is neither a tensor nor a plain value is left out."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            self.labels.append(name)
        elif value is not None and not isinstance(value, (bool, int, float, complex, str)):
            self.left_out.append(f"{name}, a {type(value).__name__}")
        return value


class Traced(nn.Module):
    """The module as a function from a list of tensors to a list of tensors.

    It holds each parameter and buffer once, under a name without dots: AOTAutograd takes each name of a tied parameter
    for a parameter of its own.
    """

    def __init__(self, module, call, low):
        super().__init__()
        self.hidden = [module]  # in a list, so that it is no submodule
        self.call = call
        self.low = low  # the dtype in which mixed precision computes, or None
        self.hooks = {}  # which modules set hooks on saved tensors
        self.results = None
        self.differentiable, self.parted = set(), set()  # which outputs have a gradient, and which `apart` has changed
        self.names = {}  # name here -> name there
        for register, named in (
            (self.register_parameter, module.named_parameters()),
            (self.register_buffer, module.named_buffers()),
        ):
            for name, tensor in named:
                if is_sparse_buffer(tensor):
                    continue
                own = f"held_{len(self.names)}"
                register(own, tensor)
                self.names[own] = name

    @property
    def module(self):
        """The module."""
        return self.hidden[0]

    def lowered(self, tensor):
        """A floating-point tensor in the dtype of mixed precision."""
        return tensor.to(self.low) if self.low and tensor.is_floating_point() else tensor

    def forward(self, *tensors):
        """Calls the module as its user does; under mixed precision, with inputs and parameters that are cast."""
        args, kwargs = self.call.filled([self.lowered(tensor) for tensor in tensors])
        held = {self.names[own]: self.lowered(each) for own, each in self.named_parameters()}
        held.update((self.names[own], each) for own, each in self.named_buffers())
        value = torch.func.functional_call(self.module, held, args, kwargs)
        self.results = Results(value)
        if not self.results.tensors:
            raise ExportError(
                f"found a forward that returns {type(value).__name__}, without a tensor; valid: tensors, also in "
                "tuples, lists, dictionaries and dataclasses"
            )
        return tuple(self.apart([*self.parameters(), *self.buffers(), *tensors]))

    def apart(self, sources):
        """The results, of which each that has a gradient has memory of its own for AOTAutograd.

        AOTAutograd gives no tangent to an output that is a source, or a view of one or of another output: its caller
        makes that output from the other tensor, which a plan does not do. _unsafe_view is no view for AOTAutograd.
        `join_outputs` removes it from the graph, so that it adds no kernel.
        """
        tensors = self.results.tensors
        memory = [memory_of(each) for each in [*tensors, *sources]]
        self.differentiable = {i for i, each in enumerate(tensors) if is_differentiable(each)}
        self.parted = {i for i, each in enumerate(tensors) if each.requires_grad and memory.count(memory[i]) > 1}
        results = list(tensors)
        for i in self.parted:
            with torch.set_grad_enabled(i in self.differentiable):
                results[i] = torch.ops.aten._unsafe_view(tensors[i], tensors[i].shape)
        return results


def memory_of(tensor):
    """What tells the memory of a tensor from that of others. Views of a tensor have the same."""
    return StorageWeakRef(tensor.untyped_storage()).cdata


def is_differentiable(tensor):
    """Whether gradients flow through this output. A view that was made under no_grad() only says that it needs one."""
    is_source = tensor._base is None  # pylint: disable=protected-access
    return tensor.requires_grad and (tensor.grad_fn is not None or is_source)


# --- Fake tensors -----------------------------------------------------------------------------------------


def fake_mode_of(tensors):
    """The mode of the first fake tensor, or a new one."""
    modes = (each.fake_mode for each in tensors if isinstance(each, fake_tensor.FakeTensor))
    return next(modes, None) or fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)


def is_sparse_buffer(tensor):
    """Whether this is a sparse buffer. It has no fake, and is refused only where forward reads it."""
    return tensor.layout != torch.strided and not isinstance(tensor, nn.Parameter)


def plain_attributes(module):
    """The tensors that modules hold as plain attributes, or in lists and dictionaries there, by their full names."""
    own, seen = vars(nn.Module()), set()
    for prefix, each in module.named_modules():
        for key, value in vars(each).items():
            if key not in own:
                yield from held_tensors(value, f"{prefix}.{key}" if prefix else key, seen)


def held_tensors(value, name, seen):
    """The tensors of a nest of lists and dictionaries, with names such as scales.0.

    `seen` has those that were gone through: a list may hold itself, and several may hold the same.
    """
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
        seen.add(id(value))
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from held_tensors(each, f"{name}.{key}", seen)


def check_layout(tensor, label=""):
    """Refuses a sparse tensor."""
    if tensor.layout != torch.strided:
        of = f" ({label})" if label else ""
        raise ExportError(f"found a tensor of layout {tensor.layout}{of}; valid: torch.strided")


class Fakes:
    """A fake tensor for each tensor; the same one for the same tensor."""

    def __init__(self, mode):
        self.mode = mode
        self.made = {}  # id -> (the tensor, which so stays alive, and its fake)

    def of(self, tensor, keep_gradient=True):
        """The fake of a tensor, on the CPU where that has no storage."""
        if id(tensor) not in self.made:
            self.made[id(tensor)] = (tensor, self.make(tensor, keep_gradient))
        return self.made[id(tensor)][1]

    def make(self, tensor, keep_gradient):
        """A new fake."""
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
            raise ExportError("found a lazy module, whose parameters have no shape yet; valid: one that has run once")
        check_layout(tensor)
        device = "cpu" if tensor.device.type == "meta" else tensor.device
        with self.mode:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        needs = tensor.requires_grad and keep_gradient
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(made, requires_grad=needs)
        return made.requires_grad_(needs)

    @contextlib.contextmanager
    def inside(self, module, keep_gradient):
        """Puts fakes in the places of the module's parameters and buffers, and back."""
        before = []
        try:
            for each in module.modules():
                for held in (each._parameters, each._buffers):  # pylint: disable=protected-access
                    before.append((held, dict(held)))
                    fakes = {
                        key: self.of(t, keep_gradient)
                        for key, t in held.items()
                        if t is not None and not is_sparse_buffer(t)
                    }
                    held.update(fakes)
                held = vars(each)
                plain_ones = {key: t for key, t in held.items() if isinstance(t, torch.Tensor) and t.is_meta}
                before.append((held, plain_ones))
                held.update({key: self.of(t) for key, t in plain_ones.items()})
            yield
        finally:
            for held, content in before:
                held.update(content)


# --- What CUDA would run ----------------------------------------------------------------------------------


def cuda_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Scaled dot-product attention by the kernel that CUDA takes: flash, else memory-efficient, else the formula."""
    aten = torch.ops.aten
    tensors = (query, key, value)
    batched = all(each.dim() == 4 for each in tensors)
    width = query.size(-1)
    same_widths = all(each.size(-1) == width for each in tensors)
    square = not is_causal or query.size(-2) == key.size(-2)
    half = query.dtype in (torch.float16, torch.bfloat16)
    if attn_mask is None and batched and half and same_widths and width <= 256 and square:
        padding = -width % 8
        padded = [nn.functional.pad(each, (0, padding)) if padding else each for each in tensors]
        if scale is None and padding:
            scale = width**-0.5  # the kernel would take that of the padded width
        made = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=scale)[0]
        return made[..., :width] if padding else made
    aligned = all(each.size(-1) % (8 if half else 4) == 0 for each in tensors)
    alike = query.shape[:2] == key.shape[:2] == value.shape[:2]
    mask = added_mask(attn_mask, query.dtype)
    if batched and alike and aligned and (half or query.dtype == torch.float32):
        # The memory-efficient kernel takes a mask of the scores' shape.
        bias = None if mask is None else mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
        gradients = torch.is_grad_enabled() and any(each.requires_grad for each in (*tensors, bias) if each is not None)
        return aten._scaled_dot_product_efficient_attention(
            *tensors, bias, gradients, dropout_p, is_causal, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math(
        *tensors, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def added_mask(mask, dtype):
    """The mask as every kernel takes it: added to the scores. A Boolean one says which scores count."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), -math.inf)


def in_f32(packet, overload):
    """The operator on f32, where autocast gave it less."""
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    excluded = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # pylint: disable=protected-access

    def raised(value):
        low = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if low else value

    def run(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(excluded):  # pylint: disable=protected-access
            return op(*map(raised, args), **{key: raised(value) for key, value in kwargs.items()})

    return run


def as_cuda_makes(graph):
    """Gives the statistics of norms the tensors that CUDA makes: they are of f32, and not empty in inference."""
    aten = torch.ops.aten
    layer_norm = aten.native_layer_norm
    functional = aten._native_batch_norm_legit_functional
    batch_norms = (functional, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training)
    for node in list(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        if packet in (layer_norm, *batch_norms):
            made = list(node.meta["val"])
            for i in (1, 2):
                extents = [made[0].size(1)] if packet in batch_norms else made[i].shape
                made[i] = torch.empty(extents, dtype=torch.promote_types(made[i].dtype, torch.float32))
            if packet is functional:  # the new running statistics have the dtype of the old ones
                made[3:] = [torch.empty_like(each, dtype=old.meta["val"].dtype)
                            for each, old in zip(made[3:], node.args[3:5])]
            node.meta["val"] = tuple(made)
            for user in node.users:
                user.meta["val"] = made[user.args[1]]


def simplify(graph_module):
    """Removes what computes nothing and would need rules.

    A copy of a constant, which only keeps the constant from being changed, becomes the constant, and equal constants
    become one. cat ignores tensors
    of shape [0], with which caches begin, and then may have one tensor to join.
    """
    graph, constants = graph_module.graph, {}
    for node in list(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        if node.op == "get_attr":
            first = constants.setdefault(id(getattr(graph_module, node.target)), node)
            if first is not node:
                node.replace_all_uses_with(first)
        elif packet is torch.ops.aten.lift_fresh_copy:
            node.replace_all_uses_with(node.args[0])
        elif packet is torch.ops.aten.cat:
            parts = [each for each in node.args[0] if each.meta["val"].shape != (0,)]
            if len(parts) == 1:
                node.replace_all_uses_with(parts[0])
            elif parts:
                node.args = (parts, *node.args[1:])
    graph.eliminate_dead_code()


def is_same_view(node):
    """Whether this node is a view of a tensor in the shape that it has."""
    aten = torch.ops.aten
    views = (aten.view, aten.reshape, aten._unsafe_view)  # pylint: disable=protected-access
    return (getattr(node.target, "overloadpacket", None) in views
            and node.args[0].meta["val"].shape == node.meta["val"].shape)


def tangents_of(graph):
    """The tangents, by the descriptor of their output."""
    sources = [node for node in graph.nodes if node.op == "placeholder"]
    return {node.meta["desc"].output: node for node in sources
            if isinstance(node.meta["desc"], descriptors.TangentAOTInput)}


def join_outputs(graph, traced):
    """Removes the views by which `Traced.apart` tells outputs apart, and those of their tangents: they do nothing.

    An output that has a gradient but no tangent is refused, since a plan would leave that gradient out.
    """
    tangents, results = tangents_of(graph), list(graph.nodes)[-1]
    for desc, value in zip(results.meta["desc"], results.args[0]):
        if not isinstance(desc, descriptors.PlainAOTOutput):
            continue
        if desc.idx in traced.differentiable and desc not in tangents:
            raise ExportError(f"{traced.results.labels[desc.idx]}: found an output that has a gradient, but for which "
                              "AOTAutograd makes no tangent; valid: an output with memory of its own, such as its "
                              "clone(), or one without a gradient, such as its detach()")
        if desc.idx in traced.parted:
            tangent = [*tangents[desc].users] if desc in tangents else []
            for view in filter(is_same_view, [value, *tangent]):
                view.replace_all_uses_with(view.args[0])
    graph.eliminate_dead_code()


def cuda_autocast(init):
    """The constructor of torch.autocast, with which "cuda" is not switched off where there is no GPU, but is CPU's."""

    def run(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    return run


@contextlib.contextmanager
def as_cuda():
    """Lets operators on the CPU be chosen as on a GPU.

    Fake tensors on a GPU would do so by themselves, but PyTorch without CUDA cannot differentiate them. So the
    dispatcher gets other kernels for the operators that choose: attention picks CUDA's fused kernels, autocast has
    CUDA's list of operators that compute in f32, and a recurrent layer is not one of oneDNN's.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # pylint: disable=protected-access
    init = torch.autocast.__init__
    with contextlib.ExitStack() as stack:
        library = stack.enter_context(torch.library._scoped_library("aten", "IMPL"))  # pylint: disable=protected-access
        library.impl("scaled_dot_product_attention", cuda_attention, "AutogradCPU")
        # The check reads the status of inv, cholesky or solve and has no result. AOTAutograd would keep it, as
        # with_effects, which is no plain operator.
        library.impl("_linalg_check_errors", lambda *args, **kwargs: None, "AutogradCPU")
        for name in AUTOCAST_F32:
            if not has_kernel(f"aten::{name}", "AutocastCPU"):
                packet, _, overload = name.partition(".")
                library.impl(name, in_f32(packet, overload), "AutocastCPU")
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        if not torch.cuda.is_available():
            torch.autocast.__init__ = cuda_autocast(init)
            stack.callback(setattr, torch.autocast, "__init__", init)
        yield


# --- The trace --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def module_labels(module):
    """Notes on each node of the graph which module was running."""
    names = {id(each): name for name, each in reversed(list(module.named_modules()))}
    running = []

    def note():
        fx_traceback.current_meta["nn_module_stack"] = {running[-1]: (running[-1], None)} if running else {}

    def enter(each, _):
        if id(each) in names:
            running.append(names[id(each)])
            note()

    def leave(each, *_):
        if id(each) in names and running:
            running.pop()
            note()

    hooks = (
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    )
    try:
        with fx_traceback.preserve_node_meta():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def running_module():
    """The full name of the module that runs in the trace, "" for the outermost one."""
    return next(reversed(fx_traceback.current_meta.get("nn_module_stack") or {"": None}))


@contextlib.contextmanager
def noted_hooks(places):
    """Notes which modules set hooks on the tensors that autograd saves, as {"checkpoints" or "hooks": {module: None}}.

    AOTAutograd defers such hooks to the run of its graph, so that they leave no trace in the graph itself.
    """
    hooks = torch.autograd.graph.saved_tensors_hooks
    # The class is private, so that a release may be without it.
    checkpointing = getattr(torch.utils.checkpoint, "_checkpoint_hook", ())
    enter = hooks.__enter__

    def run(self):
        kind = "checkpoints" if isinstance(self, checkpointing) else "hooks"
        if torch.is_grad_enabled():
            places.setdefault(kind, {})[running_module()] = None
        return enter(self)

    hooks.__enter__ = run
    try:
        yield
    finally:
        hooks.__enter__ = enter


def hook_notes(module, places):
    """What the program leaves out of the hooks that `noted_hooks` found, each in one sentence."""
    causes = {"checkpoints": "checkpoints activations (torch.utils.checkpoint)",
              "hooks": "sets hooks on the tensors saved for the backward pass (as save_on_cpu does)"}
    notes = []
    for kind, cause in causes.items():
        names = [name or type(module).__name__ for name in places.get(kind, ())]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            notes.append(
                f"the forward of {', '.join(names[:3])}{more} {cause}, which the program does not have: its time and "
                "memory are those of a module that keeps these activations, unless they are computed again by "
                "--recompute selective or full"
            )
    return notes


@contextlib.contextmanager
def compiling():
    """Lets mask code know that it is traced.

    torch.compiler.is_exporting() says so, as under torch.export. nn.Transformer does not ask: it looks whether a mask
    is causal unless it is told (tgt_is_causal), which is a hint alone, so that without one the mask is taken as it is.
    """
    new = {
        (torch.compiler, "_is_compiling_flag"): True,
        (torch.compiler, "_is_exporting_flag"): True,
        (nn.modules.transformer, "_detect_is_causal_mask"): lambda mask, is_causal=None, size=None: bool(is_causal),
    }
    before = {(of, name): getattr(of, name) for of, name in new}
    try:
        for (of, name), value in new.items():
            setattr(of, name, value)
        yield
    finally:
        for (of, name), value in before.items():
            setattr(of, name, value)


def decomposition_table(name):
    """The table of that name without the ops that stay whole."""
    if name == "core":
        table = core_aten_decompositions()
        return {op: how for op, how in table.items() if op.overloadpacket.__name__ not in WHOLE}
    from torch._inductor import lowering  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    from torch._inductor.decomposition import select_decomp_table  # pylint: disable=import-outside-toplevel

    aten = torch.ops.aten
    table = {
        op: how
        for op, how in select_decomp_table().items()
        if getattr(getattr(op, "overloadpacket", op), "__name__", "") not in WHOLE_FOR_INDUCTOR
    }
    table[aten.addmm.default] = lambda bias, a, b, beta=1, alpha=1: bias * beta + (a @ b) * alpha if (
        beta != 1 or alpha != 1) else bias + a @ b
    return table


def last_line(frames, script=__file__):
    """The words " at FILE:LINE" for the last of these frames that is the user's code, or ""."""
    own = (TORCH, os.path.abspath(__file__), os.path.abspath(script), "<")
    library = os.path.dirname(os.__file__)
    line = ""
    for file, number in frames:
        if not file.startswith(own) and (not file.startswith(library) or "-packages" in file):
            line = f" at {file}:{number}"
    return line


def where(error, module=None, script=__file__):
    """The words " at FILE:LINE" for the last line of the user's code that the error went through, and the submodule."""
    names = {id(each): name for name, each in module.named_modules()} if module else {}
    frames = list(traceback.walk_tb(error.__traceback__))
    inner = ""
    for frame, _ in frames:
        inner = names.get(id(frame.f_locals.get("self")), inner)
    line = last_line([(frame.f_code.co_filename, number) for frame, number in frames], script)
    return line + (f" in {inner}" if inner else "")


@contextlib.contextmanager
def noted_lines():
    """Notes on each node of the graph which code made it, for `where_made`."""
    create = PythonKeyTracer.create_node

    def run(self, *args, **kwargs):
        node = create(self, *args, **kwargs)
        node.meta["made_by"] = CapturedTraceback.extract()
        return node

    PythonKeyTracer.create_node = run
    try:
        yield
    finally:
        PythonKeyTracer.create_node = create


def where_made(node):
    """The words " at FILE:LINE in MODULE" for the code of forward that made this node; "" for the backward pass."""
    made_by = node.meta.get("made_by")
    frames = [(frame.filename, frame.lineno) for frame in made_by.summary()] if made_by else []
    ours = [i for i, (file, _) in enumerate(frames) if os.path.abspath(file) == os.path.abspath(__file__)]
    label = module_label(node)
    return last_line(frames[ours[0] :] if ours else []) + (f" in {label}" if label else "")


def refusal(module, error):
    """What went wrong in a trace, as one sentence."""
    name = type(module).__name__
    if isinstance(error, DEPENDENT):
        return (
            f"{name}: found {error.func}{where(error, module)}, whose result depends on the tensor's values (control "
            "flow on a tensor, or a shape that follows from one); valid: shapes and branches that follow from shapes "
            "alone"
        )
    if isinstance(error, fake_tensor.UnsupportedOperatorException):
        found = f"{name}: found {error.func}{where(error, module)}"
        return f"{found}, which fake tensors do not know; valid: an op with a meta kernel"
    text = " ".join(str(error).split()) or "no message"
    text = text if len(text) <= 400 else text[:400] + "..."
    found = f"{name}: found {type(error).__name__}{where(error, module)}"
    return f"{found} ({text}); valid: a module that runs on these inputs"


@contextlib.contextmanager
def quiet():
    """Keeps PyTorch's remarks on the trace from stderr: what matters is raised."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, logger.disabled = logger.disabled, True
        try:
            yield
        finally:
            logger.disabled = before


@contextlib.contextmanager
def fake_constants():
    """Allows a graph whose constants are fake tensors: no one runs it.

    Where a model is made under a FakeTensorMode, so are the tensors that it keeps as plain attributes or in lists.
    AOTAutograd ends a trace with a check that there are none.
    """
    name = "assert_no_fake_params_or_buffers"
    before = getattr(dynamo_utils, name, None)  # private, so that a release may be without it
    setattr(dynamo_utils, name, lambda module: None)
    try:
        yield
    finally:
        setattr(dynamo_utils, name, before)


def trace(traced, tensors, mode, stack, table):
    """The joint graph: of what the module does when it runs, or else of what it does when it knows that it is traced.

    The two differ where code looks at values, or takes kernels that a trace does not know. Where both can be had, the
    first is what a training loop runs: mask code of transformers leaves a causal mask to the attention kernel then.
    """
    labelled = module_labels(traced.module)
    with quiet(), mode, as_cuda(), fake_constants(), labelled, noted_lines(), noted_hooks(traced.hooks):
        for context in (contextlib.nullcontext, compiling):
            attempt = contextlib.ExitStack()
            try:
                with context():
                    joint = aot_export_joint_with_descriptors(
                        attempt, traced, tuple(tensors), decompositions=decomposition_table(table)
                    )
                stack.push(attempt)
                break
            except Exception:  # pylint: disable=broad-except
                attempt.close()
                if context is compiling:
                    raise
    return joint.graph_module


# --- The nodes --------------------------------------------------------------------------------------------


def dtype_name(dtype):
    """The name that shardlab has for a dtype."""
    if dtype not in DTYPES:
        raise ExportError(f"found {dtype}, for which shardlab has no name; valid: {', '.join(DTYPES.values())}")
    return DTYPES[dtype]


def meta_json(value):
    """The dtype, shape and stride of a fake tensor."""
    return {
        "dtype": dtype_name(value.dtype),
        "shape": [int(extent) for extent in value.shape],
        "stride": [int(stride) for stride in value.stride()],
    }


def is_tensors(value):
    """Whether this is a list of values of the graph, and not empty."""
    return isinstance(value, (list, tuple)) and any(isinstance(each, torch.fx.Node) for each in value)


def plain(value):
    """An argument that is no tensor, as JSON. Devices, layouts and generators become null: they mean nothing here."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, (torch.device, torch.layout, torch.memory_format, torch.Generator)):
        return None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    found = f"found an argument of type {type(value).__name__}"
    raise ExportError(f"{found}; valid: real numbers, texts, dtypes and lists of them")


def without_tail(values):
    """The list without the nulls at its end."""
    while values and values[-1] is None:
        values.pop()
    return values


def module_label(node):
    """The full name of the module that an op comes from, or "" for the outermost one and where it is not known."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return next(reversed(stack.values()))[0] if stack else ""


def tensors_json(value, names):
    """A tensor argument: a name, null, or a list of those."""
    if isinstance(value, (list, tuple)):
        return [tensors_json(each, names) for each in value]
    return names[value] if isinstance(value, torch.fx.Node) else None


def op_name(node):
    """The op of a node. 1 - x is written as rsub: a number in a tensor's place is read as the second operand."""
    if str(node.target) == "aten.sub.Tensor" and not isinstance(node.args[0], torch.fx.Node):
        return "aten.rsub.Scalar"
    return str(node.target)


def call_json(node, names):
    """The arguments of a call: tensors are inputs, all else are arguments in the schema's order."""
    inputs, args = [], []
    values = list(node.args)
    schema = node.target._schema.arguments  # pylint: disable=protected-access
    for argument in schema[len(values) :]:
        values.append(node.kwargs.get(argument.name, argument.default_value))
    for argument, value in zip(schema, values):
        absent = "Tensor" in str(argument.type) and value is None
        if absent or isinstance(value, torch.fx.Node) or is_tensors(value):
            inputs.append(tensors_json(value, names))
        else:
            args.append(plain(value))
    call = {"inputs": without_tail(inputs)}
    if without_tail(args):
        call["args"] = {"positional": args}
    return call


class Writer:
    """Nodes of a joint graph, written one by one."""

    def __init__(self, graph_module, traced):
        self.graph = graph_module.graph
        self.traced = traced
        self.nodes, self.pairs = [], []
        self.names = {}  # node of the graph -> the name under which its readers read it
        self.labels = {}  # node that is a source -> its label
        self.parts = {}  # node with several outputs -> which of them are tensors
        self.count = 0
        attributes = {id(value): name for name, value in plain_attributes(traced.module)}
        self.constants = {
            node: getattr(graph_module, node.target) for node in self.graph.nodes if node.op == "get_attr"
        }
        for node, value in self.constants.items():
            self.labels[node] = attributes.get(id(value), node.name)

    def add(self, name, label, outputs, phase, **rest):
        """A node, with a label where there is one."""
        entry = {"name": name, **({"label": label} if label else {}), **rest}
        self.nodes.append({**entry, "outputs": outputs, "phase": phase})

    def add_alias(self, source, node, kind, phase, label):
        """An alias of what `source` names."""
        name = "alias_default" + (f"_{self.count}" if self.count else "")
        self.count += 1
        rest = {"op": "aten.alias.default", "inputs": [source], **({"kind": kind} if kind != "op" else {})}
        self.add(name, label, [meta_json(node.meta["val"])], phase, **rest)
        return name

    def add_op(self, node, phase):
        """A call of an operator, or an error that names it and the code that it comes from."""
        if not isinstance(node.target, torch._ops.OpOverload):  # pylint: disable=protected-access
            taken = "".join(f" of {each}" for each in node.args if isinstance(each, torch._ops.OpOverload))
            found = f"found {node.target}{taken}{where_made(node)}"
            raise ExportError(f"{found}, which takes functions; valid: a module of plain operators")
        try:
            self.add_call(node, phase)
        except ExportError as error:
            raise ExportError(f"{op_name(node)}{where_made(node)}: {error}") from error

    def add_call(self, node, phase):
        """A call of an operator: tensors are inputs, all else are arguments in the schema's order."""
        made = node.meta.get("val")
        tensors = list(made) if isinstance(made, (list, tuple)) else [made]
        self.parts[node] = [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor)]
        if not self.parts[node]:
            return  # an assertion
        rest = {"op": op_name(node), **call_json(node, self.names)}
        outputs = [meta_json(tensors[i]) for i in self.parts[node]]
        self.add(node.name, module_label(node), outputs, phase, **rest)
        self.names[node] = node.name

    def add_part(self, node, phase):
        """A node that shows one of several outputs."""
        of, index = node.args
        if index not in self.parts.get(of, ()):
            return  # an output that is None
        output = self.parts[of].index(index)
        source = self.names[of] + (f":{output}" if output else "")
        outputs = [meta_json(node.meta["val"])]
        self.add(node.name, module_label(of), outputs, phase, op="_operator.getitem", inputs=[source])
        self.names[node] = node.name

    def add_source(self, node):
        """A parameter, buffer, input, tangent or constant."""
        desc = node.meta.get("desc")
        kind, label, phase = "input", "", "forward"
        if node in self.constants:
            kind, label = "buffer", self.labels[node]
        elif isinstance(desc, (descriptors.ParamAOTInput, descriptors.BufferAOTInput)):
            kind = "parameter" if isinstance(desc, descriptors.ParamAOTInput) else "buffer"
            label = self.traced.names[desc.target]
        elif isinstance(desc, descriptors.TangentAOTInput):
            kind, phase = "tangent", "backward"
        elif isinstance(desc, descriptors.PlainAOTInput):
            label = self.traced.call.labels[desc.idx]
        value = self.constants.get(node)
        if value is not None:
            check_layout(value, label)
        self.labels[node] = label
        self.add(node.name, label, [meta_json(node.meta["val"] if value is None else value)], phase, kind=kind)
        self.names[node] = node.name

    def add_result(self, value, desc, sources, tangents):
        """A value that the graph returns."""
        kind, label, phase, tied = "output", "", "forward", None
        if isinstance(desc, descriptors.GradAOTOutput):
            kind, phase, tied = "gradient", "backward", sources[desc.grad_of]
            label = self.labels[tied]
        elif isinstance(desc, descriptors.InputMutationAOTOutput):
            tied = sources[desc.mutated_input]
            label = self.labels[tied]
            if not isinstance(desc.mutated_input, descriptors.PlainAOTInput):
                kind = "buffer_update"
        elif isinstance(desc, descriptors.PlainAOTOutput):
            label = self.traced.results.labels[desc.idx]
        name = self.add_alias(self.names[value], value, kind, phase, label)
        if kind != "output" and tied.meta["val"].shape == value.meta["val"].shape:
            self.pairs.append([tied.name, name])
        elif desc in tangents:
            self.pairs.append([name, tangents[desc].name])

    def aliases(self, nodes):
        """For each node, the tensors with several readers that it is the first one to read."""
        position = {node: i for i, node in enumerate(nodes)}
        firsts = {}
        for node in nodes[:-1]:
            if len(node.users) > 1 and isinstance(node.meta.get("val"), torch.Tensor):
                reader = min(node.users, key=position.get)
                if reader is not nodes[-1]:
                    firsts.setdefault(reader, []).append(node)
        return firsts

    def run(self):
        """Writes all nodes and pairs."""
        nodes = list(self.graph.nodes)
        sources = {node.meta["desc"]: node for node in nodes if node.op == "placeholder"}
        tangents = tangents_of(self.graph)
        backward = set()
        firsts = self.aliases(nodes)
        for node in nodes[:-1]:
            if node in tangents.values() or set(node.all_input_nodes) & backward:
                backward.add(node)
            phase = "backward" if node in backward else "forward"
            for value in firsts.get(node, []):
                own = "backward" if value in backward else "forward"
                label = module_label(value) if value.op == "call_function" else ""
                self.names[value] = self.add_alias(self.names[value], value, "op", own, label)
            if node.op in ("placeholder", "get_attr"):
                self.add_source(node)
            elif node.op == "call_function" and node.target.__name__ == "getitem":
                self.add_part(node, phase)
            elif node.op == "call_function":
                self.add_op(node, phase)
            else:
                raise ExportError(f"{node.name}: found a node of kind {node.op}; valid: placeholder, call_function")
        for desc in tangents:
            if isinstance(desc, descriptors.InputMutationAOTOutput):
                raise ExportError(f"{self.labels[sources[desc.mutated_input]]}: found a parameter that has a gradient and "
                                  "that forward changes in place, as max_norm of nn.Embedding does; valid: a parameter "
                                  "that forward leaves as it is, or one that is frozen")
        for value, desc in zip(nodes[-1].args[0], nodes[-1].meta["desc"]):
            if isinstance(value, torch.fx.Node):
                self.add_result(value, desc, sources, tangents)


# --- The whole --------------------------------------------------------------------------------------------


def checked(module, inputs, kwargs, mixed_precision, decomposed):
    """The positional and the keyword arguments."""
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"found a model of type {type(module).__name__}; valid: a torch.nn.Module")
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if isinstance(inputs, collections.abc.Mapping) and not kwargs:
        inputs, kwargs = (), inputs
    if not isinstance(inputs, (list, tuple)):
        raise ArgumentError(f"found inputs of type {type(inputs).__name__}; valid: a tuple of forward's arguments")
    if kwargs is not None and not isinstance(kwargs, collections.abc.Mapping):
        found = f"found keyword inputs of type {type(kwargs).__name__}"
        raise ArgumentError(f"{found}; valid: a dict of forward's arguments")
    if decomposed not in DECOMPOSITIONS:
        raise ArgumentError(f'found decompositions "{decomposed}"; valid: {", ".join(DECOMPOSITIONS)}')
    if mixed_precision is not None and mixed_precision not in MIXED_PRECISION:
        raise ArgumentError(f'found mixed precision "{mixed_precision}"; valid: {", ".join(MIXED_PRECISION)}')
    return tuple(inputs), dict(kwargs or {})


def export(model, inputs, kwargs=None, *, name=None, mixed_precision=None, backward=True, decompositions="core",
           source="shardlab.export"):
    """The training step of a module, or with backward=False its forward pass, as a program: shardlab/program/1.

    `inputs` are forward's positional arguments and `kwargs` its keyword arguments, with tensors of any kind: fake
    ones and those of the device "meta" will do, since only their shapes and dtypes matter. With mixed_precision="bf16"
    parameters are read through a cast to bf16, inputs are cast too, and gradients are cast back, as by FSDP's
    MixedPrecisionPolicy(param_dtype=torch.bfloat16). decompositions="inductor" breaks operators up as a compiled model
    does, and AutoParallel with it: addmm into a product and a sum, gelu and the like into single operators. Raises ExportError, a ValueError.
    """
    args, kwargs = checked(model, inputs, kwargs, mixed_precision, decompositions)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    call = Call(model, args, kwargs)
    held = [*model.parameters(), *model.buffers(), *(value for _, value in plain_attributes(model)), *call.tensors]
    fakes = Fakes(fake_mode_of(held))
    try:
        with fakes.inside(model, backward), torch.set_grad_enabled(backward), contextlib.ExitStack() as stack:
            traced = Traced(model, call, MIXED_PRECISION.get(mixed_precision))
            graph_module = trace(traced, [fakes.of(tensor, backward) for tensor in call.tensors], fakes.mode, stack,
                                 decompositions)
            with fakes.mode:
                simplify(graph_module)
                join_outputs(graph_module.graph, traced)
                as_cuda_makes(graph_module.graph)
            writer = Writer(graph_module, traced)
            writer.run()
    except ExportError as error:
        raise ExportError(f"{type(model).__name__}: {error}") from error
    except Exception as error:
        raise ExportError(refusal(model, error)) from error
    for each in traced.results.left_out:
        print(f"{source}: the program leaves out {each}, because it is no tensor", file=sys.stderr)
    for each in hook_notes(model, traced.hooks):
        print(f"note: {each}", file=sys.stderr)
    return {
        "schema": "shardlab/program/1",
        "name": name or type(model).__name__,
        "source": f"exported by {source} from PyTorch {torch.__version__}",
        "nodes": writer.nodes,
        "pairs": writer.pairs,
    }


def text_of(program):
    """The program as a file, with one node on each line."""
    lines = ",\n".join(json.dumps(node, allow_nan=False) for node in program["nodes"])
    ties = ",\n".join(json.dumps(pair) for pair in program["pairs"])
    return (
        f'{{"schema": {json.dumps(program["schema"])},\n"name": {json.dumps(program["name"])},\n'
        f'"source": {json.dumps(program["source"])},\n"nodes": [\n{lines}],\n"pairs": [\n{ties}]}}\n'
    )
