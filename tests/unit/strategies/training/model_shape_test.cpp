#include "strategies/training/model_shape.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace model_shape_test {

const ModelShape& shape_of(const std::string& name) {
  const ModelShape* found = find_model_shape(name);
  if (found == nullptr) throw std::runtime_error("no shape " + name);
  return *found;
}

struct PublishedTotal {
  const char* name;
  double parameters;
};

// Each model's card or paper. The counts here are of matrices: biases, norms and learned positions,
// which published totals include, are less than one part in 200 of any of these models, and
// published totals are rounded to three or four digits.
constexpr PublishedTotal kTotals[] = {
    {"llama2-7b", 6.738e9},        {"llama2-13b", 13.016e9},    {"llama2-70b", 68.977e9},
    {"llama3-1b", 1.236e9},        {"llama3-3b", 3.213e9},      {"llama3-8b", 8.030e9},
    {"llama3-70b", 70.554e9},      {"llama3-405b", 405.85e9},   {"mistral-7b", 7.242e9},
    {"gpt3-175b", 175e9},          {"gpt2-124m", 0.124e9},      {"gpt2-1.5b", 1.558e9},
    {"gpt-neox-20b", 20.55e9},     {"qwen2.5-0.5b", 0.494e9},   {"qwen2.5-1.5b", 1.544e9},
    {"qwen2.5-3b", 3.086e9},       {"qwen2.5-7b", 7.616e9},     {"qwen2.5-14b", 14.770e9},
    {"qwen2.5-32b", 32.764e9},     {"qwen2.5-72b", 72.706e9},   {"qwen3-0.6b", 0.596e9},
    {"qwen3-1.7b", 1.720e9},       {"qwen3-4b", 4.022e9},       {"qwen3-8b", 8.191e9},
    {"qwen3-14b", 14.768e9},       {"qwen3-32b", 32.762e9},     {"qwen3-30b-a3b", 30.532e9},
    {"qwen3-235b-a22b", 235.09e9}, {"mixtral-8x7b", 46.703e9},  {"mixtral-8x22b", 140.63e9},
    {"deepseek-v2-lite", 15.7e9},  {"deepseek-v2", 235.7e9},    {"deepseek-v3", 671.0e9},
    {"kimi-k2", 1.026e12},         {"gpt-oss-20b", 20.91e9},    {"gpt-oss-120b", 116.83e9},
    {"nemotron4-15b", 15.6e9},     {"nemotron4-340b", 341.0e9},
};

TEST(ModelShape, ParametersAreThoseOfThePublishedModels) {
  for (const PublishedTotal& each : kTotals) {
    EXPECT_NEAR(parameters_of(shape_of(each.name)) / each.parameters, 1.0, 0.005) << each.name;
  }
}

// Hybrid models are published with two digits in their names.
TEST(ModelShape, ParametersOfHybridModelsAreThoseInTheirNames) {
  EXPECT_NEAR(parameters_of(shape_of("nemotron3-nano-30b")) / 31.6e9, 1.0, 0.02);
  EXPECT_NEAR(parameters_of(shape_of("nemotron3-super-120b")) / 120e9, 1.0, 0.05);
  EXPECT_NEAR(parameters_of(shape_of("nemotron3-ultra-550b")) / 550e9, 1.0, 0.05);
}

// MPT's NumParams is exact, and counts learned positions. Source: mosaicml/llm-foundry,
// scripts/train/benchmarking/README.md, at a sequence length of 2,048.
TEST(ModelShape, MptIsWhatItsTableSaysWithBiasesNormsAndPositions) {
  const std::pair<const char*, double> rows[] = {
      {"mpt-125m", 125311488},  {"mpt-350m", 355985408},  {"mpt-760m", 760470528},
      {"mpt-1b", 1315950592},   {"mpt-3b", 2651837440},   {"mpt-7b", 6658859008},
      {"mpt-13b", 12853954560}, {"mpt-30b", 29975214080}, {"mpt-70b", 64862437376}};
  for (const auto& [name, published] : rows) {
    const ModelShape& shape = shape_of(name);
    const auto width = static_cast<double>(shape.width);
    // Biases of four products (3 + 1 + 4 + 1 widths) and two norms of two vectors each in a block,
    // and the last norm.
    const double small = (9.0 + 4.0) * width * static_cast<double>(shape.layers) + 2.0 * width;
    EXPECT_EQ(parameters_of(shape) + small + 2048.0 * width, published) << name;
  }
}

TEST(ModelShape, EveryShapeFitsTogether) {
  for (const ModelShape& shape : all_model_shapes()) {
    EXPECT_EQ(shape.heads % shape.kv_heads, 0) << shape.name;
    EXPECT_GT(shape.head_dim, 0) << shape.name;
    EXPECT_EQ(static_cast<std::int64_t>(blocks_of(shape).size()), shape.layers) << shape.name;
    EXPECT_EQ(find_model_shape(shape.name), &shape) << shape.name;
    if (shape.experts) {
      EXPECT_LE(shape.experts->per_token, shape.experts->count) << shape.name;
    }
  }
}

