#include "runner/config/configs.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/topology_xml.h"
#include "runner/base/env.h"
#include "runner/base/read_file.h"
#include "runner/config/stack_name.h"
#include "strategies/programs/built_in_programs.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kTargets = {"topology", "stack", "experiment"};

bool is_configs_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path / "stacks", error);
}

// A path that is the same whichever way a file is named. A pipe has none, and keeps its name.
fs::path identity_of(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical;
}

// Returns what `read` makes of a file's JSON after --set. If the JSON is bad only after the
// changes, the message blames --set and not the file.
template <class Read>
auto read_changed(const nlohmann::json& json, const nlohmann::json& changed,
                  const std::string& overrides, const Read& read) {
  try {
    return read(changed);
  } catch (const ConfigError& error) {
    if (overrides.empty()) throw;
    static_cast<void>(read(json));
    throw InputError(overrides + ": " + error.what());
  }
}

// A stack after --set, whose title and source say so: what the file says is true of it as it was.
nlohmann::json labelled(const nlohmann::json& json, nlohmann::json changed,
                        const std::string& overrides) {
  if (changed == json || !changed.is_object()) return changed;
  for (const char* key : {"title", "source"}) {
    const auto it = changed.find(key);
    const auto before = json.find(key);
    if (it == changed.end() || before == json.end() || *it != *before || !it->is_string()) continue;
    *it = it->get<std::string>() + ", changed by " + overrides;
  }
  return changed;
}

}  // namespace

fs::path configs_root() {
  if (const std::string given = read_env("SHARDLAB_CONFIGS"); !given.empty()) {
    if (!is_configs_folder(given)) {
      throw EnvironmentError("SHARDLAB_CONFIGS=" + given + ": found no folder with stacks/ in it");
    }
    return given;
  }
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; !error && up < 5 && !folder.empty(); ++up) {
    for (const char* inside : {"configs", "share/shardlab/configs"}) {
      if (is_configs_folder(folder / inside)) return folder / inside;
    }
    folder = folder.parent_path();
  }
#ifdef SHARDLAB_SOURCE_CONFIGS
  if (is_configs_folder(fs::path(SHARDLAB_SOURCE_CONFIGS))) return SHARDLAB_SOURCE_CONFIGS;
#endif
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
  result.value = try_parse_json(value).value_or(std::string(value));
  return result;
}

std::string_view folder_of(ConfigKind kind) {
  for (const auto& each : EnumNames<ConfigKind>::kFolders) {
    if (each.value == kind) return each.name;
  }
  return "";
}

std::vector<std::string> ConfigStore::names(ConfigKind kind) const {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = root_ / folder_of(kind);
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json") continue;
    names.push_back(entry.path().lexically_relative(folder).replace_extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

// The end of a message about an unknown program: how `shardlab program` can write one.
std::string how_to_write(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltInProgram& program : all_built_in_programs()) names.push_back(program.name);
  const bool is_known = find_built_in_program(name) != nullptr;
  const std::string given(is_known ? name : "NAME");
  return "; `shardlab program " + given + " --out FILE` writes one" +
         (is_known ? "" : ": " + join(names));
}

// Fits the blocks of a topology to hosts of another size than its file says: a block that is larger
// than a host joins the whole host, and a block that does not fill hosts is left out.
void fit_blocks(nlohmann::json& topology, std::int64_t devices_per_host) {
  const auto links = topology.find("links");
  if (links == topology.end() || !links->is_array()) return;
  nlohmann::json fitting = nlohmann::json::array();
  for (nlohmann::json& link : *links) {
    const auto devices = link.is_object() ? link.find("devices") : link.end();
    const bool is_block = link.is_object() && link.contains("joins") &&
                          (link["joins"] == "pcie" || link["joins"] == "socket") &&
                          devices != link.end() && devices->is_number_integer();
    if (is_block && *devices > devices_per_host) *devices = devices_per_host;
    if (is_block && *devices > 0 && devices_per_host % devices->get<std::int64_t>() != 0) continue;
    fitting.push_back(std::move(link));
  }
  *links = std::move(fitting);
}

}  // namespace

std::string released_stack(const std::string& name) {
  return name == kNewestDTensor ? std::string(kReleases.back().rule_set) : name;
}

