// Fused scaled-dot-product attention of queries, keys and values [batch, heads, rows, depth], and
// its gradient. PyTorch shards the heads and the batch; 2.13 proposes plain shards whatever layouts
// the inputs have, and refuses a bias for cuDNN. The rule set shardlab also shards
// the rows of the queries, unless a causal mask depends on their positions, and the depth of the
// values; and it lets sums pass through inputs in which the result is linear. Random states are
// replicated. Outputs that are absent or are not tensors have no entry in the rows.
//
// Flash attention takes grouped queries: several heads of queries share one head of keys and
// values. PyTorch shards the heads of both alike, also where a rank then has queries whose keys are
// on another rank; the rule sets shardlab and autoparallel ask for whole groups. Source: PyTorch
// 2.13.0, _ops/_matrix_ops.py (the functions of the ops' names), which do not compare the numbers
// of heads; for shapes, torch/_meta_registrations.py; for grouped queries,
// ATen/native/transformers/cuda/sdp_utils.cpp (check_batch_size_and_num_heads_dense).
#include <algorithm>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/output_mask.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace attention_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

enum class Kind : std::uint8_t { kFlash, kEfficient, kCudnn, kFlex };

Kind kind_of(const OpCall& call) {
  if (call.op.find("flex") != std::string::npos) return Kind::kFlex;
  if (call.op.find("efficient") != std::string::npos) return Kind::kEfficient;
  return call.op.find("cudnn") != std::string::npos ? Kind::kCudnn : Kind::kFlash;
}

[[noreturn]] void fail(const OpCall& call, const std::string& what) {
  throw InputError(call.op + ": " + what);
}

const TensorMeta& of_four_dims(const OpCall& call, std::size_t i) {
  const TensorMeta& meta = call.required_tensor(i).meta;
  if (meta.ndim() != 4) {
    fail(call, "found " + meta.text() + "; valid: a tensor [batch, heads, rows, depth]");
  }
  return meta;
}

// Whether several heads of queries share each head of keys and values.
bool is_grouped(const OpCall& call, const TensorMeta& query, const TensorMeta& key) {
  const std::int64_t heads = key.shape[1];
  const Kind kind = kind_of(call);
  return (kind == Kind::kFlash || kind == Kind::kFlex) && heads > 0 && query.shape[1] > heads &&
         query.shape[1] % heads == 0;
}

// The queries, keys and values, which are three arguments from `first` on.
struct Operands {
  Operands(const OpCall& call, std::size_t first)
      : query(of_four_dims(call, first)),
        key(of_four_dims(call, first + 1)),
        value(of_four_dims(call, first + 2)) {
    const bool same_batch = query.shape[0] == key.shape[0] && key.shape[0] == value.shape[0];
    const bool same_heads = query.shape[1] == key.shape[1] || is_grouped(call, query, key);
    const bool fits = query.shape[3] == key.shape[3] && key.shape[2] == value.shape[2];
    if (!same_batch || !same_heads || key.shape[1] != value.shape[1] || !fits) {
      fail(call, "the queries, keys and values do not fit together: " + query.text() + ", " +
                     key.text() + ", " + value.text());
    }
    expect_one_dtype(call, first, 3);
    if (kind_of(call) == Kind::kFlash && value.shape[3] != query.shape[3]) {
      fail(call, "found values " + value.text() + "; valid: values of the queries' depth, " +
                     std::to_string(query.shape[3]));
    }
  }
  const TensorMeta& query;
  const TensorMeta& key;
  const TensorMeta& value;
};

// Whether each rank has the heads of keys and values that its heads of queries share.
bool has_whole_groups(const OpCall& call, std::span<const Placements> inputs,
                      const DeviceMesh& mesh) {
  const std::size_t first = call.op.find("backward") != std::string::npos ? 1 : 0;
  const Operands operands(call, first);
  return !is_grouped(call, operands.query, operands.key) || operands.key.shape[1] == 1 ||
         is_evenly_shardable_on_dim(operands.key.shape, inputs[first + 1], mesh, 1);
}

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

