"""Joins, parts and elements in other places."""

from golden_ops import TensorList, dim_of, shape_of


def join(rng, base, overload):
    shape = shape_of(rng)
    dim = rng.randrange(len(shape))
    others = [list(shape) for _ in range(rng.randint(1, 2))]
    if base == "cat":
        others[0][dim] = rng.choice([1, 3, 8])
    return [TensorList([shape, *others])], [dim] if rng.random() < 0.8 or dim else []


def split(rng, base, overload):
    shape = shape_of(rng)
    dim = dim_of(rng, shape)
    extent = shape[dim]
    size = rng.choice([n for n in (1, 2, 3, 5, 64, 128, extent) if extent / n <= 4] or [extent])
    if overload == "Tensor":
        return [shape], [size, dim]
    sizes = [size] * (extent // size) + [extent % size] * (extent % size > 0)
    rng.shuffle(sizes)
    return [shape], [sizes, dim]


def unbind(rng, base, overload):
    shape = shape_of(rng, sizes=[1, 2, 3, 4, 8, 16])
    dim = dim_of(rng, shape)
    shape[dim] = rng.choice([1, 2, 3, 4])
    return [shape], [dim] if dim or rng.random() < 0.5 else []


def bounds(rng, extent):
    """The start, end and step of a slice, which may be the whole dim, and how many rows it has."""
    start = rng.choice([None, 0, 1, extent // 2, -1, -extent, -extent - 2])
    end = rng.choice([None, extent, extent - 1, 2**63 - 1, -1, max(extent // 2, 1)])
    step = rng.choice([1, 1, 1, 2])
    rows = len(range(*slice(start, end, step).indices(extent)))
    return (start, end, step, rows) if rows else (0, extent, 1, extent)


def a_slice(rng, base, overload):
    shape = shape_of(rng)
    dim = dim_of(rng, shape)
    start, end, step, rows = bounds(rng, shape[dim])
    if base == "slice":
        args = [dim, start, end, step]
        return [shape], args[:rng.choice([1, 2, 3, 4, 4])] if start is None and end is None else args
    part = list(shape)
    part[dim] = rows
    if base == "slice_scatter":
        return [shape, part], [dim, start, end, step]
    start, end = start or 0, shape[dim] if end is None else end
    return [part], [shape, dim, start, end, step]


def select(rng, base, overload):
    shape = shape_of(rng)
    dim = dim_of(rng, shape)
    row = rng.randrange(-shape[dim], shape[dim])
    part = list(shape)
    del part[dim]
    if base == "select_backward":
        return [part], [shape, dim, row]
    return [shape, part] if base == "select_scatter" else [shape], [dim, row]


def diagonal(rng, base, overload):
    shape = shape_of(rng, ranks=(2, 2, 3))
    first, second = rng.sample(range(len(shape)), 2)
    offset = rng.choice([0, 0, 1, -1])
    rows, columns = shape[first], shape[second]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    args = [offset, first, second - len(shape) if rng.random() < 0.3 else second]
    if base != "diagonal_scatter":
        return [shape], args
    rest = [extent for d, extent in enumerate(shape) if d not in (first, second)]
    return [shape, [*rest, max(length, 0)]], args


def triangle(rng, base, overload):
    ranks = {"diag": (1, 2), "diag_embed": (1, 2)}.get(base, (2, 2, 3))
    return [shape_of(rng, ranks)], rng.choice([[], [0], [1], [-2]])


def pad(rng, base, overload):
    shape = shape_of(rng)
    pads = [rng.choice([0, 0, 1, 2, -1]) if shape[-1 - i // 2] > 2 else rng.choice([0, 1])
            for i in range(2 * rng.randint(0, len(shape)))]
    return [shape], [pads, *rng.choice([[], [0], [1.5]])]


def roll(rng, base, overload):
    shape = shape_of(rng)
    dims = [d - len(shape) if rng.random() < 0.3 else d
            for d in rng.sample(range(len(shape)), rng.randint(1, len(shape)))]
    if base == "flip":
        return [shape], [dims]
    if rng.random() < 0.2:
        return [shape], [[rng.randint(-3, 3)]]
    return [shape], [[rng.randint(-3, 3) for _ in dims], dims]


def bucketize(rng, base, overload):
    return [shape_of(rng), [rng.choice([1, 3, 4, 8, 16])]], rng.choice([[], [True], [False, True]])


def with_out(draw, result=lambda tensors, args: tensors[0]):
    """The draw of an `out` variant; `result` is the output's shape."""
    def drawn(rng, base, overload):
        tensors, args = draw(rng, base, overload.removesuffix("out").removesuffix("_") or "default")
        return [*tensors, result(tensors, args)], args
    return drawn


def padded(tensors, args):
    pads, shape = args[0], list(tensors[0])
    for i in range(len(pads)):
        shape[-1 - i // 2] += pads[i]
    return shape


def buckets(tensors, args):
    return "i32" if args[:1] == [True] else "i64", tensors[0]


OPS = {
    "cat": (4, join), "stack": (3, join), "split.Tensor": (3, split),
    "split_with_sizes": (2, split), "split_with_sizes_copy": (1, split), "unbind.int": (2, unbind),
    "slice.Tensor": (4, a_slice), "slice_backward": (3, a_slice), "slice_scatter": (3, a_slice),
    "select.int": (3, select), "select_backward": (3, select), "select_scatter": (2, select),
    "diagonal": (1, diagonal), "diagonal_copy": (1, diagonal), "diagonal_scatter": (2, diagonal),
    "tril": (1, triangle), "triu": (1, triangle), "diag": (1, triangle),
    "diag_embed": (1, triangle), "constant_pad_nd": (3, pad), "roll": (2, roll), "flip": (2, roll),
    "bucketize.Tensor": (2, bucketize), "bucketize.Tensor_out": (0.5, with_out(bucketize, buckets)),
    "constant_pad_nd.out": (0.5, with_out(pad, padded)), "roll.out": (0.5, with_out(roll)),
    "flip.out": (0.5, with_out(roll)), "diagonal_scatter.out": (0.5, with_out(diagonal)),
    "select_scatter.out": (0.5, with_out(select)),
}
DEFAULT_ORDER = {"unbind.int", "slice.Tensor", "select.int", "select_backward", "slice_scatter"}
