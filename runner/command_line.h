// Runs one command, whose words are those that are typed after `shardlab`. Both the program and the
// Python module do it this way.
//
//   Session session;
//   std::ostringstream out;
//   session.results = &out;
//   const int exit_code = run_command_line({"plan", "--mesh", "8", ...}, session);
//
// Throws what commands throw (costmodel/base/error.h): InputError for words that make no command.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"

namespace shardlab {

// --help and --version print to stdout, whatever the session says.
[[nodiscard]] int run_command_line(const std::vector<std::string>& words, Session& session);

}  // namespace shardlab
