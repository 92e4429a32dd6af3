// What one more process group costs a program: the time in which NCCL makes its communicator, once,
// and the memory of each GPU that the communicator keeps.
//
//   spread_of(process_group_times()).median   // seconds
//
// Both come from what has been published. The figures differ more between clusters than between
// numbers of ranks: eight ranks take 0.24 s on one and 4.5 s on another. All groups of one mesh dim
// are made at the same time, so that a flattened mesh costs this once. The time to load NCCL's
// kernels is left out where a log tells it, since only the first communicator of a process spends
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace shardlab {

struct PublishedCost {
  double amount;       // in seconds, or in bytes of each GPU
  std::int64_t ranks;  // size of the communicator; 0 if the source does not say
  std::string_view what;
  std::string_view source;
};

// Figures as published, the least first.
[[nodiscard]] std::span<const PublishedCost> process_group_times();   // seconds
[[nodiscard]] std::span<const PublishedCost> process_group_memory();  // bytes for each GPU

struct CostSpread {
  double least = 0.0, median = 0.0, most = 0.0;
};
[[nodiscard]] CostSpread spread_of(std::span<const PublishedCost> costs);

}  // namespace shardlab
