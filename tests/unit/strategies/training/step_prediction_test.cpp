#include "strategies/training/step_prediction.h"

#include <gtest/gtest.h>

#include <numeric>

#include "costmodel/base/error.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace step_prediction_test {

using testing_support::collective_model;
using testing_support::compute_model;
using testing_support::topology_json;

struct Models {
  explicit Models(nlohmann::json json = topology_json(8), const char* kernels = "roofline")
      : topology(Topology::from_json(json, {"test.json", ""})),
        collectives(collective_model({{"name", "alpha_beta"}}, topology)),
        computes(compute_model({{"name", kernels}}, topology)) {}
  [[nodiscard]] StepModel with(const StepFactors& factors = {}) const {
    return {*collectives, *computes, topology, factors};
  }
  Topology topology;
  std::unique_ptr<CostModel> collectives;
  std::unique_ptr<ComputeModel> computes;
};

TrainingRun run_of(const std::string& model, const std::string& mesh) {
  TrainingRun run;
  run.shape = *find_model_shape(model);
  run.spread = Spread::parse(mesh);
  return run;
}

double sum_of(const StepBreakdown& breakdown) {
  double sum = breakdown.gemm_us + breakdown.attention_us + breakdown.other_us +
               breakdown.bubble_us + breakdown.host_us;
  for (const auto& [kind, us] : breakdown.exposed_us) sum += us;
  return sum;
}

double sum_of(const TrainingMemory& memory) {
  return memory.parameters + memory.gradients + memory.optimizer + memory.activations +
         memory.gathered + memory.temporary;
}

// Runs of many kinds, small enough to be predicted fast.
std::vector<TrainingRun> many_runs() {
  std::vector<TrainingRun> runs;
  for (const char* mesh : {"dp=1", "dp=8", "fsdp=8", "dp=4,fsdp=8", "fsdp=16,tp=8", "tp=8", "cp=4",
                           "fsdp=4,tp=2,cp=4", "pp=4", "dp=2,tp=8,pp=4", "fsdp=4,pp=2,cp=2"}) {
    for (const auto execution : {Execution::kEager, Execution::kCompiled, Execution::kLibrary}) {
      for (const char* model : {"llama3-8b", "gpt3-6.7b"}) {
        TrainingRun run = run_of(model, mesh);
        run.shape.layers = 8;
        run.execution = execution;
        run.grad_accum = run.spread.pp > 1 ? 8 : 3;
        runs.push_back(run);
        run.async_tp = true;
        run.overlap_tp = true;
        run.recompute = Recomputation::parse("full");
        if (run.spread.pp > 1) {
          run.chunks = 2;
          run.schedule = PipelineSchedule::kInterleaved;
        }
        runs.push_back(run);
        run.chunks = 1;
        run.schedule = PipelineSchedule::kZeroBubble;
        run.precision = Precision::kMXFP8;
        run.overlap_gradients = false;
        runs.push_back(run);
      }
    }
  }
  for (const Sharding sharding :
       {Sharding::kNone, Sharding::kOptimizer, Sharding::kKeptWeights, Sharding::kFull}) {
    TrainingRun run = run_of("qwen3-30b-a3b", "dp=2,fsdp=8,tp=2,ep=16");
    run.shape.layers = 6;
    run.sharding = sharding;
    run.grad_accum = 2;
    runs.push_back(run);
    run.overlap_experts = true;
    run.graphs = true;
    runs.push_back(run);
  }
  runs.push_back(run_of("nemotron3-nano-30b", "fsdp=16,ep=8"));
  runs.push_back(run_of("deepseek-v2-lite", "fsdp=8,ep=8"));
  return runs;
}

std::string text_of(const TrainingRun& run) {
  return run.shape.name + " " + run.spread.text() + " " + std::string(name_of(run.execution)) +
         " " + std::string(name_of(run.schedule)) + " " + std::string(name_of(run.sharding)) +
         " chunks " + std::to_string(run.chunks) + (run.async_tp ? " async" : "");
}

TEST(StepPrediction, TheBreakdownSumsToTheStep) {
  const Models models;
  const StepFactors slow_host{.host_us = 20.0, .waiting = 0.01, .fixed_us = 1e3};
  for (const TrainingRun& run : many_runs()) {
    for (const StepFactors& factors : {StepFactors{}, slow_host}) {
      const StepPrediction step = predict_step(run, models.with(factors));
      EXPECT_NEAR(sum_of(step.breakdown) / step.step_us, 1.0, 1e-6) << text_of(run);
      for (const auto& [kind, us] : step.breakdown.exposed_us) {
        EXPECT_GE(us, -1e-6 * step.step_us) << kind << " of " << text_of(run);
      }
      EXPECT_GE(step.breakdown.host_us, 0.0) << text_of(run);
      EXPECT_GT(step.mfu, 0.0) << text_of(run);
      EXPECT_LT(step.mfu, 1.0) << text_of(run);
    }
  }
}

