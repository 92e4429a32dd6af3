#include "strategies/training/training_run.h"

#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

struct SpreadKey {
  std::string_view name;
  std::int64_t Spread::*member;
};
constexpr SpreadKey kSpreadKeys[] = {{"dp", &Spread::dp}, {"fsdp", &Spread::fsdp},
                                     {"tp", &Spread::tp}, {"pp", &Spread::pp},
                                     {"cp", &Spread::cp}, {"ep", &Spread::ep}};

void expect_divides(std::int64_t divisor, std::int64_t size, std::string_view divisor_name,
                    std::string_view size_name) {
  if (size % divisor == 0) return;
  throw InputError(std::string(divisor_name) + "=" + std::to_string(divisor) +
                   " does not divide the " + std::string(size_name) + ", " + std::to_string(size));
}

}  // namespace

Spread Spread::parse(std::string_view text) {
  Spread spread;
  TextCursor cursor("mesh", text);
  std::string seen;
  do {
    const std::size_t start = cursor.position();
    const std::string_view word = cursor.word();
    const SpreadKey* found = nullptr;
    for (const SpreadKey& key : kSpreadKeys) {
      if (key.name == word) found = &key;
    }
    if (found == nullptr) cursor.fail_at(start, "one of dp, fsdp, tp, pp, cp, ep");
    if (seen.find(" " + std::string(word) + " ") != std::string::npos) {
      cursor.fail_at(start, "each of dp, fsdp, tp, pp, cp, ep at most once");
    }
    seen += " " + std::string(word) + " ";
    cursor.expect("=", "\"=\"");
    spread.*(found->member) = cursor.integer("a number of ranks", 1, 1 << 24);
  } while (cursor.take(","));
  if (!cursor.at_end()) cursor.fail("\",\" or the end");
  if (static_cast<double>(spread.dp) * static_cast<double>(spread.fsdp) *
          static_cast<double>(spread.tp) * static_cast<double>(spread.pp) *
          static_cast<double>(spread.cp) >
      1e12) {
    cursor.fail_at(0, "at most 10^12 ranks");
  }
  return spread;
}

std::string Spread::text() const {
  std::vector<std::string> parts;
  for (const SpreadKey& key : kSpreadKeys) {
    if (this->*key.member > 1) {
      parts.push_back(std::string(key.name) + "=" + std::to_string(this->*key.member));
    }
  }
  return parts.empty() ? "dp=1" : join(parts, ",");
}

double TrainingRun::tokens_per_step() const {
  return static_cast<double>(seq) * static_cast<double>(micro_batch) *
         static_cast<double>(grad_accum) * static_cast<double>(data_ranks());
}

DataGroups data_groups(const TrainingRun& run) {
  const Spread& spread = run.spread;
  const bool has_replicas =
      run.shards_weights() || (run.sharding == Sharding::kOptimizer && spread.fsdp > 1);
  const std::int64_t replicas = has_replicas ? spread.dp : 1;
  const std::int64_t shards = (has_replicas ? 1 : spread.dp) * spread.fsdp * spread.cp;
  const std::int64_t of_shards = std::gcd(spread.ep, shards * spread.tp);
  return {.shards = shards,
          .replicas = replicas,
          .expert_shards = shards * spread.tp / of_shards,
          .expert_replicas = replicas * of_shards / spread.ep};
}

void expect_valid(const TrainingRun& run) {
  const Spread& spread = run.spread;
  const ModelShape& shape = run.shape;
  if (!shape.latent) {
    expect_divides(shape.kv_heads, shape.heads, "kv_heads", "number of attention heads");
    if (shape.head_dim < 1) {
      throw InputError("the number of attention heads, " + std::to_string(shape.heads) +
                       ", does not divide the width, " + std::to_string(shape.width));
    }
  }
  if (shape.experts && shape.experts->per_token > shape.experts->count) {
    throw InputError("each token goes to " + std::to_string(shape.experts->per_token) +
                     " experts; valid: at most the number of experts, " +
                     std::to_string(shape.experts->count));
  }
  expect_divides(spread.tp, run.shape.heads, "tp", "number of attention heads");
  expect_divides(spread.tp, run.shape.ffn, "tp", "width of the feed-forward layer");
  if (spread.cp > 1) expect_divides(2 * spread.cp, run.seq, "2 * cp", "length of the sequence");
  expect_divides(spread.tp, run.seq / spread.cp, "tp",
                 "tokens of a sequence on the ranks that share them");
  expect_divides(run.loss_chunks, run.seq / spread.cp / spread.tp, "--loss-chunks",
                 "tokens of a sequence on a rank");
  if (spread.ep > 1) {
    if (!run.shape.experts) {
      throw InputError("ep=" + std::to_string(spread.ep) + ": " + run.shape.name +
                       " has no experts; valid: ep=1");
    }
    expect_divides(spread.ep, run.shape.experts->count, "ep", "number of experts");
    expect_divides(spread.ep, spread.dp * spread.fsdp * spread.cp * spread.tp, "ep",
                   "product of dp, fsdp, cp and tp");
  }
  if (run.chunks > 1 && spread.pp == 1) {
    throw InputError("a pipeline of one rank has one stage; found " + std::to_string(run.chunks) +
                     " stages");
  }
  if (run.load_imbalance > to_real(spread.ep)) {
    throw InputError("--load-imbalance: found " + format_double(run.load_imbalance) +
                     (spread.ep == 1
                          ? ", but without ep each rank has all experts; valid: 1"
                          : " with ep=" + std::to_string(spread.ep) +
                                ", where the busiest rank has all tokens at most; valid: 1 to " +
                                std::to_string(spread.ep)));
  }
  const std::int64_t blocks = run.shape.layers + run.shape.predicted_tokens;
  if (spread.pp * run.chunks > blocks) {
    throw InputError("a pipeline of " + std::to_string(spread.pp * run.chunks) +
                     " stages is longer than the model, which has " + std::to_string(blocks) +
                     " blocks");
  }
  constexpr double kMostPasses = 1 << 24;
  const double passes =
      static_cast<double>(spread.pp * run.chunks) * static_cast<double>(run.grad_accum);
  if (spread.pp > 1 && passes > kMostPasses) {
    throw InputError("a pipeline of " + std::to_string(spread.pp * run.chunks) + " stages with " +
                     std::to_string(run.grad_accum) +
                     " micro-batches; valid: stages times micro-batches at most 2^24");
  }
}

}  // namespace shardlab
