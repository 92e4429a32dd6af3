"""Lookups in a table of rows."""

from golden_ops import shape_of

TABLE = [1, 2, 3, 4, 5, 8, 16, 17, 64, 128, 1000, 4096]
SMALL = [1, 2, 3, 4, 8, 8, 16, 64]


def lookup(rng, base, overload):
    rows, columns = rng.choice(TABLE), rng.choice(TABLE)
    dtype = rng.choice(["i64", "i64", "i32"])
    indices = shape_of(rng, ranks=(1, 1, 2, 2, 3), sizes=SMALL) if rng.random() < 0.95 else []
    if base == "embedding":
        return [[rows, columns], (dtype, indices)], []
    args = [rows, rng.choice([-1, 0]), rng.random() < 0.3]
    return [[*indices, columns], (dtype, indices)], args


def with_out(rng, base, overload):
    tensors, args = lookup(rng, base, overload)
    table, (_, indices) = tensors
    return [*tensors, [*indices, table[-1]]], args


OPS = {"embedding": (6, lookup), "embedding_dense_backward": (4, lookup),
       "embedding.out": (1, with_out)}