TEST(StepPrediction, PartsOfTheMemorySumToItsPeak) {
  const Models models;
  for (const TrainingRun& run : many_runs()) {
    const TrainingMemory memory = StepWork(run, 80e9).memory();
    EXPECT_DOUBLE_EQ(sum_of(memory), memory.peak_bytes) << text_of(run);
    EXPECT_GT(memory.parameters, 0.0);
    EXPECT_GT(memory.activations, 0.0);
  }
}

TEST(StepPrediction, TokensFollowFromTheStep) {
  const Models models;
  const TrainingRun run = run_of("llama3-8b", "fsdp=4,tp=2");
  const StepPrediction step = predict_step(run, models.with());
  EXPECT_DOUBLE_EQ(step.tokens_per_s_per_gpu, 4.0 * 4096.0 / 8.0 / (step.step_us * 1e-6));
  EXPECT_DOUBLE_EQ(step.mfu,
                   step.tokens_per_s_per_gpu * model_flops_per_token(run.shape, 4096) / 989e12);
}

// The kernels of asynchronous TP are cut up, not made more or fewer.
TEST(StepPrediction, KernelsBesideCollectivesCountOnce) {
  const Models models;
  for (const char* model : {"llama3-8b", "gpt3-6.7b", "mpt-7b"}) {
    for (const char* mesh : {"tp=8", "tp=2,cp=4", "cp=8"}) {
      for (const auto execution : {Execution::kEager, Execution::kLibrary}) {
        TrainingRun run = run_of(model, mesh);
        run.execution = execution;
        const StepBreakdown plain = predict_step(run, models.with()).breakdown;
        run.async_tp = true;
        const StepPrediction step = predict_step(run, models.with());
        EXPECT_NEAR(step.breakdown.gemm_us / plain.gemm_us, 1.0, 1e-9) << model << " " << mesh;
        EXPECT_NEAR(step.breakdown.attention_us / plain.attention_us, 1.0, 1e-9) << model;
        EXPECT_NEAR(step.breakdown.other_us / plain.other_us, 1.0, 1e-9) << model;
      }
    }
  }
}

TEST(StepPrediction, AsynchronousTensorParallelismHidesItsCollectives) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "tp=8");
  run.execution = Execution::kCompiled;
  const StepPrediction plain = predict_step(run, models.with());
  run.async_tp = true;
  const StepPrediction beside = predict_step(run, models.with());
  EXPECT_LT(beside.step_us, plain.step_us);
  // Before the step's last collective everything that is left are the products.
  EXPECT_GT(beside.step_us, plain.breakdown.gemm_us + plain.breakdown.attention_us);
}

// Hand-written kernels gather their inputs again beside the gradients of these inputs.
TEST(StepPrediction, WhatIsGatheredAgainIsHidden) {
  const Models models;
  const StepFactors free{.collective_share = 0.0, .memory_passes = 0.0};
  TrainingRun run = run_of("gpt3-6.7b", "tp=2");
  run.graphs = true;
  const StepBreakdown eager = predict_step(run, models.with(free)).breakdown;
  run.execution = Execution::kLibrary;
  const StepBreakdown library = predict_step(run, models.with(free)).breakdown;
  EXPECT_NEAR(library.exposed_us.at("all_gather") / eager.exposed_us.at("all_gather"), 1.0, 1e-9);
  EXPECT_GT(library.collectives_us, 1.2 * eager.collectives_us);
  EXPECT_NEAR(library.gemm_us / eager.gemm_us, 1.0, 1e-9);
  // Over links so slow that a gather takes longer than the product, its end is exposed.
  StepFactors slow = free;
  slow.links = 0.02;
  EXPECT_GT(predict_step(run, models.with(slow)).breakdown.exposed_us.at("all_gather"),
            20.0 * library.exposed_us.at("all_gather"));
}

TEST(StepPrediction, OneRankCommunicatesAndCopiesNothing) {
  const Models models;
  TrainingRun run = run_of("llama3-1b", "dp=1");
  for (const Sharding sharding : {Sharding::kNone, Sharding::kOptimizer, Sharding::kFull}) {
    run.sharding = sharding;
    run.copies_weights = true;
    const StepPrediction step = predict_step(run, models.with());
    for (const auto& [kind, us] : step.breakdown.exposed_us) EXPECT_EQ(us, 0.0) << kind;
    run.copies_weights = false;
    EXPECT_EQ(predict_step(run, models.with()).step_us, step.step_us);
  }
}