void expect_at_most(const OpCall& call, std::size_t tensors) {
  if (call.inputs.size() > tensors) {
    fail(call, "takes at most " + std::to_string(tensors) + " tensor arguments, found " +
                   std::to_string(call.inputs.size()));
  }
}

// -- Forward -----------------------------------------------------------------------------------
//
// The tensors are queries, keys and values, and for all kinds except flash a bias. The --args are
//   flash       dropout, whether it is causal, whether to return the mask
//   efficient   whether to compute logsumexp, dropout, whether it is causal
//   cudnn       the same as efficient, and whether to return the mask

struct Forward {
  explicit Forward(const OpCall& call)
      : kind(kind_of(call)),
        bias(kind != Kind::kFlash && call.tensor(3) != nullptr),
        computes_sums(kind == Kind::kFlash || call.boolean_arg(0, false)),
        causal(call.boolean_arg(kind == Kind::kFlash ? 1 : 2, false)),
        returns_mask(kind != Kind::kEfficient &&
                     call.boolean_arg(kind == Kind::kFlash ? 2 : 3, false)) {}
  Kind kind;
  bool bias;
  bool computes_sums;
  bool causal;
  bool returns_mask;

  // The outputs are the result, logsumexp, for flash the random state, and the mask if there is
  // one.
  [[nodiscard]] bool has_mask() const { return kind == Kind::kFlash || returns_mask; }

  [[nodiscard]] Row row(const RowEntry& out, const RowEntry& sums, const RowEntry& mask,
                        const std::array<RowEntry, 3>& inputs, const RowEntry& bias_entry) const {
    Row row = {out, computes_sums ? sums : RowEntry(kR)};
    if (kind == Kind::kFlash) row.push_back(kR);
    if (has_mask()) row.push_back(returns_mask ? mask : RowEntry(kR));
    row.insert(row.end(), inputs.begin(), inputs.end());
    if (bias) row.push_back(bias_entry);
    return row;
  }
  [[nodiscard]] Row alike(const RowEntry& entry) const {
    return row(entry, entry, entry, {entry, entry, entry}, entry);
  }
};

std::vector<TensorMeta> forward_outputs(const OpCall& call) {
  expect_at_most(call, 4);
  const Forward forward(call);
  const Operands operands(call, 0);
  const Shape& query = operands.query.shape;
  TensorMeta out = operands.query;
  out.strides.clear();
  out.shape[3] = operands.value.shape[3];
  if (forward.bias) {
    const TensorMeta& bias = call.required_tensor(3).meta;
    const Shape scores = {query[0], query[1], query[2], operands.key.shape[2]};
    const TensorSpec whole{{.dtype = bias.dtype, .shape = scores, .strides = {}}, Layout()};
    const std::array<const TensorSpec*, 2> both = {call.tensor(3), &whole};
    if (broadcast_shape(both, call.op) != scores) {
      fail(call,
           "the bias " + bias.text() + " does not broadcast to the scores, " + whole.meta.text());
    }
  }
  TensorMeta sums{.dtype = DType::kF32, .shape = {query[0], query[1], query[2]}, .strides = {}};
  if (forward.kind == Kind::kEfficient) {
    sums.shape[2] = forward.computes_sums ? rounded_up(query[2], 32) : 0;
  } else if (forward.kind == Kind::kCudnn) {
    sums.shape.push_back(1);
  }
  std::vector<TensorMeta> outputs = {out, sums};
  if (forward.kind == Kind::kFlash) {
    outputs.push_back({.dtype = DType::kI64, .shape = {2}, .strides = {}});
  }
  if (!forward.has_mask()) return outputs;
  TensorMeta mask{.dtype = operands.query.dtype, .shape = {0}, .strides = {}};
  if (forward.returns_mask) {
    const std::int64_t keys = operands.key.shape[2];
    const std::int64_t block = query[3] > 64 ? 128 : 256;
    const std::int64_t columns = keys <= 128   ? 128
                                 : keys <= 256 ? 256
                                               : (query[2] + block - 1) / block;
    mask.shape = {query[0], query[1], query[2], columns};
  }
  outputs.push_back(mask);
  return outputs;
}

