#include "strategies/programs/sharding_network.h"

namespace shardlab {

CostNetwork network_of(const ShardingProblem& problem) {
  CostNetwork network;
  for (const std::vector<std::string>& values : problem.domains) network.add_domain(values);
  for (std::size_t v = 0; v < problem.names.size(); ++v) {
    network.add_variable(problem.names[v], problem.domain_of[v], problem.costs[v]);
  }
  for (const ProblemTable& table : problem.tables) {
    network.add_table(table.rows, table.columns, table.costs);
  }
  for (const ProblemEdge& edge : problem.edges) {
    network.add_edge(edge.first, edge.second, edge.table);
  }
  for (const ProblemBudget& budget : problem.budgets) {
    Budget out{.name = budget.name, .limit = budget.limit, .weights = {}};
    for (const ProblemBudget::Weights& weights : budget.weights) {
      out.weights.push_back({weights.variable, weights.of_value});
    }
    network.add_budget(std::move(out));
  }
  return network;
}

}  // namespace shardlab
