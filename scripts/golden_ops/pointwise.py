"""Pointwise ops."""

from golden_ops import TensorList, shape_of


def number(rng, base, overload):
    return [shape_of(rng)], [rng.choice([2.0, -0.5])]


def unary(rng, base, overload):
    return [shape_of(rng)], []


def binary(rng, base, overload):
    shape = shape_of(rng)
    if overload == "Tensor" and base[-1] != "_" and rng.random() < 0.12:
        return [shape], [rng.choice([2.0, -0.5])]
    other = shape[rng.randrange(len(shape) + 1):] if rng.random() < 0.25 else list(shape)
    other = [1 if rng.random() < 0.12 else extent for extent in other]
    swap = base[-1] != "_" and rng.random() < 0.15
    return ([other, shape] if swap else [shape, other]), []


def foreach(rng, base, overload):
    shapes = [rng.choices([2, 4, 8, 9], k=rng.choice([1, 2])) for _ in range(rng.randint(1, 3))]
    lists = 2 if overload == "List" else 1
    return [TensorList(shapes) for _ in range(lists)], []


OPS = {
    "add.Tensor": (5, binary), "sub.Tensor": (2, binary), "mul.Tensor": (5, binary),
    "div.Tensor": (3, binary), "mul.Scalar": (2, number), "add_.Tensor": (3, binary),
    "mul_.Tensor": (3, binary), "relu": (2, unary), "neg": (2, unary), "exp": (2, unary),
    "abs": (1, unary), "gelu": (1, unary), "sqrt": (1, unary), "maximum": (2, binary),
    "minimum": (2, binary), "_foreach_add.List": (2, foreach), "_foreach_mul.List": (2, foreach),
    "_foreach_neg": (1, foreach),
}
