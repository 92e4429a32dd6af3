// Plans are run on virtual ranks: those that a stack makes move the right bytes, and those that it
// calls impossible can't be run.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/error.h"
#include "sim/executor.h"
#include "sim/simulator.h"
#include "sim/tensor_kernels.h"
#include "sim/traffic.h"
#include "strategies/select/evaluator.h"
#include "tests/support/random_layouts.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace execution_contract_test {

using namespace testing_support;

// Merges steps as DTensor does, but without its two faults, which have tests of their own.
constexpr const char* kMended = R"({"merge_checks_all_gather": true})";

// All flattened meshes that a user could have registered.
DeviceMesh with_flattened(DeviceMesh mesh) {
  const std::vector<std::string> names = mesh.names();
  for (unsigned set = 0; set < 1U << names.size(); ++set) {
    std::vector<std::string> chosen;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((set >> i & 1U) != 0) chosen.push_back(names[i]);
    }
    if (chosen.size() > 1) mesh = mesh.flatten(chosen);
  }
  return mesh;
}

std::vector<Layout> layouts_of(int mesh_ndim, const std::vector<Placement>& kinds) {
  std::vector<Layout> layouts;
  std::vector<std::size_t> digit(static_cast<std::size_t>(mesh_ndim), 0);
  while (true) {
    Placements placements;
    for (const std::size_t i : digit) placements.push_back(kinds[i]);
    if (!has_mixed_partials(placements)) layouts.emplace_back(placements);
    std::size_t d = digit.size();
    while (d > 0 && ++digit[d - 1] == kinds.size()) digit[--d] = 0;
    if (d == 0) return layouts;
  }
}

// Runs the plan's steps although the plan was refused.
bool runs_anyway(const Executor& executor, const Plan& plan, DistributedTensor tensor) {
  if (plan.steps.empty()) return false;
  try {
    for (const PlanStep& step : plan.steps) (void)executor.run_step(step, tensor);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

struct Tally {
  int executed = 0;
  int refused = 0;
  int merged = 0;
};

// DTensor's cost function refuses what its executor does: a change of placement to or between
// partials on a mesh dim of one rank, where nothing moves (pytorch/pytorch#163742).
bool is_refused_by_the_cost_alone(const DeviceMesh& mesh, const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return mesh.size(step.mesh_dims.front()) == 1 && step.to.is_partial();
  });
}

// A fault of DTensor's greedy planner: it may divide a tensor (R->P(sum)) before a product over
// another mesh dim is reduced, in a mix of partials that no layout may have; each factor is divided
// then. Maxima, minima and norms scale with their values, so for them the order does not matter.
bool divides_factors(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return step.from.is_replicate() && step.to == Placement::partial() &&
           is_floating_point(plan.meta.dtype) &&
           std::count(step.after.placements.begin(), step.after.placements.end(),
                      Placement::partial(ReduceOp::kProduct)) > 0;
  });
}

// Another one: strided shards that should encode a shard order, but encode none, go to the greedy
// planner, which may gather or cut a mesh dim under them. PyTorch 2.13.0 scrambles the rows as
// well.
bool cuts_under_strided_shards(const Plan& plan, const DeviceMesh& mesh) {
  const auto encodes_none = [&](const Layout& layout) {
    return layout.encodes_order() && !decode_strided_as_order(layout, mesh);
  };
  return mesh.ndim() > 1 && (encodes_none(plan.from) || encodes_none(plan.to));
}