TEST(StepPrediction, ExpertsWeightsAreCopiedAsOthersAre) {
  const Models models;
  TrainingRun run = run_of("mixtral-8x7b", "fsdp=8");
  run.shape.layers = 4;
  const double copied = predict_step(run, models.with()).breakdown.other_us;
  run.copies_weights = false;
  const double kept = predict_step(run, models.with()).breakdown.other_us;
  // Weights out of the buffers in forward and backward pass (the last unit keeps them), 4 bytes
  // each, and gradients into them, 2 + 4 bytes; at the memory's bandwidth of 3,350 GB/s this takes
  // at least
  const ParameterCounts counts = parameter_counts(run.shape);
  const double experts = 4.0 * 8.0 * counts.one_expert;
  EXPECT_GT(copied - kept, 14.0 * experts / 3350e3);
}

TEST(StepPrediction, TimeFallsAsRatesRise) {
  const Models models;
  for (const char* mesh : {"fsdp=16,tp=4", "dp=2,tp=8,pp=4", "fsdp=16,cp=2"}) {
    TrainingRun run = run_of("llama3-8b", mesh);
    run.shape.layers = 8;
    run.grad_accum = 4;
    const StepWork work(run, 80e9);
    for (double StepFactors::*factor :
         {&StepFactors::rate, &StepFactors::gemm, &StepFactors::attention, &StepFactors::memory,
          &StepFactors::links, &StepFactors::network}) {
      double before = INFINITY;
      for (const double value : {0.25, 0.5, 1.0, 2.0, 4.0}) {
        StepFactors factors;
        factors.*factor = value;
        // Kernels that are faster need more of the memory's bandwidth, so that a collective beside
        // them may end later, and the step with it (by up to 1.3 % here).
        factors.memory_passes = 0.0;
        const double step = predict_step(work, models.with(factors)).step_us;
        EXPECT_LE(step, before * (1 + 1e-9)) << mesh << " " << value;
        before = step;
      }
    }
    StepFactors slow;
    slow.rate = 0.5;
    EXPECT_GT(predict_step(work, models.with(slow)).step_us,
              1.2 * predict_step(work, models.with()).step_us);
  }
}

TEST(StepPrediction, TimeFallsAsBandwidthRises) {
  const TrainingRun run = run_of("llama3-8b", "dp=2,fsdp=16,tp=2");
  for (const int link : {0, 1}) {
    double before = INFINITY;
    for (const double bandwidth : {10.0, 50.0, 200.0, 900.0}) {
      nlohmann::json json = topology_json(8);
      json["links"][static_cast<std::size_t>(link)]["bandwidth_gb_per_s"] = bandwidth;
      const double step = predict_step(run, Models(json).with()).step_us;
      EXPECT_LE(step, before) << link << " " << bandwidth;
      before = step;
    }
  }
}

// Where replicas' collectives cost nothing, a million of them are as fast as one.
TEST(StepPrediction, GroupsOfTheSamePriceTakeTheSameTime) {
  class Free final : public CostModel {
   public:
    [[nodiscard]] Price price(const CollectiveQuery& /*query*/) const override { return {}; }
  };
  const Models models;
  const Free free;
  const auto step_us = [&](const std::string& mesh) {
    return predict_step(
               run_of("llama3-8b", mesh),
               {free, *models.computes, models.topology, {.collective_share = 0.0, .waiting = 0.0}})
        .step_us;
  };
  EXPECT_DOUBLE_EQ(step_us("dp=1,fsdp=8"), step_us("dp=131072,fsdp=8"));
  EXPECT_DOUBLE_EQ(step_us("dp=2,fsdp=8,tp=8"), step_us("dp=16384,fsdp=8,tp=8"));
}