Rows plain_forward_rows(const OpCall& call, const OpRule&) {
  const Forward forward(call);
  // PyTorch's rows of shards have no entry for the bias, so none of them fits a call that has one.
  if (forward.kind == Kind::kCudnn && forward.bias) {
    fail(call, "PyTorch 2.13 refuses a bias for this op");
  }
  return {forward.alike(kR), forward.alike(Placement::shard(1)),
          forward.alike(Placement::shard(0))};
}

Rows forward_rows(const OpCall& call, const OpRule&) {
  const Forward forward(call);
  return {forward.alike(RowEntry::any_shard(1)), forward.alike(RowEntry::any_shard(0))};
}

// Since 2.14 PyTorch's row that replicates everything has no entry for the mask of cuDNN, but the
// other rows have one, which PyTorch refuses to combine. The mask is then no output with a layout.
std::vector<TensorMeta> maskless_outputs(const OpCall& call) {
  std::vector<TensorMeta> outputs = forward_outputs(call);
  outputs.resize(2);
  return outputs;
}

Rows maskless_rows(const OpCall& call, const OpRule& rule) {
  Rows all = forward_rows(call, rule);
  if (!Forward(call).has_mask()) return all;
  for (Row& row : all) row.erase(row.begin() + 2);
  return all;
}

bool has_mask_on_one_dim(const OpCall& call, std::span<const Placements>, const DeviceMesh& mesh) {
  if (mesh.ndim() > 1 && Forward(call).has_mask() && rows::has_shards(call)) {
    refuse_mixed_none(call, mesh, 8, "return_debug_mask true",
                      "a mesh of one dim, or return_debug_mask false");
  }
  return true;
}

// A bias is sharded like the scores that it is added to, except on dims along which it is
// broadcast.
RowEntry bias_shard(const OpCall& call, int dim) {
  if (call.tensor(3) == nullptr) return kR;
  const Shape& shape = call.required_tensor(3).meta.shape;
  const int own = dim - (4 - static_cast<int>(shape.size()));
  return rows::shard_or_replicate(own < 0 || shape[to_index(own)] == 1 ? -1 : own);
}

// The entry of keys and values where the heads of the queries are sharded. A single head that all
// queries share is replicated.
RowEntry key_heads(const Operands& operands) {
  const bool shared = operands.key.shape[1] == 1 && operands.query.shape[1] > 1;
  return shared ? RowEntry(kR) : RowEntry::any_shard(1);
}

Rows all_forward_rows(const OpCall& call, const OpRule&) {
  const Forward forward(call);
  const auto shard = [](int dim) { return RowEntry::any_shard(dim); };
  Rows all;
  for (const int dim : {1, 0}) {
    const RowEntry s = shard(dim);
    const RowEntry k = dim == 1 ? key_heads(Operands(call, 0)) : s;
    all.push_back(forward.row(s, s, s, {s, k, k}, bias_shard(call, dim)));
  }
  // Shards of the queries' rows. They are wrong with a causal mask, which depends on the positions
  // of the rows, and where efficient attention pads logsumexp.
  const bool padded = forward.kind == Kind::kEfficient && forward.computes_sums;
  if (!forward.causal && !padded) {
    all.push_back(
        forward.row(shard(2), shard(2), shard(2), {shard(2), kR, kR}, bias_shard(call, 2)));
  }
  if (forward.kind != Kind::kFlash) {
    all.push_back(forward.row(shard(3), kR, kR, {kR, kR, shard(3)}, kR));
  }
  for (const Placement& p : {kSum, kAvg}) all.push_back(forward.row(p, kR, kR, {kR, kR, p}, kR));
  return all;
}

