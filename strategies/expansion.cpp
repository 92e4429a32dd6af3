#include "strategies/expansion.h"

#include <algorithm>
#include <array>

#include "costmodel/error.h"

namespace shardlab {
namespace {

std::uint32_t power(std::size_t base, int exponent) {
  std::uint64_t product = 1;
  for (int i = 0; i < exponent; ++i) {
    product *= base;
    if (product > kMaxCombinations) return std::numeric_limits<std::uint32_t>::max();
  }
  return static_cast<std::uint32_t>(product);
}

std::uint16_t entry_index(std::vector<Placement>& entries, const Placement& p) {
  const auto index = std::find(entries.begin(), entries.end(), p) - entries.begin();
  if (index == static_cast<std::ptrdiff_t>(entries.size())) entries.push_back(p);
  return static_cast<std::uint16_t>(index);
}

// What is known of one code of one tensor.
enum class Validity : std::uint8_t { kUnknown, kValid, kMixedPartials, kUnshardable };

}  // namespace

Placements Expansion::layout(std::size_t tensor, std::uint32_t code) const {
  const Tensor& t = tensors_[tensor];
  if (!t.layouts.empty()) return t.layouts[code];
  Placements placements(static_cast<std::size_t>(mesh_ndim_));
  for (int m = mesh_ndim_ - 1; m >= 0; --m) {
    placements[static_cast<std::size_t>(m)] = t.entries[code % t.entries.size()];
    code /= static_cast<std::uint32_t>(t.entries.size());
  }
  return placements;
}

std::vector<std::uint32_t> Expansion::used_codes(std::size_t input) const {
  std::vector<bool> used(codes(input), false);
  for (std::size_t c = 0; c < size(); ++c) used[code(c, input)] = true;
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) codes.push_back(static_cast<std::uint32_t>(i));
  }
  return codes;
}

bool Expansion::keeps_inputs(std::size_t candidate) const {
  for (std::size_t i = 0; i < inputs(); ++i) {
    if (code(candidate, i) != tensors_[outputs_ + i].current) return false;
  }
  return true;
}

