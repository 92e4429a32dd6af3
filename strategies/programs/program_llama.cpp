// The LLaMA3 training step: RMS norms, rotary positions, grouped queries, flash attention and a
// gated feed-forward layer. With 8B's widths the graph is that of AutoParallel's LLaMA3-8B example,
// node by node: names, order, shapes and strides. Source: meta-pytorch/autoparallel at a54c252
// (examples/example_llama3.py); Dubey et al. 2024 for the model. Status: derived, equal to the
// traced graphs. With the loss, the step goes on from the logits to their mean cross-entropy and
// back, in f32 and with the ops that PyTorch runs eagerly (F.cross_entropy on the logits as f32, as
// torchtitan has it; the mean is a sum over the tokens by their number, which shards). Labels are
// the module names of Meta's model (llama3/llama/model.py); h is the sum after the attention, and
// X.weight.grad is the product that makes a weight's gradient.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_builder.h"

namespace shardlab {
namespace {

constexpr double kRmsNormEpsilon = 1e-5;
constexpr int kSumReduction = 2;      // F.cross_entropy's number for the reduction "sum"
constexpr int kIgnoredTarget = -100;  // F.cross_entropy's default for ignore_index
constexpr std::string_view kConvert = "convert_element_type";
constexpr const char* kEmbedding = "tok_embeddings";

// -- The model, and the values that its backward pass needs again --------------------------------

struct Linear {
  std::string label;
  Value parameter;
  Value matrix;      // the input as [rows, k]
  Value transposed;  // the weight as [k, n]
};
struct Norm {
  std::string label;
  Value parameter;
  Value weight;  // the weight in bf16
  Value x;       // the input in f32
  Value inverse;
  Value normed;
};
struct Layer {
  std::string label;
  Norm attention_norm;
  Linear wq, wk, wv, wo;
  Value q, k, v, attention;
  Value out, sums, seed, offset;
  Norm ffn_norm;
  Linear w1, w2, w3;
  Value gate, silu, up;
};

// The cross-entropy of the logits, summed over the tokens and divided by their number.
struct Loss {
  Value targets;       // by sequence and token
  Value rows;          // targets in one row
  Value log_softmax;   // log_softmax of the logits in f32, a row for each token
  Value total_weight;  // how many tokens count
};

struct Model {
  Value embedding, rotary, tokens, tangent;
  std::optional<Loss> loss;
  Norm final_norm;
  Linear head;
  std::vector<Layer> layers;
};

// What the classes below, each of which writes a part of the trace, share.
class Tracer {
 public:
  Tracer(const LlamaShape& shape, const ProgramOptions& options, Model& model,
         ProgramBuilder& builder)
      : s_(shape), o_(options), depth_(shape.dim / shape.heads), m_(model), b_(builder) {}

 protected:
  [[nodiscard]] Shape rows(std::int64_t width) const { return {o_.batch, o_.seqlen, width}; }
  [[nodiscard]] Shape heads(std::int64_t count) const {
    return {o_.batch, o_.seqlen, count, depth_};
  }

  Value as_complex(Value x) {
    Shape shape = b_.meta(x).shape;
    shape.back() /= 2;
    const TensorMeta out = meta_of(DType::kC64, shape);
    shape.push_back(2);
    return b_.op("aten.view_as_complex.default", {b_.view(x, shape)}, nlohmann::json::array(),
                 {out});
  }
  Value as_real(Value x) {
    Shape shape = b_.meta(x).shape;
    shape.push_back(2);
    const Value pairs = b_.op("aten.view_as_real.default", {x}, nlohmann::json::array(),
                              {meta_of(DType::kF32, shape)});
    shape.pop_back();
    shape.back() *= 2;
    return b_.view(pairs, shape);
  }

  const LlamaShape& s_;
  const ProgramOptions& o_;
  std::int64_t depth_;  // depth of a head
  Model& m_;
  ProgramBuilder& b_;
};

// -- What the program is given, in the order of the model's modules ------------------------------

class Sources : private Tracer {
 public:
  using Tracer::Tracer;

