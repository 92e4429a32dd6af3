#include "costmodel/measurements/chakra_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/chakra_wire.h"
#include "costmodel/measurements/nccl_tests_names.h"

namespace shardlab {
namespace {

constexpr std::string_view kVersion =
    "0.0.4";  // version of the schema, as Chakra's own tools write it
constexpr std::int64_t kMaxRank = std::int64_t{1} << 30;

// Values of the schema's NodeType.
constexpr std::uint64_t kComputeNode = 4;
constexpr std::uint64_t kSendNode = 5;
constexpr std::uint64_t kReceiveNode = 6;
constexpr std::uint64_t kCollectiveNode = 7;

struct CommType {
  std::uint64_t number;
  std::string_view name;
  std::optional<Collective> ours;
};
// The schema's CollectiveCommType, by number. REDUCE_SCATTER_BLOCK, like our reduce_scatter, has
// parts of equal size.
constexpr std::array<CommType, 10> kCommTypes = {
    {{0, "ALL_REDUCE", Collective::kAllReduce},
     {1, "REDUCE", std::nullopt},
     {2, "ALL_GATHER", Collective::kAllGather},
     {3, "GATHER", std::nullopt},
     {4, "SCATTER", Collective::kScatter},
     {5, "BROADCAST", Collective::kBroadcast},
     {6, "ALL_TO_ALL", Collective::kAllToAll},
     {7, "REDUCE_SCATTER", Collective::kReduceScatter},
     {8, "REDUCE_SCATTER_BLOCK", Collective::kReduceScatter},
     {9, "BARRIER", std::nullopt}}};

// The type of the first tensor among the inputs: f32 for "['Tensor(float)', 'Int']".
std::string dtype_within(std::string_view types) {
  constexpr std::string_view kTensor = "Tensor(";
  for (std::size_t at = types.find(kTensor); at != std::string_view::npos;
       at = types.find(kTensor, at + 1)) {
    const std::size_t begin = at + kTensor.size();
    const std::size_t end = types.find(')', begin);
    if (end == std::string_view::npos) break;
    const std::string_view ours = dtype_of_torch(types.substr(begin, end - begin));
    if (!ours.empty()) return std::string(ours);
  }
  return "";
}

std::optional<std::uint64_t> integer_of(const ChakraMessage& node, std::string_view name) {
  const ChakraAttribute* found = node.find(name);
  return found == nullptr ? std::nullopt : found->integer();
}
std::optional<double> real_of(const ChakraMessage& node, std::string_view name) {
  const ChakraAttribute* found = node.find(name);
  return found == nullptr ? std::nullopt : found->real();
}

// The position of a message, for errors.
struct Place {
  std::string_view file;
  const std::string& pointer;
  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(file, pointer, message);
  }
};

bool is_whole_run(std::string_view group) {
  return group.empty() || group == "0" || group == "default_pg";
}

class ChakraReader {
 public:
  explicit ChakraReader(CollectiveTrace& trace) : trace_(trace) {}
  // Returns nothing if the node is not a communication, or if it can't be priced (the reason is
  // then counted in left_out).
  [[nodiscard]] std::optional<TracedCall> call_of(const ChakraMessage& node, const Place& place);

 private:
  bool find_group(const ChakraMessage& node, const Place& place, TracedCall& call);
  void leave_out(const std::string& reason) { ++trace_.left_out[reason]; }