fs::path ConfigStore::find(ConfigKind kind, const std::string& name, const fs::path& folder) const {
  if (kind == ConfigKind::kStack && name == kNewestDTensor) {
    return find(kind, released_stack(name), folder);
  }
  const bool is_path = name.find('/') != std::string::npos;
  fs::path shipped = root_ / folder_of(kind) / (name + ".json");
  std::error_code error;
  // Sets that shardlab measured itself are in a folder of their own, and their names begin with
  // own/.
  const bool may_be_shipped = !is_path || name.starts_with("own/");
  if (may_be_shipped && fs::exists(shipped, error)) return shipped;
  fs::path given = fs::path(name).is_absolute() ? fs::path(name) : folder / name;
  if (!name.empty() && fs::exists(given, error)) return given;
  const std::string kind_text(name_of(kind));
  const std::string list_command = "`shardlab list " + std::string(folder_of(kind)) + "`";
  if (kind == ConfigKind::kStack && LiveStackName::parse(name)) {
    throw InputError(
        "stack \"" + name + "\": Python code can't answer here; valid: a path, or a name of " +
        list_command + "; in an experiment also a file of choices, which `shardlab record` writes");
  }
  if (is_path || name.ends_with(".json")) {
    throw InputError(kind_text + " \"" + name + "\": no such file; valid: a path, or a name of " +
                     list_command);
  }
  const std::vector<std::string> all = names(kind);
  const std::vector<std::string_view> views(all.begin(), all.end());
  constexpr std::size_t kFew = 40;
  if (all.size() > kFew) {
    throw InputError("unknown " + kind_text + " \"" + name + "\"" + did_you_mean(name, views) +
                     "; valid: a path, or a name of " + list_command);
  }
  throw InputError("unknown " + kind_text + " \"" + name + "\"" + did_you_mean(name, views) +
                   "; valid: a path" + (all.empty() ? "" : ", or " + join(views)) +
                   (kind == ConfigKind::kProgram ? how_to_write(name) : ""));
}

ConfigStore ConfigStore::with_stacks_as_written() const {
  ConfigStore written = *this;
  std::erase_if(written.overrides_,
                [](const Override& change) { return change.target == "stack"; });
  return written;
}

namespace {

bool is_of_devices_per_host(const Override& change) {
  return change.target == "topology" && change.keys == std::vector<std::string>{"devices_per_host"};
}

}  // namespace

ConfigStore ConfigStore::with_devices_per_host_as_written() const {
  ConfigStore written = *this;
  std::erase_if(written.overrides_, is_of_devices_per_host);
  return written;
}

bool ConfigStore::changes_devices_per_host() const {
  return std::ranges::any_of(overrides_, is_of_devices_per_host);
}

std::string ConfigStore::overrides_of(std::string_view target) const {
  std::string text;
  for (const Override& change : overrides_) {
    if (change.target == target) text += (text.empty() ? "--set " : " --set ") + change.text;
  }
  return text;
}

nlohmann::json ConfigStore::with_overrides(nlohmann::json json, std::string_view target) const {
  for (const Override& change : overrides_) {
    if (change.target != target || !json.is_object()) continue;
    nlohmann::json* at = &json;
    for (const std::string& key : change.keys) {
      if (at->is_array()) {
        // An element is addressed by its index or by its "name".
        nlohmann::json* element = nullptr;
        std::vector<std::string> valid;
        for (std::size_t i = 0; i < at->size() && element == nullptr; ++i) {
          nlohmann::json& candidate = (*at)[i];
          std::string name = std::to_string(i);
          if (name == key) element = &candidate;
          if (const auto it = candidate.find("name"); it != candidate.end() && it->is_string()) {
            name = it->get<std::string>();
          }
          if (name == key) element = &candidate;
          valid.push_back(std::move(name));
        }
        if (element == nullptr) {
          const std::vector<std::string_view> views(valid.begin(), valid.end());
          throw InputError("--set " + change.text + ": no element \"" + key + "\" there" +
                           did_you_mean(key, views) + "; valid: " + join(views));
        }
        at = element;
        continue;
      }
      // A model may be given as its name alone, without an object around it.
      if (at->is_string()) *at = nlohmann::json{{"name", *at}};
      if (!at->is_object() && !at->is_null()) {
        throw InputError("--set " + change.text + ": found " + describe_json(*at) + " before \"" +
                         key + "\"; valid: an object");
      }
      at = &(*at)[key];
    }
    *at = change.value;
  }
  return json;
}

nlohmann::json ConfigStore::read_stack(const fs::path& path, std::vector<fs::path> above) const {
  nlohmann::json json = read_json_file(path);
  if (!json.is_object() || !json.contains("base")) return json;
  above.push_back(identity_of(path));
  nlohmann::json merged = with_base(json, path, {path.string(), ""}, above);
  if (!json.contains("name")) merged["name"] = path.stem().string();
  return merged;
}

nlohmann::json ConfigStore::with_base(const nlohmann::json& json, const fs::path& path,
                                      const JsonPlace& place,
                                      const std::vector<fs::path>& above) const {
  return upon_base(json, place, [&](const std::string& base) {
    const JsonPlace base_place = place.at("base");
    nlohmann::json found;
    try {
      const fs::path file = find(ConfigKind::kStack, base, path.parent_path()).lexically_normal();
      if (std::find(above.begin(), above.end(), identity_of(file)) != above.end()) {
        base_place.fail("found \"" + base + "\", which has this stack as its own base");
      }
      found = read_stack(file, above);
    } catch (const InputError& error) {
      base_place.fail(error.what());
    }
    if (!found.is_object() || !found.contains("schema") || found["schema"] != "shardlab/stack/1") {
      base_place.fail("found \"" + base + "\", which is not a stack");
    }
    return found;
  });
}

