// Expected messages: the lists that grow with the registries are written as {stacks}, {models} and
// so on.
#pragma once

#include <string>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/text.h"
#include "costmodel/registry.h"
#include "runner/commands/commands.h"
#include "tests/support/process.h"
#include "tests/support/shipped.h"

namespace shardlab::testing_support {

inline std::string model_list() {
  std::vector<std::string_view> names;
  for (const ModelEntry* entry : all_cost_models()) names.push_back(entry->name);
  return join(names);
}

inline std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandRow& row : all_commands()) names.emplace_back(row.name);
  return names;
}

inline std::string with_lists(std::string message) {
  const auto names = [](ConfigKind kind) { return join(shipped().names(kind)); };
  const std::vector<std::pair<std::string, std::string>> lists = {
      {"{stacks}", names(ConfigKind::kStack)},
      {"{topologies}", names(ConfigKind::kTopology)},
      {"{suites}", names(ConfigKind::kSuite)},
      {"{cases}", names(ConfigKind::kRegression)},
      {"{models}", model_list()},
      {"{collective_models}", join(model_names(true))},
      {"{compute_models}", join(model_names(false))},
      {"{dtypes}", std::string(kDTypeNames)},
      {"{configs}", SHARDLAB_SOURCE_DIR "/configs"},
      {"{commands}", join(command_names())},
      {"{plan options}",
       "--help, --mesh, --tensor, --from, --to, --stack, --planner, --flatten, --rank, "
       "--against, --draw, --require-bitwise-replicas, --topology, --torch-names, --out, "
       "--summary, "
       "--format, --set, --digits, --max-input, --color, --quiet, --no-timing"},
      {"{stack keys}",
       "schema, name, title, source, rules, transitions, planner, merge, merge_rule, "
       "merge_checks_all_gather, collective_model, compute_model, strided_kernels, straggler, "
       "order, policy, search, nesting_guard, transition_us, step_terms"},
  };
  for (const auto& [name, list] : lists) message = replaced(std::move(message), name, list);
  return message;
}

// The program under test, started in `folder` and blind to the caller's SHARDLAB_CONFIGS.
inline ProcessResult run_shardlab(const std::vector<std::string>& words,
                                  const std::filesystem::path& folder = {}) {
  std::vector<std::string> command = {SHARDLAB_BINARY};
  command.insert(command.end(), words.begin(), words.end());
  return run_process(command, {.folder = folder, .environment = {{"SHARDLAB_CONFIGS", ""}}});
}

}  // namespace shardlab::testing_support
