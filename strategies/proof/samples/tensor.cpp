// Samples of ops that join, cut and reorder tensors.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace tensor_samples {

constexpr OpSample kSamples[] = {
    {"aten.bucketize.Tensor", "f32[4,6] | f32[6] distinct"},
    {"aten.bucketize.Tensor", "f32[5] | f32[4] distinct", "[true, true]"},
    {"aten.cat.default", "[f32[4,6]; f32[4,6]]", R"([0])"},
    {"aten.cat.default", "[f32[6,5]; f32[6,2]; f32[6,4]]", R"([-1])"},
    {"aten.constant_pad_nd.default", "f32[4,6]", "[[1, 2]]"},
    {"aten.constant_pad_nd.default", "f32[4,6]", "[[0, 0, 1, 0], 1]"},
    {"aten.constant_pad_nd.default", "f32[6,4]", "[[2, 1], -1.5]"},
    {"aten.constant_pad_nd.default", "f32[6,5]", "[[-1, -1], 3]"},
    {"aten.constant_pad_nd.default", "f32[6,4]", "[[0, 0], 3]"},
    {"aten.diag.default", "f32[6]", "[]"},
    {"aten.diag.default", "f32[4,6]", "[-1]"},
    {"aten.diag_embed.default", "f32[4,6]", "[]"},
    {"aten.diag_embed.default", "f32[4,6,2]", "[1, 0, 2]"},
    {"aten.diagonal.default", "f32[4,6]", "[]"},
    {"aten.diagonal.default", "f32[4,6,5]", "[1, 2, 0]"},
    {"aten.diagonal_copy.default", "f32[4,6,6]", "[-1]"},
    {"aten.diagonal_scatter.default", "f32[4,6] | f32[4]", "[]"},
    {"aten.diagonal_scatter.default", "f32[4,6,5] | f32[6,4]", "[1, 0, -1]"},
    {"aten.flip.default", "f32[4,6]", "[[0]]"},
    {"aten.flip.default", "f32[4,6,5]", "[[-1, 1]]"},
    {"aten.flip.default", "f32[4,6]", "[[]]"},
    {"aten.roll.default", "f32[4,6]", "[[1], [0]]"},
    {"aten.roll.default", "f32[4,6,5]", "[[-2, 1], [-1, 1]]"},
    {"aten.roll.default", "f32[4,6]", "[[5]]"},
    {"aten.select.int", "f32[4,6]", "[0, 1]"},
    {"aten.select.int", "f32[6,5,4]", "[-2, -1]"},
    {"aten.select_backward.default", "f32[6]", "[[4, 6], 0, 1]"},
    {"aten.select_backward.default", "f32[6,4]", "[[6, 5, 4], 1, -1]"},
    {"aten.select_scatter.default", "f32[4,6] | f32[6]", "[0, 1]"},
    {"aten.select_scatter.default", "f32[6,5,4] | f32[6,4]", "[-2, -1]"},
    {"aten.slice.Tensor", "f32[4,6]", "[1, 2, 5]"},
    {"aten.slice.Tensor", "f32[6,5]", "[0, 1, null, 2]"},
    {"aten.slice.Tensor", "f32[4,6]", "[1, 0, 9223372036854775807]"},
    {"aten.slice_backward.default", "f32[4,3]", "[[4, 6], 1, 2, 5, 1]"},
    {"aten.slice_backward.default", "f32[3,5]", "[[6, 5], 0, 1, 6, 2]"},
    {"aten.slice_backward.default", "f32[4,6]", "[[4, 6], 1, 0, 9223372036854775807, 1]"},
    {"aten.slice_scatter.default", "f32[4,6] | f32[4,3]", "[1, 2, 5]"},
    {"aten.slice_scatter.default", "f32[6,5] | f32[3,5]", "[0, 1, null, 2]"},
    {"aten.split.Tensor", "f32[4,6]", "[2, 0]"},
    {"aten.split.Tensor", "f32[6,5]", "[3, -1]"},
    {"aten.split.Tensor", "f32[4,6]", "[6, 1]"},
    {"aten.split_with_sizes.default", "f32[4,6]", "[[1, 3], 0]"},
    {"aten.split_with_sizes.default", "f32[6,5]", "[[2, 3], -1]"},
    {"aten.split_with_sizes_copy.default", "f32[4,6]", "[[4, 2], 1]"},
    {"aten.stack.default", "[f32[4,6]; f32[4,6]]", R"([0])"},
    {"aten.stack.default", "[f32[6,5]; f32[6,5]]", R"([-1])"},
    {"aten.tril.default", "f32[4,6]"},
    {"aten.tril.default", "f32[4,6,5]", "[1]"},
    {"aten.triu.default", "f32[4,6]", "[-1]"},
    {"aten.triu.default", "f32[4,6,5]", "[1]"},
    {"aten.unbind.int", "f32[4,6]", "[0]"},
    {"aten.unbind.int", "f32[6,3,4]", "[-2]"},
    {"aten.bucketize.Tensor_out", "f32[4,6] | f32[6] distinct | i64[4,6]"},
    {"aten.constant_pad_nd.out", "f32[4,6] | f32[4,9]", "[[1, 2], 1]"},
    {"aten.diagonal_scatter.out", "f32[4,6,6] | f32[6,4] | f32[4,6,6]", "[0, 0, 1]"},
    {"aten.flip.out", "f32[4,6] | f32[4,6]", "[[0]]"},
    {"aten.roll.out", "f32[4,6] | f32[4,6]", "[[1], [1]]"},
    {"aten.select_scatter.out", "f32[4,6] | f32[6] | f32[4,6]", "[0, 1]"},
};

}  // namespace tensor_samples

OP_SAMPLES(tensor){tensor_samples::kSamples};

}  // namespace shardlab
