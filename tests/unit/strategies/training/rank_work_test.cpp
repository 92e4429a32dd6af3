// What is kept, what runs again, and which kernels remain.
#include "strategies/training/rank_work.h"

#include <gtest/gtest.h>

#include "strategies/training/model_work.h"

namespace shardlab {
namespace rank_work_test {

struct Sum {
  double gemm = 0.0;
  double attention = 0.0;
  double other_bytes = 0.0;
  int kernels = 0;
};

Sum sum_of(const std::vector<RankPiece>& pieces) {
  Sum sum;
  for (const RankPiece& piece : pieces) {
    for (const RankKernel& kernel : piece.kernels) {
      ++sum.kernels;
      switch (kernel.kind) {
        case KernelClass::kGemm:
        case KernelClass::kLowGemm:
          sum.gemm += kernel.query.flops;
          break;
        case KernelClass::kAttention:
          sum.attention += kernel.query.flops;
          break;
        case KernelClass::kOther:
          sum.other_bytes += kernel.query.bytes;
      }
    }
  }
  return sum;
}

TrainingRun run_of(const std::string& model, Execution execution) {
  TrainingRun run;
  run.shape = *find_model_shape(model);
  run.execution = execution;
  return run;
}

RankBlock block_of(const TrainingRun& run, Keeping keeping, BlockKind kind = BlockKind::kDense) {
  return rank_block(run, block_work(run, {kind, false}), keeping);
}

constexpr Execution kExecutions[] = {Execution::kEager, Execution::kCompiled, Execution::kLibrary};

// The last product and the sum with the residual stream are what nothing in the backward pass
// reads: rank_work.h says that they do not run again.
TEST(RankWork, FullRecomputationRunsTheForwardPassAgainButForItsEnd) {
  for (const Execution execution : kExecutions) {
    const TrainingRun run = run_of("llama3-8b", execution);
    const RankBlock kept = block_of(run, Keeping::kAll);
    const RankBlock full = block_of(run, Keeping::kInput);
    const double last = 2.0 * 4096.0 * 4096.0 * 14336.0;
    EXPECT_DOUBLE_EQ(sum_of(full.backward).gemm - sum_of(kept.backward).gemm,
                     sum_of(full.forward).gemm - last);
    EXPECT_DOUBLE_EQ(sum_of(full.backward).attention - sum_of(kept.backward).attention,
                     sum_of(full.forward).attention);
    EXPECT_DOUBLE_EQ(sum_of(full.forward).gemm, sum_of(kept.forward).gemm);
    EXPECT_EQ(full.kept_bytes, full.input_bytes);
  }
}

// Every second product and attention are kept: of queries, keys, values, output, gate, up, down the
// first, third, fifth and seventh.
TEST(RankWork, SelectiveRecomputationRunsEverySecondProductAgain) {
  const TrainingRun run = run_of("llama3-8b", Execution::kEager);
  const Sum kept = sum_of(block_of(run, Keeping::kAll).backward);
  const Sum selected = sum_of(block_of(run, Keeping::kSelected).backward);
  const double token = 2.0 * 4096.0 * 4096.0;  // two FLOPs for each token and row of a weight
  EXPECT_DOUBLE_EQ(selected.gemm - kept.gemm, token * (1024.0 + 4096.0 + 14336.0));
  EXPECT_EQ(selected.attention, kept.attention);
}

TEST(RankWork, KeptBytesFallFromNoneToSelectiveToFull) {
  for (const ModelShape& shape : all_model_shapes()) {
    for (const Execution execution : kExecutions) {
      const TrainingRun run = run_of(shape.name, execution);
      const BlockWork work = block_work(run, blocks_of(shape).back());
      const double none = rank_block(run, work, Keeping::kAll).kept_bytes;
      const double selective = rank_block(run, work, Keeping::kSelected).kept_bytes;
      const double full = rank_block(run, work, Keeping::kInput).kept_bytes;
      EXPECT_GT(none, full) << shape.name;
      EXPECT_GE(selective, full) << shape.name;
      if (execution == Execution::kEager) {
        EXPECT_GT(none, selective) << shape.name;
      }
    }
  }
}

TEST(RankWork, CompiledKernelsAreFewerAndMoveNoMoreBytes) {
  for (const ModelShape& shape : all_model_shapes()) {
    for (const Keeping keeping : {Keeping::kAll, Keeping::kSelected, Keeping::kInput}) {
      const TrainingRun eager = run_of(shape.name, Execution::kEager);
      const TrainingRun compiled = run_of(shape.name, Execution::kCompiled);
      const BlockPlace place = blocks_of(shape).back();
      const RankBlock each = rank_block(eager, block_work(eager, place), keeping);
      const RankBlock fused = rank_block(compiled, block_work(compiled, place), keeping);
      const Sum forward = sum_of(each.forward);
      const Sum backward = sum_of(each.backward);
      EXPECT_LT(sum_of(fused.forward).kernels, forward.kernels) << shape.name;
      EXPECT_LE(sum_of(fused.forward).other_bytes, forward.other_bytes) << shape.name;
      // The backward pass computes pointwise results again that the eager one keeps, so the sum
      // counts.
      EXPECT_LE(sum_of(fused.forward).other_bytes + sum_of(fused.backward).other_bytes,
                forward.other_bytes + backward.other_bytes)
          << shape.name;
      EXPECT_DOUBLE_EQ(sum_of(fused.forward).gemm, forward.gemm) << shape.name;
      EXPECT_DOUBLE_EQ(sum_of(fused.backward).gemm, backward.gemm) << shape.name;
      EXPECT_LE(fused.kept_bytes, each.kept_bytes) << shape.name;
    }
  }
}

// Without recomputation the eager block keeps what its operators save, by hand for MPT's block with
// biases, of `rows` rows and the width h: its input (2h), two norms (2h each, and 4 bytes a row
// twice), queries, keys and values (6h), attention's result (2h) and its logarithms (4 bytes a
// head), the first sum (2h), and the feed-forward layer's inner tensor before and after the
// activation (8h each).
TEST(RankWork, TheEagerBlockKeepsWhatAutogradSaves) {
  const TrainingRun run = run_of("mpt-7b", Execution::kEager);
  const double rows = 4096.0;
  const double width = 4096.0;
  EXPECT_EQ(block_of(run, Keeping::kAll).kept_bytes,
            rows * (width * (2 + 2 + 2 + 6 + 2 + 2 + 8 + 8) + 4.0 + 4.0 + 4.0 * 32.0));
}

// Korthikanti et al. 2022: with sequence parallelism all that Megatron keeps is divided by tp. What
// DTensor keeps has the whole inputs of both groups of products, with the other ranks' 7 / 8.
TEST(RankWork, LibraryKernelsKeepTheirPartOfWhatIsGathered) {
  for (const char* model : {"llama3-70b", "gpt3-175b"}) {
    for (const auto precision : {Precision::kBF16, Precision::kFP8, Precision::kMXFP8}) {
      TrainingRun run = run_of(model, Execution::kLibrary);
      run.precision = precision;
      const double whole = block_of(run, Keeping::kAll).kept_bytes;
      run.spread = Spread::parse("tp=8");
      EXPECT_DOUBLE_EQ(8.0 * block_of(run, Keeping::kAll).kept_bytes, whole)
          << model << " " << name_of(precision);
    }
    TrainingRun eager = run_of(model, Execution::kEager);
    const double whole = block_of(eager, Keeping::kAll).kept_bytes;
    eager.spread = Spread::parse("tp=8");
    const double width = static_cast<double>(eager.shape.width);
    EXPECT_DOUBLE_EQ(block_of(eager, Keeping::kAll).kept_bytes,
                     whole / 8.0 + 7.0 / 8.0 * 2.0 * 2.0 * 4096.0 * width)
        << model;
  }
}

// Attention and the feed-forward layer have a gather each, beside the product of the input's
// gradient, and the weight's gradient waits for it.
TEST(RankWork, WhatIsGatheredAgainIsAwaitedByTheGradientsOfWeights) {
  TrainingRun run = run_of("gpt3-6.7b", Execution::kLibrary);
  run.spread = Spread::parse("tp=8");
  const double bytes = 2.0 * 4096.0 * static_cast<double>(run.shape.width);
  for (const Keeping keeping : {Keeping::kAll, Keeping::kSelected, Keeping::kInput}) {
    const std::vector<RankPiece> pieces = block_of(run, keeping).backward;
    int gathers = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!pieces[i].collective || !pieces[i].collective->early) continue;
      ++gathers;
      EXPECT_EQ(pieces[i].collective->kind, Collective::kAllGather);
      EXPECT_EQ(pieces[i].collective->full_bytes, bytes);
      ASSERT_LT(i + 2, pieces.size());
      EXPECT_FALSE(pieces[i + 1].waits);
      EXPECT_EQ(pieces[i + 1].kernels.back().kind, KernelClass::kGemm);
      EXPECT_TRUE(pieces[i + 2].waits);
      EXPECT_EQ(pieces[i + 2].kernels.front().kind, KernelClass::kGemm);
    }
    EXPECT_EQ(gathers, 2);
  }
  // Frozen weights have no gradients.
  run.task = Task::kLora;
  for (const RankPiece& piece : block_of(run, Keeping::kAll).backward) {
    EXPECT_FALSE(piece.collective && piece.collective->early);
  }
}

