// The step of an exported program beside that of the built-in model that it was exported from.
#include "runner/steps/program_step.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "costmodel/base/error.h"
#include "runner/steps/step_report.h"
#include "runner/steps/steps_answers.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/training/step_prediction.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace program_step_test {

using testing_support::shipped;

// Two layers of LLaMA3-8B with the loss; two sequences of 4,096 tokens for each of eight ranks.
class ProgramStepTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    file_ = (std::filesystem::temp_directory_path() / "shardlab-program-step.json").string();
    ProgramOptions options{.layers = 2, .batch = 16, .seqlen = 4096};
    options.loss = true;
    std::ofstream(file_) << find_built_in_program("llama3-8b")->make(options).text();
  }
  static void TearDownTestSuite() { std::filesystem::remove(file_); }

  static ProgramRun run(const std::string& mesh, bool compiled) {
    ProgramRun run;
    run.program = file_;
    run.spread = Spread::parse(mesh);
    run.compiled = compiled;
    return run;
  }
  static ProgramStep predicted(const ProgramRun& run) {
    const ConfigStore store = shipped();
    return predict_program_step(run, store, store.stack("steps"), store.topology("h100"), true);
  }
  static StepPrediction of_model(bool compiled) {
    TrainingRun run;
    run.shape = *find_model_shape("llama3-8b");
    run.shape.layers = 2;
    run.spread = Spread::parse("fsdp=8");
    run.seq = 4096;
    run.micro_batch = 2;
    run.execution = compiled ? Execution::kCompiled : Execution::kEager;
    const ConfigStore store = shipped();
    const Stack stack = store.stack("steps");
    const Topology topology = store.topology("h100");
    const auto collectives = make_collective_model(stack.collective_model, topology);
    const auto kernels = make_compute_model(stack.compute_model, topology);
    const RunTraits traits = predicted(ProgramStepTest::run("fsdp=8", compiled)).traits;
    const StepFactors factors = step_terms_of(stack).factors(traits);
    return predict_step(run, {*collectives, *kernels, topology, factors});
  }
  static std::string error_of(const ProgramRun& run) {
    try {
      static_cast<void>(predicted(run));
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  }

  static std::string file_;
};
std::string ProgramStepTest::file_;

TEST_F(ProgramStepTest, CompiledAgreesWithTheModelThatTheProgramIsOf) {
  const StepPrediction program = predicted(run("fsdp=8", true)).prediction;
  const StepPrediction model = of_model(true);
  EXPECT_NEAR(program.breakdown.gemm_us, model.breakdown.gemm_us, 1e-9 * program.step_us);
  EXPECT_NEAR(program.breakdown.attention_us, model.breakdown.attention_us, 1e-9 * program.step_us);
  EXPECT_NEAR(program.step_us / model.step_us, 1.0, 0.02);
  EXPECT_NEAR(program.mfu / program.tokens_per_s_per_gpu, model.mfu / model.tokens_per_s_per_gpu,
              1e-2 * model.mfu / model.tokens_per_s_per_gpu);
}

TEST_F(ProgramStepTest, EagerRunsEachOperatorOfTheProgramByItself) {
  const StepPrediction eager = predicted(run("fsdp=8", false)).prediction;
  const StepPrediction compiled = predicted(run("fsdp=8", true)).prediction;
  EXPECT_DOUBLE_EQ(eager.breakdown.gemm_us, compiled.breakdown.gemm_us);
  EXPECT_GT(eager.breakdown.other_us, 1.5 * compiled.breakdown.other_us);
  EXPECT_GT(eager.step_us, of_model(false).step_us);
}

TEST_F(ProgramStepTest, ThePartsOfTheStepAddUp) {
  for (const char* mesh : {"fsdp=8", "dp=2,fsdp=4", "fsdp=2,tp=4", "tp=8"}) {
    ProgramRun asked = run(mesh, true);
    asked.grad_accum = 3;
    const StepPrediction step = predicted(asked).prediction;
    const StepBreakdown& parts = step.breakdown;
    double sum =
        parts.gemm_us + parts.attention_us + parts.other_us + parts.bubble_us + parts.host_us;
    for (const auto& [kind, us] : parts.exposed_us) sum += us;
    EXPECT_NEAR(sum, step.step_us, 1e-6 * step.step_us) << mesh;
    EXPECT_GT(step.memory.parameters, 0.0) << mesh;
  }
}