Rows fill_rows(const Rows& rows, std::size_t outputs, const OpCall& call) {
  const auto tensors = call.tensors();
  bool plain = false;
  std::vector<int> factors;
  for (const TensorSpec* tensor : tensors) {
    for (const Placement& p : tensor->layout.placements) {
      plain = plain || p.is_shard();
      if (p.is_strided()) factors.push_back(p.split_factor());
    }
  }
  std::sort(factors.begin(), factors.end());
  factors.erase(std::unique(factors.begin(), factors.end()), factors.end());

  Rows filled;
  const std::size_t length = outputs + tensors.size();
  const Row replicate(length, RowEntry(Placement::replicate()));
  if (std::find(rows.begin(), rows.end(), replicate) == rows.end()) filled.push_back(replicate);
  for (const Row& row : rows) {
    if (row.size() != length) {
      throw InputError(call.op + ": a row has " + std::to_string(row.size()) + " placements; valid: " +
                       std::to_string(length) + " (" + std::to_string(outputs) + " of outputs, " +
                       std::to_string(tensors.size()) + " of inputs)");
    }
    const auto fill = [&](auto&& shard) {
      Row one;
      for (const RowEntry& entry : row) {
        one.push_back(entry.is_any_shard() ? RowEntry(shard(entry.dim())) : entry);
      }
      filled.push_back(one);
    };
    if (std::none_of(row.begin(), row.end(), [](const RowEntry& e) { return e.is_any_shard(); })) {
      filled.push_back(row);
      continue;
    }
    if (plain) fill([](int dim) { return Placement::shard(dim); });
    for (const int factor : factors) {
      fill([factor](int dim) { return Placement::strided_shard(dim, factor); });
    }
  }
  return filled;
}

Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule,
                      const OpCall& call, const DeviceMesh& mesh) {
  const auto inputs = call.tensors();
  const std::size_t count = outputs + inputs.size();
  const int ndim = mesh.ndim();

  Expansion expansion;
  expansion.mesh_ndim_ = ndim;
  expansion.outputs_ = outputs;
  expansion.rows_ = rows;
  expansion.tensors_.resize(count);
  const std::uint32_t combinations = power(rows.size(), ndim);
  if (combinations > kMaxCombinations) {
    throw InputError(call.op + ": " + std::to_string(rows.size()) + " rows to the power of " +
                     std::to_string(ndim) + " mesh dims are too many to enumerate; use --search dijkstra");
  }
  std::vector<std::vector<Validity>> validity(count);
  for (std::size_t t = 0; t < count; ++t) {
    Expansion::Tensor& tensor = expansion.tensors_[t];
    for (const Row& row : rows) {
      tensor.by_row.push_back(entry_index(tensor.entries, row[t].placement()));
    }
    tensor.codes = power(tensor.entries.size(), ndim);
    validity[t].assign(tensor.codes, Validity::kUnknown);
    if (t < outputs) continue;
    // The code of the layout as it is now, when rows can express it.
    std::uint32_t code = 0;
    for (const Placement& p : inputs[t - outputs]->layout.placements) {
      const auto it = std::find(tensor.entries.begin(), tensor.entries.end(), p);
      if (it == tensor.entries.end()) {
        code = Expansion::kNoCode;
        break;
      }
      code = code * static_cast<std::uint32_t>(tensor.entries.size()) +
             static_cast<std::uint32_t>(it - tensor.entries.begin());
    }
    tensor.current = code;
  }

  const auto judge = [&](std::size_t t, std::uint32_t code) {
    Validity& known = validity[t][code];
    if (known != Validity::kUnknown) return known;
    const Placements placements = expansion.layout(t, code);
    known = Validity::kValid;
    if (has_mixed_partials(placements)) {
      known = Validity::kMixedPartials;
    } else if (t >= outputs) {
      const bool keeps = code == expansion.tensors_[t].current;
      if (!is_shardable(inputs[t - outputs]->meta.shape, placements, mesh) &&
          !(rule.allow_uneven && keeps)) {
        known = Validity::kUnshardable;
      }
    }
    return known;
  };

  const bool in_place = rule.is_in_place() && outputs == 1 && !inputs.empty();
  const bool out_variant = rule.is_out_variant() && outputs == 1 && !inputs.empty();
  bool blocked_in_place = false;
  std::vector<std::uint32_t> codes(count);
  std::array<std::uint32_t, kMaxMeshDims> digits{};
  std::vector<Placements> shown(inputs.size());
  for (std::uint32_t combination = 0; combination < combinations; ++combination) {
    std::uint32_t rest = combination;
    for (int m = ndim - 1; m >= 0; --m) {
      digits[static_cast<std::size_t>(m)] = rest % static_cast<std::uint32_t>(rows.size());
      rest /= static_cast<std::uint32_t>(rows.size());
    }
    bool mixed = false;
    bool unshardable = false;
    for (std::size_t t = 0; t < count; ++t) {
      const Expansion::Tensor& tensor = expansion.tensors_[t];
      std::uint32_t code = 0;
      for (int m = 0; m < ndim; ++m) {
        code = code * static_cast<std::uint32_t>(tensor.entries.size()) +
               tensor.by_row[digits[static_cast<std::size_t>(m)]];
      }
      codes[t] = code;
      const Validity verdict = judge(t, code);
      mixed = mixed || verdict == Validity::kMixedPartials;
      unshardable = unshardable || verdict == Validity::kUnshardable;
    }
    if (mixed) continue;
    if (in_place) {
      const bool changes =
          codes[outputs] != expansion.tensors_[outputs].current ||
          expansion.layout(0, codes[0]) != inputs[0]->layout.placements;
      if (changes) {
        blocked_in_place = true;
        continue;
      }
    }
    if (out_variant &&
        expansion.layout(0, codes[0]) != inputs.back()->layout.placements) {
      continue;
    }
    if (unshardable) continue;
    if (rule.filter != nullptr) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        shown[i] = expansion.layout(outputs + i, codes[outputs + i]);
      }
      if (!rule.filter(call, shown, mesh)) continue;
    }
    expansion.candidates_.push_back(combination);
    expansion.candidate_codes_.insert(expansion.candidate_codes_.end(), codes.begin(), codes.end());
  }
  if (expansion.candidates_.empty() && blocked_in_place) {
    expansion.in_place_error_ =
        call.op + ": in-place operations that require placement changes are not supported (input " +
        inputs[0]->layout.text() + ")";
  }
  return expansion;
}

