#include "strategies/op_kernel.h"

#include <cmath>
#include <string>

#include "costmodel/error.h"
#include "costmodel/text.h"
#include "sim/tensor_kernels.h"

namespace shardlab {
namespace {

// "add" of "aten._foreach_add_.List".
std::string_view base_of(std::string_view op) {
  if (op.starts_with("aten.")) op.remove_prefix(5);
  op = op.substr(0, op.find('.'));
  constexpr std::string_view kForeach = "_foreach_";
  if (op.starts_with(kForeach)) op.remove_prefix(kForeach.size());
  if (op.ends_with('_')) op.remove_suffix(1);
  return op;
}

}  // namespace

const OpKernel* find_op_kernel(std::string_view op) {
  const std::string_view base = base_of(op);
  for (const OpKernelFamily* family : all_op_kernels()) {
    for (const OpKernel& kernel : family->kernels) {
      if (kernel.name == base) return &kernel;
    }
  }
  return nullptr;
}

LocalResult run_op_kernel(const LocalCall& call) {
  const OpKernel* kernel = find_op_kernel(call.call.op);
  if (kernel == nullptr) {
    throw InputError(call.call.op + " has no reference kernel, so it can't be executed");
  }
  return kernel->run(call, *kernel);
}

std::vector<double> as_doubles(const HostTensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element_as_double(tensor, static_cast<std::int64_t>(i));
  }
  return values;
}

HostTensor from_doubles(HostMemory& memory, DType dtype, const Shape& shape,
                        std::span<const double> values) {
  HostTensor tensor = HostTensor::make(memory, dtype, shape);
  SHARDLAB_CHECK(tensor.elements() == std::ssize(values), tensor.elements(), " elements from ",
                 values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_floating_point(dtype) && !(std::abs(values[i]) < 0x1p63)) {
      throw InputError("a result of " + format_double(values[i]) + " does not fit " +
                       std::string(to_string(dtype)));
    }
    set_element(tensor, static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace shardlab
