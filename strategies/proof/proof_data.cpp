#include "strategies/proof/proof_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "costmodel/base/index.h"
#include "sim/counter_hash.h"
#include "sim/fake_group.h"
#include "sim/partial_values.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

// A pseudo-random number for each index of a tensor.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] std::uint64_t operator()(std::size_t i) const {
    return counter_hash(seed_, static_cast<std::uint64_t>(i), 0x5eed);
  }
  // The numbers from 0 to size - 1 in random order, drawn from index `first` on.
  [[nodiscard]] Doubles shuffled(std::size_t size, std::size_t first) const {
    Doubles order(size);
    for (std::size_t i = 0; i < size; ++i) order[i] = static_cast<double>(i);
    for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[(*this)(first + i) % i]);
    return order;
  }

 private:
  std::uint64_t seed_;
};

// Distinct whole numbers around 0 (0, 1, -1, ...), in random order.
Doubles distinct_values(std::size_t count, const Draws& draws) {
  Doubles out = draws.shuffled(count, 0);
  const std::size_t middle = count / 2;
  for (double& x : out) x -= static_cast<double>(middle);
  return out;
}

// Numbers below the limit that differ along the last dim.
Doubles unique_values(std::size_t count, const Shape& shape, std::int64_t limit,
                      const Draws& draws) {
  Doubles out(count);
  const auto run = static_cast<std::size_t>(shape.empty() ? 1 : shape.back());
  for (std::size_t begin = 0; run > 0 && begin < count; begin += run) {
    const Doubles order = draws.shuffled(static_cast<std::size_t>(limit), begin);
    for (std::size_t i = 0; i < run; ++i) out[begin + i] = order[i % order.size()];
  }
  return out;
}

// A value of one of the kinds whose values are drawn independently of each other.
double value_of(std::uint64_t h, const SampleCall::Values& values, DType dtype) {
  if (values.kind == SampleValues::kBelow) {
    return static_cast<double>(h %
                               static_cast<std::uint64_t>(std::max<std::int64_t>(values.limit, 1)));
  }
  if (dtype == DType::kB8) return static_cast<double>(h & 1U);
  if (values.kind == SampleValues::kPositive || dtype == DType::kU8) {
    return static_cast<double>(h % 8) + 1.0;
  }
  if (values.kind == SampleValues::kUnit) return (static_cast<double>(h % 127) - 63.0) / 64.0;
  if (values.kind == SampleValues::kFew) return static_cast<double>(h % 3) - 1.0;
  if (is_floating_point(dtype)) {
    return (static_cast<double>(h % 24) + 1.0) * ((h >> 32U & 1U) != 0 ? 0.25 : -0.25);
  }
  return static_cast<double>(h % 13) - 6.0;
}

// The contribution of a rank that is not the holder. For max it lies below the value, and for min
// above it. For other reductions it is a part or factor of the value; the holder contributes the
// rest.
double drawn_contribution(ReduceOp op, DType dtype, bool few, double value, std::uint64_t h,
                          double& rest) {
  const bool truth = dtype == DType::kB8;
  const double unit = is_floating_point(dtype) && !few ? 0.25 : 1.0;
  const double size = (static_cast<double>(h % (few ? 2 : 27)) + 1.0) * unit;
  switch (op) {
    case ReduceOp::kMax:
      return truth ? std::min(value, static_cast<double>(h & 1U)) : value - size;
    case ReduceOp::kMin:
      return truth ? std::max(value, static_cast<double>(h & 1U)) : value + size;
    case ReduceOp::kProduct: {
      constexpr std::array<double, 4> kFactors = {2.0, -1.0, 0.5, -2.0};
      const double factor = is_floating_point(dtype) ? kFactors[h % 4] : (h & 1U) != 0 ? -1.0 : 1.0;
      rest /= factor;
      return factor;
    }
    default: {
      const double part = (h >> 32U & 1U) != 0 ? size : -size;
      rest -= part;
      return part;
    }
  }
}

// The contributions of each rank. For each element one rank, the holder, contributes what makes the
// reduction of all ranks come out exactly.
std::vector<Doubles> contributions_to(const Doubles& values, bool few, ReduceOp op, DType dtype,
                                      std::size_t ranks, std::uint64_t seed) {
  std::vector<Doubles> parts(ranks, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto hash = [&](std::size_t r) {
      return counter_hash(seed, static_cast<std::uint64_t>(i), 0xc0de + r);
    };
    const std::size_t holder = hash(ranks) % ranks;
    double rest = op == ReduceOp::kAvg ? values[i] * static_cast<double>(ranks) : values[i];
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r != holder) parts[r][i] = drawn_contribution(op, dtype, few, values[i], hash(r), rest);
    }
    const bool shares = op == ReduceOp::kSum || op == ReduceOp::kAvg || op == ReduceOp::kProduct;
    parts[holder][i] = shares ? rest : values[i];
  }
  return parts;
}

