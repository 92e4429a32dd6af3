// The programs of the ops that PyTorch 2.13.0 shards through their decomposition: which ops run, in
// which order, on which tensors. Inputs narrower than f32 are cast to f32 first. Source: PyTorch
// 2.13.0, torch/_decomp/decompositions.py and torch/_refs (the functions of the ops' names), as
// traced by _decompositions.py.
#include <array>
#include <cmath>
#include <string>

#include "costmodel/base/error.h"
#include "strategies/rules/decomposition.h"

namespace shardlab {
namespace {

using Value = Decomposition::Value;
using nlohmann::json;

void expect_tensors(const Decomposition& d, std::size_t least, std::size_t most) {
  const std::size_t found = d.call().tensors().size();
  const std::size_t arguments = d.call().inputs.size();
  if (arguments > most) {
    throw InputError(d.call().op + ": takes at most " + std::to_string(most) +
                     (most == 1 ? " tensor argument" : " tensor arguments") + ", found " +
                     std::to_string(arguments));
  }
  if (found >= least && found <= most) return;
  throw InputError(d.call().op + ": takes " + std::to_string(least) +
                   (least == most ? "" : " to " + std::to_string(most)) +
                   (most == 1 ? " tensor" : " tensors") + ", found " + std::to_string(found));
}

void expect_ndim(const Decomposition& d, std::size_t argument, int ndim) {
  const TensorMeta& meta = d.meta(d.input(argument));
  if (meta.ndim() == ndim) return;
  throw InputError(d.call().op + ": tensor argument " + std::to_string(argument) + ": found " +
                   meta.text() + "; valid: a tensor of " + std::to_string(ndim) +
                   (ndim == 1 ? " dim" : " dims"));
}

bool is_narrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Casts inputs that are narrower than f32 to f32, and results back to the dtype of the first input.
class Wide {
 public:
  explicit Wide(Decomposition& d) : d_(d), dtype_(d.meta(d.input(0)).dtype) {}
  Value input(std::size_t argument) {
    const Value value = d_.input(argument);
    return is_narrow(d_.meta(value).dtype) ? d_.cast(value, DType::kF32) : value;
  }
  Value narrowed(Value value) { return is_narrow(dtype_) ? d_.cast(value, dtype_) : value; }

