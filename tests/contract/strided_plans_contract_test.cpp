// Plans whose shards may be strided (solve --strided), run on virtual ranks. For each strided
// layout that a node can have, the run of the best plan with this layout equals the unsharded run.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "strategies/programs/program_builder.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/select/evaluator.h"
#include "strategies/solvers/exact.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace strided_plans_contract_test {

using namespace testing_support;

template <class... Ts>
nlohmann::json list(Ts... values) {
  return nlohmann::json::array({values...});
}
TensorMeta f32(Shape shape) { return meta_of(DType::kF32, std::move(shape)); }

// The product of x [n, n, 24], as a matrix, with w, and the gradient of w, a product over the
// flattened dims.
Program layer(std::int64_t n) {
  ProgramBuilder b("layer", "");
  const Value x = b.source(NodeKind::kInput, f32({n, n, 24}));
  const Value w = b.source(NodeKind::kParameter, f32({24, 48}));
  const Value t = b.source(NodeKind::kTangent, f32({n, n, 48}));
  const Value flat = b.view(x, {n * n, 24});
  const Value y = b.view(b.mm(flat, w), {n, n, 48});
  b.returns(b.unary("aten.mul.Scalar", y, list(2.0)), NodeKind::kOutput, t);
  b.begin_backward();
  const Value dw = b.mm(b.permute(flat, {1, 0}), b.view(t, {n * n, 48}));
  b.returns(dw, NodeKind::kGradient, w);
  return with_aliases(std::move(b).build());
}

// x [n, n, 2 n] by heads: a batch of n * n products.
Program heads(std::int64_t n) {
  ProgramBuilder b("heads", "");
  const Value x = b.source(NodeKind::kInput, f32({n, n, 2 * n}));
  const Value w = b.source(NodeKind::kParameter, f32({n * n, 2, n}));
  const Value t = b.source(NodeKind::kTangent, f32({n, n, n, n}));
  const Value split = b.permute(b.view(x, {n, n, n, 2}), {0, 2, 1, 3});
  const Value by_heads = b.view(b.clone(split), {n * n, n, 2});
  const Value y = b.op("aten.bmm.default", {by_heads, w}, list(), {f32({n * n, n, n})});
  b.returns(b.view(y, {n, n, n, n}), NodeKind::kOutput, t);
  return with_aliases(std::move(b).build());
}

// Ops that may read a product that is a strided shard. Assumes an even n.
Program readers(std::int64_t n) {
  ProgramBuilder b("readers", "");
  const Value x = b.source(NodeKind::kInput, f32({n, n, 24}));
  const Value w = b.source(NodeKind::kParameter, f32({24, 24}));
  const std::int64_t rows = n * n;
  const TensorMeta same = f32({rows, 24});
  const TensorMeta half = f32({rows / 2, 24});
  const Value flat = b.mm(b.view(x, {rows, 24}), w);
  b.permute(flat, {1, 0});
  b.expand(b.unsqueeze(flat, 0), {4, rows, 24});
  b.convert(flat, DType::kBF16);
  b.unary("aten.relu.default", flat);
  b.binary("aten.add.Tensor", flat, flat);
  b.op("aten._softmax.default", {flat}, list(0, false), {same});
  b.op("aten._softmax.default", {flat}, list(1, false), {same});
  b.op("aten.cumsum.default", {flat}, list(0), {same});
  b.op("aten.slice.Tensor", {flat}, nlohmann::json{0, 0, rows / 2, 1}, {half});
  b.op_on_list("aten.cat.default", {}, {flat, flat}, {}, list(0), f32({2 * rows, 24}));
  b.reduce("aten.sum.dim_IntList", flat, {0});
  b.reduce("aten.amax.default", flat, {0});
  b.reduce("aten.mean.dim", flat, {1});
  const nlohmann::json sizes = nlohmann::json{{rows / 2, rows / 2}, 0};
  const Value parts = b.op("aten.split_with_sizes.default", {flat}, sizes, {half, half});
  b.part(parts, 1);
  b.view(flat, {rows / 2, 48});
  b.view(flat, {n, n, 3, 8});
  return std::move(b).build().program;
}

struct StridedCase {
  const char* name;
  const char* stack;
  const char* mesh;
  std::int64_t even;  // an extent that the mesh divides
};
void PrintTo(const StridedCase& own, std::ostream* out) { *out << own.name; }