// -- Backward ----------------------------------------------------------------------------------
//
// The tensors are
//   flash       gradient of the output, queries, keys, values, output, logsumexp, offsets of the
//               sequences, random state
//   efficient   gradient of the output, queries, keys, values, bias, output, logsumexp, random
//               state
//   cudnn       gradient of the output, queries, keys, values, output, logsumexp, random state,
//               bias, offsets of the sequences
// The outputs are the gradients of queries, keys and values, and for efficient that of the bias if
// it is asked for. The --args are
//   flash, cudnn   rows of the queries and of the keys, dropout, whether it is causal
//   efficient      dropout, which gradients to compute, whether it is causal

// The last of the four values of argument 1 of efficient attention. The gradients of the other
// operands are always returned.
bool asks_for_bias_gradient(const OpCall& call) {
  if (call.args.size() < 2 || call.args[1].is_null()) return true;
  const nlohmann::json& mask = call.args[1];
  const bool four = mask.is_array() && mask.size() == 4 &&
                    std::all_of(mask.begin(), mask.end(),
                                [](const nlohmann::json& value) { return value.is_boolean(); });
  if (!four) {
    fail(call, "argument 1 of --args: found " + mask.dump() +
                   "; valid: a mask of four gradients, each true or false");
  }
  return mask[3].get<bool>();
}

struct Backward {
  explicit Backward(const OpCall& call)
      : kind(kind_of(call)),
        bias_argument(kind == Kind::kEfficient ? 4
                      : kind == Kind::kCudnn   ? 8
                                               : kNone),
        out_argument(kind == Kind::kEfficient ? 5 : 4),
        bias(bias_argument != kNone && call.tensor(bias_argument) != nullptr),
        returns_bias_gradient(kind == Kind::kEfficient && asks_for_bias_gradient(call) && bias),
        causal(call.boolean_arg(kind == Kind::kEfficient ? 2 : 3, false)) {}
  static constexpr std::size_t kNone = 99;
  Kind kind;
  std::size_t bias_argument;
  std::size_t out_argument;
  bool bias;
  bool returns_bias_gradient;
  bool causal;

  // The entries of one row; what a row does not mention is replicated.
  struct Entries {
    std::array<RowEntry, 3> gradients;
    RowEntry bias_gradient = kR;
    RowEntry grad_out = kR;
    std::array<RowEntry, 3> operands = {kR, kR, kR};
    RowEntry bias = kR;
    RowEntry out = kR;
    RowEntry sums = kR;
  };
  [[nodiscard]] Row row(const OpCall& call, const Entries& entries) const {
    Row row(entries.gradients.begin(), entries.gradients.end());
    if (returns_bias_gradient) row.push_back(entries.bias_gradient);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.tensor(i) == nullptr) continue;
      row.push_back(i == 0                  ? entries.grad_out
                    : i <= 3                ? entries.operands[i - 1]
                    : i == bias_argument    ? entries.bias
                    : i == out_argument     ? entries.out
                    : i == out_argument + 1 ? entries.sums
                                            : RowEntry(kR));
    }
    return row;
  }
  [[nodiscard]] Row alike(const OpCall& call, const RowEntry& entry) const {
    return row(call, {.gradients = {entry, entry, entry},
                      .bias_gradient = entry,
                      .grad_out = entry,
                      .operands = {entry, entry, entry},
                      .bias = entry,
                      .out = entry,
                      .sums = entry});
  }
};

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  const Backward backward(call);
  expect_at_most(call, backward.kind == Kind::kFlash ? 10 : backward.kind == Kind::kCudnn ? 11 : 9);
  const Operands operands(call, 1);
  expect_one_dtype(call, 0, 2);
  Shape out = operands.query.shape;
  out[3] = operands.value.shape[3];
  for (const std::size_t i : {std::size_t{0}, backward.out_argument}) {
    const TensorMeta& found = call.required_tensor(i).meta;
    if (found.shape == out) continue;
    fail(call,
         std::string("found ") + (i == 0 ? "a gradient " : "an output ") + found.text() +
             "; valid: " + TensorMeta{.dtype = found.dtype, .shape = out, .strides = {}}.text());
  }
  const Shape& sums = call.required_tensor(backward.out_argument + 1).meta.shape;
  const std::size_t sums_ndim = backward.kind == Kind::kCudnn ? 4 : 3;
  if (sums.size() != sums_ndim || sums[0] != out[0] || sums[1] != out[1] || sums[2] < out[2]) {
    fail(call, "found a logsumexp " + call.required_tensor(backward.out_argument + 1).meta.text() +
                   "; valid: " + std::to_string(sums_ndim) +
                   " dims, with one number for each row of the queries");
  }
  std::vector<TensorMeta> outputs = {operands.query, operands.key, operands.value};
  if (backward.returns_bias_gradient) {
    outputs.push_back(call.required_tensor(backward.bias_argument).meta);
  }
  if (backward.bias && call.required_tensor(backward.bias_argument).meta.ndim() != 4) {
    fail(call, "found a bias " + call.required_tensor(backward.bias_argument).meta.text() +
                   "; valid: a bias of 4 dims");
  }
  for (TensorMeta& meta : outputs) meta.strides.clear();
  return outputs;
}

