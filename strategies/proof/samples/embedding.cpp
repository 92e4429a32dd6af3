// Samples of lookups in tables.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace embedding_samples {

constexpr OpSample kSamples[] = {
    {"aten._embedding_bag.default", "f32[5,6] | i64[6] below 5 | i64[3] below 6",
     "[false, 1, false, false, -1]"},
    {"aten._embedding_bag.default", "f32[6,5] | i64[6] below 6 | i64[4] below 6 | f32[6]",
     "[false, 0, false, true, 2]"},
    {"aten._embedding_bag.default", "f32[6,4] | i64[5] below 6 | i64[2] below 5"},
    {"aten._embedding_bag.default", "f32[5,6] distinct | i64[6] below 5 | i64[3] below 6",
     "[false, 2]"},
    {"aten._embedding_bag_backward.default",
     "f32[3,6] | i64[6] below 5 | i64[3] below 6 | i64[6] below 3 | i64[3] positive | i64[3]",
     "[5, false, 1, false, -1]"},
    {"aten._embedding_bag_backward.default",
     "f32[4,6] | i64[5] below 5 | i64[4] below 5 | i64[5] below 4 | i64[4] positive | i64[4] | "
     "f32[5]",
     "[5, false, 0, false, 2]"},
    {"aten._embedding_bag_backward.default",
     "f32[3,4] | i64[6] below 4 | i64[3] below 6 | i64[6] below 3 | i64[3] positive | i64[3]",
     "[4, true, 1, false, -1]"},
    {"aten._embedding_bag_backward.default",
     "f32[3,4] | i64[6] below 4 | i64[3] below 6 | i64[0] | i64[3] positive | i64[3]",
     "[4, false, 0, false, -1]"},
    {"aten._embedding_bag_backward.default",
     "f32[6,4] | i64[6] below 5 | i64[6] below 6 | i64[6] below 6 | i64[6] positive | i64[6,4] "
     "below 5",
     "[5, false, 2, false, -1]"},
    {"aten._embedding_bag_forward_only.default", "f32[5,6] | i64[6] below 5 | i64[3] below 6",
     "[false, 1, false, false, -1]"},
    {"aten._embedding_bag_forward_only.default",
     "f32[5,6] distinct | i64[6] below 5 | i64[3] below 6", "[false, 2]"},
    {"aten.embedding.default", "f32[6,4] | i64[6] below 6"},
    {"aten.embedding.default", "f32[5,6] | i64[4,6] below 5"},
    {"aten.embedding_dense_backward.default", "f32[6,4] | i64[6] below 5", "[5, -1, false]"},
    {"aten.embedding_dense_backward.default", "f32[4,6,2] | i64[4,6] below 4", "[4, 1, false]"},
    {"aten.embedding_dense_backward.default", "f32[6,4] | i64[6] below 3", "[4, -1, true]"},
    {"aten.embedding.out", "f32[6,4] | i64[6] below 6 | f32[6,4]"},
};

}  // namespace embedding_samples

OP_SAMPLES(embedding){embedding_samples::kSamples};

}  // namespace shardlab
