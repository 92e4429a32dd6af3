#include "runner/config/saved_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

const nlohmann::json& member(const nlohmann::json& object, const char* key,
                             const JsonPlace& place) {
  if (!object.is_object()) place.fail("found " + describe_json(object) + "; valid: an object");
  const auto it = object.find(key);
  if (it == object.end()) place.fail("missing key \"" + std::string(key) + "\"");
  return *it;
}

std::string text_at(const nlohmann::json& object, const char* key, const JsonPlace& place) {
  return json_text(member(object, key, place), place.at(key));
}

// "(S(0)R, None, RR)" becomes "S(0)R, RR": an element that is not a tensor has no layout.
std::string without_tuple(std::string text) {
  if (!text.starts_with('(')) return text;
  std::vector<std::string> parts;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = text.find(", ");
    const std::string part = text.substr(0, end);
    if (part != "None") parts.push_back(part);
    text = end == std::string::npos ? "" : text.substr(end + 2);
  }
  return join(parts, ", ");
}

SavedNode autoparallel_node(const nlohmann::json& json, const JsonPlace& place) {
  SavedNode node{.node = text_at(json, "name", place),
                 .in = {},
                 .out = without_tuple(text_at(json, "placement", place)),
                 .place = place};
  const nlohmann::json& inputs = json_array(member(json, "inputs", place), place.at("inputs"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.in.push_back(text_at(inputs[i], "dst_placement", place.at("inputs").at(i)));
  }
  return node;
}

SavedNode own_node(const nlohmann::json& json, const JsonPlace& place) {
  SavedNode node{.node = text_at(json, "node", place),
                 .in = {},
                 .out = text_at(json, "layout_out", place),
                 .place = place};
  const nlohmann::json& inputs =
      json_array(member(json, "layout_in", place), place.at("layout_in"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.in.push_back(json_text(inputs[i], place.at("layout_in").at(i)));
  }
  return node;
}

constexpr std::int64_t kMostRanks = std::int64_t{1} << 40U;

// {"shape": [8, 8], "dim_names": [...]} is "8x8".
std::string autoparallel_mesh(const nlohmann::json& json, const JsonPlace& place) {
  const JsonPlace at = place.at("shape");
  const nlohmann::json& shape = json_array(member(json, "shape", place), at);
  std::vector<std::string> extents;
  for (std::size_t m = 0; m < shape.size(); ++m) {
    extents.push_back(std::to_string(json_integer(shape[m], at.at(m), 1, kMostRanks)));
  }
  return join(extents, "x");
}

}  // namespace

SavedRun read_saved_run(const nlohmann::json& json, const JsonPlace& place) {
  SavedRun run;
  if (!json.is_object()) return run;
  if (!json.contains("assignment")) {
    if (const auto it = json.find("mesh"); it != json.end()) {
      run.mesh = autoparallel_mesh(*it, place.at("mesh"));
    }
    return run;
  }
  for (const auto& [key, to] :
       {std::pair{"mesh", &run.mesh}, std::pair{"stack", &run.stack},
        std::pair{"topology", &run.topology}, std::pair{"infeasible", &run.infeasible}}) {
    const auto it = json.find(key);
    if (it != json.end() && !it->is_null()) *to = json_text(*it, place.at(key));
  }
  return run;
}

void expect_mesh(const SavedRun& run, const std::string& file, const DeviceMesh& mesh) {
  if (!run.mesh) return;
  const JsonPlace place{file, "/mesh"};
  try {
    const DeviceMesh own = DeviceMesh::parse(*run.mesh);
    bool equal = own.ndim() == mesh.ndim();
    for (int m = 0; equal && m < mesh.ndim(); ++m) equal = own.size(m) == mesh.size(m);
    if (!equal) place.fail("found " + *run.mesh + "; valid: " + mesh.text());
  } catch (const TextError& error) {
    place.fail(error.what());
  }
}

std::vector<SavedNode> read_saved_plan(const nlohmann::json& json, const JsonPlace& place) {
  const bool is_own = json.is_object() && json.contains("assignment");
  const char* key = is_own ? "assignment" : "nodes";
  const nlohmann::json& nodes = json_array(member(json, key, place), place.at(key));
  std::vector<SavedNode> plan;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const JsonPlace at = place.at(key).at(i);
    // AutoParallel also lists the graph's output node, which has no layout to choose.
    if (!is_own && nodes[i].is_object() && nodes[i].value("op", "") == "output") continue;
    plan.push_back(is_own ? own_node(nodes[i], at) : autoparallel_node(nodes[i], at));
  }
  return plan;
}

std::vector<NodePlacements> read_placements(const nlohmann::json& json, const std::string& file,
                                            const Program& program, const DeviceMesh& mesh) {
  std::vector<NodePlacements> placements(program.nodes.size());
  std::vector<bool> found(program.nodes.size(), false);
  expect_mesh(read_saved_run(json, {file, ""}), file, mesh);
  for (const SavedNode& saved : read_saved_plan(json, {file, ""})) {
    const std::optional<std::size_t> n = program.find(saved.node);
    if (!n) saved.place.fail("found the node \"" + saved.node + "\", which the program lacks");
    if (found[*n]) saved.place.fail("found the node \"" + saved.node + "\" a second time");
    found[*n] = true;
    const auto add = [&](std::string_view text, const char* key, std::vector<Placements>& to) {
      try {
        const Layout layout = Layout::parse(text, mesh.ndim());
        if (layout.has_registered()) {
          throw TextError("layout", text, 0,
                          "a layout of R, S(d), _S(d,f) and P(op), because programs have no "
                          "registered placements");
        }
        to.push_back(encode_order_as_strided(layout, mesh).placements);
      } catch (const TextError& error) {
        saved.place.fail(std::string(key) + ": " + error.what());
      }
    };
    for (const std::string& text : saved.in) add(text, "an input", placements[*n].inputs);
    for (std::string_view rest = saved.out; !rest.empty();) {
      const std::size_t end = std::min(rest.find(", "), rest.size());
      add(rest.substr(0, end), "an output", placements[*n].outputs);
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
  }
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (found[n]) continue;
    JsonPlace{file, ""}.fail("has no node \"" + program.nodes[n].name + "\"");
  }
  return placements;
}

}  // namespace shardlab
