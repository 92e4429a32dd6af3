// The environment variables that shardlab reads; nothing else reads the environment.
//   SHARDLAB_CONFIGS  folder of the shipped configurations
//   NO_COLOR          no colour on a terminal
#pragma once

#include <string>

namespace shardlab {

[[nodiscard]] std::string read_env(const char* name);  // "" when unset

}  // namespace shardlab
