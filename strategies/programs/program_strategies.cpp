#include "strategies/programs/program_strategies.h"

#include <algorithm>
#include <array>
#include <boost/container_hash/hash.hpp>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "sim/fake_group.h"
#include "strategies/programs/program_check.h"
#include "strategies/programs/program_graph.h"
#include "strategies/rules/row_expansion.h"
#include "strategies/rules/view_rule.h"

namespace shardlab {
namespace {

// The products that AutoParallel's pull request 429 gives strided shards.
constexpr std::array<std::string_view, 5> kStridedOps = {
    "aten._scaled_mm.default", "aten.addmm.default", "aten.baddbmm.default", "aten.bmm.default",
    "aten.mm.default"};

bool is_reshape(std::string_view op) {
  return op == "aten.view.default" || op == "aten._unsafe_view.default" ||
         op == "aten.reshape.default";
}

struct MetaHash {
  std::size_t operator()(const TensorMeta& meta) const {
    std::size_t seed = static_cast<std::size_t>(meta.dtype);
    boost::hash_range(seed, meta.shape.begin(), meta.shape.end());
    boost::hash_range(seed, meta.strides.begin(), meta.strides.end());
    return seed;
  }
};

// What a trace writes for aten._to_copy, which keeps partials. DTensor's strategy of the prim does
// not, but no program that runs on DTensors calls it: they call _to_copy.
constexpr std::string_view kTracedCast = "prims.convert_element_type.default";

// An order of strategies, for sets of them.
struct StrategyLess {
  bool operator()(const std::vector<Placements>& a, const std::vector<Placements>& b) const {
    return std::lexicographical_compare(
        a.begin(), a.end(), b.begin(), b.end(), [](const Placements& x, const Placements& y) {
          return std::lexicographical_compare(
              x.begin(), x.end(), y.begin(), y.end(), [](const Placement& p, const Placement& q) {
                return std::tuple(p.kind(), p.reduce_op(), p.dim(), p.split_factor()) <
                       std::tuple(q.kind(), q.reduce_op(), q.dim(), q.split_factor());
              });
        });
  }
};

using ClassKey = std::vector<std::uint32_t>;

class Enumerator {
 public:
  Enumerator(const Program& program, const DeviceMesh& mesh, const StrategyOptions& options)
      : program_(program),
        mesh_(mesh),
        options_(options),
        alias_(&find_op_rule(kAlias, kAutoParallel)) {
    if (!options_.links.empty()) all_.layouts = LayoutTable(mesh);
  }

  ProgramStrategies run() {
    number_metas();
    all_.class_of.resize(program_.nodes.size());
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const auto [it, is_new] =
          class_by_key_.try_emplace(key_of(n), static_cast<std::uint32_t>(all_.classes.size()));
      all_.class_of[n] = it->second;
      if (is_new) add_class(n);
    }
    note_unknown_ops();
    return std::move(all_);
  }

 private:
  [[nodiscard]] const ProgramNode& node(std::size_t n) const { return program_.nodes[n]; }
  // Whether the node leaves the program, or is an alias within it.
  [[nodiscard]] bool is_alias(std::size_t n) const {
    return node(n).op == kAlias || (!node(n).computes() && !node(n).is_source());
  }
  [[nodiscard]] std::uint32_t producer_list(const ValueRef& value) const {
    return all_.of(value.node).tensors[value.output];
  }

