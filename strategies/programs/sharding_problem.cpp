#include "strategies/programs/sharding_problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/dtype_chains.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/repeated_regions.h"
#include "strategies/solvers/network.h"

namespace shardlab {
namespace {

// Stores tables by their contents, so that equal tables become one.
class TableStore {
 public:
  explicit TableStore(ShardingProblem& problem) : problem_(problem) {}

  int add(ProblemTable table) {
    std::size_t hash = 0;
    boost::hash_combine(hash, table.columns);
    for (const double cost : table.costs) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(cost)) * 0x100000001b3ULL;  // FNV-1a
      hash ^= hash >> 29U;
    }
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const ProblemTable& other = problem_.tables[to_index(it->second)];
      if (other.columns == table.columns && other.costs == table.costs) return it->second;
    }
    const int id = static_cast<int>(problem_.tables.size());
    by_hash_.emplace(hash, id);
    problem_.tables.push_back(std::move(table));
    return id;
  }

 private:
  ShardingProblem& problem_;
  std::unordered_multimap<std::size_t, int> by_hash_;
};

std::vector<std::optional<Placement>> given(const Placements& layout) {
  return {layout.begin(), layout.end()};
}

class ProblemMaker {
 public:
  ProblemMaker(const Program& program, const DeviceMesh& mesh, const ProgramStrategies& strategies,
               const ProgramPrices& prices, const ProblemOptions& options)
      : program_(program),
        mesh_(mesh),
        strategies_(strategies),
        prices_(prices),
        options_(options),
        store_(problem_) {
    problem_.runs =
        options_.runs.empty() ? std::vector<int>(program_.nodes.size(), 1) : options_.runs;
    SHARDLAB_CHECK(problem_.runs.size() == program_.nodes.size(), problem_.runs.size());
  }

  ShardingProblem run() {
    add_domains();
    add_variables();
    add_edges();
    add_pairs();
    if (options_.tie_repeated) add_ties();
    add_limits();
    return std::move(problem_);
  }

  ShardingProblem run_on_values() {
    add_variables();
    add_limits();
    return std::move(problem_);
  }

 private:
  void add_limits() {
    add_pins();
    if (options_.parameter_budget) add_parameter_budget(*options_.parameter_budget);
    if (options_.memory_budget_bytes) add_memory_budget(*options_.memory_budget_bytes);
  }

  [[nodiscard]] std::span<const LayoutId> layouts_of(std::size_t node) const {
    return strategies_.layouts.list_at(strategies_.of(node).tensors[0]);
  }
  [[nodiscard]] const TensorMeta& meta_of(std::size_t node) const {
    return program_.nodes[node].outputs[0];
  }

  void add_domains() {
    for (const NodeClass& node : strategies_.classes) {
      std::vector<std::string>& domain = problem_.domains.emplace_back();
      domain.reserve(node.strategies);
      for (std::size_t strategy = 0; strategy < node.strategies; ++strategy) {
        domain.push_back(strategies_.strategy_text(node, strategy));
      }
    }
  }

