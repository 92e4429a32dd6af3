// Kernels that compute each element of the result from the elements at its place in the operands:
//
//   constexpr OpKernel kKernels[] = {
//       floating_kernel("atan2", 2, [](Operands x) { return std::atan2(x[0], x[1]); }),
//   };
//
// The operands are the tensors, broadcast to a common shape, and after them the numbers among the
// call's arguments.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "strategies/proof/op_kernel.h"

namespace shardlab {

using Operands = std::span<const double>;

// Stands for a number that the call leaves out.
inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
[[nodiscard]] inline double number_or(double number, double fallback) {
  return std::isnan(number) ? fallback : number;
}

// Applies kernel.element. Throws InputError for tensors or numbers that the op does not take.
[[nodiscard]] LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel);
// Applies another function in place of kernel.element.
[[nodiscard]] LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel,
                                        double (*element)(Operands));

// Makes a row of a family's table. The last `optional` operands are numbers that may be absent.
constexpr OpKernel pointwise_kernel(std::string_view name, std::size_t operands,
                                    double (*element)(Operands),
                                    OpKernel::Result result = OpKernel::Result::kAsFirst,
                                    std::size_t optional = 0) {
  return {.name = name,
          .run = run_pointwise,
          .element = element,
          .operands = operands,
          .optional = optional,
          .result = result};
}
constexpr OpKernel floating_kernel(std::string_view name, std::size_t operands,
                                   double (*element)(Operands), std::size_t optional = 0) {
  return pointwise_kernel(name, operands, element, OpKernel::Result::kFloatingPoint, optional);
}
constexpr OpKernel truth_kernel(std::string_view name, std::size_t operands,
                                double (*element)(Operands)) {
  return pointwise_kernel(name, operands, element, OpKernel::Result::kTruth);
}
constexpr OpKernel integer_kernel(std::string_view name, std::size_t operands,
                                  double (*element)(Operands)) {
  return pointwise_kernel(name, operands, element, OpKernel::Result::kInteger);
}

}  // namespace shardlab
