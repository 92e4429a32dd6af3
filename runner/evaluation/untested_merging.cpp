#include "runner/evaluation/untested_merging.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "reports/summary.h"

namespace shardlab {
namespace {

nlohmann::json besides_merging(const Stack& stack) {
  nlohmann::json json = stack.to_json();
  for (const char* key :
       {"merge", "merge_rule", "merge_checks_all_gather", "name", "title", "source"}) {
    json.erase(key);
  }
  return json;
}

auto merging_of(const Stack& stack) {
  const RedistributionOptions& options = stack.redistribution;
  return std::tuple(options.merge, options.merge_rule, options.merge_checks_all_gather);
}

bool any_is_flattened(const Suite& suite) {
  return std::ranges::any_of(
      suite.questions, [](const Question& question) { return question.mesh.has_flattened(); });
}

}  // namespace

std::string untested_merging_text(std::span<const Stack> stacks, std::span<const Suite> suites) {
  if (std::ranges::any_of(suites, any_is_flattened)) return "";
  std::vector<std::string> others;
  const Stack& baseline = stacks.front();
  for (const Stack& stack : stacks.subspan(1)) {
    if (merging_of(stack) == merging_of(baseline)) continue;
    if (besides_merging(stack) == besides_merging(baseline)) others.push_back(stack.name);
  }
  if (others.empty()) return "";
  return "how " + reports::listed(others) + (others.size() == 1 ? " merges" : " merge") +
         " collectives is not tested here, since only flattened meshes merge, and no question has "
         "one (compare --program with --flatten does)";
}

}  // namespace shardlab