void expect_random_state(const OpCall& call, const Backward& backward) {
  if (backward.kind == Kind::kFlash) return;
  const std::size_t first = backward.kind == Kind::kEfficient ? 7 : 6;
  for (const std::size_t i : {first, first + 1}) {
    if (call.tensor(i) != nullptr) continue;
    fail(call, "PyTorch refuses the op without tensor argument " + std::to_string(i));
  }
}

// The first of the arguments of cuDNN that are offsets of the sequences.
std::size_t offsets_of(const OpCall& call) {
  return call.tensor(9) != nullptr ? 9 : call.tensor(10) != nullptr ? 10 : Backward::kNone;
}

Rows plain_backward_rows(const OpCall& call, const OpRule&) {
  const Backward backward(call);
  expect_random_state(call, backward);
  if (backward.kind == Kind::kCudnn && offsets_of(call) != Backward::kNone) {
    fail(call, "PyTorch 2.13 refuses the offsets of the sequences");
  }
  return {backward.alike(call, kR), backward.alike(call, Placement::shard(1)),
          backward.alike(call, Placement::shard(0))};
}

Rows backward_rows(const OpCall& call, const OpRule&) {
  const Backward backward(call);
  expect_random_state(call, backward);
  return {backward.alike(call, RowEntry::any_shard(1)),
          backward.alike(call, RowEntry::any_shard(0))};
}

// Where the mask leaves out the gradient of a bias that is given, PyTorch's rows of shards have an
// entry for it, but the row that replicates everything has none. PyTorch since 2.14 refuses to
// combine the two. Without a bias no row has the entry.
bool returns_bias_gradient_on_many_dims(const OpCall& call, std::span<const Placements>,
                                        const DeviceMesh& mesh) {
  const Backward backward(call);
  const bool leaves_out = backward.bias && !backward.returns_bias_gradient;
  if (mesh.ndim() > 1 && leaves_out && rows::has_shards(call)) {
    refuse_mixed_none(call, mesh, 3, "a bias and grad_input_mask " + call.args[1].dump(),
                      "a mesh of one dim, a mask whose last value is true, or no bias");
  }
  return true;
}

// For the offsets of cuDNN, the row that replicates everything has an entry since 2.14, and rows of
// shards have none. PyTorch refuses that on one mesh dim, too.
bool has_no_offsets_of_shards(const OpCall& call, std::span<const Placements>,
                              const DeviceMesh& mesh) {
  const std::size_t offsets = offsets_of(call);
  if (offsets == Backward::kNone || !rows::has_shards(call)) return true;
  if (mesh.ndim() > 1) {
    refuse_mixed_none(call, mesh, 3 + call.position(offsets), "offsets of the sequences",
                      "a call without them, or without shards");
  }
  fail(call, "PyTorch since 2.14 refuses the offsets of the sequences where a tensor is sharded");
}

