#include "strategies/rules/pointwise.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// An op whose name ends with "_" writes to its first tensor. The exceptions are __lshift__ and its
// like, whose in-place forms are named like __ilshift__.
bool writes_to_first(std::string_view op) {
  const std::string_view base = split_op_name(op).base;
  return base.starts_with("__") ? base.starts_with("__i") : base.ends_with('_');
}

int order_of(DType dtype) {
  switch (dtype) {
    case DType::kB8:
      return 0;
    case DType::kU8:
      return 1;
    case DType::kI8:
      return 2;
    case DType::kI16:
      return 3;
    case DType::kI32:
      return 4;
    case DType::kI64:
    case DType::kU64:
      return 5;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return 6;
    case DType::kF16:
    case DType::kBF16:
      return 7;
    case DType::kF32:
      return 8;
    case DType::kF64:
      return 9;
    case DType::kC64:
      return 10;
  }
  return 0;
}

DType wider(DType a, DType b) {
  if (a == b) return a;
  if (order_of(a) > order_of(b)) std::swap(a, b);
  if (a == DType::kU8 && b == DType::kI8) return DType::kI16;
  const bool halves = order_of(a) == order_of(DType::kF16) && order_of(a) == order_of(b);
  return halves ? DType::kF32 : b;
}

// PyTorch's categories of promotion: 0 for truth values, 1 for integers, 2 for floating point, 3
// for complex numbers.
int category_of(DType dtype) {
  if (dtype == DType::kC64) return 3;
  return is_floating_point(dtype) ? 2 : dtype == DType::kB8 ? 0 : 1;
}

// The dtypes of the operands that are numbers. A clamp has two of them, its limits. A Scalar
// overload has one, and so has a Tensor overload that is called with one tensor.
std::vector<DType> numbers_of(const OpCall& call, std::size_t operands) {
  const std::string_view base = split_op_name(call.op).base;
  const std::string_view overload = std::string_view(call.op).substr(call.op.rfind('.') + 1);
  const bool limits =
      base.starts_with("clamp") || base.starts_with("clip") || base.starts_with("_foreach_clamp");
  const bool scalar = overload.find("calar") != std::string_view::npos ||
                      (overload.starts_with("Tensor") && operands == 1);
  const std::size_t count = limits ? call.args.size() : scalar ? 1 : 0;
  std::vector<DType> types;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, call.args.size()); ++i) {
    // A ScalarList has a list of them, one for each tensor.
    const bool is_list = call.args[i].is_array() && !call.args[i].empty();
    const nlohmann::json& number = is_list ? call.args[i].front() : call.args[i];
    if (number.is_number_float()) types.push_back(DType::kF32);
    if (number.is_number_integer()) types.push_back(DType::kI64);
    if (number.is_boolean()) types.push_back(DType::kB8);
  }
  return types;
}

}  // namespace

DType promoted_dtype(const OpCall& call, std::span<const TensorSpec* const> operands) {
  std::optional<DType> result;
  const auto combine = [&](std::optional<DType> lower) {
    if (!lower) return;
    if (!result || category_of(*lower) > category_of(*result)) {
      result = result ? wider(*result, *lower) : *lower;
    }
  };
  std::optional<DType> without_dims;
  for (const TensorSpec* tensor : operands) {
    std::optional<DType>& group = tensor->meta.ndim() > 0 ? result : without_dims;
    group = group ? wider(*group, tensor->meta.dtype) : tensor->meta.dtype;
  }
  combine(without_dims);
  std::optional<DType> numbers;
  for (const DType type : numbers_of(call, operands.size())) {
    numbers = numbers ? wider(*numbers, type) : type;
  }
  combine(numbers);
  return result.value_or(DType::kF32);
}

boost::container::small_vector<const TensorSpec*, 4> pointwise_operands(const OpCall& call) {
  auto tensors = call.tensors();
  if (tensors.empty()) throw InputError(call.op + ": takes at least one tensor, found none");
  if (out_tensors_of(call.op) > 0) {
    if (tensors.size() < 2) {
      throw InputError(
          call.op +
          ": takes its operands and, as the last argument, the out tensor; found one tensor");
    }
    tensors.pop_back();
  }
  return tensors;
}

