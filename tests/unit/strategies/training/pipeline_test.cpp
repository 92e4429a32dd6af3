#include "strategies/training/pipeline.h"

#include <gtest/gtest.h>

#include <random>

#include "costmodel/base/error.h"

namespace shardlab {
namespace pipeline_test {

Pipeline equal(PipelineSchedule schedule, std::int64_t ranks, std::int64_t chunks,
               std::int64_t micro_batches, const StageTimes& stage) {
  return {.schedule = schedule,
          .ranks = ranks,
          .chunks = chunks,
          .micro_batches = micro_batches,
          .stages = std::vector<StageTimes>(static_cast<std::size_t>(ranks * chunks), stage)};
}

constexpr StageTimes kStage{.forward_us = 10, .backward_us = 20, .weights_us = 10, .send_us = 0};

// (p - 1) (f + b), Huang et al. 2019 and Narayanan et al. 2021.
TEST(TrainingPipeline, EqualStagesHaveTheTextbookBubble) {
  for (const std::int64_t ranks : {2, 4, 8, 16}) {
    for (const std::int64_t count : {16, 64}) {
      const PipelineTimes one =
          simulate_pipeline(equal(PipelineSchedule::k1F1B, ranks, 1, count, kStage));
      EXPECT_DOUBLE_EQ(one.bubble_us, static_cast<double>(ranks - 1) * 30.0);
      EXPECT_DOUBLE_EQ(one.total_us, static_cast<double>(count + ranks - 1) * 30.0);
      const PipelineTimes all =
          simulate_pipeline(equal(PipelineSchedule::kGPipe, ranks, 1, count, kStage));
      EXPECT_DOUBLE_EQ(all.total_us, one.total_us);
    }
  }
}

// Each of v chunks takes 1 / v of the time, and so does the bubble. Narayanan et al. 2021, 2.2.2.
TEST(TrainingPipeline, InterleavedStagesDivideTheBubble) {
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (const std::int64_t chunks : {2, 4}) {
      const auto v = static_cast<double>(chunks);
      const StageTimes stage{.forward_us = 10 / v, .backward_us = 20 / v};
      const PipelineTimes times =
          simulate_pipeline(equal(PipelineSchedule::kInterleaved, ranks, chunks, 4 * ranks, stage));
      EXPECT_NEAR(times.bubble_us, static_cast<double>(ranks - 1) * 30.0 / v, 1e-9);
    }
  }
}

// ZB-H1 leaves (p - 1) (f + b - 2 w), b with the gradients of weights. Qi et al. 2024, table 1.
TEST(TrainingPipeline, ZeroBubbleLeavesAThirdOfTheBubble) {
  for (const std::int64_t ranks : {2, 4, 8}) {
    const PipelineTimes times =
        simulate_pipeline(equal(PipelineSchedule::kZeroBubble, ranks, 1, 4 * ranks, kStage));
    EXPECT_DOUBLE_EQ(times.bubble_us, static_cast<double>(ranks - 1) * 10.0);
  }
}

TEST(TrainingPipeline, OneRankHasNoBubble) {
  for (const auto schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::k1F1B, PipelineSchedule::kZeroBubble}) {
    const PipelineTimes times = simulate_pipeline(equal(schedule, 1, 1, 5, kStage));
    EXPECT_DOUBLE_EQ(times.total_us, 150.0);
    EXPECT_DOUBLE_EQ(times.bubble_us, 0.0);
  }
}

