// Programs: a graph of ops on tensors with shapes, each node after those it reads.
//
//   {"schema": "shardlab/program/1", "name": ..., "source": ...,
//    "nodes": [{"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [8, 16]}]},
//              {"name": "w", "kind": "parameter", "outputs": [...]},
//              {"name": "y", "kind": "op", "op": "aten.mm.default", "inputs": ["x", "w"],
//               "outputs": [...], "phase": "forward"}],
//    "pairs": [["w", "grad_w"]]}
//
// An input is a node's name, its first output; "name:1" is its second; an array of them is a tensor
// list. `args` is {"positional": [...]}: the op's arguments that are not tensors, in order. `phase`
// is forward unless said otherwise. Outputs and gradients name what leaves the program: they compute
// nothing (an op that they name is that of the graph they come from, an alias), and nothing reads them.
// Parameters, buffers, inputs and tangents have one output each. One part of an op with several outputs
// may be a node of its own, of the op _operator.getitem. `label` is what a value is called in the model
// ("layers.0.attention.wq.weight", or the module that it comes from), for recipes. Immutable.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"
#include "sim/tensor_spec.h"

namespace shardlab {

enum class NodeKind : std::uint8_t {
  kOp,
  kParameter,
  kBuffer,
  kInput,
  kTangent,
  kOutput,
  kGradient
};
[[nodiscard]] std::string_view to_string(NodeKind kind);
enum class Phase : std::uint8_t { kForward, kBackward };
[[nodiscard]] std::string_view to_string(Phase phase);

// One output of an earlier node.
struct ValueRef {
  std::size_t node = 0;
  std::size_t output = 0;
  friend bool operator==(const ValueRef&, const ValueRef&) = default;
};

struct ProgramInput {
  std::vector<ValueRef> values;
  bool is_list = false;
};

struct ProgramNode {
  std::string name;
  std::string label = {};
  NodeKind kind = NodeKind::kOp;
  Phase phase = Phase::kForward;
  std::string op;  // of kOp
  std::vector<ProgramInput> inputs;
  nlohmann::json args = nlohmann::json::array();
  std::vector<TensorMeta> outputs;

  [[nodiscard]] bool computes() const { return kind == NodeKind::kOp; }
  // Names what leaves the program.
  [[nodiscard]] bool leaves() const {
    return kind == NodeKind::kOutput || kind == NodeKind::kGradient;
  }
  // Has a layout of its own, which nothing before it decides.
  [[nodiscard]] bool is_source() const { return !computes() && !leaves(); }
};

struct Program {
  std::string name;
  std::string source;
  std::vector<ProgramNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;

  // Throws ConfigError: unknown keys, names, kinds and dtypes, a name that stands twice, a node that
  // reads what comes later or has left the program, an op without a name, outputs past a tensor's bounds, a
  // pair of tensors of different shapes. Whether ops take and make their tensors: program_check.h.
  [[nodiscard]] static Program from_json(const nlohmann::json& json, const JsonPlace& place);
  // The file, a node a line.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view node) const;
};

// A node of a program makes no sense although each of its words does.
class NodeError : public InputError {
 public:
  NodeError(std::size_t node, const std::string& message) : InputError(message), node_(node) {}
  [[nodiscard]] std::size_t node() const { return node_; }
  // Of the program's JSON: "/nodes/3".
  [[nodiscard]] std::string pointer() const { return "/nodes/" + std::to_string(node_); }

 private:
  std::size_t node_;
};

// The node that shows one part of another's outputs.
inline constexpr std::string_view kGetItem = "_operator.getitem";

}  // namespace shardlab