  // Says of each op without a rule which of its nodes are replicated, and how their kernels are
  // priced: nothing says how many operations such an op takes.
  void note_unknown_ops() {
    std::vector<std::pair<std::string_view, std::vector<std::size_t>>> unknown;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const ProgramNode& own = node(n);
      if (!own.computes() || is_alias(n) || own.op == kGetItem || is_listed(own) ||
          rule_of(own.op) != nullptr) {
        continue;
      }
      auto found = std::find_if(unknown.begin(), unknown.end(),
                                [&](const auto& entry) { return entry.first == own.op; });
      if (found == unknown.end()) found = unknown.insert(unknown.end(), {own.op, {}});
      found->second.push_back(n);
    }
    for (const auto& [op, nodes] : unknown) all_.notes.push_back(note_of(op, nodes));
  }
  [[nodiscard]] std::string note_of(std::string_view op, std::span<const std::size_t> nodes) const {
    constexpr std::size_t kMostNames = 3;
    std::string note = std::string(op) + " has no sharding rule, so ";
    if (nodes.size() == 1) {
      note += "node " + node(nodes[0]).name + " is replicated, and priced by its bytes alone";
    } else {
      note += "its " + std::to_string(nodes.size()) +
              " nodes are replicated, and priced by their bytes alone:";
      for (std::size_t i = 0; i < std::min(nodes.size(), kMostNames); ++i) {
        note += (i == 0 ? " " : ", ") + node(nodes[i]).name;
      }
      if (nodes.size() > kMostNames) note += ", ...";
    }
    return note;
  }

  void number_metas() {
    std::unordered_map<TensorMeta, std::uint32_t, MetaHash> ids;
    for (const ProgramNode& n : program_.nodes) {
      all_.first_output.push_back(static_cast<std::uint32_t>(all_.meta_of.size()));
      for (const TensorMeta& meta : n.outputs) {
        const auto [it, is_new] =
            ids.try_emplace(meta, static_cast<std::uint32_t>(all_.metas.size()));
        if (is_new) all_.metas.push_back(meta);
        all_.meta_of.push_back(it->second);
      }
    }
  }

  // -- Classes ----------------------------------------------------------------------------------

  std::uint32_t word_id(std::string word) {
    return words_.try_emplace(std::move(word), static_cast<std::uint32_t>(words_.size()))
        .first->second;
  }
  const OpRule* rule_of(const std::string& op) {
    const auto [it, is_new] = rules_.try_emplace(op, nullptr);
    if (is_new) it->second = find_program_rule(op, options_.rules);
    return it->second;
  }
  // Whether the node's strategies depend on the layouts that its inputs may have.
  [[nodiscard]] bool follows(const ProgramNode& n, const OpRule* rule) const {
    return n.op == kGetItem || (rule != nullptr && rule->rows == nullptr) ||
           (options_.strided && takes_strided(n));
  }
  [[nodiscard]] static bool takes_strided(const ProgramNode& n) {
    return std::find(kStridedOps.begin(), kStridedOps.end(), n.op) != kStridedOps.end();
  }

  ClassKey key_of(std::size_t n) {
    const ProgramNode& own = node(n);
    ClassKey key;
    if (own.is_source()) {
      key = {0, all_.meta(n, 0)};
      return key;
    }
    const auto outputs = static_cast<std::uint32_t>(own.outputs.size());
    if (is_alias(n)) {
      key = {1, outputs};
      for (std::size_t o = 0; o < outputs; ++o) key.push_back(all_.meta(n, o));
      for (const ValueRef& value : values_read(own)) {
        key.push_back(all_.meta(value.node, value.output));
      }
      return key;
    }
    const OpRule* rule = rule_of(own.op);
    key = {2, word_id(own.op), own.args.empty() ? 0 : 1 + word_id(own.args.dump()), outputs};
    for (std::size_t o = 0; o < outputs; ++o) key.push_back(all_.meta(n, o));
    const bool followed = follows(own, rule);
    for (const ProgramInput& input : own.inputs) {
      key.push_back(2 * static_cast<std::uint32_t>(input.values.size()) + (input.is_list ? 1 : 0));
      key.push_back(static_cast<std::uint32_t>(input.given.size()));
      for (const bool given : input.given) key.push_back(given ? 1 : 0);
      for (const ValueRef& value : input.values) {
        key.push_back(all_.meta(value.node, value.output));
        if (followed) key.push_back(producer_list(value));
      }
    }
    return key;
  }

