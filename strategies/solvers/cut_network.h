// A cost-function network, cut down to the values that can take part in an assignment. It is held
// in flat arrays, on which the algorithms of the exact solver run.
//
// Arc consistency: a value is dropped if its cost is infinite, or if some edge forbids it together
// with every value that the other variable still has; this is repeated until nothing more is
// dropped. Each distinct set of values and each distinct cut table is stored once, and the effect
// of a table on two sets is computed once, so the work hardly grows with the number of equal
// layers.
//
//   const CutNetwork cut(network, restrictions);
//   if (cut.wiped_out() >= 0) ...   // a variable without values: infeasible
//
// Source: arc consistency by revision: Mackworth, "Consistency in networks of relations",
// Artificial Intelligence 8 (1977).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/solvers/network.h"

namespace shardlab {

// The values that a variable may take. Several restrictions of one variable all hold.
struct Restriction {
  int variable = 0;
  std::vector<int> allowed;  // ascending
};

// An edge of the cut network; values are positions in a node's set. Its costs are stored in both
// layouts, so that inner loops run over consecutive costs.
struct CutEdge {
  int a = 0;  // the earlier variable
  int b = 0;
  int a_values = 0;
  int b_values = 0;
  std::size_t a_major = 0;    // offset in pool(): for each value of a, the costs of all values of b
  std::size_t b_major = 0;    // offset in pool(): for each value of b, the costs of all values of a
  std::size_t a_message = 0;  // offset of one double for each value of a, in arrays over all edges
  std::size_t b_message = 0;
};

class CutNetwork {
 public:
  CutNetwork(const CostNetwork& network, std::span<const Restriction> restrictions);

  // The same network with fewer values: for each node the positions of those that stay, ascending.
  CutNetwork(const CutNetwork& whole, std::span<const std::vector<int>> kept);

  // Takes some nodes of `whole` with all their values, and these edges between them. The ends of
  // the edges are positions in `nodes`; their tables stay where they are in `whole`.
  CutNetwork(const CutNetwork& whole, std::span<const int> nodes, std::span<const CutEdge> edges);

  // A variable that lost all its values, or -1. If there is one, nothing else is filled in.
  [[nodiscard]] int wiped_out() const { return wiped_out_; }

  [[nodiscard]] int nodes() const { return static_cast<int>(set_of_.size()); }
  [[nodiscard]] std::span<const int> values(int node) const {
    return sets_[to_index(set_of_[to_index(node)])];
  }
  // Where the node's values begin in costs().
  [[nodiscard]] std::size_t first(int node) const { return first_[to_index(node)]; }
  [[nodiscard]] std::size_t values() const {
    return first_.back();
  }  // number of values of all nodes
  [[nodiscard]] const std::vector<double>& costs() const { return costs_; }
  [[nodiscard]] const std::vector<CutEdge>& edges() const { return edges_; }
  // The cost of an assignment, given as positions in the value sets. `extra` is added to the costs
  // of the values, unless it is empty.
  [[nodiscard]] double cost(std::span<const int> positions,
                            std::span<const double> extra = {}) const;
  [[nodiscard]] std::size_t messages() const { return messages_; }
  [[nodiscard]] const double* pool() const { return pool_.data(); }
  // Indices of the edges to earlier nodes, and of those to later ones.
  [[nodiscard]] std::span<const int> earlier(int node) const { return list(earlier_, node); }
  [[nodiscard]] std::span<const int> later(int node) const { return list(later_, node); }

 private:
  struct Lists {
    std::vector<int> begin;
    std::vector<int> edges;
  };
  static std::span<const int> list(const Lists& lists, int node) {
    const int begin = lists.begin[to_index(node)];
    return {lists.edges.data() + begin, to_index(lists.begin[to_index(node) + 1] - begin)};
  }

  // Where the two layouts of a cut table begin in pool().
  struct CutTable {
    std::size_t row_major = 0;
    std::size_t column_major = 0;
  };
  template <class At>
  CutTable add_table(std::span<const int> rows, std::span<const int> columns, At&& cost);
  void add_edge(int a, int b, const CutTable& a_major);
  void make_consistent(const CostNetwork& network, class ValueSets& sets);
  void cut_tables(const CostNetwork& network);
  void list_edges();

  int wiped_out_ = -1;
  std::vector<std::vector<int>> sets_;
  std::vector<int> set_of_;
  std::vector<std::size_t> first_;
  std::vector<double> costs_;
  std::vector<CutEdge> edges_;
  std::size_t messages_ = 0;
  std::vector<double> pool_;
  Lists earlier_;
  Lists later_;
};

}  // namespace shardlab
