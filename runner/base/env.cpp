#include "runner/base/env.h"

#include <cstdlib>

namespace shardlab {

std::string read_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void set_env(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

}  // namespace shardlab
