// A plan: the ordered steps that take a tensor from one layout to another. The same object is
// priced, printed and executed.
//
//   const Plan plan = redistributor.plan(meta, from, to);
//   plan.path()      // "S(0)[0]S(0)[1]->S(0)R->RR"; "-->" marks a step on a flattened mesh
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

using MeshDims = boost::container::static_vector<int, kMaxMeshDims>;

struct PlanStep {
  Collective collective = Collective::kLocal;
  MeshDims mesh_dims;  // one, or several in ascending order when merged onto a flattened mesh
  Placement from;
  Placement to;
  Shape logical_shape;     // shape of the tensor as this step sees it, for the plan's rank
  Bytes full_bytes = 0.0;  // the larger of one rank's two buffers
  Price price;
  Layout after;  // the layout once the step is done

  // These two are set for merged steps only.
  std::string flattened_mesh;  // registered name of the flattened mesh
  std::int64_t avg_scale = 1;  // divisor of the summed result, if sums are merged with averages
  [[nodiscard]] bool is_merged() const { return mesh_dims.size() > 1; }
};

// A run of consecutive steps that could not be merged, with the reason that PyTorch's warning
// gives.
struct MergeWarning {
  std::string reason;  // no_flattened_mesh, uneven_tensor_shape, non_ascending_mesh_dims
  MeshDims mesh_dims;
  int steps = 0;
};

struct Plan {
  Plan() = default;
  Plan(const TensorMeta& tensor, const Layout& source, const Layout& target)
      : meta(tensor), from(source), to(target), start(source) {}

  TensorMeta meta;
  Layout from;
  Layout to;
  Layout start;  // `from` as the planner sees it: strided shards that encode an order are decoded
  std::vector<PlanStep> steps;
  std::vector<MergeWarning> warnings;
  // The price that the cost function gives. DTensor prices the unmerged steps, so this is not
  // always the sum of the steps' prices.
  Price price;
  std::string impossible;    // why there is no finite price; empty when there is one
  std::string unexecutable;  // why a plan with a price can't run; empty when it can
  // Whether the steps run although the cost function gives the plan no finite price, because it
  // never looks at them.
  bool runs_unpriced = false;
  // How many paths share the minimum cost; 0 when they were not counted. Only the graph planner
  // counts them, on request.
  double optimal_paths = 0;

  [[nodiscard]] std::string path() const;
  // Whether no steps bring the tensor to its layout.
  [[nodiscard]] bool is_impossible() const { return !impossible.empty() && !runs_unpriced; }
  // Why the plan can't run; empty when it can.
  [[nodiscard]] const std::string& refusal() const {
    return is_impossible() ? impossible : unexecutable;
  }
  // The sum of the steps' prices: what the plan costs as it runs.
  [[nodiscard]] Price executed_price() const;
};

}  // namespace shardlab
