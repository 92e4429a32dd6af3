#include "strategies/proof/rule_combinations.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/rule_proof.h"
#include "strategies/rules/registered_rows.h"

namespace shardlab {
namespace {

bool is_all_replicate(const Combination& inputs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const Placement& p) { return p.is_replicate(); });
}

}  // namespace

RuleCombinations::RuleCombinations(const OpRule& rule, const SampleExecution& execution,
                                   std::span<const PlacementEntry* const> registered)
    : rule_(rule), execution_(execution), call_(execution.call()) {
  for (const TensorMeta& meta : execution.inputs()) {
    placements_.push_back(all_placements(meta));
    for (const Placement& p : registered_samples(registered, meta.shape, execution.mesh().size())) {
      placements_.back().push_back(p);
    }
  }
  add_mask_partials();
}

void RuleCombinations::add_mask_partials() {
  if (rule_.rows == nullptr) return;
  const std::size_t outputs = rule_.outputs(call_).size();
  for (const Row& row : rule_.rows(call_, rule_)) {
    for (std::size_t t = 0; t < placements_.size() && outputs + t < row.size(); ++t) {
      const Placement& p = row[outputs + t].placement();
      if (p.kind() != Placement::Kind::kMaskPartial) continue;
      if (std::find(placements_[t].begin(), placements_[t].end(), p) == placements_[t].end()) {
        placements_[t].push_back(p);
      }
    }
  }
}

std::size_t RuleCombinations::count() const {
  std::size_t product = 1;
  for (const auto& each : placements_) {
    product = std::min(product, std::size_t{1} << 40U) * each.size();
  }
  return product;
}

bool RuleCombinations::fit_combinations() {
  const auto drop = [&](auto&& is_dropped) {
    if (count() <= kMaxRuleCombinations) return;
    for (std::size_t t = 0; t < placements_.size(); ++t) {
      std::erase_if(placements_[t], [&](const Placement& p) {
        return p.kind() == Placement::Kind::kPartial &&
               is_dropped(execution_.inputs()[t], p.reduce_op());
      });
    }
  };
  drop([](const TensorMeta& meta, ReduceOp) { return !is_floating_point(meta.dtype); });
  for (const ReduceOp dropped :
       {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kAvg, ReduceOp::kMax}) {
    drop([&](const TensorMeta&, ReduceOp op) { return op == dropped; });
  }
  return count() <= kMaxRuleCombinations;
}

void RuleCombinations::for_each(const std::function<void(const Combination&)>& visit) {
  if (!fit_combinations()) {
    for (const Combination& inputs : near_rows()) visit(inputs);
    return;
  }
  std::vector<std::size_t> digits(placements_.size(), 0);
  while (true) {
    Combination inputs;
    for (std::size_t t = 0; t < digits.size(); ++t) inputs.push_back(placements_[t][digits[t]]);
    visit(inputs);
    std::size_t t = digits.size();
    while (t > 0 && ++digits[t - 1] == placements_[t - 1].size()) digits[--t] = 0;
    if (t == 0) return;
  }
}

std::set<Combination> RuleCombinations::near_rows() {
  std::set<Combination> rows;
  Combination inputs(placements_.size(), Placement::replicate());
  rows.insert(inputs);
  // A rule proposes rows for the kinds of shards that occur among the inputs, so one sharded input
  // is enough to get all rows.
  for (std::size_t t = 0; t < placements_.size(); ++t) {
    if (execution_.inputs()[t].ndim() == 0) continue;
    Combination one = inputs;
    one[t] = Placement::shard(0);
    for_each_candidate(one, [&](const Expansion& expansion, std::size_t candidate) {
      Combination row;
      for (std::size_t i = 0; i < expansion.inputs(); ++i) {
        row.push_back(expansion.input(candidate, i)[0]);
      }
      rows.insert(row);
    });
  }
  std::set<Combination> near = rows;
  for (const Combination& row : rows) {
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = a; b < row.size(); ++b) {
        for (const Placement& pa : placements_[a]) {
          for (const Placement& pb : placements_[b]) {
            Combination changed = row;
            changed[a] = pa;
            changed[b] = pb;
            near.insert(changed);
          }
        }
      }
    }
  }
  return near;
}

