// What `shardlab compare` is told, for the commands that compare: compare and demo.
#pragma once

#include <string>
#include <vector>

#include "reports/comparison.h"
#include "runner/evaluation/replica_gate.h"
#include "runner/session/flattened_meshes.h"
#include "runner/session/session.h"

namespace shardlab {

struct CompareArguments {
  std::string baseline;
  std::vector<std::string> candidates;
  std::vector<std::string> suites;
  std::vector<std::string> programs;
  std::string recompute;
  bool reshard_after_forward = false;
  std::string mesh;
  FlattenedMeshes flattened;
  bool advises_flattening = false;
  std::string recipe;
  std::string plan;
  std::string reference = "alpha-beta";
  ReplicaGateOption replicas;
  bool downstream = false;
  reports::ComparisonOptions shown;
};

// Compares the stacks, prints what comes out, and writes the report if one is asked for.
void run_compare(const CompareArguments& arguments, Session& session);

}  // namespace shardlab