Rows all_backward_rows(const OpCall& call, const OpRule&) {
  const Backward backward(call);
  const auto shard = [](int dim) { return RowEntry::any_shard(dim); };
  const Shape* bias =
      backward.bias ? &call.required_tensor(backward.bias_argument).meta.shape : nullptr;
  const auto repeats = [&](std::size_t dim) { return bias != nullptr && (*bias)[dim] == 1; };
  Rows all;
  for (const int dim : {1, 0}) {
    // If the bias is broadcast along the sharded dim, the ranks' bias gradients are summed.
    Backward::Entries entries;
    entries.gradients = {shard(dim), shard(dim), shard(dim)};
    entries.grad_out = shard(dim);
    entries.operands = entries.gradients;
    entries.out = shard(dim);
    entries.sums = shard(dim);
    const Operands operands(call, 1);
    if (dim == 1 && key_heads(operands) == RowEntry(kR)) {
      entries.operands = {shard(1), kR, kR};
      entries.gradients = {shard(1), kSum, kSum};
    }
    const bool repeated = repeats(static_cast<std::size_t>(dim));
    entries.bias = repeated ? RowEntry(kR) : shard(dim);
    entries.bias_gradient = repeated ? RowEntry(kSum) : shard(dim);
    all.push_back(backward.row(call, entries));
  }
  if (!backward.causal && backward.kind != Kind::kEfficient) {
    all.push_back(backward.row(call, {.gradients = {shard(2), kSum, kSum},
                                      .grad_out = shard(2),
                                      .operands = {shard(2), kR, kR},
                                      .bias = repeats(2) ? RowEntry(kR) : shard(2),
                                      .out = shard(2),
                                      .sums = shard(2)}));
  }
  // Shards of the rows of keys and values. Each shard contributes a part of every query's gradient.
  if (!backward.causal) {
    const RowEntry bias_entry = repeats(3) ? RowEntry(kR) : shard(3);
    all.push_back(backward.row(call, {.gradients = {kSum, shard(2), shard(2)},
                                      .bias_gradient = repeats(3) ? RowEntry(kSum) : shard(3),
                                      .operands = {kR, shard(2), shard(2)},
                                      .bias = bias_entry}));
  }
  if (backward.kind != Kind::kFlash) {
    all.push_back(backward.row(call, {.gradients = {kSum, kSum, shard(3)},
                                      .bias_gradient = kSum,
                                      .grad_out = shard(3),
                                      .operands = {kR, kR, shard(3)},
                                      .out = shard(3)}));
  }
  for (const Placement& p : {kSum, kAvg}) {
    all.push_back(backward.row(call, {.gradients = {p, p, p}, .bias_gradient = p, .grad_out = p}));
    // The other gradients are linear in the values and the output taken together.
    all.push_back(backward.row(
        call, {.gradients = {p, p, kR}, .bias_gradient = p, .operands = {kR, kR, p}, .out = p}));
  }
  all.push_back(backward.row(
      call, {.gradients = {kAvg, kAvg, kR}, .bias_gradient = kAvg, .operands = {kR, kR, kAvg}}));
  all.push_back(
      backward.row(call, {.gradients = {kAvg, kAvg, kR}, .bias_gradient = kAvg, .out = kAvg}));
  return all;
}

// -- flex_attention ----------------------------------------------------------------------------
//
// A higher-order operator: functions change each score, or say which scores count, and what they do
// is not known here. Its tensors are queries, keys and values, and behind them those of a block
// mask, whose first two dims are batch and heads, or 1 for all of them. PyTorch 2.13.0 has no rule
// for it and refuses DTensors; AutoParallel at a54c252 takes it as a box, whole or cut by batch or
// heads, and replicates keys and values whose heads do not divide, also where a rank then has
// queries of one group of heads and the keys of all of them. This rule asks for whole groups, and
// lets a shard be strided.
// Source: meta-pytorch/autoparallel#417, placement_options.py;
// torch/_higher_order_ops/flex_attention.py.

