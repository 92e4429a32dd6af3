// What a PyTorch's own machinery is: the functions that price, plan, expand and select, by the
// fingerprints of their sources, and the constants of their modules, by those of their values.
//
//   const KnownMachinery known = KnownMachinery::read(configs_root() / "torch" / "machinery.json");
//   known.changes("2.15.0", worker.hello()["fingerprints"]).prices   // {} where nothing differs
//
// shardlab has its own implementation of this machinery for each release in kReleases. Where the
// source of a function differs, the answer has to come from PyTorch itself.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/rule_set.h"

namespace shardlab {

struct MachineryChanges {
  std::vector<std::string> prices;  // functions that price one transition
  std::vector<std::string> others;  // functions that plan, expand, select or dispatch
  // What PyTorch runs around a decision when it dispatches an op, which no answer here rests on:
  // methods of the dispatcher, and handlers of single ops.
  std::vector<std::string> dispatch;
  // Adds a function or constant to those of its kind.
  void add(const std::string& name);
  // Those of `others` that decide which steps of a plan are merged onto flattened meshes.
  [[nodiscard]] std::vector<std::string> of_merging() const;
};

class KnownMachinery {
 public:
  // Reads a file of the schema shardlab/torch-machinery/1, which scripts/record_torch_machinery.py
  // writes. Throws ConfigError.
  [[nodiscard]] static KnownMachinery read(const std::filesystem::path& file);

  // The functions and constants whose fingerprints differ from those of a release, "2.15.0". One
  // that only the live PyTorch has is no change, since whatever reads it differs too, unless it is
  // a handler of an op.
  [[nodiscard]] MachineryChanges changes(std::string_view release,
                                         const nlohmann::json& fingerprints) const;

 private:
  std::map<std::string, std::map<std::string, std::string>, std::less<>> releases_;
};

// The release whose stack a live PyTorch is closest to: that of the same minor version, else the
// newest one.
[[nodiscard]] const ReleaseEntry& nearest_release(std::string_view torch_version);

}  // namespace shardlab
