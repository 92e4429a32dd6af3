#include "strategies/rules/expansion.h"

#include <algorithm>
#include <bit>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_schemas.h"
#include "strategies/rules/registered_rows.h"

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

// A tensor may have partials of one kind on several mesh dims, but not of different kinds. 0 means
// that the placement is not a partial.
std::uint8_t kind_of_partial(const Placement& p) {
  switch (p.kind()) {
    case Placement::Kind::kPartial:
      return is_linear(p.reduce_op())
                 ? std::uint8_t{1}
                 : static_cast<std::uint8_t>(4U + static_cast<unsigned>(p.reduce_op()));
    case Placement::Kind::kMaskPartial:
      return 2;
    case Placement::Kind::kNormPartial:
      return 3;
    default:
      return 0;
  }
}

// Tells which codes of one tensor leave no rank without elements. Each code is examined when it is
// first asked for.
class ShardableCodes {
 public:
  ShardableCodes(const Shape& shape, std::span<const Placement> entries, std::uint32_t codes,
                 const DeviceMesh& mesh)
      : shape_(shape), mesh_(mesh) {
    // If a dim is as long as the whole mesh times the largest split factor, then no shard is empty.
    std::int64_t most = mesh.size();
    for (const Placement& p : entries) {
      if (p.is_strided()) {
        most = std::max(most, saturating_product(mesh.size(), p.split_factor()));
      }
    }
    for (const Placement& p : entries) {
      if (p.is_registered()) all_ = false;
      if (!p.is_shard_like()) continue;
      const auto dim = static_cast<std::size_t>(p.dim());
      all_ = all_ && dim < shape.size() && shape[dim] >= most;
    }
    if (!all_) known_.assign(codes, Verdict::kUnknown);
  }

  [[nodiscard]] bool all() const { return all_; }
  template <class LayoutOf>
  bool has(std::uint32_t code, LayoutOf&& layout_of) {
    if (all_) return true;
    Verdict& verdict = known_[code];
    if (verdict == Verdict::kUnknown) {
      verdict = is_shardable(shape_, layout_of(code), mesh_) ? Verdict::kYes : Verdict::kNo;
    }
    return verdict == Verdict::kYes;
  }

 private:
  enum class Verdict : std::uint8_t { kUnknown, kYes, kNo };
  const Shape& shape_;
  const DeviceMesh& mesh_;
  bool all_ = true;
  std::vector<Verdict> known_;
};

}  // namespace

// Gives a number to each list of the kinds of partials that the tensors have in a combination.
// Whether two combinations may be joined depends only on these lists, and few different ones occur.
class Expansion::PartialsTable {
 public:
  static constexpr std::uint16_t kMixed = 0xffffU;

  std::uint16_t none(std::size_t tensors) { return number_of(Kinds(tensors, 0)); }
  std::uint16_t of_row(const Row& row) {
    Kinds kinds;
    for (const RowEntry& entry : row) kinds.push_back(kind_of_partial(entry.placement()));
    return number_of(kinds);
  }

  // The number of two combinations after they are joined; kMixed if a tensor would then mix
  // partials.
  std::uint16_t join(std::uint16_t a, std::uint16_t b) {
    if (joined_.size() < kinds_.size()) joined_.resize(kinds_.size());
    std::vector<std::uint16_t>& known = joined_[a];
    if (known.size() <= b) known.resize(kinds_.size(), kUnknown);
    if (known[b] == kUnknown) known[b] = compute_join(a, b);
    return known[b];
  }

  [[nodiscard]] std::size_t size() const { return kinds_.size(); }

 private:
  using Kinds = boost::container::small_vector<std::uint8_t, 8>;
  static constexpr std::uint16_t kUnknown = 0xfffeU;

  std::uint16_t number_of(const Kinds& kinds) {
    const auto number = std::find(kinds_.begin(), kinds_.end(), kinds) - kinds_.begin();
    if (number == std::ssize(kinds_)) kinds_.push_back(kinds);
    return static_cast<std::uint16_t>(number);
  }

  std::uint16_t compute_join(std::uint16_t a, std::uint16_t b) {
    Kinds kinds = kinds_[a];
    for (std::size_t t = 0; t < kinds.size(); ++t) {
      const std::uint8_t other = kinds_[b][t];
      if (kinds[t] != 0 && other != 0 && kinds[t] != other) return kMixed;
      if (other != 0) kinds[t] = other;
    }
    return number_of(kinds);
  }