TEST(StepPrediction, ShardsDivideWhatIsKeptOfTheState) {
  // Gradients that are accumulated are there at the peak; others come while activations go.
  const auto accumulated = [](const std::string& mesh) {
    TrainingRun run = run_of("llama3-8b", mesh);
    run.grad_accum = 2;
    return StepWork(run, 80e9).memory();
  };
  const TrainingMemory one = accumulated("fsdp=1");
  const TrainingMemory eight = accumulated("fsdp=8");
  EXPECT_EQ(StepWork(run_of("llama3-8b", "fsdp=8"), 80e9).memory().gradients, 0.0);
  const double elements = parameters_of(*find_model_shape("llama3-8b"));
  EXPECT_NEAR(one.parameters / elements, 4.0, 1e-3);
  EXPECT_NEAR(one.gradients / elements, 4.0, 1e-3);
  EXPECT_NEAR(one.optimizer / elements, 8.0, 1e-3);
  EXPECT_DOUBLE_EQ(8.0 * eight.parameters, one.parameters);
  EXPECT_DOUBLE_EQ(8.0 * eight.optimizer, one.optimizer);
  // Replicas of shards have no effect on a rank's memory.
  EXPECT_EQ(accumulated("dp=4,fsdp=8").peak_bytes, eight.peak_bytes);
  // So do replicas of experts, which only add to what the gradients' reduction has to do.
  for (const char* ep : {"", ",ep=4"}) {
    const auto of_experts = [&](const std::string& dp) {
      TrainingRun experts = run_of("qwen3-30b-a3b", dp + "fsdp=8" + ep);
      experts.shape.layers = 4;
      return predict_step(experts, Models().with({.waiting = 0.0}));
    };
    const StepPrediction shards = of_experts("");
    const StepPrediction replicas = of_experts("dp=2,");
    EXPECT_EQ(replicas.memory.peak_bytes, shards.memory.peak_bytes) << ep;
    EXPECT_GT(replicas.step_us, shards.step_us) << ep;
    EXPECT_DOUBLE_EQ(replicas.breakdown.exposed_us.at("all_gather"),
                     shards.breakdown.exposed_us.at("all_gather"))
        << ep;
  }
  // ZeRO-1 keeps weights and gradients whole, and shards 12 bytes for each parameter.
  TrainingRun run = run_of("llama3-8b", "dp=8");
  run.sharding = Sharding::kOptimizer;
  run.gradient_bytes = 2.0;
  const TrainingMemory zero = StepWork(run, 80e9).memory();
  EXPECT_NEAR(zero.parameters / elements, 2.0, 1e-3);
  EXPECT_NEAR(zero.gradients / elements, 2.0, 1e-3);
  EXPECT_NEAR(zero.optimizer / elements, 12.0 / 8.0, 1e-3);
  // Among 32 data-parallel ranks, groups of 8 shard it, and their replicas reduce the gradients.
  const auto of_zero = [&](const std::string& mesh) {
    run.spread = Spread::parse(mesh);
    return predict_step(run, Models().with({.waiting = 0.0}));
  };
  const StepPrediction groups = of_zero("dp=4,fsdp=8");
  EXPECT_DOUBLE_EQ(groups.memory.optimizer, zero.optimizer);
  EXPECT_DOUBLE_EQ(of_zero("dp=32").memory.optimizer, zero.optimizer / 4.0);
  EXPECT_EQ(of_zero("fsdp=32").step_us, of_zero("dp=32").step_us);
  EXPECT_GT(groups.breakdown.exposed_us.at("all_reduce"),
            of_zero("fsdp=8").breakdown.exposed_us.at("all_reduce"));
  // The gathers stay on a host.
  EXPECT_LT(groups.breakdown.exposed_us.at("all_gather"),
            of_zero("dp=32").breakdown.exposed_us.at("all_gather"));
}

TEST(StepPrediction, RecomputationSavesMemoryAndCostsTime) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  double memory = INFINITY;
  double time = 0.0;
  for (const char* policy : {"none", "selective", "full"}) {
    run.recompute = Recomputation::parse(policy);
    const StepPrediction step = predict_step(run, models.with());
    EXPECT_LT(step.memory.activations, memory) << policy;
    EXPECT_GT(step.step_us, time) << policy;
    memory = step.memory.activations;
    time = step.step_us;
  }
}

TEST(StepPrediction, OpenRecomputationIsTheLeastThatFits) {
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  run.seq = 8192;
  run.recompute = std::nullopt;
  const StepWork roomy(run, 1e15);
  EXPECT_EQ(roomy.recompute().text(), "none");
  const StepWork tight(run, roomy.memory().peak_bytes - 1);
  EXPECT_EQ(tight.recompute().text(), "selective");
  EXPECT_EQ(StepWork(run, tight.memory().peak_bytes - 1).recompute().text(), "full");
  EXPECT_EQ(StepWork(run, 1.0).recompute().text(), "full");
}

TEST(StepPrediction, TheShortestStepThatFitsRecomputesSomeBlocks) {
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  run.shape.layers = 6;
  run.seq = 8192;
  run.micro_batch = 2;
  for (const double gib : {10.0, 25.0, 28.0, 31.0, 34.0, 40.0, 50.0}) {
    nlohmann::json json = topology_json(8);
    json["device"]["memory_gib"] = gib;
    const Models models(json);
    double least_us = INFINITY;
    std::string text;
    std::vector<std::string> policies = {"none", "selective", "full"};
    for (const std::string kind : {"selective:", "full:"}) {
      for (int blocks = 1; blocks < 6; ++blocks) policies.push_back(kind + std::to_string(blocks));
    }
    for (const std::string& policy : policies) {
      run.recompute = Recomputation::parse(policy);
      const StepPrediction step = predict_step(run, models.with());
      if (step.memory.peak_bytes > gib * kBytesPerGiB || step.step_us >= least_us) continue;
      least_us = step.step_us;
      text = policy;
    }
    const StepPrediction found = predict_fitting_step(run, models.with());
    EXPECT_EQ(found.recompute.text(), text.empty() ? "full" : text) << gib;
    if (!text.empty()) {
      EXPECT_EQ(found.step_us, least_us) << gib;
    }
  }
}

