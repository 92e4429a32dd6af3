// Samples of convolutions. The --args are stride, padding, dilation, transposed, output padding and
// groups. The backward op has the extents of the bias before these, and the mask of the gradients
// after them.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace convolution_samples {

constexpr OpSample kSamples[] = {
    {"aten.convolution.default", "f32[6,4,6] | f32[6,4,3] | f32[6]",
     R"([[1],[1],[1],false,[0],1])"},
    {"aten.convolution.default", "f32[2,3,5,6] | f32[4,3,1,3] | none",
     R"([[1,3],[0,0],[1,1],false,[0,0],1])"},
    {"aten.convolution.default", "f32[5,4,6] | f32[6,2,2] | f32[6]",
     R"([[2],[0],[1],false,[0],2])"},
    {"aten.convolution.default", "f32[2,4,3] | f32[4,6,2] | f32[6]", R"([[2],[1],[1],true,[1],1])"},
    {"aten.convolution_backward.default", "f32[6,6,6] | f32[6,4,6] | f32[6,4,3]",
     R"([[6],[1],[1],[1],false,[0],1,[true,true,true]])"},
    {"aten.convolution_backward.default", "f32[2,4,5,2] | f32[2,3,5,6] | f32[4,3,1,3]",
     R"([null,[1,3],[0,0],[1,1],false,[0,0],1,[true,true,false]])"},
    {"aten.convolution_backward.default", "f32[5,6,3] | f32[5,4,6] | f32[6,2,2]",
     R"([[6],[2],[0],[1],false,[0],2,[false,true,true]])"},
    {"aten.convolution_backward.default", "f32[4,6,3] | f32[4,4,6] | f32[6,4,2]",
     R"([null,[2],[0],[1],false,[0],1,[true,false,false]])"},
    {"aten.convolution_backward.default", "f32[2,6,5] | f32[2,4,3] | f32[4,6,2]",
     R"([[6],[2],[1],[1],true,[1],1,[true,true,true]])"},
    {"aten.convolution_backward.default", "f32[2,6,6] | f32[2,4,6] | f32[6,4,3]",
     R"([[0],[1],[1],[1],false,[0],1,[false,true,false]])"},
    {"aten.convolution_backward.default", "f32[2,6,3] | f32[2,4,6] | f32[6,4,1]",
     R"([[0],[2],[0],[1],false,[0],1,[true,true,false]])"},
};

}  // namespace convolution_samples

OP_SAMPLES(convolution){convolution_samples::kSamples};

}  // namespace shardlab
