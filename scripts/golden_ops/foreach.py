"""Ops on lists of tensors."""

from golden_ops import TensorList
from golden_ops._schema import listed, pointwise_names


def optimizer(rng, base, overload):
    """Lists of parameters, gradients and moments, equal in shape element by element, and steps without dims."""
    shapes = [rng.choices([2, 4, 8, 9], k=rng.choice([1, 2])) for _ in range(rng.randint(1, 2))]
    lists = [TensorList(map(list, shapes)) for _ in range(5)]
    whole = ("f32", [])
    steps = TensorList(whole for _ in shapes)
    rest = [whole] if overload == "tensor_lr" else []
    rest += [whole if rng.random() < 0.5 else None for _ in range(2)]
    numbers = [0.9, 0.99, 0.0, 1e-8, True, False]
    return [*lists, steps, *rest], numbers if overload == "tensor_lr" else [0.01, *numbers]


def unscale(rng, base, overload):
    shapes = [rng.choices([2, 4, 8, 9], k=rng.choice([1, 2])) for _ in range(rng.randint(1, 3))]
    return [TensorList(shapes), ("f32", [1]), ("f32", [])], []


def drawn(name):
    if name.startswith("_fused_"):
        return optimizer
    return unscale if name.startswith("_amp_") else listed


# These ops take their numbers as a tensor, which PyTorch wants on the CPU even if the other tensors hold no data.
UNASKED = ("_foreach_addcdiv_.Tensor", "_foreach_addcmul_.Tensor")


def drawn_names():
    lists = ("_foreach_", "_amp_foreach_", "_fused_")
    names = [name for name in pointwise_names() if name.startswith(lists)]
    return [name for name in names if name not in UNASKED]


OPS = {name: (1, drawn(name)) for name in drawn_names()}
