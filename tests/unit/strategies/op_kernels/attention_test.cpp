// Attention: PyTorch's values, and gradients against differences of the forward kernel.
#include <gtest/gtest.h>

#include "costmodel/error.h"
#include "strategies/op_kernel.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace {

using testing_support::message_of;
using Values = std::vector<double>;

struct Operand {
  std::string meta;  // "none": not given
  Values values = {};
};

std::vector<HostTensor> outputs_of(HostMemory& memory, const std::string& op,
                                   const std::vector<Operand>& inputs, const std::string& args) {
  OpCall call{.op = op, .inputs = {}, .args = nlohmann::json::parse(args)};
  std::vector<HostTensor> tensors;
  for (const Operand& input : inputs) {
    TensorArg& arg = call.inputs.emplace_back();
    if (input.meta == "none") continue;
    const TensorMeta meta = TensorMeta::parse(input.meta);
    arg.tensors.push_back({meta, Layout::replicated(1)});
    tensors.push_back(from_doubles(memory, meta.dtype, meta.shape, input.values));
  }
  return run_op_kernel({.call = call, .memory = memory, .inputs = tensors}).outputs;
}

std::vector<Values> values_of(const std::string& op, const std::vector<Operand>& inputs,
                              const std::string& args) {
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  std::vector<Values> values;
  for (const HostTensor& output : outputs_of(*memory, op, inputs, args)) {
    values.push_back(as_doubles(output));
  }
  return values;
}

constexpr const char* kForward = "aten._scaled_dot_product_efficient_attention.default";
constexpr const char* kBackward = "aten._scaled_dot_product_efficient_attention_backward.default";

const Values kQuery = {1.0, 0.0, 0.5, -1.0};
const Values kKey = {0.25, 1.0, -1.0, 0.5};
const Values kValue = {1.0, 2.0, 3.0, -1.0};

void expect_near(const Values& found, const Values& expected, double tolerance) {
  ASSERT_GE(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance) << i;
  }
}

TEST(AttentionKernel, GivesPyTorchsResultAndSums) {
  const std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}};
  const char* flash = "aten._scaled_dot_product_flash_attention.default";
  const auto whole = values_of(flash, operands, "[]");
  expect_near(whole[0], {1.58474735, 1.12287898, 1.95583458, 0.56624814}, 1e-6);
  expect_near(whole[1], {0.52261581, 0.03121082}, 1e-6);
  const auto causal = values_of(flash, operands, "[0.0, true]");
  expect_near(causal[0], {1.0, 2.0, 1.95583458, 0.56624814}, 1e-6);
  expect_near(causal[1], {0.17677670, 0.03121082}, 1e-6);
}

TEST(AttentionKernel, PadsOrLeavesOutTheSums) {
  std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}, {"none"}};
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  EXPECT_EQ(outputs_of(*memory, kForward, operands, "[true]")[1].shape(), (Shape{1, 1, 32}));
  EXPECT_EQ(outputs_of(*memory, kForward, operands, "[false]")[1].shape(), (Shape{1, 1, 0}));
}

// The gradient of a weighted sum of the result, by each element of each input.
TEST(AttentionKernel, GradientsAreDifferencesOfTheResult) {
  const Values weights = {0.5, -1.0, 2.0, 1.5};
  const Values bias = {0.5, -0.25, 1.0, 0.75};
  for (const char* causal : {"false", "true"}) {
    std::vector<Operand> operands = {{"f64[1,1,2,2]", kQuery},
                                     {"f64[1,1,2,2]", kKey},
                                     {"f64[1,1,2,2]", kValue},
                                     {"f64[1,1,2,2]", bias}};
    const std::string forward_args = std::string("[true, 0.0, ") + causal + "]";
    const auto result = values_of(kForward, operands, forward_args);
    const auto loss = [&] {
      const Values out = values_of(kForward, operands, forward_args)[0];
      double sum = 0.0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += weights[i] * out[i];
      return sum;
    };
    const auto gradients =
        values_of(kBackward,
                  {{"f64[1,1,2,2]", weights},
                   operands[0],
                   operands[1],
                   operands[2],
                   operands[3],
                   {"f64[1,1,2,2]", result[0]},
                   {"f64[1,1,32]", result[1]},
                   {"i64[]", {0}},
                   {"i64[]", {0}}},
                  std::string("[0.0, [true, true, true, true], ") + causal + "]");
    ASSERT_EQ(gradients.size(), 4U);
    for (std::size_t input = 0; input < 4; ++input) {
      for (std::size_t i = 0; i < 4; ++i) {
        constexpr double kStep = 1e-5;
        const double before = operands[input].values[i];
        operands[input].values[i] = before + kStep;
        const double above = loss();
        operands[input].values[i] = before - kStep;
        const double below = loss();
        operands[input].values[i] = before;
        // The sums are rounded to f32.
        EXPECT_NEAR(gradients[input][i], (above - below) / (2 * kStep), 1e-6)
            << "input " << input << ", element " << i << ", causal " << causal;
      }
    }
  }
}

TEST(AttentionKernel, RefusesWhatItCannotCompute) {
  const std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}};
  const char* flash = "aten._scaled_dot_product_flash_attention.default";
  EXPECT_NE(message_of<InputError>([&] { values_of(flash, operands, "[0.5]"); }).find("dropout"),
            std::string::npos);
  std::vector<Operand> unlike = operands;
  unlike[1] = {"f64[1,2,1,2]", kKey};
  EXPECT_THROW(values_of(flash, unlike, "[]"), InputError);
}

}  // namespace
}  // namespace shardlab
