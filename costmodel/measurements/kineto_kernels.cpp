#include "costmodel/measurements/kineto_kernels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "costmodel/base/percentile.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/collective_trace.h"
#include "costmodel/measurements/profiled_operator.h"

namespace shardlab {
namespace {

using nlohmann::json;

constexpr double kMostElements = 1e18;
constexpr std::string_view kDeviceCopy = "Memcpy DtoD";
constexpr std::string_view kPeerCopy = "Memcpy PtoP";  // between GPUs

// Whole numbers of a list; nothing if the list holds anything else, or if their product is too
// large for a tensor.
std::optional<std::vector<std::int64_t>> extents_of(const json& list) {
  std::vector<std::int64_t> out;
  double product = 1.0;
  for (const json& each : list) {
    if (!each.is_number_integer()) return std::nullopt;
    const auto extent = each.get<std::int64_t>();
    if (extent < 0 || extent > kMaxExtent) return std::nullopt;
    if (extent > 0) product *= static_cast<double>(extent);
    out.push_back(extent);
  }
  if (product > kMostElements) return std::nullopt;
  return out;
}

const json* item_of(const json* list, std::size_t index) {
  return list != nullptr && list->is_array() && index < list->size() ? &(*list)[index] : nullptr;
}

std::optional<ProfiledTensor> tensor_of(const json* dims, const json* strides, const json* type) {
  if (dims == nullptr || !dims->is_array() || type == nullptr || !type->is_string()) {
    return std::nullopt;
  }
  const auto dtype = from_name<DType>(dtype_of_torch(type->get_ref<const std::string&>()));
  std::optional<std::vector<std::int64_t>> extents = extents_of(*dims);
  if (!dtype || !extents) return std::nullopt;
  ProfiledTensor tensor{.dims = *std::move(extents), .strides = {}, .dtype = *dtype};
  if (strides != nullptr && strides->is_array() && strides->size() == tensor.dims.size()) {
    // The largest stride is a number of elements that no dim bounds, so it stands alone.
    for (const json& stride : *strides) {
      const std::optional<std::vector<std::int64_t>> value = extents_of(json::array({stride}));
      if (!value) {
        tensor.strides.clear();
        break;
      }
      tensor.strides.push_back(value->front());
    }
  }
  return tensor;
}

ProfiledArgument argument_of(const json& args, std::size_t index) {
  ProfiledArgument argument;
  argument.tensor = tensor_of(item_of(json_member(args, "Input Dims"), index),
                              item_of(json_member(args, "Input Strides"), index),
                              item_of(json_member(args, "Input type"), index));
  if (const json* value = item_of(json_member(args, "Concrete Inputs"), index);
      value != nullptr && value->is_string()) {
    argument.value = value->get<std::string>();
  }
  return argument;
}

ProfiledOperator operator_of(const json& event) {
  ProfiledOperator op;
  op.name = event["name"].get<std::string>();
  const json& args = event["args"];
  const json* dims = json_member(args, "Input Dims");
  if (dims == nullptr || !dims->is_array()) return op;
  for (std::size_t i = 0; i < dims->size(); ++i) op.arguments.push_back(argument_of(args, i));
  return op;
}

std::optional<std::int64_t> external_id(const json& args) {
  const json* id = json_member(args, "External id");
  if (id == nullptr || !id->is_number_integer()) return std::nullopt;
  return id->get<std::int64_t>();
}

// What one call of an operator launched.
struct Call {
  const json* op = nullptr;        // null for a kernel without an operator
  std::string_view launched = {};  // the name of its longest kernel
  double longest_us = 0.0;
  double us = 0.0;
  double copied_bytes = 0.0;  // inside the device
  bool only_copies = true;
};

std::optional<MeasuredKernel> row_of(const Call& call) {
  if (call.only_copies && call.copied_bytes >= 1.0 && call.copied_bytes <= kMaxBytes / 2) {
    MeasuredKernel row;
    row.kernel = "copy";
    row.dtype = "u8";
    row.bytes = 2.0 * call.copied_bytes;
    return row;
  }
  if (call.op == nullptr) return std::nullopt;
  return kernel_of(operator_of(*call.op), call.launched);
}

bool is_complete(const json& event) {
  const json* phase = json_member(event, "ph");
  const json* name = json_member(event, "name");
  const json* args = json_member(event, "args");
  return phase != nullptr && *phase == "X" && name != nullptr && name->is_string() &&
         args != nullptr && args->is_object();
}

// Nothing for what is none of the device's work.
std::optional<DeviceEvent::Kind> kind_of(const json& event, std::string_view name) {
  using Kind = DeviceEvent::Kind;
  const json* category = json_member(event, "cat");
  if (category == nullptr) return std::nullopt;
  if (*category == "gpu_memset") return Kind::kFill;
  if (*category == "gpu_memcpy") {
    if (name.starts_with(kDeviceCopy)) return Kind::kCopy;
    return name.starts_with(kPeerCopy) ? Kind::kCollective : Kind::kHostCopy;
  }
  if (*category != "kernel") return std::nullopt;
  const bool is_collective =
      name.starts_with("nccl") || json_member(event["args"], "Collective name") != nullptr;
  return is_collective ? Kind::kCollective : Kind::kKernel;
}

}  // namespace

std::vector<DeviceEvent> device_events(const json& events, const JsonPlace& place) {
  std::unordered_map<std::int64_t, const json*> operators;
  for (const json& event : events) {
    const json* category = json_member(event, "cat");
    if (category == nullptr || *category != "cpu_op" || !is_complete(event)) continue;
    const std::optional<std::int64_t> id = external_id(event["args"]);
    if (!id) continue;
    const auto [found, is_new] = operators.emplace(*id, &event);
    // Traces of several ranks in one file use the same ids, which then tell nothing.
    if (!is_new) found->second = nullptr;
  }
  std::vector<DeviceEvent> out;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    if (!is_complete(event)) continue;
    const std::string_view name = event["name"].get_ref<const std::string&>();
    const std::optional<DeviceEvent::Kind> kind = kind_of(event, name);
    if (!kind) continue;
    const auto time = [&](const char* key, double min) {
      return json_number(json_required(event, key, place.at(i)), place.at(i).at(key),
                         {.min = min, .max = kMaxClockUs});
    };
    DeviceEvent& found = out.emplace_back();
    found = {.kind = *kind,
             .event = &event,
             .op = nullptr,
             .name = name,
             .begin_us = time("ts", -kMaxClockUs),
             .us = time("dur", 0.0)};
    const std::optional<std::int64_t> id = external_id(event["args"]);
    const auto op = id ? operators.find(*id) : operators.end();
    if (op != operators.end()) found.op = op->second;
    if (found.op != nullptr &&
        (*found.op)["name"].get_ref<const std::string&>().starts_with("symm_mem::")) {
      found.kind = DeviceEvent::Kind::kCollective;
    }
  }
  return out;
}

