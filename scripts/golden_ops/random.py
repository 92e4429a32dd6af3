"""Ops that draw numbers."""

from golden_ops import shape_of
from golden_ops._schema import pointwise, registered


def multinomial(rng, base, overload):
    shape = shape_of(rng, ranks=(1, 2, 2))
    out = [[("i64", [*shape[:-1], 3])], []][overload == "default"]
    return [("f32", shape), *out], [3, True]


def drawn(name):
    return multinomial if name.startswith("multinomial") else pointwise


OPS = {name: (1, drawn(name)) for name in registered("_random_ops")}
OPS["rrelu_with_noise_functional.default"] = (1, pointwise)
