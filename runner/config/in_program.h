// Adds to errors about a program's node the file and place that the program came from.
//
//   const ProgramStrategies all =
//       in_program(file, [&] { return enumerate_strategies(program, mesh); });
#pragma once

#include <string>

#include "costmodel/base/error.h"
#include "strategies/programs/program.h"

namespace shardlab {

// A NodeError becomes a ConfigError that names the file. All other exceptions pass through.
template <class Work>
auto in_program(const std::string& file, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const NodeError& error) {
    throw ConfigError(file, error.pointer(), error.what());
  }
}

}  // namespace shardlab
