// Scaled-dot-product attention and its gradient: softmax(scale * q k^T + bias) v, row by row.
//
// The fused ops differ in what else they return. The logsumexp ("sums" below) has the shape [batch,
// heads, rows]; the efficient op rounds the rows up to a multiple of 32, and cudnn adds a dim. It
// is f32, or f64 for f64 inputs, which no fused op takes. In flash attention consecutive heads of
// queries may share a head of keys and values. Dropout draws for each probability by its place in
// the whole tensor of them, so that the same ones are dropped in every layout and in the backward
// pass. The states of random numbers are zeros therefore, and their shapes are those that the
// outputs' layouts ask for. The probabilities come last, if they are asked for; those that are
// dropped are negative.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace attention_kernels {

enum class Kind : std::uint8_t { kFlash, kEfficient, kCudnn };

Kind kind_of(const OpCall& call) {
  if (call.op.find("efficient") != std::string::npos) return Kind::kEfficient;
  return call.op.find("cudnn") != std::string::npos ? Kind::kCudnn : Kind::kFlash;
}

// An array of doubles with a shape.
struct Block {
  Shape shape;
  std::vector<double> values;

  static Block zeros(const Shape& shape) {
    return {shape, std::vector<double>(to_index(elements_of(shape)), 0.0)};
  }
  static Block of(const HostTensor& tensor) { return {tensor.shape(), as_doubles(tensor)}; }
  // The numbers of one row, of a block of 4 dims.
  double* row(std::int64_t b, std::int64_t h, std::int64_t row) {
    return values.data() + ((b * shape[1] + h) * shape[2] + row) * shape[3];
  }
  // In a dim of extent 1, every index stands for the one row.
  double& at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column) {
    std::int64_t flat = 0;
    const std::int64_t index[] = {b, h, row, column};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      flat = flat * shape[d] + (shape[d] == 1 ? 0 : index[d]);
    }
    return values[to_index(flat)];
  }
};

// What the forward and the backward op both begin with: operands whose shapes are checked, and the
// scores before the softmax.
struct Scores {
  Scores(const LocalCall& local, std::size_t first, const HostTensor* bias_tensor, double scale_arg,
         bool is_causal)
      : query(Block::of(local.required_tensor(first))),
        key(Block::of(local.required_tensor(first + 1))),
        value(Block::of(local.required_tensor(first + 2))),
        causal(is_causal) {
    const Shape& q = query.shape;
    const Shape& k = key.shape;
    const Shape& v = value.shape;
    const bool four = q.size() == 4 && k.size() == 4 && v.size() == 4;
    const bool shares = four && kind_of(local.call) == Kind::kFlash && k[1] > 0 && q[1] % k[1] == 0;
    if (shares) group = std::max<std::int64_t>(1, q[1] / k[1]);
    const bool heads = four && (q[1] == k[1] || shares) && k[1] == v[1];
    if (!heads || q[0] != k[0] || k[0] != v[0] || k[2] != v[2] || q[3] != k[3] ||
        (kind_of(local.call) == Kind::kFlash && q[3] != v[3])) {
      throw InputError(local.call.op + ": found queries " +
                       tensor_text(local.required_tensor(first)) + ", keys " +
                       tensor_text(local.required_tensor(first + 1)) + " and values " +
                       tensor_text(local.required_tensor(first + 2)) +
                       "; valid: tensors of 4 dims that agree in batch and heads, keys as deep as "
                       "the queries, a value for each key" +
                       (kind_of(local.call) == Kind::kFlash ? ", values as deep as the keys" : ""));
    }
    // A rank's depth is the whole depth, since no layout may cut it.
    scale = std::isnan(scale_arg) ? 1.0 / std::sqrt(static_cast<double>(q[3])) : scale_arg;
    if (bias_tensor != nullptr) {
      bias = Block::of(*bias_tensor);
      const std::array<std::int64_t, 4> wanted = {q[0], q[1], q[2], k[2]};
      bool fits = bias.shape.size() == 4;
      for (std::size_t d = 0; fits && d < 4; ++d) {
        fits = bias.shape[d] == 1 || bias.shape[d] == wanted[d];
      }
      if (!fits) {
        throw InputError(local.call.op + ": found a bias " + tensor_text(*bias_tensor) +
                         "; valid: " + tensor_text(bias_tensor->dtype(), {q[0], q[1], q[2], k[2]}) +
                         ", like the scores, or an extent of 1 in place of any of these");
      }
    }
    expect_room(local.call.op, elements_of({q[0], q[1], q[2], k[2]}), local.memory);
  }

