#include "costmodel/measurements/chakra_trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "costmodel/error.h"
#include "costmodel/measurements/chakra_wire.h"
#include "costmodel/measurements/nccl_tests_names.h"
#include "costmodel/text.h"

namespace shardlab {
namespace {

constexpr std::string_view kVersion = "0.0.4";  // of the schema, as Chakra's own tools write it
constexpr std::int64_t kMaxRank = std::int64_t{1} << 30;
constexpr double kMaxBytes = 1e18;

// NodeType.
constexpr std::uint64_t kComputeNode = 4;
constexpr std::uint64_t kSendNode = 5;
constexpr std::uint64_t kReceiveNode = 6;
constexpr std::uint64_t kCollectiveNode = 7;

struct CommType {
  std::uint64_t number;
  std::string_view name;
  std::optional<Collective> ours;
};
// CollectiveCommType. A reduce_scatter "block" has equal parts: ours.
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

struct Attribute {
  std::string_view name;
  std::optional<std::uint64_t> integer;  // of any integral type, or bool
  std::optional<double> real;
  std::string_view text;
  std::vector<std::uint64_t> list;
};

std::uint64_t unzigzag(std::uint64_t value) { return (value >> 1U) ^ (~(value & 1U) + 1U); }

std::vector<std::uint64_t> read_list(WireReader list) {
  std::vector<std::uint64_t> values;
  while (!list.at_end()) {
    const WireField field = list.field();
    if (field.number != 1) {
      list.skip(field);
    } else if (field.type == WireType::kBytes) {
      WireReader packed = list.message(field, "values");
      while (!packed.at_end()) values.push_back(packed.varint());
    } else {
      values.push_back(list.varint(field, "values"));
    }
  }
  return values;
}

Attribute read_attribute(WireReader reader) {
  Attribute out;
  while (!reader.at_end()) {
    const WireField field = reader.field();
    switch (field.number) {
      case 1:
        out.name = reader.text(field, "AttributeProto.name");
        break;
      case 3:
        out.real = std::bit_cast<double>(reader.fixed64(field, "double_val"));
        break;
      case 5:
        out.real = static_cast<double>(std::bit_cast<float>(reader.fixed32(field, "float_val")));
        break;
      case 7:
      case 9:
      case 11:
      case 13:
      case 27:
        out.integer = reader.varint(field, "an integer");
        break;
      case 15:
      case 17:
        out.integer = unzigzag(reader.varint(field, "an integer"));
        break;
      case 19:
      case 23:
        out.integer = reader.fixed32(field, "a fixed integer");
        break;
      case 21:
      case 25:
        out.integer = reader.fixed64(field, "a fixed integer");
        break;
      case 8:
      case 10:
      case 12:
      case 14:
        out.list = read_list(reader.message(field, "a list"));
        break;
      case 29:
        out.text = reader.text(field, "string_val");
        break;
      default:
        reader.skip(field);
    }
  }
  return out;
}

// The first type that a tensor of the inputs has: "['Tensor(float)', 'Int']" is f32.
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

struct Node {
  std::uint64_t type = 0;
  std::uint64_t start_us = 0;
  double duration_us = 0.0;
  std::string dtype;
  std::vector<Attribute> attributes;

  [[nodiscard]] const Attribute* find(std::string_view name) const {
    for (const Attribute& attribute : attributes) {
      if (attribute.name == name) return &attribute;
    }
    return nullptr;
  }
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view name) const {
    const Attribute* found = find(name);
    return found == nullptr ? std::nullopt : found->integer;
  }
  [[nodiscard]] std::optional<double> real(std::string_view name) const {
    const Attribute* found = find(name);
    return found == nullptr ? std::nullopt : found->real;
  }
};

Node read_node(WireReader reader) {
  Node node;
  while (!reader.at_end()) {
    const WireField field = reader.field();
    switch (field.number) {
      case 3:
        node.type = reader.varint(field, "Node.type");
        break;
      case 6:
        node.start_us = reader.varint(field, "Node.start_time_micros");
        break;
      case 7:
        node.duration_us = static_cast<double>(reader.varint(field, "Node.duration_micros"));
        break;
      case 8: {
        WireReader inputs = reader.message(field, "Node.inputs");
        while (!inputs.at_end()) {
          const WireField inner = inputs.field();
          if (inner.number == 3) {
            node.dtype = dtype_within(inputs.text(inner, "IOInfo.types"));
          } else {
            inputs.skip(inner);
          }
        }
        break;
      }
      case 10:
        node.attributes.push_back(read_attribute(reader.message(field, "Node.attr")));
        break;
      default:
        reader.skip(field);
    }
  }
  return node;
}

bool is_whole_run(std::string_view group) {
  return group.empty() || group == "0" || group == "default_pg";
}

class Reader {
 public:
  Reader(std::string_view file, CollectiveTrace& trace) : file_(file), trace_(trace) {}
  // Nothing where the node is no communication, or (the reason is counted) can't be priced.
  [[nodiscard]] std::optional<TracedCall> call_of(const Node& node, const WireReader& place);

