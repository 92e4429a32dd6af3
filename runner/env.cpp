#include "runner/env.h"

#include <cstdlib>

namespace shardlab {

std::string read_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace shardlab
