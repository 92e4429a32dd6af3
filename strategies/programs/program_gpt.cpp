// The GPT-2 training step: layer norms, learned positions, products with a bias, attention, and a
// feed-forward layer with GELU or, in models with experts, a mixture of experts in its place.
//
// Experts choose their tokens: each takes the `capacity` tokens that the router scores highest for
// it, so that every shape is known in advance. Tokens are gathered by index.Tensor and summed back
// by index_put. Sources: for the models, Radford et al. 2019 and Zhou et al. 2022 (expert choice
// routing); for the graph, how PyTorch 2.13.0 differentiates and decomposes these ops (addmm as a
// product and a sum; layer norm, GELU and softmax are not decomposed, as in AutoParallel). Status:
// derived.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_builder.h"

namespace shardlab {
namespace {

constexpr double kNormEpsilon = 1e-5;

class Gpt {
 public:
  Gpt(const GptShape& shape, const ProgramOptions& options)
      : s_(shape),
        o_(options),
        depth_(shape.dim / shape.heads),
        tokens_count_(options.batch * options.seqlen),
        b_(std::string(shape.name), "generated: a training step of a GPT-2 style model" +
                                        std::string(shape.experts > 0 ? " with experts" : "") +
                                        ", " + std::to_string(options.layers) + " layers, batch " +
                                        std::to_string(options.batch) + ", sequence length " +
                                        std::to_string(options.seqlen)) {}

  TracedProgram trace() {
    add_sources();
    run_forward();
    b_.begin_backward();
    run_backward();
    return std::move(b_).build();
  }

 private:
  struct Linear {
    Value weight, bias;  // parameters
    Value matrix;        // the input as [rows, k]
    Value transposed;    // the weight as [k, n]
  };
  struct Norm {
    Value weight, bias;          // parameters
    Value own_weight, own_bias;  // in bf16
    Value x, mean, inverse;
  };
  struct Experts {
    Value router, up, down;              // parameters
    Value own_router, own_up, own_down;  // in bf16
    Value matrix;                        // the tokens as a matrix
    Value scores;                        // [tokens, experts]
    Value chosen, flat;  // the tokens that experts take: [experts, capacity], and as one list
    Value taken, hidden, active, result, gates;
  };
  struct Layer {
    Norm attention_norm, ffn_norm;
    Linear qkv, projection, up, down;
    Experts experts;
    Value q, k, v, out, sums, seed, offset;
    Value hidden;  // the hidden values before GELU
  };

  [[nodiscard]] Shape rows(std::int64_t width) const { return {o_.batch, o_.seqlen, width}; }
  [[nodiscard]] std::int64_t capacity() const {
    return std::max<std::int64_t>(1, tokens_count_ * s_.experts_per_token / s_.experts);
  }
  using Integers = std::vector<std::int64_t>;
  template <class... Values>
  static nlohmann::json args(Values&&... values) {
    nlohmann::json list = nlohmann::json::array();
    (list.push_back(std::forward<Values>(values)), ...);
    return list;
  }
  Value parameter(Shape shape) {
    return b_.source(NodeKind::kParameter, meta_of(DType::kF32, std::move(shape)));
  }
  Value narrow(Value parameter) { return b_.dtype_cast(parameter, DType::kBF16); }
  Value added(Value a, Value b) { return b_.binary("aten.add.Tensor", a, b); }
  Value times(Value a, Value b) { return b_.binary("aten.mul.Tensor", a, b); }
  void gradient_of(Value parameter, Value gradient) {
    gradients_.emplace_back(parameter, b_.dtype_cast(gradient, DType::kF32));
  }

  // -- What the program is given --------------------------------------------------------------
  void add_linear(Linear& l, std::int64_t k, std::int64_t n) {
    l.weight = parameter({n, k});
    l.bias = parameter({n});
  }
  void add_norm(Norm& n) {
    n.weight = parameter({s_.dim});
    n.bias = parameter({s_.dim});
  }

  void add_sources() {
    token_table_ = parameter({s_.vocabulary, s_.dim});
    position_table_ = parameter({o_.seqlen, s_.dim});
    layers_.resize(static_cast<std::size_t>(o_.layers));
    for (Layer& layer : layers_) {
      add_norm(layer.attention_norm);
      add_linear(layer.qkv, s_.dim, 3 * s_.dim);
      add_linear(layer.projection, s_.dim, s_.dim);
      add_norm(layer.ffn_norm);
      if (s_.experts > 0) {
        layer.experts.router = parameter({s_.dim, s_.experts});
        layer.experts.up = parameter({s_.experts, s_.dim, s_.ffn});
        layer.experts.down = parameter({s_.experts, s_.ffn, s_.dim});
      } else {
        add_linear(layer.up, s_.dim, s_.ffn);
        add_linear(layer.down, s_.ffn, s_.dim);
      }
    }
    add_norm(final_norm_);
    head_.weight = parameter({s_.vocabulary, s_.dim});
    positions_ = b_.source(NodeKind::kBuffer, meta_of(DType::kI64, {o_.seqlen}));
    tokens_ = b_.source(NodeKind::kInput, meta_of(DType::kI64, {o_.batch, o_.seqlen}));
    tangent_ = b_.source(NodeKind::kTangent, meta_of(DType::kBF16, rows(s_.vocabulary)));
  }

