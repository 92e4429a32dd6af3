// Environment variables that must be set before NCCL starts: for several ranks on one GPU, for its
// log of choices, and for its topology file. Variables that the user has set are not changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardlab {

struct NcclWishes {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  bool one_gpu = false;
  int nccl_version = 0;           // version of the library that is loaded
  std::string log_file = {};      // file for its choices; "" for none
  std::string topology_xml = {};  // file for its topology; "" for none
};

struct Setting {
  std::string name;
  std::string value;
};

// Settings for these wishes. They let several ranks share one GPU: from NCCL 2.30 on by
// NCCL_MULTI_RANK_GPU_ENABLE (with few channels and no NVLS), as NCCL's user guide says; before
// 2.30 by a host id of its own for each process, so that NCCL takes each rank for a host and sends
// through sockets. Assumes that each rank is a process.
[[nodiscard]] std::vector<Setting> settings_for(const NcclWishes& wishes);
// Sets the variables that are not set yet. Returns all of them with their values afterwards:
// "NCCL_MAX_CTAS=4 ...".
[[nodiscard]] std::string apply_settings(const std::vector<Setting>& settings);

// What a reader must know about figures that were measured with all ranks on one GPU.
[[nodiscard]] std::string one_gpu_caveat(int nccl_version);

// The first version of NCCL that has the switch NCCL_MULTI_RANK_GPU_ENABLE.
inline constexpr int kMultiRankVersion = 23000;

}  // namespace shardlab
