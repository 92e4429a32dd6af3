"""Joins."""

from golden_ops import TensorList, shape_of


def join(rng, base, overload):
    shape = shape_of(rng)
    dim = rng.randrange(len(shape))
    others = [list(shape) for _ in range(rng.randint(1, 2))]
    if base == "cat":
        others[0][dim] = rng.choice([1, 3, 8])
    return [TensorList([shape, *others])], [dim] if rng.random() < 0.8 or dim else []


OPS = {"cat": (3, join), "stack": (2, join)}
