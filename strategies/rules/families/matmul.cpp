// Products of matrices, whose rows come from einsum equations. PyTorch 2.13.0 has both rows and an
// older strategy for whole meshes for mm, addmm, bmm and baddbmm; it uses the rows. Source: PyTorch
// 2.13.0, _ops/_matrix_ops.py, _ops/autogen.py (in-place and out forms); pull requests #172387,
// #174926.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/kernel_work.h"
#include "strategies/rules/decomposition.h"
#include "strategies/rules/einsum.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace matmul_rules {

using Linearity = EinsumEquation::Linearity;

constexpr std::string_view kProduct = "mk,kn->mn";
constexpr std::string_view kBatchedProduct = "bmk,bkn->bmn";
constexpr std::string_view kVectorProduct = "mk,k->m";
constexpr std::int64_t kTileRows = 128;  // rows of a tile of block scales

std::vector<Shape> shapes_from(const OpCall& call, std::size_t first,
                               std::size_t most = kMaxTensorDims) {
  std::vector<Shape> shapes;
  const auto tensors = call.tensors();
  for (std::size_t i = first; i < tensors.size() && shapes.size() < most; ++i) {
    shapes.push_back(tensors[i]->meta.shape);
  }
  return shapes;
}

bool has_out_tensor(const OpCall& call) { return call.op.ends_with("out"); }

// An `out` tensor comes after the operands and is not counted.
void expect_operands(const OpCall& call, std::size_t count) {
  expect_tensors(call, count + (has_out_tensor(call) ? 1 : 0));
  if (call.inputs.size() == call.tensors().size()) return;
  throw InputError(call.op +
                   ": found a tensor list or none; valid: one tensor for each tensor argument");
}

std::string_view equation_of(std::string_view op) {
  if (op.starts_with("aten.bmm") || op.starts_with("aten.baddbmm")) return "bmk,bkn->bmn";
  if (op.starts_with("aten.mv") || op.starts_with("aten.addmv")) return "mk,k->m";
  if (op.starts_with("aten.dot") || op.starts_with("aten.vdot")) return "i,i->";
  return "mk,kn->mn";
}

// Checks the tensor that the op writes to, if any: the first tensor of an in-place op, or the last
// one of an out variant.
void expect_written(const OpCall& call, const OpRule& named, const TensorMeta& out) {
  const auto tensors = call.tensors();
  const TensorSpec* written = named.is_in_place()      ? tensors.front()
                              : named.is_out_variant() ? tensors.back()
                                                       : nullptr;
  if (written == nullptr || written->meta.shape == out.shape) return;
  throw InputError(call.op + ": the tensor that is written to, " + written->meta.text() +
                   ", does not have the result's shape, " + out.text());
}

// An `out` tensor has the placements of the output.
Rows with_out(Rows rows, const OpRule& rule) {
  if (rule.is_out_variant()) {
    for (Row& row : rows) row.push_back(row[0]);
  }
  return rows;
}

// -- mm, bmm, mv, dot --------------------------------------------------------------------------

std::vector<TensorMeta> product_outputs(const OpCall& call) {
  expect_operands(call, 2);
  expect_one_dtype(call);
  const EinsumEquation equation = EinsumEquation::parse(equation_of(call.op));
  TensorMeta out = call.tensors()[0]->meta;
  out.shape = equation.output_shape(shapes_from(call, 0, 2), call.op);
  out.strides.clear();
  expect_written(call, {.op = call.op}, out);
  return {out};
}

Rows product_rows(const OpCall&, const OpRule& rule) {
  return with_out(EinsumEquation::parse(rule.equation).rows(Linearity::kPerInput, true), rule);
}

Rows concrete_product_rows(const OpCall&, const OpRule& rule) {
  return EinsumEquation::parse(rule.equation).rows(Linearity::kNone, false);
}

// Two operations for every combination of the letters of [b]mk,[b]kn or mk,k or i,i. If only one
// input is sharded on the contracted dim, the rank computes with the smaller extent.
double product_flops(std::span<const Shape> local, const OpCall&) {
  const Shape& a = local[0];
  const Shape& b = local[1];
  double flops = 2.0;
  for (std::size_t i = 0; i + 1 < a.size(); ++i) flops *= static_cast<double>(a[i]);
  flops *= static_cast<double>(std::min(a.back(), b[b.size() < 2 ? 0 : b.size() - 2]));
  if (b.size() >= 2) flops *= static_cast<double>(b.back());
  return flops;
}