  void trace() {
    m_.embedding = parameter({s_.vocabulary, s_.dim}, kEmbedding);
    const std::int64_t kv = s_.kv_heads * depth_;
    m_.layers.resize(static_cast<std::size_t>(o_.layers));
    for (std::size_t i = 0; i < m_.layers.size(); ++i) {
      Layer& layer = m_.layers[i];
      layer.label = "layers." + std::to_string(i);
      give(layer.wq, layer.label + ".attention.wq", {s_.dim, s_.dim});
      give(layer.wk, layer.label + ".attention.wk", {kv, s_.dim});
      give(layer.wv, layer.label + ".attention.wv", {kv, s_.dim});
      give(layer.wo, layer.label + ".attention.wo", {s_.dim, s_.dim});
      give(layer.w1, layer.label + ".feed_forward.w1", {s_.ffn, s_.dim});
      give(layer.w2, layer.label + ".feed_forward.w2", {s_.dim, s_.ffn});
      give(layer.w3, layer.label + ".feed_forward.w3", {s_.ffn, s_.dim});
      give(layer.attention_norm, layer.label + ".attention_norm", {s_.dim});
      give(layer.ffn_norm, layer.label + ".ffn_norm", {s_.dim});
    }
    give(m_.final_norm, "norm", {s_.dim});
    give(m_.head, "output", {s_.vocabulary, s_.dim});
    m_.rotary =
        b_.source(NodeKind::kBuffer, meta_of(DType::kC64, {o_.seqlen, depth_ / 2}), "freqs_cis");
    m_.tokens = b_.source(NodeKind::kInput, meta_of(DType::kI64, {o_.batch, o_.seqlen}));
    if (o_.loss) {
      m_.loss.emplace();
      m_.loss->targets = b_.source(NodeKind::kInput, meta_of(DType::kI64, {o_.batch, o_.seqlen}));
    }
    m_.tangent =
        b_.source(NodeKind::kTangent,
                  o_.loss ? meta_of(DType::kF32, {}) : meta_of(DType::kBF16, rows(s_.vocabulary)));
  }

 private:
  Value parameter(Shape shape, const std::string& module) {
    return b_.source(NodeKind::kParameter, meta_of(DType::kF32, std::move(shape)),
                     module + ".weight");
  }
  template <class Module>
  void give(Module& module, const std::string& label, const Shape& shape) {
    module.label = label;
    module.parameter = parameter(shape, label);
  }
};

// -- Forward --------------------------------------------------------------------------------------

class ForwardPass : private Tracer {
 public:
  using Tracer::Tracer;

  void trace() {
    const Value table = b_.dtype_cast(m_.embedding, DType::kBF16);
    Value x = b_.op("aten.embedding.default", {table, m_.tokens}, nlohmann::json::array(),
                    {meta_of(DType::kBF16, rows(s_.dim))});
    b_.set_label(x, kEmbedding);
    for (Layer& layer : m_.layers) {
      x = run_attention(layer, x);
      x = run_ffn(layer, x);
    }
    const Value logits = linear(m_.head, norm(m_.final_norm, x));
    b_.returns(m_.loss ? loss(*m_.loss, logits) : logits, NodeKind::kOutput, m_.tangent);
  }

 private:
  Value norm(Norm& n, Value x) {
    b_.begin_label(n.label);
    n.weight = b_.dtype_cast(n.parameter, DType::kBF16);
    n.x = b_.convert(x, DType::kF32);
    const Value square = b_.unary("aten.pow.Tensor_Scalar", n.x, nlohmann::json::array({2}));
    const Value mean = b_.reduce("aten.mean.dim", square, {2});
    const Value sum = b_.unary("aten.add.Scalar", mean, nlohmann::json::array({kRmsNormEpsilon}));
    n.inverse = b_.unary("aten.rsqrt.default", sum);
    n.normed = b_.binary("aten.mul.Tensor", n.x, n.inverse);
    const Value result = b_.convert(b_.binary("aten.mul.Tensor", n.normed, n.weight), DType::kBF16);
    b_.begin_label("");
    return result;
  }

