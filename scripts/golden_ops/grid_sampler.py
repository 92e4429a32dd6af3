"""Sampling images at the places of a grid, and the gradients of that."""


def sampled(rng, base, overload):
    dims = 3 if "3d" in base else 2
    batch, channels = rng.choice([1, 2, 4, 8]), rng.choice([1, 3, 4, 16])
    image = [batch, channels, *(rng.choice([4, 5, 8]) for _ in range(dims))]
    places = [rng.choice([3, 4, 8]) for _ in range(dims)]
    mode = [rng.choice([0, 1] if dims == 3 else [0, 1, 2]), rng.choice([0, 1, 2]), rng.random() < 0.5]
    grid = [batch, *places, dims]
    if base.endswith("backward"):
        return [[batch, channels, *places], image, grid], [*mode, [rng.random() < 0.8, rng.random() < 0.8]]
    return [image, grid], mode


OPS = {name: (1, sampled) for name in ("grid_sampler_2d", "grid_sampler_2d_backward", "grid_sampler_3d",
                                       "grid_sampler_3d_backward")}
