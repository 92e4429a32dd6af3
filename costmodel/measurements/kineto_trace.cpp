#include "costmodel/measurements/kineto_trace.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_tests_names.h"

namespace shardlab {
namespace {

using nlohmann::json;

constexpr double kMaxElements = 1e18;
constexpr std::string_view kGloo = "gloo:";
constexpr std::int64_t kListedRanks = 30;  // PyTorch's ParamCommsUtils shortens longer lists

std::string text_or_empty(const json& object, const char* key, const JsonPlace& place) {
  const json* found = json_member(object, key);
  return found == nullptr ? std::string() : json_text(*found, place.at(key));
}

std::int64_t integer_or_zero(const json& object, const char* key, const JsonPlace& place) {
  const json* found = json_member(object, key);
  return found == nullptr ? 0 : json_integer(*found, place.at(key), 0, kMaxTracedRanks);
}

// The groups of distributedInfo.pg_config, by name.
using Groups = std::map<std::string, TracedGroup>;

Groups read_groups(const json& list, const JsonPlace& place) {
  Groups groups;
  static_cast<void>(json_array(list, place));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace group_place = place.at(i);
    TracedGroup group;
    group.name =
        json_text(json_required(list[i], "pg_name", group_place), group_place.at("pg_name"));
    const json* ranks = json_member(list[i], "ranks");
    if (ranks == nullptr) continue;
    const JsonPlace ranks_place = group_place.at("ranks");
    for (const json& rank : json_array(*ranks, ranks_place)) {
      group.ranks.push_back(
          json_integer(rank, ranks_place.at(group.ranks.size()), 0, kMaxTracedRanks));
    }
    group.size = static_cast<std::int64_t>(group.ranks.size());
    // An entry without ranks means the group of all ranks.
    if (group.size > 0) groups[group.name] = std::move(group);
  }
  return groups;
}

// Reads a list such as "[0, 2, ..., 6]" into the group. Returns false if the list leaves out ranks
// that do not follow from the others.
bool read_ranks(const std::string& text, const JsonPlace& place, TracedGroup& group) {
  TextCursor cursor("ranks", text);
  std::vector<std::int64_t> before;
  std::optional<std::int64_t> last;
  bool is_short = false;
  try {
    cursor.expect("[", "\"[\"");
    while (!cursor.take("]")) {
      if (!before.empty() || is_short) cursor.expect(",", "\",\" or \"]\"");
      if (!is_short && cursor.take("...")) {
        is_short = true;
        continue;
      }
      const std::int64_t rank = cursor.integer("a rank", 0, kMaxTracedRanks);
      if (last) cursor.fail("\"]\"");
      if (is_short) {
        last = rank;
      } else {
        before.push_back(rank);
      }
    }
    if (!cursor.at_end()) cursor.fail("nothing more");
  } catch (const TextError& error) {
    place.fail(error.what());
  }
  if (!is_short) {
    if (std::ssize(before) != group.size) {
      place.fail("found " + std::to_string(before.size()) +
                 " ranks; valid: " + std::to_string(group.size) + ", the \"Group size\"");
    }
    group.ranks = std::move(before);
    return true;
  }
  if (before.size() < 2) return false;
  group.first = before[0];
  group.stride = before[1] - before[0];
  for (std::size_t i = 1; i < before.size(); ++i) {
    if (before[i] - before[i - 1] != group.stride) return false;
  }
  return group.stride > 0 && (!last || *last == group.first + group.stride * (group.size - 1));
}

struct KinetoReader {
  Groups groups;
  CollectiveTrace trace;

  void leave_out(const std::string& reason) { ++trace.left_out[reason]; }

  // Returns nothing if the call can't be priced; the reason is then counted in left_out.
  std::optional<TracedCall> call_of(const std::string& name) {
    const bool is_pair = name == "send" || name == "recv";
    const auto kind = is_pair ? std::optional(Collective::kSendRecv) : collective_within(name);
    if (!kind) {
      leave_out("no cost model prices " + in_quotes(name));
      return std::nullopt;
    }
    TracedCall call;
    call.collective = *kind;
    return call;
  }
  bool find_dtype(const std::string& torch_dtype, TracedCall& call) {
    call.dtype = std::string(dtype_of_torch(torch_dtype));
    if (call.dtype.empty()) {
      leave_out("the element type " + in_quotes(torch_dtype) + " is unknown");
      return false;
    }
    return true;
  }