// Whether a tensor of this dtype, which holds integers, can hold the integer.
bool holds_integer(DType dtype, double value) {
  const int bits = 8 * itemsize(dtype);
  const bool is_unsigned = dtype == DType::kU8 || dtype == DType::kU64;
  const double end = std::ldexp(1.0, is_unsigned ? bits : bits - 1);
  return value >= (is_unsigned ? 0.0 : -end) && value < end && std::abs(value) <= 0x1p53;
}

// The target that the call ignores if `tensor` holds the targets of a loss that ignores one.
std::optional<double> ignored_target(const OpCall& call, std::size_t tensor) {
  const std::optional<OpSchema> schema = find_op_schema(call.op);
  if (!schema) return std::nullopt;
  std::size_t inputs = 0;
  std::size_t args = 0;
  std::optional<std::size_t> target;
  std::optional<std::size_t> ignored;
  for (const SchemaArgument& argument : schema->arguments) {
    if (argument.name == "target") target = inputs;
    if (argument.name == "ignore_index") ignored = args;
    ++(argument.is_tensor() ? inputs : args);
  }
  if (!target || !ignored || *target >= call.inputs.size()) return std::nullopt;
  if (call.inputs[*target].tensors.empty() || call.position(*target) != tensor) return std::nullopt;
  constexpr std::int64_t kDefault = -100;  // nll_loss's default for ignore_index
  return static_cast<double>(call.integer_arg(*ignored, kDefault));
}

HostTensor rows_taken(HostMemory& memory, HostTensor tensor, const RowLists& rows) {
  for (int d = 0; d < tensor.ndim(); ++d) {
    const auto& wanted = rows[to_index(d)];
    if (std::ssize(wanted) != tensor.extent(d)) tensor = select_rows(memory, tensor, d, wanted);
  }
  return tensor;
}

}  // namespace

Doubles draw_values(const TensorMeta& meta, const SampleCall::Values& values, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(elements_of(meta.shape));
  const Draws draws(seed);
  if (values.kind == SampleValues::kDistinct) return distinct_values(count, draws);
  if (values.kind == SampleValues::kUnique) {
    return unique_values(count, meta.shape, values.limit, draws);
  }
  Doubles out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value_of(draws(i), values, meta.dtype);
  return out;
}

void ignore_some_targets(const OpCall& call, std::size_t tensor, Doubles& values) {
  const TensorMeta& meta = call.tensors()[tensor]->meta;
  if (is_floating_point(meta.dtype) || values.size() < 2) return;
  const std::optional<double> ignored = ignored_target(call, tensor);
  if (!ignored || !holds_integer(meta.dtype, *ignored)) return;
  if (std::find(values.begin(), values.end(), *ignored) != values.end()) return;
  // The first half of every dim holds them all, and no two of them are neighbours.
  for_each_element(meta.shape, [&](const Shape& index, std::int64_t i) {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (2 * index[d] >= meta.shape[d] + meta.shape[d] % 2) return;
      sum += index[d];
    }
    if (sum % 2 == 0) values[to_index(i)] = *ignored;
  });
}

bool has_contributions(ReduceOp op, DType dtype) {
  return reduces(op, dtype) &&
         (dtype != DType::kB8 || op == ReduceOp::kMax || op == ReduceOp::kMin);
}

DistributedValues distribute(HostMemory& memory, const TensorMeta& meta, const Doubles& values,
                             bool few, const Placement& p, const DeviceMesh& mesh,
                             std::uint64_t seed) {
  DistributedValues result;
  const auto ranks = static_cast<std::size_t>(mesh.size());
  const Layout layout(Placements(1, p));
  for (std::size_t r = 0; r < ranks; ++r) {
    const Coordinate coordinate(1, static_cast<std::int64_t>(r));
    result.rows.push_back(rows_of(meta, layout, mesh, coordinate));
  }
  if (p.kind() == Placement::Kind::kPartial) {
    for (const Doubles& part :
         contributions_to(values, few, p.reduce_op(), meta.dtype, ranks, seed)) {
      result.locals.push_back(from_doubles(memory, meta.dtype, meta.shape, part));
    }
    return result;
  }
  const HostTensor whole = from_doubles(memory, meta.dtype, meta.shape, values)
                               .reshape(viewed_shape(meta.shape, layout.placements));
  for (const RowLists& rows : result.rows) {
    result.locals.push_back(rows_taken(memory, whole, rows));
  }
  return result;
}

}  // namespace shardlab
