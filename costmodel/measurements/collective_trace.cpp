#include "costmodel/measurements/collective_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

struct TorchName {
  std::string_view theirs;
  std::string_view ours;
};
// The names of c10::toString(ScalarType) come first, then the C++ names that typeid gives. Source:
// PyTorch 2.13, torch/headeronly/core/ScalarType.h; traces of its profiler.
constexpr std::array<TorchName, 37> kTorchNames = {{{"Double", "f64"},
                                                    {"Float", "f32"},
                                                    {"Half", "f16"},
                                                    {"BFloat16", "bf16"},
                                                    {"Float8_e4m3fn", "f8e4m3"},
                                                    {"Float8_e5m2", "f8e5m2"},
                                                    {"Long", "i64"},
                                                    {"Int", "i32"},
                                                    {"Short", "i16"},
                                                    {"Char", "i8"},
                                                    {"Byte", "u8"},
                                                    {"Bool", "b8"},
                                                    {"UInt64", "u64"},
                                                    {"UInt32", "u32"},
                                                    {"ComplexFloat", "c64"},
                                                    {"double", "f64"},
                                                    {"float", "f32"},
                                                    {"c10::Half", "f16"},
                                                    {"c10::BFloat16", "bf16"},
                                                    {"c10::Float8_e4m3fn", "f8e4m3"},
                                                    {"c10::Float8_e5m2", "f8e5m2"},
                                                    {"long int", "i64"},
                                                    {"long", "i64"},
                                                    {"long long", "i64"},
                                                    {"int", "i32"},
                                                    {"short int", "i16"},
                                                    {"short", "i16"},
                                                    {"signed char", "i8"},
                                                    {"char", "i8"},
                                                    {"unsigned char", "u8"},
                                                    {"bool", "b8"},
                                                    {"long unsigned int", "u64"},
                                                    {"unsigned long", "u64"},
                                                    {"unsigned int", "u32"},
                                                    {"c10::complex<float>", "c64"},
                                                    {"Float8_e4m3fnuz", "f8e4m3"},
                                                    {"Float8_e5m2fnuz", "f8e5m2"}}};

// The quantile by the nearest-rank method, which is always one of the measured values.
double quantile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size())) - 1.0;
  return sorted[static_cast<std::size_t>(std::max(0.0, rank))];
}

// One collective, joined over the ranks that were traced.
struct Joined {
  TracedCall call;
  std::vector<double> durations;  // in us, one per traced rank
};

// Which ranks of a run are on which host.
struct RankHosts {
  std::int64_t world = 1;                     // ranks of the run
  std::int64_t per_host = 0;                  // 0 if `hosts` names the host of each rank
  std::map<std::int64_t, std::string> hosts;  // by rank
  bool is_assumed = false;  // no trace names a host: all ranks are assumed to share one

  [[nodiscard]] std::string host_of(std::int64_t rank) const {
    return per_host > 0 ? std::to_string(rank / per_host) : hosts.at(rank);
  }
};

struct Shape {
  std::int64_t ranks = 0;
  std::int64_t hosts = 0;
  std::int64_t most = 1;    // ranks on one host
  std::int64_t fewest = 1;  // ranks on one host