  CollectiveTrace& trace_;
};

std::int64_t rank_of(std::uint64_t value, const Place& place, std::string_view what) {
  if (value > static_cast<std::uint64_t>(kMaxRank)) {
    place.fail(std::string(what) + ": found " + std::to_string(value) + "; valid: at most " +
               std::to_string(kMaxRank));
  }
  return static_cast<std::int64_t>(value);
}

// The text of an attribute that is shown to users. Only printable ASCII is accepted, since JSON
// cannot hold arbitrary bytes.
std::string printable_text(const ChakraAttribute& attribute, const Place& place) {
  for (const char c : attribute.text()) {
    if (c < ' ' || c > '~') {
      place.fail(attribute.name + ": found a byte that is not printable ASCII");
    }
  }
  return std::string(attribute.text());
}

bool ChakraReader::find_group(const ChakraMessage& node, const Place& place, TracedCall& call) {
  TracedGroup& group = call.group;
  const ChakraAttribute* name = node.find("pg_name");
  if (name != nullptr) group.name = printable_text(*name, place);
  const auto source = integer_of(node, "comm_src");
  const auto target = integer_of(node, "comm_dst");
  if (call.collective == Collective::kSendRecv && source && target) {
    group.ranks = {rank_of(*source, place, "comm_src"), rank_of(*target, place, "comm_dst")};
    group.size = 2;
    return true;
  }
  if (const ChakraAttribute* ranks = node.find("ranks");
      ranks != nullptr && ranks->is_list && !ranks->integers.empty()) {
    for (const std::uint64_t rank : ranks->integers) {
      group.ranks.push_back(rank_of(rank, place, "ranks"));
    }
    group.size = std::ssize(group.ranks);
    return true;
  }
  if (const auto size = integer_of(node, "group_size")) {
    group.size = rank_of(*size, place, "group_size");
    // shardlab writes first_rank and rank_stride for groups that are too large to list.
    group.first = rank_of(integer_of(node, "first_rank").value_or(0), place, "first_rank");
    group.stride = rank_of(integer_of(node, "rank_stride").value_or(1), place, "rank_stride");
    if (group.size < 1 || group.stride < 1) {
      place.fail("found a group of " + std::to_string(group.size) + " ranks, " +
                 std::to_string(group.stride) + " apart; valid: at least 1 rank, at least 1 apart");
    }
    return true;
  }
  if (is_whole_run(group.name)) return true;
  leave_out("the trace does not say which ranks the group " + in_quotes(group.name) + " has");
  return false;
}

std::optional<TracedCall> ChakraReader::call_of(const ChakraMessage& node, const Place& place) {
  if (node.type != kCollectiveNode && node.type != kSendNode && node.type != kReceiveNode) {
    return std::nullopt;
  }
  // A node with is_cpu_op is the host's part of launching the communication.
  if (integer_of(node, "is_cpu_op").value_or(0) != 0) return std::nullopt;
  TracedCall call;
  if (node.type == kCollectiveNode) {
    const auto number = integer_of(node, "comm_type");
    if (!number) place.fail("a COMM_COLL_NODE has no attribute comm_type");
    if (*number >= kCommTypes.size()) {
      place.fail("comm_type: found " + std::to_string(*number) + "; valid: 0 to 9");
    }
    const CommType& type = kCommTypes[*number];
    if (!type.ours) {
      leave_out("no cost model prices " + std::string(type.name));
      return std::nullopt;
    }
    call.collective = *type.ours;
  } else {
    call.collective = Collective::kSendRecv;
  }
  call.dtype = dtype_within(node.inputs ? std::string_view(node.inputs->types) : "");
  if (call.dtype.empty()) call.dtype = "u8";
  const auto size = integer_of(node, "comm_size");
  if (!size) place.fail("a communication node has no attribute comm_size");
  call.bytes = static_cast<double>(*size);
  call.is_input = call.collective == Collective::kAllGather;
  if (const auto exact = real_of(node, "full_bytes")) {
    call.bytes = *exact;
    call.is_input = false;
  }
  if (!(call.bytes >= 0.0 && call.bytes <= kMaxBytes)) {
    place.fail("comm_size: found " + format_double(call.bytes) + " bytes; valid: 0 to 1e18");
  }
  call.duration_us = real_of(node, "duration_us").value_or(static_cast<double>(node.duration_us));
  if (!(call.duration_us > 0.0)) {
    leave_out("the node has no duration: it was written for a simulator, not measured");
    return std::nullopt;
  }
  if (!find_group(node, place, call)) return std::nullopt;
  return call;
}

// The rank that the name of a file ends in: 12 for "run.12.et".
std::optional<std::int64_t> rank_of_file(std::string_view file) {
  const std::string name = set_name_of(file);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  std::int64_t rank = 0;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + dot + 1, end, rank);
  if (error != std::errc() || last != end || rank < 0 || rank > kMaxRank) return std::nullopt;
  return rank;
}

ChakraAttribute whole(std::string_view name, std::uint64_t value) {
  return {.name = std::string(name), .type = ChakraType::kInt64, .integers = {value}};
}
ChakraAttribute real(std::string_view name, double value) {
  return {.name = std::string(name), .type = ChakraType::kDouble, .reals = {value}};
}
ChakraAttribute text(std::string_view name, const std::string& value) {
  return {.name = std::string(name), .type = ChakraType::kString, .texts = {value}};
}