// Where micro-batches follow each other, the sums of the gradients are there from the second one's
// beginning, in f32 as the parameters are.
TEST_F(ProgramStepTest, AccumulatedGradientsTakeMemory) {
  for (const char* mesh : {"dp=8", "fsdp=8"}) {
    ProgramRun asked = run(mesh, true);
    const TrainingMemory one = predicted(asked).prediction.memory;
    asked.grad_accum = 2;
    const TrainingMemory two = predicted(asked).prediction.memory;
    asked.grad_accum = 64;
    EXPECT_EQ(predicted(asked).prediction.memory.peak_bytes, two.peak_bytes) << mesh;
    EXPECT_LT(one.gradients, 0.1 * two.gradients) << mesh;
    EXPECT_NEAR(two.gradients / two.parameters, 1.0, 0.02) << mesh;
    EXPECT_NEAR(two.peak_bytes - one.peak_bytes, two.gradients - one.gradients, 0.1 * two.gradients)
        << mesh;
  }
}

// FSDP reduces the gradients of each micro-batch. Replicas add up whole ones, which takes kernels
// of its own.
TEST_F(ProgramStepTest, ReplicasAddUpTheGradientsOfMicroBatches) {
  const auto other_us = [&](const char* mesh, std::int64_t count) {
    ProgramRun asked = run(mesh, true);
    asked.grad_accum = count;
    return predicted(asked).prediction.breakdown.other_us;
  };
  const auto added = [&](const char* mesh) {
    return (other_us(mesh, 3) - other_us(mesh, 2)) - (other_us(mesh, 2) - other_us(mesh, 1));
  };
  EXPECT_NEAR(added("dp=8"), 0.0, 1e-6 * other_us("dp=8", 1));
  const double whole = other_us("dp=8", 2) - other_us("dp=8", 1);
  const double shards = other_us("fsdp=8", 2) - other_us("fsdp=8", 1);
  EXPECT_GT(whole, 1.02 * shards);
}

TEST_F(ProgramStepTest, RecipesFollowTheMesh) {
  EXPECT_EQ(predicted(run("dp=8", true)).recipe, "dp");
  EXPECT_EQ(predicted(run("fsdp=8", true)).recipe, "fsdp");
  EXPECT_EQ(predicted(run("dp=2,fsdp=4", true)).recipe, "hsdp");
  EXPECT_EQ(predicted(run("dp=2,tp=4", true)).recipe, "tp-sp");
  EXPECT_EQ(predicted(run("fsdp=2,tp=4", true)).recipe, "fsdp-tp-sp");
}

TEST_F(ProgramStepTest, RecomputationCostsTimeAndSavesMemory) {
  ProgramRun full = run("fsdp=8", true);
  full.recompute = Recomputation::parse("full");
  const StepPrediction with = predicted(full).prediction;
  const StepPrediction without = predicted(run("fsdp=8", true)).prediction;
  EXPECT_GT(with.breakdown.gemm_us, without.breakdown.gemm_us);
  EXPECT_LT(with.memory.activations, without.memory.activations);
}

TEST_F(ProgramStepTest, MeshesThatAProgramIsNotPlannedOnAreRefused) {
  EXPECT_EQ(
      error_of(run("tp=8,pp=2", true)),
      "--mesh: found pp=2, but a program is planned as one graph on all ranks; valid: dp, fsdp "
      "and tp, or a built-in model");
  EXPECT_EQ(error_of(run("dp=2,fsdp=2,tp=2", true)),
            "--mesh: found dp, fsdp and tp, for which there is no recipe; valid: two of them, or a "
            "built-in model");
  ProgramRun sharded = run("dp=8", true);
  sharded.sharding = Sharding::kFull;
  EXPECT_EQ(error_of(sharded),
            "--sharding: found full for a program on a mesh without fsdp; valid: none");
}

TEST(PicturedSpans, ShortNeighboursAndKernelsOfABlockAreOne) {
  const std::vector<StepSpan> timeline = {{"a", "compute", 0, 1},      {"b", "compute", 1, 2},
                                          {"c", "compute", 2, 500},    {"d", "compute", 500, 990},
                                          {"e", "compute", 995, 1000}, {"g", "gathers", 0, 100}};
  const std::vector<PicturedSpan> spans = pictured_spans(timeline, {});
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].tasks, 3);
  EXPECT_EQ(spans[0].name, "kernels");
  EXPECT_EQ(spans[0].end_us, 500);
  EXPECT_EQ(spans[1].name, "d");
  EXPECT_EQ(spans[2].start_us, 995);  // a gap keeps it apart
  EXPECT_EQ(spans[3].stream, "gathers");
  const std::vector<std::string> blocks = {"x", "x", "x", "x", "y", ""};
  const std::vector<PicturedSpan> by_block = pictured_spans(timeline, blocks);
  ASSERT_EQ(by_block.size(), 3U);
  EXPECT_EQ(by_block[0].name, "x");
  EXPECT_EQ(by_block[0].tasks, 4);
}

}  // namespace program_step_test
}  // namespace shardlab
