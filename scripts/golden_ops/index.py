"""Lookups and writes by index."""

from golden_ops import TensorList, dim_of, shape_of

SMALL = [1, 2, 3, 4, 8, 8, 16, 17, 64]


def by_element(rng, base, overload):
    shape = shape_of(rng, sizes=SMALL)
    dim = dim_of(rng, shape)
    index = [extent if rng.random() < 0.75 else rng.randint(1, extent) for extent in shape]
    index[dim] = rng.choice([1, 1, shape[dim], rng.choice(SMALL)])
    if base == "gather":
        return [shape, ("i64", index)], [dim]
    if overload == "value":
        return [shape, ("i64", index)], [dim, rng.choice([0, 1, 2.5])]
    source = [extent + (rng.random() < 0.15) for extent in index]
    return [shape, ("i64", index), source], [dim]


def by_row(rng, base, overload):
    shape = shape_of(rng, sizes=SMALL)
    dim = dim_of(rng, shape)
    rows = rng.choice(SMALL)
    index = (rng.choice(["i64", "i64", "i32"]), [rows])
    if base == "index_select":
        return [shape, index], [dim]
    index = ("i64", [rows])
    if overload == "int_Scalar":
        return [shape, index], [dim, rng.choice([0, 1, 2.5])]
    if overload == "int_Tensor":
        return [shape, index, []], [dim]
    source = list(shape)
    source[dim] = rows
    reduction = [rng.choice(["prod", "mean", "amax", "amin"]), *rng.choice([[], [False]])]
    return [shape, index, source], [dim, *reduction]


def by_list(rng, base, overload):
    shape = shape_of(rng, ranks=(1, 2, 2, 3), sizes=SMALL)
    indexed = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    common = [rng.choice(SMALL) for _ in range(rng.choice([1, 1, 2]))]
    indices, last = TensorList(), indexed[-1]
    for dim in range(last + 1 + rng.randint(0, len(shape) - 1 - last)):
        own = [1 if rng.random() < 0.15 else extent for extent in common]
        own = own[rng.randrange(len(own)):] if rng.random() < 0.2 else own
        indices.append(("i64", own) if dim in indexed else None)
    given = [index[1] for index in indices if index]
    ndim = max(map(len, given))
    padded = [[1] * (ndim - len(own)) + own for own in given]
    common = [max(extents) for extents in zip(*padded)]
    kept = [(d, extent) for d, extent in enumerate(shape) if d not in indexed]
    adjacent = indexed[-1] - indexed[0] + 1 == len(indexed)
    before = [extent for d, extent in kept if adjacent and d < indexed[0]]
    values = [*before, *common, *[extent for _, extent in kept][len(before):]]
    if base == "index":
        return [shape, indices, *([values] if overload == "Tensor_out" else [])], []
    values = [1 if rng.random() < 0.1 else extent for extent in values]
    values = values[rng.randrange(len(values) + 1):] if rng.random() < 0.2 else values
    return [shape, indices, values], rng.choice([[], [True]])


def with_out(draw):
    """The draw of an `out` variant, whose result has the shape of self or takes rows of it."""
    def drawn(rng, base, overload):
        tensors, args = draw(rng, base, overload.removesuffix("out").removesuffix("_") or "default")
        out = list(tensors[0])
        if base == "index_select":
            out[args[0]] = tensors[1][1][0]
        return [*tensors, out], args
    return drawn


OPS = {
    "gather": (4, by_element), "scatter.src": (3, by_element), "scatter.value": (2, by_element),
    "scatter_.src": (1, by_element), "scatter_.value": (1, by_element),
    "scatter_add": (3, by_element), "index_select": (3, by_row),
    "index_fill.int_Scalar": (2, by_row), "index_fill.int_Tensor": (2, by_row),
    "index_fill_.int_Scalar": (1, by_row), "index_fill_.int_Tensor": (1, by_row),
    "index_reduce": (2, by_row), "index_reduce_": (1, by_row), "index.Tensor": (4, by_list),
    "index_put": (3, by_list), "index_put_": (1, by_list), "_index_put_impl_": (1, by_list),
    "index.Tensor_out": (0.5, by_list), "index_select.out": (0.5, with_out(by_row)),
    "index_reduce.out": (0.5, with_out(by_row)),
    "index_fill.int_Scalar_out": (0.5, with_out(by_row)), "index_put.out": (0.5, with_out(by_list)),
    "index_fill.int_Tensor_out": (0.5, with_out(by_row)),
    "_index_put_impl.out": (0.5, with_out(by_list)),
}
