// The operators of blocks: products, attention, collectives and the bytes they move, by hand.
#include "strategies/training/block_work.h"

#include <gtest/gtest.h>

#include "costmodel/kernel_work.h"
#include "strategies/training/model_work.h"

namespace shardlab {
namespace block_work_test {

TrainingRun run_of(const std::string& model, const std::string& mesh = "dp=1") {
  TrainingRun run;
  run.shape = *find_model_shape(model);
  run.spread = Spread::parse(mesh);
  return run;
}

double gemm_work(const std::vector<WorkOp>& ops) {
  double flops = 0.0;
  for (const WorkOp& op : ops) {
    if (op.kind == WorkKind::kGemm) flops += gemm_flops(op.gemm);
  }
  return flops;
}

double attention_work(const std::vector<WorkOp>& ops) {
  double flops = 0.0;
  for (const WorkOp& op : ops) {
    if (op.kind == WorkKind::kAttention) flops += attention_flops(op.attention);
  }
  return flops;
}

std::vector<WorkOp> collectives_of(const std::vector<WorkOp>& ops) {
  std::vector<WorkOp> found;
  for (const WorkOp& op : ops) {
    if (op.kind == WorkKind::kCollective) found.push_back(op);
  }
  return found;
}

double tokens_of(const TrainingRun& run) { return static_cast<double>(run.seq * run.micro_batch); }

TEST(BlockWork, ForwardProductsAreTwoFlopsForEachParameterAndToken) {
  for (const char* model : {"llama3-8b", "mpt-7b", "qwen3-32b", "gpt3-175b"}) {
    const TrainingRun run = run_of(model);
    const ParameterCounts counts = parameter_counts(run.shape);
    const BlockWork block = block_work(run, {BlockKind::kDense, false});
    EXPECT_DOUBLE_EQ(gemm_work(block.forward),
                     2.0 * tokens_of(run) * (counts.attention + counts.dense_ffn))
        << model;
  }
}

TEST(BlockWork, BackwardProductsAreTwiceTheForwardOnes) {
  for (const ModelShape& shape : all_model_shapes()) {
    TrainingRun run;
    run.shape = shape;
    for (const BlockPlace& place : blocks_of(shape)) {
      const BlockWork block = block_work(run, place);
      EXPECT_NEAR(gemm_work(block.backward) / std::max(1.0, gemm_work(block.forward)),
                  gemm_work(block.forward) > 0 ? 2.0 : 0.0, 1e-12)
          << shape.name;
    }
    const BlockWork output = output_work(run);
    EXPECT_DOUBLE_EQ(gemm_work(output.backward), 2.0 * gemm_work(output.forward)) << shape.name;
  }
}

// The frozen weights of LoRA have no gradients, so the backward pass has one product for each.
TEST(BlockWork, LoraHasNoGradientsOfWeights) {
  TrainingRun run = run_of("llama3-8b");
  run.task = Task::kLora;
  const BlockWork block = block_work(run, {BlockKind::kDense, false});
  EXPECT_DOUBLE_EQ(gemm_work(block.backward), gemm_work(block.forward));
  EXPECT_EQ(block.trained_elements, 0.0);
}

TEST(BlockWork, AllWorkOfAModelIsItsFlopsPerToken) {
  for (const char* model : {"llama3-8b", "mpt-7b", "qwen3-30b-a3b", "deepseek-v3"}) {
    const TrainingRun run = run_of(model);
    double flops = 0.0;
    for (const BlockPlace& place : blocks_of(run.shape)) {
      const BlockWork block = block_work(run, place);
      // The model's FLOPs count attention's backward pass twice, not 2.5 times.
      flops += gemm_work(block.forward) + gemm_work(block.backward) +
               3.0 * attention_work(block.forward);
    }
    const BlockWork output = output_work(run);
    flops += gemm_work(output.forward) + gemm_work(output.backward);
    // Pairs of a query with its own key are half counted in seq / 2.
    EXPECT_NEAR(flops / tokens_of(run) / model_flops_per_token(run.shape, run.seq), 1.0, 1e-4)
        << model;
  }
}

TEST(BlockWork, CausalAttentionHasHalfOfThePairs) {
  const TrainingRun run = run_of("llama3-8b");
  const BlockWork block = block_work(run, {BlockKind::kDense, false});
  const auto seq = static_cast<double>(run.seq);
  const double all = 2.0 * 32.0 * seq * seq * 256.0;
  EXPECT_NEAR(attention_work(block.forward) / all, 0.5 * (1.0 + 1.0 / seq), 1e-12);
  EXPECT_DOUBLE_EQ(attention_work(block.backward), 2.5 * attention_work(block.forward));
}

TEST(BlockWork, TensorParallelismDividesProductsAndAttention) {
  for (const char* model : {"llama3-8b", "mpt-7b", "gpt3-175b"}) {
    const BlockWork one = block_work(run_of(model), {BlockKind::kDense, false});
    const BlockWork eight = block_work(run_of(model, "tp=8"), {BlockKind::kDense, false});
    EXPECT_DOUBLE_EQ(8.0 * gemm_work(eight.forward), gemm_work(one.forward)) << model;
    EXPECT_DOUBLE_EQ(8.0 * gemm_work(eight.backward), gemm_work(one.backward)) << model;
    EXPECT_DOUBLE_EQ(8.0 * attention_work(eight.forward), attention_work(one.forward)) << model;
    const BlockWork output = output_work(run_of(model));
    EXPECT_DOUBLE_EQ(8.0 * gemm_work(output_work(run_of(model, "tp=8")).forward),
                     gemm_work(output.forward));
  }
}

TEST(BlockWork, RowsOfAVocabularyThatRanksShareMayBeUnaligned) {
  const auto multiples = [](std::int64_t vocabulary, const std::string& mesh, Execution execution) {
    TrainingRun run = run_of("llama3-8b", mesh);
    run.shape.vocabulary = vocabulary;
    run.execution = execution;
    const BlockWork output = output_work(run);
    std::vector<double> found;
    for (const auto* ops : {&output.forward, &output.backward}) {
      for (const WorkOp& op : *ops) {
        if (op.kind == WorkKind::kGemm) found.push_back(op.gemm.row_multiple);
      }
    }
    return found;
  };
  const auto all = [](double multiple) { return std::vector<double>(3, multiple); };
  EXPECT_EQ(multiples(128256, "tp=8", Execution::kEager), all(32));  // 16032 on each rank
  EXPECT_EQ(multiples(50257, "dp=1", Execution::kEager), all(1));
  EXPECT_EQ(multiples(50257, "tp=8", Execution::kEager), all(1));     // 6283 on the longest
  EXPECT_EQ(multiples(50288, "tp=8", Execution::kCompiled), all(2));  // 6286
  EXPECT_EQ(multiples(50257, "tp=8", Execution::kLibrary), all(64));  // padded
}

// All ranks together compute each pair once.
TEST(BlockWork, ContextParallelismDividesProductsAndAttention) {
  for (const char* model : {"llama3-8b", "gpt-oss-20b", "deepseek-v3"}) {
    for (const BlockPlace& place :
         {BlockPlace{BlockKind::kDense, false}, BlockPlace{BlockKind::kDense, true}}) {
      TrainingRun run = run_of(model);
      const BlockWork one = block_work(run, place);
      for (const std::int64_t cp : {2, 8}) {
        run.spread.cp = cp;
        const BlockWork part = block_work(run, place);
        const auto ranks = static_cast<double>(cp);
        EXPECT_DOUBLE_EQ(ranks * gemm_work(part.forward), gemm_work(one.forward)) << model;
        EXPECT_DOUBLE_EQ(ranks * attention_work(part.forward), attention_work(one.forward))
            << model;
        EXPECT_DOUBLE_EQ(ranks * attention_work(part.backward), attention_work(one.backward));
      }
    }
  }
}

TEST(BlockWork, TensorParallelismGathersAndScattersTheSequence) {
  const TrainingRun run = run_of("llama3-8b", "tp=8");
  const BlockWork block = block_work(run, {BlockKind::kDense, false});
  const double bytes = 2.0 * tokens_of(run) * 4096.0;
  for (const auto* ops : {&block.forward, &block.backward}) {
    const std::vector<WorkOp> found = collectives_of(*ops);
    ASSERT_EQ(found.size(), 4U);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].collective,
                i % 2 == 0 ? Collective::kAllGather : Collective::kReduceScatter);
      EXPECT_EQ(found[i].group, WorkGroup::kTensor);
      EXPECT_EQ(found[i].full_bytes, bytes);
      EXPECT_FALSE(found[i].beside);
    }
  }
  // Before the output projection and after the embedding, whose backward passes are the transposes.
  EXPECT_EQ(collectives_of(embedding_work(run).forward)[0].full_bytes, bytes);
  EXPECT_EQ(collectives_of(output_work(run).forward)[0].full_bytes, bytes);
  EXPECT_TRUE(collectives_of(block_work(run_of("llama3-8b"), {}).forward).empty());
}