// Checks one plan. Apart from the faults above, a plan is impossible exactly when it can't be run.
void check_plan(const Executor& executor, const Plan& plan, const DataOptions& data, bool exact,
                Tally& tally) {
  const std::string what = plan.meta.text() + " " + plan.from.text() + " to " + plan.to.text() +
                           " on " + executor.mesh().text() + " by " + plan.path();
  DistributedTensor tensor = executor.distribute(plan.meta, plan.start, data);
  const ExecutionResult result = executor.run(plan, tensor);
  if (!result.executed) {
    ++tally.refused;
    ASSERT_NE(result.refused, "") << what;
    EXPECT_TRUE(is_refused_by_the_cost_alone(executor.mesh(), plan) ||
                !runs_anyway(executor, plan, tensor))
        << what;
    return;
  }
  ++tally.executed;
  for (const PlanStep& step : plan.steps) {
    if (step.is_merged()) {
      ++tally.merged;
      break;
    }
  }
  // The bytes that shapes alone say, which works for any number of ranks, must be those of the run.
  Layout before = plan.start;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    EXPECT_EQ(bytes_moved(plan.steps[i], before, plan.meta, executor.mesh()),
              result.steps[i].bytes_moved)
        << "step " << i << " of " << what;
    before = plan.steps[i].after;
  }
  if (divides_factors(plan)) return;
  if (!result.verified && cuts_under_strided_shards(plan, executor.mesh())) return;
  EXPECT_TRUE(result.verified) << what << ": " << result.mismatch;
  if (!exact) return;
  EXPECT_EQ(result.max_abs_error, 0.0) << what;
  EXPECT_TRUE(result.replicas_bitwise_equal) << what;
}

struct Scope {
  const char* stack;
  const char* mesh;
  friend void PrintTo(const Scope& scope, std::ostream* out) {
    *out << scope.stack << " on " << scope.mesh;
  }
};

// Checks every `stride`-th of all ordered pairs of layouts.
Tally check_all_pairs(const Scope& scope, const std::vector<std::int64_t>& extents, int stride) {
  const DeviceMesh mesh = with_flattened(DeviceMesh::parse(scope.mesh));
  const Topology topology = topology_with(8);
  StackEvaluator evaluator(stack_with(scope.stack, kMended), topology);
  const Executor executor(mesh, topology, {.reduction = {.divide_last = true}});
  const std::vector<Layout> layouts = layouts_of(
      mesh.ndim(),
      {Placement::replicate(), Placement::shard(0), Placement::shard(1),
       Placement::strided_shard(0, 2), Placement::partial(), Placement::partial(ReduceOp::kAvg),
       Placement::partial(ReduceOp::kMax), Placement::partial(ReduceOp::kMin)});
  Tally tally;
  int count = 0;
  for (const std::int64_t rows : extents) {
    for (const std::int64_t columns : extents) {
      TensorMeta meta;
      meta.shape = {rows, columns};
      for (const Layout& from : layouts) {
        for (const Layout& to : layouts) {
          if (count++ % stride != 0) continue;
          const Plan plan = evaluator.on(mesh).plan(meta, from, to);
          check_plan(executor, plan, {.seed = static_cast<std::uint64_t>(count)}, true, tally);
          if (testing::Test::HasFailure()) return tally;
        }
      }
    }
  }
  return tally;
}

class AllPairs : public testing::TestWithParam<Scope> {};