void RuleCombinations::place(const Combination& inputs) {
  std::size_t next = 0;
  for (TensorArg& arg : call_.inputs) {
    for (TensorSpec& tensor : arg.tensors) tensor.layout = Layout(Placements(1, inputs[next++]));
  }
}

// Most combinations have no row of their own, which is known without expanding the rows.
bool RuleCombinations::has_row(const Combination& inputs) {
  if (rule_.rows == nullptr || rule_.follow != nullptr) return true;
  if (is_all_replicate(inputs)) return true;  // this row is always added
  place(inputs);
  const auto is_own = [&](const Row& row) {
    if (row.size() < inputs.size()) return true;  // a faulty row, which the expansion refuses
    return std::equal(inputs.begin(), inputs.end(), row.end() - std::ssize(inputs),
                      [](const Placement& p, const RowEntry& entry) {
                        return entry.is_any_shard() ? p.is_shard_like() && p.dim() == entry.dim()
                                                    : p == entry.placement();
                      });
  };
  try {
    const Rows rows =
        has_registered(call_) ? registered_rows(rule_, call_) : rule_.rows(call_, rule_);
    return std::any_of(rows.begin(), rows.end(), is_own);
  } catch (const InputError&) {
    return false;
  }
}

void RuleCombinations::for_each_candidate(
    const Combination& inputs, const std::function<void(const Expansion&, std::size_t)>& visit) {
  place(inputs);
  try {
    const Expansion expansion = expand(rule_, call_, execution_.mesh());
    for (std::size_t c = 0; c < expansion.size(); ++c) visit(expansion, c);
  } catch (const InputError&) {  // the rule refuses the call in these layouts
  }
}

std::vector<Combination> RuleCombinations::listed(const Combination& inputs) {
  std::vector<Combination> outputs;
  if (!has_row(inputs)) return outputs;
  for_each_candidate(inputs, [&](const Expansion& expansion, std::size_t candidate) {
    if (!expansion.keeps_inputs(candidate)) return;
    Combination row;
    for (std::size_t o = 0; o < expansion.outputs(); ++o) {
      row.push_back(expansion.output(candidate, o)[0]);
    }
    // An in-place op that returns nothing is judged by the tensors that it writes to.
    if (row.empty() && rule_.is_in_place()) {
      const std::size_t written = std::min(inputs.size(), execution_.outputs().size());
      row.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(written));
    }
    if (std::find(outputs.begin(), outputs.end(), row) == outputs.end()) outputs.push_back(row);
  });
  return outputs;
}

bool RuleCombinations::has_empty_shard(const Combination& inputs,
                                       const Combination& outputs) const {
  const auto empty = [&](const Placement& p, const TensorMeta& meta) {
    return p.is_shard_like() && meta.shape[to_index(p.dim())] < execution_.mesh().size();
  };
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (empty(inputs[t], execution_.inputs()[t])) return true;
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (empty(outputs[o], execution_.outputs()[o].meta)) return true;
  }
  return false;
}

bool RuleCombinations::is_implied(const Combination& inputs, const Combination& outputs) {
  std::vector<std::size_t> replicated;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t].is_replicate()) replicated.push_back(t);
  }
  if (replicated.empty() || replicated.size() > 6) return false;
  for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) {
    for (unsigned subset = 1; subset < 1U << replicated.size(); ++subset) {
      Combination changed = inputs;
      for (std::size_t i = 0; i < replicated.size(); ++i) {
        if ((subset >> i & 1U) != 0) changed[replicated[i]] = Placement::partial(op);
      }
      const std::vector<Combination> rows = listed(changed);
      if (std::find(rows.begin(), rows.end(), outputs) != rows.end()) return true;
    }
  }
  return false;
}

bool RuleCombinations::may_write(const Combination& inputs, const Combination& outputs) const {
  if (rule_.is_in_place() && outputs[0] != inputs[0]) return false;
  return !rule_.is_out_variant() || outputs[0] == inputs.back();
}

}  // namespace shardlab
