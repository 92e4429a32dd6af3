// Finds irreducible sets of constraints that are in conflict.
//
// If arc consistency empties a variable, the search begins with a small set: the reasons why the
// variable's values were dropped, and the reasons behind those. Otherwise it begins with all
// constraints. QuickXplain then finds by repeated halving which of them are needed.
//
// Source: Junker, "QuickXplain: preferred explanations and relaxations for over-constrained
// problems", AAAI 2004.
#include <algorithm>
#include <map>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/solvers/budget_search.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

using Parts = std::vector<ConflictPart>;
using Kind = ConflictPart::Kind;

class Conflicts {
 public:
  Conflicts(const CostNetwork& network, const std::vector<Restriction>& restrictions)
      : network_(network), restrictions_(restrictions) {}

  Parts find() {
    Parts parts = wiped_out();
    if (parts.empty()) parts = out_of_reach();
    if (parts.empty()) {
      for (int r = 0; r < static_cast<int>(restrictions_.size()); ++r) {
        parts.push_back({Kind::kRestriction, r});
      }
      for (int b = 0; b < static_cast<int>(network_.budgets().size()); ++b) {
        parts.push_back({Kind::kBudget, b});
      }
      for (int v = 0; v < network_.variables(); ++v) {
        if (std::ranges::find(network_.costs(v), kForbidden) != network_.costs(v).end()) {
          parts.push_back({Kind::kVariable, v});
        }
      }
      for (int e = 0; e < static_cast<int>(network_.edges().size()); ++e) {
        const CostTable& table = network_.tables()[to_index(network_.edges()[to_index(e)].table)];
        if (std::ranges::find(table.costs, kForbidden) != table.costs.end()) {
          parts.push_back({Kind::kEdge, e});
        }
      }
    }
    SHARDLAB_CHECK(!parts.empty() && !holds(parts), "there is no conflict");
    Parts needed = quick_explain({}, parts, false);
    std::ranges::sort(needed, {}, [](const ConflictPart& part) {
      return std::pair(static_cast<int>(part.kind), part.index);
    });
    return needed;
  }

 private:
  // The parts of `open` that cannot hold together with `held`, none of which can be left out.
  // Assumes that all parts of `held` and `open` cannot hold together.
  Parts quick_explain(Parts held, const Parts& open, bool grew) {
    if (grew && !holds(held)) return {};
    if (open.size() == 1) return open;
    const auto middle = open.begin() + static_cast<std::ptrdiff_t>(open.size() / 2);
    const Parts left(open.begin(), middle);
    const Parts right(middle, open.end());
    Parts with_left = held;
    with_left.insert(with_left.end(), left.begin(), left.end());
    const Parts of_right = quick_explain(with_left, right, !left.empty());
    held.insert(held.end(), of_right.begin(), of_right.end());
    Parts of_left = quick_explain(held, left, !of_right.empty());
    of_left.insert(of_left.end(), of_right.begin(), of_right.end());
    return of_left;
  }

  // Whether some assignment keeps to these parts, ignoring all other constraints.
  [[nodiscard]] bool holds(const Parts& parts) const {
    CostNetwork part;
    std::map<int, int> numbers;  // by variable: its number in `part`
    std::vector<Restriction> restrictions;
    for (const std::vector<std::string>& domain : network_.domains()) part.add_domain(domain);
    const auto number = [&](int v) {
      if (!numbers.contains(v)) {
        numbers[v] = part.add_variable(network_.name(v), network_.domain(v));
      }
      return numbers[v];
    };
    std::map<int, int> tables;
    for (const ConflictPart& each : parts) {
      if (each.kind == Kind::kVariable) {
        const int v = number(each.index);
        for (int x = 0; x < network_.values(each.index); ++x) {
          if (network_.costs(each.index)[to_index(x)] == kForbidden)
            part.add_cost(v, x, kForbidden);
        }
      } else if (each.kind == Kind::kRestriction) {
        restrictions.push_back(restrictions_[to_index(each.index)]);
        restrictions.back().variable = number(restrictions.back().variable);
      } else if (each.kind == Kind::kEdge) {
        const CostEdge& edge = network_.edges()[to_index(each.index)];
        if (!tables.contains(edge.table)) {
          const CostTable& table = network_.tables()[to_index(edge.table)];
          std::vector<double> costs = table.costs;
          for (double& cost : costs) cost = cost < kForbidden ? 0.0 : kForbidden;
          tables[edge.table] = part.add_table(table.rows, table.columns, std::move(costs));
        }
        const int first = number(edge.first);
        part.add_edge(first, number(edge.second), tables[edge.table]);
      } else {
        Budget budget = network_.budgets()[to_index(each.index)];
        for (Budget::Weights& weights : budget.weights) weights.variable = number(weights.variable);
        part.add_budget(std::move(budget));
      }
    }
    if (part.variables() == 0) return true;
    return ExactSolver(part)
        .solve({.restrictions = restrictions,
                .jobs = 1,
                .margins = false,
                .best = 1,
                .explain = false})
        .feasible;
  }

  // A budget that even the lightest allowed values exceed, and the constraints that exclude lighter
  // values.
  [[nodiscard]] Parts out_of_reach() const {
    const std::optional<int> budget = budget_out_of_reach(network_, restrictions_);
    if (!budget) return {};
    Parts parts = {{Kind::kBudget, *budget}};
    for (const Budget::Weights& weights : network_.budgets()[to_index(*budget)].weights) {
      const auto costs = network_.costs(weights.variable);
      if (std::ranges::find(costs, kForbidden) != costs.end()) {
        parts.push_back({Kind::kVariable, weights.variable});
      }
      for (int r = 0; r < static_cast<int>(restrictions_.size()); ++r) {
        if (restrictions_[to_index(r)].variable == weights.variable) {
          parts.push_back({Kind::kRestriction, r});
        }
      }
    }
    return parts;
  }

