// What NCCL is told by the environment before it starts: several ranks on one GPU, its log of
// choices, its topology file. Variables that the user has set stay as they are.
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
  std::string log_file = {};      // where its choices go; "" for none
  std::string topology_xml = {};  // where its topology goes; "" for nowhere
};

struct Setting {
  std::string name;
  std::string value;
};

// Lets several ranks share one GPU. From 2.30 on NCCL_MULTI_RANK_GPU_ENABLE allows that (with few
// channels and no NVLS), as NCCL's user guide says. Before 2.30 each process gets a host id of its
// own, so that NCCL takes each rank for a host and sends through sockets. Assumes that each rank is
// a process.
[[nodiscard]] std::vector<Setting> settings_for(const NcclWishes& wishes);
// Sets the variables that are not set yet. Returns all of them with the values that they then have:
// "NCCL_MAX_CTAS=4 ...".
[[nodiscard]] std::string apply_settings(const std::vector<Setting>& settings);

// What a reader has to know about figures that were measured on one GPU.
[[nodiscard]] std::string one_gpu_caveat(int nccl_version);

// The first version of NCCL that has the switch NCCL_MULTI_RANK_GPU_ENABLE.
inline constexpr int kMultiRankVersion = 23000;

}  // namespace shardlab