nlohmann::json ConfigStore::stack_json(const std::string& name) const {
  return read_stack(find(ConfigKind::kStack, name), {});
}

Stack ConfigStore::stack(const std::string& name) const {
  if (stack_source_ != nullptr) {
    if (std::optional<Stack> found = stack_source_->stack(name, *this)) return *std::move(found);
  }
  const fs::path path = find(ConfigKind::kStack, name);
  const nlohmann::json json = read_stack(path, {});
  const std::string overrides = overrides_of("stack");
  return read_changed(json, labelled(json, with_overrides(json, "stack"), overrides), overrides,
                      [&](const nlohmann::json& j) {
                        return Stack::from_json(j, {path.string(), ""});
                      });
}

Stack ConfigStore::stack(const nlohmann::json& json, const fs::path& path,
                         const JsonPlace& place) const {
  nlohmann::json merged = json;
  if (json.contains("base")) {
    if (!json.contains("name")) place.fail("name is missing; valid: a name of its own");
    merged = with_base(json, path, place, {});
  }
  const std::string overrides = overrides_of("stack");
  return read_changed(merged, labelled(merged, with_overrides(merged, "stack"), overrides),
                      overrides,
                      [&](const nlohmann::json& j) { return Stack::from_json(j, place); });
}

namespace {

// Writes notes to stderr, each once, however often its file is read.
void say_once(const std::vector<std::string>& notes) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  for (const std::string& note : notes) {
    if (said.insert(note).second) std::cerr << "shardlab: " << printable(note) << "\n";
  }
}

}  // namespace

nlohmann::json ConfigStore::read_topology(const fs::path& path) const {
  if (path.extension() != ".xml") return read_json_file(path);
  std::vector<Topology> known;
  for (const std::string& shipped : names(ConfigKind::kTopology)) {
    const fs::path file = find(ConfigKind::kTopology, shipped);
    known.push_back(Topology::from_json(read_json_file(file), {file.string(), ""}));
  }
  if (known.empty()) {
    throw EnvironmentError(path.string() +
                           ": found no shipped topology to take device figures from");
  }
  const NcclTopology read = topology_of_nccl_xml(read_text_file(path), path.string(), known);
  say_once(read.notes);
  return read.topology.to_json();
}

Topology ConfigStore::topology(const std::string& name, const JsonChange& change) const {
  const fs::path path = find(ConfigKind::kTopology, name);
  nlohmann::json json = read_topology(path);
  if (change) change(json);
  return read_changed(json, with_overrides(json, "topology"), overrides_of("topology"),
                      [&](const nlohmann::json& j) {
                        return Topology::from_json(j, {path.string(), ""});
                      });
}

Topology ConfigStore::topology(const std::string& name, std::int64_t devices_per_host,
                               const JsonChange& change) const {
  const fs::path path = find(ConfigKind::kTopology, name);
  nlohmann::json json = read_topology(path);
  if (json.is_object()) {
    json["devices_per_host"] = devices_per_host;
    json.erase("domain_devices");
    fit_blocks(json, devices_per_host);
  }
  if (change) change(json);
  return Topology::from_json(with_overrides(json, "topology"), {path.string(), ""});
}

Suite ConfigStore::suite(const std::string& name, std::optional<std::uint64_t> seed) const {
  const fs::path path = find(ConfigKind::kSuite, name);
  nlohmann::json json = read_json_file(path);
  if (seed && json.is_object() && json.contains("generate") && json["generate"].is_object()) {
    json["generate"]["seed"] = *seed;
  }
  return Suite::from_json(json, {path.string(), ""});
}

nlohmann::json ConfigStore::experiment_json(const fs::path& path) const {
  return with_overrides(read_json_file(path), "experiment");
}

Program ConfigStore::program(const std::string& name) const {
  const fs::path path = find(ConfigKind::kProgram, name);
  return Program::from_json(read_json_file(path), {path.string(), ""});
}

Recipe ConfigStore::recipe(const std::string& name) const {
  const fs::path path = find(ConfigKind::kRecipe, name);
  return Recipe::from_json(read_json_file(path), {path.string(), ""});
}

void expect_new_suite(const std::vector<Suite>& suites) {
  for (std::size_t i = 0; i + 1 < suites.size(); ++i) {
    if (suites[i].name == suites.back().name) {
      throw InputError("--suite: suite \"" + suites.back().name + "\" is named twice");
    }
  }
}

}  // namespace shardlab
