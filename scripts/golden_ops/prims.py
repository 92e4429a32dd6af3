"""The prims that DTensor has strategies for. Their tensors have one shape and one dtype.

conj_physical is left out, since it takes complex tensors alone. PyTorch's kernel of var has no dtype, and fails where the
dispatcher leaves out the correction because it is the default.
"""

from golden_ops import shape_of

WHOLE = ("bitwise_not", "gcd")
DTYPES = ["f32", "bf16", "f64", "i64", "i32", "b8"]


def unary(rng, base, overload):
    shape = shape_of(rng)
    return [("i32", shape) if base in WHOLE else shape], []


def binary(rng, base, overload):
    tensors, args = unary(rng, base, overload)
    return tensors * 2, args


def cast(rng, base, overload):
    return [(rng.choice(DTYPES), shape_of(rng))], [rng.choice(DTYPES)]


def reduced(rng, base, overload):
    shape = shape_of(rng)
    dims = sorted(rng.sample(range(len(shape)), rng.randint(0, len(shape))))
    if base == "var":
        return [shape], [dims, 0.0]
    return [shape], [dims, "f64"] if rng.random() < 0.2 else [dims]


UNARY = ("abs bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bitwise_not digamma erfcx exp2 frexp log2 "
         "ndtri reciprocal rsqrt sign signbit spherical_bessel_j0 trunc view_of")
BINARY = "copy_to div fmax fmin gcd hypot igamma igammac maximum minimum ne nextafter zeta"
REDUCED = "amax amin prod sum var"

OPS = {
    **{f"prims.{name}": (1, unary) for name in UNARY.split()},
    **{f"prims.{name}": (1, binary) for name in BINARY.split()},
    **{f"prims.{name}": (3, reduced) for name in REDUCED.split()},
    "prims.convert_element_type": (8, cast),
}