TEST_P(AllPairs, OfLayoutsMoveTheRightBytes) {
  const Tally tally = check_all_pairs(GetParam(), {1, 5, 8, 13}, random_cases(100) < 100 ? 11 : 1);
  EXPECT_GT(tally.executed, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Execution, AllPairs,
    testing::Values(Scope{"dtensor-2.13", "a=2"}, Scope{"dtensor-2.13", "a=3"},
                    Scope{"dtensor-2.13", "a=4"}, Scope{"dtensor-2.13", "a=2,b=2"},
                    Scope{"dtensor-2.13", "a=2,b=3"}, Scope{"dtensor-v3g", "a=2"},
                    Scope{"dtensor-v3g", "a=3"}, Scope{"dtensor-v3g", "a=4"},
                    Scope{"dtensor-v3g", "a=2,b=2"}, Scope{"dtensor-v3g", "a=2,b=3"},
                    Scope{"shardlab", "a=2"}, Scope{"shardlab", "a=3"}, Scope{"shardlab", "a=4"},
                    Scope{"shardlab", "a=2,b=2"}, Scope{"shardlab", "a=2,b=3"}));

class ThreeMeshDims : public testing::TestWithParam<Scope> {};

TEST_P(ThreeMeshDims, MoveTheRightBytesForOnePairInOneHundredAndOne) {
  const Tally tally = check_all_pairs(GetParam(), {5, 8}, random_cases(1010));
  EXPECT_GT(tally.executed, 0);
  EXPECT_GT(tally.merged, 0);
}

class ThreeMeshDimsSlow : public testing::TestWithParam<Scope> {};

TEST_P(ThreeMeshDimsSlow, MoveTheRightBytesForEveryPair) {
  const Tally tally = check_all_pairs(GetParam(), {1, 5, 8, 13}, random_cases(100) < 100 ? 97 : 1);
  EXPECT_GT(tally.executed, 0);
  EXPECT_GT(tally.merged, 0);
}

const auto kCube =
    testing::Values(Scope{"dtensor-2.13", "a=2,b=2,c=2"}, Scope{"dtensor-v3g", "a=2,b=2,c=2"},
                    Scope{"shardlab", "a=2,b=2,c=2"});
INSTANTIATE_TEST_SUITE_P(Execution, ThreeMeshDims, kCube);
INSTANTIATE_TEST_SUITE_P(Execution, ThreeMeshDimsSlow, kCube);

// A run of one rank that stands for all must take as long as the run of all ranks.
void check_folding(const DeviceMesh& mesh, const Topology& topology, const Plan& plan,
                   const Slowdown& slowdown) {
  Schedule schedule;
  (void)add_plan(schedule, plan, {});
  const SimulationResult folded = Simulator(mesh, topology, {.slowdown = slowdown}).run(schedule);
  const SimulationResult unfolded =
      Simulator(mesh, topology, {.slowdown = slowdown, .fold = false}).run(schedule);
  EXPECT_EQ(unfolded.simulated_ranks, mesh.size());
  EXPECT_EQ(folded.simulated_ranks, 1);
  EXPECT_EQ(folded.time_us.max, unfolded.time_us.max) << plan.path();
  for (std::size_t k = 0; k < schedule.kernels.size(); ++k) {
    EXPECT_EQ(folded.kernels[k].end_us.max, unfolded.kernels[k].end_us.max) << plan.path();
    EXPECT_EQ(folded.kernels[k].wait_us, unfolded.kernels[k].wait_us) << plan.path();
  }
}

// Makes all partials of a layout norms, NP(2).
Layout with_norms(Layout layout) {
  for (Placement& p : layout.placements) {
    if (p.is_partial()) p = Placement::parse("NP(2)");
  }
  return layout;
}

bool averages(const Layout& layout) {
  return std::find(layout.placements.begin(), layout.placements.end(),
                   Placement::partial(ReduceOp::kAvg)) != layout.placements.end();
}

// A mesh with names, its flattened meshes, and sometimes only some of its dims, so that the ranks
// of groups do not follow one another.
DeviceMesh named_mesh(Random& random, const DeviceMesh& plain) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (int m = 0; m < plain.ndim(); ++m) {
    names.push_back(std::string(1, static_cast<char>('a' + m)));
    sizes.push_back(plain.size(m));
  }
  const DeviceMesh whole = DeviceMesh::make(sizes, names);
  if (random.percent(60)) return with_flattened(whole);
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    if (random.percent(60)) kept.push_back(name);
  }
  return with_flattened(kept.empty() ? whole : whole.slice(kept));
}

