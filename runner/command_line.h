// Runs one command. Its words are what a user types after `shardlab`. Both the program and the
// Python module run commands through this function.
//
//   Session session;
//   std::ostringstream out;
//   session.results = &out;
//   const int exit_code = run_command_line({"plan", "--mesh", "8", ...}, session);
//
// Throws what commands throw (costmodel/base/error.h), and InputError for words that are not a
// valid command line.
#pragma once

#include <string>
#include <vector>

#include "runner/session/session.h"

namespace shardlab {

// --help and --version always print to stdout, even if session.results is another stream.
[[nodiscard]] int run_command_line(const std::vector<std::string>& words, Session& session);

}  // namespace shardlab