class StridedPlans : public testing::TestWithParam<StridedCase> {
 protected:
  // Runs the best plan with every `stride`-th strided layout, and expects each run to be right.
  static void expect_right(const Program& program, std::size_t stride) {
    const Stack stack = stack_with(GetParam().stack);
    const DeviceMesh mesh = DeviceMesh::parse(GetParam().mesh);
    const Topology topology = topology_with(8);
    const ProgramStrategies strategies =
        enumerate_strategies(program, mesh, {.rules = stack.rules.set(), .strided = true});
    StackEvaluator evaluator(stack, topology);
    const ProgramPrices prices(program, strategies, evaluator, mesh);
    const Executor executor(mesh, topology, {});
    std::size_t seen = 0;
    int run = 0;
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      const auto layouts = strategies.layouts.list_at(strategies.of(n).tensors[0]);
      for (const LayoutId id : std::set<LayoutId>(layouts.begin(), layouts.end())) {
        const Layout layout(strategies.layouts[id]);
        if (!layout.has_strided() || seen++ % stride != 0) continue;
        const NodePin pin{program.nodes[n].name, layout.placements};
        const ShardingProblem problem =
            make_problem(program, mesh, strategies, prices, {.pins = {pin}});
        const CostNetwork network = network_of(problem);
        const ExactSolution solution = ExactSolver(network).solve();
        if (!solution.feasible) continue;
        ++run;
        const std::vector<NodePlan> plans = plan_program(
            program, placements_of(strategies, solution.assignment), evaluator.on(mesh));
        const ProgramExecution done = execute_program(executor, program, plans);
        // AutoParallel's prices allow changes of partials that no collective makes. A plan with one
        // is refused with this reason.
        std::vector<std::size_t> refused;
        for (std::size_t i = 0; i < plans.size(); ++i) {
          const bool any = std::any_of(plans[i].moves.begin(), plans[i].moves.end(),
                                       [](const Plan& move) { return !move.unexecutable.empty(); });
          if (any) refused.push_back(i);
        }
        EXPECT_TRUE(refused.empty() || stack.rules == kAutoParallel) << done.mismatch;
        EXPECT_EQ(done.wrong, refused)
            << pin.node << "=" << layout.text() << " on " << mesh.text() << ": " << done.mismatch;
      }
    }
    EXPECT_GT(run, 10) << program.name;
  }
};

TEST_P(StridedPlans, OfProductsAreRight) { expect_right(layer(GetParam().even), 1); }
TEST_P(StridedPlans, OfUnevenProductsAreRight) { expect_right(layer(5), 1); }
TEST_P(StridedPlans, OfHeadsAreRight) { expect_right(heads(GetParam().even), 1); }
TEST_P(StridedPlans, OfUnevenHeadsAreRight) { expect_right(heads(5), 1); }
TEST_P(StridedPlans, OfReadersAreRight) { expect_right(readers(GetParam().even), 1); }

// On three mesh dims, one layout in 23 is tried here, and all of them in the slow test.
class ThreeMeshDimsOfStridedPlans : public StridedPlans {};
TEST_P(ThreeMeshDimsOfStridedPlans, AreRight) { expect_right(layer(GetParam().even), 23); }
class StridedPlansSlow : public StridedPlans {};
TEST_P(StridedPlansSlow, AreRight) { expect_right(layer(GetParam().even), 1); }

constexpr StridedCase kTwoDims[] = {
    {"AutoParallel2x2", "ap-nccl", "2x2", 4},      {"AutoParallel2x3", "ap-nccl", "2x3", 6},
    {"AutoParallel2x4", "ap-nccl", "2x4", 8},      {"AlphaBeta2x4", "alpha-beta", "2x4", 8},
    {"Compute2x4", "dtensor-v-compute", "2x4", 8}, {"Shardlab2x3", "shardlab", "2x3", 6}};
constexpr StridedCase kThreeDims[] = {{"AutoParallel2x2x2", "ap-nccl", "2x2x2", 8},
                                      {"Compute2x2x2", "dtensor-v-compute", "2x2x2", 8}};
std::string case_name(const testing::TestParamInfo<StridedCase>& test) { return test.param.name; }
INSTANTIATE_TEST_SUITE_P(All, StridedPlans, testing::ValuesIn(kTwoDims), case_name);
INSTANTIATE_TEST_SUITE_P(All, ThreeMeshDimsOfStridedPlans, testing::ValuesIn(kThreeDims),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, StridedPlansSlow, testing::ValuesIn(kThreeDims), case_name);

}  // namespace strided_plans_contract_test
}  // namespace shardlab
