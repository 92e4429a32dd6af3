"""Runs a program on fake tensors: of full size, on the device that the program asks for, without memory or arithmetic.

    with fake_tensors() as values:
        model = Model(config)            # no bytes are allocated
        values.answer(op, function)      # optional: what a value-dependent operation returns, see below
        model(tokens).sum().backward()

Programs now and then read a value, for instance to see whether a mask can be left out, and a fake tensor has none. So
small tensors keep their values for as long as these follow from numbers that the program names: `torch.arange(8)` has
known values, a product of weights has not. A real number that is not known, such as the loss that a program
prints, reads as 1.0. Any other read of an unknown value stops the program with an error that says so.
"""

import contextlib
import functools
from unittest import mock

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode)
from torch.distributed.tensor import placement_types
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

KNOWN_ELEMENTS = 1 << 20  # Values of larger tensors are not computed.
READ_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
# A collective whose result is as large as its input passes the input on, as though all ranks held the same.
PASSING_COLLECTIVES = ("all_reduce", "all_to_all", "alltoall", "allreduce", "broadcast", "wait_tensor")


class UnknownValue(RuntimeError):
    """The program reads a value that a fake tensor does not have."""


class KnownValues(TorchDispatchMode):
    """Computes small tensors whose values follow from numbers, beside their fake twins, and answers reads from them."""

    def __init__(self, fake_mode):
        super().__init__()
        self.fake_mode = fake_mode
        self.values = WeakIdKeyDictionary()  # fake tensor -> real tensor with its values
        self.answers = {}

    def answer(self, op, function):
        """`function(values, *args)` takes the place of `op`. Real tensors among its results count as known."""
        self.answers[op] = function

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        # The result of a collective that a program has not waited for stands for the tensor inside.
        args, kwargs = tree_map_only(AsyncCollectiveTensor, lambda tensor: tensor.elem, (args, kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        # Tensors of other classes, such as DTensors, come back here with their local parts.
        is_other = any(type(tensor) not in (FakeTensor, torch.Tensor, torch.nn.Parameter) for tensor in tensors)
        is_known = not is_other and all(map(self.knows, tensors))
        if READ_TAGS & set(function.tags) and tensors:
            return self.read(function, is_known, args, kwargs)
        if is_other:
            return function(*args, **kwargs)
        if function in self.answers:
            return self.adopt(self.answers[function](self, *args, **kwargs))
        result = function(*args, **kwargs)
        if function.namespace in ("c10d", "_c10d_functional"):
            self.pass_on(function, tensors, result)
        elif is_known and self.is_small(result):
            self.remember(result, self.compute(function, args, kwargs))
        else:
            self.forget_written(function, args, kwargs)
        return result

    def knows(self, tensor):
        return tensor in self.values if isinstance(tensor, FakeTensor) else tensor.device.type != "meta"

    def compute(self, function, args, kwargs):
        with _disable_current_modes(), torch.no_grad():
            return function(*tree_map_only(FakeTensor, self.values.__getitem__, args),
                            **tree_map_only(FakeTensor, self.values.__getitem__, kwargs))

    def read(self, function, is_known, args, kwargs):
        if is_known:
            return self.adopt(self.compute(function, args, kwargs))
        if function is torch.ops.aten._local_scalar_dense.default and args[0].is_floating_point():
            return 1.0
        try:
            return function(*args, **kwargs)  # An index, for instance, reads values only where it is a mask.
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            shapes = ", ".join(f"{t.dtype}{list(t.shape)}" for t in tree_leaves((args, kwargs)) if torch.is_tensor(t))
            what = f"the program reads values that fake tensors do not have: {function} of {shapes}"
            raise UnknownValue(what) from error

    def adopt(self, result):
        """Fake twins of real results, whose values are known."""
        def twin(real):
            if isinstance(real, FakeTensor):
                return real
            fake = self.fake_mode.from_tensor(real)
            self.values[fake] = real
            return fake

        return tree_map_only(torch.Tensor, twin, result)

    @staticmethod
    def is_small(result):
        return all(leaf.numel() <= KNOWN_ELEMENTS for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))

    def remember(self, result, real):
        for fake, value in zip(tree_leaves(result), tree_leaves(real)):
            if isinstance(fake, FakeTensor) and isinstance(value, torch.Tensor) and value.device.type != "meta":
                self.values[fake] = value

    def pass_on(self, function, tensors, result):
        """The result, or else the first tensor, which is then the output buffer, takes the value of the last tensor."""
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FakeTensor)] or tensors[:1]
        for output in outputs:
            self.values.pop(output, None)
        if tensors and any(name in function.name() for name in PASSING_COLLECTIVES) and tensors[-1] in self.values:
            value = self.values[tensors[-1]]
            for output in outputs:
                if output.shape == value.shape:
                    self.values[output] = value

    def forget_written(self, function, args, kwargs):
        """What an operation writes into an argument is not known, and neither are views of the argument."""
        schema = function._schema.arguments
        named = [*zip(schema, args), *((a, kwargs[a.name]) for a in schema[len(args):] if a.name in kwargs)]
        for argument, value in named:
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in tree_leaves(value):
                if isinstance(tensor, FakeTensor) and tensor in self.values:
                    storage = self.values[tensor].untyped_storage()._cdata
                    for fake in [f for f, v in self.values.items() if v.untyped_storage()._cdata == storage]:
                        del self.values[fake]


def balanced_top_k(values, scores, k, *rest, **options):
    """The top k of a router that sends as many tokens to one expert as to another."""
    top, indices = torch.ops.aten.topk.default(scores, k, *rest, **options)
    with _disable_current_modes():
        return top, (torch.arange(indices.numel()) % scores.shape[-1]).reshape(indices.shape)


def integer_histogram(values, numbers, *arguments):
    """The histogram of integers, which CUDA has and the CPU has not."""
    if not values.knows(numbers):
        raise UnknownValue("the program counts integers whose values are not known")
    with _disable_current_modes():
        return torch.histc(values.values[numbers].float(), *arguments).to(numbers.dtype)


def outside_modes(method):
    """`method`, run on real tensors."""
    @functools.wraps(method)
    def run(*args, **kwargs):
        with _disable_current_modes():
            return method(*args, **kwargs)

    return run


@contextlib.contextmanager
def fake_tensors():
    # DTensor finds the local part of a strided shard by an index tensor that it reads.
    strided, name = placement_types._StridedShard, "local_shard_size_and_offset"
    with mock.patch.object(strided, name, outside_modes(getattr(strided, name))):
        with FakeTensorMode(allow_non_fake_inputs=True) as fake_mode, KnownValues(fake_mode) as values:
            yield values
