"""Pooling in two and three spatial dims, its gradients and unpooling."""


def image(rng, dims=2):
    batched = rng.random() < 0.75
    lead = [rng.choice([1, 2, 4, 5, 8, 16]) for _ in range(1 + batched)]
    return lead + [rng.choice([4, 6, 8, 9, 16]) for _ in range(dims)]


def dims_of(base):
    return 3 if "3d" in base else 2


def window(rng, dims=2):
    kernel = [rng.choice([1, 2, 3, 4]) for _ in range(dims)]
    stride = [] if rng.random() < 0.4 else [rng.choice([1, 2, 3]) for _ in range(dims)]
    return kernel, stride, [rng.choice([0, k // 2]) for k in kernel]


def max_pool(rng, base, overload):
    dims = dims_of(base)
    kernel, stride, padding = window(rng, dims)
    return [image(rng, dims)], [kernel, stride, padding, [1] * dims, rng.random() < 0.3]


def max_pool_backward(rng, base, overload):
    shape = image(rng)
    kernel, stride, padding = window(rng)
    places = [(d + 2 * p - k) // s + 1
              for d, k, s, p in zip(shape[-2:], kernel, stride or kernel, padding)]
    output = shape[:-2] + places
    return [output, shape, ("i64", output)], [kernel, stride or kernel, padding, [1, 1], False]


def avg_pool(rng, base, overload):
    dims = dims_of(base)
    kernel, stride, padding = window(rng, dims)
    return [image(rng, dims)], [kernel, stride, padding, rng.random() < 0.3, rng.random() < 0.5]


def adaptive(rng, base, overload):
    dims = dims_of(base)
    return [image(rng, dims)], [[rng.choice([1, 2, 3]) for _ in range(dims)]]


def adaptive_backward(rng, base, overload):
    shape = image(rng)
    return [shape[:-2] + [rng.choice([1, 2, 3]) for _ in range(2)], shape], []


def unpool(rng, base, overload):
    dims = dims_of(base)
    shape = image(rng, dims)
    windows = [[2] * dims, [0] * dims] if dims == 3 else []
    return [shape, ("i64", shape)], [[2 * extent for extent in shape[-dims:]], *windows]


OPS = {"max_pool2d_with_indices": (2, max_pool), "avg_pool2d": (2, avg_pool),
       "_adaptive_avg_pool2d": (2, adaptive), "max_pool2d_with_indices_backward": (2, max_pool_backward),
       "max_pool3d_with_indices": (1, max_pool), "avg_pool3d": (1, avg_pool),
       "_adaptive_avg_pool3d": (1, adaptive), "adaptive_max_pool2d": (1, adaptive),
       "adaptive_max_pool3d": (1, adaptive), "_adaptive_avg_pool2d_backward": (1, adaptive_backward),
       "max_unpool2d": (1, unpool), "max_unpool3d": (1, unpool)}
