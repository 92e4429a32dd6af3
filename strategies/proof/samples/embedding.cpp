// Samples of lookups in tables.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace embedding_samples {

constexpr OpSample kSamples[] = {
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
