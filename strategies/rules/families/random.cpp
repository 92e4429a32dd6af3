// Ops that draw random numbers. Any dim may be sharded, and no partial passes. The number for an
// element depends on the position of the element, so ranks that hold the same element draw the same
// number. Source: PyTorch 2.13.0, _ops/_random_ops.py and, for the out= and functional forms,
// autogen.py.
#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/pointwise.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace random_rules {

using namespace rows;

// The first tensor, which the op reads or writes. An out= form has a tensor for each output after
// its inputs.
template <std::size_t kInputs, std::size_t kWritten>
const TensorSpec& first_tensor(const OpCall& call) {
  expect_tensors(call, kInputs + kWritten);
  return *call.tensors()[0];
}

template <std::size_t kWritten>
std::vector<TensorMeta> drawn_outputs(const OpCall& call) {
  TensorMeta out = first_tensor<1, kWritten>(call).meta;
  out.strides.clear();
  if (kWritten > 0) {
    const TensorMeta& written = call.tensors().back()->meta;
    out.dtype = written.dtype;
    if (written.shape != out.shape) {
      throw InputError(call.op + ": out " + written.text() + " does not have the result's shape, " +
                       out.text());
    }
  }
  return {out};
}

// The outputs are the result, and which of the elements were kept.
template <std::size_t kWritten>
std::vector<TensorMeta> dropout_outputs(const OpCall& call) {
  TensorMeta out = first_tensor<1, kWritten>(call).meta;
  out.strides.clear();
  TensorMeta mask = out;
  mask.dtype = DType::kB8;
  return {out, mask};
}

// The outputs are the result, and the noise that was drawn for it.
std::vector<TensorMeta> noisy_outputs(const OpCall& call) {
  static_cast<void>(first_tensor<2, 0>(call));
  TensorMeta noise = call.tensors()[1]->meta;
  noise.strides.clear();
  return {pointwise_output(call, ResultType::kFirst, 2), noise};
}
Rows noisy_rows(const OpCall& call, const OpRule& rule) {
  Rows rows = pointwise_rows(call, rule);
  for (Row& row : rows) row.insert(row.begin() + 1, RowEntry(row.back()));
  return rows;
}

template <std::size_t kWritten>
std::vector<TensorMeta> multinomial_outputs(const OpCall& call) {
  TensorMeta out = first_tensor<1, kWritten>(call).meta;
  const std::int64_t samples = call.integer_arg(0, 0);
  if (out.shape.empty() || out.shape.size() > 2 || samples < 1 || samples > (1 << 24)) {
    throw InputError(call.op + ": found weights " + out.text() + " and " + std::to_string(samples) +
                     " samples; valid: weights of 1 or 2 dims and 1 to 2^24 samples");
  }
  out.shape.back() = samples;
  out.strides.clear();
  out.dtype = DType::kI64;
  return {out};
}

// All tensors are sharded alike, on any dim except the last kWhole.
template <std::size_t kOutputs, int kWhole>
Rows alike_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  if (call.tensors().empty()) throw InputError(call.op + ": takes at least one tensor, found none");
  for (int dim = 0; dim < call.tensors()[0]->meta.ndim() - kWhole; ++dim) {
    rows.push_back(all_alike(kOutputs + call.tensors().size(), RowEntry::any_shard(dim)));
  }
  return rows;
}

std::string_view excuse_drawn(const OpCall& call, const Row& row) {
  const bool partial = std::any_of(
      row.begin(), row.end(), [](const RowEntry& entry) { return entry.placement().is_partial(); });
  if (partial) return "random numbers are drawn for whole values, not for parts of them";
  return call.op.ends_with("out") ? "an output keeps the layout of the tensor that it is written to"
                                  : "";
}

constexpr OpRule drawn(std::string_view op, OutputsOf outputs, RowsOf rows,
                       std::size_t out_tensors = 0) {
  return {.op = op,
          .outputs = outputs,
          .rows = rows,
          .uneven_in = kEveryRuleSet,
          .excuse = excuse_drawn,
          .out_tensors = out_tensors,
          .flops = pointwise_flops};
}
constexpr OpRule elementwise(std::string_view op) {
  return drawn(op, drawn_outputs<0>, alike_rows<1, 0>);
}
constexpr OpRule elementwise_out(std::string_view op) {
  return drawn(op, drawn_outputs<1>, alike_rows<1, 0>, 1);
}
// PyTorch has no rule for this op.
constexpr OpRule known_to_shardlab(OpRule rule) {
  rule.sets = kShardlab;
  return rule;
}
constexpr OpRule multinomial(std::string_view op, OutputsOf outputs, std::size_t out_tensors) {
  OpRule rule = drawn(op, outputs, alike_rows<1, 1>, out_tensors);
  rule.uneven_in = kNoRuleSet;
  return rule;
}

constexpr OpRule kRules[] = {
    elementwise("aten.bernoulli.default"),
    known_to_shardlab(elementwise("aten.bernoulli.p")),
    elementwise_out("aten.bernoulli.float_out"),
    elementwise_out("aten.bernoulli.out"),
    elementwise("aten.bernoulli_.float"),
    elementwise_out("aten.exponential.out"),
    elementwise("aten.exponential_.default"),
    elementwise_out("aten.geometric.out"),
    elementwise("aten.geometric_.default"),
    elementwise_out("aten.log_normal.out"),
    elementwise("aten.log_normal_.default"),
    multinomial("aten.multinomial.default", multinomial_outputs<0>, 0),
    multinomial("aten.multinomial.out", multinomial_outputs<1>, 1),
    drawn("aten.native_dropout.default", dropout_outputs<0>, alike_rows<2, 0>),
    drawn("aten.native_dropout.out", dropout_outputs<2>, alike_rows<2, 0>, 2),
    elementwise_out("aten.normal.out"),
    elementwise("aten.normal_.default"),
    elementwise("aten.normal_functional.default"),
    drawn("aten.rrelu_with_noise_functional.default", noisy_outputs, noisy_rows),
    elementwise_out("aten.uniform.out"),
    elementwise("aten.uniform_.default"),
};

}  // namespace random_rules

OP_RULES(random){random_rules::kRules};

}  // namespace shardlab
