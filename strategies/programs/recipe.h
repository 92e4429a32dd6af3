// Recipes: how experts lay out a training step, as data. A recipe says what the dims of a mesh are
// for and where some of a program's values lie; what it leaves open is left to the solver.
//
//   {"schema": "shardlab/recipe/1", "name": "fsdp-tp", "meshes": [["fsdp", "tp"]],
//    "rules": [{"nodes": {"kind": "parameter"}, "place": {"fsdp": "S(0)"}},
//              {"nodes": {"labels": ["layers.*.attention.wq"]}, "place": {"tp": "S(2)"}}]}
//
//   for (const LayoutMask& mask : recipe.masks(program, mesh)) options.masks.push_back(mask);
//
// A mesh fits if one of `meshes` names a role for each of its dims. A rule holds for the nodes that
// match everything that it lists: their kind, one of the patterns for their label or for their op
// (* stands for any text), their phase, and whether they are batched
// (strategies/programs/batched_nodes.h). It places the first output of these nodes on the mesh dims
// whose roles it names; the other dims stay open. If two rules place the same node on the same
// role, the later one counts. A rule that is not optional has to match a node.
//
// What is left open is solved to optimality, so the price with a recipe's masks is a lower bound on
// the price of the same recipe written by hand.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "strategies/programs/sharding_problem.h"

namespace shardlab {

struct RecipeRule {
  std::optional<NodeKind> kind = {};
  std::optional<Phase> phase = {};
  std::vector<std::string> labels = {};  // patterns for a node's label
  std::vector<std::string> ops = {};     // patterns for a node's op
  bool batched = false;
  bool optional = false;  // whether it may match no node
  std::vector<std::pair<std::string, Placement>> placements =
      {};  // the role of a mesh dim, and the placement there
};

struct Recipe {
  std::string name;
  std::string title;
  std::string source;
  std::vector<std::vector<std::string>>
      meshes;  // for each mesh that fits, the role of each of its dims
  std::vector<RecipeRule> rules;

  // Reads a recipe. Throws ConfigError, also for a role that no mesh has.
  [[nodiscard]] static Recipe from_json(const nlohmann::json& json, const JsonPlace& place);
  // The masks of the nodes that some rule places, in the order of the nodes. Throws InputError if
  // the recipe has no mesh of as many dims, and for a rule that is not optional and matches no
  // node.
  [[nodiscard]] std::vector<LayoutMask> masks(const Program& program, const DeviceMesh& mesh) const;
};

// Whether a text fits a pattern, in which * stands for any text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace shardlab