  Value loss(Loss& l, Value logits) {
    const std::int64_t tokens = o_.batch * o_.seqlen;
    const Value matrix = b_.convert(b_.view(logits, {tokens, s_.vocabulary}), DType::kF32);
    l.rows = b_.view(l.targets, {tokens});
    l.log_softmax = b_.op("aten._log_softmax.default", {matrix}, nlohmann::json::array({1, false}),
                          {b_.meta(matrix)});
    const Value both = b_.op("aten.nll_loss_forward.default", {l.log_softmax, l.rows},
                             nlohmann::json::array({kSumReduction, kIgnoredTarget}),
                             {meta_of(DType::kF32, {}), meta_of(DType::kF32, {})});
    b_.leave_out(both, 2);
    l.total_weight = b_.part(both, 1);
    return b_.unary("aten.div.Scalar", b_.part(both, 0),
                    nlohmann::json::array({static_cast<double>(tokens)}));
  }

  // The tracer also numbers two conversions of dtype that turn out to change nothing.
  Value linear(Linear& l, Value x) {
    const Value weight = b_.dtype_cast(l.parameter, DType::kBF16);
    l.transposed = b_.permute(weight, {1, 0});
    const Shape shape = b_.meta(x).shape;
    l.matrix = b_.view(x, {shape[0] * shape[1], shape[2]});
    const Value product = b_.mm(l.matrix, l.transposed);
    b_.skip(kConvert, 2);
    const Value result = b_.view(product, {shape[0], shape[1], b_.meta(product).shape[1]});
    b_.set_label(result, l.label);
    return result;
  }

  // Repeats keys and values once for every query head that shares them.
  Value repeated(Value x) {
    const std::int64_t times = s_.heads / s_.kv_heads;
    const Value wide =
        b_.expand(b_.unsqueeze(x, 3), {o_.batch, o_.seqlen, s_.kv_heads, times, depth_});
    return b_.view(b_.clone(wide), heads(s_.heads));
  }

  Value run_attention(Layer& l, Value x) {
    const Value normed = norm(l.attention_norm, x);
    const Value q = linear(l.wq, normed);
    const Value k = linear(l.wk, normed);
    const Value v = linear(l.wv, normed);
    const Value q_heads = b_.view(q, heads(s_.heads));
    const Value k_heads = b_.view(k, heads(s_.kv_heads));
    const Value v_heads = b_.view(v, heads(s_.kv_heads));
    const Value q_complex = as_complex(b_.convert(q_heads, DType::kF32));
    const Value k_complex = as_complex(b_.convert(k_heads, DType::kF32));
    l.attention = b_.view(m_.rotary, {1, o_.seqlen, 1, depth_ / 2});
    const Value q_turned = as_real(b_.binary("aten.mul.Tensor", q_complex, l.attention));
    const Value k_turned = as_real(b_.binary("aten.mul.Tensor", k_complex, l.attention));
    const Value q_back = b_.convert(q_turned, DType::kBF16);
    const Value k_back = b_.convert(k_turned, DType::kBF16);
    const Value k_all = repeated(k_back);
    const Value v_all = repeated(v_heads);
    l.q = b_.permute(q_back, {0, 2, 1, 3});
    l.k = b_.permute(k_all, {0, 2, 1, 3});
    l.v = b_.permute(v_all, {0, 2, 1, 3});
    run_flash(l);
    const Value context = b_.view(b_.permute(l.out, {0, 2, 1, 3}), rows(s_.dim));
    const Value result = b_.binary("aten.add.Tensor", x, linear(l.wo, context));
    b_.set_label(result, l.label + ".h");
    return result;
  }

