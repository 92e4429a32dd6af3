// Samples of softmax and its backward.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace softmax_samples {

constexpr OpSample kSamples[] = {
    {"aten._log_softmax.default", "f32[4,6]", R"([1, false])"},
    {"aten._log_softmax.default", "f32[6,5,4]", R"([-2, false])"},
    {"aten._log_softmax_backward_data.default", "f32[4,6] | f32[4,6] unit", R"([1, "f32"])"},
    {"aten._log_softmax_backward_data.default", "f32[6,5,4] | f32[6,5,4] unit", R"([-2, "f32"])"},
    {"aten._safe_softmax.default", "f32[4,6]", R"([1])"},
    {"aten._safe_softmax.default", "f32[6,5,4]", R"([-2])"},
    {"aten._softmax.default", "f32[4,6]", R"([1, false])"},
    {"aten._softmax.default", "f32[6,5,4]", R"([-2, false])"},
    {"aten._softmax_backward_data.default", "f32[4,6] | f32[4,6] unit", R"([1, "f32"])"},
    {"aten._softmax_backward_data.default", "f32[6,5,4] | f32[6,5,4] unit", R"([-2, "f32"])"},
};

}  // namespace softmax_samples

OP_SAMPLES(softmax){softmax_samples::kSamples};

}  // namespace shardlab
