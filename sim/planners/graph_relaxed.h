// Lower bounds on what a search of the graph planner still has to pay. Only the files graph*
// include this.
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
// It forgets the tensor dims and the order of shards. A mesh dim is in one of four places:
// replicated; astray, a shard that is not the target's; partial, a partial that is not the
// target's; or done, which means that it has what the target has. A shard is only done if all
// shards before it on its tensor dim are done too. The places of all mesh dims make one state, with
// two bits for each. A state still says which mesh dims shard, so edges keep their prices; where
// these differ by tensor dim, the least one counts. Every real edge either changes one place along
// an edge of this problem that costs no more, or changes nothing here. No real path can therefore
// cost less than the one found here, under every cost model for which EdgePrices is exact.
class RelaxedProblem {
 public:
  enum Place : std::uint32_t { kReplicated, kAstray, kPartial, kDone };

  // What the target has on a mesh dim: R, a shard, a partial that R can become, or a partial that
  // it can't.
  enum class Goal : std::uint8_t { kReplicate, kShard, kPartial, kPartialOutOfReach };

  struct Rules {
    int ndim;
    bool moves_between_dims;  // false for a tensor of one dim, which has no all-to-all
    bool makes_partials;      // R may become some partial
    std::array<Goal, kMaxMeshDims> goals;
    std::array<bool, kMaxMeshDims> sums_shards;  // a shard may become the target's partial for free
    // For each shard of the target, the mesh dims before and after it in the order of its tensor
    // dim; -1 when there is none.
    std::array<int, kMaxMeshDims> shard_before;
    std::array<int, kMaxMeshDims> shard_after;
  };

  // Finds the distance to the target for every state that is nearer to it than `source`, by
  // Dijkstra's algorithm from the target backwards.
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

  // The lower bound on the cost from this state to the target. States that are further from the
  // target than the source count as if they were as far away as the source.
  [[nodiscard]] double rest(std::uint32_t state) const { return std::min(rest_[state], radius_); }

  static std::uint32_t with_place(std::uint32_t state, int mesh_dim, Place place) {
    const auto shift = static_cast<unsigned>(2 * mesh_dim);
    return (state & ~(3U << shift)) | place << shift;
  }

 private:
  enum Step : std::size_t { kGather, kAllToAll, kAllReduce, kScatter, kChunk, kPartition };
  static constexpr std::size_t kSteps = 6;

  [[nodiscard]] std::uint32_t goal() const {
    std::uint32_t state = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      if (goal_of(m) != Goal::kReplicate) state = with_place(state, m, kDone);
    }
    return state;
  }
  // A shard is done only while the one before it is.
  [[nodiscard]] bool may_be_done(std::uint32_t state, int m) const {
    const int before = rules_.shard_before[to_index(m)];
    return goal_of(m) == Goal::kShard && (before < 0 || place_of(state, before) == kDone);
  }
  [[nodiscard]] bool must_be_done(std::uint32_t state, int m) const {
    const int after = rules_.shard_after[to_index(m)];
    return after >= 0 && place_of(state, after) == kDone;
  }
  [[nodiscard]] Goal goal_of(int m) const { return rules_.goals[to_index(m)]; }
  [[nodiscard]] static Place place_of(std::uint32_t state, int m) {
    return static_cast<Place>(state >> static_cast<unsigned>(2 * m) & 3U);
  }

  void relax(std::uint32_t state, double cost) {
    if (!(cost < rest_[state])) return;
    rest_[state] = cost;
    queue_.push(cost, state);
  }

  void relax_predecessors(std::uint32_t state, double cost, EdgePrices& prices) {
    std::uint32_t mask = 0;
    for (int m = 0; m < rules_.ndim; ++m) {
      const Place place = place_of(state, m);
      const bool shards = place == kAstray || (place == kDone && goal_of(m) == Goal::kShard);
      mask |= static_cast<std::uint32_t>(shards) << static_cast<unsigned>(m);
    }
    for (int m = 0; m < rules_.ndim; ++m) {
      const auto from = [&](Place place, Step step) {
        // The set of mesh dims that shard before the edge.
        const std::uint32_t bit = 1U << static_cast<unsigned>(m);
        const bool leaves_shard = step == kGather || step == kAllToAll;
        const std::uint32_t before = leaves_shard ? mask | bit : mask & ~bit;
        relax(with_place(state, m, place), cost + price(step, m, before, prices));
      };
      const Goal wanted = goal_of(m);
      switch (place_of(state, m)) {
        case kReplicated:
          from(kAstray, kGather);
          from(kPartial, kAllReduce);
          if (may_be_done(state, m)) from(kDone, kGather);
          if (wanted >= Goal::kPartial) from(kDone, kAllReduce);
          break;
        case kAstray:
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (may_be_done(state, m) && rules_.moves_between_dims) from(kDone, kAllToAll);
          if (wanted >= Goal::kPartial) from(kDone, kScatter);
          break;
        case kPartial:
          if (rules_.makes_partials) from(kReplicated, kPartition);
          break;
        case kDone:
          if (wanted == Goal::kPartial) from(kReplicated, kPartition);
          if (rules_.sums_shards[to_index(m)]) relax(with_place(state, m, kAstray), cost);
          if (wanted != Goal::kShard || must_be_done(state, m)) break;
          from(kReplicated, kChunk);
          from(kPartial, kScatter);
          if (rules_.moves_between_dims) from(kAstray, kAllToAll);
          break;
      }
    }
  }

  // The least price among the kinds of edges that are the same step here.
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
  std::vector<double> rest_;   // by state: the lower bound on the cost to the target
  double radius_ = kInfinity;
  Queue<Among::kLastIn> queue_;
};

}  // namespace shardlab::graph_search