  // -- Forward --------------------------------------------------------------------------------
  void run_forward() {
    const auto look_up = [&](Value table, Value indices, Shape shape) {
      return b_.op("aten.embedding.default", {narrow(table), indices}, args(),
                   {meta_of(DType::kBF16, std::move(shape))});
    };
    const Value words = look_up(token_table_, tokens_, rows(s_.dim));
    const Value places = look_up(position_table_, positions_, {o_.seqlen, s_.dim});
    Value x = added(words, places);
    for (Layer& layer : layers_) {
      x = run_attention(layer, x);
      x = s_.experts > 0 ? run_experts(layer, x) : run_ffn(layer, x);
    }
    const Value logits = linear(head_, norm(final_norm_, x), false);
    b_.returns(logits, NodeKind::kOutput, tangent_);
  }

  Value norm(Norm& n, Value x) {
    n.own_weight = narrow(n.weight);
    n.own_bias = narrow(n.bias);
    n.x = x;
    const TensorMeta statistics = meta_of(DType::kF32, rows(1));
    const Value all = b_.op("aten.native_layer_norm.default", {x, n.own_weight, n.own_bias},
                            args(Integers{s_.dim}, kNormEpsilon),
                            {meta_of(DType::kBF16, rows(s_.dim)), statistics, statistics});
    const Value out = b_.part(all, 0);
    n.mean = b_.part(all, 1);
    n.inverse = b_.part(all, 2);
    return out;
  }

  Value linear(Linear& l, Value x, bool biased) {
    const Value weight = narrow(l.weight);
    l.transposed = b_.permute(weight, {1, 0});
    const Shape shape = b_.meta(x).shape;
    l.matrix = b_.view(x, {shape[0] * shape[1], shape[2]});
    Value product = b_.mm(l.matrix, l.transposed);
    if (biased) product = added(product, narrow(l.bias));
    return b_.view(product, rows(b_.meta(product).shape[1]));
  }

  Value run_attention(Layer& l, Value x) {
    const Value all = linear(l.qkv, norm(l.attention_norm, x), true);
    TensorMeta third = meta_of(DType::kBF16, rows(s_.dim));
    third.strides = {o_.seqlen * 3 * s_.dim, 3 * s_.dim, 1};
    const Value parts = b_.op("aten.split.Tensor", {all}, args(s_.dim, 2), {third, third, third});
    const auto heads = [&](std::size_t i) {
      const Value part = b_.part(parts, i);
      return b_.permute(b_.view(part, {o_.batch, o_.seqlen, s_.heads, depth_}), {0, 2, 1, 3});
    };
    l.q = heads(0);
    l.k = heads(1);
    l.v = heads(2);
    const Value flash =
        b_.op("aten._scaled_dot_product_flash_attention.default", {l.q, l.k, l.v}, args(0.0, true),
              {head_meta(), meta_of(DType::kF32, {o_.batch, s_.heads, o_.seqlen}),
               meta_of(DType::kU64, {2}), meta_of(DType::kU64, {}), meta_of(DType::kBF16, {0})});
    l.out = b_.part(flash, 0);
    l.sums = b_.part(flash, 1);
    l.seed = b_.part(flash, 2);
    l.offset = b_.part(flash, 3);
    const Value context = b_.view(b_.permute(l.out, {0, 2, 1, 3}), rows(s_.dim));
    return added(x, linear(l.projection, context, true));
  }
  // Attention lays its results out as [batch, rows, heads, depth].
  [[nodiscard]] TensorMeta head_meta() const {
    TensorMeta meta = meta_of(DType::kBF16, {o_.batch, s_.heads, o_.seqlen, depth_});
    meta.strides = {o_.seqlen * s_.dim, depth_, s_.dim, 1};
    return meta;
  }

  Value run_ffn(Layer& l, Value x) {
    l.hidden = linear(l.up, norm(l.ffn_norm, x), true);
    return added(x, linear(l.down, b_.unary("aten.gelu.default", l.hidden), true));
  }

