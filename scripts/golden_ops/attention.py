"""Fused scaled-dot-product attention and its gradients."""

BATCH, HEADS, ROWS, DEPTH = [1, 2, 4, 6, 8], [1, 2, 3, 4, 8, 12, 16], [1, 4, 16, 33, 64, 256], [8, 16, 64]


def operands(rng):
    b, h, m, d = rng.choice(BATCH), rng.choice(HEADS), rng.choice(ROWS), rng.choice(DEPTH)
    n = m if rng.random() < 0.7 else rng.choice(ROWS)
    return [b, h, m, d], [b, h, n, d], [b, h, n, d]


def forward(rng, base, overload):
    query, key, value = operands(rng)
    causal, mask = rng.random() < 0.5, rng.random() < 0.3
    if "flash" in base:
        return [query, key, value], [0.0, causal, mask] if mask or rng.random() < 0.5 else []
    bias = None
    if "efficient" in base and rng.random() < 0.4:
        bias = [*query[:3], key[2]]
    args = [rng.random() < 0.5, 0.0, causal]
    return [query, key, value, bias], args + [mask] if "cudnn" in base else args


def backward(rng, base, overload):
    query, key, value = operands(rng)
    b, h, m, _ = query
    head = [list(query), query, key, value]
    causal = rng.random() < 0.5
    bias = [b, h, m, key[2]] if rng.random() < 0.4 else None
    state = [("i64", []), ("i64", [])]
    if "efficient" in base:
        sums = ("f32", [b, h, -(-m // 32) * 32])
        mask = [True, True, True, bias is not None]
        return [*head, bias, list(query), sums, *state], [0.0, mask, causal]
    args = [m, key[2], 0.0, causal]
    if "cudnn" in base:
        return [*head, list(query), ("f32", [b, h, m, 1]), *state, bias, None, None], args
    offsets = [("i64", [b + 1])] * 2 if rng.random() < 0.2 else [None, None]
    states = state if rng.random() < 0.7 else [None, None]
    return [*head, list(query), ("f32", [b, h, m]), *offsets, *states], args


OPS = {
    "_scaled_dot_product_flash_attention": (3, forward),
    "_scaled_dot_product_flash_attention_backward": (2, backward),
    "_scaled_dot_product_efficient_attention": (3, forward),
    "_scaled_dot_product_efficient_attention_backward": (2, backward),
    "_scaled_dot_product_cudnn_attention": (2, forward),
    "_scaled_dot_product_cudnn_attention_backward": (2, backward),
}
