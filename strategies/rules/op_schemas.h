// The schemas of ATen's operators: which arguments an operator takes, in which order, and which of
// them are tensors. A program lists an op's tensors apart from its other arguments; only the schema
// says how a call interleaves them.
//
//   const OpSchema* schema = find_op_schema("aten.add.Tensor");
//   schema->arguments[2].name, schema->arguments[2].only_by_name     // "alpha", true
//
// Source: op_schemas.txt, which scripts/make_op_schemas.py writes from PyTorch 2.13.0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct SchemaArgument {
  enum class Kind { kTensor, kOptionalTensor, kTensorList, kDType, kOther };
  std::string name;
  Kind kind = Kind::kOther;
  std::string fallback;  // the default as Python's text; "" if the argument has none
  bool only_by_name = false;

  [[nodiscard]] bool is_tensor() const { return kind <= Kind::kTensorList; }
};

struct OpSchema {
  std::vector<SchemaArgument> arguments;
  std::size_t results = 1;

  [[nodiscard]] bool has(std::string_view argument) const;
};

// Null for an operator that is not ATen's, or that no program has.
[[nodiscard]] const OpSchema* find_op_schema(std::string_view op);

}  // namespace shardlab
