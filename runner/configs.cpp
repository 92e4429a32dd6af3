#include "runner/configs.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "costmodel/error.h"
#include "costmodel/text.h"
#include "runner/env.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kTargets = {"topology", "stack", "experiment"};

std::string kind_name(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::kStack:
      return "stack";
    case ConfigKind::kTopology:
      return "topology";
    case ConfigKind::kSuite:
      return "suite";
    case ConfigKind::kRegression:
      return "regression";
  }
  return "";
}

bool is_configs_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path / "stacks", error);
}

}  // namespace

fs::path configs_root() {
  if (const std::string given = read_env("SHARDLAB_CONFIGS"); !given.empty()) {
    if (!is_configs_folder(given)) {
      throw EnvironmentError("SHARDLAB_CONFIGS=" + given + ": no folder with stacks/ in it");
    }
    return given;
  }
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; !error && up < 5 && !folder.empty(); ++up) {
    if (is_configs_folder(folder / "configs")) return folder / "configs";
    folder = folder.parent_path();
  }
  if (is_configs_folder(fs::path(SHARDLAB_SOURCE_CONFIGS))) return SHARDLAB_SOURCE_CONFIGS;
  throw EnvironmentError(
      "the shipped configurations were not found; set SHARDLAB_CONFIGS to the folder configs");
}

Override Override::parse(std::string_view text) {
  constexpr std::string_view kForm =
      "PATH=VALUE, such as devices_per_host=1 or stack.collective_model.params.latency_us=3";
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) throw TextError("--set", text, 0, kForm);
  Override result;
  result.text = text;
  std::string_view path = text.substr(0, equals);
  result.target = "topology";
  for (const std::string_view target : kTargets) {
    if (path.starts_with(target) && path.size() > target.size() && path[target.size()] == '.') {
      result.target = target;
      path = path.substr(target.size() + 1);
      break;
    }
  }
  while (true) {
    const std::size_t dot = path.find('.');
    if (path.substr(0, dot).empty()) throw TextError("--set", text, 0, kForm);
    result.keys.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) break;
    path = path.substr(dot + 1);
  }
  const std::string_view value = text.substr(equals + 1);
  result.value = nlohmann::json::parse(value, nullptr, false);
  if (result.value.is_discarded()) result.value = std::string(value);
  return result;
}

std::string_view folder_of(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::kStack:
      return "stacks";
    case ConfigKind::kTopology:
      return "topologies";
    case ConfigKind::kSuite:
      return "suites";
    case ConfigKind::kRegression:
      return "regressions";
  }
  return "";
}

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = std::min<std::size_t>(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::size_t newline = text.substr(0, at).rfind('\n');
    const std::size_t column = at - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    std::string found = at < text.size() ? "\"" + std::string(1, text[at]) + "\"" : "the end of the file";
    if (at < text.size() && (static_cast<unsigned char>(text[at]) < 0x20 || static_cast<unsigned char>(text[at]) > 0x7e)) {
      found = "a control character";
    }
    throw ConfigError(name, "line " + std::to_string(line) + ", column " + std::to_string(column),
                      "broken JSON: found " + found + "; valid: a JSON document");
  }
}

nlohmann::json read_json_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw ConfigError(path.string(), "", "is a folder; valid: a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError(path.string(), "", "can't be read");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_json(text, path.string());
}

std::vector<std::string> ConfigStore::names(ConfigKind kind) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_ / folder_of(kind), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path ConfigStore::find(ConfigKind kind, const std::string& name) const {
  const fs::path shipped = root_ / folder_of(kind) / (name + ".json");
  std::error_code error;
  if (name.find('/') == std::string::npos && fs::exists(shipped, error)) return shipped;
  if (fs::exists(name, error)) return name;
  const std::vector<std::string> all = names(kind);
  const std::vector<std::string_view> views(all.begin(), all.end());
  throw InputError("unknown " + kind_name(kind) + " \"" + name + "\"" + did_you_mean(name, views) +
                   "; valid: a path, or " + join(views));
}

void ConfigStore::apply_overrides(nlohmann::json& json, std::string_view target) const {
  for (const Override& change : overrides_) {
    if (change.target != target || !json.is_object()) continue;
    nlohmann::json* at = &json;
    for (const std::string& key : change.keys) {
      if (at->is_array()) {
        // Elements by position or by their "name".
        nlohmann::json* element = nullptr;
        for (std::size_t i = 0; i < at->size(); ++i) {
          nlohmann::json& candidate = (*at)[i];
          if (std::to_string(i) == key ||
              (candidate.is_object() && candidate.value("name", "") == key)) {
            element = &candidate;
            break;
          }
        }
        if (element == nullptr) {
          throw InputError("--set " + change.text + ": no element \"" + key + "\" there");
        }
        at = element;
        continue;
      }
      // A model may be written as its name alone.
      if (at->is_string()) *at = nlohmann::json{{"name", *at}};
      if (!at->is_object() && !at->is_null()) {
        throw InputError("--set " + change.text + ": \"" + key + "\" is not inside an object");
      }
      at = &(*at)[key];
    }
    *at = change.value;
  }
}

nlohmann::json ConfigStore::stack_json(const std::string& name) const {
  return read_json_file(find(ConfigKind::kStack, name));
}

Stack ConfigStore::stack(const std::string& name) const {
  const fs::path path = find(ConfigKind::kStack, name);
  nlohmann::json json = read_json_file(path);
  if (json.is_object() && json.contains("base") && json["base"].is_string()) {
    nlohmann::json merged = stack_json(json["base"].get<std::string>());
    if (!json.contains("name")) merged["name"] = path.stem().string();
    for (const auto& [key, value] : json.items()) {
      if (key != "base") merged[key] = value;
    }
    json = std::move(merged);
  }
  apply_overrides(json, "stack");
  return Stack::from_json(json, {path.string(), ""},
                          [this](const std::string& base) { return stack_json(base); });
}

Topology ConfigStore::topology(const std::string& name) const {
  const fs::path path = find(ConfigKind::kTopology, name);
  nlohmann::json json = read_json_file(path);
  apply_overrides(json, "topology");
  return Topology::from_json(json, {path.string(), ""});
}

Topology ConfigStore::topology(const std::string& name, std::int64_t devices_per_host) const {
  const fs::path path = find(ConfigKind::kTopology, name);
  nlohmann::json json = read_json_file(path);
  json["devices_per_host"] = devices_per_host;
  json.erase("domain_devices");
  apply_overrides(json, "topology");
  return Topology::from_json(json, {path.string(), ""});
}

Suite ConfigStore::suite(const std::string& name) const {
  const fs::path path = find(ConfigKind::kSuite, name);
  return Suite::from_json(read_json_file(path), {path.string(), ""});
}

}  // namespace shardlab