// The product of the tensors from `first` on, whose local shapes are given.
GemmShape gemm_shape(std::span<const Shape> local, const OpCall& call, std::size_t first) {
  const Shape& a = local[0];
  const Shape& b = local[1];
  GemmShape gemm{.batch = 1.0, .m = 1.0, .n = 1.0, .k = 1.0};
  for (std::size_t i = 0; i + 2 < a.size(); ++i) gemm.batch *= static_cast<double>(a[i]);
  if (a.size() >= 2) gemm.m = static_cast<double>(a[a.size() - 2]);
  if (b.size() >= 2) gemm.n = static_cast<double>(b.back());
  gemm.k = static_cast<double>(std::min(a.back(), b[b.size() < 2 ? 0 : b.size() - 2]));
  const auto tensors = call.tensors();
  gemm.row_multiple = row_multiple(std::array{row_length(tensors[first]->meta, a),
                                              row_length(tensors[first + 1]->meta, b),
                                              gemm.batch * gemm.m > 1.0 ? gemm.n : 1.0});
  return gemm;
}

void product_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  query.gemm = gemm_shape(local, call, 0);
}

// -- addmm, baddbmm ----------------------------------------------------------------------------

// The bias broadcasts to the output and is sharded like it.
std::vector<TensorMeta> biased_outputs(const OpCall& call) {
  expect_operands(call, 3);
  expect_one_dtype(call);
  const EinsumEquation equation = EinsumEquation::parse(equation_of(call.op));
  TensorMeta out = call.tensors()[1]->meta;
  out.shape = equation.output_shape(shapes_from(call, 1, 2), call.op);
  out.strides.clear();
  expect_written(call, {.op = call.op}, out);
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
  if (dim < 0 || bias[to_index(dim)] == 1) return Placement::replicate();
  return output.is_any_shard() ? RowEntry::any_shard(dim) : RowEntry(Placement::shard(dim));
}

Rows per_input_rows(const OpRule& rule) {
  return EinsumEquation::parse(rule.equation).rows(Linearity::kPerInput, true);
}

Rows with_bias(Rows rows, const OpCall& call, const OpRule& rule) {
  const std::size_t output_ndim = EinsumEquation::parse(rule.equation).output().size();
  for (Row& row : rows) {
    row.insert(row.begin() + 1, bias_entry(row[0], call.tensors()[0]->meta.shape, output_ndim));
  }
  return rows;
}

Rows biased_rows(const OpCall& call, const OpRule& rule) {
  return with_out(with_bias(per_input_rows(rule), call, rule), rule);
}

// Adds to PyTorch's rows: since the bias and the product are added, both may be sums at once, or
// one may be an average while the other is replicated. A bias that is added with a positive factor
// may be a maximum or a minimum.
Rows all_biased_rows(const OpCall& call, const OpRule& rule) {
  Rows all = with_bias(per_input_rows(rule), call, rule);
  const Placement r = Placement::replicate();
  const Placement avg = Placement::partial(ReduceOp::kAvg);
  all.push_back({avg, avg, r, r});
  all.push_back({avg, r, avg, r});
  all.push_back({avg, r, r, avg});
  const bool rises = call.number_arg(0, 1.0) >= 0.0;
  for (const bool most : {true, false}) {
    const Placement out = Placement::partial(most ? ReduceOp::kMax : ReduceOp::kMin);
    const Placement bias = Placement::partial(most == rises ? ReduceOp::kMax : ReduceOp::kMin);
    all.push_back({out, bias, r, r});
  }
  return with_out(all, rule);
}

// A maximum or a minimum of the bias passes through relu. A sum does not, and no partial passes
// through gelu.
Rows activated_rows(const OpCall& call, const OpRule& rule) {
  Rows all;
  for (const Row& row : all_biased_rows(call, rule)) {
    const Placement& out = row[0].placement();
    const bool extreme = out.reduce_op() == ReduceOp::kMax || out.reduce_op() == ReduceOp::kMin;
    const bool kept = !out.is_partial() || (extreme && !call.boolean_arg(2, false));
    if (kept) all.push_back(row);
  }
  return all;
}