TensorMeta pointwise_output(const OpCall& call, ResultType type, std::size_t most) {
  const auto tensors = pointwise_operands(call);
  const std::span<const TensorSpec* const> all(tensors.data(), tensors.size());
  if (tensors.size() > most) {
    throw InputError(call.op + ": takes at most " + std::to_string(most) + " tensors, found " +
                     std::to_string(tensors.size()));
  }
  TensorMeta out = tensors[0]->meta;
  out.shape = broadcast_shape(all, call.op);
  out.strides.clear();
  switch (type) {
    case ResultType::kPromoted:
      out.dtype = promoted_dtype(call, all);
      break;
    case ResultType::kFloat:
      out.dtype = promoted_dtype(call, all);
      if (category_of(out.dtype) < 2) out.dtype = DType::kF32;
      break;
    case ResultType::kDouble:
      out.dtype = DType::kF64;
      break;
    case ResultType::kTruth:
      out.dtype = DType::kB8;
      break;
    case ResultType::kFirst:
      break;
    case ResultType::kChoice:
      if (tensors[0]->meta.dtype != DType::kU8) expect_mask(call, *tensors[0]);
      if (tensors.size() > 1) out.dtype = promoted_dtype(call, all.subspan(1));
      break;
    case ResultType::kCast:
      if (const auto dtype = dtype_from_name(call.text_arg(0, ""))) out.dtype = *dtype;
      break;
  }
  const auto expect_written = [&](const TensorMeta& written, std::string_view what) {
    const bool fits = category_of(out.dtype) <= category_of(written.dtype);
    if (fits && written.shape == out.shape) {
      out.dtype = written.dtype;
      return;
    }
    throw InputError(call.op + ": " + std::string(what) + " " + written.text() + " does not have " +
                     (fits ? "the result's shape, " : "a dtype that can hold the result, ") +
                     out.text());
  };
  if (writes_to_first(call.op)) expect_written(tensors[0]->meta, "the first tensor");
  if (out_tensors_of(call.op) > 0) expect_written(call.tensors().back()->meta, "out");
  return out;
}

void expect_mask(const OpCall& call, const TensorSpec& mask) {
  if (mask.meta.dtype == DType::kB8) return;
  throw InputError(call.op + ": found a mask " + mask.meta.text() + "; valid: a mask of dtype b8");
}

int operand_dim(const Shape& shape, const Shape& common, int dim) {
  const int missing = static_cast<int>(common.size() - shape.size());
  const int own = dim - missing;
  if (own < 0) return -1;
  return shape[to_index(own)] == common[to_index(dim)] ? own : -1;
}

Rows pointwise_rows(const OpCall& call, std::span<const PartialRow> partial_rows) {
  const auto tensors = pointwise_operands(call);
  const Shape common = broadcast_shape({tensors.data(), tensors.size()}, call.op);
  Rows rows;
  for (int dim = 0; dim < static_cast<int>(common.size()); ++dim) {
    Row row = {RowEntry::any_shard(dim)};
    for (const TensorSpec* tensor : tensors) {
      const int own = operand_dim(tensor->meta.shape, common, dim);
      row.push_back(own >= 0 ? RowEntry::any_shard(own) : RowEntry(Placement::replicate()));
    }
    rows.push_back(row);
  }
  for (const PartialRow& partial : partial_rows) {
    if (partial.size != 1 + tensors.size()) continue;
    Row row;
    for (std::size_t i = 0; i < partial.size; ++i) row.push_back(partial.entries[i]);
    rows.push_back(row);
  }
  if (out_tensors_of(call.op) > 0) {
    for (Row& row : rows) row.push_back(row[0]);
  }
  return rows;
}

Rows pointwise_rows(const OpCall& call, const OpRule& rule) {
  return pointwise_rows(call, rule.partial_rows);
}

double pointwise_flops(std::span<const Shape> local, const OpCall&) {
  double largest = 0.0;
  for (const Shape& shape : local) {
    double elements = 1.0;
    for (const std::int64_t extent : shape) elements *= static_cast<double>(extent);
    largest = std::max(largest, elements);
  }
  return largest;
}

}  // namespace shardlab
