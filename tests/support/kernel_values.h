// Runs reference kernels on whole tensors, for tests that compare what an op makes of values with
// what PyTorch makes of them.
//
//   kernel_values("aten.neg.default", {{"f64[2]", {1, -2}}})   // {{-1, 2}}: the values by output
//
// Tables of cases are of two kinds. A KernelCase has the values of every output. A KernelCall has
// the shape, dtype and values of the first output, or a part of the message that refuses the call.
#pragma once

#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "sim/host_tensor.h"

namespace shardlab::testing_support {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// An operand without a meta stands for a tensor that is not given.
struct Operand {
  std::string meta = {};  // "f64[2,3]"
  std::vector<double> values = {};
  bool in_list = false;  // in one list with the operand before it, if that is in a list too
};
inline const Operand kNoneInList = {.in_list = true};

// The outputs of an op on whole tensors. Throws InputError.
[[nodiscard]] std::vector<HostTensor> kernel_outputs(const std::string& op,
                                                     const std::vector<Operand>& inputs,
                                                     const std::string& args = "[]");
[[nodiscard]] std::vector<std::vector<double>> kernel_values(const std::string& op,
                                                             const std::vector<Operand>& inputs,
                                                             const std::string& args = "[]");

// Expects as many values, each within `tolerance` times the larger of 1 and the expected value, and
// NaN where NaN is expected.
void expect_values(const std::vector<double>& found, const std::vector<double>& expected,
                   double tolerance = 0.0);

struct KernelCase {
  const char* name;
  const char* op;
  std::vector<Operand> inputs;
  const char* args;
  std::vector<std::vector<double>> expected;  // by output
};
void PrintTo(const KernelCase& c, std::ostream* out);
// Checks all outputs of the case, within the tolerance of expect_values.
void expect_outputs(const KernelCase& c, double tolerance = 0.0);

struct KernelCall {
  const char* name;
  const char* op;
  std::vector<Operand> inputs;
  const char* args;
  std::string output;  // the first output, such as "f64[2]"; or a part of the message
  std::vector<double> values = {};
};
void PrintTo(const KernelCall& c, std::ostream* out);
void expect_first_output(const KernelCall& c);
void expect_refused(const KernelCall& c);

}  // namespace shardlab::testing_support
