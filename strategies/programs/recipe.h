// Recipes: how experts lay out a training step, as data. A recipe says what the dims of a mesh are for and
// where some of a program's values lie; what it leaves open is the solver's.
//
//   {"schema": "shardlab/recipe/1", "name": "fsdp-tp", "meshes": [["fsdp", "tp"]],
//    "rules": [{"nodes": {"kind": "parameter"}, "place": {"fsdp": "S(0)"}},
//              {"nodes": {"labels": ["layers.*.attention.wq"]}, "place": {"tp": "S(2)"}}]}
//
//   for (const LayoutMask& mask : recipe.masks(program, mesh)) options.masks.push_back(mask);
//
// A mesh fits if one of `meshes` names a role for each of its dims. A rule holds for the nodes that match
// all that it says: their kind, one of the patterns of their label or of their op (* stands for any text),
// their phase, and batched (strategies/programs/batched_nodes.h). It places their first output on the mesh dims of the roles that
// it names, the other dims stay open; of two rules for one node and role the later one counts. A rule that
// is not optional has to match a node.
//
// As what is left open is solved to optimality, the price with a recipe's masks is a lower bound of what
// the recipe costs when it is written by hand. Immutable.
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
  std::vector<std::string> labels = {};  // patterns
  std::vector<std::string> ops = {};     // likewise
  bool batched = false;
  bool optional = false;                                      // may match no node
  std::vector<std::pair<std::string, Placement>> place = {};  // role, placement
};

struct Recipe {
  std::string name;
  std::string title;
  std::string source;
  std::vector<std::vector<std::string>> meshes;  // roles by mesh dim; of different lengths
  std::vector<RecipeRule> rules;

  // Throws ConfigError, also for a role that no mesh has.
  [[nodiscard]] static Recipe from_json(const nlohmann::json& json, const JsonPlace& place);
  // By node. Throws InputError: a mesh of other dims, a rule that matches no node.
  [[nodiscard]] std::vector<LayoutMask> masks(const Program& program, const DeviceMesh& mesh) const;
};

// Whether the pattern is the text, where * stands for any text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace shardlab
