#include "strategies/programs/strategy_bounds.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "costmodel/base/index.h"
#include "strategies/solvers/network.h"

namespace shardlab {

bool StrategyBounds::hold_for(const Redistributor& redistributor,
                              const ProgramStrategies& strategies) {
  const RedistributionOptions& options = redistributor.options();
  const bool merges_in_price =
      options.merge == MergeMode::kPrice && redistributor.mesh().has_flattened();
  if (options.planner != PlannerKind::kGraph || merges_in_price ||
      !redistributor.pricer().semantics().follows_plan() ||
      !LayoutSpread::bounds_prices(redistributor.pricer())) {
    return false;
  }
  for (LayoutId id = 0; id < strategies.layouts.size(); ++id) {
    const Layout& layout = strategies.layouts.layout(id);
    if (layout.has_strided() && decode_strided_as_order(layout, redistributor.mesh())) return false;
  }
  return true;
}

StrategyBounds::StrategyBounds(const Program& program, const ProgramStrategies& strategies,
                               const ProgramPrices& kernels, const ShardingProblem& values,
                               const DTypeRules& rules, const Redistributor& redistributor)
    : program_(program),
      strategies_(strategies),
      transition_us_(kernels.transition_us()),
      costs_(values.costs),
      earlier_(program.nodes.size()),
      later_(program.nodes.size()) {
  add_spreads(kernels, redistributor);
  const std::vector<bool> silent = silent_nodes(program, rules);
  for (const PricedEdge& edge : kernels.edges()) {
    const PriceTable& table = kernels.table(edge.table);
    add_edge(silent[edge.reader] ? EdgeKind::kMovesForFree : EdgeKind::kMoves,
             spread_of_[edge.table], {edge.producer, table.made}, {edge.reader, table.wanted});
  }
  for (const auto& [a, b] : program.pairs) {
    const auto first = static_cast<std::uint32_t>(std::min(a, b));
    const auto second = static_cast<std::uint32_t>(std::max(a, b));
    add_edge(EdgeKind::kEqual, {}, {first, strategies.of(first).tensors[0]},
             {second, strategies.of(second).tensors[0]});
  }
}

const DistinctLayouts& StrategyBounds::distinct(LayoutListId list) {
  std::unique_ptr<DistinctLayouts>& own = distinct_[list];
  if (!own) {
    own = std::make_unique<DistinctLayouts>(
        distinct_layouts(strategies_.layouts.list_at(list), strategies_.layouts.size()));
  }
  return *own;
}

StrategyBounds::GraphKey StrategyBounds::key_of(std::uint32_t meta, const PriceTable& table) {
  GraphKey key{strategies_.metas[meta].ndim(), {}};
  for (const LayoutListId list : {table.made, table.wanted}) {
    for (const LayoutId id : distinct(list).ids) {
      for (const Placement& p : strategies_.layouts.layout(id).placements) {
        if (p.is_partial() || p.is_strided()) key.second.insert(p);
      }
    }
  }
  return key;
}

void StrategyBounds::add_spreads(const ProgramPrices& kernels, const Redistributor& redistributor) {
  std::vector<std::uint32_t> meta_of(kernels.tables().size());
  for (const PricedEdge& edge : kernels.edges()) {
    meta_of[edge.table] = strategies_.meta(edge.producer, edge.output);
  }
  std::vector<GraphKey> keys;
  std::map<GraphKey, std::set<LayoutId>> layouts_of;
  for (std::size_t t = 0; t < meta_of.size(); ++t) {
    const PriceTable& table = kernels.tables()[t];
    keys.push_back(key_of(meta_of[t], table));
    std::set<LayoutId>& layouts = layouts_of[keys.back()];
    for (const LayoutListId list : {table.made, table.wanted}) {
      layouts.insert(distinct(list).ids.begin(), distinct(list).ids.end());
    }
  }
  for (const auto& [key, ids] : layouts_of) {
    std::vector<Layout> layouts;
    for (const LayoutId id : ids) layouts.push_back(strategies_.layouts.layout(id));
    graphs_[key] = std::make_unique<LayoutGraph>(redistributor.mesh().ndim(), key.first, layouts);
  }
  std::map<std::pair<std::uint32_t, const LayoutGraph*>, LayoutSpread*> known;
  for (std::size_t t = 0; t < meta_of.size(); ++t) {
    const LayoutGraph* graph = graphs_[keys[t]].get();
    LayoutSpread*& spread = known[{meta_of[t], graph}];
    if (spread == nullptr) {
      spreads_.push_back(std::make_unique<LayoutSpread>(*graph, redistributor.pricer()));
      spread = spreads_.back().get();
      spread->begin(strategies_.metas[meta_of[t]]);
    }
    spread_of_.push_back({graph, spread});
  }
}

void StrategyBounds::add_edge(EdgeKind kind, const Spread& spread,
                              std::pair<std::uint32_t, LayoutListId> first,
                              std::pair<std::uint32_t, LayoutListId> second) {
  Edge edge{.kind = kind, .spread = nullptr, .states = 0, .first = {}, .second = {}};
  const auto fill = [&](End& end, const std::pair<std::uint32_t, LayoutListId>& from) {
    end.node = from.first;
    end.layouts = &distinct(from.second);
    end.message.assign(end.layouts->ids.size(), 0.0);
    for (const LayoutId id : end.layouts->ids) {
      end.states.push_back(
          kind == EdgeKind::kEqual ? id : spread.graph->state(strategies_.layouts.layout(id)));
    }
  };
  fill(edge.first, first);
  fill(edge.second, second);
  if (kind == EdgeKind::kEqual) {
    edge.states = strategies_.layouts.size();
  } else {
    edge.spread = spread.prices;
    edge.states = spread.graph->size();
  }
  const auto id = static_cast<std::uint32_t>(edges_.size());
  later_[first.first].push_back(id);
  earlier_[second.first].push_back(id);
  edges_.push_back(std::move(edge));
}

// A message is infinite for a layout that no strategy has any more: such a layout is no source.
void StrategyBounds::collect(const Edge& edge, bool to_second, std::vector<double>& least) {
  const End& from = to_second ? edge.first : edge.second;
  work_.assign(edge.states, kForbidden);
  for (std::size_t i = 0; i < from.states.size(); ++i) {
    double& cost = work_[from.states[i]];
    if (std::isfinite(from.message[i])) cost = std::min(cost, -from.message[i]);
  }
  spread(edge, to_second, least);
}

void StrategyBounds::prices_from(const Edge& edge, bool to_second, std::uint32_t layout,
                                 std::vector<double>& prices) {
  work_.assign(edge.states, kForbidden);
  work_[(to_second ? edge.first : edge.second).states[layout]] = 0.0;
  spread(edge, to_second, prices);
}

// Spreads the costs in work_, which are those of one end's layouts, to the other end's.
void StrategyBounds::spread(const Edge& edge, bool to_second, std::vector<double>& least) {
  const End& to = to_second ? edge.second : edge.first;
  least.resize(to.states.size());
  const bool charges = transition_us_ > 0.0 && edge.kind != EdgeKind::kEqual;
  if (charges) {
    for (std::size_t i = 0; i < to.states.size(); ++i) least[i] = work_[to.states[i]];
  }
  if (edge.kind == EdgeKind::kMoves) {
    to_second ? edge.spread->onwards(work_) : edge.spread->backwards(work_);
  } else if (edge.kind == EdgeKind::kMovesForFree) {
    to_second ? edge.spread->onwards_for_free(work_) : edge.spread->backwards_for_free(work_);
  }
  for (std::size_t i = 0; i < to.states.size(); ++i) {
    const double moved = work_[to.states[i]];
    least[i] = charges ? std::min(least[i], moved + transition_us_) : moved;
  }
}

// Strategies that have a layout without a message are forbidden already.
void StrategyBounds::add(const End& end, std::vector<double>& theta) {
  const std::vector<std::uint32_t>& position = end.layouts->position;
  for (std::size_t x = 0; x < theta.size(); ++x) {
    const double message = end.message[position[x]];
    if (message > -kForbidden) theta[x] += message;
  }
}

double StrategyBounds::sweep(bool decodes) {
  double bound = 0.0;
  const std::size_t nodes = program_.nodes.size();
  std::vector<double> theta;
  std::vector<double> least;
  std::vector<double> choice;
  if (decodes) decoded_.assign(nodes, 0);
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::size_t v = forwards_ ? i : nodes - 1 - i;
    const std::vector<std::uint32_t>& behind = forwards_ ? earlier_[v] : later_[v];
    const std::vector<std::uint32_t>& ahead = forwards_ ? later_[v] : earlier_[v];
    theta = costs_[v];
    const auto own = [&](std::uint32_t e, bool is_ahead) -> End& {
      return is_ahead == forwards_ ? edges_[e].first : edges_[e].second;
    };
    for (const std::uint32_t e : ahead) {
      if (fresh_) {
        collect(edges_[e], !forwards_, least);
        own(e, true).message = least;
      }
      add(own(e, true), theta);
    }
    if (decodes) {
      choice = theta;
      for (const std::uint32_t e : behind) {
        const End& other = forwards_ ? edges_[e].first : edges_[e].second;
        prices_from(edges_[e], forwards_, other.layouts->position[decoded_[other.node]], least);
        const std::vector<std::uint32_t>& position = own(e, false).layouts->position;
        for (std::size_t x = 0; x < choice.size(); ++x) choice[x] += least[position[x]];
      }
      const auto best = std::ranges::min_element(choice);
      decoded_[v] = static_cast<std::size_t>(best - choice.begin());
      decodes = *best < kForbidden;
    }
    for (const std::uint32_t e : behind) {
      collect(edges_[e], forwards_, least);
      own(e, false).message = least;
      add(own(e, false), theta);
    }
    double low = kForbidden;
    for (std::size_t x = 0; x < theta.size(); ++x) {
      if (!(theta[x] < kForbidden)) costs_[v][x] = kForbidden;
      low = std::min(low, theta[x]);
    }
    bound += low;
    if (!(low < kForbidden)) return kForbidden;
    if (ahead.empty()) continue;
    const double share = 1.0 / static_cast<double>(std::max(behind.size(), ahead.size()));
    for (const std::uint32_t e : ahead) {
      End& end = own(e, true);
      const std::vector<std::uint32_t>& position = end.layouts->position;
      least.assign(end.message.size(), kForbidden);
      for (std::size_t x = 0; x < theta.size(); ++x) {
        least[position[x]] = std::min(least[position[x]], theta[x]);
      }
      for (std::size_t k = 0; k < least.size(); ++k) {
        end.message[k] =
            least[k] < kForbidden ? end.message[k] - share * (least[k] - low) : -kForbidden;
      }
    }
  }
  if (!decodes) decoded_.clear();
  fresh_ = false;
  forwards_ = !forwards_;
  return bound;
}

