#include "costmodel/measurements/nccl_tests_run.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

namespace shardlab {
namespace {

constexpr std::string_view kRankSources =
    "a device list (\"#  Rank  0 ... on HOST device  0\"), lines \"# ranks: N\", \"# nodes: N\" "
    "and \"# gpus_per_node: N\", or --hosts and --gpus-per-host";

// Whether ranks == hosts * per_host, without the overflow that the product can have.
bool is_product(std::int64_t ranks, std::int64_t hosts, std::int64_t per_host) {
  return ranks % hosts == 0 && ranks / hosts == per_host;
}

// How many ranks the list has of each host.
std::map<std::string_view, std::int64_t> ranks_by_host(const Devices& devices) {
  std::map<std::string_view, std::int64_t> counts;
  for (const auto& [rank, device] : devices) ++counts[device.host];
  return counts;
}

// The number of hosts that the command line says, by itself or through the GPUs of a host; nothing
// if the ranks do not fit it, as where the options are for another file.
std::optional<std::int64_t> hinted_hosts(const SourceHints& hints, std::int64_t ranks) {
  if (!hints.hosts && !hints.gpus_per_host) return std::nullopt;
  const std::int64_t hosts = hints.hosts.value_or(ranks / hints.gpus_per_host.value_or(1));
  if (hosts < 1 || ranks % hosts != 0) return std::nullopt;
  if (hints.gpus_per_host && ranks / hosts != *hints.gpus_per_host) return std::nullopt;
  return hosts;
}

// What to warn of where a host has one device twice, as containers that share a hostname list it;
// "" otherwise.
std::string shared_name_warning(const Devices& devices) {
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> first_rank;
  for (const auto& [rank, device] : devices) {
    if (device.place.empty()) return "";
    const auto [known, is_new] = first_rank.try_emplace({device.host, device.place}, rank);
    if (is_new) continue;
    return "ranks " + std::to_string(known->second) + " and " + std::to_string(rank) +
           " have the same device of the host " + device.host +
           " in the device list, so several hosts may have that name, as containers do; --hosts "
           "says how many there were";
  }
  return "";
}

// Notes what makes the times of small messages differ from those of calls that are launched one by
// one.
void note_launches(const Run& run, MeasurementSet& set) {
  const auto note = [&](const std::string& setting, const std::string& effect) {
    set.settings += (set.settings.empty() ? "" : "; ") + setting;
    set.warnings.push_back(setting + ", " + effect);
  };
  if (run.uses_graphs) {
    note("CUDA graphs launched the calls (-G)",
         "so small messages take less time than in programs without graphs");
  }
  if (run.aggregated && *run.aggregated > 1) {
    note(std::to_string(*run.aggregated) + " calls were launched as one (-m)",
         "so small messages take less time than launched one by one");
  }
  if (run.is_blocking) {
    note("each call was waited for (-z)",
         "so small messages take more time than in programs that go on");
  }
  if (run.warmup && *run.warmup == 0) {
    note("no call ran before the measured ones (-w 0)",
         "so the first sizes hold what NCCL does once");
  }
}

bool is_whole(const Devices& devices) { return std::ssize(devices) == devices.rbegin()->first + 1; }

// How many ranks the list leaves out before its last one: logs are shortened, and lines get lost.
std::int64_t unlisted_ranks(const Run& run) {
  return run.devices.rbegin()->first + run.ranks_per_line -
         std::ssize(run.devices) * run.ranks_per_line;
}

// The number of a device on its host; nothing if the list does not say.
std::optional<std::int64_t> number_of(const Device& device) {
  std::int64_t number = 0;
  const char* begin = device.place.data();
  const auto result = std::from_chars(begin, begin + device.place.size(), number);
  if (result.ec != std::errc() || number < 0 || number >= kMaxRanks) return std::nullopt;
  return number;
}

// The GPUs of a host by the largest number of a device; nothing if that does not fit all listed
// ranks, which then have to stand on their hosts in order.
std::optional<std::int64_t> numbered_per_host(const Run& run) {
  std::int64_t per_host = 0;
  for (const auto& [rank, device] : run.devices) {
    const std::optional<std::int64_t> number = number_of(device);
    if (!number) return std::nullopt;
    per_host = std::max(per_host, *number + run.ranks_per_line);
  }
  std::map<std::int64_t, std::string_view> names;  // by the host's number
  std::set<std::string_view> distinct;
  for (const auto& [rank, device] : run.devices) {
    if (rank % per_host != number_of(device)) return std::nullopt;
    if (names.try_emplace(rank / per_host, device.host).first->second != device.host) {
      return std::nullopt;
    }
    distinct.insert(device.host);
  }
  return distinct.size() == names.size() ? std::optional(per_host) : std::nullopt;
}

// The GPUs of each process in the list of devices; nothing if processes differ or are not listed.
std::optional<std::int64_t> listed_per_process(const Devices& devices) {
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> counts;
  for (const auto& [rank, device] : devices) {
    if (device.process.empty()) return std::nullopt;
    ++counts[{device.host, device.process}];
  }
  if (counts.empty()) return std::nullopt;
  const std::int64_t first = counts.begin()->second;
  const bool alike = std::all_of(counts.begin(), counts.end(),
                                 [&](const auto& count) { return count.second == first; });
  return alike ? std::optional(first) : std::nullopt;
}

}  // namespace

namespace {

// The value that a text begins with, in a command line or in a list of settings: NCCL_ALGO may be
// "Ring,Tree", but in srun's --export a comma also stands in front of the next name and its "=".
std::string_view value_at_start_of(std::string_view text) {
  std::string_view value = text.substr(0, text.find_first_of(" \t\"';)\\"));
  for (std::size_t comma = value.find(','); comma != std::string_view::npos;
       comma = value.find(',', comma + 1)) {
    const std::string_view next = value.substr(comma + 1);
    const std::size_t equals = next.find('=');
    if (next.empty() || (equals != std::string_view::npos && equals < next.find(','))) {
      return value.substr(0, comma);
    }
  }
  return value;
}

}  // namespace

void note_setting(std::string_view name, std::string_view value, MeasurementSet& set) {
  const std::string text = std::string(name) + "=" + std::string(value);
  const bool is_known = (" " + set.settings + " ").find(" " + text + " ") != std::string::npos;
  if (value.empty() || is_known) return;
  set.settings += (set.settings.empty() ? "" : " ") + text;
}

void note_judged_settings(std::string_view text, MeasurementSet& set) {
  const auto is_of_name = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (const std::string_view name : kJudgedSettings) {
    for (std::size_t at = text.find(name); at != std::string_view::npos;
         at = text.find(name, at + 1)) {
      const std::string_view rest = text.substr(at + name.size());
      if ((at > 0 && is_of_name(text[at - 1])) || !rest.starts_with('=')) continue;
      note_setting(name, value_at_start_of(rest.substr(1)), set);
    }
  }
}

bool have_one_layout(const Devices& a, const Devices& b) {
  if (a.empty() || b.empty()) return true;
  const auto hosts = [](const Devices& devices) { return ranks_by_host(devices).size(); };
  return a.rbegin()->first == b.rbegin()->first &&
         a.begin()->second.name == b.begin()->second.name &&
         (!is_whole(a) || !is_whole(b) || hosts(a) == hosts(b));
}

std::string layout_text(const Devices& devices) {
  const std::size_t hosts = ranks_by_host(devices).size();
  std::string text = std::to_string(devices.rbegin()->first + 1) + " ranks on " +
                     std::to_string(hosts) + (hosts == 1 ? " host" : " hosts");
  const std::string& gpu = devices.begin()->second.name;
  return gpu.empty() ? text : text + ", " + gpu;
}

namespace {

// What is said of a list of different GPUs; "" if all are as the first. A name may be cut off, or
// another line may follow on it, as where ranks share a terminal.
std::string mixed_gpus(const Devices& devices) {
  const std::string& first = devices.begin()->second.name;
  const auto is_other = [&](const auto& entry) {
    const std::string& name = entry.second.name;
    return !name.empty() && !name.starts_with(first) && !first.starts_with(name);
  };
  const auto other = std::ranges::find_if(devices, is_other);
  if (first.empty() || other == devices.end()) return "";
  const auto others = std::ranges::count_if(devices, is_other);
  return "mixed: " + std::to_string(std::ssize(devices) - others) + " of the listed devices are " +
         first + ", and " + std::to_string(others) + (others == 1 ? " is" : " are") +
         " not, such as " + other->second.name;
}

// The number of hosts of a list that leaves out ranks, by the numbers of its devices. Without these
// it calls `fail`, since the hosts that it names are some of them.
std::int64_t hosts_of_gaps(const Run& run, std::int64_t ranks, MeasurementSet& set,
                           const std::function<void(const std::string&)>& fail) {
  const std::string what = "leaves out " + std::to_string(unlisted_ranks(run)) + " of " +
                           std::to_string(ranks) + " ranks";
  const std::optional<std::int64_t> per_host = numbered_per_host(run);
  if (!per_host || ranks % *per_host != 0) {
    fail("found a device list that " + what +
         ", and does not show on how many hosts they ran; valid: a list of all ranks, a line \"# "
         "nodes: N\", or --hosts");
    return 0;
  }
  const std::int64_t hosts = ranks / *per_host;
  set.warnings.push_back("the device list " + what +
                         "; by the numbers of its devices, a host has " +
                         std::to_string(*per_host) + (*per_host == 1 ? " GPU" : " GPUs") +
                         ", so there were " + std::to_string(hosts) +
                         (hosts == 1 ? " host" : " hosts") + "; state another number with --hosts");
  return hosts;
}

}  // namespace

void settle(const Run& run, const SourceHints& hints, MeasurementSet& set,
            const std::function<void(const std::string&)>& fail) {
  std::optional<std::int64_t> ranks = run.ranks;
  std::optional<std::int64_t> hosts = run.hosts;
  std::optional<std::int64_t> per_host = run.gpus_per_host;
  const bool states_hosts = run.hosts.has_value() || (run.ranks && run.gpus_per_host);
  if (ranks && hosts && per_host && !is_product(*ranks, *hosts, *per_host)) {
    fail("found " + std::to_string(*ranks) + " ranks on " + std::to_string(*hosts) + " nodes of " +
         std::to_string(*per_host) +
         " GPUs; valid: lines \"# ranks: N\", \"# nodes: N\" and \"# "
         "gpus_per_node: N\" of which the first is the product of the others");
  }
  if (!run.devices.empty()) {
    const std::int64_t listed = run.devices.rbegin()->first + run.ranks_per_line;
    const auto by_host = ranks_by_host(run.devices);
    const auto listed_hosts = std::ssize(by_host);
    const bool has_gaps = unlisted_ranks(run) > 0;
    const auto contradicts_list = [&](std::int64_t count) {
      return has_gaps ? count < listed_hosts : count != listed_hosts;
    };
    std::set<std::string_view> listed_groups;
    for (const auto& [rank, device] : run.devices) listed_groups.insert(device.group);
    if (listed_groups.size() > 1 && !(ranks && hosts)) {
      fail("found " + std::to_string(listed_groups.size()) +
           " groups of ranks in the device list, which ran at the same time (NCCL_TESTS_SPLIT); "
           "valid: one group, or lines \"# ranks: N\" and \"# nodes: N\" with those of each group");
    }
    const auto [fewest, most] =
        std::minmax_element(by_host.begin(), by_host.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    if (run.ranks_per_line == 1 && is_whole(run.devices) && fewest->second != most->second) {
      set.warnings.push_back("hosts have " + std::to_string(fewest->second) + " to " +
                             std::to_string(most->second) +
                             " ranks in the device list; they are taken to have as many each");
    }
    if (ranks && *ranks != listed) {
      set.warnings.push_back("\"ranks\" says " + std::to_string(*ranks) +
                             ", but the device list has " + std::to_string(listed) +
                             " ranks; \"ranks\" is used");
    }
    if (hosts && contradicts_list(*hosts)) {
      set.warnings.push_back("\"nodes\" says " + std::to_string(*hosts) +
                             ", but the device list has " + std::to_string(listed_hosts) +
                             " hosts; \"nodes\" is used");
    }
    ranks = ranks.value_or(listed);
    if (!states_hosts) {
      const std::optional<std::int64_t> hinted = hinted_hosts(hints, *ranks);
      if (hinted && contradicts_list(*hinted)) {
        set.warnings.push_back("the device list names " + std::to_string(listed_hosts) +
                               (listed_hosts == 1 ? " host" : " hosts") +
                               ", but the command line says " + std::to_string(*hinted) +
                               "; the command line is used");
        hosts = hinted;
      } else if (has_gaps) {
        if (hinted) hosts = hinted;
        if (!hosts && !per_host) hosts = hosts_of_gaps(run, *ranks, set, fail);
      } else if (std::string warning = shared_name_warning(run.devices);
                 !hinted && !warning.empty()) {
        set.warnings.push_back(std::move(warning));
      }
    }
    if (!has_gaps) hosts = hosts.value_or(listed_hosts);
  }
  const auto fill = [&](std::optional<std::int64_t>& value, const std::optional<std::int64_t>& hint,
                        const std::string& what) {
    if (!hint) return;
    if (value && *value != *hint) {
      set.warnings.push_back("the file says " + std::to_string(*value) + " " + what +
                             ", but the command line says " + std::to_string(*hint) +
                             "; the file is used");
    }
    value = value.value_or(*hint);
  };
  fill(ranks, hints.ranks, "ranks");
  fill(hosts, hints.hosts, "hosts");
  if (!hosts && !per_host && ranks && hints.gpus_per_host) per_host = hints.gpus_per_host;
  if (!per_host && ranks && hosts) {
    // The number of GPUs that take part on one host; a full host may have more.
    per_host = (*ranks + *hosts - 1) / std::max<std::int64_t>(1, *hosts);
  }
  fill(per_host, hints.gpus_per_host, "GPUs a host");
  if (!ranks && hosts && per_host) {
    if (*hosts > kMaxRanks / *per_host) {
      fail("found " + std::to_string(*hosts) + " hosts of " + std::to_string(*per_host) +
           " GPUs; valid: at most " + std::to_string(kMaxRanks) + " ranks");
    }
    ranks = *hosts * *per_host;
  }
  if (!hosts && ranks && per_host) hosts = (*ranks + *per_host - 1) / *per_host;
  if (!ranks || !hosts) {
    fail("found no number of " + std::string(ranks ? "hosts" : "ranks") +
         "; valid: " + std::string(kRankSources));
    return;
  }
  if (*hosts > *ranks) {
    fail("found " + std::to_string(*ranks) + " ranks on " + std::to_string(*hosts) +
         " hosts; valid: at least one rank per host");
  }
  set.ranks = *ranks;
  set.hosts = *hosts;
  const std::int64_t fewest = (*ranks + *hosts - 1) / *hosts;
  set.gpus_per_host = per_host.value_or(fewest);
  if (!is_product(set.ranks, set.hosts, set.gpus_per_host)) {
    set.warnings.push_back(std::to_string(set.ranks) + " ranks are not " +
                           std::to_string(set.hosts) + " hosts times " +
                           std::to_string(set.gpus_per_host) + " GPUs");
    set.gpus_per_host = std::max(set.gpus_per_host, fewest);
  }
  const std::optional<std::int64_t> per_process =
      run.gpus_per_process ? run.gpus_per_process : listed_per_process(run.devices);
  if (per_process && *per_process <= set.gpus_per_host) {
    set.gpus_per_process = *per_process;
  } else if (per_process) {
    set.warnings.push_back("the file says that a process drives " + std::to_string(*per_process) +
                           " GPUs, but a host has " + std::to_string(set.gpus_per_host) +
                           "; it is taken as not stated");
  }
  note_launches(run, set);
  if (!set.gpu.empty() || run.devices.empty()) return;
  set.gpu = run.devices.begin()->second.name;
  std::string mixed = mixed_gpus(run.devices);
  if (mixed.empty() || set.health != Health::kUnknown) return;
  set.health = Health::kUnhealthy;
  set.health_reason = std::move(mixed);
}

}  // namespace shardlab
