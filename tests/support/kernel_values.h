// Values that a reference kernel computes from values.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace shardlab::testing_support {

struct Operand {
  std::string meta;  // "f64[2,3]"
  std::vector<double> values;
};

struct KernelCase {
  const char* name;
  const char* op;
  std::vector<Operand> inputs;
  const char* args;
  std::vector<std::vector<double>> expected;  // by output
};
void PrintTo(const KernelCase& c, std::ostream* out);

// The outputs of an op on whole tensors. Throws InputError.
[[nodiscard]] std::vector<std::vector<double>> kernel_values(const std::string& op,
                                                             const std::vector<Operand>& inputs,
                                                             const char* args = "[]");

}  // namespace shardlab::testing_support