  [[nodiscard]] std::int64_t keys() const { return key.shape[2]; }
  [[nodiscard]] bool sees(std::int64_t row, std::int64_t column) const {
    return !causal || column <= row;
  }
  double at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column) {
    const double* const asked = query.row(b, h, row);
    const double* const offered = key.row(b, h / group, column);
    double dot = 0.0;
    for (std::int64_t d = 0; d < query.shape[3]; ++d) dot += asked[d] * offered[d];
    return scale * dot + (bias.shape.empty() ? 0.0 : bias.at(b, h, row, column));
  }
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    for (std::int64_t b = 0; b < query.shape[0]; ++b) {
      for (std::int64_t h = 0; h < query.shape[1]; ++h) {
        for (std::int64_t row = 0; row < query.shape[2]; ++row) visit(b, h, row);
      }
    }
  }

  Block query;
  Block key;
  Block value;
  Block bias;
  bool causal;
  std::int64_t group = 1;  // how many heads of queries share a head of keys and values
  double scale = 1.0;
};

// Which probabilities are dropped, and by how much the others are scaled up.
class Dropout {
 public:
  // `arg` is the place of the chance to be dropped among --args, and `first` that of the queries
  // among the tensors, before the keys.
  Dropout(const LocalCall& local, std::size_t arg, std::size_t first)
      : local_(local),
        chance_(local.call.number_arg(arg, 0.0)),
        query_(local.call.position(first)),
        key_(local.call.position(first + 1)),
        whole_(local.call.tensor(first)->meta.shape),
        keys_(local.call.tensor(first + 1)->meta.shape[2]) {
    if (chance_ >= 0.0 && chance_ < 1.0) return;
    throw InputError(local.call.op + ": found dropout " + format_double(chance_) +
                     "; valid: from 0 to below 1");
  }
  // What the probability is multiplied by: 0 if it is dropped. The indices are the rank's own.
  [[nodiscard]] double factor(std::int64_t b, std::int64_t h, std::int64_t row,
                              std::int64_t column) const {
    if (chance_ == 0.0) return 1.0;
    std::int64_t place = global_row(local_, query_, 0, b);
    place = place * whole_[1] + global_row(local_, query_, 1, h);
    place = place * whole_[2] + global_row(local_, query_, 2, row);
    place = place * keys_ + global_row(local_, key_, 2, column);
    const double drawn = drawn_number(static_cast<std::uint64_t>(place), 1);
    return drawn < chance_ ? 0.0 : 1.0 / (1.0 - chance_);
  }

 private:
  const LocalCall& local_;
  double chance_;
  std::size_t query_;
  std::size_t key_;
  const Shape& whole_;
  std::int64_t keys_;
};

constexpr double kDefault = std::numeric_limits<double>::quiet_NaN();

HostTensor tensor_of(const LocalCall& local, DType dtype, const Block& block) {
  return from_doubles(local.memory, dtype, block.shape, block.values);
}