// Each rank sends its keys and values cp - 1 times, and in the backward pass their gradients as
// well.
TEST(BlockWork, KeysAndValuesTravelInARing) {
  TrainingRun run = run_of("llama3-8b", "cp=4");
  for (const Execution execution : {Execution::kEager, Execution::kLibrary}) {
    run.execution = execution;
    const BlockWork block = block_work(run, {BlockKind::kDense, false});
    const double part = 2.0 * tokens_of(run) / 4.0 * 8.0 * 256.0;
    const std::vector<WorkOp> forward = collectives_of(block.forward);
    const std::vector<WorkOp> backward = collectives_of(block.backward);
    ASSERT_EQ(forward.size(), 1U);
    ASSERT_EQ(backward.size(), 1U);
    EXPECT_EQ(forward[0].collective, Collective::kSendRecv);
    EXPECT_EQ(forward[0].group, WorkGroup::kContext);
    EXPECT_EQ(forward[0].full_bytes, 3.0 * part);
    EXPECT_EQ(backward[0].full_bytes, 6.0 * part);
    EXPECT_TRUE(forward[0].beside);
  }
}

TEST(BlockWork, ExpertsAreSpreadAndTokensExchanged) {
  const TrainingRun one = run_of("qwen3-30b-a3b");
  const TrainingRun eight = run_of("qwen3-30b-a3b", "dp=8,ep=8");
  const BlockWork alone = block_work(one, {BlockKind::kExperts, false});
  const BlockWork spread = block_work(eight, {BlockKind::kExperts, false});
  const ParameterCounts counts = parameter_counts(one.shape);
  EXPECT_EQ(alone.expert_weight_elements, 128.0 * counts.one_expert);
  EXPECT_EQ(spread.expert_weight_elements, 16.0 * counts.one_expert);
  EXPECT_EQ(spread.weight_elements, alone.weight_elements);
  // Every rank has as many tokens for its fewer experts.
  EXPECT_DOUBLE_EQ(gemm_work(spread.forward), gemm_work(alone.forward));
  EXPECT_TRUE(collectives_of(alone.forward).empty());
  const std::vector<WorkOp> found = collectives_of(spread.forward);
  ASSERT_EQ(found.size(), 2U);
  for (const WorkOp& each : found) {
    EXPECT_EQ(each.collective, Collective::kAllToAll);
    EXPECT_EQ(each.group, WorkGroup::kExperts);
    EXPECT_EQ(each.full_bytes, 2.0 * tokens_of(eight) * 8.0 * 2048.0);
  }
  // Eight experts of a token are on 8 (1 - (7/8)^8) = 5.25 of eight ranks in the mean.
  TrainingRun once = eight;
  once.sends_once = true;
  EXPECT_NEAR(collectives_of(block_work(once, {BlockKind::kExperts, false}).forward)[0].full_bytes /
                  found[0].full_bytes,
              1.0 - std::pow(0.875, 8.0), 1e-12);
}

