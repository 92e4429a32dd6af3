#include "strategies/proof/op_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/counter_hash.h"
#include "sim/tensor_kernels.h"
#include "strategies/rules/rule_table.h"

namespace shardlab {
namespace {

// Overloads that compute something else than the kernel that is named after their op.
constexpr std::array<std::string_view, 7> kOthers = {
    "all.dims", "any.dims", "max.dim", "max.other", "min.dim", "min.other", "where.ScalarSelf"};

// The prims that compute what an op of ATen with another name does. The others share its name.
struct Prim {
  std::string_view name;
  std::string_view kernel;
};
constexpr std::array<Prim, 12> kPrims = {{
    {"bessel_i0e", "special_i0e"},
    {"bessel_i1", "special_i1"},
    {"bessel_i1e", "special_i1e"},
    {"bessel_j0", "special_bessel_j0"},
    {"bessel_j1", "special_bessel_j1"},
    {"convert_element_type", "_to_copy"},
    {"copy_to", "copy"},
    {"erfcx", "special_erfcx"},
    {"ndtri", "special_ndtri"},
    {"spherical_bessel_j0", "special_spherical_bessel_j0"},
    {"view_of", "alias"},
    {"zeta", "special_zeta"},
}};

std::string_view without_aten(std::string_view op) {
  if (op.starts_with("aten.")) op.remove_prefix(5);
  return op;
}

// The name of the kernel that a prim without a kernel of its own runs, or "" for another op.
std::string_view kernel_of_prim(std::string_view op) {
  constexpr std::string_view kSpace = "prims.";
  if (!op.starts_with(kSpace)) return {};
  op.remove_prefix(kSpace.size());
  op = op.substr(0, op.find('.'));
  const auto* const found = std::ranges::find(kPrims, op, &Prim::name);
  return found == kPrims.end() ? op : found->kernel;
}

// The parts "add" and "List" of the name "aten._foreach_add_.List".
struct BaseName {
  explicit BaseName(std::string_view op) {
    op = without_aten(op);
    const std::size_t dot = op.find('.');
    base = op.substr(0, dot);
    if (dot != std::string_view::npos) overload = op.substr(dot + 1);
    constexpr std::string_view kForeach = "_foreach_";
    if (base.starts_with(kForeach)) base.remove_prefix(kForeach.size());
    if (base.ends_with('_') && !base.starts_with("__")) base.remove_suffix(1);
  }
  // The name of a kernel for this overload alone, "max.dim".
  [[nodiscard]] std::string full() const { return std::string(base).append(".").append(overload); }