// The logits of an interleaved pipeline are dropped before the next micro-batch has any.
TEST(StepPrediction, ALossInChunksNeedsLessMemoryAndAsMuchWork) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  run.seq = 8192;
  const StepPrediction whole = predict_step(run, models.with());
  run.loss_chunks = 8;
  const StepPrediction parts = predict_step(run, models.with());
  // The logits and what is computed of them in f32 and bf16: 8192 x 128256 elements.
  const double logits_f32 = 8192.0 * 128256 * 4;
  EXPECT_LT(parts.memory.peak_bytes, whole.memory.peak_bytes - logits_f32);
  EXPECT_NEAR(parts.breakdown.gemm_us, whole.breakdown.gemm_us, 0.05 * whole.breakdown.gemm_us);
  EXPECT_GE(parts.step_us, whole.step_us);
  run.loss_chunks = 3;
  EXPECT_THROW((void)predict_step(run, models.with()), InputError);
}

TEST(StepPrediction, APipelineHoldsTheLogitsOfOneMicroBatch) {
  TrainingRun run = run_of("llama3-8b", "pp=8");
  run.grad_accum = 16;
  const auto with_vocabulary = [&](std::int64_t vocabulary) {
    run.shape.vocabulary = vocabulary;
    return StepWork(run, 80e9);
  };
  for (const std::int64_t chunks : {1, 2}) {
    run.chunks = chunks;
    run.schedule = chunks > 1 ? PipelineSchedule::kInterleaved : PipelineSchedule::k1F1B;
    const StepWork work = with_vocabulary(4'000'000);  // so many that the last rank has the peak
    const double kept = work.blocks().back().kept_bytes;
    EXPECT_GT(work.memory().activations, kept);
    EXPECT_LT(work.memory().activations, 1.3 * kept) << chunks;
  }
}

TEST(StepPrediction, StagesHaveAllBlocksOnce) {
  for (const std::int64_t pp : {1, 2, 3, 5, 16, 126}) {
    TrainingRun run = run_of("llama3-405b", "pp=" + std::to_string(pp));
    const StepWork work(run, 80e9);
    ASSERT_EQ(work.stages().size(), static_cast<std::size_t>(pp));
    std::size_t blocks = 0;
    std::size_t most = 0;
    std::size_t least = 1000;
    for (const auto& stage : work.stages()) {
      const auto count = static_cast<std::size_t>(std::count_if(
          stage.begin(), stage.end(), [](const auto& unit) { return unit.is_block; }));
      blocks += count;
      // The embedding and the output count only where blocks cannot be shared equally.
      const std::size_t shared = 126 % pp == 0 ? count : stage.size();
      most = std::max(most, shared);
      least = std::min(least, shared);
    }
    EXPECT_EQ(blocks, 126U);
    EXPECT_LE(most - least, 1U);
    EXPECT_FALSE(work.stages().front().front().is_block);
    EXPECT_FALSE(work.stages().back().back().is_block);
  }
}

// 126 blocks, the embedding and the output make 8 for each of 16 ranks, however many stages these
// have.
TEST(StepPrediction, RanksOfAnUnevenPipelineShareItsBlocks) {
  TrainingRun run = run_of("llama3-405b", "pp=16");
  run.grad_accum = 16;
  run.schedule = PipelineSchedule::kInterleaved;
  for (const std::int64_t chunks : {2, 3, 4, 5, 6, 7}) {
    run.chunks = chunks;
    const StepWork work(run, 80e9);
    std::vector<std::size_t> held(16, 0);
    for (std::size_t s = 0; s < work.stages().size(); ++s) {
      held[s % held.size()] += work.stages()[s].size();
    }
    EXPECT_EQ(held, std::vector<std::size_t>(16, 8)) << chunks;
  }
}

// FSDP in a pipeline sums up whole gradients in f32, keeps whole weights, and reduces once.
TEST(StepPrediction, APipelineReducesTheSumOfItsGradientsOnce) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8,pp=4");
  const auto of = [&](Sharding sharding, std::int64_t grad_accum) {
    run.sharding = sharding;
    run.grad_accum = grad_accum;
    return predict_step(run, models.with());
  };
  for (const Sharding sharding : {Sharding::kFull, Sharding::kKeptWeights}) {
    const StepPrediction few = of(sharding, 8);
    const StepPrediction many = of(sharding, 16);
    const auto exposed = [](const StepPrediction& step, const char* kind) {
      return step.breakdown.exposed_us.at(kind);
    };
    EXPECT_NEAR(exposed(many, "reduce_scatter"), exposed(few, "reduce_scatter"),
                1e-9 * many.step_us);
    // Its shards are an eighth of 4 bytes for each element.
    EXPECT_DOUBLE_EQ(many.memory.gradients, 8.0 * many.memory.parameters);
    EXPECT_GT(many.memory.gathered, 0.5 * many.memory.gradients);
    if (sharding == Sharding::kKeptWeights) {
      EXPECT_NEAR(exposed(many, "all_gather"), exposed(few, "all_gather"), 1e-9 * many.step_us);
    }
  }
  // Behind the last backward pass no kernel but the copies of gradients runs beside reductions.
  run.copies_weights = false;
  const StepPrediction step = of(Sharding::kFull, 8);
  const double elements = step.memory.parameters / 4.0 * 8.0;
  const Price least = models.collectives->price(
      {Collective::kReduceScatter, 4.0 * elements, span_of({8, 1}, 8, models.topology)});
  EXPECT_GT(step.breakdown.exposed_us.at("reduce_scatter"), 0.9 * least.transfer.value());
}