  void add_variables() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const std::uint32_t of_class = strategies_.class_of[n];
      const std::span<const double> compute = prices_.compute_us(of_class);
      problem_.names.push_back(program_.nodes[n].name);
      problem_.domain_of.push_back(static_cast<int>(of_class));
      std::vector<double>& costs = problem_.costs.emplace_back(compute.begin(), compute.end());
      for (double& cost : costs) cost *= problem_.runs[n];
    }
    problem_.forbidden_by.resize(problem_.names.size());
  }

  // -- Edges ----------------------------------------------------------------------------------

  [[nodiscard]] ProblemTable edge_table(const PriceTable& prices, bool communicates,
                                        int runs) const {
    const std::span<const LayoutId> wanted = strategies_.layouts.list_at(prices.wanted);
    const std::span<const LayoutId> made = strategies_.layouts.list_at(prices.made);
    ProblemTable table{.rows = static_cast<int>(prices.rows()),
                       .columns = static_cast<int>(prices.columns()),
                       .costs = {}};
    table.costs.reserve(wanted.size() * made.size());
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      const double* by_column =
          &prices.communication_us[std::size_t{prices.row_of[row]} * prices.distinct_columns];
      for (std::size_t column = 0; column < made.size(); ++column) {
        double cost = by_column[prices.column_of[column]];
        if (!communicates && cost > 0.0) cost = kForbidden;
        if (wanted[row] != made[column]) cost += prices_.transition_us();
        table.costs.push_back(cost * runs);
      }
    }
    return table;
  }

  void add_edges() {
    const std::vector<bool> silent = silent_nodes(
        program_,
        {.forward = options_.forward_dtype_rule, .gradient = options_.gradient_dtype_rule});
    // By the number of runs: the tables of edges that communicate, and of those that do not.
    std::map<int, std::vector<std::array<int, 2>>> by_runs;
    problem_.priced = prices_.edges();
    for (const PricedEdge& edge : prices_.edges()) {
      const bool communicates = !silent[edge.reader];
      const int runs = problem_.runs[edge.reader];
      std::vector<std::array<int, 2>>& ids = by_runs[runs];
      ids.resize(prices_.tables().size(), {-1, -1});
      int& id = ids[edge.table][communicates ? 0 : 1];
      if (id < 0) {
        id = store_.add(edge_table(prices_.table(edge.table), communicates, runs));
      }
      if (!communicates) silent_edges_.push_back(problem_.edges.size());
      problem_.edges.push_back(
          {static_cast<int>(edge.reader), static_cast<int>(edge.producer), id});
    }
  }

  // -- Pairs ----------------------------------------------------------------------------------

  void add_pairs() {
    for (const auto& [first, second] : program_.pairs) {
      if (meta_of(first).shape != meta_of(second).shape) {
        throw InputError("pair " + program_.nodes[first].name + ", " + program_.nodes[second].name +
                         ": found " + meta_of(first).text() + " and " + meta_of(second).text() +
                         "; valid: tensors of one shape");
      }
      const std::span<const LayoutId> rows = layouts_of(first);
      const std::span<const LayoutId> columns = layouts_of(second);
      ProblemTable table{.rows = static_cast<int>(rows.size()),
                         .columns = static_cast<int>(columns.size()),
                         .costs = {}};
      for (const LayoutId row : rows) {
        for (const LayoutId column : columns) {
          table.costs.push_back(row == column ? 0.0 : kForbidden);
        }
      }
      problem_.edges.push_back(
          {static_cast<int>(first), static_cast<int>(second), store_.add(std::move(table))});
    }
  }

  // -- Repeated layers ------------------------------------------------------------------------

  // A node that is tied shares the variables of its root, which also say what strategies their
  // producers have: a producer that is in no region has that of the root's producer.
  void add_ties() {
    const std::vector<std::uint32_t> roots = repeated_regions(program_, strategies_);
    for (std::uint32_t n = 0; n < roots.size(); ++n) {
      if (roots[n] == n) continue;
      tie(n, roots[n]);
      problem_.ties.emplace_back(n, roots[n]);
      const std::vector<ValueRef> own = values_read(program_.nodes[n]);
      const std::vector<ValueRef> others = values_read(program_.nodes[roots[n]]);
      for (std::size_t argument = 0; argument < own.size(); ++argument) {
        const auto producer = static_cast<std::uint32_t>(own[argument].node);
        if (roots[producer] != producer || producer == others[argument].node) continue;
        tie(producer, static_cast<std::uint32_t>(others[argument].node));
      }
    }
  }

  // Gives two nodes with equal lists of strategies the same strategy.
  void tie(std::uint32_t node, std::uint32_t to) {
    const auto values = static_cast<int>(strategies_.of(node).strategies);
    ProblemTable table{.rows = values, .columns = values, .costs = {}};
    for (int row = 0; row < values; ++row) {
      for (int column = 0; column < values; ++column) {
        table.costs.push_back(row == column ? 0.0 : kForbidden);
      }
    }
    problem_.edges.push_back(
        {static_cast<int>(to), static_cast<int>(node), store_.add(std::move(table))});
  }

  // -- Pins -----------------------------------------------------------------------------------

  [[nodiscard]] std::vector<std::string_view> texts_of(std::span<const LayoutId> layouts) const {
    std::vector<std::string_view> texts;
    for (const LayoutId id : layouts) {
      const std::string_view text = strategies_.layouts.text(id);
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    return texts;
  }

  [[nodiscard]] std::string too_few_for(
      std::size_t node, std::span<const std::optional<Placement>> placements) const {
    if (program_.nodes[node].outputs.empty()) return "";
    return too_few_elements(meta_of(node), placements, mesh_);
  }

  // What would let a node be placed so: "; a batch of at least 64 can be placed so: `shardlab
  // program llama3-8b --batch 64 --out FILE`". "" if no dim has too few elements.
  [[nodiscard]] std::string way_out(std::size_t node,
                                    std::span<const std::optional<Placement>> placements) const {
    const TensorMeta& meta = meta_of(node);
    for (int dim = 0; dim < meta.ndim(); ++dim) {
      std::int64_t shards = 1;
      for (std::size_t m = 0; m < placements.size(); ++m) {
        if (!placements[m] || !placements[m]->is_shard_like() || placements[m]->dim() != dim)
          continue;
        shards = saturating_product(shards, mesh_.size(static_cast<int>(m)));
      }
      if (meta.shape[to_index(dim)] >= shards) continue;
      const NodeKind kind = program_.nodes[node].kind;
      if (dim > 0 || (kind != NodeKind::kInput && kind != NodeKind::kTangent)) {
        return "; a mesh of fewer ranks, or a program whose tensor is at least " +
               std::to_string(shards) + " long in dim " + std::to_string(dim) +
               ", can be placed so";
      }
      const std::string batch = std::to_string(shards);
      const bool is_built_in = find_built_in_program(program_.name) != nullptr;
      return "; a batch of at least " + batch + ", or a mesh of fewer ranks, can be placed so" +
             (is_built_in ? ": `shardlab program " + program_.name + " --batch " + batch +
                                " --out FILE` writes one"
                          : std::string());
    }
    return "";
  }

  void pin(std::size_t node, const Placements& layout, std::string_view option) {
    const std::span<const LayoutId> layouts = layouts_of(node);
    std::vector<double>& costs = problem_.costs[node];
    bool found = false;
    for (std::size_t strategy = 0; strategy < layouts.size(); ++strategy) {
      const bool fits = strategies_.layouts[layouts[strategy]] == layout;
      found = found || fits;
      if (!fits) costs[strategy] = kForbidden;
    }
    if (!found) {
      throw InputError(std::string(option) + " " + program_.nodes[node].name + ": found " +
                       strategies_.layouts.text_of(layout) + too_few_for(node, given(layout)) +
                       "; valid: " + join(texts_of(layouts)) + way_out(node, given(layout)));
    }
    problem_.forbidden_by[node].push_back(
        (option == "pin" ? "pin" : "pin of all " + std::string(option) + "s") + " to " +
        strategies_.layouts.text_of(layout));
    if (program_.nodes[node].kind == NodeKind::kParameter) pinned_.push_back(node);
  }

  // For each node and strategy, whether the chains along which nothing may be communicated leave it
  // possible. A chain has no branches, so that one pass backward and one forward find that out.
  void find_supported() {
    supported_.clear();
    for (const std::vector<double>& costs : problem_.costs) {
      supported_.emplace_back(costs.size(), true);
    }
    std::ranges::sort(silent_edges_, {}, [&](std::size_t e) { return problem_.edges[e].first; });
    for (auto e = silent_edges_.rbegin(); e != silent_edges_.rend(); ++e) {
      restrict_columns(problem_.edges[*e]);
    }
    for (const std::size_t e : silent_edges_) restrict_rows(problem_.edges[e]);
  }

  // Keeps those values of the producer from which some value of the reader can be reached.
  void restrict_columns(const ProblemEdge& edge) {
    const ProblemTable& table = problem_.tables[to_index(edge.table)];
    const std::vector<bool>& rows = supported_[to_index(edge.first)];
    std::vector<bool> found(to_index(table.columns), false);
    for (std::size_t place = 0; place < table.costs.size(); ++place) {
      if (rows[place / found.size()] && table.costs[place] < kForbidden) {
        found[place % found.size()] = true;
      }
    }
    std::vector<bool>& columns = supported_[to_index(edge.second)];
    for (std::size_t column = 0; column < found.size(); ++column) {
      columns[column] = columns[column] && found[column];
    }
  }

  // Keeps those values of the reader that can be reached from some value of the producer.
  void restrict_rows(const ProblemEdge& edge) {
    const ProblemTable& table = problem_.tables[to_index(edge.table)];
    const std::vector<bool>& columns = supported_[to_index(edge.second)];
    std::vector<bool> found(to_index(table.rows), false);
    for (std::size_t place = 0; place < table.costs.size(); ++place) {
      if (columns[place % columns.size()] && table.costs[place] < kForbidden) {
        found[place / columns.size()] = true;
      }
    }
    std::vector<bool>& rows = supported_[to_index(edge.first)];
    for (std::size_t row = 0; row < found.size(); ++row) rows[row] = rows[row] && found[row];
  }

  // Whether the node, and each node that a pair ties to it, can have such a layout.
  [[nodiscard]] bool is_possible(std::size_t node,
                                 std::span<const std::optional<Placement>> placements) const {
    const auto fits = [&](LayoutId id) {
      const Placements& layout = strategies_.layouts[id];
      for (std::size_t m = 0; m < layout.size(); ++m) {
        if (placements[m] && *placements[m] != layout[m]) return false;
      }
      return true;
    };
    const auto has = [&](std::size_t other, LayoutId id) {
      const std::span<const LayoutId> layouts = layouts_of(other);
      for (std::size_t i = 0; i < layouts.size(); ++i) {
        if (layouts[i] == id && supported_[other][i]) return true;
      }
      return false;
    };
    const auto [begin, end] = partners_.equal_range(node);
    const std::span<const LayoutId> layouts = layouts_of(node);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if (!supported_[node][i] || !fits(layouts[i])) continue;
      const LayoutId id = layouts[i];
      if (std::all_of(begin, end, [&](const auto& each) { return has(each.second, id); })) {
        return true;
      }
    }
    return false;
  }

  // The placements of a mask, without those that are set only where possible and are not.
  [[nodiscard]] std::vector<std::optional<Placement>> possible_placements(const LayoutMask& mask) {
    std::vector<std::optional<Placement>> placements = mask.placements;
    if (mask.where_possible.empty()) return placements;
    for (std::size_t m = 0; m < placements.size(); ++m) {
      if (mask.where_possible[m]) placements[m] = std::nullopt;
    }
    for (std::size_t m = 0; m < placements.size(); ++m) {
      if (!mask.where_possible[m] || !mask.placements[m]) continue;
      placements[m] = mask.placements[m];
      if (!is_possible(mask.node, placements)) placements[m] = std::nullopt;
    }
    return placements;
  }

  void apply(const LayoutMask& mask, std::span<const std::optional<Placement>> placements) {
    if (std::ranges::none_of(placements, [](const auto& each) { return each.has_value(); })) return;
    const std::span<const LayoutId> layouts = layouts_of(mask.node);
    std::vector<double>& costs = problem_.costs[mask.node];
    bool found = false;
    for (std::size_t strategy = 0; strategy < layouts.size(); ++strategy) {
      const Placements& layout = strategies_.layouts[layouts[strategy]];
      bool fits = true;
      for (std::size_t m = 0; m < layout.size(); ++m) {
        fits = fits && (!placements[m] || *placements[m] == layout[m]);
      }
      found = found || fits;
      if (!fits) costs[strategy] = kForbidden;
    }
    if (!found) throw InputError(mask.by + ": " + refusal(mask, placements));
    problem_.forbidden_by[mask.node].push_back(mask.by);
    const bool is_whole =
        std::ranges::all_of(placements, [](const auto& each) { return each.has_value(); });
    if (is_whole && program_.nodes[mask.node].kind == NodeKind::kParameter) {
      pinned_.push_back(mask.node);
    }
  }

  // "w (f32[2,256]): found S(0)*, where dim 0 has ...; valid: RR, RS(1)".
  [[nodiscard]] std::string refusal(const LayoutMask& mask,
                                    std::span<const std::optional<Placement>> placements) const {
    const ProgramNode& node = program_.nodes[mask.node];
    std::string text;
    for (const std::optional<Placement>& placement : placements) {
      text += placement ? placement->text() : "*";
    }
    return node.name + " (" + (node.label.empty() ? "" : node.label + " ") +
           meta_of(mask.node).text() + "): found " + text + too_few_for(mask.node, placements) +
           "; valid: " + join(texts_of(layouts_of(mask.node))) + way_out(mask.node, placements);
  }

  // A rule and a mesh dim for which it places nodes.
  struct RuleUse {
    const LayoutMask* first = nullptr;
    std::size_t nodes = 0;
    bool is_followed = false;
  };

  void add_masks() {
    for (const auto& [first, second] : program_.pairs) {
      partners_.emplace(first, second);
      partners_.emplace(second, first);
    }
    const bool asks = std::ranges::any_of(options_.masks, [](const LayoutMask& mask) {
      return std::ranges::find(mask.where_possible, true) != mask.where_possible.end();
    });
    if (asks) find_supported();
    std::map<std::tuple<std::string, std::string, std::size_t>, RuleUse> uses;
    for (const LayoutMask& mask : options_.masks) {
      const std::vector<std::optional<Placement>> placements = possible_placements(mask);
      apply(mask, placements);
      for (std::size_t m = 0; m < mask.rules.size(); ++m) {
        if (mask.rules[m].empty() || !mask.placements[m]) continue;
        RuleUse& use = uses[{mask.by, mask.rules[m], m}];
        if (use.first == nullptr) use.first = &mask;
        ++use.nodes;
        use.is_followed = use.is_followed || placements[m].has_value();
      }
    }
    for (const auto& [key, use] : uses) {
      if (use.is_followed) continue;
      const auto& [by, rule, m] = key;
      std::vector<std::optional<Placement>> asked(use.first->placements.size());
      asked[m] = use.first->placements[m];
      throw InputError(by + ": " + rule + ": " +
                       (use.nodes == 1
                            ? "its only node can't"
                            : "none of its " + std::to_string(use.nodes) + " nodes can") +
                       " be placed so on mesh dim " + std::to_string(m) +
                       (use.nodes == 1 ? ": " : "; the first is ") + refusal(*use.first, asked));
    }
  }

  void add_pins() {
    add_masks();
    std::vector<std::pair<std::size_t, const NodePin*>> before;
    for (const NodePin& own : options_.pins) {
      const std::optional<std::size_t> node = find_by_name_or_label(program_, own.node);
      if (!node) {
        throw InputError("pin: the program has no node \"" + own.node + "\"" +
                         did_you_mean(own.node, names_and_labels(program_)));
      }
      for (const auto& [other, first] : before) {
        if (other != *node || first->layout == own.layout) continue;
        throw InputError("pin " + own.node + ": found " + Layout(own.layout).text() +
                         ", which contradicts the pin " + first->node + "=" +
                         Layout(first->layout).text() + "; valid: one layout for each node");
      }
      before.emplace_back(*node, &own);
      pin(*node, own.layout, "pin");
    }
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const NodeKind kind = program_.nodes[n].kind;
      if (kind == NodeKind::kInput && options_.pin_inputs) pin(n, *options_.pin_inputs, "input");
      if (kind == NodeKind::kOutput && options_.pin_outputs) {
        pin(n, *options_.pin_outputs, "output");
      }
    }
  }

  // -- Budgets --------------------------------------------------------------------------------

  void add_parameter_budget(double fraction) {
    ProblemBudget budget = fraction_weights(program_, mesh_, strategies_, pinned_);
    const auto [limit, least] = fraction_limit(budget, fraction);
    budget.limit = limit;
    if (budget.limit > least) {
      problem_.budgets.push_back(std::move(budget));
      return;
    }
    // Only values that keep each parameter at its least fraction are left.
    for (const ProblemBudget::Weights& weights : budget.weights) {
      const std::int64_t best = *std::min_element(weights.of_value.begin(), weights.of_value.end());
      std::vector<double>& costs = problem_.costs[to_index(weights.variable)];
      for (std::size_t v = 0; v < costs.size(); ++v) {
        if (weights.of_value[v] > best) costs[v] = kForbidden;
      }
      problem_.forbidden_by[to_index(weights.variable)].emplace_back("parameter budget");
    }
  }

  void add_memory_budget(double bytes) {
    ProblemBudget budget = memory_weights(program_, mesh_, strategies_);
    budget.limit = static_cast<std::int64_t>(std::floor(bytes));
    problem_.budgets.push_back(std::move(budget));
  }

  const Program& program_;
  const DeviceMesh& mesh_;
  const ProgramStrategies& strategies_;
  const ProgramPrices& prices_;
  const ProblemOptions& options_;
  ShardingProblem problem_;
  TableStore store_;
  std::vector<std::size_t> pinned_;
  std::vector<std::size_t> silent_edges_;             // along which nothing may be communicated
  std::vector<std::vector<bool>> supported_;          // by node and strategy
  std::multimap<std::size_t, std::size_t> partners_;  // the nodes that pairs tie to a node
};

}  // namespace

