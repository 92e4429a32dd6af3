// Calls of reference kernels on whole tensors, and what comes out.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "costmodel/error.h"
#include "strategies/op_kernel.h"
#include "tests/support/reference_messages.h"

namespace shardlab::testing_support {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct KernelOperand {
  std::string meta;
  std::vector<double> values;
  bool in_list = false;  // beside the operand before, if that is in a list too
};
inline const KernelOperand kNone = {.meta = "none", .values = {}, .in_list = true};

struct KernelCall {
  const char* name;
  const char* op;
  std::vector<KernelOperand> operands;
  const char* args;
  std::string output;  // of the first: "f64[2]"; or a part of the message
  std::vector<double> values = {};
};
inline void PrintTo(const KernelCall& c, std::ostream* out) { *out << c.name; }

// The first output.
inline HostTensor kernel_result(const KernelCall& c, HostMemory& memory) {
  OpCall call;
  call.op = c.op;
  call.args = nlohmann::json::parse(c.args);
  std::vector<HostTensor> tensors;
  for (const KernelOperand& operand : c.operands) {
    const bool continues = operand.in_list && !call.inputs.empty() && call.inputs.back().is_list;
    if (!continues) call.inputs.push_back({.tensors = {}, .is_list = operand.in_list});
    TensorArg& arg = call.inputs.back();
    const bool given = operand.meta != "none";
    if (operand.in_list) arg.given.push_back(given);
    if (!given) continue;
    const TensorMeta meta = TensorMeta::parse(operand.meta);
    arg.tensors.push_back({meta, Layout::replicated(1)});
    tensors.push_back(from_doubles(memory, meta.dtype, meta.shape, operand.values));
  }
  return run_op_kernel({.call = call, .memory = memory, .inputs = tensors}).outputs.front();
}

inline void expect_as_in_pytorch(const KernelCall& c) {
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  const HostTensor found = kernel_result(c, *memory);
  const TensorMeta meta{.dtype = found.dtype(), .shape = found.shape(), .strides = {}};
  ASSERT_EQ(meta.text(), c.output);
  const std::vector<double> values = as_doubles(found);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(values[i] == c.values[i] || (std::isnan(values[i]) && std::isnan(c.values[i])))
        << i << ": " << values[i] << ", PyTorch " << c.values[i];
  }
}

inline void expect_refused(const KernelCall& c) {
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  const std::string message =
      message_of<InputError>([&] { static_cast<void>(kernel_result(c, *memory)); });
  EXPECT_NE(message.find(c.output), std::string::npos) << message;
}

}  // namespace shardlab::testing_support
