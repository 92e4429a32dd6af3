#include "strategies/proof/pointwise_kernel.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/json_reader.h"
#include "strategies/rules/pointwise.h"

namespace shardlab {
namespace {

using Result = OpKernel::Result;

// Whether the overload's number comes before its tensor: pow.Scalar is 2 ** x, while pow_.Scalar is
// x ** 2.
bool has_number_first(std::string_view op) {
  for (const std::string_view part :
       {".Scalar_Tensor", ".x_scalar", ".self_scalar", "Scalar_Self", "pow.Scalar", "power.Scalar",
        "ScalarAndTensor", ".polygamma"}) {
    if (op.find(part) == std::string_view::npos) continue;
    return op.find("_foreach_pow.Scalar") == std::string_view::npos ||
           op.ends_with("ScalarAndTensor");
  }
  return false;
}

// The argument itself, or the only number of a list that has one for each tensor of a list of one.
const nlohmann::json& number_in(const nlohmann::json& argument, std::string_view op) {
  const bool is_list = op.ends_with(".ScalarList") && argument.is_array() && argument.size() == 1;
  return is_list ? argument.front() : argument;
}

// The operands that are numbers.
std::vector<double> numbers_of(const OpCall& call, const OpKernel& kernel, std::size_t tensors) {
  const std::size_t count = kernel.operands - tensors;
  if (call.args.size() > count) {
    throw InputError(call.op + ": found " + std::to_string(call.args.size()) +
                     " arguments in --args; valid: at most " + std::to_string(count));
  }
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const bool absent = i >= call.args.size() || call.args[i].is_null();
    const bool optional = tensors + i >= kernel.operands - kernel.optional;
    if (absent ? !optional : !number_in(call.args[i], call.op).is_number()) {
      throw InputError(call.op + ": argument " + std::to_string(i) + " of --args: found " +
                       (absent ? "nothing" : describe_json(call.args[i])) + "; valid: a number");
    }
    numbers.push_back(absent ? kAbsent : number_in(call.args[i], call.op).get<double>());
  }
  return numbers;
}

// The dtype of the tensor that the op writes to, if there is one. The result is rounded to it.
std::optional<DType> written_dtype(const LocalCall& local) {
  if (out_tensors_of(local.call.op) > 0) return local.inputs.back().dtype();
  const std::string_view op = local.call.op;
  const std::string_view base = op.substr(0, op.rfind('.'));
  // Both __lshift__ and __ilshift__ end with "_", but only the second writes to its operand.
  const bool operator_name = base.find(".__") != std::string_view::npos;
  const bool writes =
      base.ends_with('_') && (!operator_name || base.find(".__i") != std::string_view::npos);
  if (writes) return local.inputs[0].dtype();
  return std::nullopt;
}

DType dtype_of(const OpKernel& kernel, std::span<const HostTensor> tensors, const OpCall& call) {
  switch (kernel.result) {
    case Result::kAsSecond:
      return tensors[std::min<std::size_t>(1, tensors.size() - 1)].dtype();
    case Result::kTruth:
      return DType::kB8;
    case Result::kFloatingPoint:
      if (!is_floating_point(tensors[0].dtype())) return DType::kF32;
      break;
    case Result::kDouble:
      return DType::kF64;
    case Result::kInteger:
      for (const HostTensor& tensor : tensors) {
        if (!is_floating_point(tensor.dtype())) continue;
        throw InputError(call.op + ": found " + tensor_text(tensor) +
                         "; valid: tensors of integers or b8");
      }
      break;
    case Result::kAsFirst:
      break;
  }
  return tensors[0].dtype();
}

Shape common_shape(std::span<const HostTensor> tensors, std::string_view op) {
  std::vector<TensorSpec> specs(tensors.size());
  std::vector<const TensorSpec*> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    specs[i].meta.shape = tensors[i].shape();
    shown.push_back(&specs[i]);
  }
  return broadcast_shape(shown, op);
}

// Calls work(i, elements) for each index i of the common shape, row-major, with the tensors'
// elements that meet there.
template <class Work>
void for_each_broadcast(std::span<const HostTensor> tensors, const Shape& common, Work&& work) {
  std::vector<std::vector<double>> values;
  std::vector<Shape> strides;
  for (const HostTensor& tensor : tensors) {
    values.push_back(as_doubles(tensor));
    strides.push_back(broadcast_strides(tensor.shape(), common.size()));
  }
  std::vector<double> elements(tensors.size());
  for_each_element(common, [&](const Shape& index, std::int64_t i) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      elements[t] = values[t][to_index(flat_index(index, strides[t]))];
    }
    work(to_index(i), std::span<const double>(elements));
  });
}

}  // namespace

LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel,
                          double (*element)(Operands)) {
  std::span<const HostTensor> tensors = local.inputs;
  tensors = tensors.first(tensors.size() - std::min(tensors.size(), out_tensors_of(local.call.op)));
  if (tensors.empty() || tensors.size() > kernel.operands) {
    throw InputError(
        local.call.op + ": takes 1 " +
        (kernel.operands == 1 ? "tensor" : "to " + std::to_string(kernel.operands) + " tensors") +
        ", found " + std::to_string(tensors.size()));
  }
  const std::vector<double> numbers = numbers_of(local.call, kernel, tensors.size());
  const Shape shape = common_shape(tensors, local.call.op);
  std::vector<double> results = filled(local, shape);
  const DType dtype = written_dtype(local).value_or(dtype_of(kernel, tensors, local.call));
  const bool number_first = has_number_first(local.call.op) && tensors.size() < kernel.operands;
  std::vector<double> operands;
  for_each_broadcast(tensors, shape, [&](std::size_t i, std::span<const double> elements) {
    operands.assign(numbers.begin(), numbers.end());
    operands.insert(operands.begin() + (number_first ? 1 : 0), elements.begin(), elements.end());
    results[i] = element(operands);
  });
  return {{from_doubles(local.memory, dtype, shape, results)}, {}};
}

LocalResult run_pointwise(const LocalCall& local, const OpKernel& kernel) {
  return run_pointwise(local, kernel, kernel.element);
}

}  // namespace shardlab