double ProblemBudget::amount(std::span<const int> assignment) const {
  double sum = 0.0;
  for (const Weights& own : weights) {
    const int value = assignment[to_index(own.variable)];
    sum += static_cast<double>(own.of_value[to_index(value)]);
  }
  return sum * unit;
}

Breakdown ShardingProblem::breakdown(const ProgramStrategies& strategies,
                                     const ProgramPrices& prices,
                                     std::span<const int> assignment) const {
  SHARDLAB_CHECK(assignment.size() == names.size(), assignment.size(), " values for ", names.size(),
                 " nodes");
  const auto value = [&](std::uint32_t node) { return static_cast<std::size_t>(assignment[node]); };
  Breakdown parts;
  for (std::uint32_t n = 0; n < assignment.size(); ++n) {
    parts.compute_us += runs[n] * prices.compute_us(strategies.class_of[n])[value(n)];
  }
  for (const PricedEdge& edge : priced) {
    const PriceTable& table = prices.table(edge.table);
    parts.communication_us +=
        runs[edge.reader] * table.at(value(edge.reader), value(edge.producer));
    const NodeClass& reader = strategies.of(edge.reader);
    const LayoutId wanted =
        strategies.layout(reader, value(edge.reader), reader.outputs + edge.argument);
    const LayoutId made =
        strategies.layout(strategies.of(edge.producer), value(edge.producer), edge.output);
    if (wanted != made) parts.transition_us += runs[edge.reader] * prices.transition_us();
  }
  return parts;
}