// Under no_sync each rank holds the sum of its whole gradients, and reduces it once.
TEST(StepPrediction, WithoutSynchronisationGradientsAreReducedOnce) {
  const Models models;
  for (const Sharding sharding : {Sharding::kFull, Sharding::kKeptWeights}) {
    TrainingRun run = run_of("llama3-8b", "fsdp=16");
    run.sharding = sharding;
    const auto of = [&](bool no_sync, std::int64_t grad_accum) {
      run.no_sync = no_sync;
      run.grad_accum = grad_accum;
      return predict_step(run, models.with());
    };
    const double elements = parameters_of(run.shape);
    for (const double bytes : {2.0, 4.0}) {
      run.gradient_bytes = bytes;
      const TrainingMemory each = of(false, 4).memory;
      const TrainingMemory once = of(true, 4).memory;
      EXPECT_NEAR(each.gradients / elements, 4.0 / 16.0, 1e-3);
      EXPECT_NEAR(once.gradients / elements, bytes, 1e-3);
      EXPECT_EQ(once.gathered, each.gathered);
    }
    // What a further micro-batch sends are its weights alone.
    const auto collectives = [&](bool no_sync) {
      return of(no_sync, 5).breakdown.collectives_us - of(no_sync, 4).breakdown.collectives_us;
    };
    const StepWork work(run, 80e9);
    const StepGroups groups(run, models.topology);
    double reductions_us = 0.0;
    for (const StepWork::Unit& unit : work.stages().front()) {
      const double bytes = 4.0 * work.blocks()[unit.block].weight_elements;
      reductions_us += models.collectives->price({Collective::kReduceScatter, bytes, groups.shards})
                           .total.value();
    }
    EXPECT_NEAR((collectives(false) - collectives(true)) / reductions_us, 1.0, 1e-9);
    // On a network that hides no reduction, fewer of them are faster.
    const auto step_us = [&](bool no_sync) {
      run.no_sync = no_sync;
      return predict_step(run, models.with({.network = 0.1})).step_us;
    };
    run.grad_accum = 4;
    EXPECT_LT(step_us(true), 0.9 * step_us(false));
    // The sum of one micro-batch is what is reduced in any case.
    EXPECT_EQ(of(true, 1).step_us, of(false, 1).step_us);
    EXPECT_EQ(of(true, 1).memory.peak_bytes, of(false, 1).memory.peak_bytes);
  }
}

// The sum is read and written, and what is added to it is read in bf16: 10 bytes for each element.
TEST(StepPrediction, SummingUpGradientsMovesThem) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=1");
  run.copies_weights = false;
  const auto other_us = [&](bool no_sync) {
    run.no_sync = no_sync;
    run.grad_accum = 4;
    return predict_step(run, models.with()).breakdown.other_us;
  };
  const double moved = 3.0 * 10.0 * parameters_of(run.shape);
  const KernelQuery query{.kind = Kernel::kElementwise, .bytes = moved, .dtype = DType::kF32};
  EXPECT_NEAR((other_us(true) - other_us(false)) / models.computes->price(query).total.value(), 1.0,
              1e-2);
}

// On hosts of 6 devices, every other group of four consecutive ranks straddles two hosts.
TEST(StepPrediction, GroupsThatStraddleHostsArePricedOnTheNetwork) {
  const TrainingRun run = run_of("llama3-8b", "fsdp=4,tp=4");
  const auto on = [&](std::int64_t devices) {
    const Models models(topology_json(devices));
    const DeviceMesh mesh = DeviceMesh::parse("fsdp=4,tp=4");
    const StepGroups groups(run, models.topology);
    EXPECT_EQ(groups.tensor, mesh.span(1, models.topology)) << devices;
    EXPECT_EQ(groups.shards, mesh.span(0, models.topology)) << devices;
    return predict_step(run, models.with()).step_us;
  };
  const double whole = on(4);
  EXPECT_EQ(StepGroups(run, Models(topology_json(6)).topology).tensor.hosts, 2);
  EXPECT_GT(on(6), 1.2 * whole);
  EXPECT_GT(on(2), 1.2 * whole);
  EXPECT_LT(on(8), whole);  // The shards of 8 devices a host are on two hosts, not on four.
}

