#include "strategies/rules/tensor_args.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 53U;

std::int64_t bounded(std::int64_t value, const OpCall& call) {
  if (value >= -kMost && value <= kMost) return value;
  throw InputError(call.op + ": found " + std::to_string(value) +
                   " in --args; valid: -2^53 to 2^53");
}

}  // namespace

int dim_of(const OpCall& call, std::size_t arg, std::int64_t fallback, int ndim) {
  if (ndim == 0) throw InputError(call.op + ": takes a tensor of at least one dim");
  return normalize_dim(call.integer_arg(arg, fallback), ndim, call.op);
}

std::int64_t index_in(std::int64_t index, std::int64_t extent, std::string_view op) {
  if (extent == 0) {
    throw InputError(std::string(op) + ": index " + std::to_string(index) +
                     " out of range; valid: none, since the dim is empty");
  }
  if (index < -extent || index >= extent) {
    throw InputError(std::string(op) + ": index " + std::to_string(index) +
                     " out of range; valid: " + std::to_string(-extent) + " to " +
                     std::to_string(extent - 1));
  }
  return index < 0 ? index + extent : index;
}

double row_length(const TensorMeta& global, const Shape& local, std::string_view classes) {
  const Shape strides = global.all_strides();
  // The dims from the one that changes fastest in memory on. A stride of 0 repeats an element, and
  // a dim of one element takes no step.
  boost::container::static_vector<std::size_t, kMaxTensorDims> dims;
  for (std::size_t d = 0; d < local.size(); ++d) {
    if (local[d] > 1 && strides[d] > 0) dims.push_back(d);
  }
  std::sort(dims.begin(), dims.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(strides[a], b) < std::pair(strides[b], a);
  });
  double length = 1.0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = dims[i];
    if (i > 0) {
      const std::size_t before = dims[i - 1];
      const bool follows = strides[d] == strides[before] * global.shape[before];
      const bool is_of_row = !classes.empty() && classes[d] == classes[before] && follows;
      if (!is_of_row) return length;
    }
    length *= static_cast<double>(local[d]);
  }
  return 1.0;
}

std::vector<std::int64_t> required_integers(const OpCall& call, std::size_t arg) {
  auto values = call.integers_arg(arg);
  if (!values) {
    throw InputError(call.op + ": argument " + std::to_string(arg) +
                     " of --args is missing; valid: an array of integers");
  }
  for (const std::int64_t value : *values) static_cast<void>(bounded(value, call));
  return *values;
}

std::int64_t required_integer(const OpCall& call, std::size_t arg) {
  if (arg < call.args.size() && !call.args[arg].is_null()) return call.integer_arg(arg, 0);
  throw InputError(call.op + ": argument " + std::to_string(arg) +
                   " of --args is missing; valid: an integer");
}

ArangeNumbers arange_numbers(const OpCall& call) {
  constexpr double kMostNumbers = 1099511627776.0;  // 2^40
  for (const std::size_t arg : {0U, 1U}) {
    if (arg < call.args.size() && !call.args[arg].is_null()) continue;
    throw InputError(call.op + ": argument " + std::to_string(arg) +
                     " of --args is missing; valid: a number");
  }
  ArangeNumbers range{.start = call.number_arg(0, 0.0), .step = call.number_arg(2, 1.0)};
  const double end = call.number_arg(1, 0.0);
  const double count = std::ceil((end - range.start) / range.step);
  if (range.step == 0.0 || !(count >= 0.0 && count <= kMostNumbers)) {
    throw InputError(call.op + ": found " + call.args.dump() +
                     "; valid: a start, an end, and a step that leads from the start to the end, "
                     "with at most 2^40 numbers");
  }
  range.count = static_cast<std::int64_t>(count);
  for (std::size_t arg = 0; arg < std::min<std::size_t>(call.args.size(), 3); ++arg) {
    if (call.args[arg].is_number_float()) range.dtype = DType::kF32;
  }
  return range;
}

DType named_dtype(const OpCall& call, std::size_t arg, DType fallback) {
  const std::string name = call.text_arg(arg, "");
  if (name.empty()) return fallback;
  const std::optional<DType> dtype = dtype_from_name(name);
  if (dtype) return *dtype;
  throw InputError(call.op + ": found dtype \"" + name + "\"; valid: " + std::string(kDTypeNames));
}

Shape required_shape(const OpCall& call, std::size_t arg) {
  const std::vector<std::int64_t> extents = required_integers(call, arg);
  std::int64_t capacity = 1;
  for (const std::int64_t extent : extents) {
    capacity = saturating_product(capacity, std::max<std::int64_t>(extent, 1));
    if (extent >= 0 && extents.size() <= kMaxTensorDims && capacity <= kMost) continue;
    throw InputError(call.op + ": argument " + std::to_string(arg) + " of --args: found " +
                     call.args[arg].dump() + "; valid: the shape of a tensor");
  }
  return {extents.begin(), extents.end()};
}

void expect_countable(const OpCall& call, const Shape& result) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : result) {
    elements = saturating_product(elements, std::max<std::int64_t>(extent, 1));
  }
  if (elements > std::int64_t{1} << 53U) {
    throw InputError(call.op + ": the result would have more than 2^53 elements");
  }
}

