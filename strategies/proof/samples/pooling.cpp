// Samples of pooling, with windows that overlap and windows that lie apart, with and
// without a batch.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace pooling_samples {

constexpr OpSample kSamples[] = {
    {"aten._adaptive_avg_pool2d.default", "f32[2,4,6,5]", R"([[3,2]])"},
    {"aten._adaptive_avg_pool2d.default", "f32[6,4,6]", R"([[4,3]])"},
    {"aten._adaptive_avg_pool2d.default", "f32[2,3,6,4]", R"([[1,1]])"},
    {"aten._adaptive_avg_pool2d_backward.default", "f32[2,4,3,2] | f32[2,4,6,5]"},
    {"aten._adaptive_avg_pool2d_backward.default", "f32[6,4,3] | f32[6,6,6]"},
    {"aten._adaptive_avg_pool3d.default", "f32[2,4,6,5,4]", R"([[3,2,4]])"},
    {"aten._adaptive_avg_pool3d.default", "f32[6,4,3,2]", R"([[4,2,1]])"},
    {"aten._adaptive_avg_pool3d_backward.default", "f32[2,4,3,2,4] | f32[2,4,6,5,4]"},
    {"aten._adaptive_avg_pool3d_backward.default", "f32[6,4,2,1] | f32[6,4,3,2]"},
    {"aten.adaptive_max_pool2d.default", "f32[2,6,4,5] distinct", R"([[2,3]])"},
    {"aten.adaptive_max_pool2d.default", "f32[4,4,4] distinct", R"([[2,2]])"},
    {"aten.adaptive_max_pool2d_backward.default",
     "f32[2,6,2,2] | f32[2,6,4,4] | i64[2,6,2,2] below 16"},
    {"aten.adaptive_max_pool3d.default", "f32[2,4,4,2,3] distinct", R"([[2,2,1]])"},
    {"aten.adaptive_max_pool3d_backward.default",
     "f32[2,4,2,2,1] | f32[2,4,4,2,3] | i64[2,4,2,2,1] below 24"},
    {"aten.avg_pool2d.default", "f32[2,6,6,4]", R"([[2,2]])"},
    {"aten.avg_pool2d.default", "f32[3,5,5]", R"([[3,3],[2,2],[1,1]])"},
    {"aten.avg_pool2d_backward.default", "f32[2,6,3,2] | f32[2,6,6,4]",
     R"([[2,2],[2,2],[0,0],false,true,null])"},
    {"aten.avg_pool2d_backward.default", "f32[3,3,3] | f32[3,5,5]",
     R"([[3,3],[2,2],[1,1],false,false,null])"},
    {"aten.avg_pool3d.default", "f32[2,4,4,6,2]", R"([[2,2,1]])"},
    {"aten.avg_pool3d.default", "f32[3,3,5,4]", R"([[3,3,2],[2,2,2],[1,1,0]])"},
    {"aten.avg_pool3d_backward.default", "f32[2,4,2,3,2] | f32[2,4,4,6,2]",
     R"([[2,2,1],[2,2,1],[0,0,0],false,true,null])"},
    {"aten.avg_pool3d_backward.default", "f32[3,2,3,2] | f32[3,3,5,4]",
     R"([[3,3,2],[2,2,2],[1,1,0],false,true,7])"},
    {"aten.max_pool2d_with_indices.default", "f32[2,6,4,4] distinct", R"([[2,2]])"},
    {"aten.max_pool2d_with_indices.default", "f32[3,5,5] distinct",
     R"([[3,3],[2,2],[1,1],[1,1],true])"},
    {"aten.max_pool2d_with_indices_backward.default",
     "f32[2,6,2,2] | f32[2,6,4,4] | i64[2,6,2,2] below 16", R"([[2,2],[2,2],[0,0],[1,1],false])"},
    {"aten.max_pool2d_with_indices_backward.default",
     "f32[3,2,2] | f32[3,5,5] | i64[3,2,2] below 25", R"([[2,2],[2,2],[0,0],[1,1],false])"},
    {"aten.max_pool3d_with_indices.default", "f32[2,6,2,4,2] distinct", R"([[2,2,1]])"},
    {"aten.max_pool3d_with_indices.default", "f32[3,3,5,4] distinct",
     R"([[2,3,3],[2,2,2],[1,1,1],[1,1,1],true])"},
    {"aten.max_pool3d_with_indices_backward.default",
     "f32[2,6,1,2,2] | f32[2,6,2,4,2] | i64[2,6,1,2,2] below 16",
     R"([[2,2,1],[2,2,1],[0,0,0],[1,1,1],false])"},
    {"aten.max_unpool2d.default", "f32[2,6,2,2] | i64[2,6,2,2] below 16", R"([[4,4]])"},
    {"aten.max_unpool2d.default", "f32[4,2,2] | i64[4,2,2] below 9", R"([[3,3]])"},
    {"aten.max_unpool3d.default", "f32[2,4,1,2,2] | i64[2,4,1,2,2] below 24",
     R"([[2,4,3],[2,2,1],[0,0,0]])"},
};

}  // namespace pooling_samples

OP_SAMPLES(pooling){pooling_samples::kSamples};

}  // namespace shardlab
