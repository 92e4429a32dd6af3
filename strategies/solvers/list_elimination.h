// Bucket elimination that keeps a list of items where plain elimination keeps a single cost. The
// cost describes only the cheapest solution; the list describes all solutions below a limit. An
// algebra defines how items are joined and how lists are thinned:
//
//   CountAlgebra     how many solutions there are of each cost
//   BudgetAlgebra    the sums of weights at each cost, without items that are heavier and dearer
//
//   ListElimination<CountAlgebra> counts(network, tree, {.limit = limit}, most);
//   counts.items();   // items of whole solutions, cheapest first
//
// Costs must not be negative; those of a Restricted network never are. The work is the tree's,
// times the lengths of the lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/solvers/bucket_tree.h"

namespace shardlab {

// How many solutions there are of each cost. Counts beyond 2^53 are rounded; beyond 1e308 they are
// infinite.
struct CountAlgebra {
  struct Item {
    double cost = 0.0;
    double count = 1.0;
  };
  double limit = 0.0;
  double same = 0.0;  // costs that are at most this far apart count as one

  [[nodiscard]] Item value(std::size_t /*offset*/, double cost) const { return {cost, 1.0}; }
  [[nodiscard]] Item join(const Item& a, const Item& b) const {
    return {a.cost + b.cost, a.count * b.count};
  }
  [[nodiscard]] bool is_kept(const Item& item) const { return item.cost <= limit; }
  void thin(std::vector<Item>& items) const {
    std::ranges::stable_sort(items, {}, &Item::cost);
    std::size_t end = 0;
    for (const Item& item : items) {
      if (end > 0 && item.cost - items[end - 1].cost <= same) {
        items[end - 1].count += item.count;
      } else {
        items[end++] = item;
      }
    }
    items.resize(end);
  }
};

struct BudgetAlgebra {
  static constexpr std::size_t kMost = 4;  // the most budgets that it can handle
  using Weights = std::array<std::int64_t, kMost>;
  // Where an item comes from: one value, or two joined items (indices into `origins`).
  struct Origin {
    bool is_value = false;
    int left = -1;
    int right = -1;
    std::size_t offset = 0;  // offset of the value in SmallNetwork::costs
  };
  struct Item {
    double cost = 0.0;
    Weights weights{};
    int origin = -1;  // -1 if no value contributes
  };
  double limit = 0.0;
  std::size_t budgets = 0;
  Weights room{};                // the most that each weight may sum up to
  std::vector<Weights> weights;  // by offset of a value in SmallNetwork::costs
  std::vector<Origin>* origins = nullptr;

