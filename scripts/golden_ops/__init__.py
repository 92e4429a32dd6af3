"""Random calls of the ops that selections are asked about, by family.

A module golden_ops/<family>.py has OPS = {name: (weight, draw)}: how often an op is asked relative to
the others of its family, and draw(rng, base, overload) -> (tensors, args). `tensors` are the op's tensor
arguments in order: a shape (of the case's dtype), (dtype, shape), a TensorList of these, or None for one
that is not given. `args` are its other arguments in the order of its schema, keyword-only ones last;
None stands for a default, a dtype is written as "bf16".

It may also have sets of names of its ops: OPAQUE_STRIDED, those that read strided shards as placements
of their own, and DEFAULT_ORDER, those that are asked in the default shard order only: PyTorch leaves
another order on their inputs and loses it on their outputs.
"""

import importlib
import pkgutil


class TensorList(list):
    """One argument that is a list of tensors."""


SIZES = [1, 2, 3, 4, 5, 6, 8, 8, 12, 16, 16, 17, 64, 128, 1024]


def shape_of(rng, ranks=(1, 2, 2, 3), sizes=None):
    return [rng.choice(sizes or SIZES) for _ in range(rng.choice(ranks))]


def dim_of(rng, shape):
    """A dim of the shape, now and then counted from its end."""
    dim = rng.randrange(len(shape))
    return dim - len(shape) if rng.random() < 0.2 else dim


def families():
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def modules_of(family=None):
    """The modules of one family, or of all families."""
    return [importlib.import_module(f"golden_ops.{name}") for name in ([family] if family else families())]


def ops_of(family=None):
    ops = {}
    for module in modules_of(family):
        ops |= module.OPS
    return ops


def ops_in(attribute, family=None):
    """All names in the set that is called `attribute`, over the modules that have one."""
    return {name for module in modules_of(family) for name in getattr(module, attribute, ())}
