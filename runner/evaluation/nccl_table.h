// Compares the table of latencies and bandwidths in NCCL's log with the figures that a stack's
// model of NCCL's algorithms uses.
//
//   NcclTableCheck check = check_nccl_table(stack, topology, read_nccl_tables(text).front());
//   check.same_latencies, check.compared       // to the digit that NCCL prints
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/measurements/nccl_log.h"
#include "costmodel/topology.h"
#include "strategies/select/stack.h"

namespace shardlab {

struct NcclCellCheck {
  NcclTableCell cell;
  std::optional<double> latency_us;  // the model's; empty if the model does not consider this
  std::optional<double> gb_per_s;

  [[nodiscard]] bool is_compared() const { return latency_us.has_value() && cell.gb_per_s > 0.0; }
  [[nodiscard]] bool same_latency() const;
  [[nodiscard]] bool same_bandwidth() const;
};

struct NcclTableCheck {
  std::int64_t ranks = 0;
  std::int64_t hosts = 0;
  std::vector<NcclCellCheck> cells;  // those of algorithms that NCCL can take, in the log's order
  std::int64_t compared = 0;
  std::int64_t same_latencies = 0;
  std::int64_t same_bandwidths = 0;
};

// Assumes that the table has its ranks and hosts. Throws InputError if the stack does not price
// collectives by NCCL's algorithms.
[[nodiscard]] NcclTableCheck check_nccl_table(const Stack& stack, const Topology& topology,
                                              const NcclTable& table);

}  // namespace shardlab
