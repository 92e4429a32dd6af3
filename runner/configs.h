// Shipped configurations and files: finds them, reads them, applies --set.
//
//   ConfigStore store(configs_root(), overrides);
//   Stack stack = store.stack("dtensor-v3");            // a shipped name or a path
//   Topology topology = store.topology("h100");
//
// Throws ConfigError (broken JSON with its line, unknown keys ...) and InputError (no such name; the valid ones are listed).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/topology.h"
#include "strategies/stack.h"
#include "strategies/suite.h"

namespace shardlab {

// The folder `configs`: $SHARDLAB_CONFIGS, else beside the binary's build tree, else the source tree it was built from.
[[nodiscard]] std::filesystem::path configs_root();

// One --set PATH=VALUE. Paths begin with "stack.", "topology." or "experiment."; bare ones address the topology.
struct Override {
  std::string target;             // stack, topology, experiment
  std::vector<std::string> keys;  // path inside it
  nlohmann::json value;           // the value as JSON, or as a text when it is no JSON
  std::string text;               // as typed

  [[nodiscard]] static Override parse(std::string_view text);  // throws TextError
};

enum class ConfigKind : std::uint8_t { kStack, kTopology, kSuite, kRegression };
[[nodiscard]] std::string_view folder_of(ConfigKind kind);

// Parses a JSON file. Throws ConfigError: unreadable, or broken at a line and column.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);
// The same from a text that came from `name`.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name);

class ConfigStore {
 public:
  explicit ConfigStore(std::filesystem::path root, std::vector<Override> overrides = {})
      : root_(std::move(root)), overrides_(std::move(overrides)) {}

  // Names of the shipped files of a kind, sorted.
  [[nodiscard]] std::vector<std::string> names(ConfigKind kind) const;
  // The file behind a shipped name or a path.
  [[nodiscard]] std::filesystem::path find(ConfigKind kind, const std::string& name) const;

  [[nodiscard]] nlohmann::json stack_json(const std::string& name) const;
  [[nodiscard]] Stack stack(const std::string& name) const;
  [[nodiscard]] Topology topology(const std::string& name) const;
  // A shipped topology with this many devices a host.
  [[nodiscard]] Topology topology(const std::string& name, std::int64_t devices_per_host) const;
  [[nodiscard]] Suite suite(const std::string& name) const;
  [[nodiscard]] const std::vector<Override>& overrides() const { return overrides_; }

 private:
  void apply_overrides(nlohmann::json& json, std::string_view target) const;

  std::filesystem::path root_;
  std::vector<Override> overrides_;
};

}  // namespace shardlab
