// Every index and every cost is checked when it is added.
#include "strategies/solvers/network.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {

void CostNetwork::check_cost(double cost, std::string_view where) const {
  if (cost == kForbidden || std::abs(cost) <= kMaxCost) return;
  throw InputError(std::string(where) + ": found the cost " + format_double(cost) +
                   "; valid: from -1e15 to 1e15, or infinity");
}

void CostNetwork::check_variable(int variable) const {
  SHARDLAB_CHECK(variable >= 0 && variable < variables(), "variable ", variable, " of ",
                 variables());
}

int CostNetwork::add_domain(std::vector<std::string> values) {
  if (values.empty() || values.size() > static_cast<std::size_t>(kMaxValues)) {
    throw InputError("found a domain of " + std::to_string(values.size()) +
                     " values; valid: from 1 to 65536");
  }
  domains_.push_back(std::move(values));
  return static_cast<int>(domains_.size()) - 1;
}

int CostNetwork::add_variable(std::string name, int domain, std::span<const double> costs) {
  SHARDLAB_CHECK(domain >= 0 && to_index(domain) < domains_.size(), "domain ", domain);
  const std::size_t count = domains_[to_index(domain)].size();
  if (!costs.empty() && costs.size() != count) {
    throw InputError("variable \"" + name + "\": found " + std::to_string(costs.size()) +
                     " costs; valid: " + std::to_string(count) + ", one for each value");
  }
  for (const double cost : costs) check_cost(cost, name);
  names_.push_back(std::move(name));
  domain_of_.push_back(domain);
  first_cost_.push_back(costs_.size());
  costs_.insert(costs_.end(), costs.begin(), costs.end());
  if (costs.empty()) costs_.resize(costs_.size() + count, 0.0);
  return variables() - 1;
}

int CostNetwork::add_table(int rows, int columns, std::vector<double> costs) {
  SHARDLAB_CHECK(rows > 0 && columns > 0 && costs.size() == to_index(rows) * to_index(columns),
                 "table ", rows, "x", columns, " of ", costs.size());
  for (const double cost : costs) check_cost(cost, "a table");
  tables_.push_back({rows, columns, std::move(costs)});
  return static_cast<int>(tables_.size()) - 1;
}

void CostNetwork::add_edge(int first, int second, int table) {
  check_variable(first);
  check_variable(second);
  SHARDLAB_CHECK(table >= 0 && to_index(table) < tables_.size(), "table ", table);
  const CostTable& costs = tables_[to_index(table)];
  if (first == second)
    throw InputError("variable \"" + name(first) + "\": found an edge from the variable to itself");
  if (costs.rows != values(first) || costs.columns != values(second)) {
    throw InputError("edge of \"" + name(first) + "\" and \"" + name(second) +
                     "\": found a table of " + std::to_string(costs.rows) + " x " +
                     std::to_string(costs.columns) +
                     " costs; valid: " + std::to_string(values(first)) + " x " +
                     std::to_string(values(second)) + ", one for each pair of values");
  }
  edges_.push_back({first, second, table});
}

void CostNetwork::add_constant(double cost) {
  check_cost(cost, "the constant");
  constant_ += cost;
}

void CostNetwork::add_cost(int variable, int value, double cost) {
  check_variable(variable);
  SHARDLAB_CHECK(value >= 0 && value < values(variable), "value ", value, " of ", name(variable));
  check_cost(cost, name(variable));
  costs_[first_cost_[to_index(variable)] + to_index(value)] += cost;
}

void CostNetwork::add_budget(Budget budget) {
  constexpr std::size_t kMostBudgets = 4;
  if (budgets_.size() == kMostBudgets)
    throw InputError("found more than 4 budgets; valid: at most 4");
  std::set<int> seen;
  for (const Budget::Weights& weights : budget.weights) {
    check_variable(weights.variable);
    const std::string where =
        "budget \"" + budget.name + "\", variable \"" + name(weights.variable) + "\": ";
    if (!seen.insert(weights.variable).second)
      throw InputError(where + "found it twice; valid: each variable once");
    if (weights.of_value.size() != to_index(values(weights.variable))) {
      throw InputError(where + "found " + std::to_string(weights.of_value.size()) +
                       " weights; valid: " + std::to_string(values(weights.variable)) +
                       ", one for each value");
    }
    constexpr std::int64_t kMaxWeight = std::int64_t{1}
                                        << 50;  // sums of thousands of such weights fit
    for (const std::int64_t weight : weights.of_value) {
      if (weight >= 0 && weight <= kMaxWeight) continue;
      throw InputError(where + "found the weight " + std::to_string(weight) +
                       "; valid: from 0 to " + std::to_string(kMaxWeight));
    }
  }
  budgets_.push_back(std::move(budget));
}

int CostNetwork::find(std::string_view variable) const {
  const auto found = std::find(names_.begin(), names_.end(), variable);
  return found == names_.end() ? -1 : static_cast<int>(found - names_.begin());
}

int CostNetwork::find_value(int variable, std::string_view value) const {
  check_variable(variable);
  const std::vector<std::string>& names = domain_names(variable);
  const auto found = std::find(names.begin(), names.end(), value);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

double CostNetwork::cost(const Assignment& assignment) const {
  SHARDLAB_CHECK(assignment.size() == to_index(variables()), assignment.size(), " values");
  double sum = constant_;
  for (int v = 0; v < variables(); ++v) sum += costs(v)[to_index(assignment[to_index(v)])];
  for (const CostEdge& edge : edges_) {
    sum += tables_[to_index(edge.table)].at(assignment[to_index(edge.first)],
                                            assignment[to_index(edge.second)]);
  }
  return sum;
}

std::int64_t CostNetwork::weight(const Budget& budget, const Assignment& assignment) const {
  std::int64_t sum = 0;
  for (const Budget::Weights& weights : budget.weights) {
    sum += weights.of_value[to_index(assignment[to_index(weights.variable)])];
  }
  return sum;
}

bool CostNetwork::is_feasible(const Assignment& assignment) const {
  return cost(assignment) < kForbidden &&
         std::all_of(budgets_.begin(), budgets_.end(), [&](const Budget& budget) {
           return weight(budget, assignment) <= budget.limit;
         });
}

}  // namespace shardlab
