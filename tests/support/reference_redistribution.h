// A redistributor with its topology and models, from the few choices that a test makes.
//
//   Bench bench({.mesh = "2x2x2", .version = "v4", .planner = PlannerKind::kGraph});
//   bench.cost("f32[8,16]", "S(0)RR", "RRR")
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/redistribute.h"
#include "tests/support/reference_topology.h"

namespace shardlab::testing_support {

struct BenchChoice {
  std::string mesh = "2x2";
  std::int64_t devices_per_host = 8;
  std::string version = "v3";
  PlannerKind planner = PlannerKind::kGreedy;
  MergeMode merge = MergeMode::kOff;
  bool merge_checks_all_gather = true;
  std::vector<std::vector<std::string>> flatten = {};  // axes of each flattened mesh
  nlohmann::json collective = "dtensor";
  nlohmann::json compute = "none";
};

class Bench {
 public:
  explicit Bench(const BenchChoice& choice)
      : topology_(topology_with(choice.devices_per_host)),
        collectives_(collective_model(choice.collective, topology_)),
        kernels_(compute_model(choice.compute, topology_)),
        redistributor_(mesh_of(choice), topology_,
                       {.semantics = edge_semantics(choice.version),
                        .planner = choice.planner,
                        .merge = choice.merge,
                        .merge_checks_all_gather = choice.merge_checks_all_gather},
                       *collectives_, *kernels_) {}

  Redistributor& redistributor() { return redistributor_; }
  const DeviceMesh& mesh() const { return redistributor_.mesh(); }
  const Topology& topology() const { return topology_; }
  const TransitionPricer& pricer() const { return redistributor_.pricer(); }
  Layout layout(std::string_view text) const { return Layout::parse(text, mesh().ndim()); }

  Plan plan(std::string_view tensor, std::string_view from, std::string_view to,
            const PlanOptions& options = {}) {
    return redistributor_.plan(TensorMeta::parse(tensor), layout(from), layout(to), options);
  }
  double cost(std::string_view tensor, std::string_view from, std::string_view to) {
    return redistributor_.cost_us(TensorMeta::parse(tensor), layout(from), layout(to));
  }

  static DeviceMesh mesh_of(const BenchChoice& choice) {
    DeviceMesh mesh = DeviceMesh::parse(choice.mesh);
    for (const auto& axes : choice.flatten) mesh = mesh.flatten(axes);
    return mesh;
  }

 private:
  Topology topology_;
  std::unique_ptr<CostModel> collectives_;
  std::unique_ptr<ComputeModel> kernels_;
  Redistributor redistributor_;
};

// The mesh dims and placements of a plan's steps, such as "0:S(0)>R 1:R>S(0)".
inline std::string steps_of(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    std::string dims;
    for (const int dim : step.mesh_dims) dims += (dims.empty() ? "" : "+") + std::to_string(dim);
    text += (text.empty() ? "" : " ") + dims + ":" + step.from.text() + ">" + step.to.text();
  }
  return text;
}

inline std::string collectives_of(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    text += (text.empty() ? "" : " ") + std::string(to_string(step.collective));
  }
  return text;
}

}  // namespace shardlab::testing_support
