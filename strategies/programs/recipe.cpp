#include "strategies/programs/recipe.h"

#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/json_enum.h"
#include "costmodel/base/text.h"
#include "strategies/programs/batched_nodes.h"

namespace shardlab {
namespace {

std::vector<std::string> read_texts(const nlohmann::json& json, const JsonPlace& place) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < json_array(json, place).size(); ++i) {
    texts.push_back(json_text(json[i], place.at(i)));
    if (texts.back().empty()) place.at(i).fail("found \"\"; valid: a text that is not empty");
  }
  if (texts.empty()) place.fail("found an empty array; valid: an array of at least one text");
  return texts;
}

RecipeRule read_rule(const nlohmann::json& json, const JsonPlace& place,
                     const std::vector<std::string_view>& roles) {
  ObjectReader reader(json, place);
  RecipeRule rule;
  ObjectReader nodes(reader.value("nodes"), reader.place("nodes"));
  rule.kind = find_enum<NodeKind>(nodes, "kind");
  rule.phase = find_enum<Phase>(nodes, "phase");
  if (const nlohmann::json* labels = nodes.find("labels")) {
    rule.labels = read_texts(*labels, nodes.place("labels"));
  }
  if (const nlohmann::json* ops = nodes.find("ops")) {
    rule.ops = read_texts(*ops, nodes.place("ops"));
  }
  rule.batched = nodes.boolean_or("batched", false);
  nodes.finish();
  if (!rule.kind && !rule.phase && rule.labels.empty() && rule.ops.empty() && !rule.batched) {
    nodes.place().fail("found nothing to match; valid: kind, phase, labels, ops, batched");
  }
  rule.optional = reader.boolean_or("optional", false);
  const nlohmann::json& where = reader.value("place");
  const JsonPlace roles_place = reader.place("place");
  if (!where.is_object() || where.empty()) {
    roles_place.fail("found " + describe_json(where) +
                     "; valid: an object with a placement for each role");
  }
  for (const auto& [role, text] : where.items()) {
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      roles_place.at(role).fail("unknown role" + did_you_mean(role, roles) +
                                "; valid: " + join(roles));
    }
    try {
      rule.placements.emplace_back(role, Placement::parse(json_text(text, roles_place.at(role))));
    } catch (const TextError& error) {
      roles_place.at(role).fail(error.what());
    }
  }
  reader.finish();
  return rule;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return matches_pattern(pattern, text);
         });
}

bool holds_for(const RecipeRule& rule, const ProgramNode& node, bool batched) {
  return (!rule.kind || *rule.kind == node.kind) && (!rule.phase || *rule.phase == node.phase) &&
         matches_any(rule.labels, node.label) && matches_any(rule.ops, node.op) &&
         (!rule.batched || batched) && !node.outputs.empty();
}

// The labels as a message shows them: " (labels a, b, ...)".
std::string labels_text(std::span<const std::string> labels) {
  if (labels.empty()) return "";
  constexpr std::size_t kFew = 2;
  return " (labels " + join(labels.first(std::min(labels.size(), kFew))) +
         (labels.size() > kFew ? ", ...)" : ")");
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  // The position of the last *, and the place in the text where it may take one more character.
  std::size_t star = std::string_view::npos;
  std::size_t from = 0;
  std::size_t p = 0;
  std::size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Recipe Recipe::from_json(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/recipe/1");
  Recipe recipe;
  recipe.name = reader.text("name");
  recipe.title = reader.text_or("title", "");
  recipe.source = reader.text_or("source", "");
  const nlohmann::json& meshes = reader.array("meshes");
  const JsonPlace meshes_place = reader.place("meshes");
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    recipe.meshes.push_back(read_texts(meshes[i], meshes_place.at(i)));
    const std::size_t ndim = recipe.meshes.back().size();
    for (std::size_t other = 0; other < i; ++other) {
      if (recipe.meshes[other].size() != ndim) continue;
      meshes_place.at(i).fail("found a second mesh of " + std::to_string(ndim) +
                              " dims; valid: one mesh for each number of dims");
    }
  }
  if (recipe.meshes.empty())
    meshes_place.fail("found an empty array; valid: an array of at least one mesh");
  std::vector<std::string_view> roles;
  for (const std::vector<std::string>& mesh : recipe.meshes) {
    for (const std::string& role : mesh) {
      if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
    }
  }
  const nlohmann::json& rules = reader.array("rules");
  for (std::size_t i = 0; i < rules.size(); ++i) {
    recipe.rules.push_back(read_rule(rules[i], reader.place("rules").at(i), roles));
  }
  if (rules.empty())
    reader.place("rules").fail("found an empty array; valid: an array of at least one rule");
  reader.finish();
  return recipe;
}

std::vector<LayoutMask> Recipe::masks(const Program& program, const DeviceMesh& mesh) const {
  const auto roles = std::ranges::find_if(
      meshes, [&](const auto& each) { return std::ssize(each) == mesh.ndim(); });
  if (roles == meshes.end()) {
    std::vector<std::string> valid;
    for (const std::vector<std::string>& each : meshes) {
      valid.push_back(std::to_string(each.size()) + " (" + join(each, " x ") + ")");
    }
    throw InputError("recipe " + name + ": found a mesh of " + std::to_string(mesh.ndim()) +
                     (mesh.ndim() == 1 ? " dim" : " dims") + "; valid: " + join(valid));
  }
  const std::vector<bool> batched = batched_nodes(program);
  std::vector<std::optional<LayoutMask>> by_node(program.nodes.size());
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const RecipeRule& rule = rules[r];
    std::vector<std::optional<Placement>> placements(roles->size());
    bool places = false;
    for (std::size_t m = 0; m < roles->size(); ++m) {
      for (const auto& [role, placement] : rule.placements) {
        if (role != (*roles)[m]) continue;
        placements[m] = placement;
        places = true;
      }
    }
    bool found = false;
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      if (!holds_for(rule, program.nodes[n], batched[n])) continue;
      found = true;
      if (!places) continue;
      std::optional<LayoutMask>& mask = by_node[n];
      if (!mask) {
        mask = LayoutMask{.node = n,
                          .placements = std::vector<std::optional<Placement>>(roles->size()),
                          .by = "recipe " + name};
      }
      for (std::size_t m = 0; m < placements.size(); ++m) {
        if (placements[m]) mask->placements[m] = placements[m];
      }
    }
    if (!found && !rule.optional) {
      throw InputError("recipe " + name + ": /rules/" + std::to_string(r) +
                       " matches no node of the program " + program.name +
                       labels_text(rule.labels));
    }
  }
  std::vector<LayoutMask> masks;
  for (std::optional<LayoutMask>& mask : by_node) {
    if (mask) masks.push_back(std::move(*mask));
  }
  return masks;
}

}  // namespace shardlab
