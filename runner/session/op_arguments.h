// The op that a command line asks about: what `select` and `simulate` share.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/rule_source.h"

namespace shardlab {

// The options as typed.
struct OpArguments {
  std::string op;
  std::vector<std::string> inputs;
  std::string args;

  // --op, --inputs, --args. Keeps references.
  void add_options(const Command& command, bool required);
  // Throws InputError, which names the option, what was found and what is valid.
  [[nodiscard]] OpCall read(const DeviceMesh& mesh, const Rules& rules) const;
};

}  // namespace shardlab