  // Why a value was dropped: by its variable's own costs, by a restriction, or by an edge.
  struct Reason {
    ConflictPart part;
    bool gone = false;
    int order = 0;  // values that were dropped earlier have lower numbers
  };

  // Runs arc consistency until a variable has no value left, and returns the variables,
  // restrictions and edges that together exclude its values; returns nothing if every variable
  // keeps a value.
  Parts wiped_out() {
    std::vector<std::vector<Reason>> values;
    int order = 0;
    for (int v = 0; v < network_.variables(); ++v) {
      values.emplace_back(to_index(network_.values(v)));
      for (int x = 0; x < network_.values(v); ++x) {
        if (network_.costs(v)[to_index(x)] == kForbidden) {
          values[to_index(v)][to_index(x)] = {{Kind::kVariable, v}, true, order++};
        }
      }
    }
    for (std::size_t r = 0; r < restrictions_.size(); ++r) {
      const Restriction& restriction = restrictions_[r];
      for (int x = 0; x < network_.values(restriction.variable); ++x) {
        Reason& reason = values[to_index(restriction.variable)][to_index(x)];
        if (!reason.gone && !std::ranges::binary_search(restriction.allowed, x)) {
          reason = {{Kind::kRestriction, static_cast<int>(r)}, true, order++};
        }
      }
    }
    const auto empty = [&](int v) {
      return std::ranges::all_of(values[to_index(v)],
                                 [](const Reason& reason) { return reason.gone; });
    };
    for (int v = 0; v < network_.variables(); ++v) {
      if (empty(v)) return reasons_of(v, values);
    }
    for (bool again = true; again;) {
      again = false;
      for (int e = 0; e < static_cast<int>(network_.edges().size()); ++e) {
        const CostEdge& edge = network_.edges()[to_index(e)];
        const CostTable& table = network_.tables()[to_index(edge.table)];
        for (const bool of_first : {true, false}) {
          const int own = of_first ? edge.first : edge.second;
          const int other = of_first ? edge.second : edge.first;
          bool any = false;
          for (int x = 0; x < network_.values(own); ++x) {
            if (values[to_index(own)][to_index(x)].gone) continue;
            bool partner = false;
            for (int y = 0; y < network_.values(other) && !partner; ++y) {
              partner = !values[to_index(other)][to_index(y)].gone &&
                        (of_first ? table.at(x, y) : table.at(y, x)) < kForbidden;
            }
            if (partner) continue;
            values[to_index(own)][to_index(x)] = {{Kind::kEdge, e}, true, order++};
            any = true;
          }
          again = again || any;
          if (any && empty(own)) return reasons_of(own, values);
        }
      }
    }
    return {};
  }

  [[nodiscard]] Parts reasons_of(int variable,
                                 const std::vector<std::vector<Reason>>& values) const {
    Parts parts;
    std::set<std::pair<int, int>> seen;
    std::vector<std::pair<int, int>> open;
    const auto push = [&](int v, int x) {
      if (seen.emplace(v, x).second) open.emplace_back(v, x);
    };
    for (int x = 0; x < network_.values(variable); ++x) push(variable, x);
    while (!open.empty()) {
      const auto value = open.back();
      open.pop_back();
      const Reason& reason = values[to_index(value.first)][to_index(value.second)];
      if (std::ranges::find(parts, reason.part) == parts.end()) parts.push_back(reason.part);
      if (reason.part.kind != Kind::kEdge) continue;
      const CostEdge& edge = network_.edges()[to_index(reason.part.index)];
      const CostTable& table = network_.tables()[to_index(edge.table)];
      const bool of_first = edge.first == value.first;
      const int other = of_first ? edge.second : edge.first;
      for (int y = 0; y < network_.values(other); ++y) {
        const Reason& partner = values[to_index(other)][to_index(y)];
        const double cost = of_first ? table.at(value.second, y) : table.at(y, value.second);
        if (cost < kForbidden && partner.gone && partner.order < reason.order) push(other, y);
      }
    }
    return parts;
  }

  const CostNetwork& network_;
  const std::vector<Restriction>& restrictions_;
};

}  // namespace

std::vector<ConflictPart> find_conflict(const CostNetwork& network,
                                        const std::vector<Restriction>& restrictions) {
  return Conflicts(network, restrictions).find();
}

std::string describe(const ConflictPart& part, const CostNetwork& network,
                     const std::vector<Restriction>& restrictions) {
  const auto quoted = [&](int v) { return "\"" + network.name(v) + "\""; };
  switch (part.kind) {
    case Kind::kVariable:
      return "forbidden values of " + quoted(part.index);
    case Kind::kEdge: {
      const CostEdge& edge = network.edges()[to_index(part.index)];
      return "forbidden pairs of " + quoted(edge.first) + " and " + quoted(edge.second);
    }
    case Kind::kRestriction: {
      const Restriction& restriction = restrictions[to_index(part.index)];
      std::string values;
      for (const int x : restriction.allowed) {
        values += (values.empty() ? "" : ", ") + network.value_name(restriction.variable, x);
      }
      return "pin of " + quoted(restriction.variable) + " to " +
             (values.empty() ? "nothing" : values);
    }
    case Kind::kBudget:
      break;
  }
  const Budget& budget = network.budgets()[to_index(part.index)];
  const std::int64_t least = least_weight(network, budget, restrictions);
  return "budget \"" + budget.name + "\" of " + std::to_string(budget.limit) +
         (least > budget.limit ? " (the least possible is " + std::to_string(least) + ")" : "");
}

}  // namespace shardlab
