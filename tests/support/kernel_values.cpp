#include "tests/support/kernel_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "tests/support/reference_messages.h"

namespace shardlab::testing_support {

std::vector<HostTensor> kernel_outputs(const std::string& op, const std::vector<Operand>& inputs,
                                       const std::string& args) {
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  OpCall call{.op = op, .inputs = {}, .args = nlohmann::json::parse(args)};
  std::vector<HostTensor> tensors;
  for (const Operand& input : inputs) {
    const bool continues = input.in_list && !call.inputs.empty() && call.inputs.back().is_list;
    if (!continues) call.inputs.push_back({.tensors = {}, .is_list = input.in_list});
    TensorArg& arg = call.inputs.back();
    const bool given = !input.meta.empty();
    if (input.in_list) arg.given.push_back(given);
    if (!given) continue;
    const TensorMeta meta = TensorMeta::parse(input.meta);
    arg.tensors.push_back({meta, Layout::replicated(1)});
    tensors.push_back(from_doubles(*memory, meta.dtype, meta.shape, input.values));
  }
  return run_op_kernel({.call = call, .memory = *memory, .inputs = tensors}).outputs;
}

std::vector<std::vector<double>> kernel_values(const std::string& op,
                                               const std::vector<Operand>& inputs,
                                               const std::string& args) {
  std::vector<std::vector<double>> values;
  for (const HostTensor& output : kernel_outputs(op, inputs, args)) {
    values.push_back(as_doubles(output));
  }
  return values;
}

void expect_values(const std::vector<double>& found, const std::vector<double>& expected,
                   double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isfinite(expected[i])) {
      EXPECT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
    } else {
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << i << ": " << found[i] << ", expected " << expected[i];
    }
  }
}

void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

void expect_outputs(const KernelCase& c, double tolerance) {
  const auto outputs = kernel_values(c.op, c.inputs, c.args);
  ASSERT_EQ(outputs.size(), c.expected.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    SCOPED_TRACE("output " + std::to_string(o));
    expect_values(outputs[o], c.expected[o], tolerance);
  }
}

void PrintTo(const KernelCall& c, std::ostream* out) { *out << c.name; }

void expect_first_output(const KernelCall& c) {
  const HostTensor found = kernel_outputs(c.op, c.inputs, c.args).front();
  const TensorMeta meta{.dtype = found.dtype(), .shape = found.shape(), .strides = {}};
  EXPECT_EQ(meta.text(), c.output);
  expect_values(as_doubles(found), c.values);
}

void expect_refused(const KernelCall& c) {
  const std::string message =
      message_of<InputError>([&] { static_cast<void>(kernel_outputs(c.op, c.inputs, c.args)); });
  EXPECT_NE(message.find(c.output), std::string::npos) << message;
}

}  // namespace shardlab::testing_support
