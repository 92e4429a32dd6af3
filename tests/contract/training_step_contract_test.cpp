// A training step on one device: which tasks it issues, how much memory it holds and when, and what
// a second stream hides.
#include <gtest/gtest.h>

#include <numeric>

#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_builder.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/solvers/exact.h"
#include "strategies/steps/step_memory.h"
#include "strategies/steps/training_step.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace training_step_contract_test {

using namespace testing_support;

// y = relu(x w1) w2, and its gradients. The gradient of the relu stands in as a product.
Program two_products() {
  ProgramBuilder b("two products", "a test");
  const auto f32 = [](Shape shape) { return meta_of(DType::kF32, std::move(shape)); };
  const Value w1 = b.source(NodeKind::kParameter, f32({4, 6}), "layers.0.w");
  const Value w2 = b.source(NodeKind::kParameter, f32({6, 4}), "layers.1.w");
  const Value x = b.source(NodeKind::kInput, f32({8, 4}));
  const Value t = b.source(NodeKind::kTangent, f32({8, 4}));
  const Value a = b.mm(x, w1);
  const Value r = b.unary("aten.relu.default", a);
  const Value y = b.mm(r, w2);
  b.returns(y, NodeKind::kOutput, t);
  b.begin_backward();
  const Value dw2 = b.mm(b.permute(r, {1, 0}), t);
  const Value dr = b.mm(t, b.permute(w2, {1, 0}));
  const Value da = b.binary("aten.mul.Tensor", dr, a);
  const Value dw1 = b.mm(b.permute(x, {1, 0}), da);
  b.returns(dw1, NodeKind::kGradient, w1);
  b.returns(dw2, NodeKind::kGradient, w2);
  return with_aliases(std::move(b).build());
}

// What a test asks of a plan: nothing, the layouts of FSDP, or all tensors whole.
enum class Ask { kNothing, kFsdp, kWhole };

// The best plan of a program on a mesh.
class Solved {
 public:
  Solved(Program program, const std::string& mesh, const Recomputation& policy = {},
         Ask ask = Ask::kNothing, const std::string& stack = "calibrated-h100")
      : program_(std::move(program)),
        mesh_(DeviceMesh::parse(mesh)),
        evaluator_(shipped().stack(stack), shipped().topology("h100")),
        blocks_(blocks_of(program_)),
        strategies_(enumerate_strategies(
            program_, mesh_,
            {.rules = evaluator_.stack().rules.set(), .links = links_of(evaluator_.on(mesh_))})),
        prices_(program_, strategies_, evaluator_, mesh_) {
    ProblemOptions options;
    for (const bool again : recomputed_nodes(program_, blocks_, policy)) {
      options.runs.push_back(again ? 2 : 1);
    }
    if (ask == Ask::kFsdp) options.masks = shipped().recipe("fsdp").masks(program_, mesh_);
    for (std::size_t n = 0; ask == Ask::kWhole && n < program_.nodes.size(); ++n) {
      if (program_.nodes[n].outputs.empty()) continue;
      options.masks.push_back(
          {.node = n, .placements = {Placement::replicate()}, .by = "the test"});
    }
    const ShardingProblem problem = make_problem(program_, mesh_, strategies_, prices_, options);
    const CostNetwork network = network_of(problem);
    const ExactSolution solution = ExactSolver(network).solve();
    objective_us = solution.objective;
    std::vector<double> compute_us;
    std::vector<const OpRule*> rules;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const auto value = static_cast<std::size_t>(solution.assignment[n]);
      compute_us.push_back(prices_.compute_us(strategies_.class_of[n])[value]);
      rules.push_back(strategies_.of(n).rule);
    }
    planned_ = planned_program(program_, placements_of(strategies_, solution.assignment),
                               std::move(compute_us), rules, evaluator_.on(mesh_));
  }

  TrainingStep step(const StepOptions& options) {
    return make_step(planned_, blocks_, evaluator_.on(mesh_), options);
  }
  double simulated(const StepOptions& options) {
    return simulated_us(step(options), mesh_, evaluator_.topology());
  }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const ModelBlocks& blocks() const { return blocks_; }
  [[nodiscard]] const PlannedProgram& planned() const { return planned_; }

  double objective_us = 0.0;

 private:
  Program program_;
  DeviceMesh mesh_;
  StackEvaluator evaluator_;
  ModelBlocks blocks_;
  ProgramStrategies strategies_;
  ProgramPrices prices_;
  PlannedProgram planned_;
};

