// Cost-function networks: variables with a few named values, a cost for each value, and costs for
// the pairs of values of two variables. An assignment gives each variable one value; its cost is
// the sum of these costs. An infinite cost forbids a value or a pair, so constraints are costs too.
//
//   CostNetwork network;
//   const int layouts = network.add_domain({"R", "S(0)"});
//   const int x = network.add_variable("x", layouts, std::vector{0.0, 1.5});
//   const int y = network.add_variable("y", layouts, std::vector{7.0, 0.0});
//   const int move = network.add_table(2, 2, {0, 9, 4, 0});   // rows: the first variable's values
//   network.add_edge(x, y, move);
//   network.cost(std::vector<int>{1, 1});                      // 1.5
//
// Domains and tables are shared by id: a program of 32 equal layers has 32 times as many edges as
// one layer, but as many tables. Each edge takes 12 bytes. Costs over three or more variables
// cannot be expressed.
//
// Source: Cooper, de Givry, Sanchez, Schiex, Zytnicki, Werner, "Soft arc consistency revisited",
// Artificial Intelligence 174 (2010), where such networks are also called weighted CSPs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/index.h"

namespace shardlab {

inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

// The costs of all pairs of values of two variables, row-major.
struct CostTable {
  int rows = 0;
  int columns = 0;
  std::vector<double> costs;
  [[nodiscard]] double at(int row, int column) const {
    return costs[to_index(row) * to_index(columns) + to_index(column)];
  }
};

struct CostEdge {
  int first = 0;  // the variable whose values are the table's rows
  int second = 0;
  int table = 0;
};

// Integer weights of values, and the most that the weights of an assignment's values may sum to.
struct Budget {
  struct Weights {
    int variable = 0;
    std::vector<std::int64_t> of_value;
  };
  std::string name;
  std::int64_t limit = 0;
  std::vector<Weights> weights;  // variables that are absent weigh nothing
};

// The index of the value that each variable takes.
using Assignment = std::vector<int>;

class CostNetwork {
 public:
  // The most values that a variable may have, and the largest cost that is not forbidden: sums of
  // ten million such costs stay exact enough to be compared.
  static constexpr int kMaxValues = 1 << 16;
  static constexpr double kMaxCost = 1e15;

  // All of these throw InputError, which names what is wrong.
  int add_domain(std::vector<std::string> values);
  // `costs` holds one cost for each value; if it is empty, all are zero. Names are unique.
  int add_variable(std::string name, int domain, std::span<const double> costs = {});
  int add_table(int rows, int columns, std::vector<double> costs);
  void add_edge(int first, int second, int table);
  void add_constant(double cost);
  void add_budget(Budget budget);
  // Adds to the cost of one value; adding infinity forbids it.
  void add_cost(int variable, int value, double cost);

  [[nodiscard]] int variables() const { return static_cast<int>(domain_of_.size()); }
  [[nodiscard]] int values(int variable) const {
    return static_cast<int>(domain_names(variable).size());
  }
  [[nodiscard]] const std::string& name(int variable) const { return names_[to_index(variable)]; }
  [[nodiscard]] int domain(int variable) const { return domain_of_[to_index(variable)]; }
  [[nodiscard]] const std::vector<std::string>& domain_names(int variable) const {
    return domains_[to_index(domain(variable))];
  }
  [[nodiscard]] const std::string& value_name(int variable, int value) const {
    return domain_names(variable)[to_index(value)];
  }
  [[nodiscard]] const std::vector<std::vector<std::string>>& domains() const { return domains_; }
  [[nodiscard]] std::span<const double> costs(int variable) const {
    return {costs_.data() + first_cost_[to_index(variable)], to_index(values(variable))};
  }
  [[nodiscard]] const std::vector<CostTable>& tables() const { return tables_; }
  [[nodiscard]] const std::vector<CostEdge>& edges() const { return edges_; }
  [[nodiscard]] double constant() const { return constant_; }
  [[nodiscard]] const std::vector<Budget>& budgets() const { return budgets_; }

  // The index of the variable of this name, or -1 if there is none. Takes time in proportion to the
  // number of variables.
  [[nodiscard]] int find(std::string_view variable) const;
  [[nodiscard]] int find_value(int variable, std::string_view value) const;

  // The cost of an assignment by the original tables; infinite if it is forbidden. Budgets are
  // ignored.
  [[nodiscard]] double cost(const Assignment& assignment) const;
  [[nodiscard]] std::int64_t weight(const Budget& budget, const Assignment& assignment) const;
  // Whether an assignment is allowed and also keeps to every budget.
  [[nodiscard]] bool is_feasible(const Assignment& assignment) const;

 private:
  void check_variable(int variable) const;
  void check_cost(double cost, std::string_view where) const;

  std::vector<std::vector<std::string>> domains_;
  std::vector<std::string> names_;
  std::vector<int> domain_of_;
  std::vector<std::size_t> first_cost_;
  std::vector<double> costs_;  // costs of all values of all variables
  std::vector<CostTable> tables_;
  std::vector<CostEdge> edges_;
  std::vector<Budget> budgets_;
  double constant_ = 0.0;
};

}  // namespace shardlab