Expansion expand_candidates(std::span<const FollowCandidate> candidates, const OpCall& call,
                            const DeviceMesh& mesh) {
  const auto inputs = call.tensors();
  Expansion expansion;
  expansion.mesh_ndim_ = mesh.ndim();
  expansion.outputs_ = candidates.empty() ? 1 : candidates.front().outputs.size();
  const std::size_t count = expansion.outputs_ + inputs.size();
  expansion.tensors_.resize(count);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const FollowCandidate& candidate = candidates[c];
    if (candidate.outputs.size() != expansion.outputs_ || candidate.inputs.size() != inputs.size()) {
      throw InputError(call.op + ": candidate " + std::to_string(c) + " has " +
                       std::to_string(candidate.inputs.size()) + " inputs; valid: " +
                       std::to_string(inputs.size()));
    }
    for (std::size_t t = 0; t < count; ++t) {
      Expansion::Tensor& tensor = expansion.tensors_[t];
      const Placements& placements = t < expansion.outputs_
                                         ? candidate.outputs[t]
                                         : candidate.inputs[t - expansion.outputs_];
      const auto it = std::find(tensor.layouts.begin(), tensor.layouts.end(), placements);
      const auto code = static_cast<std::uint32_t>(it - tensor.layouts.begin());
      if (it == tensor.layouts.end()) tensor.layouts.push_back(placements);
      expansion.candidate_codes_.push_back(code);
    }
    expansion.candidates_.push_back(static_cast<std::uint32_t>(c));
  }
  for (std::size_t t = 0; t < count; ++t) {
    Expansion::Tensor& tensor = expansion.tensors_[t];
    tensor.codes = static_cast<std::uint32_t>(tensor.layouts.size());
    if (t < expansion.outputs_) continue;
    const Placements& now = inputs[t - expansion.outputs_]->layout.placements;
    const auto it = std::find(tensor.layouts.begin(), tensor.layouts.end(), now);
    if (it != tensor.layouts.end()) {
      tensor.current = static_cast<std::uint32_t>(it - tensor.layouts.begin());
    }
  }
  return expansion;
}

Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh) {
  const std::size_t outputs = rule.outputs(call).size();
  if (rule.follow != nullptr) return expand_candidates(rule.follow(call, mesh), call, mesh);
  return expand_rows(fill_rows(rule.rows(call, rule), outputs, call), outputs, rule, call, mesh);
}

std::size_t foreach_size(const OpCall& call) {
  std::size_t size = 0;
  for (const TensorArg& arg : call.inputs) {
    if (!arg.is_list) continue;
    if (size != 0 && arg.tensors.size() != size) {
      throw InputError(call.op + ": tensor lists of one length, found " + std::to_string(size) +
                       " and " + std::to_string(arg.tensors.size()));
    }
    size = arg.tensors.size();
  }
  if (size == 0) throw InputError(call.op + ": takes tensor lists, such as \"[f32[8,8] R]\"");
  return size;
}

OpCall foreach_child(const OpCall& call, std::size_t index) {
  OpCall child{.op = call.op, .inputs = {}, .args = call.args};
  for (const TensorArg& arg : call.inputs) {
    child.inputs.push_back({.tensors = {arg.is_list ? arg.tensors[index] : arg.tensors[0]}});
  }
  return child;
}

}  // namespace shardlab
