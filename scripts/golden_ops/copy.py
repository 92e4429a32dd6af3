"""Copies, casts and factories."""

from golden_ops import shape_of

DTYPES = ["f32", "bf16", "f64", "i64", "i32", "b8"]


def plain(rng, base, overload):
    return [shape_of(rng)], []


def cast(rng, base, overload):
    source = rng.choice(DTYPES)
    return [(source, shape_of(rng))], [rng.choice(DTYPES)] if rng.random() < 0.85 else []


def retyped(rng, base, overload):
    return [("f32", shape_of(rng))], [rng.choice(["i32", "f32"])]


def filled(rng, base, overload):
    return [shape_of(rng)], [rng.choice([0.0, 1.5])]


def drawn_between(rng, base, overload):
    return [shape_of(rng)], [2, 7] if overload == "low_dtype" else [7]


def new(rng, base, overload):
    shape = shape_of(rng)
    other = [*shape, 2]
    args = [other]
    if base == "new_full":
        args.append(1.5)
    if base == "new_empty_strided":
        strides = [1]
        for extent in reversed(other[1:]):
            strides.insert(0, strides[0] * extent)
        args.append(strides)
    return [shape], args


def compared(rng, base, overload):
    shape = shape_of(rng, ranks=(0, 1, 2, 2, 3))
    return [shape, list(shape)], []


# randint_like.low_dtype_out is left out: PyTorch itself refuses it, since it hands its own overload one argument too
# many. If the new shape is that of the input, PyTorch prices the candidate that follows the input at -0.1; that is not
# asked here.
OPS = {
    "_to_copy": (8, cast), "alias": (1, plain), "contiguous": (1, plain), "detach": (2, plain),
    "detach_": (1, plain), "empty_like": (1, plain), "equal": (1, compared),
    "is_same_size": (1, compared), "fill_.Scalar": (2, filled),
    "full_like": (1, filled), "new_empty": (1, new), "new_empty_strided": (1, new),
    "new_full": (1, new), "new_ones": (1, new), "new_zeros": (1, new), "ones_like": (1, plain),
    "rand_like": (1, plain), "randint_like": (1, drawn_between),
    "randint_like.low_dtype": (1, drawn_between), "randn_like": (1, plain),
    "view.dtype": (2, retyped), "zero_": (2, plain), "zeros_like": (1, plain),
}
DEFAULT_ORDER = {"equal", "is_same_size"}