Rows concrete_biased_rows(const OpCall& call, const OpRule& rule) {
  return with_bias(concrete_product_rows(call, rule), call, rule);
}

double biased_flops(std::span<const Shape> local, const OpCall& call) {
  return product_flops(local.subspan(1), call);
}

void biased_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  query.gemm = gemm_shape(local.subspan(1), call, 1);
}

// -- einsum, whose equation is the first of --args ---------------------------------------------

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
  expect_tensors(call, equation.inputs().size());  // arguments of their own, or PyTorch's list
  expect_one_dtype(call);
  TensorMeta out = call.tensors()[0]->meta;
  out.shape = equation.output_shape(shapes_from(call, 0), call.op);
  out.strides.clear();
  return {out};
}

Rows einsum_rows(const OpCall& call, const OpRule&) {
  const EinsumEquation equation = einsum_equation(call);
  Rows all = equation.rows(Linearity::kPerInput, true);
  // If there is one input and nothing to sum over, then elements only move.
  if (equation.inputs().size() == 1 && equation.inputs()[0].size() == equation.output().size()) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      all.push_back({Placement::partial(op), Placement::partial(op)});
    }
  }
  return all;
}

double einsum_flops(std::span<const Shape> local, const OpCall& call) {
  return einsum_equation(call).flops(local);
}

void einsum_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  const auto tensors = call.tensors();
  query.gemm = einsum_equation(call).gemm(local, {tensors.data(), tensors.size()});
}

// -- _scaled_mm: the product of two matrices of scaled elements -----------------------------------
//
// The tensors are both matrices and their scales, without a bias or a scale of the result. A scale
// is
//   - one number,
//   - a matrix that has, in each dim, one number for the whole dim, for each element or for each
//     block of elements, or
//   - a vector with one number per block of 32 elements of the contracted dim (16 packed ones where
//     the scales are f8e4m3), stored in tiles of 128 rows and 4 blocks.
// The --args are the output's dtype and whether to accumulate fast. PyTorch takes only f8 matrices;
// others are taken here so that the op can be executed.

struct ScaledOperand {
  const TensorMeta& data;
  const TensorMeta& scale;
  int contracted;  // which dim of the data is contracted

  [[nodiscard]] bool is_number() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : scale.shape) count *= extent;
    return count == 1;
  }
  [[nodiscard]] bool is_tiled() const { return !is_number() && scale.ndim() == 1; }
  [[nodiscard]] std::int64_t extent(int dim) const { return data.shape[to_index(dim)]; }
};

ScaledOperand scaled_operand(const OpCall& call, std::size_t i) {
  return {call.required_tensor(i).meta, call.required_tensor(i + 2).meta, i == 0 ? 1 : 0};
}

std::vector<TensorMeta> scaled_outputs(const OpCall& call) {
  const std::size_t written = has_out_tensor(call) ? 1 : 0;
  for (std::size_t i = 4; i + written < call.inputs.size(); ++i) {
    if (call.tensor(i) == nullptr) continue;
    throw InputError(call.op + ": a " + (i == 4 ? "bias" : "scale of the result") +
                     " is not supported on distributed tensors");
  }
  const std::size_t count = 4 + written;
  if (call.inputs.size() < 4 || call.tensors().size() != count) {
    throw InputError(call.op + ": takes " + std::to_string(count) +
                     " tensors (two matrices, their scales" +
                     (has_out_tensor(call) ? " and the out tensor" : "") + "), found " +
                     std::to_string(call.tensors().size()));
  }
  TensorMeta out = call.required_tensor(0).meta;
  out.shape = EinsumEquation::parse(kProduct).output_shape(shapes_from(call, 0, 2), call.op);
  out.strides.clear();
  for (const std::size_t i : {0U, 1U}) {
    const ScaledOperand operand = scaled_operand(call, i);
    bool fits = operand.scale.ndim() <= 2;
    for (int d = 0; fits && operand.scale.ndim() == 2 && d < 2; ++d) {
      fits = operand.scale.shape[to_index(d)] <= operand.extent(d);
    }
    if (fits) continue;
    throw InputError(call.op + ": found a scale " + operand.scale.text() + " for " +
                     operand.data.text() +
                     "; valid: one number, a vector, or a matrix with one number for each block");
  }
  const std::string name = call.text_arg(0, to_string(out.dtype));
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    throw InputError(call.op + ": found dtype \"" + name +
                     "\"; valid: " + std::string(kDTypeNames));
  }
  out.dtype = *dtype;
  expect_written(call, {.op = call.op}, out);
  return {out};
}

