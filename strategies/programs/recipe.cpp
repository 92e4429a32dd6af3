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

std::vector<ModelRole> read_roles(const nlohmann::json& json, const JsonPlace& place) {
  std::vector<ModelRole> roles;
  const std::vector<std::string> texts = read_texts(json, place);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::optional<ModelRole> role = from_name<ModelRole>(texts[i]);
    if (!role) {
      place.at(i).fail("found \"" + texts[i] + "\"" +
                       did_you_mean(texts[i], all_names<ModelRole>()) +
                       "; valid: " + valid_names<ModelRole>());
    }
    roles.push_back(*role);
  }
  return roles;
}

RecipeRule read_rule(const nlohmann::json& json, const JsonPlace& place,
                     const std::vector<std::string_view>& roles) {
  ObjectReader reader(json, place);
  RecipeRule rule;
  ObjectReader nodes(reader.value("nodes"), reader.place("nodes"));
  rule.kind = find_enum<NodeKind>(nodes, "kind");
  rule.phase = find_enum<Phase>(nodes, "phase");
  if (const nlohmann::json* roles_in_model = nodes.find("roles")) {
    rule.roles = read_roles(*roles_in_model, nodes.place("roles"));
  }
  if (const nlohmann::json* labels = nodes.find("labels")) {
    rule.labels = read_texts(*labels, nodes.place("labels"));
  }
  if (const nlohmann::json* ops = nodes.find("ops")) {
    rule.ops = read_texts(*ops, nodes.place("ops"));
  }
  rule.batched = nodes.boolean_or("batched", false);
  nodes.finish();
  if (!rule.kind && !rule.phase && rule.roles.empty() && rule.labels.empty() && rule.ops.empty() &&
      !rule.batched) {
    nodes.place().fail("found nothing to match; valid: kind, phase, roles, labels, ops, batched");
  }
  rule.optional = reader.boolean_or("optional", false);
  rule.where_possible = reader.boolean_or("where_possible", false);
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
      rule.placements.emplace_back(role,
                                   RecipePlacement::parse(json_text(text, roles_place.at(role))));
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

bool has_any(const NodeRoles& roles, const std::vector<ModelRole>& wanted) {
  return wanted.empty() ||
         std::ranges::any_of(wanted, [&](ModelRole role) { return roles.has(role); });
}

bool holds_for(const RecipeRule& rule, const ProgramNode& node, const NodeRoles& roles,
               bool batched) {
  return (!rule.kind || *rule.kind == node.kind) && (!rule.phase || *rule.phase == node.phase) &&
         has_any(roles, rule.roles) && matches_any(rule.labels, node.label) &&
         matches_any(rule.ops, node.op) && (!rule.batched || batched) && !node.outputs.empty();
}

// What the nodes of a rule's kind and phase are instead: "; its parameters are 3 column_linear, 1
// norm".
std::string roles_text(const RecipeRule& rule, const Program& program,
                       std::span<const NodeRoles> roles) {
  if (rule.roles.empty()) return "";
  std::vector<std::string> wanted;
  for (const ModelRole role : rule.roles) wanted.emplace_back(to_string(role));
  std::vector<std::string> found;
  for (const auto& [role, name] : EnumNames<ModelRole>::kNames) {
    std::size_t count = 0;
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      const ProgramNode& node = program.nodes[n];
      const bool counts = (!rule.kind || *rule.kind == node.kind) &&
                          (!rule.phase || *rule.phase == node.phase) && roles[n].has(role);
      if (counts) ++count;
    }
    if (count > 0) found.push_back(std::to_string(count) + " " + std::string(name));
  }
  const std::string nodes =
      rule.kind ? "nodes of kind " + std::string(to_string(*rule.kind)) : "nodes";
  return " (roles " + join(wanted) + (rule.batched ? "; batched" : "") + "); its " + nodes +
         (found.empty() ? " have no roles" : " have these roles: " + join(found));
}

// The labels as a message shows them: " (labels a, b, ...)".
std::string labels_text(std::span<const std::string> labels) {
  if (labels.empty()) return "";
  constexpr std::size_t kFew = 2;
  return " (labels " + join(labels.first(std::min(labels.size(), kFew))) +
         (labels.size() > kFew ? ", ...)" : ")");
}

