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
// or as an array of such names, which is a tensor list; null is an optional tensor that is not
// given, by itself or in a list. `args` is {"positional": [...]}: the op's arguments that are not
// tensors, in order; "inf", "-inf" and "nan" are numbers. `phase` is forward by default. Nodes of
// kind output, gradient or buffer_update (the new value of a buffer, whose layout a pair ties to
// it) name values that leave the program: they compute nothing (their `op` is only the alias
// that the traced graph shows there), and no node reads them. Parameters, buffers, inputs and
// tangents have one output each. One part of an op with several outputs may be a node of its own,
// of the op _operator.getitem. `label` is what a value is called in the model
// ("layers.0.attention.wq.weight", or the module that it comes from); recipes select nodes by it.
// `trace` says which lines of the model's code made a node ("model.py:31 model.py:12"); nodes of
// repeated layers share it (strategies/programs/repeated_regions.h). A program is not changed after
// it has been read.
//
// Ops in kListedOps are regions that do as the program says: args.positional lists their
// strategies, each a list of layouts, those of the outputs before those of the inputs. Their
// kernels are not priced.
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
  kGradient,
  kBufferUpdate
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
                                        Named{NodeKind::kGradient, "gradient"},
                                        Named{NodeKind::kBufferUpdate, "buffer_update"}};
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

// An argument that is a tensor or a list of tensors.
struct ProgramInput {
  std::vector<ValueRef> values = {};  // only those that are given
  bool is_list = false;
  // Says for each position in a list whether that tensor is given. It is empty when all are given.
  std::vector<bool> given = {};
};

struct ProgramNode {
  std::string name;
  std::string label = {};
  std::string trace = {};
  NodeKind kind = NodeKind::kOp;
  Phase phase = Phase::kForward;
  std::string op;  // never empty for kOp
  std::vector<ProgramInput> inputs;
  nlohmann::json args = nlohmann::json::array();
  std::vector<TensorMeta> outputs;

  [[nodiscard]] bool computes() const { return kind == NodeKind::kOp; }
  // Whether the node names a value that leaves the program.
  [[nodiscard]] bool leaves() const {
    return kind == NodeKind::kOutput || kind == NodeKind::kGradient ||
           kind == NodeKind::kBufferUpdate;
  }
  // Whether the node has a layout of its own, which no node before it decides.
  [[nodiscard]] bool is_source() const { return !computes() && !leaves(); }
};

struct Program {
  std::string name;
  std::string source;
  std::vector<ProgramNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;

  // Throws ConfigError for unknown keys, names, kinds and dtypes, a name that is used twice, a node
  // that reads a later node or one that leaves the program, an op without a name, an output with
  // too many dims or elements, and a pair of tensors of different shapes. Whether the tensors are
  // those that the ops take and make is checked by program_check.h.
  [[nodiscard]] static Program from_json(const nlohmann::json& json, const JsonPlace& place);
  // The program as a file, with one node on each line.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view node) const;
};

// The error for a node whose JSON can be read, but whose op, tensors and arguments do not fit
// together.
class NodeError : public InputError {
 public:
  NodeError(std::size_t node, const std::string& message) : InputError(message), node_(node) {}
  [[nodiscard]] std::size_t node() const { return node_; }
  // The node's place in the program's JSON: "/nodes/3".
  [[nodiscard]] std::string pointer() const { return "/nodes/" + std::to_string(node_); }

 private:
  std::size_t node_;
};

// The op of a node that gives another node's output a second name.
inline constexpr std::string_view kAlias = "aten.alias.default";
// The op of a node that selects one of another node's outputs.
inline constexpr std::string_view kGetItem = "_operator.getitem";
// The ops whose strategies are those that the program lists.
inline constexpr std::array<std::string_view, 2> kListedOps = {"autoparallel.flex_attention",
                                                               "autoparallel.local_map"};
[[nodiscard]] bool is_listed(const ProgramNode& node);

}  // namespace shardlab