// The entry that PyTorch gives to a scale if its data have the entry `data`. Nothing if the scale
// is a vector and the contracted dim is sharded.
std::optional<RowEntry> dtensor_scale(const RowEntry& data, const ScaledOperand& operand) {
  const Placement r = Placement::replicate();
  if (operand.is_number()) return r;
  if (!operand.is_tiled()) return data;
  if (!data.is_any_shard()) return r;
  if (data.dim() == operand.contracted) return std::nullopt;
  return RowEntry::any_shard(0);
}

Rows scaled_rows(const OpCall& call, const OpRule& rule) {
  // PyTorch looks for a bias among the arguments of the call. If all of them are defaults, the list
  // of arguments ends before the bias, and PyTorch fails.
  const bool given = !call.args.empty() && !call.args[0].is_null();
  if (!given && !call.boolean_arg(1, false)) {
    throw InputError(call.op +
                     ": PyTorch 2.13.0 shards this op only with an output dtype or fast " +
                     "accumulation in --args, such as [\"bf16\"]");
  }
  Rows all;
  for (Row row : per_input_rows(rule)) {
    const auto left = dtensor_scale(row[1], scaled_operand(call, 0));
    const auto right = dtensor_scale(row[2], scaled_operand(call, 1));
    if (!left || !right) continue;
    row.push_back(*left);
    row.push_back(*right);
    all.push_back(row);
  }
  return with_out(all, rule);
}

// The entry of a scale if its data have the entry `data`. A matrix of scales is sharded like its
// data, except on dims of extent 1. A vector of scales can be sharded if its tiles follow one
// another along the sharded dim. The scales of partial data are replicated.
std::optional<RowEntry> scale_entry(const RowEntry& data, const ScaledOperand& operand) {
  const Placement r = Placement::replicate();
  if (operand.is_number() || !data.is_any_shard()) return r;
  if (!operand.is_tiled()) {
    return operand.scale.shape[to_index(data.dim())] == 1 ? RowEntry(r)
                                                          : RowEntry::any_shard(data.dim());
  }
  const bool in_one_tile = operand.extent(1 - operand.contracted) <= kTileRows;
  if (data.dim() == operand.contracted && !in_one_tile) return std::nullopt;
  return RowEntry::any_shard(0);
}

Rows all_scaled_rows(const OpCall& call, const OpRule& rule) {
  Rows all;
  for (Row row : per_input_rows(rule)) {
    const auto left = scale_entry(row[1], scaled_operand(call, 0));
    const auto right = scale_entry(row[2], scaled_operand(call, 1));
    if (!left || !right) continue;
    row.push_back(*left);
    row.push_back(*right);
    all.push_back(row);
  }
  const Placement r = Placement::replicate();
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const Placement p = Placement::partial(op);
    all.push_back({p, r, r, p, r});
    all.push_back({p, r, r, r, p});
  }
  return with_out(all, rule);
}

// Whether each shard of the data consists of whole blocks, or whole tiles, so that no two ranks
// need the same scale.
bool scales_fit(const OpCall& call, std::span<const Placements> inputs, const DeviceMesh& mesh) {
  for (const std::size_t i : {0U, 1U}) {
    const ScaledOperand operand = scaled_operand(call, i);
    if (operand.is_number()) continue;
    for (int d = 0; d < 2; ++d) {
      const std::int64_t extent = operand.extent(d);
      std::int64_t blocks = 0;
      if (!operand.is_tiled()) {
        blocks = operand.scale.shape[to_index(d)];
      } else {
        const std::int64_t block = operand.scale.dtype == DType::kF8E4M3 ? 8 : 32;
        const std::int64_t tile = d == operand.contracted ? 4 * block : kTileRows;
        blocks = extent / tile;
        if (extent % tile != 0) blocks = 1;
      }
      const bool is_whole = blocks == 1 || blocks == extent;
      if (blocks == 1 && !operand.is_tiled()) continue;
      const Shape shape = {blocks};
      Placements own;
      for (const Placement& p : inputs[i]) {
        own.push_back(p.is_shard_like() && p.dim() == d ? p.with_dim(0) : Placement::replicate());
      }
      const bool sharded =
          std::any_of(own.begin(), own.end(), [](const Placement& p) { return p.is_shard_like(); });
      if (!sharded || (is_whole && !operand.is_tiled())) continue;
      if (extent % blocks != 0 || !is_evenly_shardable_on_dim(shape, own, mesh, 0)) return false;
    }
  }
  return true;
}

