#include "sim/tensor_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

template <class T>
constexpr bool kIsFloating = std::is_same_v<T, double> || std::is_same_v<T, float> ||
                             std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

template <class T>
using Array = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstArray = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

template <class T>
void combine_floating(ReduceOp op, T* out, const T* in, std::int64_t count) {
  Array<T> a(out, count);
  const ConstArray<T> b(in, count);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      a += b;
      return;
    case ReduceOp::kMax:
      a = a.max(b);
      return;
    case ReduceOp::kMin:
      a = a.min(b);
      return;
    case ReduceOp::kProduct:
      a *= b;
      return;
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      break;
  }
  SHARDLAB_CHECK(false, to_string(op), " of floating point numbers");
}

template <class T>
void combine_integers(ReduceOp op, T* out, const T* in, std::int64_t count) {
  using U = std::make_unsigned_t<T>;
  const auto each = [&](auto&& f) {
    for (std::int64_t i = 0; i < count; ++i) {
      // Integers are combined in an unsigned type of at least 32 bits. Signed overflow would be
      // undefined, and narrower unsigned types are promoted to signed ones.
      using Wide = std::common_type_t<U, std::uint32_t>;
      out[i] = static_cast<T>(static_cast<U>(
          f(static_cast<Wide>(static_cast<U>(out[i])), static_cast<Wide>(static_cast<U>(in[i])))));
    }
  };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return each([](auto a, auto b) { return a + b; });
    case ReduceOp::kProduct:
      return each([](auto a, auto b) { return a * b; });
    case ReduceOp::kBand:
      return each([](auto a, auto b) { return a & b; });
    case ReduceOp::kBor:
      return each([](auto a, auto b) { return a | b; });
    case ReduceOp::kBxor:
      return each([](auto a, auto b) { return a ^ b; });
    case ReduceOp::kMax:
      for (std::int64_t i = 0; i < count; ++i) out[i] = std::max(out[i], in[i]);
      return;
    case ReduceOp::kMin:
      for (std::int64_t i = 0; i < count; ++i) out[i] = std::min(out[i], in[i]);
      return;
  }
}

void combine_bools(ReduceOp op, Bool8* out, const Bool8* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned a = out[i].bit;
    const unsigned b = in[i].bit;
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMax:
      case ReduceOp::kBor:
        out[i].bit = static_cast<std::uint8_t>(a | b);
        break;
      case ReduceOp::kMin:
      case ReduceOp::kProduct:
      case ReduceOp::kBand:
        out[i].bit = static_cast<std::uint8_t>(a & b);
        break;
      case ReduceOp::kBxor:
        out[i].bit = static_cast<std::uint8_t>(a ^ b);
        break;
      case ReduceOp::kAvg:
        SHARDLAB_CHECK(false, "avg of b8");
    }
  }
}

template <class T>
void divide_by(T* values, std::int64_t count, double divisor) {
  if constexpr (std::is_same_v<T, Bool8>) {
    SHARDLAB_CHECK(false, "a division of b8");
  } else if constexpr (kIsFloating<T>) {
    Array<T> a(values, count);
    a /= static_cast<T>(divisor);
  } else {
    // The divisor is a number of ranks, so this loses nothing.
    const auto n = static_cast<std::int64_t>(divisor);
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(static_cast<std::int64_t>(values[i]) / n);
    }
  }
}

}  // namespace

