#include "runner/measure/nccl_environment.h"

#include <algorithm>

#include "runner/base/env.h"

namespace shardlab {
namespace {

// The most channels for all ranks together that share one GPU. Status: assumed; NCCL's user guide
// says that two ranks work by default and that more need a limit.
constexpr std::int64_t kChannelsOfGpu = 8;

}  // namespace

std::vector<Setting> settings_for(const NcclWishes& wishes) {
  std::vector<Setting> out;
  if (wishes.one_gpu && wishes.nccl_version >= kMultiRankVersion) {
    out.push_back({"NCCL_MULTI_RANK_GPU_ENABLE", "1"});
    out.push_back({"NCCL_MAX_CTAS",
                   std::to_string(std::max<std::int64_t>(1, kChannelsOfGpu / wishes.ranks))});
    out.push_back({"NCCL_NVLS_ENABLE", "0"});
  } else if (wishes.one_gpu) {
    out.push_back({"NCCL_HOSTID", "shardlab-rank-" + std::to_string(wishes.rank)});
    out.push_back({"NCCL_SOCKET_IFNAME", "lo"});
    out.push_back({"NCCL_IB_DISABLE", "1"});
  }
  if (!wishes.log_file.empty()) {
    out.push_back({"NCCL_DEBUG", "INFO"});
    out.push_back({"NCCL_DEBUG_SUBSYS", "INIT,TUNING"});
    out.push_back({"NCCL_DEBUG_FILE", wishes.log_file});
  }
  if (!wishes.topology_xml.empty()) out.push_back({"NCCL_TOPO_DUMP_FILE", wishes.topology_xml});
  return out;
}

std::string apply_settings(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    if (read_env(setting.name.c_str()).empty()) set_env(setting.name.c_str(), setting.value);
    // A record leaves out the settings about files and host ids, which do not affect speed.
    const bool is_about_files = setting.name.ends_with("_FILE") ||
                                setting.name.starts_with("NCCL_DEBUG") ||
                                setting.name == "NCCL_HOSTID";
    if (is_about_files) continue;
    text += (text.empty() ? "" : " ") + setting.name + "=" + read_env(setting.name.c_str());
  }
  return text;
}

std::string one_gpu_caveat(int nccl_version) {
  const std::string way =
      nccl_version >= kMultiRankVersion
          ? "NCCL allows it under NCCL_MULTI_RANK_GPU_ENABLE, an experimental switch"
          : "each rank has a host id of its own, so that NCCL sends through loopback sockets";
  return "several ranks share one GPU (" + way +
         "): they take turns and use no link, so the times say nothing about a fabric; the results "
         "are NCCL's own";
}

}  // namespace shardlab