std::vector<TensorMeta> flex_outputs(const OpCall& call) {
  const Operands operands(call, 0);
  const Shape& query = operands.query.shape;
  const auto tensors = call.tensors();
  for (std::size_t i = 3; i < tensors.size(); ++i) {
    const TensorMeta& mask = tensors[i]->meta;
    const bool fits = mask.ndim() >= 2 && (mask.shape[0] == 1 || mask.shape[0] == query[0]) &&
                      (mask.shape[1] == 1 || mask.shape[1] == query[1]);
    if (!fits) {
      fail(call, "found " + mask.text() +
                     " of the block mask; valid: a tensor whose first two dims are the batch and "
                     "the heads of the queries " +
                     operands.query.text() + ", or 1");
    }
  }
  TensorMeta out = operands.query;
  out.strides.clear();
  out.shape[3] = operands.value.shape[3];
  const TensorMeta sums{
      .dtype = DType::kF32, .shape = {query[0], query[1], query[2]}, .strides = {}};
  return {out, sums, sums};
}

Rows flex_rows(const OpCall& call, const OpRule&) {
  const Shape& query = Operands(call, 0).query.shape;
  Rows all;
  for (const int dim : {1, 0}) {
    Row row(3, RowEntry::any_shard(dim));
    for (const TensorSpec* tensor : call.tensors()) {
      const bool is_for_all = tensor->meta.shape[to_index(dim)] == 1 && query[to_index(dim)] > 1;
      row.push_back(is_for_all ? RowEntry(kR) : RowEntry::any_shard(dim));
    }
    all.push_back(std::move(row));
  }
  return all;
}

std::string_view flex_excuse(const OpCall&, const Row&) {
  return "what the functions do to scores is not known: it may depend on rows, and need not be "
         "linear";
}

// The forward op computes two products (queries with keys, scores with values), the backward op
// five.
double products_flops(std::span<const Shape> local, std::size_t first, double products) {
  if (local.size() < first + 3 || local[first].size() != 4 || local[first + 1].size() != 4) {
    return 0.0;
  }
  double flops = 2.0 * products * static_cast<double>(local[first + 1][2]);
  for (const std::int64_t extent : local[first]) flops *= static_cast<double>(extent);
  return flops;
}
double forward_flops(std::span<const Shape> local, const OpCall&) {
  return products_flops(local, 0, 2.0);
}
double backward_flops(std::span<const Shape> local, const OpCall&) {
  return products_flops(local, 1, 5.0);
}

// The shape of attention whose queries are input `first`, followed by the keys and the values.
void set_shape(std::span<const Shape> local, std::size_t first, Kind kind, bool causal,
               bool backward, KernelQuery& query) {
  if (local.size() < first + 3) return;
  for (std::size_t i = first; i < first + 3; ++i) {
    if (local[i].size() != 4) return;
  }
  const auto extent = [&](std::size_t input, std::size_t dim) {
    return static_cast<double>(local[first + input][dim]);
  };
  query.attention = {.batch = extent(0, 0),
                     .heads = extent(0, 1),
                     .kv_heads = extent(1, 1),
                     .queries = extent(0, 2),
                     .keys = extent(1, 2),
                     .key_dim = extent(0, 3),
                     .value_dim = extent(2, 3),
                     .causal = causal,
                     .backward = backward,
                     .kernel = kind == Kind::kFlash       ? AttentionKernel::kFlash
                               : kind == Kind::kEfficient ? AttentionKernel::kEfficient
                                                          : AttentionKernel::kCudnn};
}
void forward_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  const Kind kind = kind_of(call);
  set_shape(local, 0, kind, call.boolean_arg(kind == Kind::kFlash ? 1 : 2, false), false, query);
}
void backward_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  const Kind kind = kind_of(call);
  set_shape(local, 1, kind, call.boolean_arg(kind == Kind::kEfficient ? 2 : 3, false), true, query);
}

