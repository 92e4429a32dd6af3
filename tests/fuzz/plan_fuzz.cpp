// Redistributions on small meshes, in every version of the transitions, with both planners:
// planning never crashes, the price is not negative and is what the cost function says, and the
// steps lead from the source to the target.
//
// The bytes are the mesh, names and flattened axes, tensor, two layouts, version, planner, merge,
// model and rank.
#include <algorithm>
#include <cmath>

#include "costmodel/base/index.h"
#include "costmodel/registry.h"
#include "runner/config/read_json.h"
#include "sim/bounds.h"
#include "sim/redistribute.h"
#include "tests/fuzz/draw.h"

namespace shardlab::testing_support {
namespace {

void expect_path(const Plan& plan, const DeviceMesh& mesh, const std::string& what) {
  Layout at = plan.start;
  for (const PlanStep& step : plan.steps) {
    FUZZ_CHECK(!step.mesh_dims.empty(), what);
    FUZZ_CHECK(step.price.total.value() >= 0, what);
    FUZZ_CHECK(step.full_bytes >= 0, what);
    FUZZ_CHECK(at[step.mesh_dims.front()] == step.from || step.is_merged(), what);
    for (int m = 0; m < mesh.ndim(); ++m) {
      const bool moves =
          std::find(step.mesh_dims.begin(), step.mesh_dims.end(), m) != step.mesh_dims.end();
      FUZZ_CHECK(moves || at[m] == step.after[m], what);
      FUZZ_CHECK(!moves || step.after[m] == step.to, what);
    }
    at = step.after;
  }
  if (plan.steps.empty()) return;
  const Layout target = decode_strided_as_order(plan.to, mesh).value_or(plan.to);
  FUZZ_CHECK(at.placements == target.placements || at.placements == plan.to.placements, what);
}

bool same(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * std::abs(b); }

void one_plan(Bytes8 input, const Topology& topology, const ComputeModel& kernels,
              std::span<const std::unique_ptr<CostModel>> models) {
  const DeviceMesh mesh = draw_mesh(input, 4);
  const TensorMeta meta = draw_tensor(input);
  const Layout from = draw_layout(input, mesh, meta);
  const Layout to = draw_layout(input, mesh, meta);
  const auto versions = all_edge_semantics();
  const EdgeSemanticsRow& version =
      versions[to_index(input.below(static_cast<int>(versions.size())))];
  const CostModel& model = *models[to_index(input.below(static_cast<int>(models.size())))];
  const auto merge = static_cast<MergeMode>(input.below(3));
  const bool checks = input.below(2) == 1;
  const std::int64_t rank = input.byte() % mesh.size();
  for (const PlannerKind planner : {PlannerKind::kGreedy, PlannerKind::kGraph}) {
    Redistributor redistributor(mesh, topology,
                                {.semantics = version.make(),
                                 .planner = planner,
                                 .merge = merge,
                                 .merge_checks_all_gather = checks},
                                model, kernels);
    const Plan plan = redistributor.plan(
        meta, from, to, {.planner = {}, .rank = rank, .count_optimal_paths = true});
    const std::string what = std::string(version.name) + ", " + mesh.text() + ", " + meta.text() +
                             ": " + from.text() + " to " + to.text() + ": " + plan.path();
    const double price = plan.price.total.value();
    FUZZ_CHECK(price >= 0, what);
    FUZZ_CHECK(plan.impossible.empty() == std::isfinite(price), what);
    FUZZ_CHECK(same(redistributor.cost_us(meta, from, to), price), what);
    expect_path(plan, mesh, what);
    if (from == to) FUZZ_CHECK(plan.steps.empty() && price == 0, what);
    // The rows of every rank would be listed, which is right but slow where there are many.
    std::int64_t rows = 0;
    for (const std::int64_t extent : meta.shape) rows = std::max(rows, extent);
    if (mesh.size() > kMaxBoundRanks || rows > (1 << 25) || rows * mesh.size() < 100000) {
      const PlanBounds bounds = bounds_of(plan, mesh, topology);
      FUZZ_CHECK(!bounds.memory_ratio || *bounds.memory_ratio >= 1, what);
      // A strided shard whose order is unknown is followed mesh dim by mesh dim.
      const double least = from.has_strided() || to.has_strided() ? 0.0 : 1.0 - 1e-9;
      FUZZ_CHECK(!bounds.volume_ratio || *bounds.volume_ratio >= least, what);
    }

    // One source to many targets takes another way through the graph planner.
    const std::vector<Layout> targets = {to, from, Layout::replicated(mesh.ndim()), to, from, to};
    std::vector<double> prices(targets.size());
    redistributor.costs_us(meta, from, targets, prices);
    FUZZ_CHECK(same(prices[0], price) && same(prices[5], price), what);
  }
}

}  // namespace
}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  static const Topology topology = Topology::from_json(
      read_json_file(SHARDLAB_SOURCE_DIR "/configs/topologies/gb200.json"), {"gb200.json", ""});
  static const auto model = [](const char* name) {
    return make_collective_model(read_model_choice(name, {"stack.json", ""}), topology);
  };
  static const std::unique_ptr<CostModel> models[] = {model("dtensor"), model("alpha_beta")};
  static const std::unique_ptr<ComputeModel> kernels =
      make_compute_model(read_model_choice("roofline", {"stack.json", ""}), topology);
  one_plan(Bytes8(data, size), topology, *kernels, models);
  return 0;
}