  std::optional<TracedCall> nccl_call(const json& args, const JsonPlace& place);
  std::optional<TracedCall> gloo_call(const std::string& name, const json& args,
                                      const JsonPlace& place);
  bool find_group(const json& args, const JsonPlace& place, TracedCall& call);
};

bool KinetoReader::find_group(const json& args, const JsonPlace& place, TracedCall& call) {
  TracedGroup& group = call.group;
  group.size = json_integer(json_required(args, "Group size", place), place.at("Group size"), 1,
                            kMaxTracedRanks);
  group.name = text_or_empty(args, "Process Group Name", place);
  const json* source = json_member(args, "Src Rank");
  const json* target = json_member(args, "Dst Rank");
  if (call.collective == Collective::kSendRecv && source != nullptr && target != nullptr) {
    group.ranks = {json_integer(*source, place.at("Src Rank"), 0, kMaxTracedRanks),
                   json_integer(*target, place.at("Dst Rank"), 0, kMaxTracedRanks)};
    group.size = 2;
    return true;
  }
  if (const auto known = groups.find(group.name);
      known != groups.end() && known->second.size == group.size) {
    group = known->second;
    return true;
  }
  const std::string ranks = text_or_empty(args, "Process Group Ranks", place);
  if (ranks.empty() || ranks == "[]") return true;
  if (read_ranks(ranks, place.at("Process Group Ranks"), group)) return true;
  leave_out("\"Process Group Ranks\" is shortened, and pg_config does not list the group");
  return false;
}

std::optional<TracedCall> KinetoReader::nccl_call(const json& args, const JsonPlace& place) {
  std::optional<TracedCall> call = call_of(text_or_empty(args, "Collective name", place));
  if (!call || !find_dtype(text_or_empty(args, "dtype", place), *call) ||
      !find_group(args, place, *call)) {
    return std::nullopt;
  }
  const auto elements = [&](const char* key) {
    return json_number(json_required(args, key, place), place.at(key),
                       {.min = 0.0, .max = kMaxElements});
  };
  double out = elements("Out msg nelems");
  // Only the root of a scatter has the whole buffer.
  if (call->collective == Collective::kScatter) out *= static_cast<double>(call->group.size);
  call->bytes =
      std::max(elements("In msg nelems"), out) * static_cast<double>(itemsize_of(call->dtype));
  // Traces of `shardlab simulate` state the bytes, which stay exact even if a split leaves a
  // fraction of an element.
  if (const json* bytes = json_member(args, "full_bytes")) {
    call->bytes = json_number(*bytes, place.at("full_bytes"), {.min = 0.0, .max = kMaxElements});
  }
  if (const json* number = json_member(args, "Seq")) {
    call->sequence = json_integer(*number, place.at("Seq"), -1, std::int64_t{1} << 62);
  }
  if (const json* rank = json_member(args, "Global rank")) {
    call->rank = json_integer(*rank, place.at("Global rank"), 0, kMaxTracedRanks);
  }
  return call;
}

// The number of elements of one tensor, or of all tensors of a list.
double elements_of(const json& dims, const JsonPlace& place) {
  static_cast<void>(json_array(dims, place));
  double sum = 0.0;
  double product = 1.0;
  bool is_list = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is_array()) {
      is_list = true;
      sum += elements_of(dims[i], place.at(i));
    } else {
      product *= json_number(dims[i], place.at(i), {.min = 0.0, .max = kMaxElements});
    }
  }
  return is_list ? sum : product;
}

std::optional<TracedCall> KinetoReader::gloo_call(const std::string& name, const json& args,
                                                  const JsonPlace& place) {
  std::optional<TracedCall> call = call_of(name);
  if (!call) return std::nullopt;
  const json* dims = json_member(args, "Input Dims");
  const json* types = json_member(args, "Input type");
  if (dims == nullptr || types == nullptr) {
    leave_out(args.contains("Input Dims")
                  ? "the rank has no input, as in a scatter from another rank"
                  : "the event has no \"Input Dims\" or \"Input type\": the profiler ran without "
                    "record_shapes=True");
    return std::nullopt;
  }
  const JsonPlace types_place = place.at("Input type");
  const JsonPlace dims_place = place.at("Input Dims");
  if (json_array(*types, types_place).empty() || json_array(*dims, dims_place).empty()) {
    leave_out(name + " has no input");
    return std::nullopt;
  }
  if (!find_dtype(json_text((*types)[0], types_place.at(0)), *call)) return std::nullopt;
  if (std::ranges::any_of(*types, [&](const json& type) { return type != (*types)[0]; })) {
    leave_out(name + " has inputs of several dtypes");
    return std::nullopt;
  }
  if (call->collective == Collective::kSendRecv) {
    leave_out("gloo's annotations do not say which ranks send and receive");
    return std::nullopt;
  }
  if (groups.size() > 1) {
    leave_out("gloo's annotations do not say which of the " + std::to_string(groups.size()) +
              " groups made the call");
    return std::nullopt;
  }
  if (!groups.empty()) call->group = groups.begin()->second;
  // A call with a list has an entry for each of its tensors.
  call->bytes = elements_of(*dims, dims_place) * static_cast<double>(itemsize_of(call->dtype));
  call->is_input = call->collective == Collective::kAllGather;
  return call;
}

}  // namespace

