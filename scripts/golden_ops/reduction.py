"""Reductions and softmax."""

from golden_ops import dim_of, shape_of


def reduction(rng, base, overload):
    shape = shape_of(rng)
    if overload == "default" and base != "amax":
        return [shape], []
    dims = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    dims = [d - len(shape) if rng.random() < 0.2 else d for d in dims]
    return [shape], [dims, rng.random() < 0.5] if rng.random() < 0.8 else [dims]


def softmax(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [dim_of(rng, shape), False]


OPS = {"sum": (2, reduction), "sum.dim_IntList": (3, reduction), "mean": (2, reduction),
       "mean.dim": (2, reduction), "amax": (2, reduction), "_softmax": (2, softmax),
       "_log_softmax": (2, softmax)}
