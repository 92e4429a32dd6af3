// The optimum of a cost-function network, with a proof that code of its own has checked.
//
//   ExactSolver solver(network);
//   const ExactSolution best = solver.solve();
//   best.objective, best.lower_bound, best.assignment;
//   solver.solve({.restrictions = {{.variable = 3, .allowed = {1}}}});   // a pin; starts from before
//
// Of several optima (within 1e-9 of the terms' sum) it is the one whose values' texts are
// lexicographically lowest, in the order of the variables; with budgets, merely always the same one.
// Does not depend on `jobs`. Throws LimitError where a network is too entangled.
//
// Whole programs are long and thin: their bounds are tight or nearly so, and what is left is small
// (a LLaMA3-8B of 2 layers takes some 10 ms); of many equal layers a few tell what to start from. Grids and random networks of many values are not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/solvers/near_optima.h"

namespace shardlab {

struct ExactOptions {
  std::vector<Restriction> restrictions = {};
  int jobs = 1;
  bool margins = false;  // also count optima
  std::size_t best = 1;  // this many different assignments, cheapest first
  bool explain = true;   // find the conflict where there is no assignment
};

// One of the constraints that can't hold together.
struct ConflictPart {
  enum class Kind : std::uint8_t { kVariable, kEdge, kRestriction, kBudget };
  Kind kind = Kind::kVariable;
  int index = 0;  // of the variable, edge, restriction or budget
  friend bool operator==(const ConflictPart&, const ConflictPart&) = default;
};

struct ExactSolution {
  bool feasible = false;
  Assignment assignment;
  double objective = 0.0;              // from the original tables
  double lower_bound = 0.0;            // as the check of the proof gives it, at most the objective
  bool optimal = false;                // lower bound and objective agree to 1e-9 of the terms' sum
  std::vector<RankedAssignment> best;  // the first is the assignment
  // With margins. Optima beyond 1e308 are infinite.
  std::optional<double> optima;
  std::vector<double>
      margins;  // variable -> how much dearer the best with another value is; infinite: none
  std::vector<ConflictPart> conflict;  // irreducible: without any one of them the others hold
  std::vector<double> multipliers;     // what a unit of each budget is worth
  int sweeps = 0;
};

class ExactSolver {
 public:
  // Keeps a reference.
  explicit ExactSolver(const CostNetwork& network) : network_(network) {}

  [[nodiscard]] ExactSolution solve(const ExactOptions& options = {});

 private:
  std::vector<double> start(const CutNetwork& cut) const;
  void keep(const CutNetwork& cut, const std::vector<double>& messages);
  // The least cost, constant left out, from what earlier solves left behind.
  [[nodiscard]] double minimum(const std::vector<Restriction>& restrictions) const;
  void solve_plain(const CutNetwork& cut, const ExactOptions& options, ExactSolution& solution);

  const CostNetwork& network_;
  // By edge: a message per original value of its first end, then of its second.
  std::vector<double> messages_;
  std::vector<std::size_t> places_;
};

// Constraints that can't hold together, none of which can be left out. Assumes that the network has no assignment
// within the restrictions and budgets.
[[nodiscard]] std::vector<ConflictPart> find_conflict(const CostNetwork& network,
                                                      const std::vector<Restriction>& restrictions);
// `variable "x"`, `edge "x" - "y"`, ...
[[nodiscard]] std::string describe(const ConflictPart& part, const CostNetwork& network,
                                   const std::vector<Restriction>& restrictions);

}  // namespace shardlab
