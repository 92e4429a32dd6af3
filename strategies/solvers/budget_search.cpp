// Walks the hull for each budget, then eliminates with lists of (cost, weights).
#include "strategies/solvers/budget_search.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/solvers/list_elimination.h"

namespace shardlab {
namespace {

using Weights = BudgetAlgebra::Weights;

// The most items that all lists may hold together. Status: assumed; 4e6 items take some 200 MiB.
constexpr std::size_t kMostItems = 4'000'000;
constexpr int kMostCorners = 60;

class BudgetSearch {
 public:
  BudgetSearch(const CostNetwork& network, const CutNetwork& cut, std::vector<double> messages,
               const Patience& patience)
      : network_(network),
        cut_(cut),
        patience_(patience),
        messages_(std::move(messages)),
        weights_(cut.values()),
        multipliers_(network.budgets().size(), 0.0) {
    for (std::size_t b = 0; b < network.budgets().size(); ++b) {
      for (const Budget::Weights& weights : network.budgets()[b].weights) {
        const std::span<const int> values = cut.values(weights.variable);
        for (std::size_t i = 0; i < values.size(); ++i) {
          weights_[cut.first(weights.variable) + i][b] = weights.of_value[to_index(values[i])];
        }
      }
    }
  }

  BudgetResult run() {
    BudgetResult result;
    const std::size_t budgets = multipliers_.size();
    // With several budgets, the charge for one changes what the others need.
    for (int round = 0; round < (budgets == 1 ? 1 : 3); ++round) {
      for (std::size_t b = 0; b < budgets; ++b) {
        if (!walk(b)) return result;
      }
    }
    finish(result);
    result.sweeps = sweeps_;
    return result;
  }

 private:
  struct Corner {
    double weight = 0.0;
    double cost = 0.0;  // including the charges for the other budgets
  };

  [[nodiscard]] std::int64_t weight(std::size_t budget, const std::vector<int>& positions) const {
    std::int64_t sum = 0;
    for (int v = 0; v < cut_.nodes(); ++v) {
      sum += weights_[cut_.first(v) + to_index(positions[to_index(v)])][budget];
    }
    return sum;
  }
  [[nodiscard]] std::vector<double> charges(const std::vector<double>& multipliers) const {
    std::vector<double> extra(cut_.values(), 0.0);
    for (std::size_t i = 0; i < extra.size(); ++i) {
      for (std::size_t b = 0; b < multipliers.size(); ++b) {
        extra[i] += multipliers[b] * static_cast<double>(weights_[i][b]);
      }
    }
    return extra;
  }

  void offer(const std::vector<int>& positions) {
    for (std::size_t b = 0; b < multipliers_.size(); ++b) {
      if (weight(b, positions) > network_.budgets()[b].limit) return;
    }
    const double cost = cut_.cost(positions);
    if (!(cost < upper_)) return;
    upper_ = cost;
    best_ = positions;
  }

  std::vector<int> solve(const std::vector<double>& multipliers) {
    BoundSearch search(cut_, charges(multipliers));
    Patience patience = patience_;
    patience.gap = 0.0;
    search.run(messages_, patience);
    sweeps_ += search.sweeps();
    messages_ = search.messages();
    tolerance_ = search.tolerance();
    if (search.is_feasible()) offer(search.best());
    return search.best();
  }

  // Whether the search ends with the best assignment so far.
  [[nodiscard]] bool is_time_up() const {
    return patience_.takes_gap && upper_ < kForbidden && patience_.seconds_left() <= 0.0;
  }

  // Finds the lightest assignment by one budget's weights. Returns false if it is too heavy or if
  // there is no assignment.
  bool reach(std::size_t budget) {
    CostNetwork light;
    for (const std::vector<std::string>& domain : network_.domains()) light.add_domain(domain);
    for (int v = 0; v < network_.variables(); ++v) {
      std::vector<double> costs(to_index(network_.values(v)), kForbidden);
      const std::span<const int> values = cut_.values(v);
      for (std::size_t i = 0; i < values.size(); ++i) {
        costs[to_index(values[i])] = static_cast<double>(weights_[cut_.first(v) + i][budget]);
      }
      light.add_variable(network_.name(v), network_.domain(v), costs);
    }
    for (const CostTable& table : network_.tables()) {
      std::vector<double> costs = table.costs;
      for (double& cost : costs) cost = cost < kForbidden ? 0.0 : kForbidden;
      light.add_table(table.rows, table.columns, std::move(costs));
    }
    for (const CostEdge& edge : network_.edges()) {
      light.add_edge(edge.first, edge.second, edge.table);
    }
    const CutNetwork cut(light, {});
    BoundSearch search(cut, {});
    search.run();
    if (!search.is_feasible()) return false;
    offer(search.best());
    lightest_ = search.best();  // both networks keep the same values, since only infinities decide
    return weight(budget, search.best()) <= network_.budgets()[budget].limit;
  }

