"""On a CPU, PyTorch breaks some operations down that are one kernel each on CUDA. Inside `cuda_kernels()` they are the CUDA
kernels on any device, so that a recording asks DTensor what a run on GPUs asks it. Tensors must be fake: no kernel
exists that could compute them here.
"""

import contextlib
from unittest import mock

import torch

aten = torch.ops.aten


class FusedRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(context, x, shape, weight, eps):
        context.shape = shape
        with torch._C._AutoDispatchBelowAutograd():
            y, rstd = aten._fused_rms_norm(x, shape, weight, eps)
        context.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(context, grad):
        x, weight, rstd = context.saved_tensors
        mask = [context.needs_input_grad[0], context.needs_input_grad[2]]
        dx, dw = aten._fused_rms_norm_backward(grad, x, context.shape, rstd, weight, mask)
        return dx, None, dw, None


def rms_norm(x, normalized_shape, weight=None, eps=None):
    return FusedRmsNorm.apply(x, list(normalized_shape), weight, eps)


def flash_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if attn_mask is not None:
        raise ValueError("flash attention takes no mask")
    return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]


@contextlib.contextmanager
def cuda_kernels():
    functional = torch.nn.functional
    with mock.patch.object(functional, "rms_norm", rms_norm), \
            mock.patch.object(functional, "scaled_dot_product_attention", flash_attention):
        yield