// Of an NVLink domain of 72 devices, a run with groups of 64 ranks takes 64.
TEST(StepPrediction, DomainsAreFilledWithWholeGroups) {
  const Topology nvl72 = testing_support::domain_topology(72);
  EXPECT_EQ(span_of({64, 1}, 256, nvl72).domains, 1);
  EXPECT_EQ(span_of({16, 4}, 256, nvl72).domains, 1);
  EXPECT_EQ(span_of({256, 1}, 256, nvl72).domains, 4);
  EXPECT_EQ(span_of({4, 64}, 256, nvl72).domains, 4);
  EXPECT_EQ(span_of({64, 1}, 256, nvl72).hosts, 16);
}

// A later micro-batch gathers its first weights when the kernels before it are done.
TEST(StepPrediction, EachMicroBatchWaitsForItsFirstWeights) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  const auto exposed = [&](std::int64_t grad_accum) {
    run.grad_accum = grad_accum;
    return predict_step(run, models.with()).breakdown.exposed_us.at("all_gather");
  };
  const double first = exposed(1);
  EXPECT_GT(first, 0.0);
  EXPECT_GT(exposed(4), 3.0 * first);
}

// Ten more micro-batches cost ten times what one more costs, and a pipeline's bubble stays.
TEST(StepPrediction, MicroBatchesAddUp) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8");
  const auto step_us = [&](std::int64_t grad_accum) {
    run.grad_accum = grad_accum;
    return predict_step(run, models.with()).step_us;
  };
  EXPECT_NEAR(step_us(12) - step_us(2), 10.0 * (step_us(3) - step_us(2)), 1e-6 * step_us(12));
  run = run_of("llama3-8b", "pp=4");
  const auto bubble = [&](std::int64_t grad_accum) {
    run.grad_accum = grad_accum;
    return predict_step(run, models.with()).breakdown.bubble_us;
  };
  EXPECT_NEAR(bubble(64) / bubble(16), 1.0, 1e-6);
}

TEST(StepPrediction, TheOptimizersStepIsThatOfTheFullestRank) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "pp=4");
  run.sharding = Sharding::kOptimizer;
  run.grad_accum = 8;
  const auto of = [&](double update_bytes) {
    run.update_bytes = update_bytes;
    return predict_step(run, models.with()).step_us;
  };
  // The first rank has the embedding and eight blocks, whether in one stage or in two.
  const ParameterCounts counts = parameter_counts(run.shape);
  const double elements = 8.0 * (counts.attention + counts.dense_ffn) + counts.embedding;
  const double one = of(1028.0) - of(28.0);
  const KernelQuery update{
      .kind = Kernel::kElementwise, .bytes = 1000.0 * elements, .dtype = DType::kF32};
  EXPECT_NEAR(one / models.computes->price(update).total.value(), 1.0, 1e-4);
  run.chunks = 2;
  run.schedule = PipelineSchedule::kInterleaved;
  EXPECT_NEAR((of(1028.0) - of(28.0)) / one, 1.0, 1e-6);
}

TEST(StepPrediction, GradientsThatDoNotOverlapAreExposed) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=16");
  const double beside = predict_step(run, models.with()).step_us;
  run.overlap_gradients = false;
  const StepPrediction after = predict_step(run, models.with());
  EXPECT_GT(after.step_us, beside);
  EXPECT_GT(after.breakdown.exposed_us.at("reduce_scatter"), 0.0);
}

TEST(StepPrediction, TheTimelineIsOfTasksThatFollowEachOther) {
  const Models models;
  const TrainingRun run = run_of("llama3-8b", "fsdp=8");
  const StepWork work(run, 80e9);
  EXPECT_TRUE(predict_step(work, models.with()).timeline.empty());
  const StepPrediction step = predict_step(work, models.with(), true);
  ASSERT_FALSE(step.timeline.empty());
  std::map<std::string, double> ends;
  for (const StepSpan& span : step.timeline) {
    EXPECT_LT(span.start_us, span.end_us);
    EXPECT_GE(span.start_us, ends[span.stream] - 1e-6) << span.stream;
    EXPECT_LE(span.end_us, step.step_us);
    ends[span.stream] = span.end_us;
  }
  EXPECT_TRUE(ends.contains("compute"));
  EXPECT_TRUE(ends.contains("gathers of weights"));
  EXPECT_TRUE(ends.contains("reductions of gradients"));
}

TEST(StepPrediction, TheTimelineOfAPipelineHasBothPassesOfItsFirstStage) {
  const Models models;
  TrainingRun run = run_of("llama3-8b", "fsdp=8,pp=4");
  run.grad_accum = 8;
  const StepWork work(run, 80e9);
  const StepPrediction step = predict_step(work, models.with(), true);
  double kernels_us = 0.0;
  for (const StepSpan& span : step.timeline) {
    if (span.stream == "compute") kernels_us += span.end_us - span.start_us;
  }
  // Eight of 32 blocks, forward and backward, are 24 products of the forward pass in time.
  const double products_us = step.breakdown.gemm_us / 8.0;
  EXPECT_GT(kernels_us, 0.8 * products_us);
  EXPECT_LT(kernels_us, 2.0 * products_us);
}

