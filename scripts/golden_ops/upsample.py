"""Upsampling in one, two and three spatial dims, and its gradient."""

import re

FILTERED = ["_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_lanczos2d_aa", "upsample_bicubic2d",
            "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d"]
NEAREST = [f"{name}{dims}d" for name in ("_upsample_nearest_exact", "upsample_nearest") for dims in (1, 2, 3)]


def upsample(rng, base, overload):
    spatial = int(re.search(r"\d", base).group())
    lead = [rng.choice([1, 2, 4, 5, 8, 16]) for _ in range(2)]
    small = lead + [rng.choice([4, 6, 8, 9]) for _ in range(spatial)]
    extents = [rng.choice([4, 8, 12, 17]) for _ in range(spatial)]
    large = lead + extents
    corners = [] if "nearest" in base else [rng.random() < 0.5]
    scales = [2.0] * spatial if rng.random() < 0.2 else []
    if base.endswith("_backward"):
        return [large] + [small] * (overload != "default"), [extents, small, *corners, *scales]
    return [small] + [large] * (overload != "default"), [extents, *corners, *scales]


OPS = {name + form: (1, upsample) for name in FILTERED + NEAREST
       for form in ("", ".out", "_backward", "_backward.grad_input")}
