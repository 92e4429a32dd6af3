#include "runner/evaluation/nccl_table.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "costmodel/base/error.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

// NCCL prints its table with one decimal.
bool prints_the_same(double value, double printed) {
  constexpr double kHalfADigit = 0.05;
  constexpr double kRounding = 1e-6;
  return std::abs(value - printed) <= kHalfADigit * (1 + kRounding);
}

GroupSpan span_of(const NcclTable& table, const Topology& topology) {
  const std::int64_t per_host = std::max<std::int64_t>(table.ranks / table.hosts, 1);
  return {.ranks = table.ranks,
          .hosts = table.hosts,
          .domains = table.hosts,
          .ranks_per_host = per_host,
          .extent = (table.hosts - 1) * topology.devices_per_host() + per_host,
          .walk = table.ranks};
}

}  // namespace

bool NcclCellCheck::same_latency() const {
  return latency_us && prints_the_same(*latency_us, cell.latency_us);
}

bool NcclCellCheck::same_bandwidth() const {
  return gb_per_s && prints_the_same(*gb_per_s, cell.gb_per_s);
}

NcclTableCheck check_nccl_table(const Stack& stack, const Topology& topology,
                                const NcclTable& table) {
  SHARDLAB_CHECK(table.ranks > 0 && table.hosts > 0, "a table of no ranks");
  const std::unique_ptr<CostModel> model = make_collective_model(stack.collective_model, topology);
  const GroupSpan group = span_of(table, topology);
  // The table leaves out the factors by which NCCL corrects trees and rings at some sizes. At these
  // two sizes the factors are 1.
  constexpr double kSmall = 1.0;
  constexpr double kLarge = 64.0 * (std::int64_t{1} << 30);
  const auto price_of = [&](const NcclTableCell& cell, double bytes) -> std::optional<Price> {
    for (const Alternative& each : model->alternatives({cell.collective, bytes, group})) {
      if (each.algorithm == to_string(cell.algorithm) &&
          each.protocol == to_string(cell.protocol)) {
        return each.price;
      }
    }
    return std::nullopt;
  };
  if (model->alternatives({Collective::kAllReduce, kSmall, group}).empty()) {
    throw InputError(
        "stack " + stack.name + ": its collectives (" +
        std::string(stack.collective_model.entry->name) +
        ") do not choose among NCCL's algorithms; valid: a stack whose collective_model is nccl");
  }
  NcclTableCheck out;
  out.ranks = table.ranks;
  out.hosts = table.hosts;
  for (const NcclTableCell& cell : table.cells) {
    if (cell.gb_per_s == 0.0) continue;
    NcclCellCheck check;
    check.cell = cell;
    const std::optional<Price> small = price_of(cell, kSmall);
    const std::optional<Price> large = price_of(cell, kLarge);
    if (small && large) {
      constexpr double kBytesPerUs = 1e3;  // bytes per microsecond in one GB/s
      check.latency_us = small->latency.value();
      check.gb_per_s = kLarge / (large->transfer.value() * kBytesPerUs);
    }
    out.compared += check.is_compared() ? 1 : 0;
    out.same_latencies += check.is_compared() && check.same_latency() ? 1 : 0;
    out.same_bandwidths += check.is_compared() && check.same_bandwidth() ? 1 : 0;
    out.cells.push_back(check);
  }
  return out;
}

}  // namespace shardlab
