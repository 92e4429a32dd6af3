// The gate --require-bitwise-replicas: refuses plans after which replicas of one value may differ
// in their last bits (sim/replicas.h).
//
//   ReplicaGate gate(arguments.replicas, mesh, topology);
//   gate.check(plan, "input 0 of mm_3");
//   session.print(gate.text());
//   if (gate.says_no()) session.exit_code = kGateSaidNo;
//
// Without the option a gate checks nothing, and its text and JSON are empty.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "costmodel/topology.h"
#include "sim/replicas.h"

namespace shardlab {

class Command;

struct ReplicaGateOption {
  bool is_required = false;

  // Adds --require-bitwise-replicas. The command keeps a reference to this.
  void add(const Command& command);
};

class ReplicaGate {
 public:
  // Keeps references to the mesh and the topology.
  ReplicaGate(const ReplicaGateOption& option, const DeviceMesh& mesh, const Topology& topology)
      : is_required_(option.is_required), mesh_(mesh), topology_(topology) {}

  // `where` says whose plan it is, and may be empty. A plan that occurs in several places is told
  // once, of the first.
  void check(const Plan& plan, const std::string& where);

  [[nodiscard]] bool says_no() const { return !faults_.empty(); }
  // A line for each of the first faults, or one that says that there is none.
  [[nodiscard]] std::string text() const;
  // Adds "replicas_may_differ", an array of texts, if the gate is asked for.
  void add_to(nlohmann::json& document) const;

 private:
  bool is_required_;
  const DeviceMesh& mesh_;
  const Topology& topology_;
  std::set<std::string> checked_;  // by tensor and path
  std::vector<std::string> faults_;
};

}  // namespace shardlab