  // rows_at() gathers rows of a matrix by index; summed_rows() adds such rows to a matrix of zeros.
  Value rows_at(Value matrix, Value numbers) {
    const std::int64_t count = b_.meta(numbers).shape[0];
    return b_.op_on_list("aten.index.Tensor", matrix, {numbers}, std::nullopt, args(),
                         meta_of(b_.meta(matrix).dtype, {count, b_.meta(matrix).shape[1]}));
  }
  Value zeros(TensorMeta meta) {
    const std::vector<std::int64_t> shape(meta.shape.begin(), meta.shape.end());
    return b_.op("aten.full.default", {}, args(shape, 0), {std::move(meta)});
  }
  Value summed_rows(Value values, Value numbers) {
    const Value empty = zeros(meta_of(DType::kBF16, {tokens_count_, s_.dim}));
    return b_.op_on_list("aten.index_put.default", empty, {numbers}, values, args(true),
                         b_.meta(empty));
  }
  Value bmm(Value a, Value b) {
    const Shape& left = b_.meta(a).shape;
    return b_.op("aten.bmm.default", {a, b}, args(),
                 {meta_of(DType::kBF16, {left[0], left[1], b_.meta(b).shape[2]})});
  }
  Value turned(Value x) { return b_.permute(x, {0, 2, 1}); }

  Value run_experts(Layer& l, Value x) {
    Experts& e = l.experts;
    const Value normed = norm(l.ffn_norm, x);
    e.own_router = narrow(e.router);
    e.matrix = b_.view(normed, {tokens_count_, s_.dim});
    const Value logits = b_.convert(b_.mm(e.matrix, e.own_router), DType::kF32);
    e.scores = b_.unary("aten._softmax.default", logits, args(1, false));
    const Shape taken = {s_.experts, capacity()};
    const Value top =
        b_.op("aten.topk.default", {b_.permute(e.scores, {1, 0})}, args(capacity(), 1),
              {meta_of(DType::kF32, taken), meta_of(DType::kI64, taken)});
    const Value values = b_.part(top, 0);
    e.chosen = b_.part(top, 1);
    e.flat = b_.view(e.chosen, {s_.experts * capacity()});
    e.taken = b_.view(rows_at(e.matrix, e.flat), {s_.experts, capacity(), s_.dim});
    e.own_up = narrow(e.up);
    e.hidden = bmm(e.taken, e.own_up);
    e.active = b_.unary("aten.gelu.default", e.hidden);
    e.own_down = narrow(e.down);
    e.result = bmm(e.active, e.own_down);
    e.gates = b_.unsqueeze(b_.convert(values, DType::kBF16), 2);
    const Value weighted = b_.view(times(e.result, e.gates), {s_.experts * capacity(), s_.dim});
    return added(x, b_.view(summed_rows(weighted, e.flat), rows(s_.dim)));
  }

  // -- Backward -------------------------------------------------------------------------------
  void run_backward() {
    Value g = linear_gradient(head_, tangent_, false);
    g = norm_gradient(final_norm_, g, std::nullopt);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      g = s_.experts > 0 ? experts_gradient(*layer, g) : ffn_gradient(*layer, g);
      g = attention_gradient(*layer, g);
    }
    const auto table_gradient = [&](Value gradient, Value indices, Value table) {
      const std::int64_t count = b_.meta(table).shape[0];
      gradient_of(table, b_.op("aten.embedding_dense_backward.default", {gradient, indices},
                               args(count, -1, false), {meta_of(DType::kBF16, {count, s_.dim})}));
    };
    const Value places = b_.reduce("aten.sum.dim_IntList", g, {0});
    table_gradient(b_.view(places, {o_.seqlen, s_.dim}), positions_, position_table_);
    table_gradient(g, tokens_, token_table_);
    std::sort(gradients_.begin(), gradients_.end(),
              [](const auto& a, const auto& b) { return a.first.node < b.first.node; });
    for (const auto& [parameter, gradient] : gradients_) {
      b_.returns(gradient, NodeKind::kGradient, parameter);
    }
  }

  Value linear_gradient(const Linear& l, Value g, bool biased) {
    const Shape shape = b_.meta(g).shape;
    const Value matrix = b_.view(g, {shape[0] * shape[1], shape[2]});
    const Value back = b_.mm(matrix, b_.permute(l.transposed, {1, 0}));
    const Value product = b_.permute(b_.mm(b_.permute(matrix, {1, 0}), l.matrix), {1, 0});
    gradient_of(l.weight, b_.permute(product, {1, 0}));
    if (biased) {
      const Value sum = b_.reduce("aten.sum.dim_IntList", matrix, {0});
      gradient_of(l.bias, b_.view(sum, {shape[2]}));
    }
    return b_.view(back, rows(b_.meta(back).shape[1]));
  }

