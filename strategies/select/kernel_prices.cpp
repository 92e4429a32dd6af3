#include "strategies/select/kernel_prices.h"

namespace shardlab {

KernelPrices::KernelPrices(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                           const Expansion& expansion, const ComputeModel& kernels,
                           StridedKernels strided)
    : rule_(rule),
      call_(call),
      mesh_(mesh),
      expansion_(expansion),
      kernels_(kernels),
      strided_(strided),
      reads_shapes_(rule.flops != nullptr || rule.shape != nullptr) {
  for (const TensorMeta& meta : rule.outputs(call)) add(meta);
  for (const TensorSpec* tensor : call.tensors()) add(tensor->meta);
  input_shapes_.resize(expansion.inputs());
}

double KernelPrices::price(std::size_t candidate) {
  const std::size_t outputs = expansion_.outputs();
  // An op that makes a tensor out of nothing, such as full, has no input.
  const Tensor& first = tensors_.at(expansion_.inputs() > 0 ? outputs : 0);
  KernelQuery query{.kind = rule_.kernel, .dtype = first.meta.dtype};
  for (std::size_t i = 0; i < expansion_.inputs(); ++i) {
    const Held& held = held_by(outputs + i, candidate);
    if (reads_shapes_) input_shapes_[i] = held.shape;
    query.bytes += held.bytes;
  }
  for (std::size_t o = 0; o < outputs; ++o) query.bytes += held_by(o, candidate).bytes;
  set_work(query, rule_, input_shapes_, call_);
  return kernels_.price(query).total.value();
}

void KernelPrices::add(const TensorMeta& meta) {
  const std::size_t t = tensors_.size();
  tensors_.push_back({meta,
                      expansion_.codes_of_tensor(t),
                      std::vector<std::uint32_t>(expansion_.tensor_codes(t), 0U),
                      {}});
}

const KernelPrices::Held& KernelPrices::held_by(std::size_t t, std::size_t candidate) {
  Tensor& tensor = tensors_[t];
  const std::uint32_t code = tensor.codes[candidate];
  if (tensor.where[code] == 0) {
    const Shape shape =
        kernel_shape(tensor.meta.shape, expansion_.tensor_layout(t, code), mesh_, strided_);
    tensor.held.push_back({shape, element_count(shape) * itemsize(tensor.meta.dtype)});
    tensor.where[code] = static_cast<std::uint32_t>(tensor.held.size());
  }
  return tensor.held[tensor.where[code] - 1];
}

}  // namespace shardlab