// A case of any mesh, dtype, shard order and reduction order, sometimes with flattened meshes,
// slices and norms.
void check_random_plans(int count, std::uint64_t salt) {
  Random random(salt);
  SHARDLAB_TRACE_SEED();
  const std::vector<DType> dtypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                     DType::kI64, DType::kI32, DType::kI16,  DType::kI8,
                                     DType::kU8,  DType::kB8};
  const std::vector<std::string> stacks = {"dtensor-2.13", "dtensor-v3g", "shardlab"};
  const std::vector<ReductionOrder> orders = {ReductionOrder::kRing, ReductionOrder::kTree,
                                              ReductionOrder::kFlat};
  const Topology topology = topology_with(4);
  std::vector<std::unique_ptr<StackEvaluator>> evaluators;
  for (const std::string& stack : stacks) {
    evaluators.push_back(std::make_unique<StackEvaluator>(stack_with(stack, kMended), topology));
  }
  Tally tally;
  while (tally.executed + tally.refused < count) {
    DeviceMesh mesh = random_mesh(random, 4, 5, 64);
    if (random.percent(50)) mesh = named_mesh(random, mesh);
    TensorMeta meta = random_tensor(random, 3, 13);
    meta.dtype = random.pick(dtypes);
    const LayoutKinds kinds{.strided = random.percent(20)};
    Layout from = random_layout(random, mesh, meta.ndim(), kinds);
    const Layout to = random_layout(random, mesh, meta.ndim(), kinds);
    if (meta.dtype == DType::kB8 && (averages(from) || averages(to)))
      continue;  // truth values have no average
    // Squares soon pass 65504, the largest number of f16.
    const bool norms =
        is_floating_point(meta.dtype) && meta.dtype != DType::kF16 && random.percent(5);
    if (norms) from = with_norms(from);
    const Executor executor(mesh, topology,
                            {.reduction = {.order = random.pick(orders),
                                           .domains_first = random.percent(50),
                                           .divide_last = random.percent(50)},
                             .threads = random.percent(10) ? 3 : 1});
    StackEvaluator& evaluator = *random.pick(evaluators);
    const Plan plan = evaluator.on(mesh).plan(meta, from, to);
    const bool uniform = random.percent(30);
    const bool exact = !uniform && !norms && executor.options().reduction.divide_last &&
                       meta.dtype != DType::kBF16 && meta.dtype != DType::kF16;
    if (plan.impossible.empty()) {
      check_folding(mesh, topology, plan,
                    Slowdown::parse(random.percent(50) ? "none" : "percent:7"));
    }
    check_plan(executor, plan,
               {.seed = static_cast<std::uint64_t>(random.between(0, 1 << 30)),
                .values = uniform ? DataValues::kUniform : DataValues::kWholeNumbers},
               exact, tally);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tally.executed, count / 4);
}

TEST(ExecutionOfRandomPlans, MovesTheRightBytes) { check_random_plans(random_cases(2000), 4711); }
TEST(ExecutionOfRandomPlansSlow, MovesTheRightBytes) {
  check_random_plans(random_cases(100000), 4712);
}

TEST(FaultsThatExecutionShows, TheGreedyPlannerDividesTheFactorsOfAProduct) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const Topology topology = topology_with(8);
  const Executor executor(mesh, topology, {});
  const TensorMeta meta = TensorMeta::parse("f64[4]");
  for (const auto& [stack, right] : {std::pair("dtensor-2.13", false), {"shardlab", true}}) {
    StackEvaluator evaluator(stack_with(stack), topology);
    const Plan plan =
        evaluator.on(mesh).plan(meta, Layout::parse("RP(product)", 2), Layout::parse("P(sum)R", 2));
    DistributedTensor tensor = executor.distribute(meta, plan.start, {});
    EXPECT_EQ(executor.run(plan, tensor).verified, right) << plan.path();
  }
}