double StrategyBounds::layouts_per_sweep() const {
  double layouts = 0.0;
  for (const Edge& edge : edges_) layouts += static_cast<double>(edge.states);
  return layouts;
}

StrategyExcess StrategyBounds::excess() {
  StrategyExcess result{.bound = 0.0, .of = costs_};
  for (const Edge& edge : edges_) {
    add(edge.first, result.of[edge.first.node]);
    add(edge.second, result.of[edge.second.node]);
  }
  for (std::vector<double>& own : result.of) {
    const double low = *std::min_element(own.begin(), own.end());
    result.bound += low;
    if (!(low < kForbidden)) return result;
    for (double& excess : own) excess -= low;
  }
  std::vector<double> least;
  for (const Edge& edge : edges_) {
    double low = kForbidden;
    for (const bool to_second : {false, true}) {
      collect(edge, to_second, least);
      const End& end = to_second ? edge.second : edge.first;
      for (std::size_t k = 0; k < least.size(); ++k) {
        least[k] = std::isfinite(end.message[k]) ? least[k] - end.message[k] : kForbidden;
      }
      if (!to_second) low = *std::min_element(least.begin(), least.end());
      std::vector<double>& own = result.of[end.node];
      for (std::size_t x = 0; x < own.size(); ++x) {
        own[x] += least[end.layouts->position[x]] - low;
      }
    }
    result.bound += low;
    if (!(low < kForbidden)) {
      result.bound = kForbidden;
      return result;
    }
  }
  return result;
}

}  // namespace shardlab
