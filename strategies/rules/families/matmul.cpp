// Matrix products, generated from einsum equations. Where PyTorch 2.13.0 has both rows and an older
// whole-mesh strategy (mm, addmm, bmm, baddbmm), it takes the rows. Source: PyTorch 2.13.0,
// _ops/_matrix_ops.py, _ops/autogen.py (in-place and out forms); pull requests #172387, #174926.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/decomposition.h"
#include "strategies/rules/einsum.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace {

using Linearity = EinsumEquation::Linearity;

constexpr std::string_view kProduct = "mk,kn->mn";
constexpr std::string_view kBatchedProduct = "bmk,bkn->bmn";
constexpr std::string_view kVectorProduct = "mk,k->m";
constexpr std::int64_t kTileRows = 128;  // of block scales

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

// `out` comes after them.
void expect_operands(const OpCall& call, std::size_t count) {
  expect_tensors(call, count + (has_out_tensor(call) ? 1 : 0));
  if (call.inputs.size() == call.tensors().size()) return;
  throw InputError(call.op + ": takes one tensor for each of its arguments");
}

std::string_view equation_of(std::string_view op) {
  if (op.starts_with("aten.bmm") || op.starts_with("aten.baddbmm")) return "bmk,bkn->bmn";
  if (op.starts_with("aten.mv") || op.starts_with("aten.addmv")) return "mk,k->m";
  if (op.starts_with("aten.dot") || op.starts_with("aten.vdot")) return "i,i->";
  return "mk,kn->mn";
}

// An op writes into its first tensor or its last one.
void expect_written(const OpCall& call, const OpRule& named, const TensorMeta& out) {
  const auto tensors = call.tensors();
  const TensorSpec* written = named.is_in_place()      ? tensors.front()
                              : named.is_out_variant() ? tensors.back()
                                                       : nullptr;
  if (written == nullptr || written->meta.shape == out.shape) return;
  throw InputError(call.op + ": " + written->meta.text() + " has not the result's shape, " +
                   out.text());
}

// An `out` tensor is placed as the output.
Rows with_out(Rows rows, const OpRule& rule) {
  if (rule.is_out_variant()) {
    for (Row& row : rows) row.push_back(row[0]);
  }
  return rows;
}

// -- mm, bmm, mv, dot
// --------------------------------------------------------------------------------------------------

std::vector<TensorMeta> product_outputs(const OpCall& call) {
  expect_operands(call, 2);
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
  expect_operands(call, 3);
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

// Beside PyTorch's: the bias and the product are summed, so both may be sums at once, one may be an
// average beside a replica, and where the bias is added with a positive factor it may be a maximum
// or a minimum.
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

// relu keeps a maximum and a minimum of the bias, neither activation a sum.
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
  expect_tensors(call, equation.inputs().size());  // one by one, or as PyTorch's list
  TensorMeta out = call.tensors()[0]->meta;
  out.shape = equation.output_shape(shapes_from(call, 0), call.op);
  out.strides.clear();
  return {out};
}

Rows einsum_rows(const OpCall& call, const OpRule&) {
  const EinsumEquation equation = einsum_equation(call);
  Rows all = equation.rows(Linearity::kPerInput, true);
  // Of one input with nothing to sum over, elements only move.
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

// -- _scaled_mm: the product of two matrices of scaled elements -----------------------------------
// Tensors: both matrices and their scales; no bias, no scale of the result. A scale is one number;
// has a matrix's dims, each whole, of extent 1 or by blocks; or has one dim: blocks of 32 elements of
// the contracted dim (of 16 packed ones where the scales are f8e4m3), stored by tiles of 128 rows and
// 4 blocks. --args: the output's dtype, fast accumulation. PyTorch takes f8 matrices; others are
// taken here so that the op can be executed.

struct ScaledOperand {
  const TensorMeta& data;
  const TensorMeta& scale;
  int contracted;  // the dim of the data

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
  const std::size_t out_at = call.inputs.size() - (has_out_tensor(call) ? 1 : 0);
  for (std::size_t i = 4; i < out_at; ++i) {
    if (call.tensor(i) == nullptr) continue;
    throw InputError(call.op + ": a " + (i == 4 ? "bias" : "scale of the result") +
                     " is not supported on distributed tensors");
  }
  const std::size_t count = has_out_tensor(call) ? 5 : 4;
  if (call.inputs.size() < 4 || call.tensors().size() != count) {
    throw InputError(call.op + ": takes two matrices and their scales, found " +
                     std::to_string(call.tensors().size()) + " tensors");
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
    throw InputError(call.op + ": a scale " + operand.scale.text() + " does not fit " +
                     operand.data.text() + "; valid: one number, 1 dim, or 2 dims of blocks");
  }
  const std::string name = call.text_arg(0, to_string(out.dtype));
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    throw InputError(call.op + ": no dtype " + name + "; valid: " + std::string(kDTypeNames));
  }
  out.dtype = *dtype;
  expect_written(call, {.op = call.op}, out);
  return {out};
}

// Where PyTorch places a scale beside its data: a block scale of one dim loses the shard of the
// contracted dim.
std::optional<RowEntry> dtensor_scale(const RowEntry& data, const ScaledOperand& operand) {
  const Placement r = Placement::replicate();
  if (operand.is_number()) return r;
  if (!operand.is_tiled()) return data;
  if (!data.is_any_shard()) return r;
  if (data.dim() == operand.contracted) return std::nullopt;
  return RowEntry::any_shard(0);
}

