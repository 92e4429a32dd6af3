"""Pooling in two spatial dims."""


def image(rng):
    batched = rng.random() < 0.75
    lead = [rng.choice([1, 2, 4, 5, 8, 16]) for _ in range(1 + batched)]
    return lead + [rng.choice([4, 6, 8, 9, 16]) for _ in range(2)]


def window(rng):
    kernel = [rng.choice([1, 2, 3, 4]) for _ in range(2)]
    stride = [] if rng.random() < 0.4 else [rng.choice([1, 2, 3]) for _ in range(2)]
    return kernel, stride, [rng.choice([0, k // 2]) for k in kernel]


def max_pool(rng, base, overload):
    kernel, stride, padding = window(rng)
    return [image(rng)], [kernel, stride, padding, [1, 1], rng.random() < 0.3]


def max_pool_backward(rng, base, overload):
    shape = image(rng)
    kernel, stride, padding = window(rng)
    places = [(d + 2 * p - k) // s + 1
              for d, k, s, p in zip(shape[-2:], kernel, stride or kernel, padding)]
    output = shape[:-2] + places
    return [output, shape, ("i64", output)], [kernel, stride or kernel, padding, [1, 1], False]


def avg_pool(rng, base, overload):
    kernel, stride, padding = window(rng)
    return [image(rng)], [kernel, stride, padding, rng.random() < 0.3, rng.random() < 0.5]


def adaptive(rng, base, overload):
    return [image(rng)], [[rng.choice([1, 2, 3]) for _ in range(2)]]


OPS = {"max_pool2d_with_indices": (2, max_pool), "avg_pool2d": (2, avg_pool),
       "_adaptive_avg_pool2d": (2, adaptive), "max_pool2d_with_indices_backward": (2, max_pool_backward)}
