// The layouts of a program's nodes as a file tells them: what `shardlab solve --format json` prints, or a
// solution that AutoParallel saves as JSON.
//
//   for (const SavedNode& node : read_saved_plan(parse_json(text, file), {file, ""})) ...
//
// Source of the second format: meta-pytorch/autoparallel at a54c252 (get_json): `nodes` with `name`,
// `placement` ("S(0)R", of tuples "(S(0)R, None, RR)") and `inputs` with `dst_placement`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/json_reader.h"

namespace shardlab {

struct SavedNode {
  std::string node;
  std::vector<std::string> in;
  std::string out;  // of several outputs "S(0)R, RR"
  JsonPlace place;
};

// Throws ConfigError.
[[nodiscard]] std::vector<SavedNode> read_saved_plan(const nlohmann::json& json,
                                                     const JsonPlace& place);

}  // namespace shardlab
