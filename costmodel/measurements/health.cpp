#include "costmodel/measurements/health.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "costmodel/base/lower_case.h"
#include "costmodel/base/percentile.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/stated_network.h"

namespace shardlab {
namespace {

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::optional<std::string_view> first_held(std::string_view text,
                                           std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (holds(text, word)) return word;
  }
  return std::nullopt;
}

// The number in front of position `at`, with blanks skipped: 8 for the position of "NICs" in "8
// NICs/node".
std::optional<double> number_before(std::string_view text, std::size_t at) {
  while (at > 0 && text[at - 1] == ' ') --at;
  std::size_t begin = at;
  while (begin > 0 &&
         ((text[begin - 1] >= '0' && text[begin - 1] <= '9') || text[begin - 1] == '.')) {
    --begin;
  }
  double value = 0.0;
  const auto result = std::from_chars(text.data() + begin, text.data() + at, value);
  if (begin == at || result.ec != std::errc() || result.ptr != text.data() + at) {
    return std::nullopt;
  }
  return value;
}

// The GB/s of one GPU through NVLink in one direction, by generation. Source: NVIDIA's datasheets
// of V100, A100, H100 and B200. Status: derived (half of the bidirectional figure).
struct NvlinkGeneration {
  std::string_view name;
  double gb_per_s;
};
constexpr std::array<NvlinkGeneration, 4> kNvlink = {
    {{"nvlink2", 150.0}, {"nvlink3", 300.0}, {"nvlink4", 450.0}, {"nvlink5", 900.0}}};

// The bandwidth of an NVLink that joins all GPUs of a host at full rate; nothing if the source does
// not state such a link.
std::optional<double> stated_nvlink(std::string_view intra) {
  if (!holds(intra, "nvswitch") && !holds(intra, "bridge")) return std::nullopt;
  for (const NvlinkGeneration& generation : kNvlink) {
    if (holds(intra, generation.name)) return generation.gb_per_s;
  }
  return std::nullopt;
}

// Finds the largest drop: the largest ratio of a size's time to the time of a larger size of the
// same collective.
std::string ragged(const MeasurementSet& set) {
  std::vector<const MeasuredRow*> rows;
  for (const MeasuredRow& row : set.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const MeasuredRow* a, const MeasuredRow* b) {
    return std::pair(a->collective, a->bytes) < std::pair(b->collective, b->bytes);
  });
  double worst = 0.0;
  const MeasuredRow* slow = nullptr;
  const MeasuredRow* fast = nullptr;
  // Walks from large to small. `above` is the fastest row of all larger sizes, `here` the fastest
  // one of the current size.
  const MeasuredRow* above = nullptr;
  const MeasuredRow* here = nullptr;
  for (auto it = rows.rbegin(); it != rows.rend(); ++it) {
    const MeasuredRow* row = *it;
    if (here != nullptr && here->collective != row->collective) {
      above = nullptr;
      here = nullptr;
    }
    if (here != nullptr && row->bytes < here->bytes) {
      if (above == nullptr || here->time_us < above->time_us) above = here;
      here = nullptr;
    }
    if (here == nullptr || row->time_us < here->time_us) here = row;
    if (above != nullptr && row->time_us / above->time_us > worst) {
      worst = row->time_us / above->time_us;
      slow = row;
      fast = above;
    }
  }
  if (!(worst > kMaxDrop)) return "";
  return "ragged: " + format_bytes(slow->bytes) + " take " + format_fixed(worst, 1) +
         " times as long as " + format_bytes(fast->bytes);
}

std::string unsteady(const MeasurementSet& set) {
  constexpr std::size_t kEnough = 6;
  std::vector<double> gaps;
  for (const MeasuredRow& row : set.rows) {
    if (row.in_place_time_us) gaps.push_back(std::abs(*row.in_place_time_us / row.time_us - 1.0));
  }
  if (gaps.size() < kEnough) return "";
  const double median = upper_median(gaps);
  if (!(median > kMaxGap)) return "";
  return "unsteady: in-place and out-of-place times differ by " + format_fixed(100 * median, 0) +
         " % in the median";
}

