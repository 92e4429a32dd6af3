"""Convolutions, forward and backward, in 1 to 3 spatial dims."""


def window(rng, transposed):
    """The shapes of input and weight, the output channels, and the arguments of the forward op."""
    dims = rng.choice([1, 2, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 4])
    out, channels = (groups * rng.choice([1, 2, 3, 4]) for _ in range(2))
    kernel = [rng.choice([1, 2, 3, 4]) for _ in range(dims)]
    extents = [rng.choice([4, 6, 8, 9, 16, 64]) for _ in range(dims)]
    stride = [rng.choice([k, 1, 2]) for k in kernel]
    padding = [rng.choice([0, 0, k // 2]) for k in kernel]
    dilation = [rng.choice([1, 1, 2]) if k < 3 else 1 for k in kernel]
    weight = [channels, out // groups] if transposed else [out, channels // groups]
    args = [stride, padding, dilation, transposed, [0] * dims, groups]
    return [rng.choice([1, 2, 4, 5, 8, 16]), channels, *extents], weight + kernel, out, args


def output_of(shape, weight, out, args):
    stride, padding, dilation, transposed = args[:4]
    extents = []
    for d, s, p, dil, k in zip(shape[2:], stride, padding, dilation, weight[2:]):
        reach = dil * (k - 1) + 1
        extents.append((d - 1) * s - 2 * p + reach if transposed else (d + 2 * p - reach) // s + 1)
    return [shape[0], out, *extents]


def forward(rng, base, overload):
    shape, weight, out, args = window(rng, rng.random() < 0.15)
    return [shape, weight, [out] if rng.random() < 0.6 else None], args


def backward(rng, base, overload):
    shape, weight, out, args = window(rng, rng.random() < 0.15)
    bias = [out] if rng.random() < 0.6 else None
    mask = [True, True, bias is not None] if rng.random() < 0.7 else rng.choice(
        [[True, True, False], [False, True, False], [True, False, False]])
    return [output_of(shape, weight, out, args), shape, weight], [bias, *args, mask]


OPS = {"convolution": (2, forward), "convolution_backward": (3, backward)}
