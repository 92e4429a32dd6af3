// Kernels that look up and write by index: gather, scatter, index, embedding. Where a rank has only
// some of the rows that indices name, a lookup finds those and masks the rest. If several writes go
// to one element, the last one counts. Semantics: PyTorch 2.13.0, torch.<op>.
#include "costmodel/base/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace index_kernels {

// The numbers in an index tensor, unchecked.
std::vector<std::int64_t> indices_in(const LocalCall& local, const HostTensor& index) {
  if (is_floating_point(index.dtype()) || index.dtype() == DType::kB8) {
    throw InputError(local.call.op + ": found indices " + tensor_text(index) +
                     "; valid: a tensor of integers");
  }
  std::vector<std::int64_t> indices;
  for (const double value : as_doubles(index)) indices.push_back(static_cast<std::int64_t>(value));
  return indices;
}

[[noreturn]] void refuse_index(std::string_view op, std::int64_t index, std::int64_t extent) {
  throw InputError(std::string(op) + ": found index " + std::to_string(index) + "; valid: " +
                   (extent > 0 ? "0 to " + std::to_string(extent - 1)
                               : std::string("none, because the dim has no rows")));
}

std::int64_t row_in(const LocalCall& local, std::int64_t index, std::int64_t extent,
                    bool from_end = false) {
  if (index >= 0 && index < extent) return index;
  if (from_end) return index_in(index, extent, local.call.op);
  refuse_index(local.call.op, index, extent);
}

// Finds the rows of one dim that a rank has of its first tensor, by their global index.
class RowsHere {
 public:
  RowsHere(const LocalCall& local, int dim) : op_(local.call.op) {
    const std::int64_t total = local.call.tensors()[0]->meta.shape[to_index(dim)];
    const std::int64_t here = local.inputs[0].extent(dim);
    expect_room(op_, total, local.memory);
    local_index_.assign(to_index(total), -1);
    for (std::int64_t i = 0; i < here; ++i) {
      const std::int64_t row =
          local.input_rows.empty() ? i : local.input_rows[0][to_index(dim)].at(to_index(i));
      if (row < total) local_index_[to_index(row)] = i;
    }
  }
  // The local index of a row, or -1 where another rank has it. Throws InputError for a row that no
  // rank has.
  [[nodiscard]] std::int64_t operator[](std::int64_t row) const {
    if (row < 0 || row >= std::ssize(local_index_)) {
      refuse_index(op_, row, std::ssize(local_index_));
    }
    return local_index_[to_index(row)];
  }

 private:
  std::string_view op_;
  std::vector<std::int64_t> local_index_;
};

// embedding(weight [V, ...], indices): rows of the weight. Where the rows are sharded, each rank
// looks up those that it has. A lookup of any other row returns row 0 and is masked, as in
// DTensor's mask partial.
LocalResult run_embedding(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& weight = local.inputs[0];
  const HostTensor& indices = local.inputs[1];
  if (weight.ndim() < 1 || weight.ndim() + indices.ndim() > kMaxTensorDims) {
    throw InputError(local.call.op + ": found a weight " + tensor_text(weight) + " and indices " +
                     tensor_text(indices) +
                     "; valid: a weight of at least one dim, and a result of at most " +
                     std::to_string(kMaxTensorDims) + " dims");
  }
  const RowsHere here(local, 0);
  HostTensor mask = HostTensor::make(local.memory, DType::kB8, indices.shape());
  std::vector<std::int64_t> rows;
  const std::vector<std::int64_t> wanted = indices_in(local, indices);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t found = here[wanted[i]];
    set_element(mask, static_cast<std::int64_t>(i), found >= 0 ? 0.0 : 1.0);
    rows.push_back(std::max<std::int64_t>(found, 0));
  }
  Shape shape = indices.shape();
  shape.insert(shape.end(), weight.shape().begin() + 1, weight.shape().end());
  HostTensor out = weight.extent(0) == 0
                       ? zeros(local.memory, weight.dtype(), shape)
                       : select_rows(local.memory, weight, 0, rows).reshape(shape);
  return {{std::move(out)}, mask};
}