// The dims that depend on the node, as a message names them: "S(sequence)".
std::string dims_text(std::span<const RecipePlacement* const> placements) {
  std::vector<std::string> texts;
  for (const RecipePlacement* placement : placements) {
    if (placement == nullptr) continue;
    if (!placement->role_dim && placement->from_end == 0) continue;
    const std::string text = "S(" +
                             (placement->role_dim ? std::string(to_string(*placement->role_dim))
                                                  : "-" + std::to_string(placement->from_end)) +
                             ")";
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return join(texts, " or ");
}

LayoutMask open_mask(std::size_t node, std::size_t mesh_ndim, std::string by) {
  return {.node = node,
          .placements = std::vector<std::optional<Placement>>(mesh_ndim),
          .by = std::move(by),
          .where_possible = std::vector<bool>(mesh_ndim, false),
          .rules = std::vector<std::string>(mesh_ndim)};
}

}  // namespace

RecipePlacement RecipePlacement::parse(std::string_view text) {
  TextCursor cursor("placement", text);
  if (!(cursor.take("Shard(") || cursor.take("S(")) || !text.ends_with(")")) {
    const Placement placement = Placement::parse(text);
    if (placement.is_registered()) {
      cursor.fail_at(0,
                     "R, S(d), _S(d,f) or P(op), because programs have no registered placements");
    }
    return {.placement = placement};
  }
  static_cast<void>(cursor.take("dim="));
  const std::size_t start = cursor.position();
  const std::string_view dim = text.substr(start, text.size() - 1 - start);
  if (const std::optional<RoleDim> named = from_name<RoleDim>(dim)) return {.role_dim = named};
  if (cursor.take("-")) {
    const std::int64_t from_end = cursor.integer("a dim", 1, kMaxTensorDims);
    cursor.expect(")", "\")\"");
    if (!cursor.at_end()) cursor.fail("the end of the placement");
    return {.from_end = static_cast<int>(from_end)};
  }
  if (!cursor.word().empty()) cursor.fail_at(start, "a number or one of " + valid_names<RoleDim>());
  return {.placement = Placement::parse(text)};
}

std::optional<Placement> RecipePlacement::of(const ProgramNode& node,
                                             const NodeRoles& roles) const {
  const int ndim = static_cast<int>(node.outputs[0].shape.size());
  if (role_dim) {
    const std::optional<int> dim = roles.dim(*role_dim);
    return dim ? std::optional(Placement::shard(*dim)) : std::nullopt;
  }
  if (from_end > 0) {
    return from_end <= ndim ? std::optional(Placement::shard(ndim - from_end)) : std::nullopt;
  }
  return placement;
}

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
  const std::vector<NodeRoles> in_model = model_roles(program);
  std::vector<std::optional<LayoutMask>> by_node(program.nodes.size());
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const RecipeRule& rule = rules[r];
    const std::string place = "/rules/" + std::to_string(r);
    std::vector<const RecipePlacement*> placements(roles->size(), nullptr);
    bool places = false;
    for (std::size_t m = 0; m < roles->size(); ++m) {
      for (const auto& [role, placement] : rule.placements) {
        if (role != (*roles)[m]) continue;
        placements[m] = &placement;
        places = true;
      }
    }
    bool matches = false;
    bool found = false;
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      if (!holds_for(rule, program.nodes[n], in_model[n], batched[n])) continue;
      matches = true;
      for (std::size_t m = 0; m < placements.size(); ++m) {
        if (placements[m] == nullptr) continue;
        const std::optional<Placement> placement = placements[m]->of(program.nodes[n], in_model[n]);
        if (!placement) continue;
        found = true;
        if (!by_node[n]) by_node[n] = open_mask(n, roles->size(), "recipe " + name);
        by_node[n]->placements[m] = placement;
        by_node[n]->where_possible[m] = rule.where_possible;
        by_node[n]->rules[m] = rule.optional ? "" : place;
      }
    }
    if (rule.optional || found || (matches && !places)) continue;
    if (matches) {
      throw InputError("recipe " + name + ": " + place + " matches nodes of the program " +
                       program.name + ", but none has the dim of " + dims_text(placements));
    }
    throw InputError("recipe " + name + ": " + place + " matches no node of the program " +
                     program.name + labels_text(rule.labels) + roles_text(rule, program, in_model));
  }
  std::vector<LayoutMask> masks;
  for (std::optional<LayoutMask>& mask : by_node) {
    if (mask) masks.push_back(std::move(*mask));
  }
  return masks;
}

}  // namespace shardlab
