"""Reductions."""

from golden_ops import TensorList, dim_of, shape_of


def dims_of(rng, shape):
    dims = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    return [d - len(shape) if rng.random() < 0.2 else d for d in dims]


def keepdim(rng):
    return [True] if rng.random() < 0.4 else [False] if rng.random() < 0.3 else []


def reduced(shape, dims, keeps):
    """The shape of the result."""
    dims = {d % len(shape) for d in dims}
    return [1 if d in dims else extent for d, extent in enumerate(shape) if keeps or d not in dims]


def whole(rng, base, overload):
    return [shape_of(rng)], []


def listed(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [dims_of(rng, shape), *keepdim(rng)]


def listed_or_all(rng, base, overload):
    if rng.random() < 0.7:
        return listed(rng, base, overload)
    if base in ("amax", "amin"):
        return [shape_of(rng)], rng.choice([[], [[]], [[], True]])
    return [shape_of(rng)], [] if base in ("any", "nansum") and rng.random() < 0.5 else [None]


def listed_out(rng, base, overload):
    shape = shape_of(rng)
    dims, keeps = dims_of(rng, shape), rng.random() < 0.4
    return [shape, reduced(shape, dims, keeps)], [dims, keeps]


def one(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [dim_of(rng, shape), *keepdim(rng)]


def one_out(rng, base, overload):
    shape = shape_of(rng)
    dim, keeps = dim_of(rng, shape), rng.random() < 0.4
    out = reduced(shape, [dim], keeps)
    return [shape, ("b8", out) if base == "any" else out], [dim, keeps]


def one_or_all(rng, base, overload):
    if rng.random() < 0.25:
        return [shape_of(rng)], rng.choice([[], [None, True]])
    return one(rng, base, overload)


def one_or_last(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [] if rng.random() < 0.3 else [dim_of(rng, shape), *keepdim(rng)]


def kth(rng, base, overload):
    shape = shape_of(rng)
    return [shape], [1] if rng.random() < 0.3 else [1, dim_of(rng, shape), *keepdim(rng)]


def spread(rng, base, overload):
    shape = shape_of(rng)
    if rng.random() < 0.25:
        return [shape], []
    return [shape], [dims_of(rng, shape), rng.choice([None, 0, 1, 2]), rng.random() < 0.4]


def spread_out(rng, base, overload):
    shape = shape_of(rng)
    dims, keeps = dims_of(rng, shape), rng.random() < 0.4
    outs = [reduced(shape, dims, keeps)] * (2 if base == "var_mean" else 1)
    return [shape, *outs], [dims, rng.choice([None, 0, 1]), keeps]


ORDERS = [2, 2, 1, 0, 3, 0.5, "inf", "-inf"]


def norm(rng, base, overload):
    shape = shape_of(rng)
    order = rng.choice(ORDERS if "powsum" not in base else ORDERS[:6])
    if rng.random() < 0.3:
        return [shape], [] if rng.random() < 0.3 else [order]
    return [shape], [order, dims_of(rng, shape), *keepdim(rng)]


def norm_of_all(rng, base, overload):
    return [shape_of(rng)], rng.choice([[], [rng.choice(ORDERS)]])


def foreach(rng, base, overload):
    shapes = [rng.choices([2, 4, 8, 9], k=rng.choice([1, 2])) for _ in range(rng.randint(1, 3))]
    orders = ORDERS if base == "_foreach_norm" else ORDERS[:6]
    return [TensorList(shapes)], [] if base == "_foreach_max" else rng.choice([[], [rng.choice(orders)]])


def histogram(rng, base, overload):
    bounds = rng.choice([[], [8], [8, 0, 0], [8, -1, 0], [8, 0, 4], [8, -2, 2], [5, 3, 3]])
    return [("f32", shape_of(rng))], bounds


OPS = {
    "sum": (3, whole), "sum.dim_IntList": (4, listed_or_all), "mean": (3, whole), "mean.dim": (4, listed_or_all),
    "mean.out": (2, listed_out), "amax": (3, listed_or_all), "amin": (2, listed_or_all),
    "amax.out": (1, listed_out), "amin.out": (1, listed_out), "max": (2, whole), "min": (2, whole),
    "prod": (2, whole), "prod.dim_int": (2, one), "prod.int_out": (1, one_out),
    "nansum": (2, listed_or_all), "all": (1, whole), "all.dim": (2, one), "any": (1, whole),
    "any.dim": (2, one), "any.dims": (2, listed_or_all), "any.out": (1, one_out),
    "argmax": (2, one_or_all), "argmin": (2, one_or_all), "max.dim": (3, one), "min.dim": (3, one),
    "median": (1, whole), "nanmedian": (1, whole), "median.dim": (2, one), "nanmedian.dim": (2, one),
    "mode": (2, one_or_last), "kthvalue": (2, kth), "var.correction": (2, spread),
    "std.correction": (2, spread), "var_mean.correction": (2, spread),
    "var.correction_out": (1, spread_out), "std.correction_out": (1, spread_out),
    "var_mean.correction_out": (1, spread_out), "logsumexp": (3, listed),
    "linalg_vector_norm": (4, norm), "linalg__powsum": (2, norm), "norm.Scalar": (2, norm_of_all),
    "_foreach_norm.Scalar": (2, foreach), "_foreach_powsum.Scalar": (2, foreach),
    "_foreach_max": (2, foreach), "histc": (3, histogram),
}
