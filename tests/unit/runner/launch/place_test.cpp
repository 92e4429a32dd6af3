#include "runner/launch/place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "costmodel/base/error.h"
#include "tests/support/process.h"

namespace shardlab {
namespace place_test {

using Variables = std::map<std::string, std::string>;

std::optional<LaunchPlace> place_in(const Variables& variables) {
  return find_place([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string error_of(const Variables& variables) {
  try {
    (void)place_in(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchPlace, NobodyLaunchedSeveral) {
  EXPECT_FALSE(place_in({}).has_value());
  // The script of a batch job is not started by srun: it has a rank, but no tasks of a step.
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).has_value());
}

TEST(LaunchPlace, ReadsTorchrun) {
  const auto place = place_in({{"RANK", "9"},
                               {"WORLD_SIZE", "16"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "10.0.0.7"},
                               {"SHARDLAB_SECRET", "ours"},
                               {"MASTER_PORT", "4711"}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "torchrun");
  EXPECT_EQ(place->rank, 9);
  EXPECT_EQ(place->world, 16);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->address, "10.0.0.7");
  EXPECT_EQ(place->secret, "ours");
  EXPECT_EQ(place->port, 4711);
}

TEST(LaunchPlace, ReadsOpenMpiOnOneHostWithoutAnAddress) {
  const auto place = place_in({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "Open MPI");
  EXPECT_EQ(place->address, "127.0.0.1");
  EXPECT_EQ(place->port, kDefaultPort);
}

TEST(LaunchPlace, ReadsSlurmAcrossHosts) {
  const auto place = place_in({{"SLURM_PROCID", "3"},
                               {"SLURM_STEP_NUM_TASKS", "4"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_STEP_NUM_NODES", "2"},
                               {"SLURM_LAUNCH_NODE_IPADDR", "10.1.2.3"},
                               {"SHARDLAB_SECRET", "ours"}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "Slurm");
  EXPECT_EQ(place->address, "10.1.2.3");
}

TEST(LaunchPlace, OwnRanksComeFirst) {
  const auto place = place_in({{"SHARDLAB_RANK", "0"},
                               {"SHARDLAB_WORLD_SIZE", "2"},
                               {"SHARDLAB_PORT", "5000"},
                               {"SHARDLAB_RENDEZVOUS_FD", "3"},
                               {"RANK", "7"},
                               {"WORLD_SIZE", "8"}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "shardlab");
  EXPECT_EQ(place->world, 2);
  EXPECT_EQ(place->listening_fd, 3);
}

TEST(LaunchPlace, OneRankIsOnOneHost) {
  const auto place = place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->address, "127.0.0.1");
}

TEST(LaunchPlace, RanksOnSeveralHostsShareASecret) {
  Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.7"}};
  EXPECT_TRUE(error_of(variables).starts_with(
      "ranks that meet at 10.0.0.7 (torchrun) need a secret that others do not know; valid: "
      "SHARDLAB_SECRET"));
  variables["SHARDLAB_SECRET"] = std::string(kMaxSecret + 1, 'x');
  EXPECT_EQ(error_of(variables),
            "environment variable SHARDLAB_SECRET: found 257 bytes; valid: at most 256");
  variables.erase("SHARDLAB_SECRET");
  variables["MASTER_ADDR"] = "localhost";
  EXPECT_EQ(error_of(variables), "");
}

// A file of a secret is for its owner's eyes only.
TEST(LaunchPlace, ReadsTheFileOfASecret) {
  const testing_support::TemporaryFolder folder;
  folder.write("secret", "of the ranks\n");
  const std::filesystem::path file = folder.path() / "secret";
  using std::filesystem::perms;
  const auto refusal = [](const std::filesystem::path& path) -> std::string {
    try {
      return "read: " + read_secret_file(path.string());
    } catch (const EnvironmentError& error) {
      return error.what();
    }
  };
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write | perms::group_read);
  EXPECT_EQ(refusal(file), "SHARDLAB_SECRET_FILE " + file.string() +
                               ": found permissions for others than its owner; valid: a file of "
                               "mode 600");
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write);
  EXPECT_EQ(refusal(file), "read: of the ranks");
  const auto place = place_in({{"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "10.0.0.7"},
                               {"SHARDLAB_SECRET_FILE", file.string()}});
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->secret, "of the ranks");
  EXPECT_NE(refusal(folder.path()).find("is no regular file"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "none").find("No such file"), std::string::npos);
}

TEST(LaunchPlace, SaysWhatIsWrong) {
  EXPECT_EQ(error_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "environment variable RANK: found \"x\"; valid: an integer from 0 to 1");
  EXPECT_EQ(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "environment variable RANK: found \"2\"; valid: an integer from 0 to 1");
  EXPECT_EQ(error_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}),
            "environment variable WORLD_SIZE: found \"0\"; valid: an integer from 1 to 1048576");
  EXPECT_EQ(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "ranks on several hosts (torchrun) need MASTER_ADDR, the address of rank 0's host");
  EXPECT_EQ(error_of({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "ranks on several hosts (Open MPI) need MASTER_ADDR, the address of rank 0's host");
}

}  // namespace place_test
}  // namespace shardlab