// -- _grouped_mm: one product for each group ------------------------------------------------------
//
// In a stack of matrices each matrix is a group. A single matrix is cut into groups, and the
// offsets say where each group ends: along its rows if the right operand is a stack, along its
// columns if the left one is, and along the contracted dim if both operands are single matrices.

const TensorMeta* offsets_of(const OpCall& call) {
  const TensorSpec* offsets = call.tensor(2);
  return offsets == nullptr ? nullptr : &offsets->meta;
}

std::int64_t alignment_of(const TensorMeta& meta) {
  return std::max<std::int64_t>(1, 16 / itemsize(meta.dtype));
}

std::vector<TensorMeta> grouped_outputs(const OpCall& call) {
  const auto fail = [&](const std::string& what) { throw InputError(call.op + ": " + what); };
  if (call.tensor(3) != nullptr) fail("a bias is not supported");
  const TensorMeta& a = call.required_tensor(0).meta;
  const TensorMeta& b = call.required_tensor(1).meta;
  for (const TensorMeta* matrix : {&a, &b}) {
    if (matrix->ndim() != 2 && matrix->ndim() != 3) {
      fail("found " + matrix->text() + "; valid: a tensor of 2 or 3 dims");
    }
    if (matrix->shape.back() % alignment_of(*matrix) != 0) {
      fail("found " + matrix->text() + "; valid: rows whose bytes are a multiple of 16");
    }
  }
  const auto last = [](const TensorMeta& meta, std::size_t i) {
    return meta.shape[meta.shape.size() - i];
  };
  if (last(a, 1) != last(b, 2)) {
    fail("found " + a.text() + " and " + b.text() +
         "; valid: as many columns in the first as rows in the second");
  }
  expect_one_dtype(call, 0, 2);
  const TensorMeta* offsets = offsets_of(call);
  const bool stacks = a.ndim() == 3 && b.ndim() == 3;
  if (stacks != (offsets == nullptr)) {
    fail(stacks ? "two stacks of matrices take no offsets" : "a single matrix needs offsets");
  }
  if (offsets != nullptr && (offsets->ndim() != 1 || is_floating_point(offsets->dtype))) {
    fail("found offsets " + offsets->text() + "; valid: a vector of integers");
  }
  TensorMeta out = a;
  out.strides.clear();
  std::int64_t groups = -1;
  if (a.ndim() == 3) groups = a.shape[0];
  if (b.ndim() == 3) groups = b.shape[0];
  if (stacks && a.shape[0] != b.shape[0]) {
    fail("found " + a.text() + " and " + b.text() +
         "; valid: as many matrices in the first stack as in the second");
  }
  if (offsets != nullptr && groups >= 0 && offsets->shape[0] != groups) {
    fail("found offsets " + offsets->text() + "; valid: one for each of " + std::to_string(groups) +
         " groups");
  }
  out.shape = {last(a, 2), last(b, 1)};
  if (groups < 0) groups = offsets->shape[0];
  if (a.ndim() == b.ndim()) out.shape.insert(out.shape.begin(), groups);
  const std::optional<DType> dtype = dtype_from_name(call.text_arg(0, to_string(a.dtype)));
  if (!dtype)
    fail("found dtype \"" + call.text_arg(0, "") + "\"; valid: " + std::string(kDTypeNames));
  out.dtype = *dtype;
  return {out};
}

