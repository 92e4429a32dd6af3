// What a search of the graph planner has left to pay at least. Only for graph*.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/base/index.h"
#include "sim/planners/graph_edges.h"
#include "sim/planners/graph_nodes.h"

namespace shardlab::graph_search {

// A simpler problem whose exact answer bounds the real one from below.
//
// It forgets the tensor dim and the order of shards. A mesh dim is in one of four places:
// replicated; a shard or a partial that is not the target's (astray, partial); or done: what the
// target has there, a shard only if all shards before it on its tensor dim are done too. The places
// of all mesh dims are a number, two bits each. Which mesh dims shard is kept, so edges keep their
// prices (the least one where kinds differ by tensor dim). Every real edge changes one place along
// an edge of this problem that costs no more, or changes nothing here: hence no real path can cost
// less than the one found here, whatever the cost model.
class RelaxedProblem {
 public:
  enum Place : std::uint32_t { kReplicated, kAstray, kPartial, kDone };

  // What the target has on each mesh dim: R, a shard, or a partial (which R can become or not).
  enum class Goal : std::uint8_t { kReplicate, kShard, kPartial, kPartialOutOfReach };

  struct Rules {
    int ndim;
    bool moves_between_dims;  // a tensor of one dim has no all-to-all
    bool makes_partials;      // some partial op may occur
    std::array<Goal, kMaxMeshDims> goals;
    // The mesh dims next to a shard of the target on its tensor dim; -1 when there is none.
    std::array<int, kMaxMeshDims> shard_before;
    std::array<int, kMaxMeshDims> shard_after;
  };

  // Distances to the target of all numbers that are nearer than `source`: Dijkstra backwards.
  void solve(const Rules& rules, std::uint32_t source, EdgePrices& prices) {
    rules_ = rules;
    rest_.assign(std::size_t{1} << static_cast<unsigned>(2 * rules.ndim), kInfinity);
    steps_.assign(kSteps * static_cast<std::size_t>(rules.ndim)
                      << static_cast<unsigned>(rules.ndim),
                  kUnknown);
    queue_.clear();
    radius_ = kInfinity;
    relax(goal(), 0.0);
    while (!queue_.empty()) {
      const auto entry = queue_.pop();
      if (entry.cost > rest_[entry.node]) continue;
      if (entry.node == source) {
        radius_ = entry.cost;
        return;
      }
      relax_predecessors(entry.node, entry.cost, prices);
    }
  }

  // At least this much is left to pay. What lies beyond the source's distance counts as if at that
  // distance.
  [[nodiscard]] double rest(std::uint32_t number) const { return std::min(rest_[number], radius_); }

  static std::uint32_t with_place(std::uint32_t number, int mesh_dim, Place place) {
    const auto shift = static_cast<unsigned>(2 * mesh_dim);
    return (number & ~(3U << shift)) | place << shift;
  }

 private:
  enum Step : std::size_t { kGather, kAllToAll, kAllReduce, kScatter, kChunk, kPartition };
  static constexpr std::size_t kSteps = 6;

  [[nodiscard]] std::uint32_t goal() const {
    std::uint32_t number = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      if (goal_of(m) != Goal::kReplicate) number = with_place(number, m, kDone);
    }
    return number;
  }
  // A shard is done only while the one before it is.
  [[nodiscard]] bool may_be_done(std::uint32_t number, int m) const {
    const int before = rules_.shard_before[to_index(m)];
    return goal_of(m) == Goal::kShard && (before < 0 || place_of(number, before) == kDone);
  }
  [[nodiscard]] bool must_be_done(std::uint32_t number, int m) const {
    const int after = rules_.shard_after[to_index(m)];
    return after >= 0 && place_of(number, after) == kDone;
  }
  [[nodiscard]] Goal goal_of(int m) const { return rules_.goals[to_index(m)]; }
  [[nodiscard]] static Place place_of(std::uint32_t number, int m) {
    return static_cast<Place>(number >> static_cast<unsigned>(2 * m) & 3U);
  }

  void relax(std::uint32_t number, double cost) {
    if (!(cost < rest_[number])) return;
    rest_[number] = cost;
    queue_.push(cost, number);
  }

  void relax_predecessors(std::uint32_t number, double cost, EdgePrices& prices) {
    std::uint32_t mask = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      const Place place = place_of(number, m);
      const bool shards = place == kAstray || (place == kDone && goal_of(m) == Goal::kShard);
      mask |= static_cast<std::uint32_t>(shards) << static_cast<unsigned>(m);
    }
    for (int m = 0; m < rules_.ndim; ++m) {
      const auto from = [&](Place place, Step step) {
        // The mesh dims that shard before the edge.
        const std::uint32_t bit = 1U << static_cast<unsigned>(m);
        const bool leaves_shard = step == kGather || step == kAllToAll;
        const std::uint32_t before = leaves_shard ? mask | bit : mask & ~bit;
        relax(with_place(number, m, place), cost + price(step, m, before, prices));
      };
      const Goal wanted = goal_of(m);
      switch (place_of(number, m)) {
        case kReplicated:
          from(kAstray, kGather);
          from(kPartial, kAllReduce);
          if (may_be_done(number, m)) from(kDone, kGather);
          if (wanted >= Goal::kPartial) from(kDone, kAllReduce);
          break;
        case kAstray:
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (may_be_done(number, m) && rules_.moves_between_dims) from(kDone, kAllToAll);
          if (wanted >= Goal::kPartial) from(kDone, kScatter);
          break;
        case kPartial:
          if (rules_.makes_partials) from(kReplicated, kPartition);
          break;
        case kDone:
          if (wanted == Goal::kPartial) from(kReplicated, kPartition);
          if (wanted != Goal::kShard || must_be_done(number, m)) break;
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (rules_.moves_between_dims) from(kAstray, kAllToAll);
          break;
      }
    }
  }

  // The least price over the kinds of edges that are one step here.
  double price(Step step, int mesh_dim, std::uint32_t mask, EdgePrices& prices) {
    double& known =
        steps_[((static_cast<std::size_t>(step) * static_cast<std::size_t>(rules_.ndim) +
                 static_cast<std::size_t>(mesh_dim))
                << static_cast<unsigned>(rules_.ndim)) +
               mask];
    if (known != kUnknown) return known;
    const auto least = [&](auto... kinds) {
      return std::min({prices.price(kinds, mesh_dim, mask)...});
    };
    switch (step) {
      case kGather:
        return known = least(EdgeKind::kGather0, EdgeKind::kGather);
      case kAllToAll:
        return known = least(EdgeKind::kAllToAll0, EdgeKind::kAllToAllTo0, EdgeKind::kAllToAll);
      case kAllReduce:
        return known = least(EdgeKind::kAllReduce);
      case kScatter:
        return known = least(EdgeKind::kScatter0, EdgeKind::kScatter);
      case kChunk:
        return known = least(EdgeKind::kChunk);
      case kPartition:
        return known = least(EdgeKind::kPartition, EdgeKind::kPartitionFree);
    }
    return 0.0;
  }

  static constexpr double kUnknown = -1.0;

  Rules rules_{};
  std::vector<double> steps_;  // prices by step, mesh dim and set of mesh dims that shard before it
  std::vector<double> rest_;   // by number
  double radius_ = kInfinity;
  Queue<Among::kLastIn> queue_;
};

}  // namespace shardlab::graph_search