  // The op has nine outputs, of which the tracer keeps four. No offsets and lengths of sequences
  // are passed.
  void run_flash(Layer& l) {
    const TensorMeta& query = b_.meta(l.q);
    const Value flash =
        b_.op("aten._scaled_dot_product_flash_attention.default", {l.q, l.k, l.v},
              nlohmann::json::array({0.0, true}),
              {query, meta_of(DType::kF32, {o_.batch, s_.heads, o_.seqlen}),
               meta_of(DType::kU64, {2}), meta_of(DType::kU64, {}), meta_of(DType::kBF16, {0})});
    l.out = b_.part(flash, 0);
    l.sums = b_.part(flash, 1);
    b_.skip("getitem", 4);
    l.seed = b_.part(flash, 2);
    l.offset = b_.part(flash, 3);
    b_.skip("getitem", 1);
  }

  Value run_ffn(Layer& l, Value x) {
    const Value normed = norm(l.ffn_norm, x);
    l.gate = linear(l.w1, normed);
    const Value wide = b_.convert(l.gate, DType::kF32);
    const Value decay = b_.unary("aten.exp.default", b_.unary("aten.neg.default", wide));
    const Value divisor = b_.unary("aten.add.Tensor", decay, nlohmann::json::array({1}));
    l.silu = b_.convert(b_.binary("aten.div.Tensor", wide, divisor), DType::kBF16);
    l.up = linear(l.w3, normed);
    const Value hidden = b_.binary("aten.mul.Tensor", l.silu, l.up);
    const Value result = b_.binary("aten.add.Tensor", x, linear(l.w2, hidden));
    b_.set_label(result, l.label);
    return result;
  }
};

// -- Backward -------------------------------------------------------------------------------------

class BackwardPass : private Tracer {
 public:
  using Tracer::Tracer;

  void trace() {
    const Value tangent = m_.loss ? loss_gradient(*m_.loss) : m_.tangent;
    Value g = linear_gradient(m_.head, tangent, std::nullopt);
    g = norm_gradient(m_.final_norm, g, std::nullopt);
    for (auto layer = m_.layers.rbegin(); layer != m_.layers.rend(); ++layer) {
      g = ffn_gradient(*layer, g);
      g = attention_gradient(*layer, g);
    }
    const Value table = b_.op("aten.embedding_dense_backward.default", {g, m_.tokens},
                              nlohmann::json::array({s_.vocabulary, -1, false}),
                              {meta_of(DType::kBF16, {s_.vocabulary, s_.dim})});
    b_.set_label(table, std::string(kEmbedding) + ".weight.grad");
    gradient_of(m_.embedding, b_.dtype_cast(table, DType::kF32));
    return_gradients();
  }

 private:
  void gradient_of(Value parameter, Value gradient) {
    gradients_.emplace_back(parameter, gradient);
  }
  // Returns the gradients in the order of the parameters.
  void return_gradients() {
    std::sort(gradients_.begin(), gradients_.end(),
              [](const auto& a, const auto& b) { return a.first.node < b.first.node; });
    for (const auto& [parameter, gradient] : gradients_) {
      b_.returns(gradient, NodeKind::kGradient, parameter);
    }
  }

  // The gradient of the logits.
  Value loss_gradient(const Loss& l) {
    const TensorMeta matrix = b_.meta(l.log_softmax);
    const Value each = b_.unary("aten.div.Scalar", m_.tangent,
                                nlohmann::json::array({static_cast<double>(matrix.shape[0])}));
    const Value picked =
        b_.op("aten.nll_loss_backward.default", {each, l.log_softmax, l.rows, l.total_weight},
              nlohmann::json::array({kSumReduction, kIgnoredTarget}), {matrix});
    b_.leave_out(picked, 3);
    const Value wide = b_.op("aten._log_softmax_backward_data.default", {picked, l.log_softmax},
                             nlohmann::json::array({1, "f32"}), {matrix});
    return b_.view(b_.convert(wide, DType::kBF16), rows(s_.vocabulary));
  }