TEST(StepPrediction, AMillionRanksArePredicted) {
  const Models models;
  for (const char* mesh : {"dp=64,tp=8,pp=16,cp=2", "dp=4096,tp=8,pp=16,cp=2"}) {
    TrainingRun run = run_of("llama3-405b", mesh);
    run.sharding = Sharding::kOptimizer;
    run.execution = Execution::kLibrary;
    run.seq = 8192;
    run.grad_accum = 16;
    const StepPrediction step = predict_step(run, models.with());
    EXPECT_GT(step.mfu, 0.1) << mesh;
    EXPECT_LT(step.mfu, 0.9) << mesh;
    EXPECT_NEAR(sum_of(step.breakdown) / step.step_us, 1.0, 1e-6) << mesh;
  }
}

TEST(StepPrediction, SizesThatDoNotFitAreRefused) {
  EXPECT_THROW(StepWork(run_of("llama3-8b", "tp=3"), 80e9), InputError);
  const Models models;
  TrainingRun run = run_of("llama3-8b", "pp=4");
  run.chunks = 3;
  run.schedule = PipelineSchedule::kInterleaved;
  run.grad_accum = 5;
  EXPECT_THROW((void)predict_step(run, models.with()), InputError);
}

TEST(StepPrices, AGroupThatDoesNotFillItsLastHostHasTheFewestRanksThere) {
  const Topology h100 = testing_support::topology_with(8);
  EXPECT_EQ(span_of({12, 1}, 12, h100).ranks_per_host, 4);
  EXPECT_EQ(span_of({9, 1}, 9, h100).ranks_per_domain, 1);
  EXPECT_EQ(span_of({16, 1}, 16, h100).ranks_per_host, 8);
  EXPECT_EQ(span_of({16, 2}, 32, h100).ranks_per_host, 4);
  const Topology racks = testing_support::domain_topology(72);
  EXPECT_EQ(span_of({80, 1}, 80, racks).ranks_per_domain, 8);
  EXPECT_EQ(span_of({80, 1}, 80, racks).ranks_per_host, 4);
}

// Autograd adds the gradients of each micro-batch to those before, whoever shards the weights; the
// kernels of NVIDIA's libraries add them up in the products that compute them.
TEST(StepPrediction, WholeGradientsAreAddedUpUnderAnySharding) {
  const Models models;
  const auto other_us = [&](const std::string& mesh, Sharding sharding, std::int64_t count,
                            Execution execution = Execution::kEager) {
    TrainingRun run = run_of("llama3-8b", mesh);
    run.shape.layers = 2;
    run.sharding = sharding;
    run.no_sync = sharding == Sharding::kFull;
    run.grad_accum = count;
    run.execution = execution;
    return predict_step(run, models.with()).breakdown.other_us;
  };
  const double whole = other_us("dp=1", Sharding::kNone, 3);
  EXPECT_DOUBLE_EQ(whole, other_us("fsdp=1", Sharding::kFull, 3));
  const Execution library = Execution::kLibrary;
  EXPECT_LT(other_us("dp=1", Sharding::kNone, 3, library),
            other_us("fsdp=1", Sharding::kFull, 3, library));
}

// Each of the 15 micro-batches that wait on the last rank keeps what the products of its weights'
// gradients read: for each token and block the inputs of products (three of the hidden size and one
// of the feed-forward layer) and the gradients of their results, and for the output its input and
// the gradient of the logits. Source: PyTorch 2.13.0, torch/distributed/pipelining/_backward.py.
TEST(StepMemory, ZeroBubbleKeepsTheOperandsOfWaitingGradients) {
  TrainingRun run = run_of("llama3-1b", "pp=16");
  run.seq = 16384;
  run.grad_accum = 64;
  run.schedule = PipelineSchedule::k1F1B;
  const TrainingMemory at_once = StepWork(run, 80e9).memory();
  run.schedule = PipelineSchedule::kZeroBubble;
  const TrainingMemory late = StepWork(run, 80e9).memory();
  const double hidden = 2048;
  const double keys = 512;
  const double feed_forward = 8192;
  const double vocabulary = 128256;
  const double block = 6 * hidden + 2 * keys + 3 * feed_forward;
  EXPECT_DOUBLE_EQ(late.activations - at_once.activations,
                   15 * 2.0 * 16384 * (block + hidden + vocabulary));
  EXPECT_EQ(late.gradients, at_once.gradients);
}

}  // namespace step_prediction_test
}  // namespace shardlab
