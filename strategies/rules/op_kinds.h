// What each release of PyTorch does with the operators of ATen on DTensors, whether or not shardlab
// has a rule of them: an operator without a rule is refused with what PyTorch does.
//
//   const std::optional<AtenOp> op = find_aten_op("unfold", Release::k2_15);
//   op->name, op->kind               // "aten.unfold.default", OpKind::kDecomposed
//
// Source: op_kinds.txt, which scripts/make_op_schemas.py writes from the dispatcher and the
// ShardingPropagator of each release. tests/scripts/op_kinds_test.py compares it with the PyTorch
// that is installed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/rule_set.h"

namespace shardlab {

// The values are the letters of the file.
enum class OpKind : char {
  kComposite = 'c',      // other operators run in its place (CompositeImplicitAutograd)
  kHandled = 'h',        // DTensor has a handler of its own for it
  kStrategy = 's',       // DTensor has a sharding strategy for it
  kDataDependent = 'u',  // DTensor has none, and the shape of the result depends on the data
  kDecomposed = 'd',     // DTensor has none, but tries the operator's decomposition
  kNone = 'n',           // DTensor has none and no decomposition
  kAbsent = '-',         // the release has no such operator, but another has
};

struct AtenOp {
  std::string name;  // "aten.unfold.default"
  OpKind kind = OpKind::kNone;
};

// `op` may leave out "aten." and the overload; the operator without an overload's name is then
// preferred, and otherwise the first one by name. Nothing for a name that no release has.
[[nodiscard]] std::optional<AtenOp> find_aten_op(std::string_view op, Release release);

// All operators of the kind, by name.
[[nodiscard]] std::vector<AtenOp> aten_ops_of(OpKind kind, Release release);

// Why shardlab has no rule of the operator and what PyTorch does with it, in words that follow its
// name: "has no sharding rule, since ...".
[[nodiscard]] std::string why_no_rule(const AtenOp& op, Release release);

}  // namespace shardlab
