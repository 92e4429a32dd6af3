#include "costmodel/measurements/step_profile.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/measurements/kineto_kernels.h"

namespace shardlab {
namespace {

using nlohmann::json;
using Kind = DeviceEvent::Kind;

struct Interval {
  double begin = 0.0;
  double end = 0.0;
};

// The length of what the intervals cover together.
double covered_us(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  double sum = 0.0;
  std::optional<Interval> current;
  for (const Interval& next : intervals) {
    if (current && next.begin <= current->end) {
      current->end = std::max(current->end, next.end);
      continue;
    }
    if (current) sum += current->end - current->begin;
    current = next;
  }
  return current ? sum + current->end - current->begin : sum;
}

bool holds_one_of(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

enum class Part : std::uint8_t { kGemm, kAttention, kOther };

Part part_of(const DeviceEvent& event) {
  constexpr std::array<std::string_view, 10> kProducts = {
      "aten::mm",     "aten::addmm",    "aten::_addmm",  "aten::bmm",   "aten::baddbmm",
      "aten::linear", "aten::_scaled_", "aten::_int_mm", "convolution", "aten::_grouped_mm"};
  constexpr std::array<std::string_view, 2> kAttention = {"attention", "attn"};
  constexpr std::array<std::string_view, 6> kProductKernels = {"gemm",  "nvjet", "cutlass",
                                                               "Cijk_", "xmma",  "triton_tem"};
  constexpr std::array<std::string_view, 3> kAttentionKernels = {"flash", "fmha", "attn"};
  if (event.kind != Kind::kKernel) return Part::kOther;
  // The names of TorchInductor's kernels list all operators that it has fused.
  for (const std::string_view fused : {"triton_poi_", "triton_red_", "triton_per_"}) {
    if (event.name.starts_with(fused)) return Part::kOther;
  }
  if (event.op != nullptr) {
    const std::string_view op = (*event.op)["name"].get_ref<const std::string&>();
    if (holds_one_of(op, kAttention)) return Part::kAttention;
    if (holds_one_of(op, kProducts)) return Part::kGemm;
  }
  if (holds_one_of(event.name, kAttentionKernels)) return Part::kAttention;
  return holds_one_of(event.name, kProductKernels) ? Part::kGemm : Part::kOther;
}

// The window of all steps that are marked in this category, and how many there are.
struct Steps {
  Interval window;
  std::set<std::string> names;
};
std::optional<Steps> marked_steps(const json& events, std::string_view category,
                                  const JsonPlace& place) {
  std::optional<Steps> steps;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const json* found = json_member(event, "cat");
    const json* name = json_member(event, "name");
    if (found == nullptr || *found != category || name == nullptr || !name->is_string()) continue;
    const std::string& text = name->get_ref<const std::string&>();
    if (!text.starts_with("ProfilerStep")) continue;
    const auto time = [&](const char* key, double min) {
      return json_number(json_required(event, key, place.at(i)), place.at(i).at(key),
                         {.min = min, .max = kMaxClockUs});
    };
    const double begin = time("ts", -kMaxClockUs);
    const double us = time("dur", 0.0);
    if (!steps) steps = {.window = {begin, begin + us}, .names = {}};
    steps->window.begin = std::min(steps->window.begin, begin);
    steps->window.end = std::max(steps->window.end, begin + us);
    steps->names.insert(text);
  }
  return steps;
}

std::optional<std::int64_t> correlation_of(const json& event) {
  const json* args = json_member(event, "args");
  const json* id = args != nullptr ? json_member(*args, "correlation") : nullptr;
  if (id == nullptr || !id->is_number_integer()) return std::nullopt;
  return id->get<std::int64_t>();
}

// When the host launched what has this correlation.
std::unordered_map<std::int64_t, double> launches_of(const json& events) {
  std::unordered_map<std::int64_t, double> launches;
  for (const json& event : events) {
    const json* category = json_member(event, "cat");
    const json* begin = json_member(event, "ts");
    if (category == nullptr || begin == nullptr || !begin->is_number()) continue;
    if (*category != "cuda_runtime" && *category != "cuda_driver") continue;
    if (const auto id = correlation_of(event)) launches.emplace(*id, begin->get<double>());
  }
  return launches;
}

// The device of an event, as its args name it; -1 if they do not.
std::int64_t device_of(const DeviceEvent& event) {
  const json* device = json_member((*event.event)["args"], "device");
  return device != nullptr && device->is_number_integer() ? device->get<std::int64_t>() : -1;
}

}  // namespace

StepProfile read_step_profile(const json& trace, const JsonPlace& place) {
  const JsonPlace events_place = place.at("traceEvents");
  const json& events = json_array(json_required(trace, "traceEvents", place), events_place);
  std::vector<DeviceEvent> device = device_events(events, events_place);
  std::erase_if(device, [](const DeviceEvent& event) { return event.kind == Kind::kHostCopy; });
  std::set<std::int64_t> devices;
  for (const DeviceEvent& event : device) devices.insert(device_of(event));
  if (device.empty()) {
    events_place.fail(
        "found no event of the category \"kernel\"; valid: a trace that PyTorch's profiler wrote "
        "with ProfilerActivity.CUDA");
  }
  if (devices.size() > 1) {
    events_place.fail("found kernels of " + std::to_string(devices.size()) +
                      " devices; valid: the trace of one rank");
  }
  StepProfile profile;
  // The GPU's own marks hold only what the main thread launched, so those of the host come first.
  std::optional<Steps> steps = marked_steps(events, "user_annotation", events_place);
  const bool is_of_host = steps.has_value();
  if (!steps) steps = marked_steps(events, "gpu_user_annotation", events_place);
  profile.is_marked = steps.has_value();
  if (steps) {
    const auto launches =
        is_of_host ? launches_of(events) : std::unordered_map<std::int64_t, double>();
    std::erase_if(device, [&](const DeviceEvent& event) {
      const std::optional<std::int64_t> id = correlation_of(*event.event);
      const auto launch = id ? launches.find(*id) : launches.end();
      // What the trace does not launch was launched before the profiler began.
      if (launch == launches.end() && !launches.empty()) return true;
      const double begin = launch != launches.end() ? launch->second : event.begin_us;
      return begin < steps->window.begin || begin >= steps->window.end;
    });
  }
  if (device.empty()) {
    events_place.fail(
        "found no kernel that was launched between the start of the first step and the end of the "
        "last one; valid: a trace whose steps ran on the GPU before the profiler ended");
  }
  Interval span{device.front().begin_us, device.front().begin_us};
  std::vector<Interval> kernels;
  std::vector<Interval> all;
  if (steps) profile.steps = std::ssize(steps->names);
  const double share = 1.0 / static_cast<double>(profile.steps);
  for (const DeviceEvent& event : device) {
    const Interval interval{event.begin_us, event.begin_us + event.us};
    span = {std::min(span.begin, interval.begin), std::max(span.end, interval.end)};
    all.push_back(interval);
    if (event.kind == Kind::kCollective) {
      profile.collectives_us += share * event.us;
      continue;
    }
    kernels.push_back(interval);
    switch (part_of(event)) {
      case Part::kGemm:
        profile.gemm_us += share * event.us;
        break;
      case Part::kAttention:
        profile.attention_us += share * event.us;
        break;
      case Part::kOther:
        profile.other_us += share * event.us;
        break;
    }
  }
  const double busy = covered_us(all);
  const double marked_us = steps ? steps->window.end - steps->window.begin : 0.0;
  profile.step_us = share * std::max(marked_us, span.end - span.begin);
  profile.exposed_us = share * std::max(0.0, busy - covered_us(kernels));
  profile.idle_us = std::max(0.0, profile.step_us - share * busy);
  if (const json* devices_list = json_member(trace, "deviceProperties");
      devices_list != nullptr && devices_list->is_array() && !devices_list->empty()) {
    const json* name = json_member((*devices_list)[0], "name");
    if (name != nullptr && name->is_string()) profile.gpu = name->get<std::string>();
  }
  return profile;
}

}  // namespace shardlab
