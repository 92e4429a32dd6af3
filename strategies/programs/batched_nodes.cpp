#include "strategies/programs/batched_nodes.h"

#include <algorithm>

#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

std::int64_t numel(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

// How many sequences the program's first input has, and how many tokens in all.
struct BatchExtent {
  std::int64_t sequences = -1;
  std::int64_t tokens = -1;

  [[nodiscard]] bool has(const Shape& shape) const {
    return shape.size() > 1 && (shape[0] == sequences || (shape.size() == 2 && shape[0] == tokens));
  }
};
BatchExtent batch_of(const Program& program) {
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kInput || node.outputs[0].shape.empty()) continue;
    return {node.outputs[0].shape[0], numel(node.outputs[0].shape)};
  }
  return {};
}

// Whether a node only copies, casts or reshapes the one value that it reads, so that it keeps every
// element.
bool only_reshapes(const ProgramNode& node, const std::vector<ValueRef>& values,
                   const Program& program) {
  return values.size() == 1 && !node.op.starts_with("aten.sum.") &&
         !node.op.starts_with("aten.mean.") &&
         numel(program.nodes[values[0].node].outputs[values[0].output].shape) ==
             numel(node.outputs[0].shape);
}

// For each node: whether it holds a parameter's gradient: the op that computes the gradient, and
// the copies, casts and sums that lie between this op and the program's output.
std::vector<bool> parameter_gradients(const Program& program) {
  std::vector<bool> found(program.nodes.size(), false);
  for (const auto& [source, gradient] : program.pairs) {
    if (program.nodes[source].kind == NodeKind::kParameter) found[gradient] = true;
  }
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const ProgramNode& node = program.nodes[n];
    if (!found[n] || node.is_source() || node.outputs.empty()) continue;
    const std::vector<ValueRef> values = values_read(node);
    const bool adds = node.op == "aten.add.Tensor";
    if (!adds && !only_reshapes(node, values, program)) continue;
    for (const ValueRef& value : values) {
      const ProgramNode& from = program.nodes[value.node];
      // If an op has several outputs, the first may be the gradient of an activation.
      if (from.is_source() || from.outputs.size() != 1) continue;
      if (adds && from.outputs[0].shape != node.outputs[0].shape) continue;
      found[value.node] = true;
    }
  }
  return found;
}

// The position in the output of dim `dim` of the input. Only permutations change it.
int moved_dim(const ProgramNode& node, int dim) {
  const int ndim = static_cast<int>(node.outputs[0].shape.size());
  const auto wrapped = [&](const nlohmann::json& json) {
    const int dim_given = json.get<int>();
    return dim_given < 0 ? dim_given + ndim : dim_given;
  };
  if (node.op == "aten.t.default") return ndim == 2 ? 1 - dim : dim;
  if (node.op == "aten.permute.default" && !node.args.empty() && node.args[0].is_array()) {
    const nlohmann::json& order = node.args[0];
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].is_number_integer() && wrapped(order[i]) == dim) return static_cast<int>(i);
    }
  }
  if (node.op == "aten.transpose.int" && node.args.size() == 2 &&
      node.args[0].is_number_integer() && node.args[1].is_number_integer()) {
    const int first = wrapped(node.args[0]);
    const int second = wrapped(node.args[1]);
    if (dim == first) return second;
    if (dim == second) return first;
  }
  return dim;
}

constexpr int kNoBatch = -1;

// For each node: which dim of its value is the batch. In an input it is the first; an op keeps it
// unless it permutes. Values that depend on parameters and buffers alone have kNoBatch.
std::vector<int> batch_dims(const Program& program) {
  std::vector<int> dims(program.nodes.size(), kNoBatch);
  for (std::size_t n = 0; n < dims.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (node.outputs.empty()) continue;
    if (node.is_source()) {
      if (node.kind == NodeKind::kInput || node.kind == NodeKind::kTangent) dims[n] = 0;
      continue;
    }
    for (const ValueRef& value : values_read(node)) {
      const int dim = dims[value.node];
      if (dim != kNoBatch) dims[n] = dims[n] == kNoBatch ? dim : std::min(dims[n], dim);
    }
    if (dims[n] != kNoBatch) dims[n] = moved_dim(node, dims[n]);
  }
  return dims;
}

}  // namespace

std::vector<bool> batched_nodes(const Program& program) {
  const BatchExtent batch = batch_of(program);
  const std::vector<bool> gradients = parameter_gradients(program);
  const std::vector<int> dims = batch_dims(program);
  std::vector<bool> batched(program.nodes.size(), false);
  for (std::size_t n = 0; n < batched.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    batched[n] = dims[n] == 0 && !gradients[n] && node.kind != NodeKind::kGradient &&
                 !node.outputs.empty() && batch.has(node.outputs[0].shape);
  }
  return batched;
}

}  // namespace shardlab
