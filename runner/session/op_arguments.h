// The op that a command line names, as `select` and `simulate` read it.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/rule_source.h"

namespace shardlab {

// The options as they were typed.
struct OpArguments {
  std::string op;
  std::vector<std::string> inputs;
  std::string args;

  // Adds --op, --inputs and --args. The command keeps references to these members.
  void add_options(const Command& command, bool required);
  // Throws InputError, which names the option, what was found and what is valid.
  [[nodiscard]] OpCall read(const DeviceMesh& mesh, const Rules& rules) const;
};

}  // namespace shardlab
