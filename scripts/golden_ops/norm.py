"""Layer, rms, batch and group norms and their backwards."""

from golden_ops import shape_of


def some(rng, shape):
    """A weight or bias that may be missing."""
    return shape if rng.random() < 0.6 else None


def normalized(rng):
    shape = shape_of(rng, ranks=(1, 2, 2, 3, 3))
    axis = rng.randrange(len(shape))
    return shape, shape[axis:], shape[:axis] + [1] * (len(shape) - axis)


def layer(rng, base, overload):
    shape, affine, _ = normalized(rng)
    tensors = [shape, some(rng, affine)] + ([some(rng, affine)] if "layer" in base else [])
    return tensors, [affine, 1e-5]


def layer_backward(rng, base, overload):
    """The output mask, which leaves out the outputs of missing tensors: PyTorch 2.13.0 mixes None with placements there."""
    shape, affine, kept = normalized(rng)
    weight, bias = some(rng, affine), some(rng, affine)
    if "rms" in base:
        return [shape, shape, kept, weight], [affine, [True, weight is not None or rng.random() < 0.5]]
    mask = [True] + [tensor is not None or rng.random() < 0.5 for tensor in (weight, bias)]
    return [shape, shape, kept, kept, weight, bias], [affine, mask]


def channels(rng):
    return shape_of(rng, ranks=(2, 3, 3, 4), sizes=[2, 3, 4, 5, 6, 8, 8, 16, 16, 17])


def batch(rng, base, overload):
    shape = channels(rng)
    own = [shape[1]]
    updates = base == "_batch_norm_with_update"  # its fake kernel needs both running statistics
    tensors = [shape] + ([own, own] if updates else [some(rng, own), some(rng, own)])
    training = rng.random() < 0.5
    if overload != "no_stats":
        there = base != "native_batch_norm" or not training or rng.random() < 0.7
        tensors += [own, own] if there else [None, None]
    flag = [training or overload == "no_stats"]
    return tensors, (flag if base in ("native_batch_norm", "_native_batch_norm_legit") else []) + [0.1, 1e-5]


def batch_backward(rng, base, overload):
    shape = channels(rng)
    own = [shape[1]]
    running = [own, own] if rng.random() < 0.7 else [None, None]
    training = running == [None, None] or rng.random() < 0.5
    return [shape, shape, some(rng, own), *running, own, own], [training, 1e-5, [True] * 3]


def group(rng, base, overload):
    shape = channels(rng)
    count = rng.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
    rest = 1
    for extent in shape[2:]:
        rest *= extent
    own = [shape[1]]
    return [shape, some(rng, own), some(rng, own)], [shape[0], shape[1], rest, count, 1e-5]


OPS = {
    "native_layer_norm": (3, layer), "native_layer_norm_backward": (3, layer_backward),
    "_fused_rms_norm": (2, layer), "_fused_rms_norm_backward": (2, layer_backward),
    "native_batch_norm": (2, batch), "_native_batch_norm_legit": (1, batch),
    "_native_batch_norm_legit.no_stats": (1, batch), "_native_batch_norm_legit_no_training": (1, batch),
    "_batch_norm_with_update": (1, batch), "native_batch_norm_backward": (2, batch_backward),
    "native_group_norm": (2, group),
}
