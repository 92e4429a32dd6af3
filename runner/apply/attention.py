

def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    """CUDA's kernel; on a CPU, the CPU's. Returns the results that are tensors."""
    if query.is_cuda:
        kernel = aten._scaled_dot_product_flash_attention.default
        return tensors(kernel(query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale))
    kernel = aten._scaled_dot_product_flash_attention_for_cpu.default
    empty = query.new_zeros([2], dtype=torch.int64)
    made = kernel(query, key, value, dropout_p, is_causal, scale=scale)
    return [*made, empty, empty[0], query.new_zeros([0])]


def flash_attention_backward(grad, query, key, value, out, sums, starts_q, starts_k, most_q, most_k, dropout_p,
                             is_causal, seed, offset, *, scale=None):  # fmt: skip
    """CUDA's kernel; on a CPU, the CPU's."""
    if query.is_cuda:
        kernel = aten._scaled_dot_product_flash_attention_backward.default
        return kernel(grad, query, key, value, out, sums, starts_q, starts_k, most_q, most_k, dropout_p, is_causal,
                      seed, offset, scale=scale)  # fmt: skip
    kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    return kernel(grad, query, key, value, out, sums, dropout_p, is_causal, scale=scale)


def efficient_attention(query, key, value, bias, with_sums, dropout_p=0.0, is_causal=False, *, scale=None):
    """CUDA's kernel; on a CPU, the CPU's flash attention."""
    if query.is_cuda:
        kernel = aten._scaled_dot_product_efficient_attention.default
        return tensors(kernel(query, key, value, bias, with_sums, dropout_p, is_causal, scale=scale))
    kernel = aten._scaled_dot_product_flash_attention_for_cpu.default
    empty = query.new_zeros([], dtype=torch.int64)
    return [*kernel(query, key, value, dropout_p, is_causal, attn_mask=bias, scale=scale), empty, empty]


def efficient_attention_backward(grad, query, key, value, bias, out, sums, seed, offset, dropout_p, wanted,
                                 is_causal=False, *, scale=None):  # fmt: skip
    """CUDA's kernel; on a CPU, the CPU's flash attention, and the gradient of the bias by its formula."""
    if query.is_cuda:
        kernel = aten._scaled_dot_product_efficient_attention_backward.default
        return tensors(kernel(grad, query, key, value, bias, out, sums, seed, offset, dropout_p, wanted, is_causal,
                              scale=scale))  # fmt: skip
    kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    made = list(kernel(grad, query, key, value, out, sums, dropout_p, is_causal, attn_mask=bias, scale=scale))
    if wanted[3]:
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale) + bias
        if is_causal:
            above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(above, -math.inf)
        shares = scores.softmax(-1)
        made.append(shares * (grad @ value.mT - (grad * out).sum(-1, keepdim=True)))
    return [each for each, asked in zip(made, wanted) if asked]