 private:
  bool find_group(const Node& node, const WireReader& place, TracedCall& call);
  void leave_out(const std::string& reason) { ++trace_.left_out[reason]; }

  std::string_view file_;
  CollectiveTrace& trace_;
};

std::int64_t rank_of(std::uint64_t value, const WireReader& place, std::string_view what) {
  if (value > static_cast<std::uint64_t>(kMaxRank)) {
    place.fail(std::string(what) + ": found " + std::to_string(value) + "; valid: at most " +
               std::to_string(kMaxRank));
  }
  return static_cast<std::int64_t>(value);
}

// A name that is shown: of any other bytes no JSON can be made.
std::string name_of(const Attribute& attribute, const WireReader& place) {
  for (const char c : attribute.text) {
    if (c < ' ' || c > '~') {
      place.fail(std::string(attribute.name) + ": found a byte that is no printable ASCII");
    }
  }
  return std::string(attribute.text);
}

bool Reader::find_group(const Node& node, const WireReader& place, TracedCall& call) {
  TracedGroup& group = call.group;
  const Attribute* name = node.find("pg_name");
  if (name != nullptr) group.name = name_of(*name, place);
  const auto source = node.integer("comm_src");
  const auto target = node.integer("comm_dst");
  if (call.collective == Collective::kSendRecv && source && target) {
    group.ranks = {rank_of(*source, place, "comm_src"), rank_of(*target, place, "comm_dst")};
    group.size = 2;
    return true;
  }
  if (const Attribute* ranks = node.find("ranks"); ranks != nullptr && !ranks->list.empty()) {
    for (const std::uint64_t rank : ranks->list) {
      group.ranks.push_back(rank_of(rank, place, "ranks"));
    }
    group.size = std::ssize(group.ranks);
    return true;
  }
  if (const auto size = node.integer("group_size")) {
    group.size = rank_of(*size, place, "group_size");
    // Ours, of a group too large to list.
    group.first = rank_of(node.integer("first_rank").value_or(0), place, "first_rank");
    group.stride = rank_of(node.integer("rank_stride").value_or(1), place, "rank_stride");
    if (group.size < 1 || group.stride < 1) {
      place.fail("found a group of " + std::to_string(group.size) + " ranks " +
                 std::to_string(group.stride) + " apart; valid: at least 1");
    }
    return true;
  }
  if (is_whole_run(group.name)) return true;
  leave_out("nothing says which ranks the group " + in_quotes(group.name) + " has");
  return false;
}

std::optional<TracedCall> Reader::call_of(const Node& node, const WireReader& place) {
  if (node.type != kCollectiveNode && node.type != kSendNode && node.type != kReceiveNode) {
    return std::nullopt;
  }
  // What the host does to launch it.
  if (node.integer("is_cpu_op").value_or(0) != 0) return std::nullopt;
  TracedCall call;
  if (node.type == kCollectiveNode) {
    const auto number = node.integer("comm_type");
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
  call.dtype = node.dtype.empty() ? "u8" : node.dtype;
  const auto size = node.integer("comm_size");
  if (!size) place.fail("a communication node has no attribute comm_size");
  call.bytes = static_cast<double>(*size);
  call.is_input = call.collective == Collective::kAllGather;
  if (const auto exact = node.real("full_bytes")) {
    call.bytes = *exact;
    call.is_input = false;
  }
  if (!(call.bytes >= 0.0 && call.bytes <= kMaxBytes)) {
    place.fail("comm_size: found " + format_double(call.bytes) + " bytes; valid: 0 to 1e18");
  }
  call.duration_us = node.real("duration_us").value_or(node.duration_us);
  if (!(call.duration_us > 0.0)) {
    leave_out("the node has no duration: written for a simulator, not measured");
    return std::nullopt;
  }
  if (!find_group(node, place, call)) return std::nullopt;
  return call;
}

// "run.12.et" is of rank 12.
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

WireWriter attribute(std::string_view name) {
  WireWriter out;
  out.text(1, name);
  return out;
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
  CollectiveTrace trace;
  trace.file = std::string(file);
  trace.kind = "Chakra";
  trace.source = "Chakra execution trace";
  trace.rank = rank_of_file(file);
  Reader reader(file, trace);
  WireReader messages(text, file);
  if (messages.at_end()) messages.fail("found no GlobalMetadata");
  WireReader metadata = messages.message();
  while (!metadata.at_end()) {
    const WireField field = metadata.field();
    if (field.number != 2) {
      metadata.skip(field);
      continue;
    }
    // Ours: where the run was simulated.
    const Attribute about = read_attribute(metadata.message(field, "GlobalMetadata.attr"));
    if (about.name == "topology") trace.gpu = name_of(about, metadata);
    if (about.name == "devices_per_host" && about.integer) {
      trace.devices_per_host = rank_of(*about.integer, metadata, "devices_per_host");
      trace.source = "shardlab simulate";
    }
    if (about.name == "world_size" && about.integer) {
      trace.world_size = rank_of(*about.integer, metadata, "world_size");
    }
  }
  std::vector<std::pair<std::uint64_t, TracedCall>> started;
  while (!messages.at_end()) {
    const WireReader place = messages.message();
    const Node node = read_node(place);
    if (auto call = reader.call_of(node, place))
      started.emplace_back(node.start_us, *std::move(call));
  }
  std::stable_sort(started.begin(), started.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [start, call] : started) trace.calls.push_back(std::move(call));
  return trace;
}

std::string chakra_metadata(const ChakraRun& run) {
  WireWriter out;
  out.text(1, kVersion);
  WireWriter topology = attribute("topology");
  topology.text(29, run.topology);
  out.message(2, topology);
  for (const auto& [name, value] : {std::pair("devices_per_host", run.devices_per_host),
                                    std::pair("world_size", run.world_size)}) {
    WireWriter number = attribute(name);
    number.number(9, static_cast<std::uint64_t>(value));
    out.message(2, number);
  }
  return out.delimited();
}

std::string chakra_text(const ChakraNode& node) {
  WireWriter out;
  const bool is_collective = node.collective != Collective::kLocal;
  out.number(1, node.id);
  out.text(2, node.name);
  const bool is_send = node.collective == Collective::kSendRecv;  // none of Chakra's collectives
  out.number(3, is_send ? kSendNode : is_collective ? kCollectiveNode : kComputeNode);
  for (const std::uint64_t id : node.after) out.number(5, id);
  out.number(6, static_cast<std::uint64_t>(std::llround(node.start_us)));
  out.number(7, static_cast<std::uint64_t>(std::llround(node.duration_us)));
  const auto integer = [&](std::string_view name, std::uint64_t value) {
    WireWriter each = attribute(name);
    each.number(9, value);
    out.message(10, each);
  };
  const auto real = [&](std::string_view name, double value) {
    WireWriter each = attribute(name);
    each.number(3, value);
    out.message(10, each);
  };
  WireWriter on_host = attribute("is_cpu_op");
  on_host.number(27, std::uint64_t{0});
  real("duration_us", node.duration_us);
  if (is_collective) {
    WireWriter inputs;
    inputs.text(3, "['Tensor(" + std::string(torch_name_of(node.dtype)) + ")']");
    out.message(8, inputs);
    const auto type = std::find_if(kCommTypes.begin(), kCommTypes.end(), [&](const CommType& each) {
      return each.ours == node.collective;
    });
    if (type != kCommTypes.end()) integer("comm_type", type->number);
    const TracedGroup& group = node.group;
    const double input = node.collective == Collective::kAllGather
                             ? node.full_bytes / static_cast<double>(group.size)
                             : node.full_bytes;
    integer("comm_size", static_cast<std::uint64_t>(std::llround(input)));
    real("full_bytes", node.full_bytes);
    WireWriter name = attribute("pg_name");
    name.text(29, group.name);
    out.message(10, name);
    if (!group.ranks.empty() || group.stride > 0) {
      integer("group_size", static_cast<std::uint64_t>(group.size));
    }
    if (group.ranks.empty() && group.stride > 0) {
      integer("first_rank", static_cast<std::uint64_t>(group.first));
      integer("rank_stride", static_cast<std::uint64_t>(group.stride));
    } else if (!group.ranks.empty()) {
      WireWriter packed;
      for (const std::int64_t rank : group.ranks) packed.varint(static_cast<std::uint64_t>(rank));
      WireWriter values;
      values.text(1, packed.bytes());
      WireWriter ranks = attribute("ranks");
      ranks.message(10, values);
      out.message(10, ranks);
    }
  }
  out.message(10, on_host);
  return out.delimited();
}

}  // namespace shardlab
