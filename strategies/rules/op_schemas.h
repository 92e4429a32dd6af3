// The schemas of ATen's operators and of the prims: which arguments an operator takes, in which
// order, and which of them are tensors. A call lists an op's tensors apart from its other arguments
// (op_call.h); only the schema says how the two interleave.
//
//   const std::optional<OpSchema> schema = find_op_schema("aten.add.Tensor");
//   schema->arguments[2].name, schema->arguments[2].only_by_name     // "alpha", true
//
// Source: op_schemas.txt, which scripts/make_op_schemas.py writes from PyTorch 2.13.0. In 2.14.1
// and 2.15.0, operators that had a schema before take the same arguments.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// Texts are those of the schema, which live as long as the program.
struct SchemaArgument {
  enum class Kind { kTensor, kOptionalTensor, kTensorList, kDType, kOther };
  std::string_view name;
  std::string_view type;  // "int[1]?"
  Kind kind = Kind::kOther;
  std::string_view fallback = {};  // the default as Python's text; "" if the argument has none
  bool only_by_name = false;

  [[nodiscard]] bool is_tensor() const { return kind <= Kind::kTensorList; }
  [[nodiscard]] bool is_written() const { return type.find('!') != std::string_view::npos; }
  [[nodiscard]] bool may_be_left_out() const { return !fallback.empty() || type.ends_with('?'); }
};

struct OpSchema {
  std::string_view text;  // "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  std::vector<SchemaArgument> arguments;
  std::size_t results = 1;
  bool writes = false;  // whether it writes to one of its arguments

  [[nodiscard]] bool has(std::string_view argument) const;
};

// Nothing for an operator that is neither ATen's nor a prim, or that no program has.
[[nodiscard]] std::optional<OpSchema> find_op_schema(std::string_view op);

// Throws InputError if the call has an argument that the op's schema doesn't know, or one of
// another type. Rules read the arguments that they need; without this check a question with an
// argument that no rule reads, as in max.default(x, 1), would get the answer to another question.
// Null stands for a default, and the last arguments may be left out (op_call.h). Tensors are left
// to the rules, and operators without a schema pass.
void expect_arguments_of_schema(const OpCall& call);

}  // namespace shardlab