  std::vector<Kinds> kinds_;                        // number -> the kind for each tensor
  std::vector<std::vector<std::uint16_t>> joined_;  // join() of each pair of numbers
};

// The combinations of one row for each of some mesh dims, except those that mix partials. The row
// on the last mesh dim changes fastest.
struct Expansion::Combinations {
  int mesh_dims = 0;
  std::vector<Numbers> codes;           // for each tensor: combination -> code
  std::vector<std::uint16_t> partials;  // combination -> its number in the PartialsTable
};

Placements Expansion::layout(std::size_t tensor, std::uint32_t code) const {
  const Tensor& t = tensors_[tensor];
  if (!t.layouts.empty()) return t.layouts[code];
  Placements placements(static_cast<std::size_t>(mesh_ndim_));
  for (int m = mesh_ndim_ - 1; m >= 0; --m) {
    placements[to_index(m)] = t.entries[code % t.entries.size()];
    code /= static_cast<std::uint32_t>(t.entries.size());
  }
  return placements;
}

std::uint32_t Expansion::code_for(std::size_t tensor, const Placements& placements) const {
  const std::vector<Placement>& entries = tensors_[tensor].entries;
  std::uint32_t code = 0;
  for (const Placement& p : placements) {
    const auto it = std::find(entries.begin(), entries.end(), p);
    if (it == entries.end()) return kNoCode;
    code = code * static_cast<std::uint32_t>(entries.size()) +
           static_cast<std::uint32_t>(it - entries.begin());
  }
  return code;
}

std::vector<std::uint32_t> Expansion::used_codes(std::size_t input) const {
  std::vector<std::uint32_t> used;
  used.reserve(codes(input));
  if (complete_) {  // every combination of rows is a candidate, so every code is used
    for (std::uint32_t code = 0; code < codes(input); ++code) used.push_back(code);
    return used;
  }
  std::vector<std::uint8_t> seen(codes(input), 0);
  const CodesOf code_of = codes_of(input);
  for (std::size_t c = 0; c < code_of.size(); ++c) seen[code_of[c]] = 1;
  for (std::uint32_t code = 0; code < seen.size(); ++code) {
    if (seen[code] != 0) used.push_back(code);
  }
  return used;
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
      throw InputError(call.op + ": a row has " + std::to_string(row.size()) +
                       " placements; valid: " + std::to_string(length) + " (" +
                       std::to_string(outputs) + " for outputs, " + std::to_string(tensors.size()) +
                       " for inputs)");
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

// The rows themselves are the combinations on one mesh dim.
Expansion::Combinations Expansion::rows_as_combinations(PartialsTable& partials) const {
  Combinations rows{1, std::vector<Numbers>(tensors_.size()), {}};
  for (const Row& row : rows_) {
    rows.partials.push_back(partials.of_row(row));
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::vector<Placement>& entries = tensors_[t].entries;
      const auto entry = std::find(entries.begin(), entries.end(), row[t].placement());
      rows.codes[t].push_back(static_cast<std::uint32_t>(entry - entries.begin()));
    }
  }
  return rows;
}

// Builds the combinations on `mesh_dims` mesh dims: each combination on one mesh dim fewer, joined
// with every row.
Expansion::Combinations Expansion::combine(const Combinations& rows, int mesh_dims,
                                           PartialsTable& partials) const {
  const std::size_t tensors = tensors_.size();
  if (mesh_dims == 0) return {0, {tensors, Numbers(1, 0U)}, {partials.none(tensors)}};
  if (mesh_dims == 1) return rows;
  const Combinations shorter = combine(rows, mesh_dims - 1, partials);
  Combinations all{mesh_dims, std::vector<Numbers>(tensors), {}};
  for (Numbers& codes : all.codes) codes.reserve(shorter.partials.size() * rows.partials.size());
  for (std::size_t c = 0; c < shorter.partials.size(); ++c) {
    for (std::size_t r = 0; r < rows.partials.size(); ++r) {
      const std::uint16_t joined = partials.join(shorter.partials[c], rows.partials[r]);
      if (joined == PartialsTable::kMixed) continue;
      all.partials.push_back(joined);
      for (std::size_t t = 0; t < tensors; ++t) {
        const auto radix = static_cast<std::uint32_t>(tensors_[t].entries.size());
        all.codes[t].push_back(shorter.codes[t][c] * radix + rows.codes[t][r]);
      }
    }
  }
  return all;
}