double part(const MemoryParts& parts, MemoryPart which) {
  return parts[static_cast<std::size_t>(which)];
}
double total(const MemoryParts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

std::vector<std::string> names_of(const TrainingStep& step) {
  std::vector<std::string> names;
  for (const StepTask& task : step.tasks) names.push_back(task.kernel.name);
  return names;
}
std::vector<double> totals_of(const TrainingStep& step) {
  std::vector<double> totals;
  for (const MemoryParts& parts : memory_by_task(step)) totals.push_back(total(parts));
  return totals;
}

// The bytes are worked out by hand: x, y and t have 128, each weight and its gradient 96, a and r
// and their gradients 192, the optimizer's state 384.
TEST(TrainingStep, HoldsWhatTheBackwardPassReads) {
  Solved solved(two_products(), "1", {}, Ask::kWhole);
  const TrainingStep step = solved.step({});
  const std::string mm = "aten.mm.default";
  EXPECT_EQ(names_of(step),
            (std::vector<std::string>{mm, "aten.relu.default", mm, mm, mm, "aten.mul.Tensor", mm}));
  EXPECT_EQ(totals_of(step), (std::vector<double>{896, 1088, 1216, 1312, 1312, 1376, 1088}));
  const StepMemory memory = memory_of(step);
  EXPECT_EQ(memory.peak_bytes, 1376);
  EXPECT_EQ(memory.peak_task, 5);
  EXPECT_EQ(part(memory.parts, MemoryPart::kParameters), 192);
  EXPECT_EQ(part(memory.parts, MemoryPart::kGradients), 96);
  EXPECT_EQ(part(memory.parts, MemoryPart::kOptimizer), 384);
  EXPECT_EQ(part(memory.parts, MemoryPart::kActivations), 128 + 192);
  EXPECT_EQ(part(memory.parts, MemoryPart::kTemporary), 2 * 192);
}

// With full recomputation, r is kept, because the next block reads it, and a is computed again.
TEST(TrainingStep, RecomputesWhatOnlyItsOwnBlockReads) {
  const Recomputation full = Recomputation::parse("full");
  Solved solved(two_products(), "1", full, Ask::kWhole);
  const TrainingStep step = solved.step({.recomputation = full});
  const std::string mm = "aten.mm.default";
  EXPECT_EQ(names_of(step), (std::vector<std::string>{mm, "aten.relu.default", mm, mm, mm, mm,
                                                      "aten.mul.Tensor", mm}));
  ASSERT_TRUE(step.tasks[5].runs_again);
  EXPECT_EQ(std::ranges::count_if(step.tasks, &StepTask::runs_again), 1);
  EXPECT_EQ(totals_of(step), (std::vector<double>{896, 1088, 1024, 1120, 1120, 1184, 1376, 1088}));
  EXPECT_EQ(part(memory_of(step).parts, MemoryPart::kActivations), 128);
}

TEST(TrainingStep, EndsWithStateAndGradientsAlone) {
  for (const char* policy : {"none", "selective", "full", "every:2"}) {
    for (const bool reshards : {false, true}) {
      SCOPED_TRACE(std::string(policy) + (reshards ? ", resharded" : ""));
      Recomputation recomputation = Recomputation::parse(policy);
      recomputation.reshards_weights = reshards;
      Solved solved(
          find_built_in_program("llama3-8b")->make({.layers = 2, .batch = 8, .seqlen = 64}), "2x2",
          recomputation);
      for (const bool units : {false, true}) {
        const TrainingStep step = solved.step({.recomputation = recomputation, .units = units});
        const std::vector<MemoryParts> memory = memory_by_task(step);
        double parameters = 0.0;
        for (const StepBuffer& buffer : step.buffers) {
          if (buffer.part == MemoryPart::kParameters) parameters += buffer.bytes;
          EXPECT_LE(buffer.made_by, buffer.last_use);
        }
        // Parameters and gradients are f32, Adam's two moments as well. Buffers have no gradient.
        EXPECT_DOUBLE_EQ(part(memory.back(), MemoryPart::kParameters), parameters);
        EXPECT_GT(part(memory.back(), MemoryPart::kGradients), 0.99 * parameters * 0.9);
        EXPECT_DOUBLE_EQ(part(memory.back(), MemoryPart::kOptimizer),
                         2.0 * part(memory.back(), MemoryPart::kGradients));
        EXPECT_LT(part(memory.back(), MemoryPart::kTemporary), 0.05 * total(memory.back()));
        for (const MemoryParts& parts : memory) {
          for (const double bytes : parts) EXPECT_GE(bytes, -1.0);
        }
      }
    }
  }
}

// Without units, every kernel and every step of a move is a task of its own: their sum is the
// objective.
TEST(TrainingStep, TasksSumToTheObjective) {
  for (const char* name : {"llama3-8b", "gpt2-xl", "moe-1.3b-64e"}) {
    for (const char* mesh : {"8", "2x4"}) {
      for (const char* policy : {"none", "selective", "full"}) {
        for (const bool reshards : {false, true}) {
          SCOPED_TRACE(std::string(name) + " on " + mesh + ", " + policy +
                       (reshards ? ", resharded" : ""));
          Recomputation recomputation = Recomputation::parse(policy);
          recomputation.reshards_weights = reshards;
          Solved solved(find_built_in_program(name)->make({.layers = 2, .batch = 8, .seqlen = 64}),
                        mesh, recomputation);
          const double executed = executed_us(solved.planned(), solved.blocks(), recomputation);
          EXPECT_NEAR(executed, solved.objective_us, 1e-9 * executed);
          EXPECT_NEAR(sum_us(solved.step({.recomputation = recomputation, .units = false})),
                      executed, 1e-9 * executed);
        }
      }
    }
  }
}

// A step takes at least as long as the busiest stream, and at most as long as all of its tasks.
TEST(TrainingStep, OverlapsWithinItsBounds) {
  Solved solved(find_built_in_program("llama3-8b")->make({.layers = 3, .batch = 8, .seqlen = 512}),
                "8");
  for (const bool units : {false, true}) {
    for (const int prefetch : {0, 1, 4}) {
      const StepOptions options{.units = units, .prefetch = prefetch};
      const TrainingStep step = solved.step(options);
      std::array<double, kStreams> busy{};
      for (const StepTask& task : step.tasks) {
        busy[static_cast<std::size_t>(task.kernel.stream)] += task.kernel.price.value();
      }
      const double us = solved.simulated(options);
      EXPECT_GE(us, *std::ranges::max_element(busy) * (1.0 - 1e-9));
      EXPECT_LE(us, sum_us(step) * (1.0 + 1e-6));
    }
  }
}

// Weights of a block travel in one collective, and so do its gradients.
TEST(TrainingStep, UnitsMergeAlikeCollectives) {
  const Program program =
      find_built_in_program("llama3-8b")->make({.layers = 3, .batch = 8, .seqlen = 512});
  Solved solved(program, "8", {}, Ask::kFsdp);
  const auto count = [](const TrainingStep& step, Stream stream) {
    return std::ranges::count_if(
        step.tasks, [&](const StepTask& task) { return task.kernel.stream == stream; });
  };
  const TrainingStep one_by_one = solved.step({.units = false});
  EXPECT_EQ(count(one_by_one, Stream::kGather) + count(one_by_one, Stream::kReduction), 0);
  const TrainingStep units = solved.step({.units = true});
  const auto collectives = [](const TrainingStep& step) {
    double bytes = 0.0;
    int number = 0;
    for (const StepTask& task : step.tasks) {
      if (task.kernel.mesh_dims.empty()) continue;
      bytes += task.kernel.full_bytes;
      ++number;
    }
    return std::pair(number, bytes);
  };
  EXPECT_LT(2 * collectives(units).first, collectives(one_by_one).first);
  EXPECT_NEAR(collectives(units).second, collectives(one_by_one).second,
              1e-9 * collectives(one_by_one).second);
  EXPECT_LE(sum_us(units), sum_us(one_by_one));
}

// A small gradient is reduced by an all-reduce, of which each rank then cuts its part. The next
// block's kernels do not wait for that: only what reduces gradients does.
TEST(TrainingStep, NoKernelWaitsForAReducedGradient) {
  const Program program =
      find_built_in_program("llama3-8b")->make({.layers = 3, .batch = 64, .seqlen = 512});
  Solved solved(program, "64", {}, Ask::kFsdp, "steps");
  const TrainingStep step = solved.step({});
  int cuts = 0;
  for (const StepTask& task : step.tasks) {
    for (const int before : task.kernel.after) {
      if (step.tasks[static_cast<std::size_t>(before)].kernel.stream != Stream::kReduction)
        continue;
      EXPECT_EQ(task.kernel.stream, Stream::kReduction) << task.kernel.name;
      if (task.kernel.mesh_dims.empty()) ++cuts;
    }
  }
  EXPECT_GT(cuts, 0);
}

// What is resharded is gathered twice; it is not held between the passes.
TEST(TrainingStep, ReshardedWeightsAreNotHeld) {
  const Program program =
      find_built_in_program("llama3-8b")->make({.layers = 4, .batch = 8, .seqlen = 64});
  Recomputation reshards;
  reshards.reshards_weights = true;
  Solved kept(program, "8", {}, Ask::kFsdp);
  const auto gathered_between_passes = [](const TrainingStep& step) {
    const auto turn = std::ranges::find(step.tasks, Phase::kBackward, &StepTask::pass);
    const std::vector<MemoryParts> memory = memory_by_task(step);
    return part(memory[static_cast<std::size_t>(turn - step.tasks.begin()) - 1],
                MemoryPart::kGathered);
  };
  const TrainingStep held = kept.step({});
  const TrainingStep dropped = kept.step({.recomputation = reshards});
  EXPECT_LT(gathered_between_passes(dropped), gathered_between_passes(held));
  const auto gathers = [](const TrainingStep& step) {
    return std::ranges::count_if(step.tasks, [](const StepTask& task) {
      return task.kernel.stream == Stream::kGather && !task.kernel.mesh_dims.empty();
    });
  };
  EXPECT_GT(gathers(dropped), gathers(held));
}

// Blocks run again one after the other, each when the backward pass comes to it.
TEST(TrainingStep, BlocksRunAgainOneByOne) {
  const Recomputation full = Recomputation::parse("full");
  for (const bool loss : {false, true}) {
    const Program program = find_built_in_program("llama3-8b")
                                ->make({.layers = 4, .batch = 8, .seqlen = 64, .loss = loss});
    Solved solved(program, "8", full, Ask::kFsdp);
    std::vector<int> blocks;  // in the order in which they run again
    for (const StepTask& task : solved.step({.recomputation = full}).tasks) {
      const int block = solved.blocks().block[task.node];
      if (task.runs_again && (blocks.empty() || blocks.back() != block)) blocks.push_back(block);
    }
    EXPECT_EQ(blocks, (std::vector<int>{3, 2, 1, 0}));
  }
}

}  // namespace training_step_contract_test
}  // namespace shardlab