LocalResult run_forward(const LocalCall& local, const OpKernel&) {
  const Kind kind = kind_of(local.call);
  const bool flash = kind == Kind::kFlash;
  const bool with_sums = flash || local.call.boolean_arg(0, false);
  const bool with_mask = kind != Kind::kEfficient && local.call.boolean_arg(flash ? 2 : 3, false);
  Scores scores(local, 0, flash ? nullptr : local.tensor(3),
                local.call.number_arg(kind == Kind::kCudnn ? 4 : 3, kDefault),
                local.call.boolean_arg(flash ? 1 : 2, false));
  const Dropout dropout(local, flash ? 0 : 1, 0);
  const Shape& q = scores.query.shape;
  Block out = Block::zeros({q[0], q[1], q[2], scores.value.shape[3]});
  Shape sums_shape = {q[0], q[1], q[2]};
  if (kind == Kind::kEfficient) sums_shape[2] = with_sums ? (q[2] + 31) / 32 * 32 : 0;
  if (kind == Kind::kCudnn) sums_shape.push_back(1);
  // Sums that are not computed have the shape that their layout asks for.
  if (!with_sums && !local.output_shapes.empty()) sums_shape = local.output_shapes[1];
  Block sums = Block::zeros(sums_shape);
  Block mask = Block::zeros({0});
  if (with_mask) {
    const std::int64_t block = q[3] > 64 ? 128 : 256;
    const std::int64_t columns = scores.keys() <= 128   ? 128
                                 : scores.keys() <= 256 ? 256
                                                        : (q[2] + block - 1) / block;
    mask = Block::zeros({q[0], q[1], q[2], columns});
  }
  scores.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t row) {
    std::vector<double> own;
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t column = 0; column < scores.keys(); ++column) {
      own.push_back(scores.sees(row, column) ? scores.at(b, h, row, column)
                                             : -std::numeric_limits<double>::infinity());
      most = std::max(most, own.back());
    }
    if (own.empty()) return;
    double total = 0.0;
    for (double& score : own) total += score = std::exp(score - most);
    for (std::size_t column = 0; column < own.size(); ++column) {
      const double share = own[column] / total;
      const auto key = static_cast<std::int64_t>(column);
      const double factor = dropout.factor(b, h, row, key);
      const double* const value = scores.value.row(b, h / scores.group, key);
      double* const result = out.row(b, h, row);
      for (std::int64_t d = 0; d < out.shape[3]; ++d) result[d] += factor * share * value[d];
      if (with_mask && key < mask.shape[3]) {
        mask.at(b, h, row, key) = factor == 0.0 ? -share : share;
      }
    }
    if (with_sums) sums.at(b, h, row, 0) = most + std::log(total);
  });
  const DType dtype = local.inputs[0].dtype();
  LocalResult result;
  result.outputs.push_back(tensor_of(local, dtype, out));
  result.outputs.push_back(
      tensor_of(local, dtype == DType::kF64 ? DType::kF64 : DType::kF32, sums));
  if (flash) result.outputs.push_back(zeros(local.memory, DType::kI64, {2}));
  // The seed and the offset of random numbers, which a program reads again in its backward pass.
  for (std::size_t o = 2; kind == Kind::kEfficient && o < local.output_shapes.size(); ++o) {
    result.outputs.push_back(zeros(local.memory, DType::kI64, local.output_shapes[o]));
  }
  for (std::size_t o = 3; flash && o + 1 < local.output_shapes.size(); ++o) {
    result.outputs.push_back(zeros(local.memory, DType::kI64, local.output_shapes[o]));
  }
  if (flash || with_mask) result.outputs.push_back(tensor_of(local, dtype, mask));
  return result;
}

// The last of the four values of argument 1 of efficient attention.
bool asks_for_bias_gradient(const OpCall& call) {
  const nlohmann::json& args = call.args;
  return args.size() < 2 || !args[1].is_array() || args[1].size() != 4 || args[1][3] != false;
}

LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  const Kind kind = kind_of(local.call);
  const bool efficient = kind == Kind::kEfficient;
  const HostTensor* bias = kind == Kind::kFlash ? nullptr : local.tensor(efficient ? 4 : 8);
  Scores scores(local, 1, bias, local.call.number_arg(efficient ? 3 : 4, kDefault),
                local.call.boolean_arg(efficient ? 2 : 3, false));
  const Dropout dropout(local, efficient ? 0 : 2, 1);
  const std::size_t out_at = efficient ? 5 : 4;
  Block grad_out = Block::of(local.required_tensor(0));
  Block out = Block::of(local.required_tensor(out_at));
  Block sums = Block::of(local.required_tensor(out_at + 1));
  const Shape& q = scores.query.shape;
  Shape wanted = q;
  wanted[3] = scores.value.shape[3];
  const bool padded = sums.shape.size() >= 3 && sums.shape[0] == q[0] && sums.shape[1] == q[1];
  if (grad_out.shape != wanted || out.shape != wanted || !padded ||
      sums.shape.size() != (kind == Kind::kCudnn ? 4U : 3U) ||
      (kind == Kind::kCudnn && sums.shape[3] != 1) ||
      (efficient ? sums.shape[2] != (q[2] + 31) / 32 * 32 : sums.shape[2] != q[2])) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(local.required_tensor(0)) +
                     ", an output " + tensor_text(local.required_tensor(out_at)) +
                     " and a logsumexp " + tensor_text(local.required_tensor(out_at + 1)) +
                     "; valid: a gradient and an output " +
                     tensor_text(local.inputs[0].dtype(), wanted) +
                     ", and a logsumexp with a number for each row of each head");
  }
  // Every rank must hold the states of random numbers, and the offsets, as a whole.
  for (std::size_t i = out_at + 2; i < local.call.inputs.size(); ++i) {
    const HostTensor* state = local.tensor(i);
    if (state == nullptr || state == bias) continue;
    if (state->shape() != local.call.tensor(i)->meta.shape) {
      throw InputError(local.call.op + ": found a part of tensor argument " + std::to_string(i) +
                       " on a rank; valid: the whole tensor, which every rank needs");
    }
  }
  Block grad_query = Block::zeros(q);
  Block grad_key = Block::zeros(scores.key.shape);
  Block grad_value = Block::zeros(scores.value.shape);
  Block grad_bias = Block::zeros(bias == nullptr ? Shape{0} : scores.bias.shape);
  scores.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t row) {
    const std::int64_t k = h / scores.group;
    const double* const of_result = grad_out.row(b, h, row);
    const double* const result = out.row(b, h, row);
    double both = 0.0;
    for (std::int64_t d = 0; d < wanted[3]; ++d) both += of_result[d] * result[d];
    for (std::int64_t column = 0; column < scores.keys(); ++column) {
      if (!scores.sees(row, column)) continue;
      const double share = std::exp(scores.at(b, h, row, column) - sums.at(b, h, row, 0));
      const double factor = dropout.factor(b, h, row, column);
      const double* const value = scores.value.row(b, k, column);
      double* const of_value = grad_value.row(b, k, column);
      double grad_share = 0.0;
      for (std::int64_t d = 0; d < wanted[3]; ++d) {
        grad_share += factor * of_result[d] * value[d];
        of_value[d] += factor * share * of_result[d];
      }
      const double grad_score = share * (grad_share - both);
      const double* const query = scores.query.row(b, h, row);
      const double* const key = scores.key.row(b, k, column);
      double* const of_query = grad_query.row(b, h, row);
      double* const of_key = grad_key.row(b, k, column);
      for (std::int64_t d = 0; d < q[3]; ++d) {
        of_query[d] += scores.scale * grad_score * key[d];
        of_key[d] += scores.scale * grad_score * query[d];
      }
      if (bias != nullptr) grad_bias.at(b, h, row, column) += grad_score;
    }
  });
  const DType dtype = local.inputs[0].dtype();
  LocalResult result;
  for (const Block* grad : {&grad_query, &grad_key, &grad_value}) {
    result.outputs.push_back(tensor_of(local, dtype, *grad));
  }
  if (efficient && bias != nullptr && asks_for_bias_gradient(local.call)) {
    result.outputs.push_back(tensor_of(local, bias->dtype(), grad_bias));
  }
  return result;
}

