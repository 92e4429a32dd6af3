// cat and stack. In PyTorch 2.13.0 both derive one layout from their inputs'; the rule set shardlab
// has them as rows with the partials that pass through. Source: PyTorch 2.13.0, _ops/_tensor_ops.py
// (cat_strategy, stack_strategy, cat_single_dim_strategy).
#include <algorithm>

#include "costmodel/error.h"
#include "strategies/op_rule.h"

namespace shardlab {
namespace {

constexpr std::array<ReduceOp, 4> kPassThrough = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin,
                                                  ReduceOp::kMax};

// The tensor list, and the dim that comes first in --args (default 0) among `extra` more dims than
// the tensors have.
struct Joined {
  boost::container::small_vector<const TensorSpec*, 4> tensors;
  int ndim;
  int dim;
};

Joined joined(const OpCall& call, int extra) {
  Joined join{call.tensors(), 0, 0};
  if (join.tensors.empty() || call.inputs.size() != 1 || !call.inputs[0].is_list) {
    throw InputError(call.op + ": takes one tensor list, such as \"[f32[8,8] R; f32[8,8] S(0)]\"");
  }
  join.ndim = join.tensors[0]->meta.ndim();
  for (const TensorSpec* tensor : join.tensors) {
    if (tensor->meta.ndim() != join.ndim) {
      throw InputError(call.op + ": tensors of one rank, found " + join.tensors[0]->meta.text() +
                       " and " + tensor->meta.text());
    }
  }
  join.dim = normalize_dim(call.integer_arg(0, 0), join.ndim + extra, call.op);
  return join;
}

void expect_equal_besides(const Joined& join, int dim, const OpCall& call) {
  for (const TensorSpec* tensor : join.tensors) {
    for (int d = 0; d < join.ndim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (d != dim && tensor->meta.shape[i] != join.tensors[0]->meta.shape[i]) {
        throw InputError(call.op + ": shapes differ outside dim " + std::to_string(dim) + ": " +
                         join.tensors[0]->meta.text() + " and " + tensor->meta.text());
      }
    }
  }
}

std::vector<TensorMeta> cat_outputs(const OpCall& call) {
  const Joined join = joined(call, 0);
  expect_equal_besides(join, join.dim, call);
  TensorMeta out = join.tensors[0]->meta;
  if (join.ndim == 0) throw InputError(call.op + ": tensors of at least one dim");
  for (std::size_t i = 1; i < join.tensors.size(); ++i) {
    out.shape[static_cast<std::size_t>(join.dim)] +=
        join.tensors[i]->meta.shape[static_cast<std::size_t>(join.dim)];
  }
  return {out};
}

// Every input's layout, without shards of the joined dim, is a candidate for all; duplicates once.
std::vector<FollowCandidate> follow_cat(const OpCall& call, const DeviceMesh&) {
  const Joined join = joined(call, 0);
  std::vector<FollowCandidate> candidates;
  for (const TensorSpec* exemplar : join.tensors) {
    Placements placements = exemplar->layout.placements;
    for (Placement& p : placements) {
      if (p.is_shard_like() && p.dim() == join.dim) p = Placement::replicate();
    }
    const bool known =
        std::any_of(candidates.begin(), candidates.end(),
                    [&](const FollowCandidate& c) { return c.outputs[0] == placements; });
    if (known) continue;
    candidates.push_back({.outputs = {placements},
                          .inputs = std::vector<Placements>(join.tensors.size(), placements)});
  }
  return candidates;
}

Rows cat_rows(const OpCall& call, const OpRule&) {
  const Joined join = joined(call, 0);
  Rows rows;
  for (int d = 0; d < join.ndim; ++d) {
    if (d != join.dim) rows.emplace_back(1 + join.tensors.size(), RowEntry::any_shard(d));
  }
  for (const ReduceOp op : kPassThrough) {
    rows.emplace_back(1 + join.tensors.size(), RowEntry(Placement::partial(op)));
  }
  return rows;
}

std::vector<TensorMeta> stack_outputs(const OpCall& call) {
  const Joined join = joined(call, 1);
  expect_equal_besides(join, -1, call);
  if (join.ndim == kMaxTensorDims) throw InputError(call.op + ": too many dims");
  TensorMeta out = join.tensors[0]->meta;
  out.shape.insert(out.shape.begin() + join.dim, static_cast<std::int64_t>(join.tensors.size()));
  out.strides.clear();
  return {out};
}

// Priority partial, shard, replicate; two different partials or shards make R.
Placement merged(const Placement& a, const Placement& b) {
  if (a == b || b.is_replicate()) return a;
  if (a.is_replicate()) return b;
  if (a.is_partial()) return b.is_shard_like() ? b : Placement::replicate();
  return b.is_shard_like() ? Placement::replicate() : a;
}

std::vector<FollowCandidate> follow_stack(const OpCall& call, const DeviceMesh& mesh) {
  const Joined join = joined(call, 1);
  Placements input = join.tensors[0]->layout.placements;
  for (const TensorSpec* tensor : join.tensors) {
    for (int m = 0; m < mesh.ndim(); ++m) {
      auto& p = input[static_cast<std::size_t>(m)];
      p = merged(p, tensor->layout[m]);
    }
  }
  Placements output = input;
  for (Placement& p : output) {
    if (p.is_shard_like() && p.dim() >= join.dim) p = p.with_dim(p.dim() + 1);
  }
  return {FollowCandidate{.outputs = {output},
                          .inputs = std::vector<Placements>(join.tensors.size(), input)}};
}

Rows stack_rows(const OpCall& call, const OpRule&) {
  const Joined join = joined(call, 1);
  Rows rows;
  for (int d = 0; d < join.ndim; ++d) {
    Row row(1 + join.tensors.size(), RowEntry::any_shard(d));
    row[0] = RowEntry::any_shard(d >= join.dim ? d + 1 : d);
    rows.push_back(row);
  }
  for (const ReduceOp op : kPassThrough) {
    rows.emplace_back(1 + join.tensors.size(), RowEntry(Placement::partial(op)));
  }
  return rows;
}

constexpr unsigned kFollow = kDTensor213 | kDTensorLegacy;

constexpr OpRule kRules[] = {
    {.op = "aten.cat.default",
     .sets = kFollow,
     .outputs = cat_outputs,
     .follow = follow_cat,
     .kernel = Kernel::kCopy},
    {.op = "aten.cat.default",
     .sets = kShardlab,
     .outputs = cat_outputs,
     .rows = cat_rows,
     .kernel = Kernel::kCopy},
    {.op = "aten.stack.default",
     .sets = kFollow,
     .outputs = stack_outputs,
     .follow = follow_stack,
     .kernel = Kernel::kCopy},
    {.op = "aten.stack.default",
     .sets = kShardlab,
     .outputs = stack_outputs,
     .rows = stack_rows,
     .kernel = Kernel::kCopy},
};

}  // namespace

OP_RULES(tensor){kRules};

}  // namespace shardlab
