// Finds and reads shipped configurations and other files, and applies --set.
//
//   ConfigStore store(configs_root(), overrides);
//   Stack stack = store.stack("dtensor-v3");            // a shipped name or a path
//   Topology topology = store.topology("h100");
//
// Throws ConfigError (broken JSON with its line, unknown keys ...) and InputError (an unknown name;
// the message lists the valid ones).
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/topology.h"
#include "runner/config/read_json.h"
#include "strategies/programs/program.h"
#include "strategies/programs/recipe.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

// The folder `configs`: $SHARDLAB_CONFIGS if set, else `configs` or `share/shardlab/configs` in a
// folder above the binary, where a build or an installation keeps it, else the one in the source
// tree that the binary was built from. A package's binary (SHARDLAB_RELOCATABLE) knows no source
// tree.
[[nodiscard]] std::filesystem::path configs_root();

// One --set PATH=VALUE. A path that begins with "stack." or "experiment." changes a stack or the
// experiment; any other path, with or without "topology." in front, changes the topology.
struct Override {
  std::string target;             // stack, topology, experiment
  std::vector<std::string> keys;  // path inside it
  nlohmann::json value;           // the JSON that was typed, or a string of it if it is not JSON
  std::string text;               // as it was typed

  [[nodiscard]] static Override parse(std::string_view text);  // throws TextError
};

enum class ConfigKind : std::uint8_t {
  kStack,
  kTopology,
  kSuite,
  kRegression,
  kProgram,
  kRecipe,
  kMeasurement,
  kExperiment
};
template <>
struct EnumNames<ConfigKind> {
  static constexpr std::string_view kKind = "kind of configuration";
  static constexpr std::array kNames = {Named{ConfigKind::kStack, "stack"},
                                        Named{ConfigKind::kTopology, "topology"},
                                        Named{ConfigKind::kSuite, "suite"},
                                        Named{ConfigKind::kRegression, "regression"},
                                        Named{ConfigKind::kProgram, "program"},
                                        Named{ConfigKind::kRecipe, "recipe"},
                                        Named{ConfigKind::kMeasurement, "measurement set"},
                                        Named{ConfigKind::kExperiment, "experiment"}};
  // The folder of each kind, below configs/.
  static constexpr std::array kFolders = {Named{ConfigKind::kStack, "stacks"},
                                          Named{ConfigKind::kTopology, "topologies"},
                                          Named{ConfigKind::kSuite, "suites"},
                                          Named{ConfigKind::kRegression, "regressions"},
                                          Named{ConfigKind::kProgram, "programs"},
                                          Named{ConfigKind::kRecipe, "recipes"},
                                          Named{ConfigKind::kMeasurement, "measurements"},
                                          Named{ConfigKind::kExperiment, "experiments"}};
};
[[nodiscard]] std::string_view folder_of(ConfigKind kind);

class ConfigStore;

// The newest release of DTensor: "dtensor" names its stack, which commands take by default.
inline constexpr std::string_view kNewestDTensor = "dtensor";
// The same name, or that of the newest release in the place of kNewestDTensor.
[[nodiscard]] std::string released_stack(const std::string& name);

// Stacks that are in no file, such as those of a live PyTorch (runner/torch/live_stack.h).
class StackSource {
 public:
  StackSource() = default;
  StackSource(const StackSource&) = delete;
  StackSource& operator=(const StackSource&) = delete;
  virtual ~StackSource() = default;
  // Nothing for a name that is not of the source's form.
  [[nodiscard]] virtual std::optional<Stack> stack(const std::string& name,
                                                   const ConfigStore& store) = 0;
  // Tells the source what will be asked under one of its stacks, before anything is; does nothing
  // for other stacks. A live PyTorch answers many questions together much faster than one by one,
  // and a sample of them is checked here.
  virtual void prepare(const Stack& stack, std::span<const Question* const> questions,
                       const Topology& topology) = 0;
  // What `describe stack` adds about one of the source's stacks; null for other stacks.
  [[nodiscard]] virtual nlohmann::json details(const Stack& stack) const = 0;
  // Where the answers came from, for the key "torch" of the provenance; null if no stack of the
  // source was used.
  [[nodiscard]] virtual nlohmann::json provenance() const = 0;
};