// Copies a few bytes without a call if the size is a common one. When many ranks exchange the
// pieces of a tensor there are many short runs, and a call would cost more than the copy.
inline void copy_run(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    case 32:
      std::memcpy(to, from, 32);
      break;
    case 64:
      std::memcpy(to, from, 64);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

void copy_box(const HostTensor& from, const Shape& from_offset, HostTensor& to,
              const Shape& to_offset, const Shape& extents) {
  const int ndim = from.ndim();
  for (const std::int64_t extent : extents) {
    if (extent == 0) return;
  }
  const auto item = static_cast<std::size_t>(itemsize(from.dtype()));
  // The innermost dims that the box fills in both tensors make one run of bytes, together with the
  // next dim outside of them.
  int outer = ndim;
  std::size_t run = item;
  while (outer > 0) {
    --outer;
    run *= static_cast<std::size_t>(extents[to_index(outer)]);
    const bool whole = extents[to_index(outer)] == from.extent(outer) &&
                       extents[to_index(outer)] == to.extent(outer);
    if (!whole) break;
  }
  std::array<std::size_t, kMaxTensorDims> from_stride{};
  std::array<std::size_t, kMaxTensorDims> to_stride{};
  std::size_t from_step = item;
  std::size_t to_step = item;
  const std::byte* source = from.data();
  std::byte* target = to.writable();
  for (int d = ndim; d-- > 0;) {
    from_stride[to_index(d)] = from_step;
    to_stride[to_index(d)] = to_step;
    source += static_cast<std::size_t>(from_offset[to_index(d)]) * from_step;
    target += static_cast<std::size_t>(to_offset[to_index(d)]) * to_step;
    from_step *= static_cast<std::size_t>(from.extent(d));
    to_step *= static_cast<std::size_t>(to.extent(d));
  }
  std::array<std::int64_t, kMaxTensorDims> index{};
  while (true) {
    copy_run(target, source, run);
    int d = outer;
    while (d > 0) {
      --d;
      source += from_stride[to_index(d)];
      target += to_stride[to_index(d)];
      if (++index[to_index(d)] < extents[to_index(d)]) break;
      source -= from_stride[to_index(d)] * static_cast<std::size_t>(extents[to_index(d)]);
      target -= to_stride[to_index(d)] * static_cast<std::size_t>(extents[to_index(d)]);
      index[to_index(d)] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

HostTensor narrow(HostMemory& memory, const HostTensor& tensor, int dim, std::int64_t begin,
                  std::int64_t count) {
  if (dim == 0) return tensor.narrow_rows(begin, count);
  if (begin == 0 && count == tensor.extent(dim)) return tensor;
  Shape shape = tensor.shape();
  shape[to_index(dim)] = count;
  HostTensor part = HostTensor::make(memory, tensor.dtype(), shape);
  Shape offset(shape.size(), 0);
  const Shape origin(shape.size(), 0);
  offset[to_index(dim)] = begin;
  copy_box(tensor, offset, part, origin, shape);
  return part;
}

HostTensor select_rows(HostMemory& memory, const HostTensor& tensor, int dim,
                       std::span<const std::int64_t> rows) {
  Shape shape = tensor.shape();
  shape[to_index(dim)] = std::ssize(rows);
  HostTensor part = HostTensor::make(memory, tensor.dtype(), shape);
  Shape from(shape.size(), 0);
  Shape to(shape.size(), 0);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    from[to_index(dim)] = rows[i];
    to[to_index(dim)] = static_cast<std::int64_t>(i);
    shape[to_index(dim)] = static_cast<std::int64_t>(end - i);
    copy_box(tensor, from, part, to, shape);
    i = end;
  }
  return part;
}

void put_rows(const HostTensor& from, HostTensor& to, int dim, std::span<const std::int64_t> rows) {
  Shape box = from.shape();
  Shape source(box.size(), 0);
  Shape target(box.size(), 0);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    source[to_index(dim)] = static_cast<std::int64_t>(i);
    target[to_index(dim)] = rows[i];
    box[to_index(dim)] = static_cast<std::int64_t>(end - i);
    copy_box(from, source, to, target, box);
    i = end;
  }
}

HostTensor copy_of(HostMemory& memory, const HostTensor& tensor) {
  HostTensor copy = HostTensor::make(memory, tensor.dtype(), tensor.shape());
  std::memcpy(copy.writable(), tensor.data(), static_cast<std::size_t>(tensor.bytes()));
  return copy;
}

HostTensor power_of(HostMemory& memory, const HostTensor& tensor, double exponent) {
  HostTensor out = copy_of(memory, tensor);
  power(out.dtype(), out.writable(), out.elements(), exponent);
  return out;
}

HostTensor zeros(HostMemory& memory, DType dtype, const Shape& shape) {
  HostTensor tensor = HostTensor::make(memory, dtype, shape);
  std::memset(tensor.writable(), 0, static_cast<std::size_t>(tensor.bytes()));
  return tensor;
}

HostTensor zeros_where(HostMemory& memory, const HostTensor& tensor, const HostTensor& mask) {
  HostTensor out = copy_of(memory, tensor);
  const std::int64_t rows = mask.elements();
  if (rows == 0) return out;
  SHARDLAB_CHECK(tensor.elements() % rows == 0, tensor.elements(), " elements in ", rows, " rows");
  const std::int64_t row_bytes = tensor.bytes() / rows;
  std::byte* bytes = out.writable();
  for (std::int64_t i = 0; i < rows; ++i) {
    if (mask.as<Bool8>()[i].bit == 0) continue;
    std::memset(bytes + i * row_bytes, 0, static_cast<std::size_t>(row_bytes));
  }
  return out;
}

void combine(ReduceOp op, DType dtype, std::byte* out, const std::byte* in, std::int64_t count) {
  with_element(dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    T* a = reinterpret_cast<T*>(out);
    const T* b = reinterpret_cast<const T*>(in);
    if constexpr (std::is_same_v<T, Bool8>) {
      combine_bools(op, a, b, count);
    } else if constexpr (kIsFloating<T>) {
      combine_floating(op, a, b, count);
    } else {
      combine_integers(op, a, b, count);
    }
  });
}

void scale_contribution(ReduceOp op, DType dtype, std::byte* values, std::int64_t count,
                        std::int64_t ranks, bool divide_last) {
  if (op != ReduceOp::kAvg || divide_last || !is_floating_point(dtype)) return;
  with_element(dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    if constexpr (kIsFloating<T>) {
      Array<T> a(reinterpret_cast<T*>(values), count);
      a *= static_cast<T>(1.0 / static_cast<double>(ranks));
    }
  });
}