TEST(ModelShape, NamesAreReadAsOtherProjectsSpellThem) {
  for (const char* name : {"llama3-8b", "LLaMA3 8B", "Llama_3.1_8B", "llama3.1-8b"}) {
    ASSERT_NE(find_model_shape(name), nullptr) << name;
    EXPECT_EQ(find_model_shape(name)->name, "llama3-8b");
  }
  EXPECT_EQ(find_model_shape("GPT3_13B")->name, "gpt3-13b");
  EXPECT_EQ(find_model_shape("GPT3 1.3B")->name, "gpt3-1.3b");
  EXPECT_EQ(find_model_shape("qwen25-32b")->name, "qwen2.5-32b");
  EXPECT_EQ(find_model_shape("GPT OSS 120B")->name, "gpt-oss-120b");
  EXPECT_EQ(find_model_shape("Kimi_K2")->name, "kimi-k2");
  EXPECT_EQ(find_model_shape("Nemotron_3_Nano")->name, "nemotron3-nano-30b");
  EXPECT_EQ(find_model_shape("llama9-8b"), nullptr);
  EXPECT_EQ(find_model_shape(""), nullptr);
}

// 6 FLOPs a parameter and token, and 6 * layers * width * seq of causal attention: PaLM's appendix
// B with half of its pairs.
TEST(ModelShape, FlopsOfATokenAreSixForEachParameterAndThoseOfCausalAttention) {
  const ModelShape& dense = shape_of("llama3-8b");
  const double multiplied = parameters_of(dense) - parameter_counts(dense).embedding;
  EXPECT_DOUBLE_EQ(model_flops_per_token(dense, 8192),
                   6.0 * multiplied + 6.0 * 32.0 * 4096.0 * 8192.0);
  // A tied output is multiplied although it has no parameters of its own.
  const ModelShape& tied = shape_of("mpt-7b");
  EXPECT_DOUBLE_EQ(model_flops_per_token(tied, 2048),
                   6.0 * parameters_of(tied) + 6.0 * 32.0 * 4096.0 * 2048.0);
}

TEST(ModelShape, FlopsOfATokenCountTheExpertsThatItMeets) {
  // 3.3e9 of Qwen3-30B-A3B's parameters are active, 37e9 of DeepSeek-V3's, both with the embedding.
  const auto active = [](const std::string& name) {
    const ModelShape& shape = shape_of(name);
    return model_flops_per_token(shape, 1) / 6.0 + parameter_counts(shape).embedding;
  };
  EXPECT_NEAR(active("qwen3-30b-a3b") / 3.35e9, 1.0, 0.02);
  EXPECT_NEAR(active("deepseek-v3") / 37.6e9, 1.0, 0.02);
  EXPECT_NEAR(active("kimi-k2") / 32.9e9, 1.0, 0.03);
  EXPECT_NEAR(active("mixtral-8x7b") / 12.9e9, 1.0, 0.02);
}

TEST(ModelShape, AWindowCountsTheKeysThatAreThere) {
  ModelShape shape = shape_of("llama2-7b");
  const auto attention = [&](std::int64_t seq) {
    return model_flops_per_token(shape, seq) -
           6.0 * (parameters_of(shape) - parameter_counts(shape).embedding);
  };
  const double all = attention(8192);
  shape.window = 8192;
  EXPECT_DOUBLE_EQ(attention(8192), all);
  shape.window = 1 << 20;
  EXPECT_DOUBLE_EQ(attention(8192), all);
  shape.window = 8000;
  EXPECT_LT(attention(8192), all);
  EXPECT_GT(attention(8192), 0.95 * all);
  // Nearly every query of a long sequence sees the whole window.
  shape.window = 128;
  EXPECT_NEAR(attention(1 << 20) / (12.0 * 32.0 * 4096.0 * 128.0), 1.0, 1e-3);
  const double every_block = attention(8192);
  shape.window_every = 2;
  EXPECT_DOUBLE_EQ(attention(8192), 0.5 * (every_block + all));
}

TEST(ModelShape, BlocksStandWhereTheModelHasThem) {
  const std::vector<BlockPlace> deepseek = blocks_of(shape_of("deepseek-v3"));
  for (std::size_t i = 0; i < deepseek.size(); ++i) {
    EXPECT_EQ(deepseek[i].kind, i < 3 ? BlockKind::kDense : BlockKind::kExperts) << i;
  }
  const std::vector<BlockPlace> windowed = blocks_of(shape_of("gpt-oss-20b"));
  EXPECT_TRUE(windowed[0].windowed);
  EXPECT_FALSE(windowed[1].windowed);
  const ModelShape& hybrid = shape_of("nemotron3-nano-30b");
  std::map<BlockKind, std::int64_t> count;
  for (const BlockPlace& block : blocks_of(hybrid)) ++count[block.kind];
  EXPECT_EQ(count[BlockKind::kAttentionOnly], hybrid.hybrid->attention);
  EXPECT_EQ(count[BlockKind::kStateSpaceOnly], hybrid.hybrid->state_space);
  EXPECT_EQ(count[BlockKind::kExpertsOnly], hybrid.hybrid->experts);
}

}  // namespace model_shape_test
}  // namespace shardlab
