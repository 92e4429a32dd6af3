"""Softmax and its backward."""

from golden_ops import dim_of, shape_of


def softmax(rng, base, overload):
    shape = shape_of(rng)
    dim = dim_of(rng, shape)
    return [shape], [dim, None] if base == "_safe_softmax" else [dim, False]


def backward(rng, base, overload):
    shape = shape_of(rng)
    dtype = rng.choice(["f32", "bf16"])
    return [(dtype, shape), (dtype, shape)], [dim_of(rng, shape), dtype]


OPS = {"_softmax": (3, softmax), "_log_softmax": (3, softmax), "_safe_softmax": (2, softmax),
       "_softmax_backward_data": (3, backward), "_log_softmax_backward_data": (3, backward)}