  // Whether the ranks are spread over the hosts as a measured set says they are.
  [[nodiscard]] bool is_even() const { return most - fewest <= 1; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

RankHosts rank_hosts_of(std::span<const CollectiveTrace> traces, const SourceHints& hints) {
  RankHosts run;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const CollectiveTrace& trace = traces[i];
    run.world = std::max({run.world, trace.world_size, static_cast<std::int64_t>(i) + 1});
    if (trace.rank) run.world = std::max(run.world, *trace.rank + 1);
    if (trace.rank && !trace.host.empty()) run.hosts[*trace.rank] = trace.host;
    devices = std::max(devices, trace.devices_per_host);
    for (const TracedCall& call : trace.calls) {
      const TracedGroup& group = call.group;
      for (const std::int64_t rank : group.ranks) run.world = std::max(run.world, rank + 1);
      if (group.ranks.empty() && group.size > 0) {
        run.world = std::max(run.world, group.first + group.stride * (group.size - 1) + 1);
      }
    }
  }
  if (hints.ranks) run.world = std::max(run.world, *hints.ranks);
  if (hints.hosts && hints.gpus_per_host) {
    run.world = std::max(run.world, *hints.hosts * *hints.gpus_per_host);
  }
  if (hints.gpus_per_host) {
    run.per_host = *hints.gpus_per_host;
  } else if (hints.hosts) {
    run.per_host = (run.world + *hints.hosts - 1) / *hints.hosts;
  } else if (static_cast<std::int64_t>(run.hosts.size()) < run.world) {
    run.is_assumed = devices == 0;
    run.per_host = devices > 0 ? devices : run.world;
  }
  return run;
}

Shape shape_of(const TracedGroup& group, const RankHosts& run) {
  if (group.ranks.empty() && run.per_host > 0) {
    const std::int64_t size = group.size > 0 ? group.size : run.world;
    const std::int64_t last = group.first + group.stride * (size - 1);
    const std::int64_t hosts =
        group.stride >= run.per_host ? size : last / run.per_host - group.first / run.per_host + 1;
    if (hosts == size) return {size, hosts, 1, 1};
    const std::int64_t fit = (run.per_host + group.stride - 1) / group.stride;
    const std::int64_t first = (run.per_host - group.first % run.per_host + group.stride - 1) /
                               group.stride;  // ranks on the first host
    const std::int64_t on_last = last % run.per_host / group.stride + 1;
    const std::int64_t most = std::min(size, std::max<std::int64_t>(1, fit));
    return {size, hosts, most, std::min({most, first, on_last})};
  }
  std::map<std::string, std::int64_t> counts;
  if (group.ranks.empty()) {
    const std::int64_t size = group.size > 0 ? group.size : run.world;
    for (std::int64_t i = 0; i < size; ++i) ++counts[run.host_of(group.first + i * group.stride)];
  }
  for (const std::int64_t rank : group.ranks) ++counts[run.host_of(rank)];
  if (counts.empty()) return {};
  Shape shape{.hosts = static_cast<std::int64_t>(counts.size()), .fewest = counts.begin()->second};
  for (const auto& [host, count] : counts) {
    shape.ranks += count;
    shape.most = std::max(shape.most, count);
    shape.fewest = std::min(shape.fewest, count);
  }
  return shape;
}

std::vector<Joined> joined_calls(std::span<const CollectiveTrace> traces) {
  using Key = std::tuple<TracedGroup, Collective, std::int64_t, std::int64_t>;
  std::map<Key, std::size_t> index_of;
  std::vector<Joined> joined;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    // How many times a rank has made a call of this kind before.
    std::map<std::tuple<std::int64_t, TracedGroup, Collective, std::int64_t>, std::int64_t> before;
    for (const TracedCall& call : traces[i].calls) {
      const std::int64_t rank = call.rank.value_or(static_cast<std::int64_t>(i));
      const std::int64_t number = call.sequence.value_or(-1);
      const std::int64_t nth = before[{rank, call.group, call.collective, number}]++;
      const auto [it, is_new] =
          index_of.try_emplace({call.group, call.collective, number, nth}, joined.size());
      if (is_new) joined.push_back({call, {}});
      Joined& one = joined[it->second];
      one.call.bytes = std::max(one.call.bytes, call.bytes);
      one.durations.push_back(call.duration_us);
    }
  }
  return joined;
}

struct RowCalls {
  std::vector<double> times;
  std::vector<double> waits;
};

MeasuredRow row_of(Collective collective, const std::string& dtype, Bytes bytes, RowCalls calls) {
  std::sort(calls.times.begin(), calls.times.end());
  std::sort(calls.waits.begin(), calls.waits.end());
  MeasuredRow row;
  row.collective = collective;
  row.dtype = dtype;
  row.bytes = bytes;
  row.time_us = quantile(calls.times, 0.5);
  row.iterations = static_cast<std::int64_t>(calls.times.size());
  if (calls.times.size() > 1) {
    row.p5_us = quantile(calls.times, 0.05);
    row.p50_us = row.time_us;
    row.p95_us = quantile(calls.times, 0.95);
  }
  if (!calls.waits.empty()) row.wait_us = quantile(calls.waits, 0.5);
  return row;
}

// The rows of one set, in the order of their first calls.
struct SetCalls {
  std::vector<std::tuple<Collective, std::string, Bytes>> order;
  std::map<std::tuple<Collective, std::string, Bytes>, RowCalls> rows;
  std::int64_t traced = 0;  // the fewest ranks on which a collective was traced
};

std::string calls_left_out_text(int count) {
  return std::to_string(count) + (count == 1 ? " call is" : " calls are") + " left out";
}

// The kernels of all ranks, as measured on one device.
TracedKernels joined_kernels(std::span<const CollectiveTrace> traces) {
  TracedKernels joined;
  for (const CollectiveTrace& trace : traces) {
    const TracedKernels& one = trace.kernels;
    joined.calls.insert(joined.calls.end(), one.calls.begin(), one.calls.end());
    joined.total_us += one.total_us;
    for (const auto& [name, us] : one.left_out_us) joined.left_out_us[name] += us;
  }
  return joined;
}

// What all sets of a run share.
MeasurementSet begin_set(const CollectiveTrace& first, const SourceHints& hints) {
  MeasurementSet set;
  set.gpus_per_process = 1;  // a trace is that of one rank, which has a process of its own
  set.name = set_name_of(first.file);
  set.source = hints.source.empty() ? first.source : hints.source;
  set.gpu = first.gpu;
  return set;
}

MeasurementSet set_of_kernels(const TracedKernels& kernels, const CollectiveTrace& first,
                              const SourceHints& hints) {
  MeasurementSet set = begin_set(first, hints);
  set.kernels = measured_kernels(kernels.calls);
  if (std::string text = left_out_text(kernels); !text.empty()) {
    set.warnings.push_back(std::move(text));
  }
  return set;
}

}  // namespace

std::string_view dtype_of_torch(std::string_view name) {
  for (const TorchName& each : kTorchNames) {
    if (each.theirs == name) return each.ours;
  }
  return {};
}

