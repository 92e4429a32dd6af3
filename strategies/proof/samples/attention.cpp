// Samples of attention. Shapes are [batch, heads, rows, depth].
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace attention_samples {

constexpr OpSample kSamples[] = {
    {"higher_order.flex_attention", "f32[2,6,2,4] unit | f32[2,6,3,4] unit | f32[2,6,3,4] unit",
     "[]"},
    {"higher_order.flex_attention", "f32[2,6,2,4] unit | f32[2,3,3,4] unit | f32[2,3,3,4] unit",
     "[]"},
    {"aten._scaled_dot_product_cudnn_attention.default",
     "f32[2,6,2,4] unit | f32[2,6,3,4] unit | f32[2,6,3,2] unit | none", "[true]"},
    {"aten._scaled_dot_product_cudnn_attention.default",
     "f32[2,5,2,4] unit | f32[2,5,2,4] unit | f32[2,5,2,4] unit | none",
     "[false, 0.0, true, true]"},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,4] unit | f32[2,3,2,1] unit | i64[] | i64[]",
     "[2, 2, 0.0, false]"},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,4] unit | f32[2,3,2,1] unit | i64[] | i64[] | f32[2,3,2,2] unit",
     "[2, 2, 0.0, false]"},
    {"aten._scaled_dot_product_efficient_attention.default",
     "f32[2,6,2,4] unit | f32[2,6,3,4] unit | f32[2,6,3,2] unit | none", "[true]"},
    {"aten._scaled_dot_product_efficient_attention.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,2] unit", "[false]"},
    {"aten._scaled_dot_product_efficient_attention.default",
     "f32[2,5,2,4] unit | f32[2,5,2,4] unit | f32[2,5,2,4] unit | f32[2,5,2,2] unit",
     "[true, 0.0, true]"},
    {"aten._scaled_dot_product_efficient_attention.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | none", "[true, 0.5]"},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | none | "
     "f32[2,3,2,4] unit | f32[2,3,32] unit | i64[] | i64[]",
     "[0.0, [true, true, true, false]]"},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,2] unit | f32[2,3,2,4] unit | f32[2,3,32] unit | i64[] | i64[]",
     "[0.0, [true, true, true, true], true]"},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,2] unit | f32[2,3,2,4] unit | f32[2,3,32] unit | i64[] | i64[]",
     "[0.0, [true, true, true, false]]"},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | none | "
     "f32[2,3,2,4] unit | f32[2,3,32] unit | i64[] | i64[]",
     "[0.5, [true, true, true, false]]"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,6,2,4] unit | f32[2,6,3,4] unit | f32[2,6,3,4] unit"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit", "[0.0, true, true]"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,5,2,4] unit | f32[2,5,2,4] unit | f32[2,5,2,4] unit", "[0.0, false, true]"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,12,2,4] unit | f32[2,6,3,4] unit | f32[2,6,3,4] unit"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,6,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit", "[0.0, true]"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,6,2,4] unit | f32[2,1,2,4] unit | f32[2,1,2,4] unit"},
    {"aten._scaled_dot_product_flash_attention.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit", "[0.5, true, true]"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "f32[2,6,2,4] unit | f32[2,6,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,6,2,4] unit | f32[2,6,2] unit | none | none | i64[2] | i64[]",
     "[2, 2, 0.0, false]"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "f32[2,4,2,4] unit | f32[2,4,2,4] unit | f32[2,2,2,4] unit | f32[2,2,2,4] unit | "
     "f32[2,4,2,4] unit | f32[2,4,2] unit",
     "[2, 2, 0.25, true]"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "f32[2,6,2,4] unit | f32[2,6,2,4] unit | f32[2,1,2,4] unit | f32[2,1,2,4] unit | "
     "f32[2,6,2,4] unit | f32[2,6,2] unit",
     "[2, 2, 0.0, true]"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,4] unit | f32[2,3,2] unit | none | none | i64[2] | i64[]",
     "[2, 2, 0.0, false]"},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | f32[2,3,2,4] unit | "
     "f32[2,3,2,4] unit | f32[2,3,2] unit",
     "[2, 2, 0.0, true]"},
};

}  // namespace attention_samples

OP_SAMPLES(attention){attention_samples::kSamples};

}  // namespace shardlab
