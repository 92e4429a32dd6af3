// The position of this process among the processes of one measurement, as its launcher states it.
//
//   const std::optional<LaunchPlace> place = find_place(read_env);   // empty: there is no launcher
//   place->rank, place->world, place->address, place->port
//
// The variables of these launchers are tried in this order:
//   SHARDLAB_RANK, _WORLD_SIZE, _LOCAL_RANK,                  set by `shardlab measure` itself
//     _PORT, _RENDEZVOUS_FD
//   RANK, WORLD_SIZE, LOCAL_RANK                              torchrun
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE     Open MPI (nothing of MPI is linked)
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID         srun
// Ranks that `shardlab measure` starts meet on the loopback device, at SHARDLAB_PORT. All others
// meet at MASTER_ADDR and MASTER_PORT. Without MASTER_ADDR they meet at this host if all of them
// run here, and otherwise, under Slurm, at SLURM_LAUNCH_NODE_IPADDR. Without MASTER_PORT the port
// is kDefaultPort.
//
// Who may join is decided by a secret that all ranks know: SHARDLAB_SECRET, or the content of the
// file that SHARDLAB_SECRET_FILE names, which no one but its owner may read. `shardlab measure`
// makes one for the ranks that it starts itself. Ranks on several hosts need one; ranks that meet
// on the loopback device may do without.
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
  std::string secret;     // "" for none
};

// The longest secret, in bytes.
inline constexpr std::size_t kMaxSecret = 256;

using ReadVariable = std::function<std::string(const char*)>;  // "" when unset

// The text of a secret's file. Throws EnvironmentError if others than its owner may read it, if it
// is no regular file, or if it is empty or longer than kMaxSecret.
[[nodiscard]] std::string read_secret_file(const std::string& path);

// Throws InputError if a variable is not a number, if the rank is not below the number of ranks, if
// the ranks are on several hosts and MASTER_ADDR or a secret is missing, and for a secret that is
// too long.
[[nodiscard]] std::optional<LaunchPlace> find_place(const ReadVariable& read);
// The same for processes that never meet, and therefore need neither address nor port.
[[nodiscard]] std::optional<LaunchPlace> find_rank(const ReadVariable& read);

}  // namespace shardlab