std::string_view torch_name_of(std::string_view dtype) {
  for (const TorchName& each : kTorchNames) {
    if (each.ours == dtype) return each.theirs;
  }
  return "Byte";
}

bool is_of_run(std::span<const CollectiveTrace> run, const CollectiveTrace& trace) {
  if (run.empty()) return true;
  const auto clashes = [&](const CollectiveTrace& other) {
    return other.kind != trace.kind || other.world_size != trace.world_size || !other.rank ||
           !trace.rank || *other.rank == *trace.rank;
  };
  return std::none_of(run.begin(), run.end(), clashes);
}

std::vector<MeasurementSet> sets_of_traces(std::span<const CollectiveTrace> traces,
                                           const SourceHints& hints) {
  const RankHosts run = rank_hosts_of(traces, hints);
  std::map<std::string, int> left_out;
  for (const CollectiveTrace& trace : traces) {
    for (const auto& [reason, count] : trace.left_out) left_out[reason] += count;
  }
  std::map<Shape, SetCalls> shapes;
  for (const Joined& joined : joined_calls(traces)) {
    const TracedCall& call = joined.call;
    const Shape shape = shape_of(call.group, run);
    const std::int64_t ranks = shape.ranks;
    const double bytes = call.is_input ? call.bytes * static_cast<double>(ranks) : call.bytes;
    const auto [least, most] =
        std::minmax_element(joined.durations.begin(), joined.durations.end());
    if (ranks < 2) {
      ++left_out["a single rank communicates nothing"];
    } else if (!shape.is_even()) {
      ++left_out["the group has " + std::to_string(shape.most) + " ranks on one host and " +
                 std::to_string(shape.fewest) +
                 " on another, and a measured set spreads its ranks evenly"];
    } else if (!(bytes >= 1.0 && bytes <= kMaxBytes)) {
      ++left_out["the size is not from 1 to 1e18 bytes"];
    } else if (!(*least >= kMinTimeUs && *most <= kMaxTimeUs)) {
      ++left_out["the duration is not from 1e-6 to 1e15 us"];
    } else {
      SetCalls& calls = shapes[shape];
      const auto traced = static_cast<std::int64_t>(joined.durations.size());
      calls.traced = calls.traced == 0 ? traced : std::min(calls.traced, traced);
      const auto key = std::tuple(call.collective, call.dtype, bytes);
      if (!calls.rows.contains(key)) calls.order.push_back(key);
      RowCalls& row = calls.rows[key];
      row.times.push_back(*least);
      if (traced < 2) continue;
      for (const double duration : joined.durations) row.waits.push_back(duration - *least);
    }
  }
  const CollectiveTrace& first = traces.front();
  const TracedKernels kernels = joined_kernels(traces);
  if (shapes.empty() && kernels.calls.empty()) {
    std::string reasons;
    for (const auto& [reason, count] : left_out) {
      reasons += (reasons.empty() ? ": " : "; ") + calls_left_out_text(count) + ": " + reason;
    }
    if (kernels.total_us > 0.0) {
      reasons +=
          "; found kernels, but none of an operator that has a price and shapes; valid: a trace "
          "that PyTorch's profiler wrote with record_shapes=True";
    } else if (left_out.empty()) {
      reasons =
          ", and no kernel of a GPU; valid: a trace that PyTorch's profiler wrote with "
          "ProfilerActivity.CUDA, or a Chakra trace with collectives";
    }
    throw ConfigError(first.file, "", "found no collective with a time" + reasons);
  }
  std::vector<MeasurementSet> sets;
  for (auto& [shape, calls] : shapes) {
    MeasurementSet set = begin_set(first, hints);
    set.ranks = shape.ranks;
    set.hosts = shape.hosts;
    set.gpus_per_host = shape.most;
    if (shapes.size() > 1) {
      set.name += "_" + std::to_string(set.hosts) + "x" + std::to_string(set.gpus_per_host);
    }
    set.nccl_version = first.nccl_version;
    for (const auto& key : calls.order) {
      const auto& [collective, dtype, bytes] = key;
      set.rows.push_back(row_of(collective, dtype, bytes, std::move(calls.rows[key])));
    }
    if (calls.traced < set.ranks) {
      set.warnings.push_back("only " + std::to_string(calls.traced) + " of " +
                             std::to_string(set.ranks) + " ranks " +
                             (calls.traced == 1 ? "is" : "are") +
                             " traced, so times may include waiting for the others");
    }
    if (run.is_assumed) {
      set.warnings.push_back(
          "the trace names no hosts, so all ranks are assumed to be on one; give the number per "
          "host with --gpus-per-host");
    }
    sets.push_back(std::move(set));
  }
  if (!kernels.calls.empty()) {
    sets.push_back(set_of_kernels(kernels, first, hints));
    if (sets.size() > 1) sets.back().name += "_kernels";
  }
  for (const auto& [reason, count] : left_out) {
    sets.front().warnings.push_back(calls_left_out_text(count) + ": " + reason);
  }
  return sets;
}

}  // namespace shardlab