// PyTorch 2.13 proposes plain shards whatever layouts the inputs have.
Rows plain_grouped_rows(const OpCall& call, const OpRule&) {
  const auto shard = [](int dim) { return RowEntry(Placement::shard(dim)); };
  const RowEntry p = Placement::partial();
  const RowEntry r = Placement::replicate();
  const int a = call.required_tensor(0).meta.ndim();
  const int b = call.required_tensor(1).meta.ndim();
  Rows all = {{r, r, r}, {p, p, r}, {p, r, p}};
  if (a == 2 && b == 3) {
    all.push_back({shard(1), r, shard(2)});
    all.push_back({p, shard(1), shard(1)});
  } else if (a == 3 && b == 2) {
    all.push_back({p, shard(2), shard(0)});
    all.push_back({shard(0), shard(1), r});
  } else if (a == 2) {
    all.push_back({shard(2), r, shard(1)});
    all.push_back({shard(1), shard(0), r});
  } else {
    all.push_back({shard(2), r, shard(2)});
    all.push_back({shard(1), shard(1), r});
    all.push_back({p, shard(2), shard(1)});
    all.push_back({shard(0), shard(0), shard(0)});
  }
  if (offsets_of(call) != nullptr) {
    for (Row& row : all) row.push_back(r);
  }
  return all;
}

Rows grouped_rows(const OpCall& call, const OpRule& rule) {
  Rows all = plain_grouped_rows(call, rule);
  for (Row& row : all) {
    for (RowEntry& entry : row) {
      if (entry.placement().is_shard()) entry = RowEntry::any_shard(entry.dim());
    }
  }
  return all;
}

Rows all_grouped_rows(const OpCall& call, const OpRule& rule) {
  Rows all = grouped_rows(call, rule);
  const Placement avg = Placement::partial(ReduceOp::kAvg);
  for (const std::size_t operand : {1U, 2U}) {
    Row row(all[0].size(), Placement::replicate());
    row[0] = avg;
    row[operand] = avg;
    all.push_back(row);
  }
  return all;
}

// Whether rows are multiples of 16 bytes, as the kernel needs. Like PyTorch this looks only at the
// rank at the origin of the mesh.
bool is_aligned(const OpCall& call, std::span<const Placements> inputs, const DeviceMesh& mesh) {
  const std::vector<std::int64_t> origin(static_cast<std::size_t>(mesh.ndim()), 0);
  for (const std::size_t i : {0U, 1U}) {
    const TensorMeta& meta = call.required_tensor(i).meta;
    const Shape local = local_shape(meta.shape, Layout(inputs[i]), mesh, origin);
    if (local.back() % alignment_of(meta) != 0) return false;
  }
  return true;
}

double grouped_flops(std::span<const Shape> local, const OpCall&) {
  if (local.size() < 2) return 0.0;
  double flops = 2.0 * static_cast<double>(local[1].back());
  for (const std::int64_t extent : local[0]) flops *= static_cast<double>(extent);
  return flops;
}

// Rows of tokens that are sorted by group, times one matrix for each group. The groups are assumed
// to have the same number of rows. Other forms have no shape.
void grouped_shape(std::span<const Shape> local, const OpCall&, KernelQuery& query) {
  if (local.size() < 2 || local[0].size() != 2 || local[1].size() != 3) return;
  const double groups = std::max(1.0, static_cast<double>(local[1][0]));
  query.gemm = {.batch = groups,
                .m = static_cast<double>(local[0][0]) / groups,
                .n = static_cast<double>(local[1][2]),
                .k = static_cast<double>(local[0][1])};
}

constexpr RuleSets kCurrent = kDTensor | kShardlab;

constexpr OpRule product(std::string_view op, RuleSets sets, std::string_view equation,
                         Rows (*rows)(const OpCall&, const OpRule&)) {
  return {.op = op,
          .sets = sets,
          .outputs = product_outputs,
          .rows = rows,
          .kernel = Kernel::kGemm,
          .flops = product_flops,
          .shape = product_shape,
          .equation = equation};
}
constexpr OpRule biased(std::string_view op, RuleSets sets, std::string_view equation,
                        Rows (*rows)(const OpCall&, const OpRule&)) {
  OpRule rule = product(op, sets, equation, rows);
  rule.outputs = biased_outputs;
  rule.flops = biased_flops;
  rule.shape = biased_shape;
  return rule;
}
constexpr OpRule scaled(std::string_view op, RuleSets sets,
                        Rows (*rows)(const OpCall&, const OpRule&),
                        bool (*filter)(const OpCall&, std::span<const Placements>,
                                       const DeviceMesh&)) {
  OpRule rule = product(op, sets, kProduct, rows);
  rule.outputs = scaled_outputs;
  rule.filter = filter;
  return rule;
}
constexpr OpRule grouped(RuleSets sets, Rows (*rows)(const OpCall&, const OpRule&)) {
  return {.op = "aten._grouped_mm.default",
          .sets = sets,
          .outputs = grouped_outputs,
          .rows = rows,
          .filter = is_aligned,
          .kernel = Kernel::kGemm,
          .flops = grouped_flops,
          .shape = grouped_shape};
}

