// The redistribution that a command line describes, as `plan` and `simulate` read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/config/configs.h"
#include "runner/session/flattened_meshes.h"
#include "runner/session/session.h"
#include "sim/redistribute.h"

namespace shardlab {

struct RedistributionQuestion {
  DeviceMesh mesh;
  TensorMeta meta;
  Layout from;
  Layout to;
  PlanOptions options;
};

// The options as they were typed.
struct RedistributionArguments {
  std::string mesh;
  std::string tensor;
  std::string from;
  std::string to;
  std::string stack{kNewestDTensor};
  std::string planner;
  FlattenedMeshes flattened;
  std::int64_t rank = 0;

  // Adds --mesh, --tensor, --from, --to, --stack, --planner, --flatten and --rank. The command
  // keeps references to these members. --mesh is always required; --tensor, --from and --to are
  // required if `required` is true.
  void add_options(const Command& command, bool required);
  // Throws InputError, which names the option, what was found and what is valid.
  [[nodiscard]] RedistributionQuestion read() const;
};

}  // namespace shardlab
