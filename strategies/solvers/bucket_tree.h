// Bucket elimination: exact minima of small cost-function networks by dynamic programming.
//
// Variables go one at a time, the one whose neighbourhood has the fewest joint values first; what a
// variable and its edges cost at best, for all joint values of its neighbours, becomes a table (its
// message) that joins the neighbour which goes next. Decoding runs the other way. So the work is
// exponential in the width of the order alone; it is known before any table is made.
//
//   BucketTree tree(small);
//   if (tree.work() < limit) { tree.run(); tree.minimum(); tree.best(); tree.min_marginals(); }
//
// Source: Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial Intelligence
// 113 (1999). Next best solutions by splitting at the first difference: Lawler, "A procedure for
// computing the k best solutions to discrete optimization problems", Management Science 18 (1972).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/index.h"

namespace shardlab {

// Dense and flat; costs may be infinite.
struct SmallNetwork {
  struct Edge {
    int a = 0;
    int b = 0;
    std::size_t table = 0;  // offset of a's values times b's in tables
  };
  std::vector<std::size_t> first;  // of each node's values in costs; one more than nodes
  std::vector<double> costs;
  std::vector<Edge> edges;
  std::vector<double> tables;
  [[nodiscard]] int nodes() const { return static_cast<int>(first.size()) - 1; }
  [[nodiscard]] int values(int node) const {
    const auto at = static_cast<std::size_t>(node);
    return static_cast<int>(first[at + 1] - first[at]);
  }
};

struct SmallSolution {
  double cost = 0.0;
  std::vector<int> values;
};

class BucketTree {
 public:
  // Orders the variables, and stops once the work is above `most_work`. Keeps a reference.
  explicit BucketTree(const SmallNetwork& network, double most_work = 1e15);

  [[nodiscard]] double work() const { return work_; }  // entries of all joint tables so far
  // Only when the work is not above the most.
  void run();
  // Infinite: infeasible.
  [[nodiscard]] double minimum() const { return minimum_; }
  // Assumes a finite minimum.
  [[nodiscard]] SmallSolution best() const;
  // Per value (as in costs): the least cost of a solution that has it.
  [[nodiscard]] std::vector<double> min_marginals() const;
  // Up to `count` different solutions of at most `limit`, cheapest first.
  [[nodiscard]] std::vector<SmallSolution> cheapest(std::size_t count, double limit) const;

  // The shape of the elimination, for others that run over the same tables.
  struct Bucket {
    int node = 0;
    std::vector<int> scope;     // the later nodes of its message, in the order of elimination
    std::vector<int> edges;     // those to later nodes
    std::vector<int> children;  // earlier nodes whose messages join here
    std::size_t message = 0;    // offset in messages_; last of the scope varies fastest
    std::size_t size = 1;       // entries of the message
  };
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }  // in order
  [[nodiscard]] int bucket_of(int node) const { return position_[to_index(node)]; }
  // The entry of a bucket's message at the scope's values.
  [[nodiscard]] std::size_t entry(const Bucket& bucket, std::span<const int> values) const;

 private:
  void find_order(double most_work);
  void join(const Bucket& bucket, std::vector<double>& table) const;
  void add(const Bucket& bucket, std::span<const int> dims, const double* costs,
           std::vector<double>& table, double sign) const;
  // The costs of a node's values where all later nodes have theirs.
  void local(const Bucket& bucket, std::span<const int> values, std::vector<double>& costs) const;
  void complete(std::size_t from, std::vector<int>& values, std::vector<double>& scratch) const;

  const SmallNetwork& network_;
  std::vector<Bucket> buckets_;
  std::vector<int> position_;
  std::vector<double> messages_;
  double work_ = 0.0;
  double minimum_ = 0.0;
};

}  // namespace shardlab
