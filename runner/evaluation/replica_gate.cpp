#include "runner/evaluation/replica_gate.h"

#include <algorithm>

#include "runner/base/terminal.h"
#include "runner/session/command.h"

namespace shardlab {
namespace {

constexpr std::size_t kShown = 5;

}  // namespace

void ReplicaGateOption::add(const Command& command) {
  command.flag(
      "--require-bitwise-replicas", is_required,
      "exit with 1 if replicas of one value may differ in their last bits, because groups that "
      "reduce the same values lie differently on NVLink domains; the steps are named");
}

void ReplicaGate::check(const Plan& plan, const std::string& where) {
  if (!is_required_ || !checked_.insert(plan.meta.text() + " " + plan.path()).second) return;
  const std::optional<ReplicaFault> fault = replicas_may_differ(plan, mesh_, topology_);
  if (!fault) return;
  faults_.push_back((where.empty() ? "" : where + ", " + plan.path() + ": ") + fault->text(plan));
}

std::string ReplicaGate::text() const {
  if (!is_required_) return "";
  if (faults_.empty()) return "  replicas of one value are equal to the last bit\n";
  std::string text;
  for (std::size_t i = 0; i < std::min(faults_.size(), kShown); ++i) {
    text += "  replicas may differ: " + printable(faults_[i]) + "\n";
  }
  if (faults_.size() > kShown) {
    text += "  and after " + std::to_string(faults_.size() - kShown) + " more plans\n";
  }
  return text;
}

void ReplicaGate::add_to(nlohmann::json& document) const {
  if (is_required_) document["replicas_may_differ"] = faults_;
}

}  // namespace shardlab
