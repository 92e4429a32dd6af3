// What a stack's decisions make of a training step, and what a flip costs in it.
#include "strategies/steps/eager_step.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_prices.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace eager_step_test {

using testing_support::stack_with;
using testing_support::topology_with;

Program program_of(const nlohmann::json& json) { return Program::from_json(json, {"test", ""}); }

// y = x @ w, z = relu(y), with x and w cut so that something has to move.
Program two_ops() {
  const nlohmann::json half = {{"dtype", "bf16"}, {"shape", {4096, 4096}}};
  return program_of({{"schema", "shardlab/program/1"},
                     {"name", "two-ops"},
                     {"source", "by hand"},
                     {"nodes",
                      {{{"name", "x"}, {"kind", "input"}, {"outputs", {half}}},
                       {{"name", "w"}, {"kind", "input"}, {"outputs", {half}}},
                       {{"name", "y"},
                        {"kind", "op"},
                        {"op", "aten.mm.default"},
                        {"inputs", {"x", "w"}},
                        {"outputs", {half}}},
                       {{"name", "z"},
                        {"kind", "op"},
                        {"op", "aten.relu.default"},
                        {"inputs", {"y"}},
                        {"outputs", {half}}},
                       {{"name", "out"},
                        {"kind", "output"},
                        {"op", "output"},
                        {"inputs", {"z"}},
                        {"outputs", {half}}}}}});
}

std::vector<Placements> sources_of(const Program& program, const DeviceMesh& mesh,
                                   const std::string& parameters, const std::string& others) {
  std::vector<Placements> sources;
  for (const ProgramNode& node : program.nodes) {
    const bool fits = !node.outputs.empty() && node.outputs[0].shape.size() > 1;
    const std::string& text = node.kind == NodeKind::kParameter ? parameters : others;
    sources.push_back(fits ? Layout::parse(text, mesh.ndim()).placements
                           : Layout::replicated(mesh.ndim()).placements);
  }
  return sources;
}

// Everything waits for what comes before it here, so that the step takes the sum of the prices of
// what DTensor would run, each asked for by itself.
TEST(EagerStep, IsTheSumOfWhatTheStackRunsWhereNothingOverlaps) {
  const Program program = two_ops();
  const DeviceMesh mesh = DeviceMesh::parse("8");
  const Topology topology = topology_with(8);
  const Stack stack = stack_with("dtensor-v3");
  const Stack reference = stack_with("alpha-beta");
  std::vector<Placements> sources = sources_of(program, mesh, "R", "S(0)");
  sources[1] = Layout::parse("S(1)", 1).placements;
  EagerStep eager(program, mesh, sources, reference, topology, {});
  EagerStack asked(stack, topology);
  const EagerRun run = eager.run(asked);

  StackEvaluator own(stack, topology);
  StackEvaluator judge(reference, topology);
  double sum = 0.0;
  std::vector<NodePlacements> placements;
  std::vector<std::string> inputs = {"bf16[4096,4096] S(0)", "bf16[4096,4096] S(1)"};
  for (const std::string& op : {std::string("aten.mm.default"), std::string("aten.relu.default")}) {
    const OpCall call = testing_support::call_of(op, inputs, 1);
    const Candidate choice = own.select(call, mesh).choice;
    const auto tensors = call.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      sum += judge.on(mesh)
                 .price_of(
                     own.plan(mesh, tensors[i]->meta, tensors[i]->layout, Layout(choice.inputs[i])))
                 .total.value();
    }
    sum += judge.compute_us(find_op_rule(op, reference.rules), call, mesh, choice.inputs,
                            choice.outputs);
    inputs = {"bf16[4096,4096] " + Layout(choice.outputs[0]).text()};
  }
  EXPECT_GT(sum, 100.0);
  EXPECT_NEAR(run.step_us, sum, 1e-3 * 2);  // the simulator counts in whole nanoseconds
  ASSERT_EQ(run.questions.size(), 2U);
  EXPECT_EQ(run.questions[0].nodes, std::vector<std::size_t>{2});
}

