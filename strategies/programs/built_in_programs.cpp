#include "strategies/programs/built_in_programs.h"

#include <array>
#include <string>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr LlamaShape kLlama8b = {.name = "llama3-8b",
                                 .dim = 4096,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .ffn = 14336,
                                 .vocabulary = 128256};
constexpr LlamaShape kLlama70b = {.name = "llama3-70b",
                                  .dim = 8192,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .ffn = 28672,
                                  .vocabulary = 128256};

// GPT-2 XL. Source: Radford et al. 2019, table 2.
constexpr GptShape kGpt2 = {
    .name = "gpt2-xl", .dim = 1600, .heads = 25, .ffn = 6400, .vocabulary = 50257};
// A mixture of 64 experts, two of which take each token, with the widths of a 1.3B model. Source:
// Zhou et al. 2022, table 1.
constexpr GptShape kMixture = {.name = "moe-1.3b-64e",
                               .dim = 2048,
                               .heads = 16,
                               .ffn = 8192,
                               .vocabulary = 32000,
                               .experts = 64,
                               .experts_per_token = 2};

void expect_divisor(std::string_view option, std::int64_t found, std::string_view what,
                    std::int64_t whole) {
  if (whole % found == 0) return;
  throw InputError(std::string(option) + ": found " + std::to_string(found) +
                   "; valid: a divisor of " + std::to_string(whole) + ", which is " +
                   std::string(what));
}

// Refuses an option for a size that the model does not have.
void expect_none(std::string_view option, const std::optional<std::int64_t>& size,
                 std::string_view model, std::string_view what) {
  if (!size) return;
  throw InputError(std::string(option) + ": found " + std::to_string(*size) + ", but " +
                   std::string(model) + " has no " + std::string(what));
}

// Says in the program's source which sizes are not the model's own.
Program with_sizes(Program program, const ProgramSizes& sizes) {
  const auto add = [&](std::string_view what, const std::optional<std::int64_t>& size) {
    if (size) program.source += ", " + std::string(what) + " " + std::to_string(*size);
  };
  add("width", sizes.width);
  add("heads", sizes.heads);
  add("heads of keys", sizes.kv_heads);
  add("feed-forward width", sizes.ffn);
  add("vocabulary", sizes.vocabulary);
  add("experts", sizes.experts);
  add("experts per token", sizes.experts_per_token);
  return program;
}

template <const LlamaShape& kShape>
Program llama(const ProgramOptions& options) {
  const ProgramSizes& sizes = options.sizes;
  expect_none("--experts", sizes.experts, kShape.name, "experts");
  expect_none("--experts-per-token", sizes.experts_per_token, kShape.name, "experts");
  const LlamaShape shape = {.name = kShape.name,
                            .dim = sizes.width.value_or(kShape.dim),
                            .heads = sizes.heads.value_or(kShape.heads),
                            .kv_heads = sizes.kv_heads.value_or(kShape.kv_heads),
                            .ffn = sizes.ffn.value_or(kShape.ffn),
                            .vocabulary = sizes.vocabulary.value_or(kShape.vocabulary)};
  // Rotary positions turn pairs of a head's components, so a head needs an even number of them.
  if (shape.dim % 2 != 0) {
    throw InputError("--width: found " + std::to_string(shape.dim) + "; valid: an even number");
  }
  expect_divisor("--heads", shape.heads, "half the width", shape.dim / 2);
  expect_divisor("--kv-heads", shape.kv_heads, "the number of heads", shape.heads);
  return with_sizes(make_llama(shape, options), sizes);
}

template <const GptShape& kShape>
Program gpt(const ProgramOptions& options) {
  if (options.loss) {
    throw InputError("--loss: found it for " + std::string(kShape.name) +
                     "; valid: for llama3-8b and llama3-70b");
  }
  const ProgramSizes& sizes = options.sizes;
  expect_none("--kv-heads", sizes.kv_heads, kShape.name, "heads that share keys");
  if (kShape.experts == 0) {
    expect_none("--experts", sizes.experts, kShape.name, "experts");
    expect_none("--experts-per-token", sizes.experts_per_token, kShape.name, "experts");
  }
  const GptShape shape = {
      .name = kShape.name,
      .dim = sizes.width.value_or(kShape.dim),
      .heads = sizes.heads.value_or(kShape.heads),
      .ffn = sizes.ffn.value_or(kShape.ffn),
      .vocabulary = sizes.vocabulary.value_or(kShape.vocabulary),
      .experts = sizes.experts.value_or(kShape.experts),
      .experts_per_token = sizes.experts_per_token.value_or(kShape.experts_per_token)};
  expect_divisor("--heads", shape.heads, "the width", shape.dim);
  if (shape.experts_per_token > shape.experts) {
    throw InputError("--experts-per-token: found " + std::to_string(shape.experts_per_token) +
                     "; valid: at most " + std::to_string(shape.experts) +
                     ", the number of experts");
  }
  return with_sizes(make_gpt(shape, options), sizes);
}

// The source of LLaMA's widths is Dubey et al. 2024, table 3.
constexpr std::array<BuiltInProgram, 4> kPrograms = {{
    {"gpt2-xl", "GPT-2 XL, forward and backward", 48, 1024, gpt<kGpt2>},
    {"llama3-70b", "LLaMA3-70B, forward and backward", 80, 8192, llama<kLlama70b>},
    {"llama3-8b", "LLaMA3-8B, forward and backward", 32, 8192, llama<kLlama8b>},
    {"moe-1.3b-64e", "a mixture of 64 experts, forward and backward", 24, 1024, gpt<kMixture>},
}};

}  // namespace

std::span<const BuiltInProgram> all_built_in_programs() { return kPrograms; }

const BuiltInProgram* find_built_in_program(std::string_view name) {
  for (const BuiltInProgram& program : kPrograms) {
    if (program.name == name) return &program;
  }
  return nullptr;
}

}  // namespace shardlab