TEST(BlockWork, TheBusiestExpertsDecide) {
  TrainingRun run = run_of("mixtral-8x7b");
  const ParameterCounts counts = parameter_counts(run.shape);
  const double even = gemm_work(block_work(run, {BlockKind::kExperts, false}).forward);
  run.load_imbalance = 1.5;
  EXPECT_NEAR(gemm_work(block_work(run, {BlockKind::kExperts, false}).forward) - even,
              0.5 * 2.0 * tokens_of(run) * 2.0 * counts.one_expert, 1e-6 * even);
}

TEST(BlockWork, WeightsOfAllUnitsAreThoseOfTheModel) {
  for (const ModelShape& shape : all_model_shapes()) {
    TrainingRun run;
    run.shape = shape;
    double elements = embedding_work(run).weight_elements + output_work(run).weight_elements;
    for (const BlockPlace& place : blocks_of(shape)) {
      const BlockWork block = block_work(run, place);
      elements += block.weight_elements + block.expert_weight_elements;
      EXPECT_EQ(block.trained_elements, block.weight_elements + block.expert_weight_elements);
    }
    // Norms and biases are in the blocks but not in the count.
    EXPECT_GE(elements, parameters_of(shape)) << shape.name;
    EXPECT_LE(elements, 1.004 * parameters_of(shape)) << shape.name;
  }
}