  // Finds the charge for one budget. Returns false if no assignment keeps to the budget.
  bool walk(std::size_t budget) {
    std::vector<double> others = multipliers_;
    others[budget] = 0.0;
    const std::vector<double> extra = charges(others);
    const auto corner = [&](const std::vector<int>& positions) {
      return Corner{static_cast<double>(weight(budget, positions)), cut_.cost(positions, extra)};
    };
    const auto limit = static_cast<double>(network_.budgets()[budget].limit);
    const std::vector<int> free = solve(others);
    if (free.empty() && cut_.nodes() > 0) return false;
    Corner heavy = corner(free);
    if (heavy.weight <= limit) {
      multipliers_ = others;
      return true;
    }
    // Raises the charge until an assignment keeps to the limit.
    Corner light = heavy;
    double steep = std::max(std::abs(heavy.cost), 1.0) / heavy.weight;
    constexpr int kDoublings = 8;
    for (int i = 0; i < kDoublings && light.weight > limit; ++i, steep *= 16.0) {
      std::vector<double> tried = others;
      tried[budget] = steep;
      light = corner(solve(tried));
      if (light.weight > limit) heavy = light;
    }
    if (light.weight > limit) {
      if (!reach(budget)) return false;
      light = corner(lightest_);
    }
    double charge = 0.0;
    for (int i = 0; i < kMostCorners; ++i) {
      charge = std::max(0.0, (light.cost - heavy.cost) / (heavy.weight - light.weight));
      std::vector<double> tried = others;
      tried[budget] = charge;
      if (is_time_up()) break;
      const Corner next = corner(solve(tried));
      const double line = heavy.cost + charge * heavy.weight;
      if (next.cost + charge * next.weight >= line - tolerance_) break;
      (next.weight > limit ? heavy : light) = next;
    }
    multipliers_ = others;
    multipliers_[budget] = charge;
    return true;
  }

  // Goes through everything that may cost less than the best known assignment, weights included.
  void finish(BudgetResult& result) {
    const std::vector<double> extra = charges(multipliers_);
    DualAscent dual(cut_, extra);
    dual.set_messages(messages_);
    double charged = 0.0;
    for (std::size_t b = 0; b < multipliers_.size(); ++b) {
      charged += multipliers_[b] * static_cast<double>(network_.budgets()[b].limit);
    }
    constexpr int kSweeps = 16;
    for (int i = 0; i < kSweeps; ++i) dual.sweep();
    sweeps_ += kSweeps;
    const Reparametrisation costs = dual.reparametrised();
    const double all =
        (costs.excess.empty() ? 0.0 : *std::ranges::max_element(costs.excess)) * 2.0 + 1.0;
    // Small tolerances find good assignments; the last one leaves nothing out.
    double tolerance = 1e-6 * all;
    bool closes = false;
    for (; !closes && !is_time_up(); tolerance *= 4.0) {
      const double gap = upper_ + charged - costs.bound + tolerance_;
      closes = tolerance >= gap || tolerance >= all;
      try {
        eliminate(costs,
                  tolerance >= gap   ? gap
                  : tolerance >= all ? kForbidden
                                     : tolerance,
                  charged);
      } catch (const LimitError&) {
        if (!patience_.takes_gap || upper_ == kForbidden) throw;
        closes = false;
        break;
      }
    }
    if (upper_ == kForbidden) return;
    result.feasible = true;
    result.best = best_;
    result.multipliers = multipliers_;
    BoundProof::Stage stage;
    for (int v = 0; v < cut_.nodes(); ++v) {
      stage.values.emplace_back(cut_.values(v).begin(), cut_.values(v).end());
    }
    stage.messages = costs.messages;
    result.proof.stages.push_back(std::move(stage));
    result.proof.threshold = upper_ + charged + tolerance_;
    result.proof.eliminates = closes;
  }