 private:
  Decomposition& d_;
  DType dtype_;
};

// -- Steps --------------------------------------------------------------------------------------

Value add(Decomposition& d, Value a, Value b) { return d.run("aten.add.Tensor", {a, b}); }
Value add(Decomposition& d, Value a, double b) { return d.run("aten.add.Tensor", {a}, {b}); }
Value sub(Decomposition& d, Value a, Value b) { return d.run("aten.sub.Tensor", {a, b}); }
Value sub(Decomposition& d, Value a, double b) { return d.run("aten.sub.Tensor", {a}, {b}); }
Value mul(Decomposition& d, Value a, Value b) { return d.run("aten.mul.Tensor", {a, b}); }
Value mul(Decomposition& d, Value a, double b) { return d.run("aten.mul.Tensor", {a}, {b}); }
Value div(Decomposition& d, Value a, Value b) { return d.run("aten.div.Tensor", {a, b}); }
Value div(Decomposition& d, Value a, double b) { return d.run("aten.div.Tensor", {a}, {b}); }
Value from(Decomposition& d, double a, Value b) { return d.run("aten.rsub.Scalar", {b}, {a}); }
Value where(Decomposition& d, Value condition, Value a, Value b) {
  return d.run("aten.where.self", {condition, a, b});
}
Value unary(Decomposition& d, std::string_view op, Value a) { return d.run(op, {a}); }
Value compare(Decomposition& d, std::string_view op, Value a, double b) {
  return d.run(op, {a}, {b});
}

enum Reduction : std::int64_t { kReduceNone = 0, kReduceMean = 1, kReduceSum = 2 };

std::int64_t reduction_arg(const Decomposition& d, std::size_t i) {
  const std::int64_t reduction = d.call().integer_arg(i, kReduceMean);
  if (reduction >= kReduceNone && reduction <= kReduceSum) return reduction;
  throw InputError(d.call().op + ": found reduction " + std::to_string(reduction) +
                   "; valid: 0 (none), 1 (mean) or 2 (sum)");
}

Value reduced(Decomposition& d, Value loss, std::int64_t reduction) {
  if (reduction == kReduceMean) return d.run("aten.mean.default", {loss});
  return reduction == kReduceSum ? d.run("aten.sum.default", {loss}) : loss;
}

double elements_of(const TensorMeta& meta) {
  double count = 1.0;
  for (const std::int64_t extent : meta.shape) count *= static_cast<double>(extent);
  return count;
}

// What the gradient of each element is divided by: the number of elements for a mean, otherwise 1.
double divisor(const Decomposition& d, Value value, std::int64_t reduction) {
  return reduction == kReduceMean ? elements_of(d.meta(value)) : 1.0;
}

// -- Matrix products ----------------------------------------------------------------------------

Value multiply_and_sum(Decomposition& d, Value matrix, Value vector) {
  return d.run("aten.sum.dim_IntList", {mul(d, matrix, vector)}, json::array({json::array({1})}));
}

void mv(Decomposition& d) {
  expect_tensors(d, 2, 2);
  expect_ndim(d, 0, 2);
  expect_ndim(d, 1, 1);
  if (d.meta(d.input(0)).shape[1] != d.meta(d.input(1)).shape[0]) {
    throw InputError(d.call().op + ": found a matrix " + d.meta(d.input(0)).text() +
                     " and a vector " + d.meta(d.input(1)).text() +
                     "; valid: a vector with one element for each column of the matrix");
  }
  Wide wide(d);
  const Value matrix = wide.input(0);
  d.returns({wide.narrowed(multiply_and_sum(d, matrix, wide.input(1)))});
}

// What is added to a product: the tensor as it is, or broadcast to the product's shape before.
using Addend = Value (*)(Decomposition&, Value self, Value product);
Value as_it_is(Decomposition&, Value self, Value) { return self; }
Value broadcast(Decomposition& d, Value self, Value product) {
  const Shape& shape = d.meta(product).shape;
  return d.run("aten.expand.default", {self},
               nlohmann::json::array({std::vector<std::int64_t>(shape.begin(), shape.end())}));
}

template <Addend kAddend>
void addmv(Decomposition& d) {
  expect_tensors(d, 3, 3);
  expect_ndim(d, 1, 2);
  expect_ndim(d, 2, 1);
  const double beta = d.call().number_arg(0, 1.0);
  const double alpha = d.call().number_arg(1, 1.0);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value matrix = wide.input(1);
  Value out = mul(d, d.run("aten.mv.default", {matrix, wide.input(2)}), alpha);
  if (beta != 0.0) out = add(d, out, mul(d, kAddend(d, self, out), beta));
  d.returns({wide.narrowed(out)});
}

template <Addend kAddend>
void addmm_activation(Decomposition& d) {
  expect_tensors(d, 3, 3);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value left = wide.input(1);
  Value out = d.run("aten.mm.default", {left, wide.input(2)});
  out = mul(d, out, d.call().number_arg(1, 1.0));
  const double beta = d.call().number_arg(0, 1.0);
  if (beta != 0.0) out = add(d, out, mul(d, kAddend(d, self, out), beta));
  out = unary(d, d.call().boolean_arg(2, false) ? "aten.gelu.default" : "aten.relu.default", out);
  d.returns({wide.narrowed(out)});
}

void vdot(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const Value left = wide.input(0);
  d.returns({wide.narrowed(d.run("aten.dot.default", {left, wide.input(1)}))});
}

// -- Losses -------------------------------------------------------------------------------------

void mse_loss(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value square = d.run("aten.pow.Tensor_Scalar", {sub(d, self, wide.input(1))}, {2});
  d.returns({wide.narrowed(reduced(d, square, reduction_arg(d, 0)))});
}

void mse_loss_backward(Decomposition& d) {
  expect_tensors(d, 3, 3);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const double norm = 2.0 / divisor(d, self, reduction_arg(d, 0));
  d.returns({wide.narrowed(mul(d, mul(d, sub(d, self, wide.input(2)), norm), grad))});
}

void huber_loss(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const double delta = d.call().number_arg(1, 1.0);
  const Value self = wide.input(0);
  const Value z = unary(d, "aten.abs.default", sub(d, self, wide.input(1)));
  const Value inside = compare(d, "aten.lt.Scalar", z, delta);
  const Value square = mul(d, mul(d, z, 0.5), z);
  const Value line = mul(d, sub(d, z, 0.5 * delta), delta);
  const Value loss = where(d, inside, square, line);
  d.returns({wide.narrowed(reduced(d, loss, reduction_arg(d, 0)))});
}

void huber_loss_backward(Decomposition& d) {
  expect_tensors(d, 3, 3);
  Wide wide(d);
  const double delta = d.call().number_arg(1, 1.0);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const double norm = 1.0 / divisor(d, self, reduction_arg(d, 0));
  const Value x = sub(d, self, wide.input(2));
  const Value below = compare(d, "aten.lt.Scalar", x, -delta);
  const Value left = mul(d, mul(d, grad, -norm), delta);
  const Value above = compare(d, "aten.gt.Scalar", x, delta);
  const Value right = mul(d, mul(d, grad, norm), delta);
  const Value inside = mul(d, mul(d, x, norm), grad);
  d.returns({wide.narrowed(where(d, below, left, where(d, above, right, inside)))});
}

void smooth_l1_loss(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const double beta = d.call().number_arg(1, 1.0);
  const Value self = wide.input(0);
  const Value z = unary(d, "aten.abs.default", sub(d, self, wide.input(1)));
  const Value inside = compare(d, "aten.lt.Scalar", z, beta);
  const Value square = div(d, mul(d, d.run("aten.pow.Tensor_Scalar", {z}, {2}), 0.5), beta);
  const Value loss = where(d, inside, square, sub(d, z, 0.5 * beta));
  d.returns({wide.narrowed(reduced(d, loss, reduction_arg(d, 0)))});
}

void smooth_l1_loss_backward(Decomposition& d) {
  expect_tensors(d, 3, 3);
  Wide wide(d);
  const double beta = d.call().number_arg(1, 1.0);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const double norm = 1.0 / divisor(d, self, reduction_arg(d, 0));
  const Value x = sub(d, self, wide.input(2));
  const Value z = unary(d, "aten.abs.default", x);
  const Value scaled = mul(d, grad, norm);
  const Value inside = compare(d, "aten.lt.Scalar", z, beta);
  const Value line = div(d, mul(d, x, scaled), beta);
  const Value sign = mul(d, unary(d, "aten.sign.default", x), scaled);
  d.returns({wide.narrowed(where(d, inside, line, sign))});
}

void soft_margin_loss(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value product = mul(d, unary(d, "aten.neg.default", self), wide.input(1));
  const Value loss = unary(d, "aten.log1p.default", unary(d, "aten.exp.default", product));
  d.returns({wide.narrowed(reduced(d, loss, reduction_arg(d, 0)))});
}

void soft_margin_loss_backward(Decomposition& d) {
  expect_tensors(d, 3, 3);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const Value target = wide.input(2);
  const Value factor = mul(d, target, grad);
  const Value sigmoid = unary(d, "aten.sigmoid.default", mul(d, target, self));
  Value out = mul(d, factor, sub(d, sigmoid, 1.0));
  if (reduction_arg(d, 0) == kReduceMean) out = div(d, out, elements_of(d.meta(self)));
  d.returns({wide.narrowed(out)});
}

void binary_cross_entropy(Decomposition& d) {
  expect_tensors(d, 2, 3);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value target = wide.input(1);
  const auto logarithm = [&](std::string_view op, Value value) {
    const Value log = unary(d, op, value);
    return d.run("aten.maximum.default", {log, d.constant(-100.0, d.meta(self).dtype)});
  };
  const Value other = logarithm("aten.log1p.default", unary(d, "aten.neg.default", self));
  const Value left = mul(d, sub(d, target, 1.0), other);
  const Value right = mul(d, target, logarithm("aten.log.default", self));
  Value loss = sub(d, left, right);
  if (d.has(2)) loss = mul(d, loss, wide.input(2));
  d.returns({wide.narrowed(reduced(d, loss, reduction_arg(d, 0)))});
}

void binary_cross_entropy_backward(Decomposition& d) {
  expect_tensors(d, 3, 4);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const Value slope = mul(d, grad, sub(d, self, wide.input(2)));
  const Value variance = mul(d, from(d, 1.0, self), self);
  Value out = div(d, slope, d.run("aten.clamp.default", {variance}, {1e-12}));
  if (d.has(3)) out = mul(d, out, wide.input(3));
  if (reduction_arg(d, 0) == kReduceMean) out = div(d, out, elements_of(d.meta(self)));
  d.returns({wide.narrowed(out)});
}

void binary_cross_entropy_with_logits(Decomposition& d) {
  expect_tensors(d, 2, 4);
  const Value self = d.input(0);
  const Value target = d.input(1);
  Value log = d.run("aten.log_sigmoid_forward.default", {self});
  if (d.has(3)) log = mul(d, add(d, mul(d, sub(d, d.input(3), 1.0), target), 1.0), log);
  Value loss = sub(d, mul(d, from(d, 1.0, target), self), log);
  if (d.has(2)) loss = mul(d, loss, d.input(2));
  d.returns({reduced(d, loss, reduction_arg(d, 0))});
}

void margin_ranking_loss(Decomposition& d) {
  expect_tensors(d, 3, 3);
  for (const std::size_t i : {1U, 2U}) expect_ndim(d, i, d.meta(d.input(0)).ndim());
  const Value negated = unary(d, "aten.neg.default", d.input(2));
  const Value product = mul(d, negated, sub(d, d.input(0), d.input(1)));
  const Value loss =
      d.run("aten.clamp_min.default", {add(d, product, d.call().number_arg(0, 0.0))}, {0});
  d.returns({reduced(d, loss, reduction_arg(d, 1))});
}

void l1_loss(Decomposition& d) {
  expect_tensors(d, 2, 2);
  const Value loss = unary(d, "aten.abs.default", sub(d, d.input(0), d.input(1)));
  d.returns({reduced(d, loss, reduction_arg(d, 0))});
}

// -- Activations --------------------------------------------------------------------------------

void hardswish(Decomposition& d) {
  expect_tensors(d, 1, 1);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value above = d.run("aten.clamp.default", {add(d, self, 3.0)}, {0});
  const Value inside = d.run("aten.clamp.default", {above}, {nullptr, 6});
  d.returns({wide.narrowed(div(d, mul(d, self, inside), 6.0))});
}

void elu_backward(Decomposition& d) {
  expect_tensors(d, 2, 2);
  const double alpha = d.call().number_arg(0, 1.0);
  const double scale = d.call().number_arg(1, 1.0);
  const double input_scale = d.call().number_arg(2, 1.0);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const Value below = compare(d, "aten.le.Scalar", self, 0.0);
  const Value scaled = mul(d, grad, input_scale);
  Value left = 0;
  if (d.call().boolean_arg(3, false)) {
    left = mul(d, scaled, add(d, self, alpha * scale));
  } else {
    const Value power = unary(d, "aten.exp.default", mul(d, self, input_scale));
    left = mul(d, mul(d, scaled, alpha * scale), power);
  }
  d.returns({wide.narrowed(where(d, below, left, mul(d, grad, scale)))});
}

void leaky_relu_backward(Decomposition& d) {
  expect_tensors(d, 2, 2);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value above = compare(d, "aten.gt.Scalar", wide.input(1), 0.0);
  const Value scaled = mul(d, grad, d.call().number_arg(0, 0.01));
  d.returns({wide.narrowed(where(d, above, grad, scaled))});
}

void softplus_backward(Decomposition& d) {
  expect_tensors(d, 2, 2);
  const double beta = d.call().number_arg(0, 1.0);
  Wide wide(d);
  const Value grad = wide.input(0);
  const Value self = wide.input(1);
  const Value power = unary(d, "aten.exp.default", mul(d, self, beta));
  const Value above =
      compare(d, "aten.gt.Scalar", mul(d, self, beta), d.call().number_arg(1, 20.0));
  const Value slope = div(d, mul(d, grad, power), add(d, power, 1.0));
  d.returns({wide.narrowed(where(d, above, grad, slope))});
}

// The second result is empty, except on a CPU.
void log_sigmoid_forward(Decomposition& d) {
  expect_tensors(d, 1, 1);
  Wide wide(d);
  const Value self = wide.input(0);
  const Value least = d.run("aten.minimum.default", {d.constant(0.0, d.meta(self).dtype), self});
  const Value negated = unary(d, "aten.neg.default", unary(d, "aten.abs.default", self));
  const Value z = unary(d, "aten.exp.default", negated);
  const Value out = sub(d, least, unary(d, "aten.log1p.default", z));
  const Value first = wide.narrowed(out);
  d.returns({first, wide.narrowed(z)});
}

void prelu_kernel(Decomposition& d) {
  expect_tensors(d, 2, 2);
  const Value self = d.input(0);
  const Value above = compare(d, "aten.gt.Scalar", self, 0.0);
  d.returns({where(d, above, self, mul(d, d.input(1), self))});
}

void special_ndtr(Decomposition& d) {
  expect_tensors(d, 1, 1);
  Wide wide(d);
  const Value erf = unary(d, "aten.erf.default", mul(d, wide.input(0), std::sqrt(0.5)));
  d.returns({wide.narrowed(mul(d, add(d, erf, 1.0), 0.5))});
}

// -- Others -------------------------------------------------------------------------------------

void aminmax(Decomposition& d) {
  expect_tensors(d, 1, 1);
  json args = json::array();
  if (!d.call().args.empty() && !d.call().args[0].is_null()) {
    args = {{d.call().integer_arg(0, 0)}, d.call().boolean_arg(1, false)};
  }
  const Value least = d.run("aten.amin.default", {d.input(0)}, args);
  d.returns({least, d.run("aten.amax.default", {d.input(0)}, args)});
}

void masked_fill(Decomposition& d) {
  expect_tensors(d, 3, 3);
  expect_ndim(d, 2, 0);
  d.returns({where(d, d.input(1), d.input(2), d.input(0))});
}

void rsub(Decomposition& d) {
  expect_tensors(d, 2, 2);
  d.returns({d.run("aten.sub.Tensor", {d.input(1), d.input(0)}, d.call().args)});
}

constexpr DecompositionEntry kEntries[] = {
    {"aten._addmm_activation.default", addmm_activation<as_it_is>, until(Release::k2_14)},
    {"aten._addmm_activation.default", addmm_activation<broadcast>, since(Release::k2_15)},
    {"aten._prelu_kernel.default", prelu_kernel},
    {"aten.addmv.default", addmv<as_it_is>, until(Release::k2_14)},
    {"aten.addmv.default", addmv<broadcast>, since(Release::k2_15)},
    {"aten.aminmax.default", aminmax},
    {"aten.binary_cross_entropy.default", binary_cross_entropy},
    {"aten.binary_cross_entropy_backward.default", binary_cross_entropy_backward},
    {"aten.binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
    {"aten.elu_backward.default", elu_backward},
    {"aten.hardswish.default", hardswish},
    {"aten.huber_loss.default", huber_loss},
    {"aten.huber_loss_backward.default", huber_loss_backward},
    {"aten.l1_loss.default", l1_loss},
    {"aten.leaky_relu_backward.default", leaky_relu_backward},
    {"aten.log_sigmoid_forward.default", log_sigmoid_forward},
    {"aten.margin_ranking_loss.default", margin_ranking_loss},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.mse_loss.default", mse_loss},
    {"aten.mse_loss_backward.default", mse_loss_backward},
    {"aten.mv.default", mv},
    {"aten.rsub.Tensor", rsub},
    {"aten.smooth_l1_loss.default", smooth_l1_loss},
    {"aten.smooth_l1_loss_backward.default", smooth_l1_loss_backward},
    {"aten.soft_margin_loss.default", soft_margin_loss},
    {"aten.soft_margin_loss_backward.default", soft_margin_loss_backward},
    {"aten.softplus_backward.default", softplus_backward},
    {"aten.special_ndtr.default", special_ndtr},
    {"aten.vdot.default", vdot},
};

}  // namespace

std::span<const DecompositionEntry> all_decompositions() { return kEntries; }

}  // namespace shardlab
