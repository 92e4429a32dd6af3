// Bucket elimination: exact minima of small cost-function networks by dynamic programming.
//
// Variables are eliminated one at a time, the one whose neighbours have the fewest joint values
// first. The least cost of a variable and its edges, for each combination of its neighbours'
// values, forms a table, its message, which is added to the costs of the neighbour that is
// eliminated next. Decoding runs in the opposite order. The work is exponential only in the width
// of this order, and it is known before any table is made.
//
//   BucketTree tree(small);
//   if (tree.work() < limit) { tree.run(); tree.minimum(); tree.best(); tree.min_marginals(); }
//
// Source: Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial
// Intelligence 113 (1999). The next best solutions are found by splitting the solutions by where
// they first differ from the best one: Lawler, "A procedure for computing the k best solutions to
// discrete optimization problems", Management Science 18 (1972).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/index.h"

namespace shardlab {

// A network in flat arrays. Costs may be infinite.
struct SmallNetwork {
  struct Edge {
    int a = 0;
    int b = 0;
    std::size_t table = 0;  // offset in `tables` of the costs: one row for each of a's values
  };
  // Where each node's values begin in `costs`; one more entry holds the end of the last ones.
  std::vector<std::size_t> first;
  std::vector<double> costs;
  std::vector<Edge> edges;
  std::vector<double> tables;
  [[nodiscard]] int nodes() const { return static_cast<int>(first.size()) - 1; }
  [[nodiscard]] int values(int node) const {
    return static_cast<int>(first[to_index(node) + 1] - first[to_index(node)]);
  }
};

struct SmallSolution {
  double cost = 0.0;
  std::vector<int> values;
};

class BucketTree {
 public:
  // Orders the variables, and stops as soon as the work exceeds `most_work`. Keeps a reference to
  // the network.
  explicit BucketTree(const SmallNetwork& network, double most_work = 1e15);

  [[nodiscard]] double work() const { return work_; }  // entries of all joint tables
  // Fills the tables. Assumes that work() does not exceed `most_work`.
  void run();
  // The least cost of any solution; infinite when the network is infeasible.
  [[nodiscard]] double minimum() const { return minimum_; }
  // One solution at the minimum, which has to be finite.
  [[nodiscard]] SmallSolution best() const;
  // For each value (in the order of SmallNetwork::costs) the least cost of a solution that has it.
  [[nodiscard]] std::vector<double> min_marginals() const;
  // Up to `count` different solutions that cost at most `limit`, with the cheapest first.
  [[nodiscard]] std::vector<SmallSolution> cheapest(std::size_t count, double limit) const;

  // The shape of the elimination, for other algorithms that run over the same tables.
  struct Bucket {
    int node = 0;
    std::vector<int> scope;     // the later nodes that its message is over, in elimination order
    std::vector<int> edges;     // indices of its edges to later nodes
    std::vector<int> children;  // earlier nodes whose messages are added here
    std::size_t message = 0;    // offset in messages_; the scope's last node varies fastest
    std::size_t size = 1;       // entries of the message
  };
  [[nodiscard]] const std::vector<Bucket>& buckets() const {
    return buckets_;
  }  // in elimination order
  [[nodiscard]] int bucket_of(int node) const { return position_[to_index(node)]; }
  // The index of the entry of a bucket's message for these values of its scope's nodes.
  [[nodiscard]] std::size_t entry(const Bucket& bucket, std::span<const int> values) const;

 private:
  void find_order(double most_work);
  void join(const Bucket& bucket, std::vector<double>& table) const;
  void add(const Bucket& bucket, std::span<const int> dims, const double* costs,
           std::vector<double>& table) const;
  // What each value of the bucket's node costs where all later nodes have their values.
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
