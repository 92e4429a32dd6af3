// Kernels of attention return PyTorch's values, and gradients that equal finite differences of the
// result.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "costmodel/base/error.h"
#include "tests/support/kernel_values.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace attention_test {

using testing_support::expect_values;
using testing_support::kernel_outputs;
using testing_support::kernel_values;
using testing_support::message_of;
using testing_support::Operand;
using Values = std::vector<double>;

constexpr const char* kForward = "aten._scaled_dot_product_efficient_attention.default";
constexpr const char* kBackward = "aten._scaled_dot_product_efficient_attention_backward.default";

const Values kQuery = {1.0, 0.0, 0.5, -1.0};
const Values kKey = {0.25, 1.0, -1.0, 0.5};
const Values kValue = {1.0, 2.0, 3.0, -1.0};

TEST(AttentionKernel, GivesPyTorchsResultAndSums) {
  const std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}};
  const char* flash = "aten._scaled_dot_product_flash_attention.default";
  const auto whole = kernel_values(flash, operands, "[]");
  expect_values(whole[0], {1.58474735, 1.12287898, 1.95583458, 0.56624814}, 1e-6);
  expect_values(whole[1], {0.52261581, 0.03121082}, 1e-6);
  const auto causal = kernel_values(flash, operands, "[0.0, true]");
  expect_values(causal[0], {1.0, 2.0, 1.95583458, 0.56624814}, 1e-6);
  expect_values(causal[1], {0.17677670, 0.03121082}, 1e-6);
}

TEST(AttentionKernel, PadsOrLeavesOutTheSums) {
  std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}, {}};
  EXPECT_EQ(kernel_outputs(kForward, operands, "[true]")[1].shape(), (Shape{1, 1, 32}));
  EXPECT_EQ(kernel_outputs(kForward, operands, "[false]")[1].shape(), (Shape{1, 1, 0}));
}

// Compares the gradient of a weighted sum of the result with its finite differences, for each
// element of each input, whether elements are seen or dropped.
TEST(AttentionKernel, GradientsEqualDifferencesOfTheResult) {
  const Values weights = {0.5, -1.0, 2.0, 1.5};
  const Values bias = {0.5, -0.25, 1.0, 0.75};
  for (const auto& [dropout, causal] : {std::pair("0.0", "false"), std::pair("0.0", "true"),
                                        std::pair("0.4", "false"), std::pair("0.4", "true")}) {
    std::vector<Operand> operands = {{"f64[1,1,2,2]", kQuery},
                                     {"f64[1,1,2,2]", kKey},
                                     {"f64[1,1,2,2]", kValue},
                                     {"f64[1,1,2,2]", bias}};
    const std::string forward_args = std::string("[true, ") + dropout + ", " + causal + "]";
    const auto result = kernel_values(kForward, operands, forward_args);
    const auto loss = [&] {
      const Values out = kernel_values(kForward, operands, forward_args)[0];
      double sum = 0.0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += weights[i] * out[i];
      return sum;
    };
    const auto gradients =
        kernel_values(kBackward,
                      {{"f64[1,1,2,2]", weights},
                       operands[0],
                       operands[1],
                       operands[2],
                       operands[3],
                       {"f64[1,1,2,2]", result[0]},
                       {"f64[1,1,32]", result[1]},
                       {"i64[]", {0}},
                       {"i64[]", {0}}},
                      std::string("[") + dropout + ", [true, true, true, true], " + causal + "]");
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
            << "input " << input << ", element " << i << ", causal " << causal << ", dropout "
            << dropout;
      }
    }
  }
}

