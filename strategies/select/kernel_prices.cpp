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
      traffic_(rule.op, rule.written_outputs()),
      reads_shapes_(rule.flops != nullptr || rule.shape != nullptr || traffic_.reads_shapes()) {
  for (const TensorMeta& meta : rule.outputs(call)) add(meta);
  for (const TensorSpec* tensor : call.tensors()) add(tensor->meta);
  input_shapes_.resize(expansion.inputs());
  bytes_.resize(tensors_.size());
  stored_.resize(tensors_.size());
}

double KernelPrices::price(std::size_t candidate) {
  const std::size_t outputs = expansion_.outputs();
  // An op that makes a tensor out of nothing, such as full, has no input.
  const Tensor& first = tensors_.at(expansion_.inputs() > 0 ? outputs : 0);
  KernelQuery query{.kind = rule_.kernel, .dtype = first.meta.dtype};
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Held& held = held_by(t, candidate);
    if (reads_shapes_ && t >= outputs) input_shapes_[t - outputs] = held.shape;
    bytes_[t] = held.bytes;
    stored_[t] = held.stored;
  }
  const std::span<const Bytes> bytes = bytes_;
  traffic_.add_to(query, {.inputs = bytes.subspan(outputs),
                          .stored_inputs = std::span<const Bytes>(stored_).subspan(outputs),
                          .outputs = bytes.first(outputs),
                          .input_shapes = input_shapes_});
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
    tensor.held.push_back({shape, element_count(shape) * itemsize(tensor.meta.dtype),
                           stored_bytes(tensor.meta, shape)});
    tensor.where[code] = static_cast<std::uint32_t>(tensor.held.size());
  }
  return tensor.held[tensor.where[code] - 1];
}

}  // namespace shardlab