// embedding_dense_backward(grad, indices, rows, padding_idx, scale_grad_by_freq): gradients add up
// in the rows that were looked up. Scaled gradients are divided by how often their row was looked
// up.
LocalResult run_embedding_backward(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& grad = local.inputs[0];
  Shape leading = grad.shape();
  if (!leading.empty()) leading.pop_back();
  if (grad.ndim() == 0 || leading != local.inputs[1].shape()) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(grad) + " and indices " +
                     tensor_text(local.inputs[1]) +
                     "; valid: a gradient that has the dims of the indices and one more");
  }
  const std::int64_t rows = local.call.integer_arg(0, 0);
  if (rows < 0) {
    throw InputError(local.call.op + ": argument 0 of --args: found " + std::to_string(rows) +
                     "; valid: the number of the weight's rows");
  }
  const std::int64_t padding = local.call.integer_arg(1, -1);
  const std::vector<std::int64_t> indices = indices_in(local, local.inputs[1]);
  const std::vector<double> values = as_doubles(grad);
  const std::int64_t columns = grad.shape().back();
  std::vector<double> out = filled(local, {rows, columns});
  std::vector<double> lookups = filled(local, {rows});
  for (const std::int64_t index : indices) lookups[to_index(row_in(local, index, rows))] += 1.0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == padding) continue;
    const double scale = local.call.boolean_arg(2, false) ? lookups[to_index(indices[i])] : 1.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      out[to_index(indices[i] * columns + c)] +=
          values[i * to_index(columns) + to_index(c)] / scale;
    }
  }
  return {{from_doubles(local.memory, grad.dtype(), {rows, columns}, out)}, {}};
}

// gather(self, dim, index): each element of the result is the element of self in the row that the
// index names there.
LocalResult run_gather(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& self = local.inputs[0];
  const HostTensor& index = local.inputs[1];
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  bool fits = index.ndim() == self.ndim();
  for (int d = 0; fits && d < self.ndim(); ++d) {
    fits = d == dim || index.extent(d) <= self.extent(d);
  }
  if (!fits) {
    throw InputError(
        local.call.op + ": found an index " + tensor_text(index) + " of " + tensor_text(self) +
        "; valid: as many dims, and no larger extents outside dim " + std::to_string(dim));
  }
  const RowsHere here(local, dim);
  const std::vector<std::int64_t> wanted = indices_in(local, index);
  const std::vector<double> values = as_doubles(self);
  const Shape strides = row_major_strides(self.shape());
  HostTensor mask = HostTensor::make(local.memory, DType::kB8, index.shape());
  std::vector<double> out = filled(local, index.shape());
  for_each_element(index.shape(), [&](Shape source, std::int64_t i) {
    const std::int64_t found = here[wanted[to_index(i)]];
    set_element(mask, i, found >= 0 ? 0.0 : 1.0);
    source[to_index(dim)] = std::max<std::int64_t>(found, 0);
    if (self.elements() > 0) out[to_index(i)] = values[to_index(flat_index(source, strides))];
  });
  return {{from_doubles(local.memory, self.dtype(), index.shape(), out)}, mask};
}

// Arguments: scatter and scatter_add(self, dim, index, source or value).
template <bool kAdds>
LocalResult run_scatter(const LocalCall& local, const OpKernel&) {
  const bool has_source = local.call.op.find(".value") == std::string::npos;
  expect_operands(local, has_source ? 3 : 2);
  const HostTensor& self = local.inputs[0];
  const HostTensor& index = local.inputs[1];
  const HostTensor* source = has_source ? &local.inputs[2] : nullptr;
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  bool fits = index.ndim() == self.ndim() && (!has_source || source->ndim() == self.ndim());
  for (int d = 0; fits && d < self.ndim(); ++d) {
    fits = (d == dim || index.extent(d) <= self.extent(d)) &&
           (!has_source || index.extent(d) <= source->extent(d));
  }
  if (!fits) {
    throw InputError(local.call.op + ": found an index " + tensor_text(index) + " of " +
                     tensor_text(self) +
                     (has_source ? " and of a source " + tensor_text(*source) : "") +
                     "; valid: as many dims, and no larger extents than the tensor's outside dim " +
                     std::to_string(dim) + (has_source ? " or the source's in any dim" : ""));
  }
  if (has_source) expect_same_dtype(local, self, *source);
  const std::vector<std::int64_t> wanted = indices_in(local, index);
  std::vector<double> out = as_doubles(self);
  const std::vector<double> values = has_source ? as_doubles(*source) : std::vector<double>();
  const double value = has_source ? 0.0 : local.call.number_arg(1, 0.0);
  const Shape strides = row_major_strides(self.shape());
  const Shape source_strides = has_source ? row_major_strides(source->shape()) : Shape();
  for_each_element(index.shape(), [&](Shape element, std::int64_t i) {
    const double x = has_source ? values[to_index(flat_index(element, source_strides))] : value;
    element[to_index(dim)] = row_in(local, wanted[to_index(i)], self.extent(dim));
    double& target = out[to_index(flat_index(element, strides))];
    target = kAdds ? target + x : x;
  });
  return {{from_doubles(local.memory, self.dtype(), self.shape(), out)}, {}};
}

