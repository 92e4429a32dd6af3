// What a file of nccl-tests says about the run that wrote it: the number of ranks and hosts, and
// how many GPUs one process drives.
//
//   settle(run, hints, set, [&](const std::string& message) { place.fail(message); });
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {

struct Device {
  std::string host;
  std::string name;
  std::string place = {};    // its number and bus address on the host; "" if the list has none
  std::string process = {};  // its number on the host; "" if the list has none
  std::string group = {};    // the communicator that it joins; "" if the list has none
};
using Devices = std::map<std::int64_t, Device>;  // by rank

struct Run {
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> hosts;
  std::optional<std::int64_t> gpus_per_host;
  Devices devices;
  // Ranks of one process: the list of devices in JSON names only the first rank of each process.
  std::int64_t ranks_per_line = 1;
  std::optional<std::int64_t> gpus_per_process;
  // How the calls were launched, as far as it differs from one call after another on warm GPUs.
  bool uses_graphs = false;                // CUDA graphs hold the calls
  bool is_blocking = false;                // each call is waited for
  std::optional<std::int64_t> aggregated;  // calls of one launch
  std::optional<std::int64_t> warmup;      // calls before the measured ones
};

// The settings of NCCL that health.h judges by.
inline constexpr std::string_view kJudgedSettings[] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_DISABLE",
                                                       "NCCL_NET"};
// Adds "NCCL_ALGO=Ring" to the set's settings, unless the value is empty, which is as good as no
// setting, or the settings have it.
void note_setting(std::string_view name, std::string_view value, MeasurementSet& set);
// Notes the judged settings among the words of a text, such as "-x NCCL_ALGO=Ring".
void note_judged_settings(std::string_view text, MeasurementSet& set);

// Whether the list may come from a run of the same layout: as many ranks, on as many hosts, of the
// same GPU. Lists that leave out ranks are compared by their last rank and the GPU alone.
[[nodiscard]] bool have_one_layout(const Devices& a, const Devices& b);
// A list in words: "16 ranks on 2 hosts, NVIDIA H100 80GB HBM3".
[[nodiscard]] std::string layout_text(const Devices& devices);

// Fills in the set's ranks, hosts, gpus_per_host and gpus_per_process, and the name of the GPU if
// the set has none. A list of several kinds of GPUs makes the set unhealthy. The GPUs of a process
// are counted in the list of devices if nothing states them. A list that leaves out ranks shows the
// number of hosts by the numbers of its devices, with a warning, or not at all. Hints go before
// what was counted in the list of devices, and behind what the file states; if they differ, the set
// gets a warning. How the calls were launched goes to its settings and warnings. If these figures
// can't be determined, calls `fail` with a message; `fail` must throw.
void settle(const Run& run, const SourceHints& hints, MeasurementSet& set,
            const std::function<void(const std::string&)>& fail);

}  // namespace shardlab