TEST(RankWork, CollectivesStandBetweenThePiecesOfKernels) {
  TrainingRun run = run_of("llama3-8b", Execution::kLibrary);
  run.spread = Spread::parse("tp=8");
  const RankBlock block = block_of(run, Keeping::kAll);
  int collectives = 0;
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    const RankPiece& piece = block.forward[i];
    EXPECT_EQ(piece.collective.has_value(), piece.kernels.empty()) << i;
    if (!piece.collective) continue;
    ++collectives;
    EXPECT_EQ(piece.collective->leads, piece.collective->kind == Collective::kAllGather);
  }
  EXPECT_EQ(collectives, 4);
}

// The ring comes before the attention that it runs beside, and after it in the backward pass.
TEST(RankWork, ARingLeadsInTheForwardPassAlone) {
  TrainingRun run = run_of("llama3-8b", Execution::kEager);
  run.spread = Spread::parse("cp=2");
  const RankBlock block = block_of(run, Keeping::kAll);
  const auto leads = [](const std::vector<RankPiece>& pieces) {
    std::vector<bool> found;
    for (const RankPiece& piece : pieces) {
      if (piece.collective) found.push_back(piece.collective->leads);
    }
    return found;
  };
  EXPECT_EQ(leads(block.forward), std::vector<bool>{true});
  EXPECT_EQ(leads(block.backward), std::vector<bool>{false});
}

TEST(RankWork, EveryNthBlockAndTheFirstBlocksAreResolved) {
  const auto text = [](const std::string& policy) {
    std::string out;
    for (std::int64_t i = 0; i < 5; ++i) {
      const Keeping keeping = keeping_of(Recomputation::parse(policy), i, 5);
      out += keeping == Keeping::kAll ? 'a' : keeping == Keeping::kInput ? 'i' : 's';
    }
    return out;
  };
  EXPECT_EQ(text("none"), "aaaaa");
  EXPECT_EQ(text("full"), "iiiii");
  EXPECT_EQ(text("selective"), "sssss");
  EXPECT_EQ(text("every:2"), "iaiai");
  EXPECT_EQ(text("full:2"), "iiaaa");
  EXPECT_EQ(text("selective:3"), "sssaa");
}

}  // namespace rank_work_test
}  // namespace shardlab