// The rows of dim `dim` of the first tensor that an index of at most one dim names.
std::vector<std::int64_t> rows_named(const LocalCall& local, int dim, bool from_end) {
  if (local.inputs[1].ndim() > 1) {
    throw InputError(local.call.op + ": found an index " + tensor_text(local.inputs[1]) +
                     "; valid: an index of at most one dim");
  }
  std::vector<std::int64_t> rows = indices_in(local, local.inputs[1]);
  for (std::int64_t& row : rows) {
    row = row_in(local, row, local.inputs[0].extent(dim), from_end);
  }
  return rows;
}

LocalResult run_index_select(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& self = local.inputs[0];
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  return {{select_rows(local.memory, self, dim, rows_named(local, dim, false))}, {}};
}

// index_fill(self, dim, index, value): the value is a number or a tensor without dims.
LocalResult run_index_fill(const LocalCall& local, const OpKernel&) {
  const bool with_tensor = local.call.op.find("int_Tensor") != std::string::npos;
  expect_operands(local, with_tensor ? 3 : 2);
  const HostTensor& self = local.inputs[0];
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  if (with_tensor && local.inputs[2].ndim() != 0) {
    throw InputError(local.call.op + ": found a value " + tensor_text(local.inputs[2]) +
                     "; valid: a tensor without dims");
  }
  const double value =
      with_tensor ? element_as_double(local.inputs[2], 0) : local.call.number_arg(1, 0.0);
  std::vector<bool> filled_rows(to_index(self.extent(dim)), false);
  for (const std::int64_t row : rows_named(local, dim, true)) filled_rows[to_index(row)] = true;
  std::vector<double> out = as_doubles(self);
  for_each_element(self.shape(), [&](const Shape& index, std::int64_t i) {
    if (filled_rows[to_index(index[to_index(dim)])]) out[to_index(i)] = value;
  });
  return {{from_doubles(local.memory, self.dtype(), self.shape(), out)}, {}};
}

// Arguments: index_reduce(self, dim, index, source, reduce, include_self).
LocalResult run_index_reduce(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 3);
  const HostTensor& self = local.inputs[0];
  const HostTensor& source = local.inputs[2];
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  const std::vector<std::int64_t> rows = rows_named(local, dim, false);
  Shape wanted = self.shape();
  wanted[to_index(dim)] = std::ssize(rows);
  if (source.shape() != wanted) {
    throw InputError(local.call.op + ": found a source " + tensor_text(source) + "; valid: " +
                     tensor_text(source.dtype(), wanted) + ", with a row for each index");
  }
  expect_same_dtype(local, self, source);
  const std::string name = local.call.text_arg(1, "");
  const bool mean = name == "mean";
  if (!is_floating_point(self.dtype())) {
    throw InputError(local.call.op + ": found " + tensor_text(self) +
                     "; valid: a floating point tensor");
  }
  if (!mean && name != "prod" && name != "amax" && name != "amin") {
    throw InputError(local.call.op + ": found the reduction \"" + name +
                     "\"; valid: prod, mean, amax, amin");
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double none = name == "prod"   ? 1.0
                      : name == "mean" ? 0.0
                      : name == "amax" ? -kInfinity
                                       : kInfinity;
  const bool with_self = local.call.boolean_arg(2, true);
  std::vector<double> terms =
      filled(local, {self.extent(dim)}, 0.0);  // by row: the number of terms, not counting self
  for (const std::int64_t row : rows) terms[to_index(row)] += 1.0;
  std::vector<double> out = as_doubles(self);
  for_each_element(self.shape(), [&](const Shape& index, std::int64_t i) {
    if (!with_self && terms[to_index(index[to_index(dim)])] > 0) out[to_index(i)] = none;
  });
  const std::vector<double> values = as_doubles(source);
  const Shape strides = row_major_strides(self.shape());
  for_each_element(source.shape(), [&](Shape element, std::int64_t i) {
    element[to_index(dim)] = rows[to_index(element[to_index(dim)])];
    double& target = out[to_index(flat_index(element, strides))];
    const double x = values[to_index(i)];
    const double least = std::isnan(x) || std::isnan(target) ? x + target : std::min(x, target);
    const double most = std::isnan(x) || std::isnan(target) ? x + target : std::max(x, target);
    target = name == "prod" ? target * x : mean ? target + x : name == "amax" ? most : least;
  });
  for_each_element(self.shape(), [&](const Shape& index, std::int64_t i) {
    const double count = terms[to_index(index[to_index(dim)])];
    if (mean && count > 0) out[to_index(i)] /= count + (with_self ? 1.0 : 0.0);
  });
  return {{from_doubles(local.memory, self.dtype(), self.shape(), out)}, {}};
}