TEST(EagerStep, AFlipAloneIsWhatTheStepChangesByWhereItIsTheOnlyOne) {
  const Program program =
      find_built_in_program("llama3-8b")
          ->make({.layers = 1, .batch = 8, .seqlen = 8192, .matmul = MatmulForm::kNative});
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  const Topology topology = topology_with(8);
  // Parameters cut over both mesh dims and a batch that is cut over both: FSDP on all ranks.
  EagerStep eager(program, mesh, sources_of(program, mesh, "S(0)S(0)", "S(0)S(0)"),
                  stack_with("alpha-beta"), topology, {});
  EagerStack baseline(stack_with("dtensor-v3"), topology);
  EagerStack candidate(stack_with("dtensor-v4"), topology);
  const EagerRun before = eager.run(baseline);
  const EagerRun after = eager.run(candidate);
  const std::vector<StepFlip> flips = eager.flips(baseline, candidate);
  ASSERT_EQ(flips.size(), 1U);
  EXPECT_NE(flips[0].baseline, flips[0].candidate);
  EXPECT_GE(flips[0].count, 1);
  EXPECT_NE(after.step_us, before.step_us);
  EXPECT_DOUBLE_EQ(flips[0].delta_step_us, after.step_us - before.step_us);
  EXPECT_DOUBLE_EQ(flips[0].delta_peak_bytes, after.peak_bytes - before.peak_bytes);
  EXPECT_GT(before.peak_bytes, 1e9);
}

TEST(EagerStep, AStackFlipsNothingAgainstItself) {
  const Program program =
      find_built_in_program("llama3-8b")
          ->make({.layers = 1, .batch = 8, .seqlen = 512, .matmul = MatmulForm::kNative});
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const Topology topology = topology_with(8);
  EagerStep eager(program, mesh, sources_of(program, mesh, "S(0)", "S(0)"),
                  stack_with("alpha-beta"), topology, {});
  EagerStack one(stack_with("dtensor-v4"), topology);
  EagerStack same(stack_with("dtensor-v4"), topology);
  EXPECT_TRUE(eager.flips(one, same).empty());
  EXPECT_EQ(eager.run(one).step_us, eager.run(same).step_us);
}

TEST(EagerStep, GradientsEndInTheLayoutOfTheirParameters) {
  const Program program =
      find_built_in_program("llama3-8b")
          ->make({.layers = 1, .batch = 8, .seqlen = 512, .matmul = MatmulForm::kNative});
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const Topology topology = topology_with(8);
  EagerStep eager(program, mesh, sources_of(program, mesh, "S(0)", "S(0)"),
                  stack_with("alpha-beta"), topology, {});
  EagerStack stack(stack_with("dtensor-v4"), topology);
  std::size_t reductions = 0;
  for (const AskedQuestion& asked : eager.run(stack).questions) {
    if (asked.decision->question.kind != Question::Kind::kPlan) continue;
    for (const std::size_t n : asked.nodes) {
      if (program.nodes[n].kind != NodeKind::kGradient) continue;
      const bool is_matrix = program.nodes[n].outputs[0].shape.size() > 1;
      EXPECT_EQ(Layout(asked.decision->inputs[0]).text(), is_matrix ? "S(0)" : "R");
      for (const PlanStep& step : asked.decision->moves[0].steps) {
        if (step.collective == Collective::kReduceScatter) ++reductions;
      }
    }
  }
  EXPECT_GT(reductions, 0U);
}

TEST(EagerStep, RefusesWhatItCannotPrice) {
  const Program program = two_ops();
  const DeviceMesh mesh = DeviceMesh::parse("8");
  const auto sources = sources_of(program, mesh, "R", "S(0)");
  const Topology topology = topology_with(8);
  EXPECT_THROW(EagerStep(program, mesh, sources, stack_with("dtensor-v3"), topology, {}),
               InputError);
  EXPECT_THROW(EagerStep(program, mesh, {}, stack_with("alpha-beta"), topology, {}), InputError);
}

}  // namespace eager_step_test
}  // namespace shardlab
