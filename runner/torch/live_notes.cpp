#include "runner/torch/live_notes.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "reports/summary.h"

namespace shardlab {
namespace {

// "aten.mm.default, aten.neg.default, aten.relu.default and 5 more".
std::string few_of(std::vector<std::string> ops) {
  constexpr std::size_t kFew = 3;
  if (ops.size() > kFew) {
    const std::string rest = std::to_string(ops.size() - kFew) + " more";
    ops.resize(kFew);
    ops.push_back(rest);
  }
  return reports::listed(ops);
}

// A registration has no effect where PyTorch finds the op in a table that it looks into first.
void note_ignored_registrations(const nlohmann::json& hello, std::vector<std::string>& notes) {
  const auto found = hello.find("ignored_registrations");
  if (found == hello.end()) return;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> ops;
  for (const nlohmann::json& each : *found) {
    ops[{each.at("table"), each.at("found_in")}].push_back(each.at("op"));
  }
  for (auto& [tables, names] : ops) {
    std::sort(names.begin(), names.end());
    const auto& [table, found_in] = tables;
    notes.push_back("PyTorch ignores what is registered in " + table + " for " + few_of(names) +
                    ", since it finds " + (names.size() > 1 ? "them" : "the op") + " in " +
                    found_in +
                    " first; a rule takes part if it is registered there, or if the "
                    "file deletes the op from that table");
  }
}

// Answers rest on what the propagator decides, which PyTorch asks while it dispatches an op.
void note_changed_dispatch(const MachineryChanges& changes, const std::string& base,
                           std::vector<std::string>& notes) {
  if (changes.dispatch.empty()) return;
  const bool is_one = changes.dispatch.size() == 1;
  notes.push_back("found a change from " + base + " in " + few_of(changes.dispatch) + ", which " +
                  (is_one ? "takes" : "take") + " part in no answer: PyTorch runs " +
                  (is_one ? "it" : "them") +
                  " when it dispatches an op, and shardlab asks only which placements the "
                  "propagator decides on");
}

}  // namespace

std::vector<std::string> live_notes(const nlohmann::json& hello, const MachineryChanges& changes,
                                    const std::string& base) {
  std::vector<std::string> notes;
  note_ignored_registrations(hello, notes);
  note_changed_dispatch(changes, base, notes);
  return notes;
}

}  // namespace shardlab
