#include "runner/torch/machinery.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/base/json_reader.h"
#include "runner/config/read_json.h"

namespace shardlab {
namespace {

// Functions that decide nothing but the price of one transition, which can be asked for alone.
constexpr std::array<std::string_view, 6> kPriceFunctions = {
    "_collective_utils.MeshTopoInfo",
    "_collective_utils.allgather_cost",
    "_collective_utils.allreduce_cost",
    "_collective_utils.reduce_scatter_cost",
    "_collective_utils._compute_placement_transition_cost",
    "device_mesh._mesh_resources.num_devices_per_host"};

bool prices_transitions(std::string_view function) {
  return std::any_of(kPriceFunctions.begin(), kPriceFunctions.end(), [&](std::string_view name) {
    return function == name || (function.starts_with(name) && function[name.size()] == '.');
  });
}

// Each op whose dispatch PyTorch leaves to a function of its own is one such name.
constexpr std::string_view kHandler = "_dispatch.OpDispatcher._custom_op_handlers[";
constexpr std::array<std::string_view, 4> kDispatch = {
    "_dispatch.OpDispatcher._propagate_op_sharding_dispatch_slow_path",
    "_dispatch.OpDispatcher._dispatch_get_local_results_slow_path",
    "_dispatch.OpDispatcher._dispatch_fast_path_python_tail",
    "_sharding_prop.ShardingPropagator.propagate"};

bool dispatches(std::string_view function) {
  return function.starts_with(kHandler) ||
         std::find(kDispatch.begin(), kDispatch.end(), function) != kDispatch.end();
}

// Functions and constants that decide which steps are merged, and onto which flattened mesh.
constexpr std::array<std::string_view, 4> kMerging = {
    "_redistribute._optimize_transform_infos",
    "_redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION",
    "_redistribute._get_flattened_mesh_by_layout",
    "_redistribute._get_flattened_mesh_by_layout_impl"};

// "2.15" of "2.15.0".
std::string_view minor_of(std::string_view version) {
  const std::size_t first = version.find('.');
  const std::size_t second = first == std::string_view::npos ? first : version.find('.', first + 1);
  return version.substr(0, second);
}

}  // namespace

void MachineryChanges::add(const std::string& name) {
  (dispatches(name) ? dispatch : prices_transitions(name) ? prices : others).push_back(name);
}

std::vector<std::string> MachineryChanges::of_merging() const {
  std::vector<std::string> found;
  std::copy_if(others.begin(), others.end(), std::back_inserter(found), [](const auto& name) {
    return std::find(kMerging.begin(), kMerging.end(), name) != kMerging.end();
  });
  return found;
}

KnownMachinery KnownMachinery::read(const std::filesystem::path& file) {
  const nlohmann::json json = read_json_file(file);
  ObjectReader reader(json, {file.string(), ""});
  reader.expect_schema("shardlab/torch-machinery/1");
  static_cast<void>(reader.text("source"));
  KnownMachinery known;
  for (const auto& [release, functions] : reader.value("releases").items()) {
    for (const auto& [name, hash] : functions.items()) {
      known.releases_[release][name] =
          json_text(hash, reader.place("releases").at(release).at(name));
    }
  }
  reader.finish();
  return known;
}

MachineryChanges KnownMachinery::changes(std::string_view release,
                                         const nlohmann::json& fingerprints) const {
  MachineryChanges changes;
  const auto known = releases_.find(release);
  SHARDLAB_CHECK(known != releases_.end(), "no machinery of release ", release);
  for (const auto& [name, hash] : known->second) {
    const auto live = fingerprints.find(name);
    if (live != fingerprints.end() && *live == hash) continue;
    changes.add(name);
  }
  for (const auto& [name, hash] : fingerprints.items()) {
    if (name.starts_with(kHandler) && !known->second.contains(name)) changes.add(name);
  }
  return changes;
}

const ReleaseEntry& nearest_release(std::string_view torch_version) {
  for (const ReleaseEntry& entry : kReleases) {
    if (minor_of(entry.torch) == minor_of(torch_version)) return entry;
  }
  return kReleases.back();
}

}  // namespace shardlab
