// Samples of the negative log likelihood.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace loss_samples {

constexpr OpSample kSamples[] = {
    {"aten.nll_loss2d_backward.default",
     "f32[4,6,2] | f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive | f32[] positive",
     R"([0, -100])"},
    {"aten.nll_loss2d_backward.default",
     "f32[] | f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive | f32[] positive",
     R"([1, -100])"},
    {"aten.nll_loss2d_backward.default",
     "f32[] | f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive | f32[] positive",
     R"([2, -100])"},
    {"aten.nll_loss2d_forward.default", "f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive",
     R"([0, -100])"},
    {"aten.nll_loss2d_forward.default", "f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive",
     R"([1, -100])"},
    {"aten.nll_loss2d_forward.default", "f32[4,3,6,2] | i64[4,6,2] below 3 | f32[3] positive",
     R"([2, -100])"},
    {"aten.nll_loss_backward.default", "f32[6] | f32[6,4] | i64[6] below 4 | none | f32[] positive",
     R"([0, -100])"},
    {"aten.nll_loss_backward.default",
     "f32[6] | f32[6,5] | i64[6] below 5 | f32[5] positive | f32[] positive", R"([0, 2])"},
    {"aten.nll_loss_backward.default", "f32[] | f32[6,4] | i64[6] below 4 | none | f32[] positive",
     R"([1, -100])"},
    {"aten.nll_loss_backward.default",
     "f32[] | f32[6,5] | i64[6] below 5 | f32[5] positive | f32[] positive", R"([1, 2])"},
    {"aten.nll_loss_backward.default", "f32[] | f32[6,4] | i64[6] below 4 | none | f32[] positive",
     R"([2, -100])"},
    {"aten.nll_loss_backward.default",
     "f32[] | f32[6,5] | i64[6] below 5 | f32[5] positive | f32[] positive", R"([2, 2])"},
    {"aten.nll_loss_forward.default", "f32[6,4] | i64[6] below 4 | none", R"([0, -100])"},
    {"aten.nll_loss_forward.default", "f32[6,5] | i64[6] below 5 | f32[5] positive", R"([0, 2])"},
    {"aten.nll_loss_forward.default", "f32[6,4] | i64[6] below 4 | none", R"([1, -100])"},
    {"aten.nll_loss_forward.default", "f32[6,4] | i64[6] below 4 | none", R"([1, 2])"},
    {"aten.nll_loss_forward.default", "f32[6,5] | i64[6] below 5 | f32[5] positive", R"([1, 2])"},
    {"aten.nll_loss_forward.default", "f32[6,4] | i64[6] below 4 | none", R"([2, -100])"},
    {"aten.nll_loss_forward.default", "f32[6,5] | i64[6] below 5 | f32[5] positive", R"([2, 2])"},
    {"aten.nll_loss_forward.default", "f32[4] | i64[] below 4 | none", R"([2, -100])"},
};

}  // namespace loss_samples

OP_SAMPLES(loss){loss_samples::kSamples};

}  // namespace shardlab