Rows scaled_rows(const OpCall& call, const OpRule& rule) {
  // It looks for the bias among the arguments of the call, which end before it when all are defaults.
  const bool given = !call.args.empty() && !call.args[0].is_null();
  if (!given && !call.boolean_arg(1, false)) {
    throw InputError(call.op + ": PyTorch 2.13.0 shards it only with an output dtype or fast " +
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

// A scale has the shard of its data where it has that dim: a scale of one dim where its tiles follow
// one another along the sharded dim. A partial multiplies whole scales.
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

// A shard of the data needs the blocks, or the tiles, that belong to it and no others.
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

// -- _grouped_mm: as many products as groups -------------------------------------------------------
// A stack of matrices has a group a matrix; of a lone matrix the offsets say where each group ends:
// its rows (with a stack on the right), its columns (with one on the left) or, of two matrices, the
// contracted dim.

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
      fail("found " + matrix->text() + "; valid: 2 or 3 dims");
    }
    if (matrix->shape.back() % alignment_of(*matrix) != 0) {
      fail("found " + matrix->text() + "; valid: rows of whole 16 bytes");
    }
  }
  const auto last = [](const TensorMeta& meta, std::size_t i) {
    return meta.shape[meta.shape.size() - i];
  };
  if (last(a, 1) != last(b, 2)) fail(a.text() + " times " + b.text());
  const TensorMeta* offsets = offsets_of(call);
  const bool stacks = a.ndim() == 3 && b.ndim() == 3;
  if (stacks != (offsets == nullptr)) {
    fail(stacks ? "two stacks take no offsets" : "a lone matrix needs offsets");
  }
  if (offsets != nullptr && (offsets->ndim() != 1 || is_floating_point(offsets->dtype))) {
    fail("offsets " + offsets->text() + "; valid: integers of 1 dim");
  }
  TensorMeta out = a;
  out.strides.clear();
  std::int64_t groups = -1;
  if (a.ndim() == 3) groups = a.shape[0];
  if (b.ndim() == 3) groups = b.shape[0];
  if (stacks && a.shape[0] != b.shape[0]) fail(a.text() + " times " + b.text());
  if (offsets != nullptr && groups >= 0 && offsets->shape[0] != groups) {
    fail(std::to_string(groups) + " groups, found offsets " + offsets->text());
  }
  out.shape = {last(a, 2), last(b, 1)};
  if (groups < 0) groups = offsets->shape[0];
  if (a.ndim() == b.ndim()) out.shape.insert(out.shape.begin(), groups);
  const std::optional<DType> dtype = dtype_from_name(call.text_arg(0, to_string(a.dtype)));
  if (!dtype) fail("no such dtype; valid: " + std::string(kDTypeNames));
  out.dtype = *dtype;
  return {out};
}

Rows grouped_rows(const OpCall& call, const OpRule&) {
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

Rows all_grouped_rows(const OpCall& call, const OpRule& rule) {
  Rows all = grouped_rows(call, rule);
  for (Row& row : all) {
    for (RowEntry& entry : row) {
      if (entry.placement().is_shard()) entry = RowEntry::any_shard(entry.dim());
    }
  }
  const Placement avg = Placement::partial(ReduceOp::kAvg);
  for (const std::size_t operand : {1U, 2U}) {
    Row row(all[0].size(), Placement::replicate());
    row[0] = avg;
    row[operand] = avg;
    all.push_back(row);
  }
  return all;
}

// The kernel reads rows of whole 16 bytes: those of the rank at the origin, as PyTorch has it.
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

constexpr RuleSets kCurrent = kDTensor | kShardlab;

constexpr OpRule product(std::string_view op, RuleSets sets, std::string_view equation,
                         Rows (*rows)(const OpCall&, const OpRule&)) {
  return {.op = op,
          .sets = sets,
          .outputs = product_outputs,
          .rows = rows,
          .kernel = Kernel::kGemm,
          .flops = product_flops,
          .equation = equation};
}
constexpr OpRule biased(std::string_view op, RuleSets sets, std::string_view equation,
                        Rows (*rows)(const OpCall&, const OpRule&)) {
  OpRule rule = product(op, sets, equation, rows);
  rule.outputs = biased_outputs;
  rule.flops = biased_flops;
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
          .flops = grouped_flops};
}

constexpr OpRule kRules[] = {
    product("aten._foreach_mm.default", kCurrent, kProduct, product_rows),
    biased("aten._addmm_activation.default", kDTensor, kProduct, decomposed_rows),
    biased("aten._addmm_activation.default", kShardlab, kProduct, activated_rows),
    grouped(kDTensor, grouped_rows),
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
    // PyTorch 2.13.0 still has the older generator here: shards are proposed out of nothing,
    // partials never kept.
    product("aten.dot.default", kDTensor | kDTensorLegacy, "i,i->", concrete_product_rows),
    product("aten.dot.default", kShardlab, "i,i->", product_rows),
    {.op = "aten.einsum.default",
     .sets = kShardlab,
     .outputs = einsum_outputs,
     .rows = einsum_rows,
     .kernel = Kernel::kGemm,
     .flops = einsum_flops},
    product("aten.mm.default", kCurrent, kProduct, product_rows),
    product("aten.mm.default", kDTensorLegacy, kProduct, concrete_product_rows),
    product("aten.mm.out", kCurrent, kProduct, product_rows),
    product("aten.mv.default", kDTensor | kDTensorLegacy, kVectorProduct, decomposed_rows),
    product("aten.mv.default", kShardlab, kVectorProduct, product_rows),
    product("aten.vdot.default", kDTensor, "i,i->", decomposed_rows),
    product("aten.vdot.default", kShardlab, "i,i->", product_rows),
};

}  // namespace

OP_RULES(matmul){kRules};

}  // namespace shardlab
