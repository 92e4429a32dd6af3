// Samples of ops on lists. The lists have one element, since a rule covers one element of the
// lists.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace foreach_samples {

constexpr std::string_view kAdam =
    "[f32[4,6]] | [f32[4,6]] | [f32[4,6]] | [f32[4,6] positive] | [f32[4,6] positive] | "
    "[f32[] positive]";
constexpr std::string_view kAdamWithLr =
    "[f32[4,6]] | [f32[4,6]] | [f32[4,6]] | [f32[4,6] positive] | [f32[4,6] positive] | "
    "[f32[] positive] | f32[] positive";
constexpr std::string_view kNumbers = "[0.25, 0.5, 0.5, 0.0, 0.25, true, false]";
constexpr std::string_view kOtherNumbers = "[0.5, 0.5, 0.0, 0.25, true, false]";

constexpr OpSample kSamples[] = {
    {"aten._amp_foreach_non_finite_check_and_unscale_.default", "[f32[4,6]] | f32[1] few | f32[]"},
    {"aten._foreach_addcdiv_.Tensor", "[f32[4,6]] | [f32[4,6]] | [f32[4,6] positive] | f32[1]"},
    {"aten._foreach_addcmul_.Tensor", "[f32[4,6]] | [f32[4,6]] | [f32[4,6]] | f32[1]"},
    {"aten._foreach_zero_.default", "[f32[4,6]]"},
    {"aten._fused_adam.default", kAdam, kNumbers},
    {"aten._fused_adam.tensor_lr", kAdamWithLr, kOtherNumbers},
    {"aten._fused_adam_.default", kAdam, kNumbers},
    {"aten._fused_adam_.tensor_lr", kAdamWithLr, kOtherNumbers},
    {"aten._fused_adamw.default", kAdam, kNumbers},
    {"aten._fused_adamw.tensor_lr", kAdamWithLr, kOtherNumbers},
    {"aten._fused_adamw_.default", kAdam, kNumbers},
    {"aten._fused_adamw_.tensor_lr", kAdamWithLr, kOtherNumbers},
};

}  // namespace foreach_samples

OP_SAMPLES(foreach){foreach_samples::kSamples};

}  // namespace shardlab