// A ring through all hosts sends the bus bandwidth through the links of each host. It can't send
// more than one GPU's NVLink carries.
std::string slow(const MeasurementSet& set) {
  const std::optional<double> nvlink = stated_nvlink(lower_case(set.intra));
  std::optional<double> link;
  if (set.hosts == 1) {
    link = nvlink;
  } else {
    link = stated_host_bandwidth(set.inter, set.gpus_per_host);
    if (link && nvlink) link = std::min(*link, *nvlink);
  }
  if (!link || set.ranks < 2) return "";
  double best = 0.0;
  for (const MeasuredRow& row : set.rows) {
    if (!is_ring_bound(row.collective) || row.bytes < kLargeBytes) continue;
    best = std::max(
        best, ring_volume_factor(row.collective, set.ranks) * row.bytes / (row.time_us * 1e3));
  }
  if (best <= 0.0 || best >= kMinLinkShare * *link) return "";
  return "slow: at most " + format_fixed(best, 1) + " GB/s of bus bandwidth through links of " +
         format_fixed(*link, 0) + " GB/s";
}

// Whether the user, rather than NCCL, chose the algorithm or protocol.
std::string forced(const MeasurementSet& set) {
  if (const auto word = first_held(set.settings, {"NCCL_ALGO=", "NCCL_PROTO="})) {
    return "forced: " + std::string(*word) + " is set";
  }
  if (const auto word = first_held(set.inter, {"NCCL_ALGO=", "NCCL_PROTO="})) {
    return "forced: " + std::string(*word) + " is set";
  }
  if (const auto word =
          first_held(lower_case(set.settings),
                     {"ring algorithm", "tree algorithm", "nvls algorithm", "collnet algorithm"})) {
    return "forced: the " + std::string(*word);
  }
  return "";
}

std::string sockets(const MeasurementSet& set) {
  if (set.hosts < 2) return "";
  const std::string all = lower_case(set.inter + " " + set.settings);
  if (const auto word = first_held(all, {"tcp sockets", "nccl_ib_disable=1", "nccl_net=socket"})) {
    return "sockets: \"" + std::string(*word) + "\" between hosts";
  }
  return "";
}

}  // namespace

std::optional<double> stated_host_bandwidth(std::string_view inter, std::int64_t gpus_per_host) {
  const std::optional<StatedRate> rate = stated_rate(inter);
  if (!rate) return std::nullopt;
  const double gb_per_s = rate->gigabits / 8.0;
  const auto devices = static_cast<double>(gpus_per_host);
  if (rate->begin > 0 && inter[rate->begin - 1] == 'x') {
    const auto count = number_before(inter, rate->begin - 1);
    if (count) return std::min(*count, devices) * gb_per_s;
  }
  for (const std::string_view word : {"NICs/node", "NIC/node", "active ports/node"}) {
    const std::size_t at = inter.find(word);
    if (at == std::string_view::npos) continue;
    const auto count = number_before(inter, at);
    if (count) return std::min(*count, devices) * gb_per_s;
  }
  if (holds(inter, "NIC per GPU")) return devices * gb_per_s;
  if (gpus_per_host == 1) return gb_per_s;
  return std::nullopt;
}

bool is_ring_bound(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kAllReduce ||
         kind == Collective::kReduceScatter;
}

Judgement judge(const MeasurementSet& set) {
  if (set.health == Health::kUnhealthy) {
    std::string reason = set.health_reason;
    if (reason.empty()) reason = "source: " + (set.notes.empty() ? "reported as slow" : set.notes);
    return {Health::kUnhealthy, std::move(reason)};
  }
  for (const auto& rule : {forced, sockets, ragged, unsteady, slow}) {
    if (std::string reason = rule(set); !reason.empty()) {
      return {Health::kUnhealthy, std::move(reason)};
    }
  }
  return {Health::kHealthy, ""};
}

}  // namespace shardlab