// Adds the inputs and the attributes of a collective.
void describe(const ChakraNode& node, ChakraMessage& out) {
  out.inputs = ChakraIo{.types = "['Tensor(" + std::string(torch_name_of(node.dtype)) + ")']"};
  const auto type = std::find_if(kCommTypes.begin(), kCommTypes.end(), [&](const CommType& each) {
    return each.ours == node.collective;
  });
  if (type != kCommTypes.end()) out.attributes.push_back(whole("comm_type", type->number));
  const TracedGroup& group = node.group;
  const double input = node.collective == Collective::kAllGather
                           ? node.full_bytes / static_cast<double>(group.size)
                           : node.full_bytes;
  out.attributes.push_back(whole("comm_size", static_cast<std::uint64_t>(std::llround(input))));
  out.attributes.push_back(real("full_bytes", node.full_bytes));
  out.attributes.push_back(text("pg_name", group.name));
  if (!group.ranks.empty() || group.stride > 0) {
    out.attributes.push_back(whole("group_size", static_cast<std::uint64_t>(group.size)));
  }
  if (!group.ranks.empty()) {
    ChakraAttribute ranks{.name = "ranks", .type = ChakraType::kInt64, .is_list = true};
    ranks.integers.assign(group.ranks.begin(), group.ranks.end());
    out.attributes.push_back(std::move(ranks));
  } else if (group.stride > 0) {
    out.attributes.push_back(whole("first_rank", static_cast<std::uint64_t>(group.first)));
    out.attributes.push_back(whole("rank_stride", static_cast<std::uint64_t>(group.stride)));
  }
}

}  // namespace

bool is_chakra_trace(std::string_view text) {
  if (text.empty()) return false;
  try {
    WireReader reader(text, "");
    WireReader metadata = reader.message();
    while (!metadata.at_end()) {
      const WireField field = metadata.field();
      if (field.number > 2 || field.type != WireType::kBytes) return false;
      metadata.skip(field);
    }
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

CollectiveTrace read_chakra_trace(std::string_view text, std::string_view file) {
  return read_chakra_trace(read_chakra_wire(text, file), file);
}

CollectiveTrace read_chakra_trace(const ChakraMessages& messages, std::string_view file) {
  CollectiveTrace trace;
  trace.file = std::string(file);
  trace.kind = "Chakra";
  trace.source = "Chakra execution trace";
  trace.rank = rank_of_file(trace.file);
  // shardlab's traces name the topology on which the run was simulated.
  const Place head{file, messages.metadata.place};
  for (const ChakraAttribute& about : messages.metadata.attributes) {
    const std::optional<std::uint64_t> number = about.integer();
    if (about.name == "topology") trace.gpu = printable_text(about, head);
    if (about.name == "devices_per_host" && number) {
      trace.devices_per_host = rank_of(*number, head, "devices_per_host");
      trace.source = "shardlab simulate";
    }
    if (about.name == "world_size" && number) {
      trace.world_size = rank_of(*number, head, "world_size");
    }
  }
  ChakraReader reader(trace);
  std::vector<std::pair<std::uint64_t, TracedCall>> started;
  for (const ChakraMessage& node : messages.nodes) {
    if (auto call = reader.call_of(node, {file, node.place})) {
      started.emplace_back(node.start_us, *std::move(call));
    }
  }
  std::stable_sort(started.begin(), started.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [start, call] : started) trace.calls.push_back(std::move(call));
  return trace;
}

ChakraMetadata chakra_message(const ChakraRun& run) {
  return {
      .version = std::string(kVersion),
      .attributes = {text("topology", run.topology),
                     whole("devices_per_host", static_cast<std::uint64_t>(run.devices_per_host)),
                     whole("world_size", static_cast<std::uint64_t>(run.world_size))}};
}

ChakraMessage chakra_message(const ChakraNode& node) {
  const bool is_collective = node.collective != Collective::kLocal;
  // In Chakra, sends and receives have node types of their own; they are not collectives.
  const bool is_send = node.collective == Collective::kSendRecv;
  ChakraMessage out{.id = node.id,
                    .name = node.name,
                    .type = is_send         ? kSendNode
                            : is_collective ? kCollectiveNode
                                            : kComputeNode,
                    .data_deps = node.after,
                    .start_us = static_cast<std::uint64_t>(std::llround(node.start_us)),
                    .duration_us = static_cast<std::uint64_t>(std::llround(node.duration_us))};
  out.attributes.push_back(real("duration_us", node.duration_us));
  if (is_collective) describe(node, out);
  out.attributes.push_back({.name = "is_cpu_op", .type = ChakraType::kBool, .integers = {0}});
  return out;
}

std::string chakra_metadata(const ChakraRun& run) { return chakra_wire_text(chakra_message(run)); }
std::string chakra_text(const ChakraNode& node) { return chakra_wire_text(chakra_message(node)); }

}  // namespace shardlab
