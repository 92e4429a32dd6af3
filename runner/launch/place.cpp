#include "runner/launch/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

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
  if (place.launcher == "shardlab" || place.world == 1) return "127.0.0.1";
  if (place.launcher == "Open MPI" && !read("OMPI_COMM_WORLD_LOCAL_SIZE").empty() &&
      number_in(read, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMaxWorld) == place.world) {
    return "127.0.0.1";
  }
  if (place.launcher == "Slurm") {
    if (read("SLURM_STEP_NUM_NODES") == "1") return "127.0.0.1";
    if (std::string given = read("SLURM_LAUNCH_NODE_IPADDR"); !given.empty()) return given;
  }
  throw InputError("ranks on several hosts (" + place.launcher +
                   ") need MASTER_ADDR, the address of rank 0's host");
}

std::string secret_of(const ReadVariable& read) {
  std::string secret = read("SHARDLAB_SECRET");
  const std::string file = read("SHARDLAB_SECRET_FILE");
  if (secret.empty() && !file.empty()) secret = read_secret_file(file);
  if (secret.size() > kMaxSecret) {
    throw InputError("environment variable SHARDLAB_SECRET: found " +
                     std::to_string(secret.size()) + " bytes; valid: at most " +
                     std::to_string(kMaxSecret));
  }
  return secret;
}

}  // namespace

std::string read_secret_file(const std::string& path) {
  const auto fail = [&](const std::string& what) {
    throw EnvironmentError("SHARDLAB_SECRET_FILE " + path + ": " + what);
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) fail(std::string("can't be read: ") + std::strerror(errno));
  struct stat status {};
  std::array<char, kMaxSecret + 2> bytes{};
  const bool is_known = fstat(fd, &status) == 0;
  const ssize_t count =
      is_known && S_ISREG(status.st_mode) ? read(fd, bytes.data(), bytes.size()) : -1;
  close(fd);
  if (!is_known || !S_ISREG(status.st_mode)) fail("is no regular file; valid: a file of mode 600");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail("found permissions for others than its owner; valid: a file of mode 600");
  }
  if (count < 0) fail("can't be read");
  std::string secret(bytes.data(), static_cast<std::size_t>(count));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty() || secret.size() > kMaxSecret) {
    fail("found " + std::to_string(secret.size()) + " bytes; valid: 1 to " +
         std::to_string(kMaxSecret));
  }
  return secret;
}

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
  place->secret = secret_of(read);
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
  if (place->world > 1 && place->secret.empty() && !is_loopback(place->address)) {
    throw InputError("ranks that meet at " + place->address + " (" + place->launcher +
                     ") need a secret that others do not know; valid: SHARDLAB_SECRET with the "
                     "same text for all ranks (such as that of `openssl rand -hex 16`), or "
                     "SHARDLAB_SECRET_FILE, a file of mode 600 that holds it");
  }
  return place;
}

}  // namespace shardlab