  Value norm_gradient(const Norm& n, Value g, std::optional<Value> residual) {
    const TensorMeta affine = meta_of(DType::kBF16, {s_.dim});
    const Value all = b_.op("aten.native_layer_norm_backward.default",
                            {g, n.x, n.mean, n.inverse, n.own_weight, n.own_bias},
                            args(Integers{s_.dim}, std::vector<bool>{true, true, true}),
                            {meta_of(DType::kBF16, rows(s_.dim)), affine, affine});
    const Value gradient = b_.part(all, 0);
    gradient_of(n.weight, b_.part(all, 1));
    gradient_of(n.bias, b_.part(all, 2));
    return residual ? added(*residual, gradient) : gradient;
  }

  Value ffn_gradient(const Layer& l, Value g) {
    const Value active = linear_gradient(l.down, g, true);
    const Value hidden = b_.binary("aten.gelu_backward.default", active, l.hidden);
    return norm_gradient(l.ffn_norm, linear_gradient(l.up, hidden, true), g);
  }

  Value experts_gradient(const Layer& l, Value g) {
    const Experts& e = l.experts;
    const Value tokens = b_.view(g, {tokens_count_, s_.dim});
    const Value taken = b_.view(rows_at(tokens, e.flat), b_.meta(e.result).shape);
    const Value result = times(taken, e.gates);
    const Value gates = b_.reduce("aten.sum.dim_IntList", times(taken, e.result), {2});
    const Value values = b_.convert(b_.squeeze(gates, 2), DType::kF32);
    gradient_of(e.down, bmm(turned(e.active), result));
    const Value active = bmm(result, turned(e.own_down));
    const Value hidden = b_.binary("aten.gelu_backward.default", active, e.hidden);
    gradient_of(e.up, bmm(turned(e.taken), hidden));
    const Value inputs = b_.view(bmm(hidden, turned(e.own_up)), {s_.experts * capacity(), s_.dim});
    const Value from_experts = summed_rows(inputs, e.flat);
    const Value spread =
        b_.op("aten.scatter.src",
              {zeros(meta_of(DType::kF32, {s_.experts, tokens_count_})), e.chosen, values}, args(1),
              {meta_of(DType::kF32, {s_.experts, tokens_count_})});
    const Value scores = b_.permute(spread, {1, 0});
    const Value logits =
        b_.convert(b_.op("aten._softmax_backward_data.default", {scores, e.scores}, args(1, "f32"),
                         {meta_of(DType::kF32, b_.meta(e.scores).shape)}),
                   DType::kBF16);
    gradient_of(e.router, b_.mm(b_.permute(e.matrix, {1, 0}), logits));
    const Value from_router = b_.mm(logits, b_.permute(e.own_router, {1, 0}));
    const Value all = b_.view(added(from_experts, from_router), rows(s_.dim));
    return norm_gradient(l.ffn_norm, all, g);
  }

  Value attention_gradient(const Layer& l, Value g) {
    const Value context = linear_gradient(l.projection, g, true);
    const Value out =
        b_.permute(b_.view(context, {o_.batch, o_.seqlen, s_.heads, depth_}), {0, 2, 1, 3});
    const Value flash =
        b_.op("aten._scaled_dot_product_flash_attention_backward.default",
              {out, l.q, l.k, l.v, l.out, l.sums, l.seed, l.offset},
              args(o_.seqlen, o_.seqlen, 0.0, true), {head_meta(), head_meta(), head_meta()});
    const auto heads = [&](std::size_t i) {
      return b_.view(b_.permute(b_.part(flash, i), {0, 2, 1, 3}), rows(s_.dim));
    };
    const Value q = heads(0);
    const Value k = heads(1);
    const Value v = heads(2);
    const Value all = b_.op_on_list("aten.cat.default", std::nullopt, {q, k, v}, std::nullopt,
                                    args(2), meta_of(DType::kBF16, rows(3 * s_.dim)));
    return norm_gradient(l.attention_norm, linear_gradient(l.qkv, all, true), g);
  }

  const GptShape& s_;
  const ProgramOptions& o_;
  std::int64_t depth_;
  std::int64_t tokens_count_;
  ProgramBuilder b_;
  Value token_table_, position_table_, positions_, tokens_, tangent_;
  Norm final_norm_;
  Linear head_;
  std::vector<Layer> layers_;
  std::vector<std::pair<Value, Value>> gradients_;  // pairs of parameter and gradient
};

}  // namespace

Program make_gpt(const GptShape& shape, const ProgramOptions& options) {
  TracedProgram traced = Gpt(shape, options).trace();
  if (options.matmul == MatmulForm::kEinsum) traced = with_einsums(std::move(traced));
  return with_aliases(std::move(traced));
}

}  // namespace shardlab
