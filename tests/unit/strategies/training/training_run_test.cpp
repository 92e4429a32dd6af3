#include "strategies/training/training_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "costmodel/base/error.h"

namespace shardlab {
namespace training_run_test {

TrainingRun run_of(const std::string& model, const std::string& mesh) {
  TrainingRun run;
  run.shape = *find_model_shape(model);
  run.spread = Spread::parse(mesh);
  return run;
}

std::string error_of(const TrainingRun& run) {
  try {
    expect_valid(run);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string mesh_error(const std::string& mesh) {
  try {
    (void)Spread::parse(mesh);
  } catch (const TextError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainingRun, AMeshIsReadAndWritten) {
  const Spread spread = Spread::parse("dp=2,fsdp=16,tp=8,pp=4,cp=2,ep=8");
  EXPECT_EQ(spread.ranks(), 2 * 16 * 8 * 4 * 2);
  EXPECT_EQ(Spread::parse(spread.text()), spread);
  EXPECT_EQ(Spread::parse("tp=8").text(), "tp=8");
  EXPECT_EQ(Spread::parse("tp=1").text(), "dp=1");
  EXPECT_EQ(Spread::parse("dp=1048576").ranks(), 1 << 20);
}

TEST(TrainingRun, ABadMeshSaysWhatIsValid) {
  EXPECT_EQ(mesh_error("dp=2,xp=4"),
            "mesh \"dp=2,xp=4\": at position 5: expected one of dp, fsdp, tp, pp, cp, ep");
  EXPECT_EQ(mesh_error("dp=2,dp=4"),
            "mesh \"dp=2,dp=4\": at position 5: expected each of dp, fsdp, tp, pp, cp, ep at most "
            "once");
  EXPECT_EQ(mesh_error("dp"), "mesh \"dp\": at position 2: expected \"=\"");
  EXPECT_EQ(mesh_error("dp=0"),
            "mesh \"dp=0\": at position 3: expected a number of ranks from 1 to 16777216");
  EXPECT_EQ(mesh_error("dp=2;tp=2"),
            "mesh \"dp=2;tp=2\": at position 4: expected \",\" or the end");
  EXPECT_EQ(mesh_error("dp=16777216,fsdp=16777216"),
            "mesh \"dp=16777216,fsdp=16777216\": at position 0: expected at most 10^12 ranks");
  EXPECT_NE(mesh_error(""), "");
}

TEST(TrainingRun, SizesThatDoNotFitSayWhatIsValid) {
  EXPECT_EQ(error_of(run_of("llama3-8b", "tp=3")),
            "tp=3 does not divide the number of attention heads, 32");
  TrainingRun run = run_of("llama3-8b", "cp=8");
  run.seq = 4100;
  EXPECT_EQ(error_of(run), "2 * cp=16 does not divide the length of the sequence, 4100");
  run = run_of("llama3-8b", "cp=3");
  run.seq = 3;
  EXPECT_EQ(error_of(run), "2 * cp=6 does not divide the length of the sequence, 3");
  run = run_of("llama3-8b", "tp=8");
  run.seq = 3;
  EXPECT_EQ(error_of(run),
            "tp=8 does not divide the tokens of a sequence on the ranks that share them, 3");
  run.seq = 4096;
  run.loss_chunks = 1024;
  EXPECT_EQ(error_of(run),
            "--loss-chunks=1024 does not divide the tokens of a sequence on a rank, 512");
  run.loss_chunks = 512;
  EXPECT_EQ(error_of(run), "");
  EXPECT_EQ(error_of(run_of("llama3-8b", "dp=8,ep=8")),
            "ep=8: llama3-8b has no experts; valid: ep=1");
  EXPECT_EQ(error_of(run_of("mixtral-8x7b", "dp=16,ep=16")),
            "ep=16 does not divide the number of experts, 8");
  EXPECT_EQ(error_of(run_of("mixtral-8x7b", "dp=2,tp=2,ep=8")),
            "ep=8 does not divide the product of dp, fsdp, cp and tp, 4");
  EXPECT_EQ(error_of(run_of("mixtral-8x7b", "dp=2,tp=4,ep=8")), "");
  EXPECT_EQ(error_of(run_of("llama3-8b", "pp=64")),
            "a pipeline of 64 stages is longer than the model, which has 32 blocks");
  run = run_of("llama3-8b", "dp=1");
  run.chunks = 2;
  EXPECT_EQ(error_of(run), "a pipeline of one rank has one stage; found 2 stages");
  run = run_of("llama3-8b", "dp=1");
  run.shape.kv_heads = 7;
  EXPECT_EQ(error_of(run), "kv_heads=7 does not divide the number of attention heads, 32");
  run = run_of("llama3-8b", "dp=1");
  run.shape.head_dim = 0;
  EXPECT_EQ(error_of(run), "the number of attention heads, 32, does not divide the width, 4096");
  run = run_of("mixtral-8x7b", "dp=1");
  run.shape.experts->per_token = 9;
  EXPECT_EQ(error_of(run), "each token goes to 9 experts; valid: at most the number of experts, 8");
  run = run_of("llama3-8b", "pp=16");
  run.grad_accum = 1 << 22;
  EXPECT_EQ(error_of(run),
            "a pipeline of 16 stages with 4194304 micro-batches; valid: stages times micro-batches "
            "at most 2^24");
}

// The groups of weights and of experts are the data-parallel ranks, however these are shared.
TEST(TrainingRun, ReplicasAreNoShards) {
  const auto groups = [](const std::string& mesh, Sharding sharding) {
    TrainingRun run = run_of("mixtral-8x7b", mesh);
    run.sharding = sharding;
    const DataGroups all = data_groups(run);
    return std::vector<std::int64_t>{all.shards, all.replicas, all.expert_shards,
                                     all.expert_replicas};
  };
  using Groups = std::vector<std::int64_t>;
  EXPECT_EQ(groups("dp=2,fsdp=8", Sharding::kFull), (Groups{8, 2, 8, 2}));
  EXPECT_EQ(groups("dp=2,fsdp=8,ep=4", Sharding::kFull), (Groups{8, 2, 2, 2}));
  EXPECT_EQ(groups("dp=2,fsdp=4,tp=2,cp=2,ep=4", Sharding::kKeptWeights), (Groups{8, 2, 4, 2}));
  // The ranks of ep beyond the shards are replicas.
  EXPECT_EQ(groups("dp=4,fsdp=2,ep=4", Sharding::kFull), (Groups{2, 4, 1, 2}));
  EXPECT_EQ(groups("dp=2,fsdp=12,ep=8", Sharding::kFull), (Groups{12, 2, 3, 1}));
  EXPECT_EQ(groups("dp=2,fsdp=8,ep=4", Sharding::kNone), (Groups{16, 1, 4, 1}));
  EXPECT_EQ(groups("dp=2,fsdp=8,ep=4", Sharding::kOptimizer), (Groups{8, 2, 2, 2}));
  // Without fsdp the optimizer's state is sharded over dp.
  EXPECT_EQ(groups("dp=16,ep=4", Sharding::kOptimizer), (Groups{16, 1, 4, 1}));
}

TEST(TrainingRun, EveryShippedShapeFitsOneRank) {
  for (const ModelShape& shape : all_model_shapes()) {
    TrainingRun run;
    run.shape = shape;
    EXPECT_EQ(error_of(run), "") << shape.name;
  }
}

// A step's tokens are those of all data-parallel ranks; context parallelism shares sequences.
TEST(TrainingRun, TokensOfAStepAreThoseOfDifferentData) {
  TrainingRun run = run_of("llama3-8b", "dp=2,fsdp=4,tp=8,pp=2,cp=2");
  run.seq = 8192;
  run.micro_batch = 3;
  run.grad_accum = 5;
  EXPECT_EQ(run.data_ranks(), 8);
  EXPECT_EQ(run.tokens_per_step(), 8192.0 * 3 * 5 * 8);
}

}  // namespace training_run_test
}  // namespace shardlab