  std::string_view base;
  std::string_view overload;
};

// The kernels sorted by name. Kernels that are made of others look those up for each call, so that
// a walk through all families would take more time than the kernels do.
const std::vector<const OpKernel*>& kernels_by_name() {
  static const std::vector<const OpKernel*> sorted = [] {
    std::vector<const OpKernel*> kernels;
    for (const OpKernelFamily* family : all_op_kernels()) {
      for (const OpKernel& kernel : family->kernels) kernels.push_back(&kernel);
    }
    std::sort(kernels.begin(), kernels.end(),
              [](const OpKernel* a, const OpKernel* b) { return a->name < b->name; });
    return kernels;
  }();
  return sorted;
}

const OpKernel* kernel_named(std::string_view name) {
  const std::vector<const OpKernel*>& sorted = kernels_by_name();
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), name,
      [](const OpKernel* kernel, std::string_view wanted) { return kernel->name < wanted; });
  return found != sorted.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace

const OpKernel* find_op_kernel(std::string_view op) {
  const std::string_view prim = kernel_of_prim(op);
  if (!prim.empty()) return kernel_named(prim);
  const BaseName name(op);
  if (const OpKernel* const kernel = kernel_named(name.full())) return kernel;
  const bool other = std::find(kOthers.begin(), kOthers.end(), without_aten(op)) != kOthers.end();
  return other ? nullptr : kernel_named(name.base);
}

const HostTensor* LocalCall::tensor(std::size_t i) const {
  if (i >= call.inputs.size() || call.inputs[i].tensors.empty()) return nullptr;
  const std::size_t position = call.position(i);
  return position < inputs.size() ? &inputs[position] : nullptr;
}

const HostTensor& LocalCall::required_tensor(std::size_t i) const {
  const HostTensor* found = tensor(i);
  if (found == nullptr) {
    throw InputError(call.op + ": tensor argument " + std::to_string(i) + " is missing");
  }
  return *found;
}

LocalResult run_op_kernel(const LocalCall& call) {
  if (const std::optional<OpCall> base = base_call_of(call.call)) {
    const std::size_t tensors = std::min(base->tensors().size(), call.inputs.size());
    const auto of_inputs = [&](auto all) { return all.first(std::min(tensors, all.size())); };
    return run_op_kernel({.call = *base,
                          .memory = call.memory,
                          .inputs = of_inputs(call.inputs),
                          .input_rows = of_inputs(call.input_rows),
                          .output_shapes = call.output_shapes,
                          .input_shapes = of_inputs(call.input_shapes),
                          .output_rows = call.output_rows});
  }
  const OpKernel* kernel = find_op_kernel(call.call.op);
  if (kernel == nullptr) {
    throw InputError(call.call.op + " has no reference kernel, so it can't be executed");
  }
  return kernel->run(call, *kernel);
}

void expect_inputs(const LocalCall& local, std::size_t least, std::size_t most) {
  if (local.inputs.size() >= least && local.inputs.size() <= most) return;
  std::string count = most == 0 ? "no" : std::to_string(least);
  if (most > least) count += (most == least + 1 ? " or " : " to ") + std::to_string(most);
  throw InputError(local.call.op + ": takes " + count + (most == 1 ? " tensor" : " tensors") +
                   ", found " + std::to_string(local.inputs.size()));
}

void expect_operands(const LocalCall& local, std::size_t count) {
  const std::size_t all = count + (local.call.op.ends_with("out") ? 1 : 0);
  expect_inputs(local, all, all);
}

const HostTensor& first_input(const LocalCall& local) {
  if (local.inputs.empty())
    throw InputError(local.call.op + ": takes at least one tensor, found none");
  return local.inputs[0];
}

void expect_same_dtype(const LocalCall& local, const HostTensor& a, const HostTensor& b) {
  if (a.dtype() == b.dtype()) return;
  throw InputError(local.call.op + ": found " + tensor_text(a) + " and " + tensor_text(b) +
                   "; valid: tensors of one dtype");
}

Shape made_shape(const LocalCall& local) {
  expect_inputs(local, 0, 0);
  if (!local.output_shapes.empty()) return local.output_shapes[0];
  const auto given = local.call.integers_arg(0);
  const auto is_extent = [](std::int64_t extent) { return extent >= 0; };
  if (!given || given->size() > kMaxTensorDims ||
      !std::all_of(given->begin(), given->end(), is_extent)) {
    throw InputError(local.call.op + ": --args must begin with the shape, a list of extents");
  }
  return {given->begin(), given->end()};
}

std::string tensor_text(DType dtype, const Shape& shape) {
  return TensorMeta{.dtype = dtype, .shape = shape, .strides = {}}.text();
}

std::string tensor_text(const HostTensor& tensor) {
  return tensor_text(tensor.dtype(), tensor.shape());
}

std::string data_dtype_names() {
  std::string names;
  for (const auto& named : EnumNames<DType>::kNames) {
    if (!holds_data(named.value)) continue;
    names += (names.empty() ? "" : " ") + std::string(named.name);
  }
  return names;
}

std::vector<double> as_doubles(const HostTensor& tensor) { return elements_as_doubles(tensor); }

namespace {

// Whether the elements of a dtype are integers, and not truth values.
bool holds_integers(DType dtype) { return !is_floating_point(dtype) && dtype != DType::kB8; }

}  // namespace

HostTensor cast_doubles(HostMemory& memory, DType dtype, const Shape& shape,
                        std::vector<double> values) {
  constexpr double kMost = 0x1p52;
  if (holds_integers(dtype)) {
    for (double& value : values) {
      value = std::isnan(value) ? 0.0 : std::clamp(value, -kMost, kMost);
    }
  }
  return from_doubles(memory, dtype, shape, values);
}

HostTensor from_doubles(HostMemory& memory, DType dtype, const Shape& shape,
                        std::span<const double> values) {
  HostTensor tensor = HostTensor::make(memory, dtype, shape);
  SHARDLAB_CHECK(tensor.elements() == std::ssize(values), tensor.elements(), " elements from ",
                 values.size());
  for (std::size_t i = 0; holds_integers(dtype) && i < values.size(); ++i) {
    if (!(std::abs(values[i]) <= 0x1p53)) {
      throw InputError("a result of " + format_double(values[i]) + " does not fit " +
                       std::string(to_string(dtype)));
    }
  }
  set_elements(tensor, values);
  return tensor;
}

std::vector<double> filled(const LocalCall& local, const Shape& shape, double value) {
  const std::int64_t elements = elements_of(shape);
  expect_room(local.call.op, elements, local.memory);
  std::vector<double> values(to_index(elements), value);
  return values;
}

void expect_room(std::string_view op, std::int64_t elements, const HostMemory& memory) {
  if (elements <= memory.limit_bytes() / 8) return;
  throw LimitError(std::string(op) + ": its kernel would need " + std::to_string(elements) +
                   " doubles; valid: smaller tensors, or a memory limit above " +
                   format_bytes(static_cast<double>(memory.limit_bytes())));
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    elements = extent == 0 ? 0 : saturating_product(elements, extent);
  }
  return elements;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    // The other dims of a tensor without elements may be huge.
    strides[d - 1] = shape[d] == 0 ? 0 : saturating_product(strides[d], shape[d]);
  }
  return strides;
}

Shape broadcast_strides(const Shape& shape, std::size_t ndim) {
  Shape strides = row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) strides[d] = 0;
  }
  strides.insert(strides.begin(), ndim - shape.size(), 0);
  return strides;
}

std::vector<std::uint64_t> global_indices(const LocalCall& local, std::size_t input) {
  const HostTensor& tensor = local.inputs[input];
  const Shape strides =
      row_major_strides(local.input_shapes.empty() ? local.call.tensors()[input]->meta.shape
                                                   : local.input_shapes[input]);
  std::vector<std::uint64_t> indices;
  for_each_element(tensor.shape(), [&](const Shape& index, std::int64_t) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      global += strides[d] * global_row(local, input, d, index[d]);
    }
    indices.push_back(static_cast<std::uint64_t>(global));
  });
  return indices;
}

double drawn_number(std::uint64_t place, std::uint64_t draw, std::uint64_t seed) {
  return (static_cast<double>(counter_hash(seed, place, draw) >> 42U) + 0.5) * 0x1p-22;
}

std::int64_t global_row(const LocalCall& local, std::size_t input, std::size_t dim,
                        std::int64_t row) {
  if (local.input_rows.size() <= input) return row;
  return local.input_rows[input][dim].at(to_index(row));
}

}  // namespace shardlab