// A backward pass keeps the weights that it gathered, and a forward pass may drop its own.
TEST(TrainingPipeline, PassesGatherWeightsThatThePassBeforeDropped) {
  StageTimes stage = kStage;
  stage.forward_gather_us = 2;
  stage.backward_gather_us = 3;
  Pipeline pipeline = equal(PipelineSchedule::k1F1B, 4, 1, 8, stage);
  pipeline.forward_drops_weights = true;
  PipelineTimes times = simulate_pipeline(pipeline);
  // Rank r runs 3 - r forward passes, then one forward and one backward pass in turn, and then
  // backward passes alone.
  EXPECT_EQ(times.forward_gathers, (std::vector<std::int64_t>{4, 3, 2, 1}));
  EXPECT_EQ(times.backward_gathers, (std::vector<std::int64_t>{5, 6, 7, 8}));
  pipeline.forward_drops_weights = false;
  times = simulate_pipeline(pipeline);
  EXPECT_EQ(times.forward_gathers, (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(times.backward_gathers, (std::vector<std::int64_t>{0, 0, 0, 0}));

  pipeline = equal(PipelineSchedule::kGPipe, 1, 1, 5, stage);
  pipeline.forward_drops_weights = true;
  EXPECT_DOUBLE_EQ(simulate_pipeline(pipeline).total_us, 5 * (10 + 2 + 20) + 3);
}

// Two ranks with one micro-batch run forward, transfer, forward, backward, transfer and backward.
TEST(TrainingPipeline, TransfersDelayTheRankThatReceives) {
  const StageTimes stage{.forward_us = 10, .backward_us = 20, .send_us = 3};
  EXPECT_DOUBLE_EQ(simulate_pipeline(equal(PipelineSchedule::k1F1B, 2, 1, 1, stage)).total_us,
                   10 + 3 + 10 + 20 + 3 + 20);
}

TEST(TrainingPipeline, TheBusiestRankIsTheOneWithTheMostWork) {
  Pipeline pipeline = equal(PipelineSchedule::k1F1B, 4, 1, 8, kStage);
  pipeline.stages[2].backward_us = 50;
  const PipelineTimes times = simulate_pipeline(pipeline);
  EXPECT_EQ(times.busiest, 2);
  EXPECT_NEAR(times.total_us - times.bubble_us, 8 * 60.0, 1e-9);
}

struct Bounds {
  double busiest = 0.0;  // the work of one rank
  double path = 0.0;     // one micro-batch through all stages
};
Bounds bounds_of(const Pipeline& pipeline, bool splits) {
  Bounds out;
  std::vector<double> busy(static_cast<std::size_t>(pipeline.ranks), 0.0);
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StageTimes& stage = pipeline.stages[s];
    busy[s % busy.size()] +=
        static_cast<double>(pipeline.micro_batches) * (stage.forward_us + stage.backward_us);
    out.path += stage.forward_us + stage.backward_us - (splits ? stage.weights_us : 0.0);
    if (s + 1 < pipeline.stages.size()) out.path += 2 * stage.send_us;
  }
  if (splits) out.path += pipeline.stages.front().weights_us;
  out.busiest = *std::max_element(busy.begin(), busy.end());
  return out;
}

TEST(TrainingPipeline, NoScheduleBeatsItsBoundsOnRandomStages) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> time(0.5, 20.0);
  for (int round = 0; round < 300; ++round) {
    const auto ranks = static_cast<std::int64_t>(1 + random() % 6);
    const auto groups = static_cast<std::int64_t>(1 + random() % 4);
    Pipeline pipeline{.ranks = ranks, .chunks = 1, .micro_batches = groups * ranks, .stages = {}};
    for (std::int64_t s = 0; s < ranks * 3; ++s) {
      StageTimes stage{.forward_us = time(random), .backward_us = time(random)};
      stage.weights_us = stage.backward_us * 0.4;
      stage.send_us = 0.1 * time(random);
      pipeline.stages.push_back(stage);
    }
    const std::vector<StageTimes> all = pipeline.stages;
    for (const auto schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kGPipe,
                                PipelineSchedule::kZeroBubble, PipelineSchedule::kInterleaved}) {
      pipeline.schedule = schedule;
      pipeline.chunks = schedule == PipelineSchedule::kInterleaved && ranks > 1 ? 3 : 1;
      pipeline.stages = all;
      pipeline.stages.resize(static_cast<std::size_t>(ranks * pipeline.chunks));
      const PipelineTimes times = simulate_pipeline(pipeline);
      const Bounds bounds = bounds_of(pipeline, schedule == PipelineSchedule::kZeroBubble);
      EXPECT_GE(times.total_us, bounds.busiest - 1e-6);
      EXPECT_GE(times.total_us, bounds.path - 1e-6);
      EXPECT_NEAR(times.total_us - times.bubble_us, bounds.busiest, 1e-6);
    }
  }
}