  [[nodiscard]] int origin(const Origin& of) const {
    origins->push_back(of);
    return static_cast<int>(origins->size()) - 1;
  }
  [[nodiscard]] Item value(std::size_t offset, double cost) const {
    return {cost, weights[offset],
            origin({.is_value = true, .left = -1, .right = -1, .offset = offset})};
  }
  [[nodiscard]] Item join(const Item& a, const Item& b) const {
    Item out{a.cost + b.cost, a.weights, -1};
    for (std::size_t i = 0; i < kMost; ++i) out.weights[i] += b.weights[i];
    if (is_kept(out)) {
      out.origin = origin({.is_value = false, .left = a.origin, .right = b.origin, .offset = 0});
    }
    return out;
  }
  [[nodiscard]] static bool fits(const Weights& weights, const Weights& room) {
    for (std::size_t i = 0; i < kMost; ++i) {
      if (weights[i] > room[i]) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_kept(const Item& item) const {
    return item.cost <= limit && fits(item.weights, room);
  }
  // Drops every item that is neither cheaper nor lighter than another one, compared by cost without
  // charges.
  void thin(std::vector<Item>& items) const {
    std::ranges::stable_sort(items, [&](const Item& a, const Item& b) {
      const double left = true_cost(a);
      const double right = true_cost(b);
      return left != right ? left < right : a.weights < b.weights;
    });
    std::size_t end = 0;
    for (const Item& item : items) {
      // With one budget, kept items that cost more are lighter, so comparing with the last one is
      // enough.
      const auto checked = budgets == 1 && end > 0 ? end - 1 : 0;
      const bool worse =
          std::any_of(items.begin() + static_cast<std::ptrdiff_t>(checked),
                      items.begin() + static_cast<std::ptrdiff_t>(end),
                      [&](const Item& other) { return fits(other.weights, item.weights); });
      if (!worse) items[end++] = item;
    }
    items.resize(end);
  }
  std::array<double, kMost> multipliers{};  // costs include multiplier * weight
  [[nodiscard]] double true_cost(const Item& item) const {
    double cost = item.cost;
    for (std::size_t i = 0; i < kMost; ++i) {
      cost -= multipliers[i] * static_cast<double>(item.weights[i]);
    }
    return cost;
  }
};

template <class Algebra>
class ListElimination {
 public:
  using Item = typename Algebra::Item;
  using Items = std::vector<Item>;

  // Keeps references to `network` and `tree`. Throws LimitError if the lists hold more than `most`
  // items, or once `is_time_up`, which may be empty, says so.
  ListElimination(const SmallNetwork& network, const BucketTree& tree, Algebra algebra,
                  std::size_t most, std::function<bool()> is_time_up = {})
      : network_(network),
        tree_(tree),
        algebra_(std::move(algebra)),
        most_(most),
        is_time_up_(std::move(is_time_up)) {
    values_.assign(static_cast<std::size_t>(network.nodes()), 0);
    lists_.resize(tree.buckets().size());
    whole_ = {Item{}};
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      fill(i);
      if (tree.buckets()[i].scope.empty()) whole_ = joined(whole_, lists_[i][0]);
    }
  }

  // The items of whole solutions.
  [[nodiscard]] const Items& items() const { return whole_; }

 private:
  void expect_time() const {
    if (is_time_up_ && is_time_up_()) throw LimitError("the time for the search is up");
  }
  // Throws LimitError for more items, and once time is up.
  void expect_at_most(std::size_t items) const {
    expect_time();
    if (items <= most_) return;
    throw LimitError("the solutions below the limit take more than " + std::to_string(most_) +
                     " list items");
  }

  [[nodiscard]] Items joined(const Items& a, const Items& b) const {
    // How many pairs are joined before the clock is read, and how many items are kept before they
    // are thinned. Status: assumed; a million pairs take some 10 ms.
    constexpr std::size_t kMany = 1'000'000;
    std::size_t many = kMany;
    std::size_t pairs = 0;  // since the clock was read
    Items out;
    out.reserve(std::min(a.size() * b.size(), kMany));
    for (const Item& x : a) {
      pairs += b.size();
      if (pairs > kMany) {
        expect_time();
        pairs = 0;
      }
      for (const Item& y : b) {
        const Item item = algebra_.join(x, y);
        if (algebra_.is_kept(item)) out.push_back(item);
      }
      if (out.size() < many) continue;
      algebra_.thin(out);
      expect_at_most(out.size());
      many = std::max(kMany, 2 * out.size());
    }
    if (a.size() > 1 && b.size() > 1) algebra_.thin(out);
    return out;
  }

  // The cost of value x of a bucket's node and of the node's edges, given the values of its scope's
  // nodes.
  [[nodiscard]] Item own(const BucketTree::Bucket& bucket, int x) const {
    const std::size_t offset = network_.first[to_index(bucket.node)] + to_index(x);
    double cost = network_.costs[offset];
    for (const int e : bucket.edges) {
      const SmallNetwork::Edge& edge = network_.edges[to_index(e)];
      const bool is_a = edge.a == bucket.node;
      const int other = values_[to_index(is_a ? edge.b : edge.a)];
      cost +=
          network_
              .tables[edge.table + to_index(is_a ? x : other) * to_index(network_.values(edge.b)) +
                      to_index(is_a ? other : x)];
    }
    return algebra_.value(offset, cost);
  }
  [[nodiscard]] const Items& child(int node) const {
    const auto bucket = static_cast<std::size_t>(tree_.bucket_of(node));
    return lists_[bucket][tree_.entry(tree_.buckets()[bucket], values_)];
  }

  void fill(std::size_t i) {
    const BucketTree::Bucket& bucket = tree_.buckets()[i];
    lists_[i].resize(bucket.size);
    for (const int u : bucket.scope) values_[to_index(u)] = 0;
    for (std::size_t k = 0; k < bucket.size; ++k) {
      Items& out = lists_[i][k];
      for (int x = 0; x < network_.values(bucket.node); ++x) {
        values_[to_index(bucket.node)] = x;
        const Item first = own(bucket, x);
        if (!algebra_.is_kept(first)) continue;
        Items items = {first};
        for (const int node : bucket.children) items = joined(items, child(node));
        out.insert(out.end(), items.begin(), items.end());
      }
      algebra_.thin(out);
      stored_ += out.size();
      expect_at_most(stored_);
      for (std::size_t d = bucket.scope.size(); d-- > 0;) {
        int& value = values_[to_index(bucket.scope[d])];
        if (++value < network_.values(bucket.scope[d])) break;
        value = 0;
      }
    }
  }

  const SmallNetwork& network_;
  const BucketTree& tree_;
  Algebra algebra_;
  std::size_t most_;
  std::function<bool()> is_time_up_;
  std::vector<int> values_;
  std::vector<std::vector<Items>> lists_;
  Items whole_;
  std::size_t stored_ = 0;
};

}  // namespace shardlab
