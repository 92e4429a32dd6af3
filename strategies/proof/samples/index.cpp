// Samples of lookups and writes by index. Some indices occur twice, so that the order of writes and
// the number of terms matter.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace index_samples {

constexpr OpSample kSamples[] = {
    {"aten._index_put_impl_.default", "f32[4,6] | [i64[6] below 4] | f32[6,6]"},
    {"aten._index_put_impl_.default", "f32[4,6] | [none; i64[4] below 6] | f32[4,4]", "[true]"},
    {"aten.gather.default", "f32[4,6] | i64[4,6] below 4", "[0]"},
    {"aten.gather.default", "f32[6,5] | i64[6,1] below 5", "[-1]"},
    {"aten.gather.default", "f32[6,4] | i64[2,4] below 6", "[0]"},
    {"aten.gather.default", "f32[6,4] | i64[4,6] below 4", "[1]"},
    {"aten.index.Tensor", "f32[4,6] | [i64[6] below 4]"},
    {"aten.index.Tensor", "f32[4,6] | [none; i64[4,2] below 6]"},
    {"aten.index.Tensor", "f32[4,5,6] | [i64[6] below 4; none; i64[1] below 6]"},
    {"aten.index.Tensor", "f32[4,5,6] | [none; i64[2,6] below 5; i64[6] below 6]"},
    {"aten.index.Tensor", "f32[2,3,4,5] | [none; none; i64[6,1] below 4; i64[4] below 5]"},
    {"aten.index_fill.int_Scalar", "f32[4,6] | i64[3] below 4", "[0, 2]"},
    {"aten.index_fill.int_Scalar", "f32[6,5] | i64[2] below 5", "[-1, 0]"},
    {"aten.index_fill.int_Scalar", "f32[4,6] | i64[2] below 6", "[1, 1]"},
    {"aten.index_fill.int_Tensor", "f32[4,6] | i64[3] below 4 | f32[]", "[0]"},
    {"aten.index_fill.int_Tensor", "f32[6,5] | i64[2] below 5 | f32[]", "[-1]"},
    {"aten.index_fill_.int_Scalar", "f32[4,6] | i64[3] below 4", "[0, 2]"},
    {"aten.index_fill_.int_Tensor", "f32[4,6] | i64[3] below 4 | f32[]", "[0]"},
    {"aten.index_put.default", "f32[4,6] | [i64[6] below 4] | f32[6,6]"},
    {"aten.index_put.default", "f32[4,6] | [i64[6] below 4] | f32[6,6]", "[true]"},
    {"aten.index_put.default", "f32[4,6] | [none; i64[4] below 6] | f32[4]", "[true]"},
    {"aten.index_put.default", "f32[4,5,6] | [i64[6] below 4; none; i64[6] below 6] | f32[6,5]"},
    {"aten.index_put.default", "f32[4,5] | [none; i64[2] below 5] | f32[]"},
    {"aten.index_put.default", "f32[2,3,4] | [none; i64[4,1] below 3; i64[2] below 4] | f32[2,4,2]",
     "[true]"},
    {"aten.index_put_.default", "f32[4,6] | [i64[6] below 4] | f32[6,6]"},
    {"aten.index_reduce.default", "f32[4,6] | i64[6] below 4 | f32[6,6]", R"([0, "prod"])"},
    {"aten.index_reduce.default", "f32[4,6] | i64[6] below 4 | f32[6,6]", R"([0, "prod", false])"},
    {"aten.index_reduce.default", "f32[6,5] | i64[6] below 5 | f32[6,6]", R"([1, "mean"])"},
    {"aten.index_reduce.default", "f32[6,5] | i64[6] below 5 | f32[6,6]", R"([1, "mean", false])"},
    {"aten.index_reduce.default", "f32[4,6] | i64[6] below 4 | f32[6,6]", R"([0, "amax"])"},
    {"aten.index_reduce.default", "f32[4,6] | i64[6] below 4 | f32[6,6]", R"([0, "amax", false])"},
    {"aten.index_reduce.default", "f32[4,6] | i64[4] below 6 | f32[4,4]", R"([1, "amin"])"},
    {"aten.index_reduce.default", "f32[4,6] | i64[4] below 6 | f32[4,4]", R"([1, "amin", false])"},
    {"aten.index_reduce_.default", "f32[4,6] | i64[6] below 4 | f32[6,6]", R"([0, "amax"])"},
    {"aten.index_select.default", "f32[4,6] | i64[6] below 4", "[0]"},
    {"aten.index_select.default", "f32[6,5] | i32[4] below 5", "[-1]"},
    {"aten.scatter.src", "f32[4,6] | i64[6,6] below 4 | f32[6,6]", "[0]"},
    {"aten.scatter.src", "f32[4,6] | i64[4,5] below 6 | f32[6,5]", "[1]"},
    {"aten.scatter.value", "f32[4,6] | i64[2,6] below 4", "[0, 2]"},
    {"aten.scatter.value", "f32[6,5] | i64[6,2] below 5", "[-1, 0]"},
    {"aten.scatter_.src", "f32[4,6] | i64[6,6] below 4 | f32[6,6]", "[0]"},
    {"aten.scatter_.value", "f32[4,6] | i64[2,6] below 4", "[0, 2]"},
    {"aten.scatter_add.default", "f32[4,6] | i64[6,6] below 4 | f32[6,6]", "[0]"},
    {"aten.scatter_add.default", "f32[6,5] | i64[6,2] below 5 | f32[8,2]", "[1]"},
    {"aten.scatter_add.default", "f32[6,5] | i64[6,2] below 5 | f32[6,4]", "[1]"},
    {"aten._index_put_impl.out", "f32[4,6] | [i64[6] below 4] | f32[6,6] | f32[4,6]"},
    {"aten.index.Tensor_out", "f32[4,6] | [i64[6] below 4] | f32[6,6]"},
    {"aten.index_fill.int_Scalar_out", "f32[4,6] | i64[3] below 4 | f32[4,6]", "[0, 2]"},
    {"aten.index_fill.int_Tensor_out", "f32[4,6] | i64[3] below 4 | f32[] | f32[4,6]", "[0]"},
    {"aten.index_put.out", "f32[4,6] | [i64[6] below 4] | f32[6,6] | f32[4,6]", "[true]"},
    {"aten.index_reduce.out", "f32[4,6] | i64[6] below 4 | f32[6,6] | f32[4,6]", R"([0, "amax"])"},
    {"aten.index_select.out", "f32[4,6] | i64[6] below 4 | f32[6,6]", "[0]"},
};

}  // namespace index_samples

OP_SAMPLES(index){index_samples::kSamples};

}  // namespace shardlab
