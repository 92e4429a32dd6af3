// Reductions and softmax.
#include "strategies/op_sample.h"

namespace shardlab {
namespace {

constexpr OpSample kSamples[] = {
    {"aten._log_softmax.default", "f32[4,6]", R"([1, false])"},
    {"aten._log_softmax.default", "f32[6,5,4]", R"([-2, false])"},
    {"aten._safe_softmax.default", "f32[4,6]", R"([1, false])"},
    {"aten._safe_softmax.default", "f32[6,5,4]", R"([-2, false])"},
    {"aten._softmax.default", "f32[4,6]", R"([1, false])"},
    {"aten._softmax.default", "f32[6,5,4]", R"([-2, false])"},
    {"aten.amax.default", "f32[4,6]", R"([[0, 1], true])"},
    {"aten.amax.default", "f32[4,6]", R"([])"},
    {"aten.amax.default", "f32[6,4,2]", R"([[-1, 0], true])"},
    {"aten.amax.default", "f32[6,5]", R"([[1]])"},
    {"aten.amin.default", "f32[4,6]", R"([[0, 1], true])"},
    {"aten.amin.default", "f32[4,6]", R"([])"},
    {"aten.amin.default", "f32[6,4,2]", R"([[-1, 0], true])"},
    {"aten.amin.default", "f32[6,5]", R"([[1]])"},
    {"aten.max.default", "f32[4,6]"},
    {"aten.max.default", "f32[5]"},
    {"aten.mean.default", "f32[4,6]"},
    {"aten.mean.default", "f32[5]"},
    {"aten.mean.dim", "f32[4,6]", R"([[0, 1], true])"},
    {"aten.mean.dim", "f32[4,6]", R"([null])"},
    {"aten.mean.dim", "f32[6,4,2]", R"([[-1, 0], true])"},
    {"aten.mean.dim", "f32[6,5]", R"([[1]])"},
    {"aten.min.default", "f32[4,6]"},
    {"aten.min.default", "f32[5]"},
    {"aten.nansum.default", "f32[4,6]"},
    {"aten.nansum.default", "f32[5]"},
    {"aten.prod.default", "f32[4,6]"},
    {"aten.prod.default", "f32[5]"},
    {"aten.sum.default", "f32[4,6]"},
    {"aten.sum.default", "f32[5]"},
    {"aten.sum.dim_IntList", "f32[4,6]", R"([[0, 1], true])"},
    {"aten.sum.dim_IntList", "f32[4,6]", R"([null])"},
    {"aten.sum.dim_IntList", "f32[6,4,2]", R"([[-1, 0], true])"},
    {"aten.sum.dim_IntList", "f32[6,5]", R"([[1]])"},
};

}  // namespace

OP_SAMPLES(reduction){kSamples};

}  // namespace shardlab
