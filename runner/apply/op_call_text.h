// One node of a program as a call in Python, on the tensors that a rank holds.
//
//   op_call_text({node, mesh, tensors, outputs}).call       // "aten.mm.default(x, w)"
//
// An operator's arguments are those of the program but where they speak of a whole tensor: the
// shape that a view asks for becomes that of this rank's part, and a lookup in a table whose rows
// are sharded looks up this rank's rows. Random numbers are drawn so that replicas agree. Throws
// InputError for an op that ATen lacks, and for one that can't run on the ranks' parts as its
// layouts say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/program.h"

namespace shardlab::apply {

// A tensor that a node reads, in the layout that the node wants.
struct ReadTensor {
  std::string variable;
  TensorMeta meta;  // shape and dtype of the whole tensor
  Layout layout;
};

struct NodeToWrite {
  const ProgramNode& node;
  const DeviceMesh& mesh;
  std::vector<ReadTensor> tensors;  // by argument; lists are flattened
  std::span<const Layout> outputs;
};

struct CallText {
  std::string call;
  // Whether the call returns a list of several tensors.
  bool is_list = false;
  bool uses_lookups = false;
  bool uses_attention = false;
};

[[nodiscard]] CallText op_call_text(const NodeToWrite& node);

// The shape that a rank holds: numbers if all ranks hold the same, and a call that finds out if
// not.
[[nodiscard]] std::string local_shape_text(const Shape& shape, const Layout& layout,
                                           const DeviceMesh& mesh);

}  // namespace shardlab::apply
