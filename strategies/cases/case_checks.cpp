#include "strategies/cases/case_checks.h"

#include <array>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab::case_checks {
namespace {

// Splits at separators outside of parentheses: the comma of _S(0,2) does not separate anything.
// A short form of a value: "graph", "true", or a model's name and numbers, as in
// "v3-rp(replicate_to_partial_us=0.01)".
std::string short_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() || !value.contains("name")) return value.dump();
  std::string numbers;
  for (const auto& [key, inner] : value.items()) {
    if (!inner.is_number()) continue;
    numbers += (numbers.empty() ? "" : ", ") + key + "=" + inner.dump();
  }
  const std::string name = value["name"].is_string() ? value["name"].get<std::string>() : "";
  return numbers.empty() ? name : name + "(" + numbers + ")";
}

DeviceMesh read_mesh(const nlohmann::json& json, const JsonPlace& place) {
  const std::string text = json_text(json, place);
  return parse_at(place, [&] { return DeviceMesh::parse(text); });
}

}  // namespace

std::span<const CheckKind> all_check_kinds() {
  static const std::array<CheckKind, 14> kinds = {
      kPlanKind, kStepsKind,  kSelectKind, kPolicyKind, kRulesKind,    kRelationKind, kSweepKind,
      kMeshKind, kLayoutKind, kLocalKind,  kChunksKind, kSimulateKind, kExecuteKind,  kSolveKind};
  return kinds;
}

std::vector<std::string> read_texts(const nlohmann::json& json, const JsonPlace& place) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < json_array(json, place).size(); ++i) {
    texts.push_back(json_text(json[i], place.at(i)));
  }
  return texts;
}

std::string StackChoice::label() const {
  if (json.is_string()) return json.get<std::string>();
  std::string changes;
  for (const auto& [key, value] : json.items()) {
    if (key == "base" || key == "name") continue;
    changes += (changes.empty() ? "" : ", ") + key + "=" + short_text(value);
  }
  const std::string base = json.contains("base") ? short_text(json["base"]) : "stack";
  return base + "{" + changes + "}";
}

Scene Scene::read(ObjectReader& reader, const Scene& outer) {
  Scene scene = outer;
  scene.pins_stack = false;
  if (const nlohmann::json* mesh = reader.find("mesh")) {
    scene.mesh = read_mesh(*mesh, reader.place("mesh"));
  }
  if (const nlohmann::json* flatten = reader.find("flatten")) {
    const JsonPlace place = reader.place("flatten");
    for (std::size_t i = 0; i < json_array(*flatten, place).size(); ++i) {
      const std::vector<std::string> axes = read_texts((*flatten)[i], place.at(i));
      scene.mesh = parse_at(place.at(i), [&] { return mesh_of(scene, place).flatten(axes); });
    }
  }
  if (const nlohmann::json* slice = reader.find("slice")) {
    const JsonPlace place = reader.place("slice");
    const std::vector<std::string> axes = read_texts(*slice, place);
    scene.mesh = parse_at(place, [&] { return mesh_of(scene, place).slice(axes); });
  }
  if (const nlohmann::json* tensor = reader.find("tensor")) {
    const JsonPlace place = reader.place("tensor");
    const std::string text = json_text(*tensor, place);
    scene.tensor = parse_at(place, [&] { return TensorMeta::parse(text); });
  }
  scene.topology = reader.text_or("topology", scene.topology);
  if (reader.find("devices_per_host") != nullptr) {
    scene.devices_per_host = reader.integer("devices_per_host", 1, std::int64_t{1} << 40);
  }
  if (const nlohmann::json* stack = reader.find("stack")) {
    const JsonPlace place = reader.place("stack");
    const auto add = [&](const nlohmann::json& choice, const JsonPlace& choice_place) {
      if (!choice.is_string() && !choice.is_object()) {
        choice_place.fail(
            "found " + describe_json(choice) +
            "; valid: a stack's name, an object with a \"base\", or an array of them");
      }
      scene.stacks.push_back({choice, choice_place});
    };
    scene.pins_stack = true;
    scene.stacks.clear();
    if (stack->is_array()) {
      for (std::size_t i = 0; i < stack->size(); ++i) add((*stack)[i], place.at(i));
      if (stack->empty()) place.fail("found an empty array; valid: an array of at least one stack");
    } else {
      add(*stack, place);
    }
  }
  return scene;
}

std::string differing_hosts(const Scene& scene, const Scene& setup) {
  std::string out;
  if (scene.topology != setup.topology) out += ", " + scene.topology;
  if (scene.devices_per_host != setup.devices_per_host && scene.devices_per_host) {
    const std::int64_t devices = *scene.devices_per_host;
    out += ", " + std::to_string(devices) + (devices == 1 ? " device" : " devices") + " per host";
  }
  return out;
}

const DeviceMesh& mesh_of(const Scene& scene, const JsonPlace& place) {
  if (!scene.mesh) place.fail("found no \"mesh\" here or in the setup");
  return *scene.mesh;
}

const TensorMeta& tensor_of(const Scene& scene, const JsonPlace& place) {
  if (!scene.tensor) place.fail("found no \"tensor\" here or in the setup");
  return *scene.tensor;
}

StackEvaluator& Bench::evaluator(const StackChoice& stack, const Scene& scene) {
  const std::string hosts =
      scene.devices_per_host ? std::to_string(*scene.devices_per_host) : std::string();
  auto& slot = evaluators_[stack.json.dump() + "\n" + scene.topology + "\n" + hosts];
  if (!slot) {
    slot =
        std::make_unique<StackEvaluator>(sources_.stack(stack.json, stack.place),
                                         sources_.topology(scene.topology, scene.devices_per_host));
  }
  return *slot;
}

}  // namespace shardlab::case_checks