// Builds the candidates: each combination of `left`, joined with every combination of `right` that
// mixes no partials with it. Which ones these are depends only on the partials of the left one, so
// they are listed once for each number of the PartialsTable.
void Expansion::pair_up(Combinations left, Combinations right, PartialsTable& partials) {
  struct Fitting {
    bool listed = false;
    std::vector<std::uint32_t> right;
  };
  std::vector<Fitting> fitting(partials.size());
  std::size_t size = 0;
  for (const std::uint16_t kind : left.partials) {
    Fitting& fits = fitting[kind];
    for (std::size_t r = 0; !fits.listed && r < right.partials.size(); ++r) {
      if (partials.join(kind, right.partials[r]) == PartialsTable::kMixed) continue;
      fits.right.push_back(static_cast<std::uint32_t>(r));
    }
    fits.listed = true;
    size += fits.right.size();
  }
  shift_ = static_cast<unsigned>(std::bit_width(right.partials.size()));
  candidates_.resize(size, boost::container::default_init);
  std::uint32_t* out = candidates_.data();
  for (std::size_t l = 0; l < left.partials.size(); ++l) {
    const std::uint32_t high = static_cast<std::uint32_t>(l) << shift_;
    for (const std::uint32_t r : fitting[left.partials[l]].right) *out++ = high | r;
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const std::uint32_t weight = power(tensors_[t].entries.size(), right.mesh_dims);
    for (std::uint32_t& code : left.codes[t]) code *= weight;
    tensors_[t].left = std::move(left.codes[t]);
    tensors_[t].right = std::move(right.codes[t]);
  }
}

// Drops the candidates that give a tensor no valid layout, or would move a tensor that the op
// writes to.
void Expansion::drop_invalid(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh) {
  const auto inputs = call.tensors();
  const bool in_place = rule.is_in_place() && !inputs.empty();
  // If the op has no outputs, then tensor 0 is the first input.
  const std::uint32_t written_first =
      inputs.empty() ? kNoCode : code_for(0, inputs[0]->layout.placements);
  std::vector<std::uint32_t> written;  // the codes of the `out` tensors, for each output
  if (const std::size_t count = rule.written_outputs();
      count <= std::min(outputs_, inputs.size())) {
    for (std::size_t o = 0; o < count; ++o) {
      written.push_back(code_for(o, inputs[inputs.size() - count + o]->layout.placements));
    }
  }
  std::vector<ShardableCodes> shardable;
  bool all_shardable = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = tensors_[outputs_ + i];
    shardable.emplace_back(inputs[i]->meta.shape, tensor.entries, tensor.codes, mesh);
    all_shardable = all_shardable && shardable.back().all();
  }
  if (!in_place && written.empty() && all_shardable && rule.filter == nullptr) return;

  bool blocked_in_place = false;
  const bool allows_uneven = rule.allows_uneven();
  std::vector<Placements> shown(inputs.size());
  const auto is_valid = [&](std::size_t c) {
    const bool moves = code(c, 0) != tensors_[outputs_].current;
    if (in_place && (moves || codes_of_tensor(0)[c] != written_first)) {
      blocked_in_place = true;
      return false;
    }
    for (std::size_t o = 0; o < written.size(); ++o) {
      if (codes_of_tensor(o)[c] != written[o]) return false;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool keeps = code(c, i) == tensors_[outputs_ + i].current;
      if (allows_uneven && keeps) continue;
      const auto layout_of = [&](std::uint32_t code) { return layout(outputs_ + i, code); };
      if (!shardable[i].has(code(c, i), layout_of)) return false;
    }
    if (rule.filter == nullptr) return true;
    for (std::size_t i = 0; i < inputs.size(); ++i) shown[i] = input(c, i);
    return rule.filter(call, shown, mesh);
  };
  std::size_t kept = 0;
  for (std::size_t c = 0; c < size(); ++c) {
    if (is_valid(c)) candidates_[kept++] = candidates_[c];
  }
  complete_ = complete_ && kept == size();
  candidates_.resize(kept);
  if (kept == 0 && blocked_in_place) {
    in_place_error_ =
        call.op + ": in-place operations that require placement changes are not supported (input " +
        inputs[0]->layout.text() + ")";
  }
}