  void add_class(std::size_t n) {
    try {
      all_.classes.push_back(class_of_node(n));
    } catch (const LimitError& error) {
      throw LimitError("node " + node(n).name + ": " + error.what());
    } catch (const InputError& error) {
      throw node_error(program_, n, error);
    }
    NodeClass& added = all_.classes.back();
    added.node = static_cast<std::uint32_t>(n);
    added.outputs = static_cast<std::uint32_t>(node(n).outputs.size());
    added.strategies = static_cast<std::uint32_t>(all_.layouts.list_at(added.tensors[0]).size());
  }

  NodeClass class_of_node(std::size_t n) {
    const ProgramNode& own = node(n);
    if (own.is_source()) {
      const LayoutListId list = layouts_without_partials(own.outputs[0]);
      return {.tensors = {list}};
    }
    OpCall call = call_of(program_, n, mesh_.ndim());
    const OpRule* rule = own.computes() ? rule_of(own.op) : nullptr;
    if (rule != nullptr) call.op = std::string(rule->op);
    check_node(own, call, rule);
    if (own.leaves() && own.outputs.empty()) {
      throw InputError(
          "found no outputs; valid: one output, which repeats the tensor that the node "
          "reads, so that its layout can be solved");
    }
    if (is_alias(n)) return expanded(n, call, *alias_, alias_->rows(call, *alias_));
    if (own.op == kGetItem) return kept(n);
    if (is_listed(own)) return listed(n);
    if (rule == nullptr) return expanded(n, call, OpRule{.op = own.op}, {});
    if (rule->rows == nullptr) return followed(n, call, *rule);
    return expanded(n, call, *rule, runnable_rows(call, *rule));
  }

  // The rows of the rule that compute what the op computes, so that a plan's ranks get the values
  // of the whole program. Of DTensor's rows these are those that shardlab's rule has, too: DTensor
  // lists a few that compute something else, such as gather's S(0) | S(0), S(0) of tensors that
  // differ in dim 0 (`shardlab rules --rule-set dtensor-2.13`). Rows with partials of masks or
  // norms, which shardlab's rules do without, are kept. AutoParallel keeps to its own.
  [[nodiscard]] Rows runnable_rows(const OpCall& call, const OpRule& rule) const {
    Rows rows = rule.rows(call, rule);
    const OpRule* exact = op_rule_or_null(rule.op, kShardlab);
    const bool is_checked = options_.rules != kShardlab && !kAutoParallels.contains(options_.rules);
    if (!is_checked || exact == nullptr || exact->rows == nullptr) return rows;
    const Rows sound = exact->rows(call, *exact);
    const auto is_unsound = [&](const Row& row) {
      return std::none_of(row.begin(), row.end(), is_partial_of_masks_or_norms) &&
             std::none_of(sound.begin(), sound.end(),
                          [&](const Row& other) { return is_same_cut(row, other); });
    };
    rows.erase(std::remove_if(rows.begin(), rows.end(), is_unsound), rows.end());
    return rows;
  }
  static bool is_partial_of_masks_or_norms(const RowEntry& entry) {
    const Placement::Kind kind = entry.placement().kind();
    return kind == Placement::Kind::kMaskPartial || kind == Placement::Kind::kNormPartial;
  }
  // Whether two rows are equal, where a placeholder for any kind of shard is equal to a plain one.
  static bool is_same_cut(const Row& a, const Row& b) {
    return std::equal(
        a.begin(), a.end(), b.begin(), b.end(),
        [](const RowEntry& x, const RowEntry& y) { return x.placement() == y.placement(); });
  }

  // -- Lists ------------------------------------------------------------------------------------

  LayoutListId layouts_without_partials(const TensorMeta& meta) {
    std::vector<std::vector<Placement>> rows = {{Placement::replicate()}};
    for (int d = 0; d < meta.ndim(); ++d) rows.push_back({Placement::shard(d)});
    const std::array<const TensorMeta*, 1> metas = {&meta};
    std::vector<std::vector<Placements>> layouts = expand_over_mesh(rows, metas, mesh_);
    add_orders(metas, layouts, [](const auto&) { return true; });
    return layout_lists(layouts)[0];
  }