void expect_tensors(const OpCall& call, std::size_t count) {
  const std::size_t found = call.tensors().size();
  if (found == count) return;
  throw InputError(call.op + ": takes " + std::to_string(count) +
                   (count == 1 ? " tensor, found " : " tensors, found ") + std::to_string(found));
}

void expect_one_dtype(const OpCall& call, std::size_t first, std::size_t count) {
  const auto tensors = call.tensors();
  const std::size_t end = count < tensors.size() - first ? first + count : tensors.size();
  for (std::size_t i = first + 1; i < end; ++i) {
    if (tensors[i]->meta.dtype == tensors[first]->meta.dtype) continue;
    throw InputError(call.op + ": found " + tensors[first]->meta.text() + " and " +
                     tensors[i]->meta.text() + "; valid: tensors of one dtype");
  }
}

const TensorSpec& only_tensor(const OpCall& call) {
  expect_tensors(call, 1);
  return call.required_tensor(0);
}

std::vector<std::int64_t> split_sizes(const OpCall& call, std::int64_t extent) {
  std::vector<std::int64_t> sizes;
  if (call.op.find("with_sizes") != std::string::npos) {
    sizes = required_integers(call, 0);
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) {
      if (size < 0 || sum > extent) sum = kMost;
      sum += size;
    }
    if (sizes.empty() || std::ssize(sizes) > kMostParts || sum != extent) {
      throw InputError(call.op + ": found sizes " + call.args[0].dump() + " for an extent of " +
                       std::to_string(extent) + "; valid: 1 to " + std::to_string(kMostParts) +
                       " sizes that add up to it");
    }
    return sizes;
  }
  const std::int64_t size = call.integer_arg(0, 0);
  if (size < 1 || extent / size >= kMostParts) {
    throw InputError(call.op + ": found parts of size " + std::to_string(size) +
                     " for an extent of " + std::to_string(extent) +
                     "; valid: a size of 1 or more that makes at most " +
                     std::to_string(kMostParts) + " parts");
  }
  for (std::int64_t rest = extent; rest > 0; rest -= size) sizes.push_back(std::min(size, rest));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

SliceRange SliceRange::of(const OpCall& call, std::size_t first, std::int64_t extent) {
  const auto within = [&](std::int64_t bound) {
    bounded(bound, call);
    return std::clamp<std::int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
  };
  SliceRange range;
  range.step = bounded(call.integer_arg(first + 2, 1), call);
  if (range.step < 1) {
    throw InputError(call.op + ": found a step of " + std::to_string(range.step) +
                     "; valid: 1 or more");
  }
  range.start = within(call.integer_arg(first, 0));
  const std::int64_t end = within(std::min(call.integer_arg(first + 1, extent), kMost));
  if (end > range.start) range.count = (end - range.start + range.step - 1) / range.step;
  return range;
}

Diagonal Diagonal::of(const OpCall& call, int ndim, std::int64_t first, std::int64_t second) {
  Diagonal diagonal;
  diagonal.offset = bounded(call.integer_arg(0, 0), call);
  diagonal.first = dim_of(call, 1, first, ndim);
  diagonal.second = dim_of(call, 2, second, ndim);
  if (diagonal.first == diagonal.second) {
    throw InputError(call.op + ": found dim " + std::to_string(diagonal.first) +
                     " for both dims of the diagonal; valid: two different dims");
  }
  return diagonal;
}

std::int64_t Diagonal::length(std::int64_t rows, std::int64_t columns) const {
  return std::max<std::int64_t>(
      0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
}

int Diagonal::dim_without(int dim) const {
  if (dim == first || dim == second) return -1;
  return dim - (dim > first ? 1 : 0) - (dim > second ? 1 : 0);
}

Shape diagonal_shape(const Diagonal& diagonal, const Shape& shape) {
  Shape result;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (diagonal.dim_without(d) >= 0) result.push_back(shape[to_index(d)]);
  }
  result.push_back(
      diagonal.length(shape[to_index(diagonal.first)], shape[to_index(diagonal.second)]));
  return result;
}

Diagonal embedded_diagonal(const OpCall& call, int ndim) {
  if (ndim == 0 || ndim == kMaxTensorDims) {
    throw InputError(call.op + ": takes a tensor of 1 to " + std::to_string(kMaxTensorDims - 1) +
                     " dims");
  }
  return Diagonal::of(call, ndim + 1, -2, -1);
}

Shape embedded_shape(const Diagonal& diagonal, const Shape& shape) {
  const std::int64_t extent = shape.back() + std::abs(diagonal.offset);
  Shape result(shape.size() + 1, extent);
  for (int d = 0; d < static_cast<int>(result.size()); ++d) {
    const int own = diagonal.dim_without(d);
    if (own >= 0) result[to_index(d)] = shape[to_index(own)];
  }
  return result;
}

