// Redistribution on small meshes, in every version of the transitions, with both planners: a plan
// never crashes, its price is not negative and is what the cost function says, and its steps lead
// from the source to the target.
//
// Bytes: mesh, names and flattened axes, tensor, two layouts, version, planner, merge, model, rank.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "costmodel/registry.h"
#include "runner/read_json.h"
#include "sim/bounds.h"
#include "sim/redistribute.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kProduct};

DeviceMesh read_mesh(Bytes8& input) {
  const int ndim = 1 + input.below(4);
  const bool named = input.below(2) == 1;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (int i = 0; i < ndim; ++i) {
    sizes.push_back(1 + input.below(5));
    if (named) names.emplace_back(1, static_cast<char>('a' + i));
  }
  DeviceMesh mesh = DeviceMesh::make(sizes, names);
  for (int i = named ? input.below(3) : 0; i > 0; --i) {
    const int mask = input.byte();
    std::vector<std::string> axes;
    for (int d = 0; d < ndim; ++d) {
      if ((mask >> d & 1) != 0) axes.push_back(names[static_cast<std::size_t>(d)]);
    }
    if (axes.size() > 1) mesh = mesh.flatten(axes, "flat" + std::to_string(i));
  }
  return mesh;
}

TensorMeta read_tensor(Bytes8& input) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kI8, DType::kF64};
  TensorMeta meta;
  meta.dtype = kTypes[input.below(4)];
  const int ndim = input.below(4);
  for (int i = 0; i < ndim; ++i) meta.shape.push_back(input.below(26));
  return meta;
}

Placement read_placement(Bytes8& input, const TensorMeta& meta) {
  const int pick = input.below(8);
  const int argument = input.byte();
  const int dim = meta.ndim() == 0 ? 0 : argument % meta.ndim();
  switch (meta.ndim() == 0 && pick < 5 ? 7 : pick) {
    case 0:
    case 1:
    case 2:
      return Placement::shard(dim);
    case 3:
    case 4:
      return pick == 3 ? Placement::shard(dim) : Placement::strided_shard(dim, 1 + argument / 32);
    case 5:
      return Placement::partial(kOps[argument % 4]);
    case 6:
      return argument % 8 == 0   ? Placement::mask_partial()
             : argument % 8 == 1 ? Placement::norm_partial(2.0)
                                 : Placement::partial();
    default:
      return Placement::replicate();
  }
}

// A legal layout: partials of one kind, any order of the mesh dims that shard one tensor dim.
Layout read_layout(Bytes8& input, const DeviceMesh& mesh, const TensorMeta& meta) {
  Placements placements;
  for (int m = 0; m < mesh.ndim(); ++m) {
    placements.push_back(read_placement(input, meta));
    if (has_mixed_partials(placements)) placements.back() = Placement::replicate();
  }
  Layout layout(placements);
  const int shuffle = input.byte();
  for (int d = 0; d < meta.ndim() && shuffle % 2 == 1; ++d) {
    auto dims = layout.mesh_dims_of(d);
    if (dims.size() < 2) continue;
    std::rotate(dims.begin(), dims.begin() + shuffle / 2 % static_cast<int>(dims.size()),
                dims.end());
    for (std::size_t i = 0; i < dims.size(); ++i) layout.order.set(dims[i], static_cast<int>(i));
  }
  return layout;
}

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
  const DeviceMesh mesh = read_mesh(input);
  const TensorMeta meta = read_tensor(input);
  const Layout from = read_layout(input, mesh, meta);
  const Layout to = read_layout(input, mesh, meta);
  const auto versions = all_transition_rules();
  const TransitionRules& rules =
      versions[static_cast<std::size_t>(input.below(static_cast<int>(versions.size())))];
  const CostModel& model =
      *models[static_cast<std::size_t>(input.below(static_cast<int>(models.size())))];
  const auto merge = static_cast<MergeMode>(input.below(3));
  const bool checks = input.below(2) == 1;
  const std::int64_t rank = input.byte() % mesh.size();
  for (const PlannerKind planner : {PlannerKind::kGreedy, PlannerKind::kGraph}) {
    Redistributor redistributor(
        mesh, topology,
        {.rules = rules, .planner = planner, .merge = merge, .merge_checks_all_gather = checks},
        model, kernels);
    const Plan plan = redistributor.plan(
        meta, from, to, {.planner = {}, .rank = rank, .count_optimal_paths = true});
    const std::string what = std::string(rules.name) + ", " + mesh.text() + ", " + meta.text() +
                             ": " + from.text() + " to " + to.text() + ": " + plan.path();
    const double price = plan.price.total.value();
    FUZZ_CHECK(price >= 0, what);
    FUZZ_CHECK(plan.impossible.empty() == std::isfinite(price), what);
    FUZZ_CHECK(same(redistributor.cost_us(meta, from, to), price), what);
    expect_path(plan, mesh, what);
    if (from == to) FUZZ_CHECK(plan.steps.empty() && price == 0, what);
    const PlanBounds bounds = bounds_of(plan, mesh, topology);
    FUZZ_CHECK(!bounds.memory_ratio || *bounds.memory_ratio >= 1, what);

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
