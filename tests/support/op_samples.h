// Sample calls of every op that has a rule, for tests over the whole table.
#pragma once

#include <string_view>
#include <vector>

#include "strategies/proof/op_sample.h"

namespace shardlab::testing_support {

// Calls with small shapes, each in several layouts, because the shards that occur among the inputs
// decide which rows there are. An op may refuse some of the calls, for instance for their number of
// tensors.
std::vector<OpCall> sample_calls(std::string_view op, int mesh_ndim);
// The same calls, with the values that each tensor is to have.
std::vector<SampleCall> sample_calls_with_values(std::string_view op, int mesh_ndim);

// Whether the op is not executed here: complex numbers hold no data, and some ops take no tensor at
// all.
inline bool holds_no_data(std::string_view op) {
  return op == "aten.arange.start_step" || op == "aten.empty.memory_format" ||
         op == "aten.empty_permuted.default" || op == "aten.full.default" ||
         op == "aten.ones.default" || op == "aten.rand.default" || op == "aten.randn.default" ||
         op == "aten.scalar_tensor.default" || op == "aten.view_as_complex.default" ||
         op == "aten.view_as_real.default" || op == "aten.zeros.default" ||
         op == "prims.conj_physical.default" || op == "prims.iota.default";
}

}  // namespace shardlab::testing_support