// pytorch/pytorch#194457: the nested chunks of 5 rows on a mesh 2x2 are 2, 1, 1 and 1 rows, but the
// flattened mesh expects 2, 2, 1 and 0.
TEST(FaultsThatExecutionShows, AMergedGatherOfUnevenShardsLosesARow) {
  const DeviceMesh mesh = with_flattened(DeviceMesh::parse("a=2,b=2"));
  const Topology topology = topology_with(8);
  const Executor executor(mesh, topology, {});
  const TensorMeta meta = TensorMeta::parse("i64[5]");
  HostTensor rows = HostTensor::make(executor.memory(), meta.dtype, meta.shape);
  for (std::int64_t i = 0; i < 5; ++i) set_element(rows, i, static_cast<double>(i + 1));
  StackEvaluator faulty(stack_with("dtensor-2.13"), topology);
  StackEvaluator mended(stack_with("dtensor-2.13", kMended), topology);
  const Layout from = Layout::parse("S(0)S(0)", 2);
  const Layout to = Layout::parse("RR", 2);

  DistributedTensor lost = executor.distribute(meta, from, rows, {});
  const ExecutionResult result = executor.run(faulty.on(mesh).plan(meta, from, to), lost);
  EXPECT_FALSE(result.verified);
  EXPECT_EQ(result.mismatch, "after step 1 (RR): rank 0, element [3]: found 0, expected 4");
  std::vector<double> found;
  for (std::int64_t i = 0; i < 5; ++i) found.push_back(element_as_double(lost.locals[0], i));
  EXPECT_EQ(found, (std::vector<double>{1, 2, 3, 0, 4}));

  DistributedTensor kept = executor.distribute(meta, from, rows, {});
  EXPECT_TRUE(executor.run(mended.on(mesh).plan(meta, from, to), kept).verified);
}

// 10 rows over 3 ranks are 4, 4 and 2 rows. On a mesh 2x2, the flat chunks of 4 rows are those of
// nested shards, but the flat chunks of 2 rows are not.
TEST(FaultsThatExecutionShows, AMergeLooksAtTheShardsOfAllRanks) {
  const DeviceMesh mesh = with_flattened(DeviceMesh::parse("a=3,b=2,c=2"));
  const Topology topology = topology_with(8);
  const Executor executor(mesh, topology, {});
  const TensorMeta meta = TensorMeta::parse("i32[10]");
  const Layout from = Layout::parse("S(0)S(0)S(0)", 3);
  const Layout to = Layout::parse("S(0)RR", 3);
  for (const bool mends : {false, true}) {
    StackEvaluator evaluator(stack_with("dtensor-2.13", mends ? kMended : "{}"), topology);
    const Plan plan = evaluator.on(mesh).plan(meta, from, to);
    EXPECT_EQ(plan.steps.size(), mends ? 2U : 1U);
    DistributedTensor tensor = executor.distribute(meta, from, {});
    EXPECT_EQ(executor.run(plan, tensor).verified, mends);
  }
}

// pytorch/pytorch#171913, on a mesh (8,5,1) with 8 devices per host: the groups of mesh dim 1 cross
// from host to host at different ranks, so reducing within each host first rounds differently in
// each group.
TEST(FaultsThatExecutionShows, ReductionsOneByOneLeaveReplicasThatDiffer) {
  const DeviceMesh mesh = with_flattened(DeviceMesh::parse("a=8,b=5,c=1"));
  const Topology topology = topology_with(8);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool by_domain : {true, false}) {
      const Executor executor(mesh, topology, {.reduction = {.domains_first = by_domain}});
      TensorMeta meta;
      meta.dtype = dtype;
      meta.shape = {64, 64};
      const Layout from = Layout::parse("PPR", 3);
      const Layout to = Layout::parse("RRR", 3);
      const DataOptions data{.seed = 1, .values = DataValues::kUniform};
      StackEvaluator apart(stack_with("dtensor-2.13", R"({"merge": "off"})"), topology);
      DistributedTensor one_by_one = executor.distribute(meta, from, data);
      const ExecutionResult two = executor.run(apart.on(mesh).plan(meta, from, to), one_by_one);
      EXPECT_TRUE(two.verified) << two.mismatch;
      EXPECT_EQ(two.replicas_bitwise_equal, !by_domain);

      StackEvaluator merging(stack_with("dtensor-2.13"), topology);
      DistributedTensor at_once = executor.distribute(meta, from, data);
      const ExecutionResult one = executor.run(merging.on(mesh).plan(meta, from, to), at_once);
      EXPECT_EQ(one.steps.size(), 1U);
      EXPECT_TRUE(one.verified) << one.mismatch;
      EXPECT_TRUE(one.replicas_bitwise_equal);
    }
  }
}

}  // namespace execution_contract_test
}  // namespace shardlab