  void eliminate(const Reparametrisation& costs, double tolerance, double charged) {
    Restricted part(cut_, costs, tolerance);
    if (part.empty()) return;
    const BucketTree tree(part.network());
    const bool may_end = patience_.takes_gap && upper_ < kForbidden;
    if (tree.work() > BoundSearch::kMostWork || (may_end && tree.work() > patience_.work_left())) {
      throw LimitError("the network is too entangled to be solved within its budgets");
    }
    part.fill(cut_, costs);
    BudgetAlgebra algebra;
    algebra.budgets = multipliers_.size();
    // Assignments matter only if they cost less than the best known one, its charges included.
    algebra.limit = std::min(tolerance, upper_ + charged - costs.bound + tolerance_) - part.base();
    for (std::size_t b = 0; b < multipliers_.size(); ++b) {
      algebra.room[b] = network_.budgets()[b].limit;
      algebra.multipliers[b] = multipliers_[b];
    }
    for (int v = 0; v < cut_.nodes(); ++v) {
      const std::vector<int>& kept = part.kept()[to_index(v)];
      if (kept.size() == 1) {
        for (std::size_t b = 0; b < multipliers_.size(); ++b) {
          algebra.room[b] -= weights_[cut_.first(v) + to_index(kept[0])][b];
        }
        continue;
      }
      for (const int x : kept) algebra.weights.push_back(weights_[cut_.first(v) + to_index(x)]);
    }
    if (!BudgetAlgebra::fits(Weights{}, algebra.room)) return;
    std::vector<BudgetAlgebra::Origin> origins;
    algebra.origins = &origins;
    const ListElimination<BudgetAlgebra> lists(part.network(), tree, algebra, kMostItems,
                                               [&] { return is_time_up(); });
    const BudgetAlgebra::Item* best = nullptr;
    for (const BudgetAlgebra::Item& item : lists.items()) {
      if (best == nullptr || algebra.true_cost(item) < algebra.true_cost(*best)) best = &item;
    }
    if (best == nullptr) return;
    offer(part.positions(values_of(part.network(), origins, best->origin)));
  }

  static std::vector<int> values_of(const SmallNetwork& network,
                                    const std::vector<BudgetAlgebra::Origin>& origins, int root) {
    std::vector<int> values(to_index(network.nodes()), 0);
    std::vector<int> open = {root};
    while (!open.empty()) {
      const int i = open.back();
      open.pop_back();
      if (i < 0) continue;
      const BudgetAlgebra::Origin& origin = origins[to_index(i)];
      if (origin.is_value) {
        const auto node =
            std::ranges::upper_bound(network.first, origin.offset) - network.first.begin() - 1;
        values[to_index(node)] = static_cast<int>(origin.offset - network.first[to_index(node)]);
      } else {
        open.push_back(origin.left);
        open.push_back(origin.right);
      }
    }
    return values;
  }

  const CostNetwork& network_;
  const CutNetwork& cut_;
  Patience patience_;
  std::vector<double> messages_;
  std::vector<Weights> weights_;  // by offset of a value in the cut network's costs
  std::vector<double> multipliers_;
  std::vector<int> lightest_;
  double upper_ = kForbidden;
  double tolerance_ = 0.0;
  std::vector<int> best_;
  int sweeps_ = 0;
};

}  // namespace

BudgetResult search_within_budgets(const CostNetwork& network, const CutNetwork& cut,
                                   std::vector<double> messages, const Patience& patience) {
  return BudgetSearch(network, cut, std::move(messages), patience).run();
}

std::int64_t least_weight(const CostNetwork& network, const Budget& budget,
                          const std::vector<Restriction>& restrictions) {
  const auto is_allowed = [&](int variable, int value) {
    return network.costs(variable)[to_index(value)] < kForbidden &&
           std::ranges::all_of(restrictions, [&](const Restriction& restriction) {
             return restriction.variable != variable ||
                    std::ranges::binary_search(restriction.allowed, value);
           });
  };
  std::int64_t least = 0;
  for (const Budget::Weights& weights : budget.weights) {
    std::optional<std::int64_t> lightest;
    for (int x = 0; x < network.values(weights.variable); ++x) {
      const std::int64_t weight = weights.of_value[to_index(x)];
      if (is_allowed(weights.variable, x)) lightest = std::min(weight, lightest.value_or(weight));
    }
    least += lightest.value_or(0);
  }
  return least;
}

std::optional<int> budget_out_of_reach(const CostNetwork& network,
                                       const std::vector<Restriction>& restrictions) {
  for (std::size_t b = 0; b < network.budgets().size(); ++b) {
    const Budget& budget = network.budgets()[b];
    if (least_weight(network, budget, restrictions) > budget.limit) return static_cast<int>(b);
  }
  return std::nullopt;
}

}  // namespace shardlab
