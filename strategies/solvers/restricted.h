// The part of a network that matters below a bound plus a tolerance: values and pairs of values whose
// reparametrised costs prove that no assignment with them is that cheap are left out.
//
//   const Restricted part(cut, dual.reparametrised(), 1.0);
//   // every assignment that costs at most bound + 1.0 is an assignment of part.network()
//
// Nodes with one value left are absorbed into their neighbours; costs are those above the bound.
#pragma once

#include <vector>

#include "strategies/solvers/bucket_tree.h"
#include "strategies/solvers/dual_ascent.h"

namespace shardlab {

class Restricted {
 public:
  // Keeps references to neither. Shape only, until fill().
  Restricted(const CutNetwork& cut, const Reparametrisation& costs, double tolerance);
  // The costs. Assumes the same arguments.
  void fill(const CutNetwork& cut, const Reparametrisation& costs);

  // No assignment is that cheap.
  [[nodiscard]] bool empty() const { return empty_; }
  [[nodiscard]] const SmallNetwork& network() const { return network_; }
  [[nodiscard]] double base() const { return base_; }  // of the absorbed nodes
  // The nodes (of the whole network) that network() still holds, ascending.
  [[nodiscard]] const std::vector<int>& nodes() const { return nodes_; }
  // Node -> positions of its values that are left, in the cut network's set.
  [[nodiscard]] const std::vector<std::vector<int>>& kept() const { return kept_; }
  // A small solution as positions in the cut network's sets.
  [[nodiscard]] std::vector<int> positions(const std::vector<int>& small) const;

 private:
  void make_consistent(const CutNetwork& cut, const Reparametrisation& costs, double tolerance);

  double tolerance_;
  bool empty_ = false;
  std::vector<std::vector<int>> kept_;
  std::vector<int> nodes_;
  SmallNetwork network_;
  double base_ = 0.0;
};

}  // namespace shardlab
