// Starts one process per rank on this host, and sees to it that none is left.
//
//   const int code = run_rank_processes({.ranks = 4, .arguments = {"measure", ...}, .limit_s = 300});
//
// The processes are this program again, with these arguments, told their rank by the environment
// (runner/launch/place.h). Rank 0 writes to our stdout; its stderr is passed on line by line, and
// that of the other ranks only when they fail. When one fails, or the time limit passes, all others
// are ended: by SIGTERM, then SIGKILL. Should this process die, the kernel ends them
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

// The exit code that the ranks agree on: 0, or that of the one that failed first. Throws
// EnvironmentError if a signal ended a rank, the time limit passed, or a process can't be started.
[[nodiscard]] int run_rank_processes(const RankLaunch& launch);

// To be called first in a rank's process, so that the process ends when its parent does.
void end_with_parent();

}  // namespace shardlab
