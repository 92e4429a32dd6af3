// The minimum-cost planner as docs/semantics.md describes it: a plain Dijkstra search over
// (placements, shard order) in std::map, without codes, bounds or tables. Tests compare
// sim/planners/graph with this twin.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/placement.h"
#include "sim/tensor_spec.h"
#include "sim/transition.h"

namespace shardlab::testing_support {

struct ReferencePlan {
  bool found = false;
  std::string path;  // "S(0)R->RR"
  double cost_us = 0.0;
  std::vector<double> step_us;
  std::size_t states_visited = 0;
};

class ReferenceGraphPlanner {
 public:
  ReferenceGraphPlanner(const TransitionPricer& pricer, const DeviceMesh& mesh)
      : pricer_(pricer), mesh_(mesh) {}

  [[nodiscard]] ReferencePlan search(const TensorMeta& meta, const Layout& from, const Layout& to);
  // How many different paths cost the minimum (to 1e-12 relative), found by walking each to its
  // end.
  [[nodiscard]] double count_optimal_paths(const TensorMeta& meta, const Layout& from,
                                           const Layout& to);

 private:
  struct State {
    std::vector<Placement> placements;
    std::map<int, std::vector<int>> order;  // tensor dim -> mesh dims, in the order of sharding
    [[nodiscard]] std::string text() const;
  };
  struct Edge {
    State next;
    double cost_us;
  };

  static State state_of(const Layout& layout);
  void prepare(const TensorMeta& meta, const Layout& from, const Layout& to);
  [[nodiscard]] std::vector<Edge> successors(const State& state) const;
  [[nodiscard]] std::map<std::string, double> distances(const Layout& from) const;

  const TransitionPricer& pricer_;
  const DeviceMesh& mesh_;
  TensorMeta meta_;
  std::vector<ReduceOp> ops_;       // reduce ops of both ends' partials, in order of declaration
  std::vector<Placement> strided_;  // strided shards of the target, in the order of its mesh dims
};

}  // namespace shardlab::testing_support