// Prepares everything except the candidates.
Expansion prepare_rows(const Rows& rows, std::size_t outputs, const OpCall& call,
                       const DeviceMesh& mesh) {
  const auto inputs = call.tensors();
  Expansion expansion;
  expansion.mesh_ndim_ = mesh.ndim();
  expansion.own_strided_ = asks_own_strided(call);
  expansion.outputs_ = outputs;
  expansion.rows_ = rows;
  expansion.tensors_.resize(outputs + inputs.size());
  for (std::size_t t = 0; t < expansion.tensors_.size(); ++t) {
    Expansion::Tensor& tensor = expansion.tensors_[t];
    for (const Row& row : rows) {
      const Placement& p = row[t].placement();
      if (std::find(tensor.entries.begin(), tensor.entries.end(), p) == tensor.entries.end()) {
        tensor.entries.push_back(p);
      }
    }
    tensor.codes = power(tensor.entries.size(), mesh.ndim());
    if (tensor.codes > kMaxCombinations) {
      throw InputError(call.op + ": " + std::to_string(tensor.entries.size()) +
                       " placements on each of " + std::to_string(mesh.ndim()) +
                       " mesh dims make too many layouts of one tensor");
    }
    if (t < outputs) continue;
    tensor.current = expansion.code_for(t, inputs[t - outputs]->layout.placements);
  }
  return expansion;
}

Expansion expand_rows(const Rows& rows, std::size_t outputs, const OpRule& rule, const OpCall& call,
                      const DeviceMesh& mesh) {
  const std::uint32_t combinations = power(rows.size(), mesh.ndim());
  if (combinations > kMaxCombinations) {
    throw InputError(call.op + ": " + std::to_string(rows.size()) + " rows on each of " +
                     std::to_string(mesh.ndim()) +
                     " mesh dims make too many candidates to enumerate; use --search exact");
  }
  Expansion expansion = prepare_rows(rows, outputs, call, mesh);
  Expansion::PartialsTable partials;
  const int inner = (mesh.ndim() + 1) / 2;
  const Expansion::Combinations one_dim = expansion.rows_as_combinations(partials);
  expansion.pair_up(expansion.combine(one_dim, mesh.ndim() - inner, partials),
                    expansion.combine(one_dim, inner, partials), partials);
  expansion.complete_ = expansion.size() == combinations;
  expansion.drop_invalid(rule, call, mesh);
  return expansion;
}

Expansion expand_candidates(std::span<const FollowCandidate> candidates, const OpCall& call,
                            const DeviceMesh& mesh) {
  const auto inputs = call.tensors();
  Expansion expansion;
  expansion.mesh_ndim_ = mesh.ndim();
  expansion.own_strided_ = asks_own_strided(call);
  expansion.outputs_ = candidates.empty() ? 1 : candidates.front().outputs.size();
  const std::size_t count = expansion.outputs_ + inputs.size();
  expansion.tensors_.resize(count);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const FollowCandidate& candidate = candidates[c];
    if (candidate.outputs.size() != expansion.outputs_) {
      throw InputError(call.op + ": candidate " + std::to_string(c) + " has " +
                       std::to_string(candidate.outputs.size()) + " outputs; valid: " +
                       std::to_string(expansion.outputs_) + ", as many as candidate 0 has");
    }
    if (candidate.inputs.size() != inputs.size()) {
      throw InputError(call.op + ": candidate " + std::to_string(c) + " has " +
                       std::to_string(candidate.inputs.size()) +
                       " inputs; valid: " + std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (const Placement& p : candidate.inputs[i]) {
        if (!p.is_shard_like() || p.dim() < inputs[i]->meta.ndim()) continue;
        throw InputError(call.op + ": candidate " + std::to_string(c) + " would shard dim " +
                         std::to_string(p.dim()) + " of input " + std::to_string(i) +
                         ", which has " + std::to_string(inputs[i]->meta.ndim()) + " dims");
      }
    }
    for (std::size_t t = 0; t < count; ++t) {
      Expansion::Tensor& tensor = expansion.tensors_[t];
      const Placements& placements =
          t < expansion.outputs_ ? candidate.outputs[t] : candidate.inputs[t - expansion.outputs_];
      const auto it = std::find(tensor.layouts.begin(), tensor.layouts.end(), placements);
      const auto code = static_cast<std::uint32_t>(it - tensor.layouts.begin());
      if (it == tensor.layouts.end()) tensor.layouts.push_back(placements);
      tensor.right.push_back(code);
    }
    expansion.candidates_.push_back(static_cast<std::uint32_t>(c));
  }
  expansion.shift_ = static_cast<unsigned>(std::bit_width(candidates.size()));
  for (std::size_t t = 0; t < count; ++t) {
    Expansion::Tensor& tensor = expansion.tensors_[t];
    tensor.left.assign(1, 0U);
    tensor.codes = static_cast<std::uint32_t>(tensor.layouts.size());
    if (t < expansion.outputs_) continue;
    const std::size_t outputs = expansion.outputs_;
    const Placements& now = inputs[t - outputs]->layout.placements;
    const auto it = std::find(tensor.layouts.begin(), tensor.layouts.end(), now);
    if (it != tensor.layouts.end()) {
      tensor.current = static_cast<std::uint32_t>(it - tensor.layouts.begin());
      if (!candidates.empty() && candidates.front().keeps_order) {
        tensor.kept = inputs[t - outputs]->layout;
      }
    }
  }
  return expansion;
}