TEST(BlockWork, ATiedOutputIsHeldOnceUnlessThePipelineParts) {
  const TrainingRun whole = run_of("mpt-7b");
  const TrainingRun parted = run_of("mpt-7b", "pp=2");
  EXPECT_EQ(output_work(whole).weight_elements, 4096.0);
  EXPECT_EQ(output_work(parted).weight_elements, 4096.0 + 50368.0 * 4096.0);
}

double elements_of(const BlockWork& work, std::string_view name) {
  double elements = 0.0;
  for (const WorkOp& op : work.forward) {
    if (op.name == name) elements += op.elements;
  }
  return elements;
}

// One kernel for queries, keys and values at once: each element is rotated once.
TEST(BlockWork, OneProductForQueriesKeysAndValuesIsRotatedAndNormedOnce) {
  TrainingRun run = run_of("qwen3-8b");
  run.execution = Execution::kLibrary;
  const BlockWork block = block_work(run, {BlockKind::kDense, false});
  const double all = tokens_of(run) * (32.0 + 2.0 * 8.0) * 128.0;
  EXPECT_EQ(elements_of(block, "rotary"), all);
  EXPECT_EQ(elements_of(block, "norm"), all + 2.0 * tokens_of(run) * 4096.0);
}

// Casts to f32 and back, log_softmax and the mean of one element a row.
TEST(BlockWork, TheEagerLossMovesTheLogitsSevenTimesForward) {
  TrainingRun run = run_of("llama3-8b");
  const auto forward_bytes = [&] {
    const BlockWork output = output_work(run);
    double bytes = 0.0;
    for (const WorkOp& op : output.forward) {
      if (op.name != "loss") continue;
      for (const auto* list : {&op.reads, &op.writes}) {
        for (const int t : *list) bytes += output.tensors[static_cast<std::size_t>(t)].bytes();
      }
    }
    return bytes;
  };
  const double logits = tokens_of(run) * 128256.0;
  EXPECT_NEAR(forward_bytes() / logits, 2.0 + 4.0 + 4.0 + 4.0, 1e-3);
  run.fused_loss = true;
  EXPECT_NEAR(forward_bytes() / logits, 2.0, 1e-3);
}

TEST(BlockWork, LowPrecisionIsForLinearLayersOfBlocks) {
  TrainingRun run = run_of("qwen3-30b-a3b");
  for (const Precision precision :
       {Precision::kFP8, Precision::kFP8Rowwise, Precision::kFP8Blockwise, Precision::kMXFP8,
        Precision::kNVFP4}) {
    run.precision = precision;
    int low = 0;
    int other = 0;
    double casts = 0.0;
    const BlockWork block = block_work(run, {BlockKind::kExperts, false});
    for (const WorkOp& op : block.forward) {
      if (op.kind == WorkKind::kGemm) ++(op.low_precision ? low : other);
      if (op.name == "cast") casts += op.elements;
    }
    EXPECT_EQ(low, 7);    // queries, keys, values, their output, and three of the experts
    EXPECT_EQ(other, 1);  // the router
    EXPECT_GT(casts, 0.0);
    for (const WorkOp& op : output_work(run).forward) EXPECT_FALSE(op.low_precision);
  }
}

}  // namespace block_work_test
}  // namespace shardlab
