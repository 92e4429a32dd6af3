// What lies near an optimum: how many optima there are, how much more other values would cost, and
// the next best assignments.
//
//   NearOptima near(network, cut, search);
//   near.optima(); near.margins(assignment, resolve, jobs); near.best(5, {assignment, objective});
//
// Margins are exact min-marginals. They come from one elimination of everything that costs at most
// the minimum plus a tolerance, which is as wide as it can be while the elimination stays small.
// For each variable whose next best value costs more than that, the network is solved again without
// the variable's value. Once time is up, what is not known yet stays unknown.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strategies/solvers/bound_search.h"

namespace shardlab {

struct RankedAssignment {
  Assignment assignment;
  double objective = 0.0;
};

class NearOptima {
 public:
  // Returns the least cost, without the constant, under one more restriction; nothing if time was
  // up before it was known. Several threads may call it.
  using Resolve = std::function<std::optional<double>(const Restriction&)>;

  // Keeps references to all arguments but `patience`, whose gap is not used. Assumes that the
  // search found a minimum of the cut network.
  NearOptima(const CostNetwork& network, const CutNetwork& cut, const BoundSearch& search,
             const Patience& patience = {});

  // How many assignments are within the tolerance of the minimum; infinite beyond 1e308. Nothing if
  // there is no time to count them.
  [[nodiscard]] std::optional<double> optima() const;
  // For each variable: how much more the best assignment with another value costs; infinite if no
  // other value is possible, and NaN if it was not known in time.
  [[nodiscard]] std::vector<double> margins(const Assignment& assignment, const Resolve& resolve,
                                            int jobs) const;
  // The `count` best assignments: `first`, then the others, with the cheapest first and equal ones
  // in the order of their texts.
  [[nodiscard]] std::vector<RankedAssignment> best(std::size_t count,
                                                   const RankedAssignment& first) const;

 private:
  // Everything that costs at most some tolerance more than the bound, after its elimination.
  struct Level {
    explicit Level(Restricted of) : part(std::move(of)), tree(part.network()) {}
    Restricted part;
    BucketTree tree;
  };
  // Null if the elimination would take more than `most_work`.
  [[nodiscard]] std::unique_ptr<Level> level(double tolerance, double most_work) const;
  [[nodiscard]] double first_tolerance() const;

  const CostNetwork& network_;
  const CutNetwork& cut_;
  const BoundSearch& search_;
  Patience patience_;
  Reparametrisation costs_;
  double all_ = 0.0;  // a tolerance that excludes nothing
};

}  // namespace shardlab
