// Ops that are computed by their decomposition, step by step.
#include "strategies/proof/decomposed_execution.h"

namespace shardlab {
namespace decomposed_kernels {

constexpr OpKernel kKernels[] = {
    {.name = "_addmm_activation", .run = run_decomposed},
    {.name = "_prelu_kernel", .run = run_decomposed},
    {.name = "addmv", .run = run_decomposed},
    {.name = "aminmax", .run = run_decomposed},
    {.name = "binary_cross_entropy", .run = run_decomposed},
    {.name = "binary_cross_entropy_backward", .run = run_decomposed},
    {.name = "binary_cross_entropy_with_logits", .run = run_decomposed},
    {.name = "elu_backward", .run = run_decomposed},
    {.name = "hardswish", .run = run_decomposed},
    {.name = "huber_loss", .run = run_decomposed},
    {.name = "huber_loss_backward", .run = run_decomposed},
    {.name = "l1_loss", .run = run_decomposed},
    {.name = "leaky_relu_backward", .run = run_decomposed},
    {.name = "log_sigmoid_forward", .run = run_decomposed},
    {.name = "margin_ranking_loss", .run = run_decomposed},
    {.name = "masked_fill.Tensor", .run = run_decomposed},
    {.name = "mse_loss", .run = run_decomposed},
    {.name = "mse_loss_backward", .run = run_decomposed},
    {.name = "rsub.Tensor", .run = run_decomposed},
    {.name = "smooth_l1_loss", .run = run_decomposed},
    {.name = "smooth_l1_loss_backward", .run = run_decomposed},
    {.name = "soft_margin_loss", .run = run_decomposed},
    {.name = "soft_margin_loss_backward", .run = run_decomposed},
    {.name = "softplus_backward", .run = run_decomposed},
    {.name = "special_ndtr", .run = run_decomposed},
    {.name = "vdot", .run = run_decomposed},
};

}  // namespace decomposed_kernels

OP_KERNELS(decomposed){decomposed_kernels::kKernels};

}  // namespace shardlab
