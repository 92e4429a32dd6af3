#include "strategies/training/model_work.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

class BlockWriter {
 public:
  BlockWriter(const TrainingRun& run, bool windowed)
      : run_(run),
        shape_(run.shape),
        builder_(run),
        tp_(to_real(run.spread.tp)),
        batch_(to_real(run.micro_batch)),
        tokens_(to_real(run.seq) / to_real(run.spread.cp)),
        rows_(batch_ * tokens_),
        window_(windowed ? to_real(run.shape.window) : 0.0) {}

  BlockWork block(BlockKind kind) {
    int x = builder_.input(rows_ / tp_ * to_real(shape_.width));
    switch (kind) {
      case BlockKind::kDense:
        x = with_residual(x, [this](int y) { return attention(y); });
        x = with_residual(x, [this](int y) { return feed_forward(y); });
        break;
      case BlockKind::kExperts:
        x = with_residual(x, [this](int y) { return attention(y); });
        x = with_residual(x, [this](int y) { return experts(y); });
        break;
      case BlockKind::kAttentionOnly:
        x = with_residual(x, [this](int y) { return attention(y); });
        break;
      case BlockKind::kStateSpaceOnly:
        x = with_residual(x, [this](int y) { return state_space(y); });
        break;
      case BlockKind::kExpertsOnly:
        x = with_residual(x, [this](int y) { return experts(y); });
        break;
      case BlockKind::kDenseOnly:
        x = with_residual(x, [this](int y) { return feed_forward(y); });
        break;
    }
    builder_.finish(x);
    return builder_.take();
  }

  BlockWork embedding() {
    // With sequence parallelism the results of all ranks' parts of the vocabulary are reduced.
    const int found =
        builder_.lookup(rows_, to_real(shape_.width), to_real(shape_.vocabulary) / tp_);
    builder_.finish(scattered(found));
    return builder_.take();
  }

  BlockWork output() {
    int x = builder_.input(rows_ / tp_ * to_real(shape_.width));
    x = gathered(builder_.norm(x, to_real(shape_.width)));
    const double vocabulary = to_real(shape_.vocabulary) / tp_;
    const int logits = builder_.linear(
        x, {.rows = rows_, .in = to_real(shape_.width), .out = vocabulary, .low_precision = false});
    // A tied projection is the embedding's weight, unless they are on different ranks of a
    // pipeline, which hold a copy each.
    if (shape_.tied && run_.spread.pp == 1) {
      builder_.weight(-to_real(shape_.width) * vocabulary, false);
    }
    builder_.loss(logits, rows_, vocabulary);
    builder_.finish(-1);
    return builder_.take();
  }

 private:
  template <class Inner>
  int with_residual(int x, Inner&& inner) {
    return builder_.add(x, inner(builder_.norm(x, to_real(shape_.width))));
  }
  [[nodiscard]] bool beside() const { return run_.async_tp || run_.overlap_tp; }
  int gathered(int x) { return builder_.gather(x, WorkGroup::kTensor, tp_, beside()); }
  int scattered(int x) { return builder_.scatter(x, WorkGroup::kTensor, tp_, beside()); }
  int linear(int x, double in, double out) {
    return builder_.linear(x, {.rows = rows_, .in = in, .out = out, .bias = shape_.biases});
  }

  int attention(int x) {
    x = gathered(x);
    const int y = shape_.latent ? latent_heads(x) : plain_heads(x);
    const double value_dim = to_real(shape_.latent ? shape_.latent->value_dim : shape_.head_dim);
    return scattered(linear(y, to_real(shape_.heads) * value_dim / tp_, to_real(shape_.width)));
  }

