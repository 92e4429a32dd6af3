// Sample calls of every op that has a rule, for tests over the whole table.
#pragma once

#include <string_view>
#include <vector>

#include "strategies/proof/op_sample.h"

namespace shardlab::testing_support {

// Calls with small shapes in several layouts each: what occurs among the inputs decides which rows
// there are. Some of them an op may refuse (another number of tensors).
std::vector<OpCall> sample_calls(std::string_view op, int mesh_ndim);
// The same with the values that each tensor is to have.
std::vector<SampleCall> sample_calls_with_values(std::string_view op, int mesh_ndim);

// Ops that are not executed here: those of complex numbers, which hold no data, and what is made of
// no tensor at all.
inline bool holds_no_data(std::string_view op) {
  return op == "aten.arange.start_step" || op == "aten.full.default" ||
         op == "aten.scalar_tensor.default" || op == "aten.view_as_complex.default" ||
         op == "aten.view_as_real.default";
}

}  // namespace shardlab::testing_support