void finish_reduction(ReduceOp op, DType dtype, std::byte* values, std::int64_t count,
                      std::int64_t ranks, bool divide_last) {
  if (op != ReduceOp::kAvg || (!divide_last && is_floating_point(dtype))) return;
  divide(dtype, values, count, static_cast<double>(ranks));
}

void divide(DType dtype, std::byte* values, std::int64_t count, double divisor) {
  with_element(dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    divide_by(reinterpret_cast<T*>(values), count, divisor);
  });
}

void power(DType dtype, std::byte* values, std::int64_t count, double exponent) {
  with_element(dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    if constexpr (kIsFloating<T>) {
      T* x = reinterpret_cast<T*>(values);
      for (std::int64_t i = 0; i < count; ++i) {
        x[i] = static_cast<T>(std::pow(std::abs(static_cast<double>(x[i])), exponent));
      }
    } else {
      SHARDLAB_CHECK(false, "a power of integers");
    }
  });
}

void matrix_product(const double* a, const double* b, double* out, std::int64_t rows,
                    std::int64_t inner, std::int64_t columns) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(out, rows, columns).noalias() =
      Eigen::Map<const Matrix>(a, rows, inner) * Eigen::Map<const Matrix>(b, inner, columns);
}

namespace {

template <class T>
double to_double(const T& value) {
  if constexpr (std::is_same_v<T, Bool8>) {
    return value.bit;
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
void set(T& target, double value) {
  if constexpr (std::is_same_v<T, Bool8>) {
    target.bit = value != 0.0 ? 1 : 0;
  } else if constexpr (kIsFloating<T>) {
    target = static_cast<T>(value);
  } else {
    // Wraps around, like combine(). The value is exact for whole numbers below 2^53.
    target = static_cast<T>(static_cast<std::int64_t>(value));
  }
}

}  // namespace

double element_as_double(const HostTensor& tensor, std::int64_t index) {
  return with_element(tensor.dtype(), [&](auto element) -> double {
    return to_double(tensor.as<typename decltype(element)::Type>()[index]);
  });
}

void set_element(HostTensor& tensor, std::int64_t index, double value) {
  with_element(tensor.dtype(), [&](auto element) {
    set(reinterpret_cast<typename decltype(element)::Type*>(tensor.writable())[index], value);
  });
}

std::vector<double> elements_as_doubles(const HostTensor& tensor) {
  std::vector<double> values(to_index(tensor.elements()));
  with_element(tensor.dtype(), [&](auto element) {
    const auto* const from = tensor.as<typename decltype(element)::Type>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_double(from[i]);
  });
  return values;
}

void set_elements(HostTensor& tensor, std::span<const double> values) {
  if (values.empty()) return;
  with_element(tensor.dtype(), [&](auto element) {
    auto* const to = reinterpret_cast<typename decltype(element)::Type*>(tensor.writable());
    for (std::size_t i = 0; i < values.size(); ++i) set(to[i], values[i]);
  });
}

}  // namespace shardlab