  int plain_heads(int x) {
    const double heads = to_real(shape_.heads) / tp_;
    const double kv_heads = std::max(1.0, to_real(shape_.kv_heads) / tp_);
    const double head = to_real(shape_.head_dim);
    const double width = to_real(shape_.width);
    const auto part = [&](double out) {
      return LinearShape{.rows = rows_, .in = width, .out = out, .bias = shape_.biases};
    };
    if (run_.execution == Execution::kLibrary || shape_.position == Position::kLearned) {
      // One product for all three. Its result is split by views, so norms and rotary embedding are
      // counted as kernels over all of it.
      int all = builder_.linear(x, part((heads + 2 * kv_heads) * head));
      if (shape_.normed_heads) all = builder_.norm(all, head);
      if (shape_.position == Position::kRope) all = builder_.rotary(all);
      return attend(all, all, all, heads, kv_heads, head, head);
    }
    const LinearShape parts[] = {part(heads * head), part(kv_heads * head), part(kv_heads * head)};
    const std::vector<int> results = builder_.projections(x, parts);
    int query = results[0];
    int key = results[1];
    if (shape_.normed_heads) {
      query = builder_.norm(query, head);
      key = builder_.norm(key, head);
    }
    if (shape_.position == Position::kRope) {
      query = builder_.rotary(query);
      key = builder_.rotary(key);
    }
    const int value = results[2];
    return attend(query, key, value, heads, kv_heads, head, head);
  }

  int latent_heads(int x) {
    const LatentAttention& mla = *shape_.latent;
    const double heads = to_real(shape_.heads) / tp_;
    const double width = to_real(shape_.width);
    const double key_dim = to_real(mla.plain_dim + mla.rotary_dim);
    int query = -1;
    if (mla.query_rank > 0) {
      query = builder_.norm(linear(x, width, to_real(mla.query_rank)), to_real(mla.query_rank));
      query = linear(query, to_real(mla.query_rank), heads * key_dim);
    } else {
      query = linear(x, width, heads * key_dim);
    }
    query = builder_.rotary(query);
    const int low = builder_.norm(linear(x, width, to_real(mla.key_rank + mla.rotary_dim)),
                                  to_real(mla.key_rank + mla.rotary_dim));
    const int both =
        linear(low, to_real(mla.key_rank), heads * to_real(mla.plain_dim + mla.value_dim));
    const int key = builder_.copy(both, rows_ * heads * key_dim);
    return attend(query, key, both, heads, heads, key_dim, to_real(mla.value_dim));
  }

  int attend(int query, int key, int value, double heads, double kv_heads, double key_dim,
             double value_dim) {
    const double cp = to_real(run_.spread.cp);
    if (cp > 1) {
      // Each rank sends its keys and values, and then those that it receives, cp - 1 times.
      const double bytes = 2.0 * rows_ * kv_heads * (key_dim + value_dim);
      const int moved = builder_.ring(key, (cp - 1) * bytes);
      if (query == key) query = moved;
      if (value == key) value = moved;
      key = moved;
    }
    // A rank has queries from both ends of the sequence, so that all ranks have as many pairs under
    // the causal mask: 1 / cp of them, which is the work of whole sequences for 1 / cp of the
    // heads.
    return builder_.attention(query, key, value,
                              {.batch = batch_,
                               .heads = heads / cp,
                               .kv_heads = kv_heads / cp,
                               .queries = tokens_ * cp,
                               .keys = tokens_ * cp,
                               .key_dim = key_dim,
                               .value_dim = value_dim,
                               .window = window_,
                               .causal = true});
  }

  int feed_forward(int x) {
    return scattered(feed_forward(gathered(x), to_real(shape_.ffn) / tp_, rows_));
  }

  int feed_forward(int x, double ffn, double rows) {
    const double width = to_real(shape_.width);
    const LinearShape in{.rows = rows, .in = width, .out = ffn, .bias = shape_.biases};
    const LinearShape out{.rows = rows, .in = ffn, .out = width, .bias = shape_.biases};
    if (!shape_.gated) return builder_.linear(builder_.activation(builder_.linear(x, in)), out);
    const LinearShape parts[] = {in, in};
    const std::vector<int> both = builder_.projections(x, parts);
    return builder_.linear(builder_.gated_activation(both[0], both[1]), out);
  }