// Changes the JSON of a file, whose form was not checked yet.
using JsonChange = std::function<void(nlohmann::json&)>;

class ConfigStore {
 public:
  explicit ConfigStore(std::filesystem::path root, std::vector<Override> overrides = {})
      : root_(std::move(root)), overrides_(std::move(overrides)) {}

  // Where stacks are looked for before the files. The source must outlive the store.
  void set_stack_source(StackSource* source) { stack_source_ = source; }

  // The same store with stacks as their files say, for a baseline and for a reference, which a
  // --set of stacks does not change.
  [[nodiscard]] ConfigStore with_stacks_as_written() const;
  [[nodiscard]] bool changes_stacks() const { return !overrides_of("stack").empty(); }
  [[nodiscard]] bool changes_topologies() const { return !overrides_of("topology").empty(); }
  // The same store without a --set of devices_per_host, for topologies whose hosts are those of a
  // measurement.
  [[nodiscard]] ConfigStore with_devices_per_host_as_written() const;
  [[nodiscard]] bool changes_devices_per_host() const;

  // Names of the shipped files of a kind, sorted.
  [[nodiscard]] std::vector<std::string> names(ConfigKind kind) const;
  // The file of a shipped name or a path; kNewestDTensor is a name too. A relative path starts from
  // `folder`, or, if that is empty, from the working directory.
  [[nodiscard]] std::filesystem::path find(ConfigKind kind, const std::string& name,
                                           const std::filesystem::path& folder = {}) const;

  // The JSON of a stack's file merged onto its "base" (strategies/select/stack.h), which is a
  // shipped name or a path relative to the file.
  [[nodiscard]] nlohmann::json stack_json(const std::string& name) const;
  [[nodiscard]] Stack stack(const std::string& name) const;
  // A stack that is written inside another file, at `place` in the file `path`.
  [[nodiscard]] Stack stack(const nlohmann::json& json, const std::filesystem::path& path,
                            const JsonPlace& place) const;
  // A file that ends in .xml is NCCL's topology XML (costmodel/measurements/topology_xml.h). Its
  // notes go to stderr, each once. A `change` is made to what the file says, before those of --set.
  [[nodiscard]] Topology topology(const std::string& name, const JsonChange& change = {}) const;
  // The same with this many devices per host, whatever the file says.
  [[nodiscard]] Topology topology(const std::string& name, std::int64_t devices_per_host,
                                  const JsonChange& change = {}) const;
  // A `seed` replaces that of the suite's generator, if the suite has one.
  [[nodiscard]] Suite suite(const std::string& name, std::optional<std::uint64_t> seed = {}) const;
  [[nodiscard]] nlohmann::json experiment_json(const std::filesystem::path& path) const;
  [[nodiscard]] Program program(const std::string& name) const;
  [[nodiscard]] Recipe recipe(const std::string& name) const;
  [[nodiscard]] const std::vector<Override>& overrides() const { return overrides_; }

 private:
  [[nodiscard]] nlohmann::json read_stack(const std::filesystem::path& path,
                                          std::vector<std::filesystem::path> above) const;
  // Merges `json` onto its base (strategies/select/stack.h), which is a shipped name or a path
  // relative to the file `path`. A base may have a base of its own, but that must not be one of the
  // files `above`, which are based on this one.
  [[nodiscard]] nlohmann::json with_base(const nlohmann::json& json,
                                         const std::filesystem::path& path, const JsonPlace& place,
                                         const std::vector<std::filesystem::path>& above) const;
  [[nodiscard]] nlohmann::json read_topology(const std::filesystem::path& path) const;
  [[nodiscard]] std::string overrides_of(std::string_view target) const;
  [[nodiscard]] nlohmann::json with_overrides(nlohmann::json json, std::string_view target) const;

  std::filesystem::path root_;
  std::vector<Override> overrides_;
  StackSource* stack_source_ = nullptr;
};

// Throws InputError if the last suite has the name of an earlier one, because a question is
// identified by its suite's name and its id.
void expect_new_suite(const std::vector<Suite>& suites);

}  // namespace shardlab
