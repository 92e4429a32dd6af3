// The optimum of a cost-function network, with a proof that independent code has checked.
//
//   ExactSolver solver(network);
//   const ExactSolution best = solver.solve();
//   best.objective, best.lower_bound, best.assignment;
//   solver.solve({.restrictions = {{.variable = 3, .allowed = {1}}}});   // a pin
//
// Of several optima (within 1e-9 of the sum of the terms) the solver takes the one whose values'
// texts are lexicographically lowest, in the order of the variables; with budgets it only
// guarantees to take the same one every time. The result does not depend on `jobs`. Throws
// LimitError if a network is too entangled, unless the caller takes an assignment with a gap and
// one is known or found, and for margins and further assignments of a network that was left with
// one.
//
// Whole programs are long and thin: their bounds are tight or nearly so, and what is left to go
// through is small (a LLaMA3-8B of 2 layers takes some 10 ms). In a network of many equal layers, a
// small network with a few of the layers provides messages to start from. Networks shaped like
// grids, or random ones whose variables have many values, are too large for this method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/solvers/near_optima.h"

namespace shardlab {

struct ExactOptions {
  std::vector<Restriction> restrictions = {};
  int jobs = 1;
  bool margins = false;  // whether to find margins too, and to count optima
  std::size_t best = 1;  // how many different assignments to find, cheapest first
  bool explain = true;   // whether to find the conflict if there is no assignment
  // Whether to check the proof, which gives the lower bound and says whether the assignment is
  // optimal. It goes through all joint costs of the search once more, whatever time is left.
  bool proves = true;
  // When to take the best assignment so far, with a gap to its lower bound. A network that is too
  // entangled throws without patience, and while there is no assignment: neither `known` nor found.
  Patience patience = {};
  // An assignment that is known, from which the search starts; it may be empty, or break
  // restrictions. It does not change which optimum is found. Not used with budgets.
  Assignment known = {};
};

// One of the constraints that cannot hold together.
struct ConflictPart {
  enum class Kind : std::uint8_t { kVariable, kEdge, kRestriction, kBudget };
  Kind kind = Kind::kVariable;
  int index = 0;  // index of the variable, edge, restriction or budget
  friend bool operator==(const ConflictPart&, const ConflictPart&) = default;
};

struct ExactSolution {
  bool feasible = false;
  Assignment assignment;
  double objective = 0.0;  // the assignment's cost, from the original tables
  double lower_bound =
      0.0;               // from the check of the proof; at most the objective. 0 without a check
  bool optimal = false;  // whether bound and objective agree to 1e-9 of the terms' sum
  std::vector<RankedAssignment> best;  // cheapest first; the first is `assignment`
  // How many optima there are, if margins were asked for and there was time to count them; infinite
  // beyond 1e308.
  std::optional<double> optima;
  // For each variable: how much more the best assignment with another value costs; infinite if
  // there is none, NaN if it was not known in time.
  std::vector<double> margins;
  std::vector<ConflictPart>
      conflict;                     // if any one of these is left out, the others can hold together
  std::vector<double> multipliers;  // by budget: the charge for one unit of weight
  int sweeps = 0;
};

class ExactSolver {
 public:
  // Keeps a reference to the network.
  explicit ExactSolver(const CostNetwork& network) : network_(network) {}

  [[nodiscard]] ExactSolution solve(const ExactOptions& options = {});

 private:
  std::vector<double> start(const CutNetwork& cut) const;
  void keep(const CutNetwork& cut, const std::vector<double>& messages);
  // The least cost, without the constant; nothing if time was up before it was known. Starts from
  // the messages of earlier solves.
  [[nodiscard]] std::optional<double> minimum(const std::vector<Restriction>& restrictions,
                                              const Patience& patience) const;
  void solve_plain(const CutNetwork& cut, const ExactOptions& options, ExactSolution& solution);

  const CostNetwork& network_;
  // The messages of earlier solves. Each edge has one for each original value of its first end,
  // then one for each of its second.
  std::vector<double> messages_;
  std::vector<std::size_t> message_offsets_;  // by edge
};

// Constraints that cannot hold together, none of which can be left out. Assumes that no assignment
// keeps to the restrictions and budgets.
[[nodiscard]] std::vector<ConflictPart> find_conflict(const CostNetwork& network,
                                                      const std::vector<Restriction>& restrictions);
// The constraint in words: "forbidden values of "x"", "budget "memory" of 100", ...
[[nodiscard]] std::string describe(const ConflictPart& part, const CostNetwork& network,
                                   const std::vector<Restriction>& restrictions);

}  // namespace shardlab
