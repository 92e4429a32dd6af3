"""Random calls drawn from the schemas of PyTorch's own ops; no family of its own."""

import functools

from golden_ops import TensorList, shape_of

INTEGERS = ("bitwise", "gcd", "lcm", "__")
TAKES_A_NUMBER = ("add", "sub", "mul", "div")  # a number may stand in place of a tensor
TELLS_INFINITY = ("isneginf", "isposinf", "signbit")  # their `out` tensors can only be boolean
DOUBLES = ("float_power",)  # all of their tensors are drawn as f64
MASKS = ("mask", "condition")


@functools.cache
def overload_of(name):
    import torch

    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


@functools.cache
def registered(*modules):
    """The aten ops that have a single-dim strategy of these modules, or one derived from such."""
    import torch
    from torch.distributed.tensor import DTensor

    def owners(function):
        function = getattr(function, "func", function)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        yield function.__module__.rpartition(".")[2]
        for cell in cells:
            if callable(cell) and not isinstance(cell, torch._ops.OpOverload):
                yield from owners(cell)

    found = DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs
    names = (str(op).removeprefix("aten.") for op, function in found.items()
             if str(op).startswith("aten.") and set(modules) & set(owners(function)))
    return sorted(names)


# PyTorch since 2.14 counts these among the ops that keep one tensor as it is. They are asked with the pointwise ops, where
# 2.13 has them.
ONCE_POINTWISE = ("clone.default", "clone.out", "_foreach_clone.default")


def pointwise_names():
    known = registered("_pointwise_ops")
    others = registered("_tensor_ops")
    return sorted({*known, *(name for name in ONCE_POINTWISE if name in others)})


def other_shape(rng, shape):
    """A shape that broadcasts to `shape`, most often the same."""
    other = shape[rng.randrange(len(shape) + 1):] if rng.random() < 0.2 else list(shape)
    return [1 if rng.random() < 0.1 else extent for extent in other]


def number_for(rng, parameter, whole):
    if parameter.name == "dtype":
        return rng.choice(["f32", "bf16", "f64", "i32", "b8"])
    if parameter.name == "p" and "float" in str(parameter.type):
        return 0.5
    kind = str(parameter.type).replace("Optional[", "").rstrip("]")
    if kind == "int":
        return rng.choice([1, 2])
    if kind == "str":
        return rng.choice(["floor", "trunc"])
    if kind == "bool":
        return False
    return rng.choice([1, 2]) if whole else rng.choice([2.0, 0.5, -1.5])


def base_takes_no_alpha(schema):
    """add.Scalar_out and its like have alpha in their schema, but PyTorch does not take it."""
    return schema.overload_name == "Scalar_out"


def numbers(rng, schema, whole):
    """Arguments that are not tensors: the required ones, and now and then those with defaults."""
    parameters = [p for p in schema.arguments if "Tensor" not in str(p.type)]
    required = [not p.has_default_value() for p in parameters]
    count = max((i + 1 for i, needed in enumerate(required) if needed), default=0)
    optional = [p.name for p in parameters[count:]]
    if base_takes_no_alpha(schema) and optional == ["alpha"]:
        return [number_for(rng, p, whole) for p in parameters[:count]]
    if count < len(parameters) and parameters[count].name in ("min", "max", "alpha", "value", "rounding_mode"):
        count += rng.random() < 0.5 or parameters[count].name == "min"
    return [number_for(rng, p, whole) for p in parameters[:count]]


def pointwise(rng, base, overload):
    schema = overload_of(f"{base}.{overload}")._schema
    whole = any(part in base for part in INTEGERS)
    tensors = [p for p in schema.arguments if "Tensor" in str(p.type)]
    shape, drawn = shape_of(rng), []
    for position, parameter in enumerate(tensors):
        own = shape if position == 0 or parameter.is_out else other_shape(rng, shape)
        truth = parameter.name in MASKS or (parameter.is_out and base in TELLS_INFINITY)
        exponents = base == "frexp" and parameter.name == "exponent"
        dtype = "b8" if truth else "i32" if whole or exponents else "f64" if base.startswith(DOUBLES) else None
        optional = position == 2 and "Optional" in str(parameter.type) and rng.random() < 0.4
        drawn.append(None if optional else (dtype, own) if dtype else own)
    args = numbers(rng, schema, whole)
    if overload == "Tensor" and base in TAKES_A_NUMBER:
        if rng.random() < 0.1:
            return drawn[:1], [rng.choice([2.0, -0.5]), *args]
        if rng.random() < 0.1:
            drawn.reverse()
    return drawn, args


def listed(rng, base, overload):
    """Ops on lists of tensors: elements of their own shapes, alike in all lists."""
    schema = overload_of(f"{base}.{overload}")._schema
    sizes = [2, 4, 8, 9]
    shapes = [rng.choices(sizes, k=rng.choice([1, 2])) for _ in range(rng.randint(1, 3))]
    drawn = [TensorList(map(list, shapes)) if "List" in str(p.type) else []
             for p in schema.arguments if "Tensor" in str(p.type)]
    args = []
    for parameter in schema.arguments:
        if "Tensor" in str(parameter.type) or parameter.has_default_value():
            continue
        listed_numbers = "List" in str(parameter.type)
        args.append([2.0, -0.5, 1.5][: len(shapes)] if listed_numbers else rng.choice([2.0, -0.5]))
    return drawn, args
