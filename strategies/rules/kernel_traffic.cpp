#include "strategies/rules/kernel_traffic.h"

#include <algorithm>
#include <array>
#include <string>

#include "strategies/rules/op_call.h"

namespace shardlab {

// An entry without an overload holds for all overloads of an op that have no entry of their own. An
// in-place form that has no entry is found under its name without the underscore at its end.
const KernelTraffic::Entry* KernelTraffic::find(std::string_view op) {
  static constexpr auto kEntries = std::to_array<Entry>({
      {"_adaptive_avg_pool2d_backward", Reads::kAllButSecond},
      {"_adaptive_avg_pool3d_backward", Reads::kAllButSecond},
      {"_amp_foreach_non_finite_check_and_unscale_", Reads::kAll, Writes::kFirst},
      {"_conj", Reads::kNone, Writes::kShared},
      {"_embedding_bag", Reads::kRows},
      {"_embedding_bag_forward_only", Reads::kRows},
      {"_foreach_addcdiv_", Reads::kAll, Writes::kFirst},
      {"_foreach_addcmul_", Reads::kAll, Writes::kFirst},
      {"_foreach_zero", Reads::kNone},
      {"_fused_adam", Reads::kAll, Writes::kUpdated},
      {"_fused_adamw", Reads::kAll, Writes::kUpdated},
      {"_index_put_impl_", Reads::kWritten, Writes::kSource},
      {"_neg_view", Reads::kNone, Writes::kShared},
      {"_unsafe_view", Reads::kNone, Writes::kShared},
      {"adaptive_max_pool2d_backward", Reads::kAllButSecond},
      {"adaptive_max_pool3d_backward", Reads::kAllButSecond},
      {"avg_pool2d_backward", Reads::kAllButSecond},
      {"avg_pool3d_backward", Reads::kAllButSecond},
      {"bernoulli.Tensor", Reads::kAllButFirst},
      {"bernoulli.float", Reads::kNone},
      {"bernoulli.float_out", Reads::kNone},
      {"bernoulli.p", Reads::kNone},
      {"cauchy", Reads::kNone},
      {"contiguous", Reads::kNone, Writes::kShared},
      {"copy", Reads::kAllButFirst},
      {"diag", Reads::kPicked},
      {"diagonal_copy", Reads::kPicked},
      {"embedding", Reads::kRows},
      {"empty", Reads::kNone, Writes::kNone},
      {"empty_like", Reads::kNone, Writes::kNone},
      {"empty_permuted", Reads::kNone, Writes::kNone},
      {"exponential", Reads::kNone},
      {"fill", Reads::kNone},
      {"fill.Tensor", Reads::kAllButFirst},
      {"full_like", Reads::kNone},
      {"gather", Reads::kPicked},
      {"geometric", Reads::kNone},
      {"index", Reads::kPicked},
      {"index_add_", Reads::kWritten, Writes::kSource},
      {"index_copy_", Reads::kAllButFirst, Writes::kSource},
      {"index_put_", Reads::kAllButFirst, Writes::kSource},
      {"index_reduce_", Reads::kWritten, Writes::kSource},
      {"index_select", Reads::kPicked},
      {"is_same_size", Reads::kNone, Writes::kNone},
      {"log_normal", Reads::kNone},
      {"max_pool2d_with_indices_backward", Reads::kAllButSecond},
      {"max_pool3d_with_indices_backward", Reads::kAllButSecond},
      {"new_empty", Reads::kNone, Writes::kNone},
      {"new_empty_strided", Reads::kNone, Writes::kNone},
      {"new_full", Reads::kNone},
      {"new_ones", Reads::kNone},
      {"new_zeros", Reads::kNone},
      {"nll_loss2d_backward", Reads::kAllButSecond},
      {"nll_loss2d_forward", Reads::kClasses},
      {"nll_loss_backward", Reads::kAllButSecond},
      {"nll_loss_forward", Reads::kClasses},
      {"normal.default", Reads::kNone},
      {"normal.out", Reads::kNone},
      {"normal_functional", Reads::kNone},
      {"ones_like", Reads::kNone},
      {"positive", Reads::kNone, Writes::kShared},
      {"rand_like", Reads::kNone},
      {"randint_like", Reads::kNone},
      {"randn_like", Reads::kNone},
      {"random", Reads::kNone},
      {"scatter_", Reads::kAllButFirst, Writes::kIndices},
      {"scatter_add_", Reads::kWritten, Writes::kIndices},
      {"scatter_reduce_", Reads::kWritten, Writes::kIndices},
      {"squeeze", Reads::kNone, Writes::kShared},
      {"t", Reads::kNone, Writes::kShared},
      {"take", Reads::kPicked},
      {"transpose", Reads::kNone, Writes::kShared},
      {"uniform", Reads::kNone},
      {"unsqueeze", Reads::kNone, Writes::kShared},
      {"view", Reads::kNone, Writes::kShared},
      {"view_as_complex", Reads::kNone, Writes::kShared},
      {"view_as_real", Reads::kNone, Writes::kShared},
      {"zero", Reads::kNone},
      {"zeros_like", Reads::kNone},
  });
  static_assert(std::ranges::is_sorted(kEntries, {}, &Entry::op));
  const auto entry = [](std::string_view name) -> const Entry* {
    const auto it = std::ranges::lower_bound(kEntries, name, {}, &Entry::op);
    return it != kEntries.end() && it->op == name ? &*it : nullptr;
  };
  auto [base, overload] = split_op_name(op);
  if (const Entry* in_place = entry(base)) {
    if (base.ends_with('_')) return in_place;
  }
  if (base.ends_with('_')) base.remove_suffix(1);
  const Entry* found = entry(std::string(base) + "." + std::string(overload));
  return found != nullptr ? found : entry(base);
}

Bytes stored_bytes(const TensorMeta& meta, const Shape& local) {
  double elements = element_count(local);
  // Dims that a registered placement cuts together are one dim of `local`, and have no stride.
  for (std::size_t d = 0; d < local.size() && local.size() == meta.strides.size(); ++d) {
    if (meta.strides[d] == 0 && local[d] > 0) elements /= static_cast<double>(local[d]);
  }
  return elements * itemsize(meta.dtype);
}

KernelTraffic::KernelTraffic(std::string_view op, std::size_t out_tensors)
    : out_tensors_(out_tensors) {
  if (const Entry* entry = find(op)) {
    reads_ = entry->reads;
    writes_ = entry->writes;
  }
  takes_tensor_lr_ = split_op_name(op).overload.starts_with("tensor_lr");
}

bool KernelTraffic::reads_shapes() const {
  return reads_ == Reads::kRows || reads_ == Reads::kClasses || writes_ == Writes::kIndices ||
         writes_ == Writes::kSource || writes_ == Writes::kUpdated;
}

bool KernelTraffic::moves_a_part() const {
  return reads_ == Reads::kRows || reads_ == Reads::kPicked || writes_ == Writes::kIndices ||
         writes_ == Writes::kSource;
}

Bytes KernelTraffic::read_of(std::size_t input, const KernelTensors& tensors) const {
  const Bytes all = tensors.stored_inputs[input];
  const std::size_t read = tensors.inputs.size() - std::min(tensors.inputs.size(), out_tensors_);
  if (input >= read) return 0.0;
  // The elements along a dim of the first input, and 1 for a tensor without dims.
  const auto extent = [&](std::size_t dim) {
    const Shape& shape = tensors.input_shapes[0];
    return shape.empty() ? 1.0 : static_cast<double>(shape[std::min(dim, shape.size() - 1)]);
  };
  switch (reads_) {
    case Reads::kAll:
      return all;
    case Reads::kNone:
      return 0.0;
    case Reads::kAllButFirst:
      return input == 0 && read > 1 ? 0.0 : all;
    case Reads::kAllButSecond:
      return input == 1 ? 0.0 : all;
    case Reads::kWritten:
      return input > 0 || tensors.outputs.empty() ? all : std::min(all, written_of(0, tensors));
    case Reads::kPicked:
      return input > 0 || tensors.outputs.empty() ? all : std::min(all, tensors.outputs[0]);
    case Reads::kRows:
      if (input > 0 || read < 2 || all <= 0.0) return all;
      return std::min(all, all / extent(0) * element_count(tensors.input_shapes[1]));
    case Reads::kClasses:
      return input > 0 || all <= 0.0 ? all : all / extent(1);
  }
  return all;
}

Bytes KernelTraffic::written_of(std::size_t output, const KernelTensors& tensors) const {
  const Bytes all = tensors.outputs[output];
  switch (writes_) {
    case Writes::kAll:
      return all;
    case Writes::kNone:
    case Writes::kShared:
    case Writes::kFirst:
    case Writes::kUpdated:
      return 0.0;
    case Writes::kSource:
    case Writes::kIndices: {
      const std::size_t inputs = tensors.inputs.size();
      if (output > 0 || inputs < 2) return all;
      const double own = element_count(tensors.input_shapes[0]);
      const std::size_t source = writes_ == Writes::kSource ? inputs - 1 : 1;
      const double places = element_count(tensors.input_shapes[source]);
      // A single value is written to as many places as there are indices, and these may be ranges.
      if (own <= 0.0 || (writes_ == Writes::kSource && places == 1.0)) return all;
      return std::min(all, all / own * places);
    }
  }
  return all;
}

Bytes KernelTraffic::overwritten(const KernelTensors& tensors) const {
  if (tensors.inputs.empty() || (writes_ != Writes::kFirst && writes_ != Writes::kUpdated)) {
    return 0.0;
  }
  if (writes_ == Writes::kFirst) return tensors.inputs[0];
  Bytes bytes = 0.0;
  std::size_t others = 0;
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
    const bool is_listed = tensors.input_shapes[i] == tensors.input_shapes[0];
    if (!is_listed) ++others;
    if (is_listed && i != 1) bytes += tensors.inputs[i];
  }
  // The steps and a learning rate are there without grad_scale, too. With it, the gradients are
  // divided by grad_scale and written back.
  const std::size_t always = takes_tensor_lr_ ? 2 : 1;
  if (others > always && tensors.inputs.size() > 1) bytes += tensors.inputs[1];
  return bytes;
}

void KernelTraffic::add_to(KernelQuery& query, const KernelTensors& tensors) const {
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
    const Bytes read = read_of(i, tensors);
    query.bytes += read;
    query.unmoved_bytes += tensors.inputs[i] - read;
  }
  for (std::size_t o = 0; o < tensors.outputs.size(); ++o) {
    const Bytes written = written_of(o, tensors);
    query.bytes += written;
    query.unmoved_bytes += tensors.outputs[o] - written;
  }
  const Bytes overwritten_bytes = overwritten(tensors);
  query.bytes += overwritten_bytes;
  query.overwritten_bytes += overwritten_bytes;
}

}  // namespace shardlab
