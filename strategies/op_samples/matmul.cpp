// Matrix products.
#include "strategies/op_sample.h"

namespace shardlab {
namespace {

constexpr OpSample kSamples[] = {
    {"aten.addmm.default", "f32[6] | f32[4,6] | f32[6,6]"},
    {"aten.addmm.default", "f32[4,1] | f32[4,6] | f32[6,5]"},
    {"aten.baddbmm.default", "f32[6,4,6] | f32[6,4,6] | f32[6,6,6]"},
    {"aten.baddbmm.default", "f32[5] | f32[2,4,6] | f32[2,6,5]"},
    {"aten.bmm.default", "f32[6,4,6] | f32[6,6,5]"},
    {"aten.dot.default", "f32[6] | f32[6]"},
    {"aten.dot.default", "f32[5] | f32[5]"},
    {"aten.einsum.default", "f32[6,4,6] | f32[6,6]", R"(["bsk,kn->bsn"])"},
    {"aten.einsum.default", "f32[4,6]", R"(["ij->ji"])"},
    {"aten.einsum.default", "f32[6,5] | f32[6,5]", R"(["ij,ij->ij"])"},
    {"aten.mm.default", "f32[4,6] | f32[6,6]"},
    {"aten.mm.default", "f32[5,6] | f32[6,3]"},
    {"aten.mv.default", "f32[4,6] | f32[6]"},
};

}  // namespace

OP_SAMPLES(matmul){kSamples};

}  // namespace shardlab
