// The programs that come with shardlab. Each is one training step of a language model, forward and
// backward, generated in the form in which a tracer would record it.
//
//   const BuiltInProgram* program = find_built_in_program("llama3-8b");
//   Program p = program->make({.layers = 2, .batch = 16, .seqlen = 8192});
//   Program thin = program->make({.batch = 4, .seqlen = 8, .sizes = {.width = 32, .heads = 8}});
//
// Sizes change only extents: the graph keeps its nodes, edges and names, so that a plan of the
// model is also a plan of its thin twin, which is small enough for virtual ranks to execute.
// Parameters are f32 and read in bf16, gradients are reduced in f32 (AutoParallel's mixed
// precision). Each generator's file names the source of its graph.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "costmodel/base/enum_names.h"
#include "strategies/programs/program.h"

namespace shardlab {

// How the graph expresses the product of activations and weights.
enum class MatmulForm : std::uint8_t {
  kEinsum,  // an einsum on [batch, rows, k], which is AutoParallel's default
  kNative,  // mm on [batch * rows, k], as PyTorch traces it
};
template <>
struct EnumNames<MatmulForm> {
  static constexpr std::string_view kKind = "form of products";
  static constexpr std::array kNames = {Named{MatmulForm::kEinsum, "einsum"},
                                        Named{MatmulForm::kNative, "native"}};
};

// Sizes to use instead of the model's own.
struct ProgramSizes {
  std::optional<std::int64_t> width = {};  // the width of the residual stream
  std::optional<std::int64_t> heads = {};
  std::optional<std::int64_t> kv_heads = {};
  std::optional<std::int64_t> ffn = {};
  std::optional<std::int64_t> vocabulary = {};
  std::optional<std::int64_t> experts = {};
  std::optional<std::int64_t> experts_per_token = {};
};

struct ProgramOptions {
  std::int64_t layers = 1;
  std::int64_t batch = 16;
  std::int64_t seqlen = 8192;
  MatmulForm matmul = MatmulForm::kEinsum;
  bool loss =
      false;  // whether the step computes the loss too, rather than take the logits' gradient
  ProgramSizes sizes = {};
};

struct BuiltInProgram {
  std::string_view name;
  std::string_view summary;
  std::int64_t layers;  // how many layers the model has
  std::int64_t seqlen;  // the sequence length that the model is trained with
  // Assumes that all options are at least one. Throws InputError for sizes that the model does not
  // have, or that do not divide each other as the model needs.
  Program (*make)(const ProgramOptions& options);
};

// All built-in programs, sorted by name.
[[nodiscard]] std::span<const BuiltInProgram> all_built_in_programs();
// The program with this name; null if there is none.
[[nodiscard]] const BuiltInProgram* find_built_in_program(std::string_view name);

// -- Generators -------------------------------------------------------------------------------

struct LlamaShape {
  std::string_view name;
  std::int64_t dim = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
};
// In a model with experts, each token goes to about `experts_per_token` of them.
struct GptShape {
  std::string_view name;
  std::int64_t dim = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
};
[[nodiscard]] Program make_gpt(const GptShape& shape, const ProgramOptions& options);
[[nodiscard]] Program make_llama(const LlamaShape& shape, const ProgramOptions& options);

}  // namespace shardlab