  // Each token goes to `per_token` experts, of which this rank has count / ep. The busiest rank
  // decides when all are done, so its load is what counts.
  int experts(int x) {
    const Experts& experts = *shape_.experts;
    const double width = to_real(shape_.width);
    const double ep = to_real(run_.spread.ep);
    const double rows = rows_ / tp_;
    const int scores = builder_.linear(
        x, {.rows = rows, .in = width, .out = to_real(experts.count), .low_precision = false});
    const int shared = experts.shared_ffn > 0 ? shared_expert(x) : -1;
    const double inner = experts.latent > 0 ? to_real(experts.latent) : width;
    int tokens = x;
    if (experts.latent > 0) {
      tokens = builder_.linear(x, {.rows = rows, .in = width, .out = inner});
    }
    const double sent = rows * to_real(experts.per_token);
    // How many ranks have experts for a token, if each expert is as likely as any other.
    const double ranks = ep * (1.0 - std::pow(1.0 - 1.0 / ep, to_real(experts.per_token)));
    const double travels = run_.sends_once ? rows * ranks : sent;
    int permuted = tokens;
    if (ep > 1) {
      permuted = builder_.exchange(builder_.copy(permuted, travels * inner), WorkGroup::kExperts,
                                   travels * inner);
    }
    permuted = builder_.copy(permuted, sent * inner);
    const double local = to_real(experts.count) / ep;
    const double each = sent * run_.load_imbalance / local;
    const double ffn = to_real(experts.ffn);
    const LinearShape in{.rows = each, .in = inner, .out = ffn, .batch = local, .expert = true};
    const LinearShape out{.rows = each, .in = ffn, .out = inner, .batch = local, .expert = true};
    int y = -1;
    if (shape_.gated) {
      const LinearShape parts[] = {in, in};
      const std::vector<int> both = builder_.projections(permuted, parts);
      y = builder_.linear(builder_.gated_activation(both[0], both[1]), out);
    } else {
      y = builder_.linear(builder_.activation(builder_.linear(permuted, in)), out);
    }
    y = builder_.weighted(y, scores);
    if (ep > 1) {
      y = builder_.exchange(builder_.copy(y, travels * inner), WorkGroup::kExperts,
                            travels * inner);
    }
    y = builder_.copy(y, rows * inner);
    if (experts.latent > 0) y = builder_.linear(y, {.rows = rows, .in = inner, .out = width});
    return shared >= 0 ? builder_.add(y, shared) : y;
  }

  int shared_expert(int x) {
    return scattered(feed_forward(gathered(x), to_real(shape_.experts->shared_ffn) / tp_, rows_));
  }

  int state_space(int x) {
    const StateSpace& ssm = *shape_.state_space;
    const double heads = to_real(ssm.heads) / tp_;
    const double inner = heads * to_real(ssm.head_dim);
    const double width = to_real(shape_.width);
    const double all = 2 * inner + 2 * to_real(ssm.groups * ssm.state) / tp_ + heads;
    x = gathered(x);
    x = linear(x, width, all);
    x = builder_.activation(x);  // the short convolution, which is bound by memory as this is
    const int y = builder_.norm(builder_.scan(x, ssm, batch_, tokens_, heads), inner);
    return scattered(linear(y, inner, width));
  }

  const TrainingRun& run_;
  const ModelShape& shape_;
  WorkBuilder builder_;
  double tp_;
  double batch_;
  double tokens_;  // how many tokens of one sequence are on this rank
  double rows_;
  double window_;
};

}  // namespace

BlockWork block_work(const TrainingRun& run, const BlockPlace& place) {
  return BlockWriter(run, place.windowed).block(place.kind);
}

BlockWork embedding_work(const TrainingRun& run) { return BlockWriter(run, false).embedding(); }

BlockWork output_work(const TrainingRun& run) { return BlockWriter(run, false).output(); }

}  // namespace shardlab
