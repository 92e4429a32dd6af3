"""Matrix products."""

from golden_ops import SIZES


def sizes(rng, count):
    return [rng.choice([*SIZES, 4096]) for _ in range(count)]


def product(rng, base, overload):
    m, n, k, b = sizes(rng, 4)
    shapes = {"mm": [[m, k], [k, n]], "bmm": [[b, m, k], [b, k, n]], "dot": [[m], [m]], "mv": [[m, k], [k]]}
    return shapes[base], []


def biased(rng, base, overload):
    m, n, k, b = sizes(rng, 4)
    if base == "addmm":
        return [rng.choice([[m, n], [n], [1, n], [m, 1]]), [m, k], [k, n]], []
    bias = rng.choice([[b, m, n], [1, m, n], [b, 1, n], [m, n]])
    return [bias, [b, m, k], [b, k, n]], []


OPS = {"mm": (8, product), "addmm": (4, biased), "bmm": (3, product), "baddbmm": (3, biased),
       "dot": (1, product), "mv": (1, product)}
