// A program in double precision, as virtual ranks compute it. Every floating point tensor is f64,
// so that small whole numbers stay exact and rounding is too small to hide a wrong plan.
//
//   wide_meta(bf16[8,16])              f64[8,16]
//   wide_meta(c64[8,4])                f64[8,4,2]: complex numbers are pairs, in a last dim of two
//   wide_call(program, node, 2)        the call of the node's reference kernel on such tensors, on
//                                      a mesh of two dims
//
// Layouts are the program's own: the dim of pairs is never sharded. Three kinds of nodes become
// copies: casts between floating point types, views of complex numbers as real ones, and nodes that
// only name another node's value (parts of tuples, and what leaves the program). Random states
// (u64) become i64.
#pragma once

#include <string>

#include "strategies/programs/program.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

// The tensor in double precision.
[[nodiscard]] TensorMeta wide_meta(const TensorMeta& meta);

// The call with which a node's reference kernel is run. Its tensors are replicated; a caller that
// runs the kernel on shards sets their layouts. Throws InputError for an op on complex numbers that
// has no kernel. Assumes that the node is not a source.
[[nodiscard]] OpCall wide_call(const Program& program, std::size_t node, int mesh_ndim);

}  // namespace shardlab