constexpr OpRule kRules[] = {
    product("aten._foreach_mm.default", kCurrent, kProduct, product_rows),
    biased("aten._addmm_activation.default", kDTensor, kProduct, decomposed_rows),
    biased("aten._addmm_activation.default", kShardlab, kProduct, activated_rows),
    grouped(rows::kBeforeRows, plain_grouped_rows),
    grouped(rows::kSinceRows, grouped_rows),
    grouped(kShardlab, all_grouped_rows),
    scaled("aten._scaled_mm.default", kDTensor, scaled_rows, nullptr),
    scaled("aten._scaled_mm.default", kShardlab, all_scaled_rows, scales_fit),
    scaled("aten._scaled_mm.out", kDTensor, scaled_rows, nullptr),
    scaled("aten._scaled_mm.out", kShardlab, all_scaled_rows, scales_fit),
    biased("aten.addmm.default", kDTensor, kProduct, biased_rows),
    biased("aten.addmm.default", kShardlab, kProduct, all_biased_rows),
    biased("aten.addmm.default", kDTensorLegacy, kProduct, concrete_biased_rows),
    biased("aten.addmm.out", kDTensor, kProduct, biased_rows),
    biased("aten.addmm.out", kShardlab, kProduct, all_biased_rows),
    biased("aten.addmm_.default", kDTensor, kProduct, biased_rows),
    biased("aten.addmm_.default", kShardlab, kProduct, all_biased_rows),
    biased("aten.addmv.default", kDTensor, kVectorProduct, decomposed_rows),
    biased("aten.addmv.default", kShardlab, kVectorProduct, all_biased_rows),
    biased("aten.baddbmm.default", kDTensor, kBatchedProduct, biased_rows),
    biased("aten.baddbmm.default", kShardlab, kBatchedProduct, all_biased_rows),
    biased("aten.baddbmm.default", kDTensorLegacy, kBatchedProduct, concrete_biased_rows),
    biased("aten.baddbmm.out", kDTensor, kBatchedProduct, biased_rows),
    biased("aten.baddbmm.out", kShardlab, kBatchedProduct, all_biased_rows),
    biased("aten.baddbmm_.default", kDTensor, kBatchedProduct, biased_rows),
    biased("aten.baddbmm_.default", kShardlab, kBatchedProduct, all_biased_rows),
    product("aten.bmm.default", kCurrent, kBatchedProduct, product_rows),
    product("aten.bmm.default", kDTensorLegacy, kBatchedProduct, concrete_product_rows),
    product("aten.bmm.out", kCurrent, kBatchedProduct, product_rows),
    // PyTorch 2.13 still uses the older generator here, which proposes shards whatever layouts the
    // inputs have, and keeps no partials.
    product("aten.dot.default", rows::kBeforeRows | kDTensorLegacy, "i,i->", concrete_product_rows),
    product("aten.dot.default", rows::kSinceRows | kShardlab, "i,i->", product_rows),
    {.op = "aten.einsum.default",
     .sets = kShardlab,
     .outputs = einsum_outputs,
     .rows = einsum_rows,
     .kernel = Kernel::kGemm,
     .flops = einsum_flops,
     .shape = einsum_shape},
    product("aten.mm.default", kCurrent, kProduct, product_rows),
    product("aten.mm.default", kDTensorLegacy, kProduct, concrete_product_rows),
    product("aten.mm.out", kCurrent, kProduct, product_rows),
    product("aten.mv.default", kDTensor | kDTensorLegacy, kVectorProduct, decomposed_rows),
    product("aten.mv.default", kShardlab, kVectorProduct, product_rows),
    product("aten.vdot.default", kDTensor, "i,i->", decomposed_rows),
    product("aten.vdot.default", kShardlab, "i,i->", product_rows),
};

}  // namespace matmul_rules

OP_RULES(matmul){matmul_rules::kRules};

}  // namespace shardlab