  // Replaces placeholders by plain shards, and by strided shards with these split factors.
  // Duplicate rows are dropped.
  static std::vector<std::vector<Placement>> filled(const Rows& rows,
                                                    const std::set<int>& factors) {
    std::vector<std::vector<Placement>> all;
    for (const Row& row : rows) {
      const bool has_placeholder = std::any_of(
          row.begin(), row.end(), [](const RowEntry& entry) { return entry.is_any_shard(); });
      const auto add = [&](int factor) {
        std::vector<Placement> plain;
        for (const RowEntry& entry : row) {
          plain.push_back(!entry.is_any_shard() ? entry.placement()
                          : factor == 0         ? Placement::shard(entry.dim())
                                                : Placement::strided_shard(entry.dim(), factor));
        }
        if (std::find(all.begin(), all.end(), plain) == all.end()) all.push_back(std::move(plain));
      };
      add(0);
      if (!has_placeholder) continue;
      for (const int factor : factors) add(factor);
    }
    return all;
  }

  // The split factors of the strided shards that the node's inputs may have.
  [[nodiscard]] std::set<int> observed_factors(std::size_t n) const {
    std::set<int> factors;
    for (const ValueRef& value : values_read(node(n))) {
      for (const LayoutId id : all_.layouts.list_at(producer_list(value))) {
        // Strided shards that encode a shard order are plain shards here.
        for (const Placement& p : all_.layouts.layout(id).placements) {
          if (p.is_strided()) factors.insert(p.split_factor());
        }
      }
    }
    return factors;
  }

  std::vector<LayoutListId> layout_lists(const std::vector<std::vector<Placements>>& by_tensor) {
    std::vector<LayoutListId> lists;
    for (const std::vector<Placements>& layouts : by_tensor) {
      std::vector<LayoutId> ids;
      ids.reserve(layouts.size());
      for (const Placements& placements : layouts) ids.push_back(all_.layouts.id(placements));
      lists.push_back(all_.layouts.list(std::move(ids)));
    }
    return lists;
  }

  // -- Shard orders -----------------------------------------------------------------------------

  // The strategy with every tensor dim cut in the order in which `order` lists the mesh dims;
  // nothing if a dim that several mesh dims cut is not divided evenly, so that the order would
  // change which ranks hold fewer rows.
  [[nodiscard]] std::optional<std::vector<Placements>> ordered(
      std::span<const TensorMeta* const> metas, const std::vector<Placements>& strategy,
      std::span<const int> order) const {
    std::vector<Placements> result;
    for (std::size_t t = 0; t < strategy.size(); ++t) {
      Layout layout(strategy[t]);
      if (layout.has_strided()) return std::nullopt;
      for (int d = 0; d < metas[t]->ndim(); ++d) {
        std::int64_t ranks = 1;
        int position = 0;
        for (const int m : order) {
          if (!layout[m].is_shard() || layout[m].dim() != d) continue;
          layout.order.set(m, position++);
          ranks *= mesh_.size(m);
        }
        if (position > 1 && metas[t]->shape[to_index(d)] % ranks != 0) return std::nullopt;
      }
      result.push_back(encode_order_as_strided(layout, mesh_).placements);
    }
    return result;
  }

