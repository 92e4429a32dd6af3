"""Views: reshapes of every kind, dims exchanged, dropped, added, expanded and repeated."""

import math

from golden_ops import dim_of

EXTENTS = [1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16]


def shape_for(rng):
    return [rng.choice(EXTENTS) for _ in range(rng.choice([1, 2, 2, 2, 3, 3, 4]))]


def factors_of(extent):
    factors, factor = [], 2
    while extent > 1:
        while extent % factor == 0:
            factors.append(factor)
            extent //= factor
        factor += 1
    return factors


def split_at_random(rng, extent, parts):
    result = [1] * parts
    for factor in factors_of(extent):
        result[rng.randrange(parts)] *= factor
    return result


def other_shape(rng, shape):
    """A shape of as many elements: some dims flattened, split or both, or a new shape altogether."""
    if rng.random() < 0.15:
        return split_at_random(rng, math.prod(shape), rng.randint(1, 3))
    result, rest = [], list(shape)
    while rest:
        take = min(len(rest), rng.choice([1, 1, 2, 2, 3]))
        whole, rest = rest[:take], rest[take:]
        kind = rng.random()
        if kind < 0.45:
            result.append(math.prod(whole))
        elif kind < 0.75:
            result += split_at_random(rng, math.prod(whole), rng.randint(2, 3))
        else:
            result += whole
        if rng.random() < 0.06:
            result.append(1)
    return result


def reshape(rng, base, overload):
    shape = shape_for(rng)
    if rng.random() < 0.3:  # a dim that is long enough for the pieces of strided shards to be whole
        shape[rng.randrange(len(shape))] = rng.choice([24, 32, 48, 64])
    target = other_shape(rng, shape)
    if target and rng.random() < 0.25:
        target[rng.randrange(len(target))] = -1
    return [shape], [target]


def expand(rng, base, overload):
    shape = [1 if rng.random() < 0.3 else extent for extent in shape_for(rng)]
    target = [rng.choice([1, 2, 3, 4]) if extent == 1 and rng.random() < 0.5
              else rng.choice([extent, -1]) for extent in shape]
    return [shape], [[rng.choice([1, 2, 5]) for _ in range(rng.choice([0, 0, 1, 2]))] + target]


def repeat(rng, base, overload):
    shape = shape_for(rng)
    count = len(shape) + rng.choice([0, 0, 1])
    return [shape], [[rng.choice([1, 1, 2, 3]) for _ in range(count)]]


def permute(rng, base, overload):
    shape = shape_for(rng)
    dims = rng.sample(range(len(shape)), len(shape))
    return [shape], [[d - len(shape) if rng.random() < 0.2 else d for d in dims]]


def transpose(rng, base, overload):
    shape = shape_for(rng)
    return [shape], [dim_of(rng, shape), dim_of(rng, shape)]


def t(rng, base, overload):
    return [shape_for(rng)[:2]], []


def squeeze(rng, base, overload):
    shape = [1 if rng.random() < 0.25 else extent for extent in shape_for(rng)]
    if overload == "dim":
        return [shape], [dim_of(rng, shape)]
    if overload == "dims":
        dims = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        return [shape], [[d - len(shape) if rng.random() < 0.2 else d for d in dims]]
    return [shape], []


def unsqueeze(rng, base, overload):
    shape = shape_for(rng)
    return [shape], [rng.randint(-len(shape) - 1, len(shape))]


OPS = {"view": (12, reshape), "_unsafe_view": (3, reshape), "reshape": (8, reshape),
       "view_copy": (3, reshape), "expand": (2, expand), "expand_copy": (1, expand),
       "permute": (1, permute), "repeat": (2, repeat), "squeeze": (1, squeeze),
       "squeeze.dim": (1, squeeze), "squeeze.dims": (1, squeeze), "squeeze_": (1, squeeze),
       "squeeze_.dim": (1, squeeze), "squeeze_.dims": (1, squeeze), "t": (1, t),
       "transpose.int": (1, transpose), "unsqueeze": (1, unsqueeze)}
# A view reads strided shards as placements of their own, not as a shard order.
OPAQUE_STRIDED = set(OPS)
# PyTorch keeps the shard order of the input of these ops, and loses it in the result.
DEFAULT_ORDER = {"t"}
