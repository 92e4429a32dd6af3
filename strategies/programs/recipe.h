// Recipes: how experts lay out a training step, as data. A recipe says what the dims of a mesh are
// for and where some of a program's values lie; what it leaves open is left to the solver.
//
//   {"schema": "shardlab/recipe/1", "name": "fsdp-tp", "meshes": [["fsdp", "tp"]],
//    "rules": [{"nodes": {"kind": "parameter"}, "place": {"fsdp": "S(0)"}},
//              {"nodes": {"kind": "parameter", "roles": ["column_linear"]},
//               "where_possible": true, "place": {"tp": "S(out)"}}]}
//
//   for (const LayoutMask& mask : recipe.masks(program, mesh)) options.masks.push_back(mask);
//
// A mesh fits if one of `meshes` names what each of its dims is for. A rule holds for the nodes
// that match everything that it lists: their kind, one of the roles that they have in the model
// (model_roles.h), one of the patterns for their label or for their op (* stands for any text),
// their phase, and whether they are batched (batched_nodes.h). Roles are found in any program;
// labels are those of one model. A rule places the first output of its nodes on the mesh dims that
// it names; the other dims stay open. If two rules place the same node on the same mesh dim, the
// later one counts. A rule that is not optional has to match a node.
//
// A placement is one of PyTorch's ("R", "S(0)", "P(sum)"), or a shard of a dim that depends on the
// node: "S(-1)" is the last dim, "S(out)", "S(in)", "S(expert)" and "S(sequence)" are the dims that
// model_roles.h defines (RoleDim). A node that has no such dim does not match the rule there.
//
// Not every node can have every placement: a bias of 4 elements has no 8 shards, and a reshape may
// merge the dim that is cut. A rule that places its nodes `where_possible` leaves such a node open
// on that mesh dim; at least one of its nodes has to be placed, unless it is optional. Any other
// rule makes the program one that the recipe does not fit.
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
#include "strategies/programs/model_roles.h"
#include "strategies/programs/sharding_problem.h"

namespace shardlab {

// A placement, or a shard of a dim that depends on the node.
struct RecipePlacement {
  Placement placement = Placement::replicate();
  std::optional<RoleDim> role_dim = {};  // S(out)
  int from_end = 0;                      // S(-2): 2

  // Throws TextError.
  [[nodiscard]] static RecipePlacement parse(std::string_view text);
  // Nothing if the node has no such dim.
  [[nodiscard]] std::optional<Placement> of(const ProgramNode& node, const NodeRoles& roles) const;
};

struct RecipeRule {
  std::optional<NodeKind> kind = {};
  std::optional<Phase> phase = {};
  std::vector<ModelRole> roles = {};
  std::vector<std::string> labels = {};  // patterns for a node's label
  std::vector<std::string> ops = {};     // patterns for a node's op
  bool batched = false;
  bool optional = false;        // whether it may match no node
  bool where_possible = false;  // whether a node that can't be placed so stays open
  // What a mesh dim is for, and the placement there.
  std::vector<std::pair<std::string, RecipePlacement>> placements = {};
};

struct Recipe {
  std::string name;
  std::string title;
  std::string source;
  std::vector<std::vector<std::string>>
      meshes;  // for each mesh that fits, what each of its dims is for
  std::vector<RecipeRule> rules;

  // Reads a recipe. Throws ConfigError, also for a rule that places nodes on a mesh dim that no
  // mesh has.
  [[nodiscard]] static Recipe from_json(const nlohmann::json& json, const JsonPlace& place);
  // The masks of the nodes that some rule places, in the order of the nodes. Throws InputError if
  // the recipe has no mesh of as many dims, and for a rule that is not optional and matches no
  // node; the message says which roles the program has.
  [[nodiscard]] std::vector<LayoutMask> masks(const Program& program, const DeviceMesh& mesh) const;
};

// Whether a text fits a pattern, in which * stands for any text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace shardlab
