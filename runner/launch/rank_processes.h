// Starts one process per rank on this host, and makes sure that none is left running.
//
//   const int code =
//       run_rank_processes({.ranks = 4, .arguments = {"measure", ...}, .limit_s = 300});
//
// Each process runs this program with these arguments, and gets its rank from the environment
// (runner/launch/place.h). Rank 0 writes to our stdout. Its stderr is passed on line by line, that
// of the other ranks only if they fail. If a rank fails, or the time limit passes, all others are
// ended: by SIGTERM, then by SIGKILL. If this process dies, the kernel ends them
// (PR_SET_PDEATHSIG).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardlab {

struct RankLaunch {
  std::int64_t ranks = 1;
  std::vector<std::string> arguments;
  double limit_s = 300.0;
  int port = 0;  // where the ranks meet; 0 means any free port
};

// Returns the exit code: 0, or that of the rank that failed first. Throws EnvironmentError if a
// signal ended a rank, if the time limit passed, or if a process can't be started.
[[nodiscard]] int run_rank_processes(const RankLaunch& launch);

// Must be called first in a rank's process, so that the process ends when its parent ends.
void end_with_parent();

}  // namespace shardlab
