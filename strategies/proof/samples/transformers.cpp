// Samples of the custom ops of Hugging Face's transformers.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace transformers_samples {

constexpr OpSample kSamples[] = {
    {"transformers.grouped_mm_fallback.default", "f32[6,4] | f32[2,4,6] | i32[2] below 7"},
    {"transformers.grouped_mm_fallback.default", "f32[4,6] | f32[3,6,5] | i64[3] below 5"},
    {"transformers.grouped_mm_fallback_backward.default",
     "f32[6,4] | f32[2,4,6] | i32[2] below 7 | f32[6,6]"},
    {"transformers.grouped_mm_fallback_backward.default",
     "f32[4,6] | f32[3,6,5] | i64[3] below 5 | f32[4,5]"},
};

}  // namespace transformers_samples

OP_SAMPLES(transformers){transformers_samples::kSamples};

}  // namespace shardlab
