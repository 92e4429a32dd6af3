// Samples of views, which split, merge, exchange, drop, add and repeat dims.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace view_samples {

constexpr OpSample kSamples[] = {
    {"aten._unsafe_view.default", "f32[4,6]", R"([[24]])"},
    {"aten._unsafe_view.default", "f32[5,2]", R"([[10]])"},
    {"aten.expand.default", "f32[6,1]", R"([[6,4]])"},
    {"aten.expand.default", "f32[1,5]", R"([[2,3,-1]])"},
    {"aten.expand_copy.default", "f32[6,1]", R"([[6,4]])"},
    {"aten.permute.default", "f32[4,6,5]", R"([[2,0,-2]])"},
    {"aten.repeat.default", "f32[4,6]", R"([[2,1,1]])"},
    {"aten.repeat.default", "f32[6,5]", R"([[1,3]])"},
    {"aten.reshape.default", "f32[4,6]", R"([[24]])"},
    {"aten.reshape.default", "f32[12]", R"([[3,-1]])"},
    {"aten.reshape.default", "f32[6,5]", R"([[3,10]])"},
    {"aten.squeeze.default", "f32[1,6,1,5]", "[]"},
    {"aten.squeeze.dim", "f32[6,1,4]", R"([1])"},
    {"aten.squeeze.dim", "f32[6,5]", R"([-1])"},
    {"aten.squeeze.dims", "f32[1,6,1,5]", R"([[0,1]])"},
    {"aten.squeeze_.default", "f32[6,1,5]", "[]"},
    {"aten.squeeze_.dim", "f32[6,1,5]", R"([1])"},
    {"aten.squeeze_.dims", "f32[6,1,5]", R"([[1,2]])"},
    {"aten.t.default", "f32[6,5]", "[]"},
    {"aten.t.default", "f32[6]", "[]"},
    {"aten.transpose.int", "f32[4,6,5]", R"([0,-1])"},
    {"aten.unsqueeze.default", "f32[6,5]", R"([1])"},
    {"aten.unsqueeze.default", "f32[6,5]", R"([-1])"},
    {"aten.view.default", "f32[4,6]", R"([[24]])"},
    {"aten.view.default", "f32[12]", R"([[6,-1]])"},
    {"aten.view.default", "f32[12,8]", R"([[16,6]])"},
    {"aten.view.default", "f32[5,6]", R"([[5,2,3]])"},
    {"aten.view.default", "f32[5,6]", R"([[30]])"},
    {"aten.view_copy.default", "f32[4,6]", R"([[24]])"},
};

}  // namespace view_samples

OP_SAMPLES(view){view_samples::kSamples};

}  // namespace shardlab
