#include "costmodel/process_group.h"

#include <array>

namespace shardlab {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

constexpr std::array<PublishedCost, 8> kTimes = {{
    {0.15, 2, "ncclCommSplit", "https://github.com/NVIDIA/nccl/issues/1605"},
    {0.66 - 0.42, 8, "ncclCommInitRank, one host",
     "https://github.com/NVIDIA/nccl-tests/issues/273"},
    {1.08 - 0.51, 16, "ncclCommInitRank, two hosts", "https://github.com/NVIDIA/nccl/issues/1412"},
    {16.3 / 8, 8, "one of 8 communicators, V100", "https://github.com/NVIDIA/nccl/issues/534"},
    {55.17 - 52.33, 8, "ncclCommInitRankConfig, B200",
     "https://github.com/NVIDIA/nccl/issues/1646"},
    {130.0 / 32, 32, "one of 32 communicators, V100 on InfiniBand",
     "https://github.com/NVIDIA/nccl/issues/534"},
    {31.316 / 7, 8, "one of 7 communicators, one host of another cluster",
     "https://github.com/NVIDIA/nccl/issues/534"},
    {41.674 / 7, 128, "one of 7 communicators, 16 hosts of that cluster",
     "https://github.com/NVIDIA/nccl/issues/534"},
}};

constexpr std::array<PublishedCost, 3> kMemory = {{
    {544 * kMiB, 2, "A100 with NVLink, after an all-reduce",
     "https://github.com/NVIDIA/nccl/issues/964"},
    {0.65 * 1024 * kMiB, 0, "each communicator after the first, RCCL",
     "https://github.com/Lumi-supercomputer/LUMI-AI-Guide/issues/111"},
    {688 * kMiB, 4, "A100 with NVLink, after an all-reduce; 3 ranks take as much",
     "https://github.com/NVIDIA/nccl/issues/964"},
}};

}  // namespace

std::span<const PublishedCost> process_group_times() { return kTimes; }
std::span<const PublishedCost> process_group_memory() { return kMemory; }

CostSpread spread_of(std::span<const PublishedCost> costs) {
  const std::size_t half = costs.size() / 2;
  const double median = costs.size() % 2 == 1 ? costs[half].amount
                                              : (costs[half - 1].amount + costs[half].amount) / 2.0;
  return {.least = costs.front().amount, .median = median, .most = costs.back().amount};
}

}  // namespace shardlab