// What the index tensors of index and index_put name: an element of self for each element of the
// result.
class Indexed {
 public:
  explicit Indexed(const LocalCall& local) : self_(local.inputs[0]) {
    const std::size_t first = local.call.position(1);
    const std::size_t count =
        local.call.inputs.size() > 1 ? local.call.inputs[1].tensors.size() : 0;
    if (first + count > local.inputs.size()) {
      throw InputError(local.call.op + ": takes a tensor and a list of indices");
    }
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < count; ++i) {
      const HostTensor& index = local.inputs[first + i];
      shapes.push_back(index.shape());
      rows_.push_back(indices_in(local, index));
    }
    dims_ = IndexedDims::of(local.call, self_.shape(), shapes);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t extent = self_.extent(dims_.dims[i]);
      for (std::int64_t& row : rows_[i]) row = row_in(local, row, extent, true);
      strides_.push_back(broadcast_strides(shapes[i], dims_.broadcast.size()));
    }
  }

  [[nodiscard]] const Shape& shape() const { return dims_.result; }
  // The flat index in self of an element of the result.
  [[nodiscard]] std::int64_t source_of(const Shape& index, const Shape& self_strides) const {
    std::int64_t source = 0;
    for (const int d : dims_.kept) {
      source += index[to_index(dims_.result_dim(d))] * self_strides[to_index(d)];
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::int64_t element = 0;
      for (std::size_t b = 0; b < dims_.broadcast.size(); ++b) {
        element += index[to_index(dims_.insert) + b] * strides_[i][b];
      }
      source += rows_[i][to_index(element)] * self_strides[to_index(dims_.dims[i])];
    }
    return source;
  }

 private:
  const HostTensor& self_;
  std::vector<std::vector<std::int64_t>> rows_;
  std::vector<Shape> strides_;
  IndexedDims dims_;
};

LocalResult run_index(const LocalCall& local, const OpKernel&) {
  if (local.inputs.size() < 2) throw InputError(local.call.op + ": takes a tensor and indices");
  const HostTensor& self = local.inputs[0];
  const Indexed indexed(local);
  const Shape strides = row_major_strides(self.shape());
  const std::vector<double> values = as_doubles(self);
  std::vector<double> out = filled(local, indexed.shape());
  for_each_element(indexed.shape(), [&](const Shape& index, std::int64_t i) {
    out[to_index(i)] = values[to_index(indexed.source_of(index, strides))];
  });
  return {{from_doubles(local.memory, self.dtype(), indexed.shape(), out)}, {}};
}

// Arguments: index_put(self, indices, values, accumulate).
LocalResult run_index_put(const LocalCall& local, const OpKernel&) {
  const HostTensor* given = local.tensor(2);
  if (local.inputs.size() < 3 || given == nullptr) {
    throw InputError(local.call.op + ": takes a tensor, indices and values");
  }
  const HostTensor& self = local.inputs[0];
  expect_same_dtype(local, self, *given);
  const Indexed indexed(local);
  const Shape& shape = indexed.shape();
  bool fits = given->shape().size() <= shape.size();
  for (std::size_t d = 0; fits && d < given->shape().size(); ++d) {
    const std::int64_t extent = shape[shape.size() - given->shape().size() + d];
    fits = given->shape()[d] == 1 || given->shape()[d] == extent;
  }
  if (!fits) {
    throw InputError(local.call.op + ": found values " + tensor_text(*given) +
                     "; valid: a tensor that broadcasts to " + tensor_text(given->dtype(), shape) +
                     ", the elements that the indices name");
  }
  const Shape strides = row_major_strides(self.shape());
  const Shape value_strides = broadcast_strides(given->shape(), shape.size());
  const bool adds = local.call.boolean_arg(0, false);
  const std::vector<double> values = as_doubles(*given);
  std::vector<double> out = as_doubles(self);
  for_each_element(shape, [&](const Shape& index, std::int64_t) {
    double& target = out[to_index(indexed.source_of(index, strides))];
    const double x = values[to_index(flat_index(index, value_strides))];
    target = adds ? target + x : x;
  });
  return {{from_doubles(local.memory, self.dtype(), self.shape(), out)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_index_put_impl", .run = run_index_put},
    {.name = "embedding", .run = run_embedding},
    {.name = "embedding_dense_backward", .run = run_embedding_backward},
    {.name = "gather", .run = run_gather},
    {.name = "index", .run = run_index},
    {.name = "index_fill", .run = run_index_fill},
    {.name = "index_put", .run = run_index_put},
    {.name = "index_reduce", .run = run_index_reduce},
    {.name = "index_select", .run = run_index_select},
    {.name = "scatter", .run = run_scatter<false>},
    {.name = "scatter_add", .run = run_scatter<true>},
};

}  // namespace index_kernels

OP_KERNELS(index){index_kernels::kKernels};

}  // namespace shardlab
