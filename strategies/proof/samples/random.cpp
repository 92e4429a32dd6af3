// Samples of ops that draw numbers.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace random_samples {

constexpr OpSample kSamples[] = {
    {"aten.bernoulli.default", "f32[4,6] unit"},
    {"aten.bernoulli.float_out", "f32[6] | f32[6]", "[0.5]"},
    {"aten.bernoulli.out", "f32[6] unit | f32[6]"},
    {"aten.bernoulli.p", "f32[4,6]", "[0.25]"},
    {"aten.bernoulli_.float", "f32[4,6]", "[0.5]"},
    {"aten.exponential.out", "f32[6] | f32[6]"},
    {"aten.exponential_.default", "f32[4,6]", "[2.0]"},
    {"aten.geometric.out", "f32[6] | f32[6]", "[0.5]"},
    {"aten.geometric_.default", "f32[4,6]", "[0.5]"},
    {"aten.log_normal.out", "f32[6] | f32[6]"},
    {"aten.log_normal_.default", "f32[4,6]"},
    {"aten.multinomial.default", "f32[6,4] positive", "[3, true]"},
    {"aten.multinomial.default", "f32[5] positive", "[2, true]"},
    {"aten.multinomial.out", "f32[6,4] positive | i64[6,3]", "[3, true]"},
    {"aten.native_dropout.default", "f32[4,6]", "[0.5, true]"},
    {"aten.native_dropout.default", "f32[5]", "[0.5, false]"},
    {"aten.native_dropout.out", "f32[6] | f32[6] | b8[6]", "[0.5, true]"},
    {"aten.normal.out", "f32[6] | f32[6]"},
    {"aten.normal_.default", "f32[4,6]"},
    {"aten.normal_functional.default", "f32[4,6]"},
    {"aten.rrelu_with_noise_functional.default", "f32[4,6] | f32[4,6]", "[0.125, 0.5, true]"},
    {"aten.uniform.out", "f32[6] | f32[6]"},
    {"aten.uniform_.default", "f32[4,6]"},
    {"aten.uniform_.default", "f32[5]", "[-1.0, 1.0]"},
};

}  // namespace random_samples

OP_SAMPLES(random){random_samples::kSamples};

}  // namespace shardlab