  // Adds the strategies in other shard orders behind those in the default order. A strategy names
  // one row for each mesh dim, and the rows do not know in which order the mesh dims come: in
  // another order, the strategy is that of a mesh whose dims are permuted. `is_right` may refuse
  // one.
  template <class IsRight>
  void add_orders(std::span<const TensorMeta* const> metas,
                  std::vector<std::vector<Placements>>& layouts, IsRight&& is_right) const {
    if (options_.links.empty()) return;
    std::set<std::vector<Placements>, StrategyLess> seen;
    const std::size_t in_default_order = layouts[0].size();
    const auto strategy_at = [&](std::size_t s) {
      std::vector<Placements> strategy;
      for (const std::vector<Placements>& tensor : layouts) strategy.push_back(tensor[s]);
      return strategy;
    };
    // A view may have made a strided shard that says the same as a shard order.
    for (std::size_t s = 0; options_.strided && s < in_default_order; ++s) {
      seen.insert(strategy_at(s));
    }
    for (std::size_t s = 0; s < in_default_order; ++s) {
      const std::vector<Placements> strategy = strategy_at(s);
      if (std::none_of(strategy.begin(), strategy.end(), cuts_a_dim_twice)) continue;
      seen.insert(strategy);
      std::vector<int> order(to_index(mesh_.ndim()));
      std::iota(order.begin(), order.end(), 0);
      while (std::next_permutation(order.begin(), order.end())) {
        if (!ascends_within_links(order)) continue;
        const std::optional<std::vector<Placements>> other = ordered(metas, strategy, order);
        if (!other || !is_right(*other) || !seen.insert(*other).second) continue;
        for (std::size_t t = 0; t < layouts.size(); ++t) layouts[t].push_back((*other)[t]);
      }
    }
  }

