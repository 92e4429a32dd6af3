// A cost-function network cut to the values that can take part in an assignment, as flat arrays: what
// the algorithms of the exact solver run on.
//
// Arc consistency: a value goes when its cost is infinite, or when some edge forbids it together with
// every value that its other variable has left; repeated until nothing goes. Sets of values and cut
// tables are kept once each, and what follows from a table and two sets is worked out once, so the
// work hardly grows with the number of equal layers.
//
//   const CutNetwork cut(network, restrictions);
//   if (cut.wiped_out() >= 0) ...   // a variable without values: infeasible
//
// Source: AC by revision, Mackworth, "Consistency in networks of relations", Artificial Intelligence
// 8 (1977).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/solvers/network.h"

namespace shardlab {

// The values that a variable may take; several of one variable intersect.
struct Restriction {
  int variable = 0;
  std::vector<int> allowed;  // ascending
};

// Values are positions in the node's set; tables are given in both layouts, so that inner loops run
// over consecutive costs.
struct CutEdge {
  int a = 0;  // the earlier variable
  int b = 0;
  int a_values = 0;
  int b_values = 0;
  std::size_t a_major = 0;  // offset in pool(): row of b's values for each of a's
  std::size_t b_major = 0;
  std::size_t a_message = 0;  // offsets of one double per value, over all edges
  std::size_t b_message = 0;
};

class CutNetwork {
 public:
  CutNetwork(const CostNetwork& network, std::span<const Restriction> restrictions);

  // The same with fewer values: for each node the positions that stay, ascending.
  CutNetwork(const CutNetwork& whole, std::span<const std::vector<int>> kept);

  // Some of its nodes, with all their values, and these edges between them: ends are positions in `nodes`,
  // tables are where they are in `whole`.
  CutNetwork(const CutNetwork& whole, std::span<const int> nodes, std::span<const CutEdge> edges);

  // A variable that lost all its values, or -1. Nothing else is there then.
  [[nodiscard]] int wiped_out() const { return wiped_out_; }

  [[nodiscard]] int nodes() const { return static_cast<int>(set_of_.size()); }
  [[nodiscard]] std::span<const int> values(int node) const {
    return sets_[to_index(set_of_[to_index(node)])];
  }
  [[nodiscard]] std::size_t first(int node) const { return first_[to_index(node)]; }
  [[nodiscard]] std::size_t values() const { return first_.back(); }  // of all nodes
  [[nodiscard]] const std::vector<double>& costs() const { return costs_; }
  [[nodiscard]] const std::vector<CutEdge>& edges() const { return edges_; }
  // Of an assignment (positions in the sets), `extra` added per value where it is given.
  [[nodiscard]] double cost(std::span<const int> positions,
                            std::span<const double> extra = {}) const;
  [[nodiscard]] std::size_t messages() const { return messages_; }
  [[nodiscard]] const double* pool() const { return pool_.data(); }
  // Edges (indices) to earlier and to later nodes.
  [[nodiscard]] std::span<const int> earlier(int node) const { return list(earlier_, node); }
  [[nodiscard]] std::span<const int> later(int node) const { return list(later_, node); }

 private:
  struct Lists {
    std::vector<int> begin;
    std::vector<int> edges;
  };
  static std::span<const int> list(const Lists& lists, int node) {
    const auto at = static_cast<std::size_t>(node);
    return {lists.edges.data() + lists.begin[at],
            static_cast<std::size_t>(lists.begin[at + 1] - lists.begin[at])};
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
