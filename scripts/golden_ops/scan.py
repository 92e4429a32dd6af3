"""Scans and sorts."""

from golden_ops import dim_of, shape_of


def scan(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [dim_of(rng, shape)]


def sort(rng, base, overload):
    shape = shape_of(rng)
    first = [True] if overload == "stable" else []
    rest = [] if rng.random() < 0.3 else [dim_of(rng, shape), rng.random() < 0.5]
    return [shape], first + rest


def topk(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [1] if rng.random() < 0.3 else [1, dim_of(rng, shape), rng.random() < 0.7]


OPS = {"cumsum": (3, scan), "cumprod": (2, scan), "logcumsumexp": (2, scan), "cummax": (2, scan),
       "cummin": (2, scan), "sort": (3, sort), "sort.stable": (2, sort), "topk": (3, topk)}
