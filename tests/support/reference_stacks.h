// Shipped stacks for tests of strategies/, which has no ConfigStore. A JSON merge patch may change
// them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/rule_text.h"
#include "strategies/select/stack.h"
#include "tests/support/reference_topology.h"

namespace shardlab::testing_support {

inline nlohmann::json stack_json(const std::string& name) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/stacks/" + name + ".json");
  return upon_base(nlohmann::json::parse(in), {name + ".json", ""}, stack_json);
}

inline Stack stack_with(const std::string& name, const std::string& patch = "{}") {
  nlohmann::json json = stack_json(name);
  json.merge_patch(nlohmann::json::parse(patch));
  return Stack::from_json(json, {name + ".json", ""});
}

inline OpCall call_of(const std::string& op, const std::vector<std::string>& inputs, int mesh_ndim,
                      const std::string& args = "[]") {
  OpCall call{.op = op, .inputs = {}, .args = nlohmann::json::parse(args)};
  for (const std::string& input : inputs) {
    call.inputs.push_back(OpCall::parse_input(input, mesh_ndim));
  }
  return call;
}

// The text of a candidate, outputs before inputs: "P(sum)|S(1)R,S(0)R".
inline std::string layouts_text(const std::vector<Placements>& outputs,
                                const std::vector<Placements>& inputs) {
  std::string text;
  for (const Placements& p : outputs) text += (text.empty() ? "" : ",") + Layout(p).text();
  text += "|";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? "" : ",") + Layout(inputs[i]).text();
  }
  return text;
}

using shardlab::row_text;

inline std::vector<std::string> row_texts(const Rows& rows, std::size_t outputs = 1) {
  std::vector<std::string> texts;
  for (const Row& row : rows) texts.push_back(row_text(row, outputs));
  return texts;
}

}  // namespace shardlab::testing_support
