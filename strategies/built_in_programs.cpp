#include "strategies/built_in_programs.h"

#include <array>

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
// 64 experts of which two take a token, widths of a 1.3B model. Source: Zhou et al. 2022, table 1.
constexpr GptShape kMixture = {.name = "moe-1.3b-64e",
                               .dim = 2048,
                               .heads = 16,
                               .ffn = 8192,
                               .vocabulary = 32000,
                               .experts = 64,
                               .experts_per_token = 2};

template <const LlamaShape& kShape>
Program llama(const ProgramOptions& options) {
  return make_llama(kShape, options);
}

template <const GptShape& kShape>
Program gpt(const ProgramOptions& options) {
  return make_gpt(kShape, options);
}

// LLaMA's widths: Dubey et al. 2024, table 3.
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
