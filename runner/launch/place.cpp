#include "runner/launch/place.h"

#include <charconv>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMaxWorld = 1 << 20;

struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
};
constexpr Launcher kLaunchers[] = {
    {"shardlab", "SHARDLAB_RANK", "SHARDLAB_WORLD_SIZE", "SHARDLAB_LOCAL_RANK"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::int64_t number_in(const ReadVariable& read, const char* name, std::int64_t min,
                       std::int64_t max) {
  const std::string text = read(name);
  std::int64_t value = -1;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < min || value > max) {
    throw InputError("environment variable " + std::string(name) + ": found \"" + text +
                     "\"; valid: an integer from " + std::to_string(min) + " to " +
                     std::to_string(max));
  }
  return value;
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.");
}

std::string meeting_address(const ReadVariable& read, const LaunchPlace& place) {
  if (const std::string given = read("MASTER_ADDR"); !given.empty()) {
    return is_loopback(given) ? "127.0.0.1" : given;
  }
  if (place.launcher == "shardlab") return "127.0.0.1";
  if (place.launcher == "Open MPI" && !read("OMPI_COMM_WORLD_LOCAL_SIZE").empty() &&
      number_in(read, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMaxWorld) == place.world) {
    return "127.0.0.1";
  }
  if (place.launcher == "Slurm") {
    if (read("SLURM_STEP_NUM_NODES") == "1") return "127.0.0.1";
    if (const std::string given = read("SLURM_LAUNCH_NODE_IPADDR"); !given.empty()) return given;
  }
  throw InputError("ranks on several hosts (" + place.launcher +
                   ") need MASTER_ADDR, the address of rank 0's host");
}

}  // namespace

std::optional<LaunchPlace> find_rank(const ReadVariable& read) {
  for (const Launcher& launcher : kLaunchers) {
    if (read(launcher.rank).empty() || read(launcher.world).empty()) continue;
    LaunchPlace place;
    place.launcher = launcher.name;
    place.world = number_in(read, launcher.world, 1, kMaxWorld);
    place.rank = number_in(read, launcher.rank, 0, place.world - 1);
    place.local_rank = read(launcher.local_rank).empty()
                           ? place.rank
                           : number_in(read, launcher.local_rank, 0, kMaxWorld);
    return place;
  }
  return std::nullopt;
}

std::optional<LaunchPlace> find_place(const ReadVariable& read) {
  std::optional<LaunchPlace> place = find_rank(read);
  if (!place) return std::nullopt;
  if (place->launcher == "shardlab") {
    place->address = "127.0.0.1";
    place->port = static_cast<int>(number_in(read, "SHARDLAB_PORT", 1, 65535));
    if (place->rank == 0) {
      place->listening_fd =
          static_cast<int>(number_in(read, "SHARDLAB_RENDEZVOUS_FD", 0, kMaxWorld));
    }
    return place;
  }
  place->address = meeting_address(read, *place);
  if (!read("MASTER_PORT").empty()) {
    place->port = static_cast<int>(number_in(read, "MASTER_PORT", 1, 65535));
  }
  return place;
}

}  // namespace shardlab