  // The gradient of the input. `others` is the sum of the gradients from the input's other readers.
  Value linear_gradient(const Linear& l, Value g, std::optional<Value> others) {
    const Shape shape = b_.meta(g).shape;
    const Value matrix = b_.view(g, {shape[0] * shape[1], shape[2]});
    const Value product = b_.mm(b_.permute(matrix, {1, 0}), l.matrix);
    const Value stored = b_.permute(product, {1, 0});
    b_.set_label(stored, l.label + ".weight.grad");
    const Value weight = b_.permute(l.transposed, {1, 0});
    const Value back = b_.mm(matrix, weight);
    Value gradient = b_.view(back, {shape[0], shape[1], b_.meta(back).shape[1]});
    if (others) gradient = b_.binary("aten.add.Tensor", *others, gradient);
    const Value own = b_.permute(stored, {1, 0});
    b_.skip(kConvert, 4);
    gradient_of(l.parameter, b_.dtype_cast(own, DType::kF32));
    return gradient;
  }

  // `residual` is the gradient that bypasses the norm.
  Value norm_gradient(const Norm& n, Value g, std::optional<Value> residual) {
    const auto times = [&](Value a, Value b) { return b_.binary("aten.mul.Tensor", a, b); };
    const auto scaled = [&](std::string_view op, Value x, double factor) {
      return b_.unary(op, x, nlohmann::json::array({factor}));
    };
    const Value wide = b_.convert(g, DType::kF32);
    b_.begin_label(n.label);
    const Value by_norm = times(wide, n.normed);
    const Value by_weight = times(wide, n.weight);
    const Value sum = b_.reduce("aten.sum.dim_IntList", by_norm, {0, 1});
    const Value weight = b_.convert(b_.view(sum, {s_.dim}), DType::kBF16);
    const Value by_x = times(by_weight, n.x);
    const Value direct = times(by_weight, n.inverse);
    const Value inner = b_.reduce("aten.sum.dim_IntList", by_x, {2});
    const Value cube = scaled("aten.pow.Tensor_Scalar", n.inverse, 3);
    const Value half = scaled("aten.mul.Scalar", inner, -0.5);
    const Value spread = b_.expand(times(half, cube), rows(s_.dim));
    const Value mean = scaled("aten.div.Scalar", spread, static_cast<double>(s_.dim));
    const Value power = scaled("aten.pow.Tensor_Scalar", n.x, 1.0);
    const Value slope = times(mean, scaled("aten.mul.Scalar", power, 2.0));
    Value gradient = b_.convert(b_.binary("aten.add.Tensor", direct, slope), DType::kBF16);
    if (residual) gradient = b_.binary("aten.add.Tensor", *residual, gradient);
    b_.begin_label("");
    gradient_of(n.parameter, b_.dtype_cast(weight, DType::kF32));
    return gradient;
  }

  Value ffn_gradient(const Layer& l, Value g) {
    const auto times = [&](Value a, Value b) { return b_.binary("aten.mul.Tensor", a, b); };
    const Value hidden = linear_gradient(l.w2, g, std::nullopt);
    const Value up = times(hidden, l.silu);
    const Value silu = times(hidden, l.up);
    const Value from_up = linear_gradient(l.w3, up, std::nullopt);
    const Value sigmoid = b_.unary("aten.sigmoid.default", l.gate);
    const Value ones =
        b_.unary("aten.full_like.default", b_.unary("aten.empty_like.default", sigmoid),
                 nlohmann::json::array({1}));
    const Value rest = b_.binary("aten.sub.Tensor", ones, sigmoid);
    const Value slope =
        b_.unary("aten.add.Scalar", times(l.gate, rest), nlohmann::json::array({1}));
    const Value gate = times(silu, times(sigmoid, slope));
    const Value both = linear_gradient(l.w1, gate, from_up);
    return norm_gradient(l.ffn_norm, both, g);
  }

