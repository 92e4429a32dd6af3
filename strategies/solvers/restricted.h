// The part of a network that matters for assignments that cost at most the bound plus a tolerance.
// It leaves out values and pairs of values whose reparametrised costs prove that every assignment
// with them costs more.
//
//   const Reparametrisation costs = dual.reparametrised();
//   Restricted part(cut, costs, 1.0);
//   part.fill(cut, costs);
//   // every assignment that costs at most costs.bound + 1.0 is an assignment of part.network()
//
// Nodes with one value left are absorbed into their neighbours. Costs are counted from the bound.
#pragma once

#include <vector>

#include "strategies/solvers/bucket_tree.h"
#include "strategies/solvers/dual_ascent.h"

namespace shardlab {

class Restricted {
 public:
  // Finds the nodes, values and edges that are left; fill() adds the costs. Keeps no reference.
  Restricted(const CutNetwork& cut, const Reparametrisation& costs, double tolerance);
  // Adds the costs. Assumes the same arguments as the constructor's.
  void fill(const CutNetwork& cut, const Reparametrisation& costs);

  // Whether every assignment costs more than the bound plus the tolerance.
  [[nodiscard]] bool empty() const { return empty_; }
  [[nodiscard]] const SmallNetwork& network() const { return network_; }
  [[nodiscard]] double base() const { return base_; }  // the costs of the absorbed nodes
  // The nodes of the cut network that network() still holds, ascending.
  [[nodiscard]] const std::vector<int>& nodes() const { return nodes_; }
  // For each node of the cut network: the positions, in its value set, of the values that are left.
  [[nodiscard]] const std::vector<std::vector<int>>& kept() const { return kept_; }
  // A solution of network() as positions in the cut network's value sets.
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
