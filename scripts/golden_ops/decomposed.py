"""Ops that PyTorch has no rule for: it shards them through their decomposition."""

from golden_ops import SIZES, dim_of, shape_of


def reduction(rng):
    return rng.randrange(3)


def other_of(rng, shape):
    """A shape that broadcasts to another."""
    shape = shape[rng.randrange(len(shape) + 1):] if rng.random() < 0.15 else list(shape)
    return [1 if rng.random() < 0.1 else extent for extent in shape]


def few(rng):
    return shape_of(rng, ranks=(1, 2, 2, 3))


def unary(rng, base, overload):
    return [few(rng)], []


def binary(rng, base, overload):
    shape = few(rng)
    return [shape, other_of(rng, shape)], []


def loss(*numbers):
    def draw(rng, base, overload):
        shape = few(rng)
        return [shape, other_of(rng, shape)], [reduction(rng), *numbers]
    return draw


def gradient(*numbers):
    def draw(rng, base, overload):
        shape, kind = few(rng), reduction(rng)
        return [list(shape) if kind == 0 else [], shape, list(shape)], [kind, *numbers]
    return draw


def activation(*numbers):
    def draw(rng, base, overload):
        shape = few(rng)
        return [shape, list(shape)], list(numbers)
    return draw


def weighted(rng, base, overload):
    shape, kind = few(rng), reduction(rng)
    tensors = [shape, list(shape)]
    if base == "binary_cross_entropy_backward":
        tensors.insert(0, list(shape) if kind == 0 else [])
    optional = 2 if base.endswith("logits") else 1
    for _ in range(optional):
        tensors.append(other_of(rng, shape) if rng.random() < 0.5 else None)
    return tensors, [kind]


def ranking(rng, base, overload):
    shape = few(rng)
    return [shape, list(shape), other_of(rng, shape)], [rng.choice([0.0, 0.5]), reduction(rng)]


def matrix(rng, base, overload):
    m, n, k = (rng.choice(SIZES) for _ in range(3))
    if base == "vdot":
        return [[m], [m]], []
    if base == "mv":
        return [[m, k], [k]], []
    numbers = [rng.choice([1.0, 2.0]), rng.choice([1.0, -0.5])] if rng.random() < 0.5 else []
    if base == "addmv":
        return [rng.choice([[m], [m], [1], []]), [m, k], [k]], numbers
    if numbers and rng.random() < 0.5:
        numbers.append(True)
    return [rng.choice([[n], [m, n], [1, n]]), [m, k], [k, n]], numbers


def reduced(rng, base, overload):
    shape = few(rng)
    if overload == "dim_IntList":
        return [shape], [sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))]
    if rng.random() < 0.4:
        return [shape], []
    return [shape], [dim_of(rng, shape)] + ([rng.random() < 0.5] if base == "aminmax" else [])


def fill(rng, base, overload):
    shape = few(rng)
    return [shape, ("b8", other_of(rng, shape)), []], []


OPS = {
    "mv": (3, matrix), "addmv": (3, matrix), "vdot": (1, matrix), "_addmm_activation": (2, matrix),
    "mse_loss": (2, loss()), "mse_loss_backward": (2, gradient()),
    "huber_loss": (2, loss(0.5)), "huber_loss_backward": (1, gradient(0.5)),
    "smooth_l1_loss": (1, loss(0.5)), "smooth_l1_loss_backward": (1, gradient(0.5)),
    "soft_margin_loss": (1, loss()), "soft_margin_loss_backward": (1, gradient()),
    "l1_loss": (1, loss()), "margin_ranking_loss": (1, ranking),
    "binary_cross_entropy": (2, weighted), "binary_cross_entropy_backward": (1, weighted),
    "binary_cross_entropy_with_logits": (1, weighted),
    "hardswish": (1, unary), "log_sigmoid_forward": (1, unary), "special_ndtr": (1, unary),
    "elu_backward": (1, activation(1.0, 1.0, 1.0, False)),
    "leaky_relu_backward": (1, activation(0.1, False)),
    "softplus_backward": (1, activation(1.0, 20.0)), "_prelu_kernel": (1, binary),
    "rsub.Tensor": (2, binary), "masked_fill.Tensor": (2, fill), "aminmax": (2, reduced),
}
