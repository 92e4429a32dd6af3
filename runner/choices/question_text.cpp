#include "runner/choices/question_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/placement_text.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {
namespace {

// The text of an argument without its layouts: "f32[8,8]", "[f32[8]; none]" or "none".
std::string shapes_text(const TensorArg& arg, bool as_list) {
  if (arg.is_absent()) return "none";
  if (!arg.is_list && !as_list) return arg.tensors[0].meta.text();
  std::string text = "[";
  std::size_t next = 0;
  const std::size_t size = arg.given.empty() ? arg.tensors.size() : arg.given.size();
  for (std::size_t i = 0; i < size; ++i) {
    const bool given = arg.given.empty() || arg.given[i];
    text += (i == 0 ? "" : "; ") + (given ? arg.tensors[next++].meta.text() : "none");
  }
  return text + "]";
}

// A call of an op on lists of tensors may be the call for one element of the lists. PyTorch is then
// asked about lists of one tensor each. Returns which of the inputs these are: those that are
// single tensors although the op takes lists.
std::vector<bool> lists_of_one(const OpCall& call) {
  std::vector<bool> wrapped(call.inputs.size(), false);
  if (!is_foreach(call.op)) return wrapped;
  std::vector<bool> takes_list;
  if (const auto schema = find_op_schema(call.op)) {
    for (const SchemaArgument& argument : schema->arguments) {
      if (!argument.is_tensor()) continue;
      takes_list.push_back(argument.kind == SchemaArgument::Kind::kTensorList);
    }
  }
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    const TensorArg& arg = call.inputs[i];
    const bool single = i < takes_list.size() && !takes_list[i];
    wrapped[i] = !arg.is_list && !arg.is_absent() && !single;
  }
  return wrapped;
}

}  // namespace

nlohmann::json rows_question(const OpCall& call) {
  const std::vector<bool> wrapped = lists_of_one(call);
  nlohmann::json inputs = nlohmann::json::array();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(shapes_text(call.inputs[i], wrapped[i]));
  }
  return {{"op", call.op}, {"inputs", std::move(inputs)}, {"args", call.args}};
}

nlohmann::json decision_question(const OpCall& call, const DeviceMesh& mesh,
                                 std::int64_t domain_devices) {
  const std::vector<bool> wrapped = lists_of_one(call);
  nlohmann::json inputs = nlohmann::json::array();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string text = call.inputs[i].text();
    inputs.push_back(wrapped[i] ? "[" + text + "]" : text);
  }
  return {{"op", call.op},
          {"inputs", std::move(inputs)},
          {"args", call.args},
          {"mesh", mesh.text()},
          {"devices_per_host", domain_devices}};
}

std::string question_key(const OpCall& call, const DeviceMesh& mesh) {
  nlohmann::json question = decision_question(call, mesh, 1);
  question.erase("devices_per_host");
  return question.dump();
}

std::string set_digest(const Expansion& expansion) {
  // Few layouts occur in many candidates, so each is written once.
  const std::size_t tensors = expansion.outputs() + expansion.inputs();
  std::vector<std::vector<std::string>> texts(tensors);
  std::vector<Expansion::CodesOf> codes;
  for (std::size_t t = 0; t < tensors; ++t) {
    texts[t].resize(expansion.tensor_codes(t));
    codes.push_back(expansion.codes_of_tensor(t));
  }
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  };
  const auto add_layout = [&](std::size_t tensor, std::size_t candidate) {
    const std::uint32_t code = codes[tensor][candidate];
    std::string& text = texts[tensor][code];
    if (text.empty()) text = Layout(expansion.tensor_layout(tensor, code)).text();
    add(text);
  };
  for (std::size_t c = 0; c < expansion.size(); ++c) {
    if (c > 0) add("\n");
    for (std::size_t i = 0; i < expansion.inputs(); ++i) {
      if (i > 0) add(";");
      add_layout(expansion.outputs() + i, c);
    }
    add("|");
    for (std::size_t o = 0; o < expansion.outputs(); ++o) {
      if (o > 0) add(";");
      add_layout(o, c);
    }
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = out.size(); i-- > 0; hash >>= 4U) out[i] = kDigits[hash & 15U];
  return out;
}

FollowCandidate parse_candidate_line(std::string_view text, int mesh_ndim) {
  const std::size_t bar = std::min(text.find('|'), text.size() - 1);
  const auto layouts = [&](std::string_view side) {
    std::vector<Placements> out;
    while (!side.empty()) {
      const std::size_t end = std::min(side.find(';'), side.size());
      out.push_back(parse_candidate_placements(side.substr(0, end), mesh_ndim));
      side.remove_prefix(std::min(end + 1, side.size()));
    }
    return out;
  };
  return {.outputs = layouts(text.substr(bar + 1)), .inputs = layouts(text.substr(0, bar))};
}

}  // namespace shardlab