// flex_attention without a mask, whose scores no function changes: flash attention, which returns
// the greatest score of each row as well.
LocalResult run_flex(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  Scores scores(local, 0, nullptr, kDefault, false);
  const Shape& q = scores.query.shape;
  Block out = Block::zeros({q[0], q[1], q[2], scores.value.shape[3]});
  Block sums = Block::zeros({q[0], q[1], q[2]});
  Block greatest = Block::zeros({q[0], q[1], q[2]});
  scores.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t row) {
    if (scores.keys() == 0) return;
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t key = 0; key < scores.keys(); ++key) {
      most = std::max(most, scores.at(b, h, row, key));
    }
    double total = 0.0;
    for (std::int64_t key = 0; key < scores.keys(); ++key) {
      total += std::exp(scores.at(b, h, row, key) - most);
    }
    for (std::int64_t key = 0; key < scores.keys(); ++key) {
      const double share = std::exp(scores.at(b, h, row, key) - most) / total;
      const double* const value = scores.value.row(b, h / scores.group, key);
      double* const result = out.row(b, h, row);
      for (std::int64_t d = 0; d < out.shape[3]; ++d) result[d] += share * value[d];
    }
    sums.at(b, h, row, 0) = most + std::log(total);
    greatest.at(b, h, row, 0) = most;
  });
  const DType dtype = local.inputs[0].dtype();
  const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
  LocalResult result;
  result.outputs.push_back(tensor_of(local, dtype, out));
  result.outputs.push_back(tensor_of(local, wide, sums));
  result.outputs.push_back(tensor_of(local, wide, greatest));
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "_scaled_dot_product_cudnn_attention",
     .run = run_forward,
     .needs_output_shapes = true},
    {.name = "_scaled_dot_product_cudnn_attention_backward", .run = run_backward},
    {.name = "_scaled_dot_product_efficient_attention",
     .run = run_forward,
     .needs_output_shapes = true},
    {.name = "_scaled_dot_product_efficient_attention_backward", .run = run_backward},
    {.name = "_scaled_dot_product_flash_attention", .run = run_forward},
    {.name = "_scaled_dot_product_flash_attention_backward", .run = run_backward},
    {.name = "higher_order.flex_attention", .run = run_flex},
};

}  // namespace attention_kernels

OP_KERNELS(attention){attention_kernels::kKernels};

}  // namespace shardlab
