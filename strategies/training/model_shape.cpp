#include "strategies/training/model_shape.h"

#include <algorithm>
#include <cctype>

namespace shardlab {
namespace {

ModelShape llama(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads,
                 std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocabulary) {
  return {.name = std::move(name),
          .layers = layers,
          .width = width,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = width / heads,
          .ffn = ffn,
          .vocabulary = vocabulary};
}

ModelShape with_head_dim(ModelShape shape, std::int64_t head_dim) {
  shape.head_dim = head_dim;
  return shape;
}

ModelShape mpt(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads) {
  ModelShape shape = llama(std::move(name), layers, width, heads, heads, 4 * width, 50368);
  shape.gated = false;
  shape.norm = Norm::kLayer;
  shape.position = Position::kLearned;
  shape.biases = true;
  shape.tied = true;
  return shape;
}

ModelShape gpt(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads) {
  ModelShape shape = llama(std::move(name), layers, width, heads, heads, 4 * width, 51200);
  shape.gated = false;
  shape.norm = Norm::kLayer;
  shape.position = Position::kLearned;
  shape.biases = true;
  shape.tied = true;
  return shape;
}

ModelShape gpt_neox(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads,
                    std::int64_t vocabulary) {
  ModelShape shape = llama(std::move(name), layers, width, heads, heads, 4 * width, vocabulary);
  shape.gated = false;
  shape.norm = Norm::kLayer;
  shape.biases = true;
  return shape;
}

ModelShape with_tied_output(ModelShape shape) {
  shape.tied = true;
  return shape;
}

ModelShape with_biases(ModelShape shape) {
  shape.biases = true;
  return shape;
}

ModelShape with_experts(ModelShape shape, Experts experts, std::int64_t dense_layers = 0) {
  shape.experts = experts;
  shape.dense_layers = dense_layers;
  return shape;
}

ModelShape qwen3(ModelShape shape, std::int64_t head_dim) {
  shape.head_dim = head_dim;
  shape.normed_heads = true;
  return shape;
}

ModelShape deepseek(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads,
                    std::int64_t dense_ffn, std::int64_t query_rank, std::int64_t vocabulary,
                    Experts experts, std::int64_t dense_layers) {
  ModelShape shape = llama(std::move(name), layers, width, heads, heads, dense_ffn, vocabulary);
  shape.head_dim = 128;
  shape.latent = LatentAttention{.query_rank = query_rank,
                                 .key_rank = 512,
                                 .plain_dim = 128,
                                 .rotary_dim = 64,
                                 .value_dim = 128};
  return with_experts(std::move(shape), experts, dense_layers);
}

ModelShape gpt_oss(std::string name, std::int64_t layers, std::int64_t experts) {
  ModelShape shape = llama(std::move(name), layers, 2880, 64, 8, 2880, 201088);
  shape.head_dim = 64;
  shape.biases = true;
  shape.window = 128;
  shape.window_every = 2;
  return with_experts(std::move(shape), {.count = experts, .per_token = 4, .ffn = 2880});
}

ModelShape nemotron3(std::string name, std::int64_t width, std::int64_t kv_heads,
                     std::int64_t heads, HybridLayers layers, StateSpace state_space,
                     Experts experts) {
  ModelShape shape =
      llama(std::move(name), layers.attention + layers.state_space + layers.experts + layers.dense,
            width, heads, kv_heads, 4 * width, 131072);
  shape.head_dim = 128;
  shape.gated = false;
  shape.position = Position::kNone;
  shape.state_space = state_space;
  shape.hybrid = layers;
  shape.experts = experts;
  return shape;
}

ModelShape nemotron4(std::string name, std::int64_t layers, std::int64_t width, std::int64_t heads,
                     std::int64_t kv_heads, std::int64_t ffn) {
  ModelShape shape = llama(std::move(name), layers, width, heads, kv_heads, ffn, 256000);
  shape.gated = false;
  shape.norm = Norm::kLayer;
  return shape;
}

std::vector<ModelShape> make_shapes() {
  std::vector<ModelShape> shapes = {
      // Touvron et al. 2023; Llama Team 2024, table 3.
      llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000),
      llama("llama2-13b", 40, 5120, 40, 40, 13824, 32000),
      llama("llama2-34b", 48, 8192, 64, 8, 22016, 32000),
      llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000),
      with_tied_output(llama("llama3-1b", 16, 2048, 32, 8, 8192, 128256)),
      with_tied_output(llama("llama3-3b", 28, 3072, 24, 8, 8192, 128256)),
      llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256),
      llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256),
      llama("llama3-405b", 126, 16384, 128, 8, 53248, 128256),
      llama("mistral-7b", 32, 4096, 32, 8, 14336, 32000),
      // mosaicml/llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml.
      mpt("mpt-125m", 12, 768, 12),
      mpt("mpt-350m", 24, 1024, 16),
      mpt("mpt-760m", 24, 1536, 12),
      mpt("mpt-1b", 24, 2048, 16),
      mpt("mpt-3b", 32, 2560, 20),
      mpt("mpt-7b", 32, 4096, 32),
      mpt("mpt-13b", 40, 5120, 40),
      mpt("mpt-30b", 48, 7168, 56),
      mpt("mpt-70b", 80, 8192, 64),
      // Brown et al. 2020, table 2.1.
      gpt("gpt3-125m", 12, 768, 12),
      gpt("gpt3-350m", 24, 1024, 16),
      gpt("gpt3-760m", 24, 1536, 16),
      gpt("gpt3-1.3b", 24, 2048, 16),
      gpt("gpt3-2.7b", 32, 2560, 32),
      gpt("gpt3-6.7b", 32, 4096, 32),
      gpt("gpt3-13b", 40, 5120, 40),
      gpt("gpt3-20b", 44, 6144, 48),
      gpt("gpt3-175b", 96, 12288, 96),
      gpt("gpt2-124m", 12, 768, 12),
      gpt("gpt2-350m", 24, 1024, 16),
      gpt("gpt2-774m", 36, 1280, 20),
      gpt("gpt2-1.5b", 48, 1600, 25),
      // Black et al. 2022, table 1.
      gpt_neox("gpt-neox-20b", 44, 6144, 64, 50432),
      // Qwen Team 2024, 2025; each model's config.json.
      with_tied_output(with_biases(llama("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936))),
      with_tied_output(with_biases(llama("qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 151936))),
      with_tied_output(with_biases(llama("qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936))),
      with_biases(llama("qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064)),
      with_biases(llama("qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064)),
      with_biases(llama("qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064)),
      with_biases(llama("qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064)),
      with_tied_output(qwen3(llama("qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936), 128)),
      with_tied_output(qwen3(llama("qwen3-1.7b", 28, 2048, 16, 8, 6144, 151936), 128)),
      with_tied_output(qwen3(llama("qwen3-4b", 36, 2560, 32, 8, 9728, 151936), 128)),
      qwen3(llama("qwen3-8b", 36, 4096, 32, 8, 12288, 151936), 128),
      qwen3(llama("qwen3-14b", 40, 5120, 40, 8, 17408, 151936), 128),
      qwen3(llama("qwen3-32b", 64, 5120, 64, 8, 25600, 151936), 128),
      with_experts(qwen3(llama("qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936), 128),
                   {.count = 128, .per_token = 8, .ffn = 768}),
      with_experts(qwen3(llama("qwen3-235b-a22b", 94, 4096, 64, 4, 12288, 151936), 128),
                   {.count = 128, .per_token = 8, .ffn = 1536}),
      // Jiang et al. 2024; each model's config.json.
      with_experts(llama("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000),
                   {.count = 8, .per_token = 2, .ffn = 14336}),
      with_experts(llama("mixtral-8x22b", 56, 6144, 48, 8, 16384, 32768),
                   {.count = 8, .per_token = 2, .ffn = 16384}),
      // DeepSeek-AI 2024, each model's config.json; Moonshot AI 2025.
      deepseek("deepseek-v2-lite", 27, 2048, 16, 10944, 0, 102400,
               {.count = 64, .per_token = 6, .ffn = 1408, .shared_ffn = 2816}, 1),
      deepseek("deepseek-v2", 60, 5120, 128, 12288, 1536, 102400,
               {.count = 160, .per_token = 6, .ffn = 1536, .shared_ffn = 3072}, 1),
      deepseek("deepseek-v3", 61, 7168, 128, 18432, 1536, 129280,
               {.count = 256, .per_token = 8, .ffn = 2048, .shared_ffn = 2048}, 3),
      deepseek("kimi-k2", 61, 7168, 64, 18432, 1536, 163840,
               {.count = 384, .per_token = 8, .ffn = 2048, .shared_ffn = 2048}, 1),
      // OpenAI 2025, config.json of gpt-oss-20b and gpt-oss-120b.
      gpt_oss("gpt-oss-20b", 24, 32),
      gpt_oss("gpt-oss-120b", 36, 128),
      // NVIDIA 2024 and 2025, each model's config.json.
      nemotron4("nemotron4-15b", 32, 6144, 48, 8, 24576),
      nemotron4("nemotron4-22b", 40, 6144, 48, 48, 24576),
      with_head_dim(nemotron4("nemotron4-340b", 96, 18432, 96, 8, 73728), 192),
      nemotron3("nemotron3-nano-30b", 2688, 2, 32,
                {.attention = 6, .state_space = 23, .experts = 23},
                {.heads = 64, .head_dim = 64, .state = 128, .groups = 8},
                {.count = 128, .per_token = 6, .ffn = 1856, .shared_ffn = 3712}),
      nemotron3("nemotron3-super-120b", 4096, 2, 32,
                {.attention = 8, .state_space = 40, .experts = 40},
                {.heads = 128, .head_dim = 64, .state = 128, .groups = 8},
                {.count = 512, .per_token = 22, .ffn = 2688, .shared_ffn = 5376, .latent = 1024}),
      nemotron3("nemotron3-ultra-550b", 8192, 2, 64,
                {.attention = 12, .state_space = 48, .experts = 48},
                {.heads = 256, .head_dim = 64, .state = 128, .groups = 8},
                {.count = 512, .per_token = 22, .ffn = 5120, .shared_ffn = 10240, .latent = 2048}),
  };
  std::sort(shapes.begin(), shapes.end(),
            [](const ModelShape& a, const ModelShape& b) { return a.name < b.name; });
  return shapes;
}

// The name in lower case, without what separates its words; with or without its dots, which tell
// gpt3-1.3b and gpt3-13b apart.
std::string plain(std::string_view name, bool with_dots = false) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || (with_dots && c == '.')) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

struct OtherName {
  std::string_view plain;
  std::string_view name;
};
// Spellings that differ in more than case and separators.
constexpr OtherName kOtherNames[] = {{"llama31405b", "llama3-405b"},
                                     {"llama318b", "llama3-8b"},
                                     {"llama3170b", "llama3-70b"},
                                     {"llama321b", "llama3-1b"},
                                     {"llama323b", "llama3-3b"},
                                     {"llama213b", "llama2-13b"},
                                     {"nemotron3nano", "nemotron3-nano-30b"},
                                     {"nemotronv3nano30b2602", "nemotron3-nano-30b"},
                                     {"nemotron3super", "nemotron3-super-120b"},
                                     {"nemotron3ultra", "nemotron3-ultra-550b"},
                                     {"nemotronv3super120b2602", "nemotron3-super-120b"},
                                     {"nemotron22b", "nemotron4-22b"},
                                     {"nemotron340b", "nemotron4-340b"},
                                     {"nemotron15b", "nemotron4-15b"},
                                     {"nemotron415b", "nemotron4-15b"},
                                     {"qwen25b32b", "qwen2.5-32b"},
                                     {"mixtral8x7b", "mixtral-8x7b"},
                                     {"gpt2", "gpt2-124m"},
                                     {"llama7b", "llama2-7b"},
                                     {"llama13b", "llama2-13b"},
                                     {"llama34b", "llama2-34b"},
                                     {"llama70b", "llama2-70b"},
                                     {"gptneox20b", "gpt-neox-20b"}};

}  // namespace

std::span<const ModelShape> all_model_shapes() {
  static const std::vector<ModelShape> shapes = make_shapes();
  return shapes;
}

const ModelShape* find_model_shape(std::string_view name) {
  const std::string dotted = plain(name, true);
  for (const ModelShape& shape : all_model_shapes()) {
    if (plain(shape.name, true) == dotted) return &shape;
  }
  std::string wanted = plain(name);
  for (const OtherName& other : kOtherNames) {
    if (other.plain == wanted) wanted = plain(other.name);
  }
  for (const ModelShape& shape : all_model_shapes()) {
    if (plain(shape.name) == wanted) return &shape;
  }
  return nullptr;
}

std::vector<std::string> model_shape_names() {
  std::vector<std::string> names;
  for (const ModelShape& shape : all_model_shapes()) names.push_back(shape.name);
  return names;
}

std::int64_t head_dim_of(const ModelShape& changed, const ModelShape& known) {
  if (known.head_dim * known.heads != known.width) return known.head_dim;
  return changed.width % changed.heads == 0 ? changed.width / changed.heads : 0;
}

std::vector<BlockPlace> blocks_of(const ModelShape& shape) {
  std::vector<BlockPlace> blocks;
  const auto windowed = [&](std::int64_t index) {
    return shape.window > 0 && index % shape.window_every == 0;
  };
  if (!shape.hybrid) {
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const bool experts = shape.experts && i >= shape.dense_layers;
      blocks.push_back({experts ? BlockKind::kExperts : BlockKind::kDense, windowed(i)});
    }
    return blocks;
  }
  // Each kind has a block wherever its share of the blocks so far falls behind.
  const HybridLayers& layers = *shape.hybrid;
  const std::array<std::pair<BlockKind, std::int64_t>, 4> kinds = {
      std::pair{BlockKind::kStateSpaceOnly, layers.state_space},
      std::pair{BlockKind::kExpertsOnly, layers.experts},
      std::pair{BlockKind::kAttentionOnly, layers.attention},
      std::pair{BlockKind::kDenseOnly, layers.dense}};
  std::array<std::int64_t, 4> placed = {};
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    std::size_t best = 0;
    double most = -1e9;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const double due = static_cast<double>(kinds[k].second) * static_cast<double>(i + 1) /
                             static_cast<double>(shape.layers) -
                         static_cast<double>(placed[k]);
      if (placed[k] < kinds[k].second && due > most) {
        most = due;
        best = k;
      }
    }
    ++placed[best];
    blocks.push_back({kinds[best].first, false});
  }
  return blocks;
}

ParameterCounts parameter_counts(const ModelShape& shape) {
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = d(shape.width);
  ParameterCounts counts;
  if (shape.latent) {
    const LatentAttention& mla = *shape.latent;
    const double key = d(mla.plain_dim + mla.rotary_dim);
    const double heads = d(shape.heads);
    counts.attention = mla.query_rank > 0
                           ? width * d(mla.query_rank) + d(mla.query_rank) * heads * key
                           : width * heads * key;
    counts.attention += width * d(mla.key_rank + mla.rotary_dim) +
                        d(mla.key_rank) * heads * d(mla.plain_dim + mla.value_dim) +
                        heads * d(mla.value_dim) * width;
  } else {
    const double head = d(shape.head_dim);
    counts.attention = width * head * (2 * d(shape.heads) + 2 * d(shape.kv_heads));
  }
  const double matrices = shape.gated ? 3.0 : 2.0;
  counts.dense_ffn = matrices * width * d(shape.ffn);
  if (shape.experts) {
    const Experts& experts = *shape.experts;
    const double inner = experts.latent > 0 ? d(experts.latent) : width;
    counts.one_expert = matrices * inner * d(experts.ffn);
    counts.shared = width * d(experts.count) + matrices * width * d(experts.shared_ffn);
    if (experts.latent > 0) counts.shared += 2 * width * d(experts.latent);
  }
  if (shape.state_space) {
    const StateSpace& ssm = *shape.state_space;
    const double inner = d(ssm.heads * ssm.head_dim);
    counts.state_space =
        width * (2 * inner + 2 * d(ssm.groups * ssm.state) + d(ssm.heads)) + inner * width;
  }
  counts.embedding = d(shape.vocabulary) * width;
  counts.output = shape.tied ? 0.0 : counts.embedding;
  return counts;
}

namespace {

// The parameters of all blocks. Each block with experts counts `experts` of them: all experts for
// the size of the model, those of one token for its FLOPs.
double block_parameters(const ModelShape& shape, double experts) {
  const ParameterCounts counts = parameter_counts(shape);
  double sum = 0.0;
  for (const BlockPlace& block : blocks_of(shape)) {
    switch (block.kind) {
      case BlockKind::kDense:
        sum += counts.attention + counts.dense_ffn;
        break;
      case BlockKind::kExperts:
        sum += counts.attention + counts.shared + experts * counts.one_expert;
        break;
      case BlockKind::kAttentionOnly:
        sum += counts.attention;
        break;
      case BlockKind::kStateSpaceOnly:
        sum += counts.state_space;
        break;
      case BlockKind::kExpertsOnly:
        sum += counts.shared + experts * counts.one_expert;
        break;
      case BlockKind::kDenseOnly:
        sum += counts.dense_ffn;
        break;
    }
  }
  return sum;
}

}  // namespace

double parameters_of(const ModelShape& shape) {
  const ParameterCounts counts = parameter_counts(shape);
  const double experts = shape.experts ? static_cast<double>(shape.experts->count) : 0.0;
  return counts.embedding + counts.output + block_parameters(shape, experts);
}

double model_flops_per_token(const ModelShape& shape, std::int64_t seq) {
  const double experts = shape.experts ? static_cast<double>(shape.experts->per_token) : 0.0;
  const ParameterCounts counts = parameter_counts(shape);
  double flops = 6.0 * (block_parameters(shape, experts) + counts.embedding);
  const double dims =
      shape.latent
          ? static_cast<double>(shape.heads * (shape.latent->plain_dim + shape.latent->rotary_dim +
                                               shape.latent->value_dim))
          : 2.0 * static_cast<double>(shape.heads * shape.head_dim);
  for (const BlockPlace& block : blocks_of(shape)) {
    if (block.kind == BlockKind::kStateSpaceOnly || block.kind == BlockKind::kExpertsOnly ||
        block.kind == BlockKind::kDenseOnly) {
      continue;
    }
    // A query sees the last `seen` keys up to its own: seen / 2 of them until that many are there.
    const double seen = static_cast<double>(block.windowed ? std::min(shape.window, seq) : seq);
    const double keys = seen - seen * seen / (2.0 * static_cast<double>(seq));
    flops += 3.0 * 2.0 * keys * dims;
  }
  return flops;
}

}  // namespace shardlab
