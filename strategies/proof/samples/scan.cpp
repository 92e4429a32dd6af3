// Samples of scans and sorts.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace scan_samples {

constexpr OpSample kSamples[] = {
    {"aten.cummax.default", "f32[4,6] few", R"([1])"},
    {"aten.cummax.default", "f32[6,5] few", R"([0])"},
    {"aten.cummax.default", "f32[2,3,4] few", R"([-2])"},
    {"aten.cummin.default", "f32[4,6] few", R"([1])"},
    {"aten.cummin.default", "f32[6,5] few", R"([0])"},
    {"aten.cummin.default", "f32[2,3,4] few", R"([-2])"},
    {"aten.cumprod.default", "f32[4,6]", R"([1])"},
    {"aten.cumprod.default", "f32[6,5]", R"([0])"},
    {"aten.cumprod.default", "f32[2,3,4]", R"([-2])"},
    {"aten.cumsum.default", "f32[4,6]", R"([1])"},
    {"aten.cumsum.default", "f32[6,5]", R"([0])"},
    {"aten.cumsum.default", "f32[2,3,4]", R"([-2])"},
    {"aten.cumsum.default", "i32[6,4]", R"([0])"},
    {"aten.logcumsumexp.default", "f32[4,6]", R"([1])"},
    {"aten.logcumsumexp.default", "f32[6,5]", R"([0])"},
    {"aten.logcumsumexp.default", "f32[2,3,4]", R"([-2])"},
    {"aten.sort.default", "f32[4,6] few"},
    {"aten.sort.default", "f32[6,5] few", R"([0, true])"},
    {"aten.sort.stable", "f32[4,6] few", R"([true])"},
    {"aten.sort.stable", "f32[6,5] few", R"([true, 0, true])"},
    {"aten.topk.default", "f32[4,6] distinct", R"([2])"},
    {"aten.topk.default", "f32[6,5] distinct", R"([3, 0, false])"},
};

}  // namespace scan_samples

OP_SAMPLES(scan){scan_samples::kSamples};

}  // namespace shardlab
