// Samples of matrix products.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace matmul_samples {

constexpr OpSample kSamples[] = {
    {"aten._foreach_mm.default", "[f32[4,6]] | [f32[6,6]]"},
    {"aten._grouped_mm.default", "f32[6,8] | f32[2,8,8] | i32[2] below 6"},
    {"aten._grouped_mm.default", "f32[2,6,8] | f32[8,8] | i32[2] below 8"},
    {"aten._grouped_mm.default", "f32[6,8] | f32[8,8] | i32[3] below 8"},
    {"aten._grouped_mm.default", "f32[2,5,8] | f32[2,8,8]"},
    {"aten._scaled_mm.default", "f32[4,6] | f32[6,6] | f32[] | f32[1]", R"(["f32"])"},
    {"aten._scaled_mm.default", "f32[4,6] | f32[6,6] | f32[4,1] | f32[1,6]", R"(["f32"])"},
    {"aten._scaled_mm.default", "f32[4,6] | f32[6,6] | f32[4,2] | f32[2,6]", R"(["f32"])"},
    {"aten._scaled_mm.default", "f32[2,256] | f32[256,2] | f32[1024] | f32[1024]", R"(["f32"])"},
    {"aten._scaled_mm.out", "f32[4,6] | f32[6,6] | f32[4,1] | f32[1,6] | none | none | f32[4,6]",
     R"(["f32"])"},
    {"aten.addmm.out", "f32[6] | f32[4,6] | f32[6,6] | f32[4,6]"},
    {"aten.addmm_.default", "f32[4,6] | f32[4,6] | f32[6,6]", "[0.5, 2.0]"},
    {"aten.addmm.default", "f32[6] | f32[4,6] | f32[6,6]"},
    {"aten.addmm.default", "f32[4,1] | f32[4,6] | f32[6,5]"},
    {"aten.baddbmm.default", "f32[6,4,6] | f32[6,4,6] | f32[6,6,6]"},
    {"aten.baddbmm.default", "f32[5] | f32[2,4,6] | f32[2,6,5]"},
    {"aten.baddbmm.out", "f32[5] | f32[2,4,6] | f32[2,6,5] | f32[2,4,5]", "[-1.0]"},
    {"aten.baddbmm_.default", "f32[2,4,6] | f32[2,4,6] | f32[2,6,6]"},
    {"aten.bmm.default", "f32[6,4,6] | f32[6,6,5]"},
    {"aten.bmm.out", "f32[6,4,6] | f32[6,6,5] | f32[6,4,5]"},
    {"aten.dot.default", "f32[6] | f32[6]"},
    {"aten.dot.default", "f32[5] | f32[5]"},
    {"aten.einsum.default", "f32[6,4,6] | f32[6,6]", R"(["bsk,kn->bsn"])"},
    {"aten.einsum.default", "f32[4,6]", R"(["ij->ji"])"},
    {"aten.einsum.default", "f32[6,5] | f32[6,5]", R"(["ij,ij->ij"])"},
    {"aten.mm.default", "f32[4,6] | f32[6,6]"},
    {"aten.mm.default", "f32[5,6] | f32[6,3]"},
    {"aten.mm.out", "f32[4,6] | f32[6,6] | f32[4,6]"},
    {"aten.mv.default", "f32[4,6] | f32[6]"},
};

}  // namespace matmul_samples

OP_SAMPLES(matmul){matmul_samples::kSamples};

}  // namespace shardlab