  // Sums the gradients of keys and values over the query heads that share them.
  Value gathered(Value x) {
    const std::int64_t times = s_.heads / s_.kv_heads;
    const Value apart = b_.view(x, {o_.batch, o_.seqlen, s_.kv_heads, times, depth_});
    return b_.squeeze(b_.reduce("aten.sum.dim_IntList", apart, {3}), 3);
  }

  Value turned_back(const Layer& l, Value wide) {
    const Value x = as_complex(wide);
    const TensorMeta table = b_.meta(l.attention);
    const Value conjugate =
        b_.op("aten._conj.default", {l.attention}, nlohmann::json::array(), {table});
    return b_.binary("aten.mul.Tensor", x, b_.clone(conjugate));
  }

  Value attention_gradient(const Layer& l, Value g) {
    const Value context = linear_gradient(l.wo, g, std::nullopt);
    const Value out = b_.permute(b_.view(context, heads(s_.heads)), {0, 2, 1, 3});
    const Value flash = b_.op("aten._scaled_dot_product_flash_attention_backward.default",
                              {out, l.q, l.k, l.v, l.out, l.sums, l.seed, l.offset},
                              nlohmann::json::array({o_.seqlen, o_.seqlen, 0.0, true}),
                              {b_.meta(l.q), b_.meta(l.k), b_.meta(l.v)});
    const Value dq = b_.part(flash, 0);
    const Value dk = b_.part(flash, 1);
    const Value dv = b_.part(flash, 2);
    const Value v_heads = b_.permute(dv, {0, 2, 1, 3});
    const Value k_heads = b_.permute(dk, {0, 2, 1, 3});
    const Value q_heads = b_.permute(dq, {0, 2, 1, 3});
    const Value v_sum = gathered(v_heads);
    const Value k_sum = gathered(k_heads);
    const Value k_wide = b_.convert(k_sum, DType::kF32);
    const Value q_wide = b_.convert(q_heads, DType::kF32);
    const Value k_complex = turned_back(l, k_wide);
    const Value q_complex = turned_back(l, q_wide);
    const Value k_back = b_.convert(as_real(k_complex), DType::kBF16);
    const Value q_back = b_.convert(as_real(q_complex), DType::kBF16);
    const std::int64_t kv = s_.kv_heads * depth_;
    const Value v = b_.view(v_sum, rows(kv));
    const Value k = b_.view(k_back, rows(kv));
    const Value q = b_.view(q_back, rows(s_.dim));
    const Value from_v = linear_gradient(l.wv, v, std::nullopt);
    const Value from_k = linear_gradient(l.wk, k, from_v);
    const Value all = linear_gradient(l.wq, q, from_k);
    return norm_gradient(l.attention_norm, all, g);
  }

  std::vector<std::pair<Value, Value>> gradients_;  // pairs of parameter and gradient
};

TracedProgram trace_llama(const LlamaShape& shape, const ProgramOptions& options) {
  ProgramBuilder builder(std::string(shape.name),
                         "generated: a training step of LLaMA3 as AutoParallel traces it, " +
                             std::to_string(options.layers) + " layers, batch " +
                             std::to_string(options.batch) + ", sequence length " +
                             std::to_string(options.seqlen));
  Model model;
  Sources(shape, options, model, builder).trace();
  ForwardPass(shape, options, model, builder).trace();
  builder.begin_backward();
  BackwardPass(shape, options, model, builder).trace();
  return std::move(builder).build();
}

}  // namespace

Program make_llama(const LlamaShape& shape, const ProgramOptions& options) {
  TracedProgram traced = trace_llama(shape, options);
  if (options.matmul == MatmulForm::kEinsum) traced = with_einsums(std::move(traced));
  return with_aliases(std::move(traced));
}

}  // namespace shardlab
