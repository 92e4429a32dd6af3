// Shipped configurations for tests.
#pragma once

#include <string>

#include "runner/config/configs.h"

namespace shardlab::testing_support {

inline ConfigStore shipped() { return ConfigStore(SHARDLAB_SOURCE_DIR "/configs"); }

inline Stack shipped_stack(const std::string& name) { return shipped().stack(name); }

// The topology h100 with this many devices per host.
inline Topology h100(std::int64_t devices_per_host) {
  return shipped().topology("h100", devices_per_host);
}

}  // namespace shardlab::testing_support