bool is_kineto_trace(const json& value) {
  return value.is_object() && value.contains("traceEvents");
}

std::string_view kineto_name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return "_allgather_base";
    case Collective::kAllReduce:
      return "allreduce";
    case Collective::kReduceScatter:
      return "_reduce_scatter_base";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kScatter:
      return "scatter";
    case Collective::kSendRecv:
      return "send";
    case Collective::kLocal:
      break;
  }
  return "";
}

std::string ranks_text(const TracedGroup& group) {
  const auto rank = [&](std::int64_t i) {
    return std::to_string(group.ranks.empty() ? group.first + i * group.stride
                                              : group.ranks[to_index(i)]);
  };
  if (group.ranks.empty() && group.stride == 0) return "[" + rank(0) + ", ...]";
  std::string text = "[";
  const bool is_short = group.size > kListedRanks;
  for (std::int64_t i = 0; i < (is_short ? kListedRanks - 1 : group.size); ++i) {
    text += (i == 0 ? "" : ", ") + rank(i);
  }
  return text + (is_short ? ", ..., " + rank(group.size - 1) : "") + "]";
}

CollectiveTrace read_kineto_trace(const json& value, const JsonPlace& place) {
  KinetoReader reader;
  CollectiveTrace& trace = reader.trace;
  trace.file = place.file;
  trace.kind = "Kineto";
  trace.host = text_or_empty(value, "host_name", place);
  std::string backend = "NCCL";
  if (const json* info = json_member(value, "distributedInfo")) {
    const JsonPlace info_place = place.at("distributedInfo");
    if (const std::string named = text_or_empty(*info, "backend", info_place); !named.empty()) {
      backend = named;
    }
    if (json_member(*info, "rank") != nullptr) {
      trace.rank = integer_or_zero(*info, "rank", info_place);
    }
    trace.world_size = integer_or_zero(*info, "world_size", info_place);
    trace.nccl_version = text_or_empty(*info, "nccl_version", info_place);
    if (const json* list = json_member(*info, "pg_config")) {
      reader.groups = read_groups(*list, info_place.at("pg_config"));
    }
  }
  trace.source = "trace of PyTorch's profiler, " + backend;
  if (const json* devices = json_member(value, "deviceProperties")) {
    const JsonPlace devices_place = place.at("deviceProperties");
    // A list of one device says nothing about the host, since each rank may see only its own
    // device.
    const std::int64_t count = std::ssize(json_array(*devices, devices_place));
    if (count > 1) trace.devices_per_host = count;
    if (!devices->empty()) trace.gpu = text_or_empty((*devices)[0], "name", devices_place.at(0));
  }
  if (trace.gpu.empty() && backend == "gloo") trace.gpu = "CPU";
  // `shardlab simulate --trace` adds these keys.
  if (const json* about = json_member(value, "otherData")) {
    const JsonPlace data_place = place.at("otherData");
    if (const std::int64_t devices = integer_or_zero(*about, "devices_per_host", data_place)) {
      trace.devices_per_host = devices;
      trace.gpu = text_or_empty(*about, "topology", data_place);
      trace.source = "shardlab simulate";
    }
  }
  const JsonPlace events_place = place.at("traceEvents");
  const json& events = json_array(json_required(value, "traceEvents", place), events_place);
  std::vector<std::pair<double, TracedCall>> started;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const json* args = json_member(event, "args");
    const json* category = json_member(event, "cat");
    const json* name = json_member(event, "name");
    const json* phase = json_member(event, "ph");
    if (args == nullptr || category == nullptr || name == nullptr || phase == nullptr ||
        !name->is_string() || *phase != "X") {
      continue;
    }
    const std::string& named = name->get_ref<const std::string&>();
    const bool is_kernel = *category == "kernel";
    const bool is_nccl = is_kernel && json_member(*args, "Collective name") != nullptr;
    if (is_kernel && !is_nccl && named.starts_with("nccl")) {
      reader.leave_out("the trace does not have the \"Collective name\" of a kernel of NCCL");
    }
    if (!is_nccl && !(*category == "user_annotation" && named.starts_with(kGloo))) continue;
    const JsonPlace event_place = events_place.at(i);
    std::optional<TracedCall> call =
        is_nccl ? reader.nccl_call(*args, event_place.at("args"))
                : reader.gloo_call(named.substr(kGloo.size()), *args, event_place.at("args"));
    if (!call) continue;
    call->duration_us = json_number(json_required(event, "dur", event_place), event_place.at("dur"),
                                    {.min = 0.0, .max = 1e15});
    const double ts = json_number(json_required(event, "ts", event_place), event_place.at("ts"));
    started.emplace_back(ts, *std::move(call));
  }
  std::stable_sort(started.begin(), started.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [ts, call] : started) trace.calls.push_back(std::move(call));
  trace.kernels = read_kineto_kernels(events, events_place);
  return std::move(reader.trace);
}

}  // namespace shardlab
