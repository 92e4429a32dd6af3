// Programs: graphs of ops on tensors with shapes. Each node comes after those that it reads.
//
//   {"schema": "shardlab/program/1", "name": ..., "source": ...,
//    "nodes": [{"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [8, 16]}]},
//              {"name": "w", "kind": "parameter", "outputs": [...]},
//              {"name": "y", "kind": "op", "op": "aten.mm.default", "inputs": ["x", "w"],
//               "outputs": [...], "phase": "forward"}],
//    "pairs": [["w", "grad_w"]]}
//
// An input is written as a node's name, which means its first output ("name:1" is the second one),
// or as an array of such names, which is a tensor list. `args` is {"positional": [...]}: the op's
// arguments that are not tensors, in order. `phase` is forward unless said otherwise. Outputs and
// gradients name what leaves the program: they compute nothing (an op that they name is only what
// the traced graph shows there, an alias), and nothing reads them. Parameters, buffers, inputs and
// tangents have one output each. One part of an op with several outputs may be a node of its own,
// of the op _operator.getitem. `label` is what a value is called in the model
// ("layers.0.attention.wq.weight", or the module that it comes from); recipes go by it. Programs
// are not changed once they are read.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/enum_names.h"
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
template <>
struct EnumNames<NodeKind> {
  static constexpr std::string_view kKind = "kind";
  static constexpr std::array kNames = {Named{NodeKind::kOp, "op"},
                                        Named{NodeKind::kParameter, "parameter"},
                                        Named{NodeKind::kBuffer, "buffer"},
                                        Named{NodeKind::kInput, "input"},
                                        Named{NodeKind::kTangent, "tangent"},
                                        Named{NodeKind::kOutput, "output"},
                                        Named{NodeKind::kGradient, "gradient"}};
};
[[nodiscard]] constexpr std::string_view to_string(NodeKind kind) { return name_of(kind); }

enum class Phase : std::uint8_t { kForward, kBackward };
template <>
struct EnumNames<Phase> {
  static constexpr std::string_view kKind = "phase";
  static constexpr std::array kNames = {Named{Phase::kForward, "forward"},
                                        Named{Phase::kBackward, "backward"}};
};
[[nodiscard]] constexpr std::string_view to_string(Phase phase) { return name_of(phase); }

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
  std::string op;  // always given for kOp
  std::vector<ProgramInput> inputs;
  nlohmann::json args = nlohmann::json::array();
  std::vector<TensorMeta> outputs;

  [[nodiscard]] bool computes() const { return kind == NodeKind::kOp; }
  // Whether the node names what leaves the program.
  [[nodiscard]] bool leaves() const {
    return kind == NodeKind::kOutput || kind == NodeKind::kGradient;
  }
  // Whether the node has a layout of its own, which nothing before it decides.
  [[nodiscard]] bool is_source() const { return !computes() && !leaves(); }
};

struct Program {
  std::string name;
  std::string source;
  std::vector<ProgramNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;

  // Throws ConfigError for unknown keys, names, kinds and dtypes, a name that stands twice, a node
  // that reads what comes later or has left the program, an op without a name, outputs beyond a
  // tensor's bounds, and a pair of tensors of different shapes. Whether ops take and make their
  // tensors is for program_check.h.
  [[nodiscard]] static Program from_json(const nlohmann::json& json, const JsonPlace& place);
  // The program as a file, with one node on each line.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view node) const;
};

// Says that a node of a program makes no sense although each of its words does.
class NodeError : public InputError {
 public:
  NodeError(std::size_t node, const std::string& message) : InputError(message), node_(node) {}
  [[nodiscard]] std::size_t node() const { return node_; }
  // Where the node stands in the program's JSON: "/nodes/3".
  [[nodiscard]] std::string pointer() const { return "/nodes/" + std::to_string(node_); }

 private:
  std::size_t node_;
};

// The op of a node that gives another node's output a second name.
inline constexpr std::string_view kAlias = "aten.alias.default";
// The op of a node that shows one part of another node's outputs.
inline constexpr std::string_view kGetItem = "_operator.getitem";

}  // namespace shardlab
