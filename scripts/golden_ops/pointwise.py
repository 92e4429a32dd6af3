"""Pointwise ops: all that PyTorch registers as such, the common ones more often."""

from golden_ops._schema import pointwise, pointwise_names

OFTEN = {
    "add.Tensor": 40, "sub.Tensor": 16, "mul.Tensor": 40, "div.Tensor": 24, "mul.Scalar": 16,
    "add_.Tensor": 24, "mul_.Tensor": 24, "relu.default": 16, "neg.default": 16, "exp.default": 16,
    "maximum.default": 16, "minimum.default": 16, "where.self": 16, "clamp.Tensor": 8,
}


# Ops on lists are a family of their own. _conj means nothing for the real tensors that are drawn.
UNASKED = ("_foreach_", "_amp_foreach_", "_fused_", "_conj")


def drawn_names():
    return [name for name in pointwise_names() if not name.startswith(UNASKED)]


OPS = {name: (OFTEN.get(name, 1), pointwise) for name in drawn_names()}
