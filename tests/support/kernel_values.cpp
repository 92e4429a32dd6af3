#include "tests/support/kernel_values.h"

#include "strategies/op_kernel.h"

namespace shardlab::testing_support {

void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

std::vector<std::vector<double>> kernel_values(const std::string& op,
                                               const std::vector<Operand>& inputs,
                                               const char* args) {
  const auto memory = HostMemory::make(std::int64_t{1} << 24U);
  OpCall call;
  call.op = op;
  call.args = nlohmann::json::parse(args);
  std::vector<HostTensor> tensors;
  for (const Operand& input : inputs) {
    const TensorMeta meta = TensorMeta::parse(input.meta);
    tensors.push_back(from_doubles(*memory, meta.dtype, meta.shape, input.values));
    call.inputs.push_back({.tensors = {{meta, Layout::replicated(1)}}, .is_list = false});
  }
  std::vector<std::vector<double>> outputs;
  for (const HostTensor& output :
       run_op_kernel({.call = call, .memory = *memory, .inputs = tensors}).outputs) {
    outputs.push_back(as_doubles(output));
  }
  return outputs;
}

}  // namespace shardlab::testing_support
