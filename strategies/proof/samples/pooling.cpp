// Samples of pooling, with windows that overlap and windows that lie apart, with and
// without a batch.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace pooling_samples {

constexpr OpSample kSamples[] = {
    {"aten._adaptive_avg_pool2d.default", "f32[2,4,6,5]", R"([[3,2]])"},
    {"aten._adaptive_avg_pool2d.default", "f32[6,4,6]", R"([[4,3]])"},
    {"aten.avg_pool2d.default", "f32[2,6,6,4]", R"([[2,2]])"},
    {"aten.avg_pool2d.default", "f32[3,5,5]", R"([[3,3],[2,2],[1,1]])"},
    {"aten.max_pool2d_with_indices.default", "f32[2,6,4,4] distinct", R"([[2,2]])"},
    {"aten.max_pool2d_with_indices.default", "f32[3,5,5] distinct",
     R"([[3,3],[2,2],[1,1],[1,1],true])"},
    {"aten.max_pool2d_with_indices_backward.default",
     "f32[2,6,2,2] | f32[2,6,4,4] | i64[2,6,2,2] below 16", R"([[2,2],[2,2],[0,0],[1,1],false])"},
    {"aten.max_pool2d_with_indices_backward.default",
     "f32[3,2,2] | f32[3,5,5] | i64[3,2,2] below 25", R"([[2,2],[2,2],[0,0],[1,1],false])"},
};

}  // namespace pooling_samples

OP_SAMPLES(pooling){pooling_samples::kSamples};

}  // namespace shardlab