// Three heads of queries share the first head of keys and values, three others the second: the same
// as if each had a copy of its own, whose gradients add up.
TEST(AttentionKernel, SharesHeadsOfKeysAmongGroups) {
  const char* flash = "aten._scaled_dot_product_flash_attention.default";
  const char* backward = "aten._scaled_dot_product_flash_attention_backward.default";
  const Values queries = {1.0, 0.5, -1.0, 2.0, 0.25, -0.5, 1.5, -2.0, 0.75, 1.0, 0.0, -1.5};
  const Values keys = {0.25, 1.0, -1.0, 0.5};
  const Values values = {1.0, 2.0, 3.0, -1.0};
  const auto repeated = [](const Values& heads) {
    Values all;
    for (int head = 0; head < 2; ++head) {
      for (int copy = 0; copy < 3; ++copy) {
        all.insert(all.end(), heads.begin() + 2 * head, heads.begin() + 2 * head + 2);
      }
    }
    return all;
  };
  const Operand query = {"f64[1,6,2,1]", queries};
  const auto shared = kernel_values(
      flash, {query, {"f64[1,2,2,1]", keys}, {"f64[1,2,2,1]", values}}, "[0.0, true]");
  const Operand all_keys = {"f64[1,6,2,1]", repeated(keys)};
  const Operand all_values = {"f64[1,6,2,1]", repeated(values)};
  const auto own = kernel_values(flash, {query, all_keys, all_values}, "[0.0, true]");
  expect_values(shared[0], own[0], 1e-12);
  expect_values(shared[1], own[1], 1e-12);
  const Operand gradient = {"f64[1,6,2,1]", {1, -1, 2, 0.5, -2, 1, 0.25, 3, -1, 1, 0.5, -0.5}};
  const Operand out = {"f64[1,6,2,1]", own[0]};
  const Operand sums = {"f64[1,6,2]", own[1]};
  const auto of_shared = kernel_values(
      backward, {gradient, query, {"f64[1,2,2,1]", keys}, {"f64[1,2,2,1]", values}, out, sums},
      "[2, 2, 0.0, true]");
  const auto of_own = kernel_values(backward, {gradient, query, all_keys, all_values, out, sums},
                                    "[2, 2, 0.0, true]");
  expect_values(of_shared[0], of_own[0], 1e-12);
  for (const std::size_t operand : {1U, 2U}) {
    Values added(4, 0.0);
    for (std::size_t i = 0; i < 12; ++i) added[i / 6 * 2 + i % 2] += of_own[operand][i];
    expect_values(of_shared[operand], added, 1e-12);
  }
}

TEST(AttentionKernel, ReturnsTheBiasGradientIfAskedFor) {
  const std::vector<Operand> operands = {{"f64[1,1,2,2]", kQuery},        {"f64[1,1,2,2]", kQuery},
                                         {"f64[1,1,2,2]", kKey},          {"f64[1,1,2,2]", kValue},
                                         {"f64[1,1,2,2]", kKey},          {"f64[1,1,2,2]", kValue},
                                         {"f64[1,1,32]", Values(32, 0.0)}};
  EXPECT_EQ(kernel_values(kBackward, operands, "[0.0, [true, true, true, true]]").size(), 4U);
  EXPECT_EQ(kernel_values(kBackward, operands, "[0.0, [true, true, true, false]]").size(), 3U);
}

// Of 4096 probabilities, a quarter is dropped, and the others are scaled up. With keys of zeros all
// probabilities are equal, so that each result tells how many were kept.
TEST(AttentionKernel, DropsSomeProbabilitiesAndScalesUpTheOthers) {
  const Values zeros(64, 0.0);
  const Values ones(64, 1.0);
  const auto outputs =
      kernel_values("aten._scaled_dot_product_flash_attention.default",
                    {{"f64[1,1,64,1]", zeros}, {"f64[1,1,64,1]", zeros}, {"f64[1,1,64,1]", ones}},
                    "[0.25, false, true]");
  double kept = 0.0;
  for (const double result : outputs[0]) kept += result * 64 * 0.75;
  EXPECT_NEAR(kept / 4096, 0.75, 0.03);
  // What is dropped is negative among the probabilities that are asked for.
  const auto negative = std::count_if(outputs.back().begin(), outputs.back().end(),
                                      [](double share) { return share < 0.0; });
  EXPECT_NEAR(static_cast<double>(negative), 4096 - kept, 1e-6);
}

TEST(AttentionKernel, RefusesWhatItCannotCompute) {
  const std::vector<Operand> operands = {
      {"f64[1,1,2,2]", kQuery}, {"f64[1,1,2,2]", kKey}, {"f64[1,1,2,2]", kValue}};
  const char* flash = "aten._scaled_dot_product_flash_attention.default";
  EXPECT_NE(message_of<InputError>([&] {
              (void)kernel_values(flash, operands, "[1.0]");
            }).find("found dropout 1; valid: from 0 to below 1"),
            std::string::npos);
  std::vector<Operand> unlike = operands;
  unlike[1] = {"f64[1,2,1,2]", kKey};
  EXPECT_THROW((void)kernel_values(flash, unlike, "[]"), InputError);
}

}  // namespace attention_test
}  // namespace shardlab
