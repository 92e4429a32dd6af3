#include "strategies/proof/decomposed_execution.h"

#include "costmodel/base/error.h"
#include "sim/tensor_kernels.h"

namespace shardlab {

std::vector<HostTensor> execute(const Decomposition& program, const LocalCall& local) {
  const auto in_dtype = [&](const HostTensor& tensor, DType dtype) {
    if (!is_floating_point(tensor.dtype()) || tensor.dtype() == dtype) return tensor;
    return from_doubles(local.memory, dtype, tensor.shape(), as_doubles(tensor));
  };
  std::vector<HostTensor> values;
  for (const HostTensor& input : local.inputs) values.push_back(in_dtype(input, DType::kF64));
  for (const Decomposition::Step& step : program.steps()) {
    if (step.rule == nullptr && !step.inputs.empty()) {
      values.push_back(values[step.inputs[0]]);
      continue;
    }
    if (step.rule == nullptr) {
      values.push_back(from_doubles(local.memory, DType::kF64, {}, {&step.constant, 1}));
      continue;
    }
    std::vector<HostTensor> inputs;
    OpCall call = step.call;
    for (const Decomposition::Value value : step.inputs) inputs.push_back(values[value]);
    std::size_t next = 0;
    for (TensorArg& arg : call.inputs) {
      for (TensorSpec& tensor : arg.tensors) tensor.meta.dtype = inputs[next++].dtype();
    }
    LocalResult result = run_op_kernel({.call = call, .memory = local.memory, .inputs = inputs});
    if (result.outputs.size() != step.results) {
      throw InputError(local.call.op + ": found " + std::to_string(result.outputs.size()) +
                       " results of its step " + call.op +
                       "; valid: " + std::to_string(step.results));
    }
    for (HostTensor& output : result.outputs) values.push_back(std::move(output));
  }
  std::vector<HostTensor> results;
  for (const Decomposition::Value value : program.results()) {
    results.push_back(in_dtype(values[value], local.inputs[0].dtype()));
  }
  return results;
}

// A rank runs the op on its part of the tensors, so the decomposition sees the local extents.
LocalResult run_decomposed(const LocalCall& local, const OpKernel&) {
  OpCall call = local.call;
  const auto tensors = call.tensors();
  if (tensors.size() != local.inputs.size()) {
    throw InputError(call.op + ": takes " + std::to_string(tensors.size()) + " tensors, found " +
                     std::to_string(local.inputs.size()));
  }
  std::size_t next = 0;
  for (TensorArg& arg : call.inputs) {
    for (TensorSpec& tensor : arg.tensors) tensor.meta.shape = local.inputs[next++].shape();
  }
  return {execute(Decomposition(call), local), {}};
}

}  // namespace shardlab