Expansion prepare_expansion(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh) {
  SHARDLAB_CHECK(rule.rows != nullptr, rule.op, " has no rows");
  expect_arguments_of_schema(call);
  expect_registered(call, mesh);
  const std::size_t outputs = rule.outputs(call).size();
  return prepare_rows(rows_of_call(rule, call, outputs), outputs, call, mesh);
}

Expansion expand(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh) {
  expect_arguments_of_schema(call);
  const std::size_t outputs = rule.outputs(call).size();
  if (has_registered(call)) expect_registered(call, mesh);
  if (rule.follow != nullptr) {
    if (!has_registered(call)) return expand_candidates(rule.follow(call, mesh), call, mesh);
    return expand_candidates(rule.follow(without_registered(call), mesh), call, mesh);
  }
  return expand_rows(rows_of_call(rule, call, outputs), outputs, rule, call, mesh);
}

bool asks_own_strided(const OpCall& call) {
  for (const TensorSpec* tensor : call.tensors()) {
    if (tensor->layout.has_strided()) return tensor->layout.own_strided;
  }
  return true;
}

Layout asked_layout(const OpCall& call, const Placements& placements) {
  Layout layout(placements);
  layout.own_strided = asks_own_strided(call);
  return layout;
}

Layout made_layout(const OpCall& call, const Placements& placements) {
  const auto tensors = call.tensors();
  Layout layout(placements);
  layout.own_strided = std::none_of(tensors.begin(), tensors.end(), [](const TensorSpec* tensor) {
    return tensor->layout.encodes_order();
  });
  return layout;
}

bool is_foreach(std::string_view op) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"_foreach_", "_amp_foreach_",
                                                         "_fused_adam", "_fused_sgd"};
  const std::string_view base = split_op_name(op).base;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return base.starts_with(prefix); });
}

std::size_t foreach_size(const OpCall& call) {
  std::size_t size = 0;
  for (const TensorArg& arg : call.inputs) {
    if (!arg.is_list || arg.tensors.empty()) continue;
    if (size != 0 && arg.tensors.size() != size) {
      throw InputError(call.op + ": found tensor lists of length " + std::to_string(size) +
                       " and " + std::to_string(arg.tensors.size()) +
                       "; valid: lists of one length");
    }
    size = arg.tensors.size();
  }
  if (size == 0) throw InputError(call.op + ": takes tensor lists, such as \"[f32[8,8] R]\"");
  return size;
}

OpCall foreach_child(const OpCall& call, std::size_t index) {
  OpCall child{.op = call.op, .inputs = {}, .args = call.args};
  for (const TensorArg& arg : call.inputs) {
    TensorArg& own = child.inputs.emplace_back(arg);
    own.is_list = false;
    if (arg.is_list && !arg.tensors.empty()) own.tensors = {arg.tensors[index]};
  }
  // An array holds one number per element.
  for (nlohmann::json& arg : child.args) {
    if (arg.is_array() && index < arg.size()) arg = nlohmann::json(arg[index]);
  }
  return child;
}

}  // namespace shardlab
