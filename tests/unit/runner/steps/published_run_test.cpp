// What a published row says, and what its project does by default.
#include "runner/steps/published_run.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"

namespace shardlab {
namespace published_run_test {

StepRow row_of() {
  StepRow row;
  row.id = "a";
  row.source = "somebody/something";
  row.framework = "torchtitan";
  row.model = "llama3-8b";
  row.gpu = "H100-SXM5-80GB";
  row.gpus = 64;
  row.seq = 8192;
  row.micro_batch = 2;
  row.tokens_per_s_per_gpu = 5000.0;
  return row;
}

RecipeBook no_recipes() {
  return read_csv("source_repo,model,gpu,gpus,recompute\n", "recipes.csv");
}

PublishedRun run_of(const StepRow& row) { return published_run(row, no_recipes()); }

std::string error_of(const StepRow& row) {
  try {
    (void)run_of(row);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PublishedRun, RanksThatARowDoesNotNameAreReplicas) {
  StepRow row = row_of();
  row.tp = 8;
  EXPECT_EQ(run_of(row).run.spread.text(), "dp=8,tp=8");
  row.fsdp = 4;
  EXPECT_EQ(run_of(row).run.spread.text(), "dp=2,fsdp=4,tp=8");
  row.dp_replicate = 2;
  EXPECT_EQ(run_of(row).run.spread.text(), "dp=2,fsdp=4,tp=8");
}

TEST(PublishedRun, RanksThatAreNotTheGpusAreRefused) {
  StepRow row = row_of();
  row.fsdp = 4;
  row.dp_replicate = 8;
  EXPECT_EQ(error_of(row),
            "dp_replicate * fsdp * tp * pp * cp (dp=8,fsdp=4) is not the number of GPUs, 64");
  row = row_of();
  row.tp = 3;
  EXPECT_EQ(error_of(row),
            "dp_replicate * fsdp * tp * pp * cp (tp=3) is not the number of GPUs, 64");
  row.tp = row.pp = row.cp = row.fsdp = 1'000'000'000;
  EXPECT_NE(error_of(row), "");
}

TEST(PublishedRun, TheGlobalBatchSaysHowManyMicroBatchesThereAre) {
  StepRow row = row_of();
  row.tp = 8;
  row.global_batch = 8 * 2 * 5;
  EXPECT_EQ(run_of(row).run.grad_accum, 5);
  // Those of a pipeline are not called accumulation everywhere.
  row.pp = 2;
  row.grad_accum = 1;
  EXPECT_EQ(run_of(row).run.grad_accum, 10);
  row.global_batch = std::nullopt;
  row.grad_accum = 3;
  EXPECT_EQ(run_of(row).run.grad_accum, 3);
}

TEST(PublishedRun, BatchesThatContradictEachOtherAreRefused) {
  StepRow row = row_of();
  row.gpus = 8;
  row.fsdp = 8;
  row.micro_batch = 4;
  row.grad_accum = 3;
  row.global_batch = 96;
  EXPECT_EQ(error_of(row), "");
  row.grad_accum = 16;
  EXPECT_EQ(error_of(row),
            "global_batch, 96, is not micro_batch * dp_replicate * fsdp * grad_accum, 32 * 16");
  row.grad_accum = std::nullopt;
  row.global_batch = 100;
  EXPECT_EQ(error_of(row),
            "global_batch, 100, is no multiple of the sequences of one forward pass, micro_batch * "
            "dp_replicate * fsdp, 32");
  row.global_batch = 8;
  EXPECT_EQ(error_of(row),
            "global_batch, 8, is no multiple of the sequences of one forward pass, micro_batch * "
            "dp_replicate * fsdp, 32");
}

TEST(PublishedRun, RowsSayWhetherGradientsAreReducedOnce) {
  StepRow row = row_of();
  row.fsdp = 64;
  row.grad_accum = 4;
  EXPECT_FALSE(run_of(row).run.reduces_once());
  row.no_sync = "no";
  EXPECT_FALSE(run_of(row).run.reduces_once());
  row.no_sync = "yes";
  EXPECT_TRUE(run_of(row).run.reduces_once());
}

TEST(PublishedRun, RowsSayInWhichDtypeGradientsAreReduced) {
  StepRow row = row_of();
  const auto bytes = [&](const char* dtype) {
    row.reduce_dtype = dtype;
    return run_of(row).run.gradient_bytes;
  };
  EXPECT_EQ(bytes(""), 4.0);
  EXPECT_EQ(bytes("bf16"), 2.0);
  EXPECT_EQ(bytes("f32"), 4.0);
  row.unknown = "MP mode PURE";
  EXPECT_EQ(bytes(""), 2.0);
  EXPECT_EQ(bytes("f32"), 4.0);
  row.unknown = "";
  row.framework = "Megatron-LM";
  EXPECT_EQ(bytes(""), 2.0);
  EXPECT_EQ(bytes("f32"), 4.0);
}

TEST(PublishedRun, GpusHaveTheirTopologies) {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"H100-SXM5-80GB (DGX)", "h100", "h100"},
      {"H100-96GB-HBM2e-500W", "h100-hbm2e", "h100-hbm2e"},
      {"A100-SXM4-40GB", "a100-40", "a100-40"},
      {"A100-SXM4-80GB", "a100", "a100"},
      {"GB200 NVL72", "gb200", "gb200"},
      {"B200", "b200", "b200"},
      {"B200 power limited", "b200", "b200-limited"},
      // GPUs that no topology is of have that of the most similar one.
      {"NVIDIA H100 PCIe", "h100", "h100"},
      {"H100 PCIe 80GB HBM2e", "h100", "h100"},
      {"NVIDIA H100 NVL", "h100", "h100"},
      {"H800", "h100", "h100"},
      {"NVIDIA A100-PCIE-40GB", "a100-40", "a100-40"},
      {"A100-SXM4 40 GB", "a100-40", "a100-40"}};
  for (const auto& [gpu, topology, trait] : rows) {
    StepRow row = row_of();
    row.gpu = gpu;
    EXPECT_EQ(run_of(row).topology, topology) << gpu;
    EXPECT_EQ(run_of(row).traits.at("gpu"), trait) << gpu;
  }
  for (const std::string gpu : {"MI300X", "GH200 96GB", "V100", ""}) {
    StepRow row = row_of();
    row.gpu = gpu;
    EXPECT_EQ(error_of(row), "the GPU \"" + gpu +
                                 "\" is not known; valid: names with A100, H100, H200, B200, "
                                 "B300, GB200 or GB300");
  }
}

TEST(PublishedRun, RowsStateTheirNetwork) {
  StepRow row = row_of();
  const auto gb_per_s = [&](const char* inter_host) {
    row.inter_host = inter_host;
    return run_of(row).network.bandwidth_of_device.value_or(GBps(-1)).value();
  };
  EXPECT_EQ(gb_per_s("RoCE 100 Gb/s a GPU"), 12.5);
  EXPECT_EQ(run_of(row).topology, "h100");
  EXPECT_EQ(gb_per_s("RoCE"), -1);
  EXPECT_EQ(run_of(row).topology, "h100-roce");
  EXPECT_EQ(gb_per_s("EFA, 4 x 100 Gb/s per node"), 6.25);
  EXPECT_EQ(run_of(row).network.delay, 2.2);
  row.gpus_per_host = 4;
  EXPECT_EQ(gb_per_s("EFA, 4 x 100 Gb/s per node"), 12.5);
}

TEST(PublishedRun, PrecisionsAreReadInTheirSpellings) {
  const std::pair<const char*, const char*> rows[] = {{"", "bf16"},
                                                      {"bf16", "bf16"},
                                                      {"amp_bf16", "bf16"},
                                                      {"fp8 linear (tensorwise) + bf16", "fp8"},
                                                      {"float8 rowwise", "fp8-rowwise"},
                                                      {"MXFP8", "mxfp8"},
                                                      {"NVFP4", "nvfp4"}};
  for (const auto& [precision, trait] : rows) {
    StepRow row = row_of();
    row.precision = precision;
    EXPECT_EQ(run_of(row).traits.at("precision"), trait) << precision;
  }
  StepRow row = row_of();
  row.precision = "int4";
  EXPECT_EQ(error_of(row),
            "the precision \"int4\" is not known; valid: bf16, fp16, fp8, mxfp8, nvfp4 and their "
            "spellings");
}

TEST(PublishedRun, AnUnknownModelNeedsItsSizes) {
  StepRow row = row_of();
  row.model = "mine-7b";
  EXPECT_EQ(
      error_of(row),
      "the model \"mine-7b\" is not known, and its sizes (layers, d_model, heads, ffn, vocab) "
      "are not given");
  row.layers = 32;
  row.d_model = 4096;
  row.heads = 32;
  row.ffn = 16384;
  row.vocab = 50000;
  const ModelShape plain = run_of(row).run.shape;
  EXPECT_FALSE(plain.gated);
  EXPECT_EQ(plain.kv_heads, 32);
  EXPECT_EQ(plain.head_dim, 128);
  row.ffn = 11008;
  EXPECT_TRUE(run_of(row).run.shape.gated);
  row.heads = 30;
  row.kv_heads = 30;
  EXPECT_EQ(error_of(row), "the number of attention heads, 30, does not divide the width, 4096");
  row.family = "moo";
  EXPECT_EQ(error_of(row),
            "the family \"moo\" is not known; valid: dense, moe, unknown, or nothing");
  row.family = "moe";
  EXPECT_EQ(
      error_of(row),
      "the model \"mine-7b\" is not known, and the columns do not say the sizes of its experts");
}

TEST(PublishedRun, RecomputationIsTheRowsOrTheRecipesOrOpen) {
  StepRow row = row_of();
  row.framework = "something";
  EXPECT_EQ(run_of(row).run.recompute, std::nullopt);
  row.framework = "torchtitan";  // the default of its configurations
  EXPECT_EQ(run_of(row).run.recompute.value().text(), "selective");
  const std::pair<const char*, const char*> rows[] = {{"none", "none"},
                                                      {"No", "none"},
                                                      {"0", "none"},
                                                      {"full", "full"},
                                                      {"Full (every block)", "full"},
                                                      {"true", "full"},
                                                      {"full:4", "full:4"},
                                                      {"selective (op)", "selective"},
                                                      {"selective (every 2nd layer)", "every:2"},
                                                      {"every other layer", "every:2"},
                                                      {"every:4", "every:4"}};
  for (const auto& [text, policy] : rows) {
    row.act_ckpt = text;
    EXPECT_EQ(run_of(row).run.recompute.value().text(), policy) << text;
  }
  for (const char* text : {"garbage", "selectve", "full:0", "every layer"}) {
    row.act_ckpt = text;
    EXPECT_EQ(error_of(row), std::string("the act_ckpt \"") + text +
                                 "\" is not known; valid: none, selective, full, every:N, "
                                 "selective:N, full:N, unknown, or nothing; words in parentheses "
                                 "may follow");
  }
  row.act_ckpt = "unknown";
  const RecipeBook book = read_csv(
      "source_repo,model,gpu,gpus,recompute,cuda_graphs\n"
      "somebody/something,llama3-8b,H200,64,none,\n"
      "somebody/something,llama3-8b,H100-SXM5-80GB,8,full,full\n"
      "somebody/other,llama3-8b,H100-SXM5-80GB,64,selective,\n",
      "recipes.csv");
  const PublishedRun found = published_run(row, book);
  EXPECT_EQ(found.run.recompute.value().text(), "full");
  EXPECT_TRUE(found.run.graphs);
  EXPECT_EQ(found.traits.at("graphs"), "full");
}

TEST(PublishedRun, FrameworksHaveTheirKernels) {
  StepRow row = row_of();
  EXPECT_EQ(run_of(row).run.execution, Execution::kEager);
  row.compile = "yes";
  EXPECT_EQ(run_of(row).run.execution, Execution::kCompiled);
  row.compile = "no";
  row.framework = "Megatron-LM";
  const TrainingRun megatron = run_of(row).run;
  EXPECT_EQ(megatron.execution, Execution::kLibrary);
  EXPECT_FALSE(megatron.copies_weights);
  EXPECT_EQ(megatron.sharding, Sharding::kOptimizer);
  row.pp = 4;
  row.vp = 2;
  EXPECT_EQ(run_of(row).run.schedule, PipelineSchedule::kInterleaved);
  EXPECT_EQ(run_of(row).run.chunks, 2);
}

TEST(PublishedRun, RowsSayWhoseKernelsRun) {
  StepRow row = row_of();
  row.framework = "TinyLlama (Lightning Fabric)";
  const auto execution = [&](const char* kernels) {
    row.kernels = kernels;
    return run_of(row).run.execution;
  };
  EXPECT_EQ(execution(""), Execution::kEager);
  EXPECT_EQ(execution("library"), Execution::kLibrary);
  EXPECT_EQ(execution("compiled"), Execution::kCompiled);
  row.framework = "Megatron-LM";
  EXPECT_EQ(execution(""), Execution::kLibrary);
  EXPECT_EQ(execution("eager"), Execution::kEager);
  row.software = "TE + PyTorch";
  EXPECT_EQ(execution("eager"), Execution::kEager);
  row.compile = "no";
  EXPECT_EQ(execution("library"), Execution::kLibrary);
  row.compile = "yes";
  EXPECT_EQ(execution("compiled"), Execution::kCompiled);
  EXPECT_EQ(error_of(row), "");
  row.kernels = "library";
  EXPECT_EQ(error_of(row),
            "compile is \"yes\", but kernels is \"library\"; valid: compile \"yes\" with kernels "
            "\"compiled\" alone, or one of the two");
  row.kernels = "compiled";
  row.compile = "no";
  EXPECT_NE(error_of(row), "");
}

TEST(PublishedRun, TheShippedRecipesAreRead) {
  EXPECT_GT(read_recipe_book(SHARDLAB_SOURCE_DIR "/configs").records.size(), 10U);
}

TEST(PublishedRun, WordsOfNoFrameworkAreRefused) {
  StepRow row = row_of();
  row.fsdp = 64;
  const std::pair<const char*, Sharding> rows[] = {
      {"", Sharding::kFull},
      {"not said", Sharding::kFull},
      {"FSDP2", Sharding::kFull},
      {"HSDP", Sharding::kFull},
      {"full", Sharding::kFull},
      {"ZeRO-2", Sharding::kKeptWeights},
      {"ZeRO-1 (inside hosts)", Sharding::kOptimizer},
      {"DDP + distributed optimizer", Sharding::kOptimizer},
      {"NO_SHARD", Sharding::kNone},
      {"DDP", Sharding::kNone}};
  for (const auto& [text, sharding] : rows) {
    row.sharding = text;
    EXPECT_EQ(run_of(row).run.sharding, sharding) << text;
  }
  row.sharding = "quux";
  EXPECT_EQ(
      error_of(row),
      "the sharding \"quux\" is not known; valid: FSDP, FULL_SHARD, HYBRID_SHARD, "
      "SHARD_GRAD_OP, ZeRO-1, ZeRO-2, ZeRO-3, distributed optimizer, DDP, NO_SHARD, not said, "
      "or nothing");
  row.sharding = "";
  row.task = "LoRA";
  EXPECT_EQ(run_of(row).run.task, Task::kLora);
  row.task = "SFT";
  EXPECT_EQ(run_of(row).run.task, Task::kPretrain);
  row.task = "lorra";
  EXPECT_EQ(error_of(row),
            "the task \"lorra\" is not known; valid: pretrain, SFT, fine-tuning, LoRA, unknown, or "
            "nothing");
}

}  // namespace published_run_test
}  // namespace shardlab
