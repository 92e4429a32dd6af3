// A plan: the ordered steps that take a tensor from one layout to another. The same object is
// priced, printed and executed.
//
//   plan.path()    "S(0)[0]S(0)[1]->S(0)R->RR"     "-->" marks a step merged onto a flattened mesh
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
  MeshDims mesh_dims;  // one; ascending and several when merged onto a flattened mesh
  Placement from;
  Placement to;
  Shape logical_shape;  // of the tensor on this mesh dim, for the rank that the plan was made for
  Bytes full_bytes = 0.0;
  Price price;
  Layout after;  // the layout once the step is done

  // Of merged steps.
  std::string flattened_mesh;  // its registered name
  std::int64_t avg_scale = 1;  // a merged sum and avg reduces by sum, then divides by this
  [[nodiscard]] bool is_merged() const { return mesh_dims.size() > 1; }
};

// A run of steps that could not be merged, with the reason that PyTorch's warning gives.
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
  // What the cost function says. DTensor prices the unmerged steps, so this is not always the sum
  // of the steps'.
  Price price;
  std::string impossible;    // why there is no (finite) price; empty when there is one
  std::string unexecutable;  // why a priced plan can't run; empty when it can
  // Minimum-cost plans only: how many paths share the minimum; 0 when not counted.
  double optimal_paths = 0;

  [[nodiscard]] std::string path() const;
  // Sum of the steps' prices: what the plan costs as it runs.
  [[nodiscard]] Price executed_price() const;
};

}  // namespace shardlab
