// The position of this process among the processes of one measurement, as its launcher states it.
//
//   const std::optional<LaunchPlace> place = find_place();   // empty: there is no launcher
//   place->rank, place->world, place->address, place->port
//
// The variables of these launchers are tried in this order:
//   SHARDLAB_RANK, _WORLD_SIZE, _LOCAL_RANK, _RENDEZVOUS_FD   set by `shardlab measure` itself
//   RANK, WORLD_SIZE, LOCAL_RANK                              torchrun
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE     Open MPI (nothing of MPI is linked)
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID         srun
// Ranks meet at MASTER_ADDR and MASTER_PORT. Without MASTER_ADDR they meet at this host if all of
// them run here, and otherwise, under Slurm, at SLURM_LAUNCH_NODE_IPADDR. Without MASTER_PORT the
// port is kDefaultPort.
// Source: PyTorch's manual of torchrun ("Environment Variables"), Open MPI's FAQ on environment
// variables, Slurm's manual of srun ("Output environment variables").
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace shardlab {

inline constexpr int kDefaultPort = 29500;  // torchrun's

struct LaunchPlace {
  std::string launcher;  // "shardlab", "torchrun", "Open MPI", "Slurm"
  std::int64_t rank = 0;
  std::int64_t world = 1;
  std::int64_t local_rank = 0;  // among the processes of this host
  std::string address;          // where rank 0 listens
  int port = kDefaultPort;
  int listening_fd = -1;  // set for rank 0 if its parent has opened the port already
};

using ReadVariable = std::function<std::string(const char*)>;  // "" when unset

// Throws InputError if a variable is not a number, if the rank is not below the number of ranks, or
// if the ranks are on several hosts and MASTER_ADDR is missing.
[[nodiscard]] std::optional<LaunchPlace> find_place(const ReadVariable& read);
// The same for processes that never meet, and therefore need neither address nor port.
[[nodiscard]] std::optional<LaunchPlace> find_rank(const ReadVariable& read);

}  // namespace shardlab
