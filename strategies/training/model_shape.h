// The language models whose training steps can be predicted, and their sizes.
//
//   ModelShape shape = *find_model_shape("llama3-8b");
//   shape.layers = 2;
//   parameters_of(shape)      // how many parameters the model has
//
// All sizes are counts of elements. A model is a stack of `layers` blocks between an embedding and
// an output projection. A block is attention and a feed-forward layer; in a hybrid model most
// blocks are one of attention, a state-space layer and a layer of experts.
// Source: each model's public configuration, named beside its row in model_shape.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"

namespace shardlab {

enum class Norm : std::uint8_t { kRms, kLayer };
enum class Position : std::uint8_t { kRope, kAlibi, kLearned, kNone };

// Multi-head latent attention: queries and keys pass through low ranks. Source: DeepSeek-V2, 2.1.
struct LatentAttention {
  std::int64_t query_rank = 0;  // 0: queries are projected directly
  std::int64_t key_rank = 0;
  // Width of the part of a head's queries and keys without rotary embedding.
  std::int64_t plain_dim = 0;
  std::int64_t rotary_dim = 0;  // width of the part with rotary embedding
  std::int64_t value_dim = 0;
};

// A layer of experts: each token goes to `per_token` of them.
struct Experts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  std::int64_t ffn = 0;
  std::int64_t shared_ffn = 0;  // width of the expert that sees every token; 0: there is none
  std::int64_t latent = 0;  // tokens are projected to this width for the experts; 0: they are not
};

// A state-space layer as in Mamba-2. Source: Dao and Gu 2024, "Transformers are SSMs".
struct StateSpace {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state = 0;
  std::int64_t groups = 0;
  std::int64_t chunk = 128;  // tokens that a kernel takes together
};

// How many blocks of each kind a hybrid model has.
struct HybridLayers {
  std::int64_t attention = 0;
  std::int64_t state_space = 0;
  std::int64_t experts = 0;
  std::int64_t dense = 0;
};

struct ModelShape {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  bool gated = true;  // whether the feed-forward layer has a gate, as SwiGLU has
  Norm norm = Norm::kRms;
  Position position = Position::kRope;
  bool biases = false;
  bool tied = false;                  // whether the output projection is the embedding
  bool normed_heads = false;          // whether queries and keys are normed, head by head
  std::int64_t window = 0;            // how many keys a query sees; 0: all
  std::int64_t window_every = 1;      // the window holds in every n-th block, from the first on
  std::int64_t dense_layers = 0;      // in a model with experts, how many first blocks have none
  std::int64_t predicted_tokens = 0;  // further blocks that predict later tokens
  std::optional<Experts> experts = {};
  std::optional<LatentAttention> latent = {};
  std::optional<StateSpace> state_space = {};
  std::optional<HybridLayers> hybrid = {};
};

[[nodiscard]] std::span<const ModelShape> all_model_shapes();
// Reads "llama3-8b", and spells names as other projects do: upper case, blanks, underscores and
// dots are all the same. Null if there is no such model.
[[nodiscard]] const ModelShape* find_model_shape(std::string_view name);
[[nodiscard]] std::vector<std::string> model_shape_names();
// How wide a head is once the model's width or number of heads has been changed. Where the heads of
// `known` make up its width, they still do (0: they do not divide it); others keep their width.
[[nodiscard]] std::int64_t head_dim_of(const ModelShape& changed, const ModelShape& known);

// The parameters of a block, of the embedding, and so on, all in elements.
struct ParameterCounts {
  double attention = 0.0;    // attention of one block
  double dense_ffn = 0.0;    // feed-forward network of one block without experts
  double state_space = 0.0;  // state-space layer of one block
  double shared = 0.0;       // router, shared expert and projections of one block with experts
  double one_expert = 0.0;
  double embedding = 0.0;
  double output = 0.0;  // 0 if it is tied to the embedding
};
[[nodiscard]] ParameterCounts parameter_counts(const ModelShape& shape);
[[nodiscard]] double parameters_of(const ModelShape& shape);

// The FLOPs of a training step for one token, without recomputation: six for each parameter that
// the token meets, and those of causal attention. Source: Chowdhery et al. 2022 (PaLM), appendix B,
// with half of the pairs of queries and keys as causal attention has them.
[[nodiscard]] double model_flops_per_token(const ModelShape& shape, std::int64_t seq);

// What a block computes.
enum class BlockKind : std::uint8_t {
  kDense,
  kExperts,
  kAttentionOnly,
  kStateSpaceOnly,
  kExpertsOnly,
  kDenseOnly
};
// The blocks of the model in order; those of a hybrid model are spread evenly.
struct BlockPlace {
  BlockKind kind = BlockKind::kDense;
  bool windowed = false;
  friend bool operator==(const BlockPlace&, const BlockPlace&) = default;
};
[[nodiscard]] std::vector<BlockPlace> blocks_of(const ModelShape& shape);

}  // namespace shardlab