Shape diag_shape(const OpCall& call, const Shape& shape) {
  const Diagonal diagonal{.offset = bounded(call.integer_arg(0, 0), call)};
  if (shape.size() == 2) return {diagonal.length(shape[0], shape[1])};
  if (shape.size() == 1) return Shape(2, shape[0] + std::abs(diagonal.offset));
  throw InputError(call.op + ": takes a vector or a matrix, found a tensor of " +
                   std::to_string(shape.size()) + " dims");
}

RollShifts roll_shifts(const OpCall& call, const Shape& shape) {
  const std::vector<std::int64_t> shifts = required_integers(call, 0);
  const auto dims = call.integers_arg(1).value_or(std::vector<std::int64_t>());
  RollShifts roll;
  roll.flat = dims.empty();
  if (shifts.size() != (roll.flat ? 1 : dims.size())) {
    throw InputError(
        call.op + ": found " + std::to_string(shifts.size()) + " shifts for " +
        std::to_string(dims.size()) +
        " dims; valid: one shift for each dim, or a single shift where no dims are given");
  }
  roll.shift = shifts[0];
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int dim = normalize_dim(dims[i], static_cast<int>(shape.size()), call.op);
    if (shape.empty()) throw InputError(call.op + ": takes a tensor of at least one dim");
    roll.shifts.emplace_back(dim, shifts[i]);
  }
  return roll;
}

std::vector<Padding> paddings_of(const OpCall& call, const Shape& shape) {
  const std::vector<std::int64_t> pad = required_integers(call, 0);
  if (pad.size() % 2 != 0 || pad.size() > 2 * shape.size()) {
    throw InputError(call.op + ": found " + std::to_string(pad.size()) +
                     " paddings; valid: two for each padded dim, the last dim first, for at most " +
                     std::to_string(shape.size()) + " dims");
  }
  std::vector<Padding> paddings(shape.size());
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const std::size_t d = shape.size() - 1 - i;
    paddings[d] = {pad[2 * i], pad[2 * i + 1]};
    if (shape[d] + pad[2 * i] + pad[2 * i + 1] >= 0 && shape[d] + pad[2 * i] >= 0 &&
        shape[d] + pad[2 * i + 1] >= 0) {
      continue;
    }
    throw InputError(call.op + ": paddings " + std::to_string(pad[2 * i]) + " and " +
                     std::to_string(pad[2 * i + 1]) + " cut off more than the " +
                     std::to_string(shape[d]) + " elements of dim " + std::to_string(d));
  }
  return paddings;
}

IndexedDims IndexedDims::of(const OpCall& call, const Shape& self, std::span<const Shape> indices) {
  if (call.inputs.size() < 2 || !call.inputs[1].is_list) {
    throw InputError(call.op +
                     ": takes a tensor and a list of indices, such as \"[none; i64[4] R]\"");
  }
  const TensorArg& list = call.inputs[1];
  const std::size_t count = list.given.empty() ? list.tensors.size() : list.given.size();
  if (count > self.size() || indices.empty()) {
    throw InputError(call.op + ": found " + std::to_string(count) + " indices, of which " +
                     std::to_string(indices.size()) +
                     " are tensors; valid: at most one index for each of " +
                     std::to_string(self.size()) + " dims, and at least one tensor");
  }
  IndexedDims indexed;
  for (int d = 0; d < static_cast<int>(self.size()); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const bool given = i < count && (list.given.empty() || list.given[i]);
    (given ? indexed.dims : indexed.kept).push_back(d);
  }
  std::vector<TensorSpec> specs(indices.size());
  std::vector<const TensorSpec*> shown;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    specs[i].meta.shape = indices[i];
    shown.push_back(&specs[i]);
  }
  if (indexed.dims.size() != indices.size()) {
    throw InputError(call.op + ": found " + std::to_string(indices.size()) + " index tensors for " +
                     std::to_string(indexed.dims.size()) + " indexed dims; valid: one for each");
  }
  indexed.broadcast = broadcast_shape(shown, call.op);
  const bool adjacent = indexed.dims.back() - indexed.dims.front() + 1 == std::ssize(indexed.dims);
  indexed.insert = adjacent ? indexed.dims.front() : 0;
  if (indexed.kept.size() + indexed.broadcast.size() > kMaxTensorDims) {
    throw InputError(call.op + ": the result would have " +
                     std::to_string(indexed.kept.size() + indexed.broadcast.size()) +
                     " dims; valid: at most " + std::to_string(kMaxTensorDims));
  }
  for (const int d : indexed.kept) indexed.result.push_back(self[to_index(d)]);
  const auto before = static_cast<std::size_t>(std::count_if(
      indexed.kept.begin(), indexed.kept.end(), [&](int d) { return d < indexed.insert; }));
  indexed.result.insert(indexed.result.begin() + static_cast<std::ptrdiff_t>(before),
                        indexed.broadcast.begin(), indexed.broadcast.end());
  return indexed;
}

bool IndexedDims::is_indexed(int dim) const {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

int IndexedDims::result_dim(int dim) const {
  if (dim < insert) return dim;
  const auto before = std::count_if(dims.begin(), dims.end(), [&](int d) { return d < dim; });
  return dim + static_cast<int>(broadcast.size()) - static_cast<int>(before);
}

}  // namespace shardlab
