// Samples of grid_sample, of each kind of interpolation, with places inside and outside the image.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace grid_sampler_samples {

constexpr OpSample kSamples[] = {
    {"aten.grid_sampler_2d.default", "f32[4,3,4,5] | f32[4,2,3,2] unit", R"([0,0,false])"},
    {"aten.grid_sampler_2d.default", "f32[2,4,3,3] | f32[2,3,2,2]", R"([1,2,true])"},
    {"aten.grid_sampler_2d.default", "f32[2,2,5,4] | f32[2,2,4,2] unit", R"([2,1,true])"},
    {"aten.grid_sampler_2d_backward.default", "f32[4,3,2,3] | f32[4,3,4,5] | f32[4,2,3,2] unit",
     R"([0,0,false,[true,true]])"},
    {"aten.grid_sampler_2d_backward.default", "f32[2,4,3,2] | f32[2,4,4,3] | f32[2,3,2,2] unit",
     R"([2,2,true,[true,true]])"},
    {"aten.grid_sampler_3d.default", "f32[2,3,3,4,5] | f32[2,2,3,2,3] unit", R"([0,1,false])"},
    {"aten.grid_sampler_3d_backward.default",
     "f32[2,3,2,3,2] | f32[2,3,3,4,5] | f32[2,2,3,2,3] unit", R"([0,1,false,[true,true]])"},
};

}  // namespace grid_sampler_samples

OP_SAMPLES(grid_sampler){grid_sampler_samples::kSamples};

}  // namespace shardlab