constexpr OpRule forward(std::string_view op, RuleSets sets, RowsOf rows) {
  return {.op = op,
          .sets = sets,
          .outputs = forward_outputs,
          .rows = rows,
          .kernel = Kernel::kAttention,
          .flops = forward_flops,
          .shape = forward_shape};
}
void flex_shape(std::span<const Shape> local, const OpCall&, KernelQuery& query) {
  set_shape(local, 0, Kind::kFlash, false, false, query);
}

constexpr OpRule maskless(std::string_view op, RuleSets sets) {
  OpRule rule = forward(op, sets, maskless_rows);
  rule.outputs = maskless_outputs;
  rule.filter = has_mask_on_one_dim;
  return rule;
}
constexpr OpRule backward(std::string_view op, RuleSets sets, RowsOf rows) {
  return {.op = op,
          .sets = sets,
          .outputs = backward_outputs,
          .rows = rows,
          .kernel = Kernel::kAttention,
          .flops = backward_flops,
          .shape = backward_shape};
}

constexpr OpRule filtered(OpRule rule, decltype(OpRule::filter) filter) {
  rule.filter = filter;
  return rule;
}

// The rule of flash attention where only whole groups of heads may be sharded.
constexpr OpRule of_whole_groups(OpRule rule) { return filtered(rule, has_whole_groups); }

constexpr std::string_view kFlash = "aten._scaled_dot_product_flash_attention.default";
constexpr std::string_view kFlashBackward =
    "aten._scaled_dot_product_flash_attention_backward.default";
constexpr std::string_view kEfficient = "aten._scaled_dot_product_efficient_attention.default";
constexpr std::string_view kEfficientBackward =
    "aten._scaled_dot_product_efficient_attention_backward.default";
constexpr std::string_view kCudnn = "aten._scaled_dot_product_cudnn_attention.default";
constexpr std::string_view kCudnnBackward =
    "aten._scaled_dot_product_cudnn_attention_backward.default";

constexpr OpRule kRules[] = {
    {.op = "higher_order.flex_attention",
     .sets = kShardlab,
     .outputs = flex_outputs,
     .rows = flex_rows,
     .filter = has_whole_groups,
     .excuse = flex_excuse,
     .kernel = Kernel::kAttention,
     .flops = forward_flops,
     .shape = flex_shape},
    forward(kCudnn, rows::kBeforeRows, plain_forward_rows),
    maskless(kCudnn, rows::kSinceRows),
    forward(kCudnn, kShardlab, all_forward_rows),
    backward(kCudnnBackward, rows::kBeforeRows, plain_backward_rows),
    filtered(backward(kCudnnBackward, rows::kSinceRows, backward_rows), has_no_offsets_of_shards),
    backward(kCudnnBackward, kShardlab, all_backward_rows),
    forward(kEfficient, rows::kBeforeRows, plain_forward_rows),
    forward(kEfficient, rows::kSinceRows, forward_rows),
    forward(kEfficient, kShardlab, all_forward_rows),
    backward(kEfficientBackward, rows::kBeforeRows, plain_backward_rows),
    filtered(backward(kEfficientBackward, rows::kSinceRows, backward_rows),
             returns_bias_gradient_on_many_dims),
    backward(kEfficientBackward, kShardlab, all_backward_rows),
    forward(kFlash, rows::kBeforeRows, plain_forward_rows),
    forward(kFlash, rows::kSinceRows, forward_rows),
    of_whole_groups(forward(kFlash, kShardlab, all_forward_rows)),
    of_whole_groups(forward(kFlash, kAutoParallels, plain_forward_rows)),
    backward(kFlashBackward, rows::kBeforeRows, plain_backward_rows),
    backward(kFlashBackward, rows::kSinceRows, backward_rows),
    of_whole_groups(backward(kFlashBackward, kShardlab, all_backward_rows)),
    of_whole_groups(backward(kFlashBackward, kAutoParallels, plain_backward_rows)),
};

}  // namespace attention_rules

OP_RULES(attention){attention_rules::kRules};

}  // namespace shardlab
