#include "strategies/programs/sharding_problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/programs/dtype_chains.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/repeated_regions.h"

namespace shardlab {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

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
        store_(problem_) {}

  ShardingProblem run() {
    add_variables();
    add_edges();
    add_pairs();
    if (options_.tie_repeated) add_ties();
    add_pins();
    if (options_.parameter_budget) add_parameter_budget(*options_.parameter_budget);
    if (options_.memory_budget_bytes) add_memory_budget(*options_.memory_budget_bytes);
    return std::move(problem_);
  }

 private:
  [[nodiscard]] std::span<const LayoutId> layouts_of(std::size_t node) const {
    return strategies_.layouts.list_at(strategies_.of(node).tensors[0]);
  }
  [[nodiscard]] const TensorMeta& meta_of(std::size_t node) const {
    return program_.nodes[node].outputs[0];
  }

  void add_variables() {
    for (const NodeClass& node : strategies_.classes) {
      std::vector<std::string>& domain = problem_.domains.emplace_back();
      domain.reserve(node.strategies);
      for (std::size_t strategy = 0; strategy < node.strategies; ++strategy) {
        domain.push_back(strategies_.strategy_text(node, strategy));
      }
    }
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const std::uint32_t of_class = strategies_.class_of[n];
      const std::span<const double> compute = prices_.compute_us(of_class);
      problem_.names.push_back(program_.nodes[n].name);
      problem_.domain_of.push_back(static_cast<int>(of_class));
      problem_.costs.emplace_back(compute.begin(), compute.end());
    }
    problem_.forbidden_by.resize(problem_.names.size());
  }

  // -- Edges ----------------------------------------------------------------------------------

  [[nodiscard]] ProblemTable edge_table(const PriceTable& prices, bool communicates) const {
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
        table.costs.push_back(cost);
      }
    }
    return table;
  }

  void add_edges() {
    const std::vector<bool> silent = silent_nodes(
        program_,
        {.forward = options_.forward_dtype_rule, .gradient = options_.gradient_dtype_rule});
    std::vector<std::array<int, 2>> ids(prices_.tables().size(), {-1, -1});
    problem_.priced = prices_.edges();
    for (const PricedEdge& edge : prices_.edges()) {
      const bool communicates = !silent[edge.reader];
      int& id = ids[edge.table][communicates ? 0 : 1];
      if (id < 0) {
        id = store_.add(edge_table(prices_.table(edge.table), communicates));
      }
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
                       "; valid: " + join(texts_of(layouts)));
    }
    problem_.forbidden_by[node].push_back(
        (option == "pin" ? "pin" : "pin of all " + std::string(option) + "s") + " to " +
        strategies_.layouts.text_of(layout));
    if (program_.nodes[node].kind == NodeKind::kParameter) pinned_.push_back(node);
  }

  void apply(const LayoutMask& mask) {
    const std::span<const LayoutId> layouts = layouts_of(mask.node);
    std::vector<double>& costs = problem_.costs[mask.node];
    bool found = false;
    for (std::size_t strategy = 0; strategy < layouts.size(); ++strategy) {
      const Placements& layout = strategies_.layouts[layouts[strategy]];
      bool fits = true;
      for (std::size_t m = 0; m < layout.size(); ++m) {
        fits = fits && (!mask.placements[m] || *mask.placements[m] == layout[m]);
      }
      found = found || fits;
      if (!fits) costs[strategy] = kForbidden;
    }
    const ProgramNode& node = program_.nodes[mask.node];
    bool is_whole = true;
    std::string text;
    for (const std::optional<Placement>& placement : mask.placements) {
      text += placement ? placement->text() : "*";
      is_whole = is_whole && placement;
    }
    if (!found) {
      throw InputError(mask.by + ": " + node.name + " (" +
                       (node.label.empty() ? "" : node.label + " ") + meta_of(mask.node).text() +
                       "): found " + text + too_few_for(mask.node, mask.placements) +
                       "; valid: " + join(texts_of(layouts)));
    }
    problem_.forbidden_by[mask.node].push_back(mask.by);
    if (is_whole && node.kind == NodeKind::kParameter) pinned_.push_back(mask.node);
  }

  void add_pins() {
    for (const LayoutMask& mask : options_.masks) apply(mask);
    std::vector<std::pair<std::size_t, const NodePin*>> before;
    for (const NodePin& own : options_.pins) {
      const std::optional<std::size_t> node = find_by_name_or_label(program_, own.node);
      if (!node) {
        std::vector<std::string_view> names(problem_.names.begin(), problem_.names.end());
        throw InputError("pin: the program has no node \"" + own.node + "\"" +
                         did_you_mean(own.node, names));
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
    const auto best_of = [](const ProblemBudget::Weights& weights) {
      return *std::min_element(weights.of_value.begin(), weights.of_value.end());
    };
    double limit = 0.0;
    std::int64_t least = 0;
    for (const ProblemBudget::Weights& weights : budget.weights) {
      const std::int64_t best = best_of(weights);
      least += best;
      limit += std::max(static_cast<double>(best), fraction / budget.unit);
    }
    budget.limit = static_cast<std::int64_t>(std::floor(limit + 1e-6));
    if (budget.limit > least) {
      problem_.budgets.push_back(std::move(budget));
      return;
    }
    // Only values that keep each parameter at its least fraction are left.
    for (const ProblemBudget::Weights& weights : budget.weights) {
      const std::int64_t best = best_of(weights);
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
    parts.compute_us += prices.compute_us(strategies.class_of[n])[value(n)];
  }
  for (const PricedEdge& edge : priced) {
    const PriceTable& table = prices.table(edge.table);
    parts.communication_us += table.at(value(edge.reader), value(edge.producer));
    const NodeClass& reader = strategies.of(edge.reader);
    const LayoutId wanted =
        strategies.layout(reader, value(edge.reader), reader.outputs + edge.argument);
    const LayoutId made =
        strategies.layout(strategies.of(edge.producer), value(edge.producer), edge.output);
    if (wanted != made) parts.transition_us += prices.transition_us();
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

}  // namespace shardlab
