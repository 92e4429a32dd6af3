// Samples of copies, casts and factories.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace copy_samples {

constexpr OpSample kSamples[] = {
    {"aten._to_copy.default", "f32[4,6]", R"(["f64"])"},
    {"aten._to_copy.default", "f32[5]", R"(["i64"])"},
    {"aten._to_copy.default", "i32[6]", R"(["f32"])"},
    {"aten._to_copy.default", "f32[6] few", R"(["b8"])"},
    {"aten._to_copy.default", "f32[]", R"(["f32"])"},
    {"aten.alias.default", "f32[4,6]"},
    {"aten.contiguous.default", "f32[4,6]"},
    {"aten.contiguous.default", "f32[5]"},
    {"aten.detach.default", "f32[4,6]"},
    {"aten.detach.default", "f32[5]"},
    {"aten.detach_.default", "f32[4,6]"},
    {"aten.empty_like.default", "f32[4,6]"},
    {"aten.equal.default", "f32[4,6] few | f32[4,6] few"},
    {"aten.equal.default", "f32[2] few | f32[2] few"},
    {"aten.fill_.Scalar", "f32[4,6]", "[1.5]"},
    {"aten.fill_.Scalar", "f32[5]", "[0.0]"},
    {"aten.full_like.default", "f32[4,6]", "[1.5]"},
    {"aten.is_same_size.default", "f32[4,6] | f32[4,6]"},
    {"aten.new_empty.default", "f32[4,6]", "[[4, 6]]"},
    {"aten.new_empty.default", "f32[4,6]", "[[5]]"},
    {"aten.new_empty_strided.default", "f32[4,6]", "[[4, 6], [6, 1]]"},
    {"aten.new_full.default", "f32[4,6]", "[[4, 6], 1.5]"},
    {"aten.new_full.default", "f32[4,6]", "[[5], 1.5]"},
    {"aten.new_ones.default", "f32[4,6]", "[[4, 6]]"},
    {"aten.new_zeros.default", "f32[4,6]", "[[4, 6]]"},
    {"aten.new_zeros.default", "f32[5]", "[[4, 6]]"},
    {"aten.ones_like.default", "f32[4,6]"},
    {"aten.ones_like.default", "f32[5]"},
    {"aten.rand_like.default", "f32[4,6]"},
    {"aten.randint_like.default", "f32[4,6]", "[7]"},
    {"aten.randint_like.low_dtype", "f32[4,6]", "[2, 7]"},
    {"aten.randint_like.low_dtype_out", "f32[4,6] | f32[4,6]", "[2, 7]"},
    {"aten.randn_like.default", "f32[4,6]"},
    {"aten.view.dtype", "f32[4,6]", R"(["i32"])"},
    {"aten.view.dtype", "f32[4,6]", R"(["f64"])"},
    {"aten.zero_.default", "f32[4,6]"},
    {"aten.zero_.default", "f32[5]"},
    {"aten.zeros_like.default", "f32[4,6]"},
    {"autoparallel.dtype_cast.default", "f32[4,6]", R"(["f64"])"},
};

}  // namespace copy_samples

OP_SAMPLES(copy){copy_samples::kSamples};

}  // namespace shardlab