TracedKernels read_kineto_kernels(const json& events, const JsonPlace& place) {
  using Kind = DeviceEvent::Kind;
  std::vector<Call> calls;
  std::unordered_map<const json*, std::size_t> call_of;  // by the operator
  for (const DeviceEvent& event : device_events(events, place)) {
    // Copies from and to the host wait for the host.
    if (event.kind == Kind::kCollective || event.kind == Kind::kHostCopy) continue;
    std::size_t index = calls.size();
    if (event.op != nullptr) index = call_of.try_emplace(event.op, index).first->second;
    if (index == calls.size()) calls.push_back({.op = event.op});
    Call& call = calls[index];
    call.us += event.us;
    call.only_copies = call.only_copies && event.kind == Kind::kCopy;
    if (event.us >= call.longest_us) {
      call.longest_us = event.us;
      call.launched = event.name;
    }
    const json* bytes = json_member((*event.event)["args"], "bytes");
    if (event.kind == Kind::kCopy && bytes != nullptr && bytes->is_number()) {
      call.copied_bytes += bytes->get<double>();
    }
  }
  TracedKernels traced;
  for (const Call& call : calls) {
    traced.total_us += call.us;
    std::optional<MeasuredKernel> row = row_of(call);
    if (!row || call.us < kMinTimeUs || call.us > kMaxTimeUs) {
      traced.left_out_us[call.op == nullptr ? std::string()
                                            : (*call.op)["name"].get<std::string>()] += call.us;
      continue;
    }
    row->time_us = call.us;
    traced.calls.push_back(*std::move(row));
  }
  return traced;
}

std::vector<MeasuredKernel> measured_kernels(std::span<const MeasuredKernel> calls) {
  const auto key_of = [](const MeasuredKernel& row) {
    return std::tuple(row.kernel, row.dtype, row.batch, row.rows, row.columns, row.inner,
                      row.row_multiple, row.attention, row.bytes);
  };
  std::map<decltype(key_of(calls.front())), std::vector<double>> times;
  std::vector<MeasuredKernel> rows;
  for (const MeasuredKernel& call : calls) {
    std::vector<double>& all = times[key_of(call)];
    if (all.empty()) rows.push_back(call);
    all.push_back(call.time_us);
  }
  for (MeasuredKernel& row : rows) {
    const std::vector<double>& all = times[key_of(row)];
    row.time_us = percentile(all, 0.5);
    row.iterations = std::ssize(all);
    if (all.size() < 2) continue;
    row.p5_us = percentile(all, 0.05);
    row.p50_us = row.time_us;
    row.p95_us = percentile(all, 0.95);
  }
  return rows;
}

std::string left_out_text(const TracedKernels& traced) {
  constexpr std::size_t kNamed = 4;
  if (traced.left_out_us.empty() || traced.total_us <= 0.0) return "";
  std::vector<std::pair<double, std::string>> operators;
  double all_us = 0.0;
  double unknown_us = 0.0;
  for (const auto& [name, us] : traced.left_out_us) {
    all_us += us;
    if (name.empty()) {
      unknown_us = us;
    } else {
      operators.emplace_back(-us, name);
    }
  }
  std::sort(operators.begin(), operators.end());
  const auto percent = [&](double us) {
    return format_fixed(100.0 * us / traced.total_us, 1) + " %";
  };
  std::string text = percent(all_us) + " of the time of kernels is left out: ";
  if (unknown_us > 0.0) {
    text += percent(unknown_us) + " in kernels whose operator the trace does not have";
    if (!operators.empty()) text += ", and ";
  }
  if (!operators.empty()) text += "operators that have no price or no shapes here: ";
  for (std::size_t i = 0; i < std::min(kNamed, operators.size()); ++i) {
    text += (i == 0 ? "" : ", ") + operators[i].second + " " + percent(-operators[i].first);
  }
  if (operators.size() > kNamed) {
    const std::size_t more = operators.size() - kNamed;
    text += " and " + std::to_string(more) + (more == 1 ? " other" : " others");
  }
  return text;
}

}  // namespace shardlab
