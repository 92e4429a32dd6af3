// Reads the layouts of a program's nodes from a file: the output of `shardlab solve --format json`,
// or a solution that AutoParallel saves as JSON.
//
//   for (const SavedNode& node : read_saved_plan(parse_json(text, file), {file, ""})) ...
//
// Source of the second format: meta-pytorch/autoparallel at a54c252 (get_json). It has `mesh` with
// `shape`, and `nodes` with `name`, `placement` ("S(0)R", or "(S(0)R, None, RR)" for a tuple) and
// `inputs` with `dst_placement`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"

namespace shardlab {

struct SavedNode {
  std::string node;
  std::vector<std::string> in;
  std::string out;  // if there are several outputs: "S(0)R, RR"
  JsonPlace place;
};

// What the plan was made for, as far as the file says. AutoParallel's files do not name a stack.
struct SavedRun {
  std::optional<std::string> mesh = {};
  std::optional<std::string> stack = {};
  std::optional<std::string> topology = {};
  std::optional<std::string> infeasible = {};  // why there is no plan
};
// Throws ConfigError.
[[nodiscard]] SavedRun read_saved_run(const nlohmann::json& json, const JsonPlace& place);

// Throws ConfigError if the plan was made for a mesh of other extents. The names of mesh dims are
// ignored.
void expect_mesh(const SavedRun& run, const std::string& file, const DeviceMesh& mesh);

// Throws ConfigError.
[[nodiscard]] std::vector<SavedNode> read_saved_plan(const nlohmann::json& json,
                                                     const JsonPlace& place);

// The layouts of all nodes of a program, from a parsed file of either kind. Shard orders are
// encoded as strided shards. Throws ConfigError, also for a node that the program lacks, or that
// the file lacks or has twice, and for a plan that was made for another mesh.
[[nodiscard]] std::vector<NodePlacements> read_placements(const nlohmann::json& json,
                                                          const std::string& file,
                                                          const Program& program,
                                                          const DeviceMesh& mesh);

}  // namespace shardlab
