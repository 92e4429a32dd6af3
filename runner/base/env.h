// The environment variables that shardlab reads and sets; nothing else touches the environment.
//   SHARDLAB_CONFIGS       folder of the shipped configurations
//   SHARDLAB_TORCH_PYTHON  the interpreter of a live PyTorch (runner/config/stack_name.h)
//   NO_COLOR               no colour on a terminal
//   TERM                   the kind of terminal; a dumb one has no colour
//   COLUMNS                the width of a terminal, if it is to differ from what the terminal says
// `measure` also reads the variables of launchers (runner/launch/place.h) and NCCL_DEBUG, and sets
// variables that NCCL reads (runner/measure/nccl_environment.h). The ranks that it starts also read
// SHARDLAB_PARENT, the process that they must not outlive (runner/launch/rank_processes.h).
#pragma once

#include <string>

namespace shardlab {

[[nodiscard]] std::string read_env(const char* name);  // "" when unset
// Assumes that no other thread runs yet.
void set_env(const char* name, const std::string& value);

}  // namespace shardlab
