// Samples of ops that are sharded through their decomposition. The argument of losses is their
// reduction: 0 (none), 1 (mean) or 2 (sum).
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace decomposed_samples {

constexpr OpSample kSamples[] = {
    {"aten._addmm_activation.default", "f32[6] | f32[4,6] | f32[6,6]"},
    {"aten._addmm_activation.default", "f32[4,5] | f32[4,6] | f32[6,5]", "[2.0, 0.5, true]"},
    {"aten._prelu_kernel.default", "f32[4,6] | f32[6]"},
    {"aten._prelu_kernel.default", "f32[5,6] | f32[1]"},
    {"aten.addmv.default", "f32[4] | f32[4,6] | f32[6]"},
    {"aten.addmv.default", "f32[1] | f32[5,6] | f32[6]", "[2.0, -0.5]"},
    {"aten.aminmax.default", "f32[4,6]"},
    {"aten.aminmax.default", "f32[6,5]", "[1, false]"},
    {"aten.aminmax.default", "f32[6,5]", "[-2, true]"},
    {"aten.binary_cross_entropy.default", "f32[4,6] positive | f32[4,6]", "[0]"},
    {"aten.binary_cross_entropy_backward.default", "f32[4,6] | f32[4,6] unit | f32[4,6]", "[0]"},
    {"aten.binary_cross_entropy_backward.default", "f32[] | f32[6,5] unit | f32[6,5] | f32[6,5]",
     "[1]"},
    {"aten.binary_cross_entropy_backward.default", "f32[] | f32[6,5] unit | f32[6,5]", "[2]"},
    {"aten.binary_cross_entropy_with_logits.default", "f32[4,6] | f32[4,6]", "[0]"},
    {"aten.binary_cross_entropy_with_logits.default", "f32[6,5] | f32[6,5] | f32[5]", "[1]"},
    {"aten.binary_cross_entropy_with_logits.default", "f32[6,5] | f32[6,5] | none | f32[5]", "[2]"},
    {"aten.elu_backward.default", "f32[4,6] | f32[4,6]", "[1.0, 1.0, 1.0, false]"},
    {"aten.elu_backward.default", "f32[5] | f32[5]", "[1.0, 2.0, 1.0, true]"},
    {"aten.hardswish.default", "f32[4,6]"},
    {"aten.hardswish.default", "f32[5]"},
    {"aten.huber_loss.default", "f32[4,6] | f32[4,6]", "[0, 1.0]"},
    {"aten.huber_loss.default", "f32[4,6] | f32[4,6]", "[1, 2.0]"},
    {"aten.huber_loss.default", "f32[6,5] | f32[6,5]", "[2, 1.0]"},
    {"aten.huber_loss_backward.default", "f32[4,6] | f32[4,6] | f32[4,6]", "[0, 1.0]"},
    {"aten.huber_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[1, 2.0]"},
    {"aten.huber_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[2, 1.0]"},
    {"aten.l1_loss.default", "f32[4,6] | f32[4,6]", "[0]"},
    {"aten.l1_loss.default", "f32[4,6] | f32[4,6]", "[1]"},
    {"aten.l1_loss.default", "f32[6,5] | f32[6,5]", "[2]"},
    {"aten.leaky_relu_backward.default", "f32[4,6] | f32[4,6]", "[0.5, false]"},
    {"aten.leaky_relu_backward.default", "f32[5] | f32[5]", "[-0.5, false]"},
    {"aten.log_sigmoid_forward.default", "f32[4,6]"},
    {"aten.log_sigmoid_forward.default", "f32[5]"},
    {"aten.margin_ranking_loss.default", "f32[4,6] | f32[4,6] | f32[4,6]", "[0.0, 1]"},
    {"aten.margin_ranking_loss.default", "f32[5] | f32[5] | f32[5]", "[0.5, 1]"},
    {"aten.masked_fill.Tensor", "f32[4,6] | b8[4,6] | f32[]"},
    {"aten.masked_fill.Tensor", "f32[6,5] | b8[5] | f32[]"},
    {"aten.mse_loss.default", "f32[4,6] | f32[4,6]", "[0]"},
    {"aten.mse_loss.default", "f32[4,6] | f32[6]", "[1]"},
    {"aten.mse_loss.default", "f32[6,5] | f32[6,5]", "[2]"},
    {"aten.mse_loss_backward.default", "f32[4,6] | f32[4,6] | f32[4,6]", "[0]"},
    {"aten.mse_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[1]"},
    {"aten.mse_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[2]"},
    {"aten.rsub.Tensor", "f32[4,6] | f32[4,6]"},
    {"aten.rsub.Tensor", "f32[6,5] | f32[5]"},
    {"aten.smooth_l1_loss.default", "f32[4,6] | f32[4,6]", "[0, 1.0]"},
    {"aten.smooth_l1_loss.default", "f32[4,6] | f32[4,6]", "[1, 2.0]"},
    {"aten.smooth_l1_loss.default", "f32[6,5] | f32[6,5]", "[2, 1.0]"},
    {"aten.smooth_l1_loss_backward.default", "f32[4,6] | f32[4,6] | f32[4,6]", "[0, 1.0]"},
    {"aten.smooth_l1_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[1, 2.0]"},
    {"aten.smooth_l1_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[2, 1.0]"},
    {"aten.soft_margin_loss.default", "f32[4,6] unit | f32[4,6]", "[0]"},
    {"aten.soft_margin_loss.default", "f32[4,6] unit | f32[4,6]", "[1]"},
    {"aten.soft_margin_loss.default", "f32[6,5] unit | f32[6,5]", "[2]"},
    {"aten.soft_margin_loss_backward.default", "f32[4,6] | f32[4,6] | f32[4,6]", "[0]"},
    {"aten.soft_margin_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[1]"},
    {"aten.soft_margin_loss_backward.default", "f32[] | f32[6,5] | f32[6,5]", "[2]"},
    {"aten.softplus_backward.default", "f32[4,6] | f32[4,6]", "[1.0, 20.0]"},
    {"aten.softplus_backward.default", "f32[5] | f32[5]", "[2.0, 4.0]"},
    {"aten.special_ndtr.default", "f32[4,6]"},
    {"aten.special_ndtr.default", "f32[5]"},
    {"aten.vdot.default", "f32[6] | f32[6]"},
    {"aten.vdot.default", "f32[5] | f32[5]"},
};

}  // namespace decomposed_samples

OP_SAMPLES(decomposed){decomposed_samples::kSamples};

}  // namespace shardlab
