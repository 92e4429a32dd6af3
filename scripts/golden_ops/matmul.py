"""Matrix products."""

from golden_ops import SIZES, TensorList


def sizes(rng, count):
    return [rng.choice([*SIZES, 4096]) for _ in range(count)]


def with_out(overload, tensors, out):
    return [*tensors, out] if overload == "out" else tensors


def product(rng, base, overload):
    m, n, k, b = sizes(rng, 4)
    if base == "dot":
        return [[m], [m]], []
    if base == "bmm":
        return with_out(overload, [[b, m, k], [b, k, n]], [b, m, n]), []
    return with_out(overload, [[m, k], [k, n]], [m, n]), []


def biased(rng, base, overload):
    m, n, k, b = sizes(rng, 4)
    numbers = [rng.choice([1.0, 0.5]), rng.choice([1.0, 2.0])] if rng.random() < 0.3 else []
    in_place = base.endswith("_")
    if base.startswith("addmm"):
        bias = [m, n] if in_place else rng.choice([[m, n], [n], [1, n], [m, 1]])
        return with_out(overload, [bias, [m, k], [k, n]], [m, n]), numbers
    bias = [b, m, n] if in_place else rng.choice([[b, m, n], [1, m, n], [b, 1, n], [m, n]])
    return with_out(overload, [bias, [b, m, k], [b, k, n]], [b, m, n]), numbers


def foreach(rng, base, overload):
    shapes = [[rng.choice([2, 4, 8, 9]) for _ in range(3)] for _ in range(rng.randint(1, 3))]
    return [TensorList([m, k] for m, k, _ in shapes), TensorList([k, n] for _, k, n in shapes)], []


def scaled(rng, base, overload):
    m, n, k = (rng.choice([16, 32, 128, 256, 512]) for _ in range(3))

    def tiles(rows):
        return -(-rows // 128) * 128 * (-(-(-(-2 * k // 16)) // 4) * 4)

    kinds = [[("f32", []), ("f32", [1])], [("f32", [m, 1]), ("f32", [1, n])]]
    if overload == "default":  # PyTorch refuses the following kinds with `out`
        kinds.append([("f8e4m3", [tiles(m)]), ("f8e4m3", [tiles(n)])])
        kinds.append([("f32", [m, -(-k // 128)]), ("f32", [-(-k // 128), n])])
    scales = rng.choice(kinds)
    tensors = [("f8e4m3", [m, k]), ("f8e4m3", [k, n]), *scales]
    args = [rng.choice(["bf16", "f32"]), rng.random() < 0.5] if rng.random() < 0.9 else []
    if overload == "out":
        return [*tensors, None, None, (args[0] if args else "f8e4m3", [m, n])], args
    return tensors, args


def grouped(rng, base, overload):
    m, n, k = (rng.choice([8, 16, 32, 64, 128]) for _ in range(3))
    groups = rng.choice([1, 2, 4, 8])
    stacks = rng.randrange(4)
    left = [groups, m, k] if stacks & 1 else [m, k]
    right = [groups, k, n] if stacks & 2 else [k, n]
    offsets = None if stacks == 3 else ("i32", [groups])
    args = ["bf16"] if rng.random() < 0.5 else []
    return [("bf16", left), ("bf16", right), offsets], args


OPS = {"mm": (6, product), "mm.out": (2, product), "addmm": (4, biased), "addmm.out": (2, biased),
       "addmm_": (2, biased), "bmm": (3, product), "bmm.out": (1, product), "baddbmm": (3, biased),
       "baddbmm.out": (1, biased), "baddbmm_": (1, biased), "dot": (1, product),
       "_foreach_mm": (1, foreach), "_scaled_mm": (4, scaled), "_scaled_mm.out": (1, scaled),
       "_grouped_mm": (4, grouped)}
