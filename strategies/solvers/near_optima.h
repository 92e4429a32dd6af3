// What lies beside an optimum: how many optima there are, how much dearer other values would be, and
// the next best assignments.
//
//   NearOptima near(network, cut, search);
//   near.optima(); near.margins(assignment, resolve, jobs); near.best(5, {assignment, objective});
//
// Margins are exact min-marginals: from one elimination of all that is at most some tolerance dearer, as
// wide as that stays small; the nodes whose next best value is dearer still are solved again
// without their value, one by one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "strategies/solvers/bound_search.h"

namespace shardlab {

struct RankedAssignment {
  Assignment assignment;
  double objective = 0.0;
};

class NearOptima {
 public:
  // The least cost, constant left out, when values are restricted further; called from several threads.
  using Resolve = std::function<double(const Restriction&)>;

  // Keeps references. Assumes that the search found a minimum of the cut network.
  NearOptima(const CostNetwork& network, const CutNetwork& cut, const BoundSearch& search);

  // Assignments within the tolerance of the minimum. Infinite: beyond 1e308.
  [[nodiscard]] double optima() const;
  // Infinite: no other value is possible.
  [[nodiscard]] std::vector<double> margins(const Assignment& assignment, const Resolve& resolve,
                                            int jobs) const;
  // Cheapest first, equal ones by their texts; `first` is in front.
  [[nodiscard]] std::vector<RankedAssignment> best(std::size_t count,
                                                   const RankedAssignment& first) const;

 private:
  // All that is at most `tolerance` above the bound, eliminated.
  struct Level {
    explicit Level(Restricted of) : part(std::move(of)), tree(part.network()) {}
    Restricted part;
    BucketTree tree;
  };
  // None when that takes more work than `most_work`.
  [[nodiscard]] std::unique_ptr<Level> level(double tolerance, double most_work) const;
  [[nodiscard]] double first_tolerance() const;

  const CostNetwork& network_;
  const CutNetwork& cut_;
  const BoundSearch& search_;
  Reparametrisation costs_;
  double all_ = 0.0;  // a tolerance that leaves nothing out
};

}  // namespace shardlab
