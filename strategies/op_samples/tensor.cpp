// Joins.
#include "strategies/op_sample.h"

namespace shardlab {
namespace {

constexpr OpSample kSamples[] = {
    {"aten.cat.default", "[f32[4,6]; f32[4,6]]", R"([0])"},
    {"aten.cat.default", "[f32[6,5]; f32[6,2]; f32[6,4]]", R"([-1])"},
    {"aten.stack.default", "[f32[4,6]; f32[4,6]]", R"([0])"},
    {"aten.stack.default", "[f32[6,5]; f32[6,5]]", R"([-1])"},
};

}  // namespace

OP_SAMPLES(tensor){kSamples};

}  // namespace shardlab