// With unequal stages a pipeline can take longer, since the gradients of weights that were put off
// meet a rank that has no time left for them.
TEST(TrainingPipeline, ZeroBubbleIsNoLongerThan1F1BWhereStagesAreEqual) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> time(0.5, 20.0);
  for (int round = 0; round < 300; ++round) {
    StageTimes stage{.forward_us = time(random), .backward_us = time(random)};
    stage.weights_us = stage.backward_us * std::uniform_real_distribution<double>(0, 0.6)(random);
    stage.send_us = 0.2 * time(random);
    const auto ranks = static_cast<std::int64_t>(1 + random() % 8);
    const auto count = static_cast<std::int64_t>(1 + random() % 32);
    const auto total = [&](PipelineSchedule schedule) {
      return simulate_pipeline(equal(schedule, ranks, 1, count, stage)).total_us;
    };
    EXPECT_LE(total(PipelineSchedule::kZeroBubble), total(PipelineSchedule::k1F1B) + 1e-6)
        << ranks << " ranks, " << count << " micro-batches";
  }
}

TEST(TrainingPipeline, AnIncompleteGroupOfMicroBatchesIsRefused) {
  try {
    (void)simulate_pipeline(equal(PipelineSchedule::kInterleaved, 4, 3, 5, kStage));
    FAIL() << "five micro-batches on four ranks with three stages each ran";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "a pipeline of 4 ranks with 3 stages each can't run 5 micro-batches in this "
                 "schedule; valid: a multiple of 4");
  }
}

// In no schedule do ranks wait for each other, which would be a ContractError.
TEST(TrainingPipeline, AllOtherNumbersOfMicroBatchesRun) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::k1F1B, PipelineSchedule::kZeroBubble,
        PipelineSchedule::kInterleaved}) {
    for (std::int64_t ranks = 1; ranks <= 8; ++ranks) {
      for (std::int64_t chunks = 1; chunks <= 4; ++chunks) {
        const std::int64_t step = chunks == 1 ? 1 : ranks;
        for (std::int64_t count = step; count <= 5 * ranks; count += step) {
          EXPECT_GT(simulate_pipeline(equal(schedule, ranks, chunks, count, kStage)).total_us, 0)
              << ranks << " ranks, " << chunks << " chunks, " << count << " micro-batches";
        }
      }
    }
  }
}

// Warm-up and one more: p - r of 1F1B, all of GPipe's, and 2 (p - r - 1) + (v - 1) p + 1 stages of
// an interleaved schedule.
TEST(TrainingPipeline, HeldMicroBatchesAreThoseOfTheWarmUpAndOne) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const auto later = static_cast<double>(3 - rank);
    EXPECT_EQ(micro_batches_held(equal(PipelineSchedule::k1F1B, 4, 1, 16, kStage), rank),
              later + 1);
    EXPECT_EQ(micro_batches_held(equal(PipelineSchedule::k1F1B, 4, 1, 1, kStage), rank), 1);
    EXPECT_EQ(micro_batches_held(equal(PipelineSchedule::kGPipe, 4, 1, 16, kStage), rank), 16);
    EXPECT_EQ(micro_batches_held(equal(PipelineSchedule::kInterleaved, 4, 2, 16, kStage), rank),
              2 * later + 4 + 1);
  }
}

TEST(TrainingPipeline, ZeroBubbleComputesTheGradientsOfWeightsAsManyTurnsLateAsRanksComeBefore) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const auto waiting = [&](PipelineSchedule schedule, std::int64_t micro_batches) {
      return micro_batches_without_gradients(equal(schedule, 4, 1, micro_batches, kStage), rank);
    };
    EXPECT_EQ(waiting(PipelineSchedule::kZeroBubble, 16), rank);
    EXPECT_EQ(waiting(PipelineSchedule::kZeroBubble, 2), std::min<std::int64_t>(rank, 1));
    EXPECT_EQ(waiting(PipelineSchedule::k1F1B, 16), 0);
  }
}

}  // namespace pipeline_test
}  // namespace shardlab