  [[nodiscard]] bool ascends_within_links(std::span<const int> order) const {
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        const bool same = options_.links[to_index(order[i])] == options_.links[to_index(order[j])];
        if (same && order[i] > order[j]) return false;
      }
    }
    return true;
  }

  static bool cuts_a_dim_twice(const Placements& placements) {
    for (std::size_t a = 0; a < placements.size(); ++a) {
      for (std::size_t b = a + 1; b < placements.size(); ++b) {
        if (placements[a].is_shard() && placements[a] == placements[b]) return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::vector<const TensorMeta*> metas_of(std::size_t n) const {
    std::vector<const TensorMeta*> metas;
    for (const TensorMeta& meta : node(n).outputs) metas.push_back(&meta);
    for (const ValueRef& value : values_read(node(n))) {
      metas.push_back(&program_.nodes[value.node].outputs[value.output]);
    }
    return metas;
  }

  NodeClass expanded(std::size_t n, const OpCall& call, const OpRule& rule, Rows rows) {
    const std::vector<const TensorMeta*> metas = metas_of(n);
    for (Row& row : rows) {
      // A graph may show parts of attention's random state as separate outputs. They are whole on
      // every rank.
      const std::size_t inputs = metas.size() - node(n).outputs.size();
      if (rule.kernel == Kernel::kAttention && row.size() < metas.size() && row.size() >= inputs) {
        const std::size_t outputs = row.size() - inputs;
        row.insert(row.begin() + static_cast<std::ptrdiff_t>(outputs), metas.size() - row.size(),
                   RowEntry(Placement::replicate()));
      }
      if (row.size() == metas.size()) continue;
      throw InputError(
          call.op + ": found " + std::to_string(metas.size()) +
          " tensors that the node reads and makes; valid: " + std::to_string(row.size()));
    }
    Rows whole = {Row(metas.size(), RowEntry(Placement::replicate()))};
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(whole), [&](const Row& row) {
      return kAutoParallels.contains(options_.rules) || can_be_reduced(row, metas);
    });
    std::set<int> factors;
    if (options_.strided && takes_strided(node(n))) factors = observed_factors(n);
    std::vector<std::vector<Placements>> layouts =
        expand_over_mesh(filled(whole, factors), metas, mesh_);
    if (node(n).inputs.empty() && kAutoParallels.contains(options_.rules)) {
      drop_scarce(node(n).outputs[0], layouts);
    }
    if (rule.filter != nullptr) apply_filter(call, rule, node(n).outputs.size(), layouts);
    add_orders(metas, layouts, [](const auto&) { return true; });
    return {.rule = rule.outputs == nullptr ? nullptr : &rule, .tensors = layout_lists(layouts)};
  }

  // Whether numbers of the tensors' dtypes have the reductions of the row's partials. The rules of
  // PyTorch offer the average of b8, which has none.
  static bool can_be_reduced(const Row& row, std::span<const TensorMeta* const> metas) {
    for (std::size_t t = 0; t < metas.size(); ++t) {
      if (row[t].is_any_shard() || !row[t].placement().is_partial()) continue;
      if (!reduces(row[t].placement().reduce_op(), metas[t]->dtype)) return false;
    }
    return true;
  }

  // AutoParallel asks more of a tensor that an op makes from numbers than of others: each dim has
  // at least one element for each of the ranks that cut it together.
  void drop_scarce(const TensorMeta& made, std::vector<std::vector<Placements>>& layouts) const {
    std::erase_if(layouts[0], [&](const Placements& layout) {
      for (int d = 0; d < made.ndim(); ++d) {
        std::int64_t ranks = 1;
        for (int m = 0; m < mesh_.ndim(); ++m) {
          const Placement& p = layout[to_index(m)];
          if (p.is_shard() && p.dim() == d) ranks *= mesh_.size(m);
        }
        if (ranks > 1 && made.shape[to_index(d)] < ranks) return true;
      }
      return false;
    });
  }

  void apply_filter(const OpCall& call, const OpRule& rule, std::size_t outputs,
                    std::vector<std::vector<Placements>>& layouts) const {
    std::size_t kept = 0;
    for (std::size_t strategy = 0; strategy < layouts[0].size(); ++strategy) {
      std::vector<Placements> inputs;
      for (std::size_t t = outputs; t < layouts.size(); ++t) inputs.push_back(layouts[t][strategy]);
      if (!rule.filter(call, inputs, mesh_)) continue;
      for (std::vector<Placements>& tensor : layouts) tensor[kept] = tensor[strategy];
      ++kept;
    }
    for (std::vector<Placements>& tensor : layouts) tensor.resize(kept);
  }

  // The strategies that the program itself lists.
  NodeClass listed(std::size_t n) {
    const std::vector<const TensorMeta*> metas = metas_of(n);
    std::vector<std::vector<Placements>> layouts(metas.size());
    const auto fail = [&](const nlohmann::json& found) {
      throw InputError(node(n).op + ": --args: found " + found.dump() +
                       "; valid: a list of at least one strategy, each a list of " +
                       std::to_string(metas.size()) + " layouts on the mesh " + mesh_.text() +
                       ", of the node's outputs and then of its inputs");
    };
    if (node(n).args.empty()) fail(node(n).args);
    for (const nlohmann::json& strategy : node(n).args) {
      if (!strategy.is_array() || strategy.size() != metas.size()) fail(strategy);
      for (std::size_t t = 0; t < metas.size(); ++t) {
        if (!strategy[t].is_string()) fail(strategy);
        layouts[t].push_back(listed_layout(strategy[t], *metas[t]));
      }
    }
    return {.tensors = layout_lists(layouts)};
  }

  [[nodiscard]] Placements listed_layout(const nlohmann::json& text, const TensorMeta& meta) const {
    try {
      Placements placements = Layout::parse(text.get<std::string>(), mesh_.ndim()).placements;
      if (!has_registered(placements) && is_layout_of(meta, placements, mesh_)) return placements;
    } catch (const TextError&) {  // refused below
    }
    throw InputError("--args: found " + text.dump() + "; valid: a layout of " + meta.text() +
                     " on the mesh " + mesh_.text());
  }

  // The distinct layouts in which the producer may leave a value.
  [[nodiscard]] std::vector<LayoutId> distinct_of(const ValueRef& value) const {
    std::vector<LayoutId> ids;
    std::vector<bool> seen(all_.layouts.size(), false);
    for (const LayoutId id : all_.layouts.list_at(producer_list(value))) {
      if (!seen[id]) ids.push_back(id);
      seen[id] = true;
    }
    return ids;
  }

  NodeClass kept(std::size_t n) {
    const LayoutListId list = all_.layouts.list(distinct_of(values_read(node(n))[0]));
    return {.tensors = {list, list}};
  }

  // Asks the rule for candidates once for every layout that one of the inputs may have, with all
  // inputs in this layout. An input that cannot have it is replicated.
  NodeClass followed(std::size_t n, OpCall call, const OpRule& rule) {
    const std::vector<const TensorMeta*> metas = metas_of(n);
    const std::size_t outputs = node(n).outputs.size();
    const std::vector<ValueRef> values = values_read(node(n));
    std::vector<LayoutId> from;
    for (const ValueRef& value : values) {
      for (const LayoutId id : distinct_of(value)) {
        if (std::find(from.begin(), from.end(), id) == from.end()) from.push_back(id);
      }
    }
    std::vector<std::vector<Placements>> layouts(metas.size());
    std::set<std::vector<LayoutId>> seen;
    const auto add = [&](const FollowCandidate& candidate) {
      std::vector<Placements> strategy = candidate.outputs;
      strategy.insert(strategy.end(), candidate.inputs.begin(), candidate.inputs.end());
      if (strategy.size() != metas.size()) return;
      std::vector<LayoutId> ids;
      for (std::size_t t = 0; t < strategy.size(); ++t) {
        if (!is_layout_of(*metas[t], strategy[t], mesh_)) return;
        ids.push_back(all_.layouts.id(strategy[t]));
      }
      if (!seen.insert(ids).second) return;
      for (std::size_t t = 0; t < strategy.size(); ++t) layouts[t].push_back(strategy[t]);
    };
    const Placements whole(static_cast<std::size_t>(mesh_.ndim()), Placement::replicate());
    const FollowCandidate replicated = {.outputs = std::vector<Placements>(outputs, whole),
                                        .inputs = std::vector<Placements>(values.size(), whole)};
    // AutoParallel lists no more than what follows from the layouts of the inputs. Behind a region
    // with one strategy, that is one.
    const bool follows_alone = kAutoParallels.contains(options_.rules);
    if (!follows_alone) add(replicated);
    for (const LayoutId id : from) {
      // Strategies in another shard order follow from those in the default order. With strided
      // shards, what reads as a shard order may be a view's, which follows from no other strategy.
      if (!options_.strided && !all_.layouts.layout(id).has_default_order()) continue;
      const Placements placements = all_.layouts[id];
      std::size_t t = 0;
      for (TensorArg& arg : call.inputs) {
        for (TensorSpec& spec : arg.tensors) {
          const bool fits = is_layout_of(*metas[outputs + t++], placements, mesh_);
          spec.layout = Layout(fits ? placements : whole);
        }
      }
      for (const FollowCandidate& candidate : candidates_of(rule, call, metas[0]->shape)) {
        add(candidate);
      }
    }
    if (layouts[0].empty()) add(replicated);
    // Which rows a reshaped dim is cut into depends on the order: of [16] as [2,8], cut by mesh
    // dims of 2 and 4, the first mesh dim cuts the 2 only where it cuts first.
    add_orders(metas, layouts, [&](const std::vector<Placements>& strategy) {
      return !is_reshape(rule.op) ||
             shows_alike(metas[1]->shape, metas[0]->shape, {strategy[1], strategy[0]}, mesh_);
    });
    return {.rule = &rule, .tensors = layout_lists(layouts)};
  }

  // The candidates of the rule; none if the rule refuses the layout of the inputs. If it refuses
  // even replicated inputs, the node itself is wrong, and the error is passed on.
  [[nodiscard]] std::vector<FollowCandidate> plain_candidates_of(const OpRule& rule,
                                                                 const OpCall& call) const {
    try {
      return rule.follow(call, mesh_);
    } catch (const InputError&) {
      if (call.tensors()[0]->layout.is_replicated()) throw;
      return {};
    }
  }

  // With strided shards, a view keeps every shard that it can show without communication, as
  // DTensor's views do. If DTensor's rule refuses, `rule` decides. Both rules may name an output
  // layout that differs from what the ranks hold after the view, so that no rank could run it: of
  // [6,32] as [12,16], shards of 6 rows over 2x2 are 2, 1, 2 and 1 long, but those of 12 all 3. In
  // that case shardlab's rule decides, which never does so; AutoParallel keeps to its own.
  [[nodiscard]] std::vector<FollowCandidate> candidates_of(const OpRule& rule, const OpCall& call,
                                                           const Shape& to) const {
    const bool is_exact = !kAutoParallels.contains(options_.rules);
    if (!is_reshape(rule.op) || (!options_.strided && !is_exact)) {
      return plain_candidates_of(rule, call);
    }
    std::vector<FollowCandidate> candidates;
    if (options_.strided) {
      const Release release = options_.rules.release().value_or(kReferenceRelease);
      try {
        candidates = find_op_rule("aten.view.default", release).follow(call, mesh_);
      } catch (const InputError&) {
        candidates = plain_candidates_of(rule, call);
      }
    } else {
      candidates = plain_candidates_of(rule, call);
    }
    const Shape& from = call.tensors()[0]->meta.shape;
    const auto is_right = [&](const FollowCandidate& candidate) {
      return shows_alike(from, to, {candidate.inputs[0], candidate.outputs[0]}, mesh_);
    };
    if (std::all_of(candidates.begin(), candidates.end(), is_right)) return candidates;
    candidates = find_op_rule("aten.view.default", kShardlab).follow(call, mesh_);
    // shardlab's rule may make strided shards, which are listed only where they are asked for.
    if (!options_.strided) {
      std::erase_if(candidates, [](const FollowCandidate& candidate) {
        return std::ranges::any_of(candidate.outputs[0],
                                   [](const Placement& p) { return p.is_strided(); });
      });
    }
    return candidates;
  }

  const Program& program_;
  const DeviceMesh& mesh_;
  StrategyOptions options_;
  const OpRule* alias_;
  ProgramStrategies all_;
  std::unordered_map<ClassKey, std::uint32_t, boost::hash<ClassKey>> class_by_key_;
  std::unordered_map<std::string, std::uint32_t> words_;
  std::unordered_map<std::string, const OpRule*> rules_;
};

}  // namespace