std::string too_few_elements(const TensorMeta& meta,
                             std::span<const std::optional<Placement>> placements,
                             const DeviceMesh& mesh) {
  for (int dim = 0; dim < meta.ndim(); ++dim) {
    std::int64_t shards = 1;
    std::vector<std::string> extents;
    for (std::size_t m = 0; m < placements.size(); ++m) {
      if (!placements[m] || !placements[m]->is_shard_like() || placements[m]->dim() != dim)
        continue;
      const std::int64_t extent = mesh.size(static_cast<int>(m));
      shards = saturating_product(shards, extent);
      extents.push_back(std::to_string(extent));
    }
    const std::int64_t elements = meta.shape[to_index(dim)];
    if (elements >= shards) continue;
    return ", where dim " + std::to_string(dim) + " has " + std::to_string(elements) +
           (elements == 1 ? " element" : " elements") + ", too few for " + join(extents, " x ") +
           " shards";
  }
  return "";
}

ShardingProblem make_problem(const Program& program, const DeviceMesh& mesh,
                             const ProgramStrategies& strategies, const ProgramPrices& prices,
                             const ProblemOptions& options) {
  return ProblemMaker(program, mesh, strategies, prices, options).run();
}

ShardingProblem make_values(const Program& program, const DeviceMesh& mesh,
                            const ProgramStrategies& strategies, const ProgramPrices& prices,
                            const ProblemOptions& options) {
  return ProblemMaker(program, mesh, strategies, prices, options).run_on_values();
}

}  // namespace shardlab
