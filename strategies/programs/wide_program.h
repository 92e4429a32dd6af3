// A program in double precision, as virtual ranks compute it: every floating point tensor is f64, so that
// small whole numbers stay exact and rounding is too small to hide a wrong plan.
//
//   wide_meta(bf16[8,16])              f64[8,16]
//   wide_meta(c64[8,4])                f64[8,4,2]: complex numbers are pairs, in a last dim of two
//   wide_call(program, node)           the call of the node's reference kernel on such tensors
//
// Layouts are those of the program: a pair is never divided. Casts between floating point types, views of
// complex numbers as real ones and nodes that name what is there (parts of tuples, what leaves the program)
// copy. Random states (u64) are whole numbers.
#pragma once

#include <string>

#include "strategies/programs/program.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

[[nodiscard]] TensorMeta wide_meta(const TensorMeta& meta);

// Its tensors are replicated; a caller that runs it on shards sets their layouts. Throws InputError: an op
// on complex numbers that has no kernel. Assumes a node that is no source.
[[nodiscard]] OpCall wide_call(const Program& program, std::size_t node, int mesh_ndim);

}  // namespace shardlab