std::string ProgramStrategies::strategy_text(const NodeClass& node, std::size_t strategy) const {
  const auto texts = [&](std::size_t begin, std::size_t end) {
    std::string text;
    for (std::size_t t = begin; t < end; ++t) {
      text += (t == begin ? "" : ",") + layouts.text(layout(node, strategy, t));
    }
    return text;
  };
  const std::string outputs = texts(0, node.outputs);
  return node.inputs() == 0 ? outputs : outputs + "<-" + texts(node.outputs, node.tensors.size());
}

std::vector<NodePlacements> placements_of(const ProgramStrategies& strategies,
                                          std::span<const int> assignment) {
  SHARDLAB_CHECK(assignment.size() == strategies.class_of.size(), assignment.size(),
                 " strategies for ", strategies.class_of.size(), " nodes");
  std::vector<NodePlacements> placements(assignment.size());
  for (std::size_t n = 0; n < assignment.size(); ++n) {
    const NodeClass& node = strategies.of(n);
    for (std::size_t t = 0; t < node.tensors.size(); ++t) {
      const LayoutId id = strategies.layout(node, static_cast<std::size_t>(assignment[n]), t);
      (t < node.outputs ? placements[n].outputs : placements[n].inputs)
          .push_back(strategies.layouts[id]);
    }
  }
  return placements;
}

std::vector<Placements> first_outputs(const std::vector<NodePlacements>& placements) {
  std::vector<Placements> first;
  for (const NodePlacements& node : placements) {
    first.push_back(node.outputs.empty() ? Placements() : node.outputs[0]);
  }
  return first;
}

const OpRule* find_program_rule(std::string_view op, RuleSet rules) {
  if (op == kTracedCast) return &find_op_rule(op, kAutoParallel);
  for (const RuleSet set : {rules, kAutoParallel}) {
    try {
      if (const OpRule* rule = op_rule_or_null(op, set)) return rule;
    } catch (const InputError&) {
      continue;  // the name stands for several ops
    }
  }
  return nullptr;
}

ProgramStrategies enumerate_strategies(const Program& program, const DeviceMesh& mesh,
                                       const StrategyOptions& options) {
  return Enumerator(program, mesh, options).run();
}

}  // namespace shardlab
