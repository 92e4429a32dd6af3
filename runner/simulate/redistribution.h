// The redistribution that a command line asks about: what `plan` and `simulate` share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// The options as typed.
struct RedistributionArguments {
  std::string mesh;
  std::string tensor;
  std::string from;
  std::string to;
  std::string stack = "dtensor-2.13";
  std::string planner;
  std::vector<std::string> flatten;
  std::int64_t rank = 0;

  // --mesh, --tensor, --from, --to, --stack, --planner, --flatten, --rank. Keeps references. --mesh
  // is always required, and the next three are if `required` says so.
  void add_options(const Command& command, bool required);
  // Throws InputError, which names the option, what was found and what is valid.
  [[nodiscard]] RedistributionQuestion read() const;
};

}  // namespace shardlab
