#include "sim/partial_values.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// The value that an integer of this dtype holds after wrapping around.
std::int64_t wrap(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<std::int32_t>(value);
    case DType::kI16:
      return static_cast<std::int16_t>(value);
    case DType::kI8:
      return static_cast<std::int8_t>(value);
    case DType::kU8:
      return static_cast<std::uint8_t>(value);
    default:
      return value;
  }
}

double join(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}
}  // namespace

PartialDims::PartialDims(const Layout& layout, const DeviceMesh& mesh) {
  for (int m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_partial()) continue;
    placement = layout[m];
    dims.push_back(m);
    ranks *= mesh.size(m);
    if (layout[m].reduce_op() == ReduceOp::kAvg) averaged *= mesh.size(m);
  }
  // If sums and averages are mixed, the op is a sum, and `averaged` is the divisor of the averages.
  op = is_linear(placement.reduce_op()) ? ReduceOp::kSum : placement.reduce_op();
}

std::int64_t PartialDims::index_of(const Coordinate& coordinate, const DeviceMesh& mesh) const {
  std::int64_t index = 0;
  for (const int m : dims) index = index * mesh.size(m) + coordinate[to_index(m)];
  return index;
}

bool PartialDims::is_first_of_sums(const Coordinate& coordinate, const Layout& layout) const {
  return std::all_of(dims.begin(), dims.end(), [&](int m) {
    return layout[m].reduce_op() == ReduceOp::kAvg || coordinate[to_index(m)] == 0;
  });
}

Reduction::Reduction(const PartialDims& partial, const Layout& layout, const DeviceMesh& mesh,
                     DType dtype)
    : dtype_(dtype), values_(to_index(partial.ranks)) {
  for (const int m : partial.dims) folds_.push_back({layout[m], mesh.size(m)});
}

double Reduction::result() {
  auto count = std::ssize(values_);
  for (auto fold = folds_.rbegin(); fold != folds_.rend(); ++fold) {
    count /= fold->size;
    for (std::int64_t i = 0; i < count; ++i) {
      values_[to_index(i)] = folded(*fold, std::span(values_).subspan(to_index(i * fold->size)));
    }
  }
  return values_[0];
}

double Reduction::folded(const Fold& fold, std::span<const double> x) const {
  const auto n = to_index(fold.size);
  const double ranks = static_cast<double>(fold.size);
  if (fold.placement.kind() == Placement::Kind::kNormPartial) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) sum += std::pow(std::abs(x[i]), fold.placement.norm());
    return std::pow(sum, 1.0 / fold.placement.norm());
  }
  const ReduceOp op = fold.placement.reduce_op();
  double value = x[0];
  for (std::size_t i = 1; i < n; ++i) {
    value = is_floating_point(dtype_)
                ? join(op, value, x[i])
                : static_cast<double>(join_whole(op, static_cast<std::int64_t>(value),
                                                 static_cast<std::int64_t>(x[i])));
  }
  if (op != ReduceOp::kAvg) return value;
  return is_floating_point(dtype_) ? value / ranks : std::trunc(value / ranks);
}

std::int64_t Reduction::join_whole(ReduceOp op, std::int64_t a, std::int64_t b) const {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProduct:
      return wrap(dtype_, static_cast<std::int64_t>(ua * ub));
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return dtype_ == DType::kB8 ? (a | b) : wrap(dtype_, static_cast<std::int64_t>(ua + ub));
}

Contributions::Contributions(const PartialDims& partial, DType dtype, const DataOptions& data,
                             double unit)
    : partial_(partial), dtype_(dtype), data_(data), unit_(unit) {
  const double roundoff = is_floating_point(dtype) ? unit_roundoff(dtype) : 0.0;
  if (largest_sum(partial) * unit * roundoff <= 1.0) return;
  const double numbers =
      (1.0 / (unit * roundoff) - 3.0 * static_cast<double>(partial.averaged)) / 2.0;
  ranks_per_number_ = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(partial.ranks - 1) / std::max(1.0, std::floor(numbers))));
}

double Contributions::fill(std::uint64_t element, double value, std::span<double> out) const {
  const std::int64_t n = partial_.ranks;
  const std::uint64_t draw = counter_hash(data_.seed, element, 0xc0ffee);
  const auto holder = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(n));
  const bool floating = is_floating_point(dtype_);
  const auto whole = static_cast<std::int64_t>(value);
  if (partial_.is_norm()) {
    for (double& x : out) x = 0.0;
    out[to_index(holder)] = value;
    return 0.0;
  }
  double lost = 0.0;
  double sum = 0.0;
  std::int64_t bits = 0;
  for (std::int64_t p = 0; p < n; ++p) {
    const std::uint64_t h = counter_hash(data_.seed, element, static_cast<std::uint64_t>(p) + 1);
    const auto small =
        p % ranks_per_number_ == 0 ? static_cast<std::int64_t>(h % 3) - 1 : std::int64_t{0};
    double& x = out[to_index(p)];
    switch (partial_.op) {
      case ReduceOp::kMax:
      case ReduceOp::kMin: {
        const double away = data_.values == DataValues::kUniform && floating
                                ? static_cast<double>(h >> 12U) * 0x1p-52
                                : static_cast<double>(h % 3);
        x = partial_.op == ReduceOp::kMax ? value - away : value + away;
        if (p == holder || !fits(x)) x = value;
        break;
      }
      case ReduceOp::kProduct:
        x = p == holder ? value : 1.0;
        break;
      case ReduceOp::kBand:
        x = static_cast<double>(p == holder ? whole : whole | (small & 1));
        break;
      case ReduceOp::kBor:
        x = static_cast<double>(p == holder ? whole : whole & small);
        break;
      case ReduceOp::kBxor: {
        const std::int64_t mask = dtype_ == DType::kB8 ? 1 : 7;
        const std::int64_t flip = p + 1 < n ? static_cast<std::int64_t>(h) & mask : bits ^ whole;
        bits ^= flip;
        x = static_cast<double>(flip);
        break;
      }
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        if (dtype_ == DType::kB8) {  // a sum of b8 is "or"
          x = static_cast<double>(p == holder ? whole : whole & small & 1);
        } else if (itemsize(dtype_) == 1) {  // the sum of several contributions could overflow
          x = p == holder ? value : 0.0;
        } else if (p + 1 < n) {
          x = rounded(data_.values == DataValues::kUniform && floating
                          ? static_cast<double>(h >> 11U) * 0x1p-52 - 1.0
                          : static_cast<double>(small) * unit_);
        } else {
          const double rest = value * static_cast<double>(partial_.averaged) - sum;
          x = floating ? rounded(rest) : rest;
          lost = std::abs(x - rest) / static_cast<double>(partial_.averaged);
        }
        sum += x;
        break;
    }
  }
  return lost;
}

bool Contributions::fits(double x) const {
  if (dtype_ == DType::kU8) return x >= 0.0;
  if (dtype_ == DType::kB8) return x == 0.0 || x == 1.0;
  return true;
}

double Contributions::rounded(double x) const {
  switch (dtype_) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(x));
    case DType::kF16:
      return static_cast<double>(static_cast<Eigen::half>(x));
    case DType::kBF16:
      return static_cast<double>(static_cast<Eigen::bfloat16>(x));
    default:
      return x;
  }
}

}  // namespace shardlab
