// Matrix products, generated from einsum equations. Source: PyTorch 2.13.0, _ops/_matrix_ops.py;
// pull requests #172387, #174926.
#include <algorithm>

#include "costmodel/error.h"
#include "strategies/einsum.h"
#include "strategies/op_rule.h"

namespace shardlab {
namespace {

using Linearity = EinsumEquation::Linearity;

std::vector<Shape> shapes_from(const OpCall& call, std::size_t first) {
  std::vector<Shape> shapes;
  const auto tensors = call.tensors();
  for (std::size_t i = first; i < tensors.size(); ++i) shapes.push_back(tensors[i]->meta.shape);
  return shapes;
}

void expect_tensors(const OpCall& call, std::size_t count) {
  const std::size_t found = call.tensors().size();
  if (found != count) {
    throw InputError(call.op + ": takes " + std::to_string(count) + " tensors, found " +
                     std::to_string(found));
  }
}

std::string_view equation_of(std::string_view op) {
  if (op == "aten.mm.default" || op == "aten.addmm.default") return "mk,kn->mn";
  if (op == "aten.bmm.default" || op == "aten.baddbmm.default") return "bmk,bkn->bmn";
  if (op == "aten.mv.default") return "mk,k->m";
  return "i,i->";
}

// -- mm, bmm, mv, dot
// --------------------------------------------------------------------------------------------------

std::vector<TensorMeta> product_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const EinsumEquation equation = EinsumEquation::parse(equation_of(call.op));
  TensorMeta out = call.tensors()[0]->meta;
  out.shape = equation.output_shape(shapes_from(call, 0), call.op);
  out.strides.clear();
  return {out};
}

Rows product_rows(const OpCall&, const OpRule& rule) {
  return EinsumEquation::parse(rule.equation).rows(Linearity::kPerInput, true);
}

Rows concrete_product_rows(const OpCall&, const OpRule& rule) {
  return EinsumEquation::parse(rule.equation).rows(Linearity::kNone, false);
}

// Two operations for every combination of the letters of [b]mk,[b]kn or mk,k or i,i; where one side
// of a contracted dim is sharded, the smaller extent is what is computed.
double product_flops(std::span<const Shape> local, const OpCall&) {
  const Shape& a = local[0];
  const Shape& b = local[1];
  double flops = 2.0;
  for (std::size_t i = 0; i + 1 < a.size(); ++i) flops *= static_cast<double>(a[i]);
  flops *= static_cast<double>(std::min(a.back(), b[b.size() < 2 ? 0 : b.size() - 2]));
  if (b.size() >= 2) flops *= static_cast<double>(b.back());
  return flops;
}

// -- addmm, baddbmm: the bias follows the output through broadcasting
// --------------------------------------------------

std::vector<TensorMeta> biased_outputs(const OpCall& call) {
  expect_tensors(call, 3);
  const EinsumEquation equation = EinsumEquation::parse(equation_of(call.op));
  TensorMeta out = call.tensors()[1]->meta;
  out.shape = equation.output_shape(shapes_from(call, 1), call.op);
  out.strides.clear();
  const TensorSpec product{out, Layout()};
  const std::array<const TensorSpec*, 2> both = {call.tensors()[0], &product};
  if (broadcast_shape(both, call.op) != out.shape) {
    throw InputError(call.op + ": bias " + call.tensors()[0]->meta.text() +
                     " does not broadcast to " + out.text());
  }
  return {out};
}

RowEntry bias_entry(const RowEntry& output, const Shape& bias, std::size_t output_ndim) {
  const bool sharded = output.is_any_shard() || output.placement().is_shard_like();
  if (!sharded) return output;
  const int missing = static_cast<int>(output_ndim - bias.size());
  const int dim = output.dim() - missing;
  if (dim < 0 || bias[static_cast<std::size_t>(dim)] == 1) return Placement::replicate();
  return output.is_any_shard() ? RowEntry::any_shard(dim) : RowEntry(Placement::shard(dim));
}

Rows with_bias(Rows rows, const OpCall& call, const OpRule& rule) {
  const std::size_t output_ndim = EinsumEquation::parse(rule.equation).output().size();
  for (Row& row : rows) {
    row.insert(row.begin() + 1, bias_entry(row[0], call.tensors()[0]->meta.shape, output_ndim));
  }
  return rows;
}

Rows biased_rows(const OpCall& call, const OpRule& rule) {
  return with_bias(product_rows(call, rule), call, rule);
}

Rows concrete_biased_rows(const OpCall& call, const OpRule& rule) {
  return with_bias(concrete_product_rows(call, rule), call, rule);
}

// PyTorch 2.13.0 has no rule for mv: it propagates through the decomposition (multiply, then sum
// over k), which keeps P(sum) of either input and no other partial. It proposes partials only where
// one occurs among the inputs.
Rows decomposed_mv_rows(const OpCall& call, const OpRule&) {
  const Placement p = Placement::partial();
  const Placement r = Placement::replicate();
  Rows rows = {{RowEntry::any_shard(0), RowEntry::any_shard(0), r},
               {p, RowEntry::any_shard(1), RowEntry::any_shard(0)}};
  for (const TensorSpec* tensor : call.tensors()) {
    const Placements& placements = tensor->layout.placements;
    if (std::find(placements.begin(), placements.end(), p) != placements.end()) {
      rows.push_back({p, p, r});
      rows.push_back({p, r, p});
      break;
    }
  }
  return rows;
}

double biased_flops(std::span<const Shape> local, const OpCall& call) {
  return product_flops(local.subspan(1), call);
}

// -- einsum of any equation: the first of --args
// -----------------------------------------------------------------------

EinsumEquation einsum_equation(const OpCall& call) {
  if (call.args.empty() || !call.args[0].is_string()) {
    throw InputError(call.op + ": --args must begin with the equation, such as [\"mk,kn->mn\"]");
  }
  try {
    return EinsumEquation::parse(call.args[0].get<std::string>());
  } catch (const TextError& error) {
    throw InputError(call.op + ": --args: " + error.what());
  }
}

std::vector<TensorMeta> einsum_outputs(const OpCall& call) {
  const EinsumEquation equation = einsum_equation(call);
  expect_tensors(call, equation.inputs().size());
  TensorMeta out = call.tensors()[0]->meta;
  out.shape = equation.output_shape(shapes_from(call, 0), call.op);
  out.strides.clear();
  return {out};
}

Rows einsum_rows(const OpCall& call, const OpRule&) {
  return einsum_equation(call).rows(Linearity::kPerInput, true);
}

double einsum_flops(std::span<const Shape> local, const OpCall& call) {
  return einsum_equation(call).flops(local);
}

constexpr unsigned kCurrent = kDTensor213 | kShardlab;

constexpr OpRule kRules[] = {
    {.op = "aten.addmm.default",
     .sets = kCurrent,
     .outputs = biased_outputs,
     .rows = biased_rows,
     .kernel = Kernel::kGemm,
     .flops = biased_flops,
     .equation = "mk,kn->mn"},
    {.op = "aten.addmm.default",
     .sets = kDTensorLegacy,
     .outputs = biased_outputs,
     .rows = concrete_biased_rows,
     .kernel = Kernel::kGemm,
     .flops = biased_flops,
     .equation = "mk,kn->mn"},
    {.op = "aten.baddbmm.default",
     .sets = kCurrent,
     .outputs = biased_outputs,
     .rows = biased_rows,
     .kernel = Kernel::kGemm,
     .flops = biased_flops,
     .equation = "bmk,bkn->bmn"},
    {.op = "aten.baddbmm.default",
     .sets = kDTensorLegacy,
     .outputs = biased_outputs,
     .rows = concrete_biased_rows,
     .kernel = Kernel::kGemm,
     .flops = biased_flops,
     .equation = "bmk,bkn->bmn"},
    {.op = "aten.bmm.default",
     .sets = kCurrent,
     .outputs = product_outputs,
     .rows = product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "bmk,bkn->bmn"},
    {.op = "aten.bmm.default",
     .sets = kDTensorLegacy,
     .outputs = product_outputs,
     .rows = concrete_product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "bmk,bkn->bmn"},
    // PyTorch 2.13.0 still has the older generator here: shards are proposed out of nothing,
    // partials never kept.
    {.op = "aten.dot.default",
     .sets = kDTensor213 | kDTensorLegacy,
     .outputs = product_outputs,
     .rows = concrete_product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "i,i->"},
    {.op = "aten.dot.default",
     .sets = kShardlab,
     .outputs = product_outputs,
     .rows = product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "i,i->"},
    {.op = "aten.einsum.default",
     .sets = kShardlab,
     .outputs = einsum_outputs,
     .rows = einsum_rows,
     .kernel = Kernel::kGemm,
     .flops = einsum_flops},
    {.op = "aten.mm.default",
     .sets = kCurrent,
     .outputs = product_outputs,
     .rows = product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "mk,kn->mn"},
    {.op = "aten.mm.default",
     .sets = kDTensorLegacy,
     .outputs = product_outputs,
     .rows = concrete_product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "mk,kn->mn"},
    {.op = "aten.mv.default",
     .sets = kDTensor213 | kDTensorLegacy,
     .outputs = product_outputs,
     .rows = decomposed_mv_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "mk,k->m"},
    {.op = "aten.mv.default",
     .sets = kShardlab,
     .outputs = product_outputs,
     .rows = product_rows,
     .kernel = Kernel::kGemm,
     .flops = product_flops,
     .equation = "mk,k->m"},
};

}  // namespace

OP_RULES(matmul){kRules};

}  // namespace shardlab
