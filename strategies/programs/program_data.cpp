#include "strategies/programs/program_data.h"

#include <algorithm>

#include "sim/counter_hash.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/wide_program.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace {

constexpr double kPart = 0.25;
constexpr std::uint64_t kMost = 3;
// The limit for indices if no op sets a lower one.
constexpr std::int64_t kMostWhole = 100;

// How many rows an op can look up by the indices in its argument `argument`: for an embedding or
// its gradient, the number of rows of the table; for other ops, the least extent of any of their
// other tensors.
std::int64_t rows_to_look_up(const Program& program, const ProgramNode& reader,
                             std::size_t argument) {
  const std::vector<ValueRef> values = values_read(reader);
  const auto shape_of = [&](const ValueRef& value) -> const Shape& {
    return program.nodes[value.node].outputs[value.output].shape;
  };
  if (reader.op == "aten.embedding.default" && argument == 1) return shape_of(values[0]).at(0);
  if (reader.op == "aten.embedding_dense_backward.default" && argument == 1 &&
      !reader.args.empty() && reader.args[0].is_number_integer()) {
    return reader.args[0].get<std::int64_t>();
  }
  std::int64_t least = kMostWhole;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const std::int64_t extent : shape_of(values[i])) {
      if (i != argument) least = std::min(least, extent);
    }
  }
  return least;
}

// The least number of rows that an op can look up by the values of the source. The values are
// followed through copies and views, which do not change them.
std::int64_t index_limit(const Program& program, std::size_t source) {
  std::vector<bool> carries(program.nodes.size(), false);
  carries[source] = true;
  std::int64_t limit = kMostWhole;
  for (std::size_t n = source + 1; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const std::vector<ValueRef> values = values_read(node);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!carries[values[i].node]) continue;
      if (values.size() == 1 && node.outputs.size() == 1) {
        carries[n] = true;
      } else {
        limit = std::min(limit, rows_to_look_up(program, node, i));
      }
    }
  }
  return std::max<std::int64_t>(limit, 1);
}

}  // namespace

HostTensor source_value(HostMemory& memory, const Program& program, std::size_t node,
                        const DataOptions& data) {
  const TensorMeta meta = wide_meta(program.nodes[node].outputs[0]);
  const std::uint64_t seed = counter_hash(data.seed, node, 2);
  const double elements = meta.bytes() / static_cast<double>(itemsize(meta.dtype));
  expect_room("node " + program.nodes[node].name, static_cast<std::int64_t>(elements), memory);
  std::vector<double> values(static_cast<std::size_t>(elements));
  if (is_floating_point(meta.dtype)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t hash = counter_hash(seed, i, 0);
      const bool whole = data.values == DataValues::kWholeNumbers;
      values[i] = whole ? kPart * (static_cast<double>(hash % (2 * kMost + 1)) - kMost)
                        : static_cast<double>(hash >> 11U) * 0x1p-52 - 1.0;
    }
    return from_doubles(memory, meta.dtype, meta.shape, values);
  }
  const std::int64_t limit = meta.dtype == DType::kB8 ? 2 : index_limit(program, node);
  const bool counts = program.nodes[node].kind == NodeKind::kBuffer && meta.dtype != DType::kB8;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t number = counts ? i : counter_hash(seed, i, 0);
    values[i] = static_cast<double>(number % static_cast<std::uint64_t>(limit));
  }
  return from_doubles(memory, meta.dtype, meta.shape, values);
}

}  // namespace shardlab
