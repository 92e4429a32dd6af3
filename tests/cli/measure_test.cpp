// Runs shardlab measure as a user runs it, on the CPU stand-in: what it prints, and what happens
// when ranks die, hang, never start or cannot meet. Every launch must end within its limit and
// leave no process behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include "costmodel/measurements/measurement_set.h"
#include "runner/launch/socket.h"
#include "tests/cli/launches.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace measure_test {

using nlohmann::json;

ProcessResult run_measure(const Words& options, const Variables& variables = {},
                          const fs::path& folder = {}) {
  return run_measure_of({SHARDLAB_BINARY, "measure", "--backend", "cpu"}, options, variables,
                        folder);
}

Disturbed disturb(int signal, const std::string& id, const Words& more) {
  return disturb_launch([](const Words& options) { return run_measure(options); }, signal, id,
                        more);
}

TEST(MeasureCommand, WithoutAGpuItSaysSoInOneSentence) {
  const ProcessResult result =
      run_process({SHARDLAB_BINARY, "measure"}, {.folder = {}, .environment = bare_environment()});
  if (result.exit_code == 0) GTEST_SKIP() << "there is a GPU here";
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("shardlab: measure: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(MeasureCommand, ItsHelpNamesTheBackends) {
  const std::string help = run_shardlab({"measure", "--help"}).out;
  EXPECT_NE(help.find("\n  --backend TEXT:{nccl,cpu}=nccl"), std::string::npos) << help;
}

TEST(MeasureCommand, WritesASetThatOtherCommandsRead) {
  const TemporaryFolder folder;
  const ProcessResult measured =
      run_measure({"--ranks",        "2",    "--collective",   "all_reduce,all_gather",
                   "--min-bytes",    "4KiB", "--max-bytes",    "64KiB",
                   "--iterations",   "5",    "--kernels",      "copy,launch",
                   "--kernel-bytes", "1MiB", "--verify-plans", "10",
                   "--seed",         "5",    "--out",          "run.json",
                   "--format",       "json"},
                  {}, folder.path());
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  const json set = json::parse(measured.out);
  EXPECT_EQ(set, json::parse(read_text(folder.path() / "run.json")));
  EXPECT_EQ(set["source"], "record:run");
  EXPECT_EQ(set["ranks"], 2);
  EXPECT_EQ(set["gpu"], "none: a stand-in on CPUs");
  EXPECT_EQ(set["health"], "unhealthy");
  EXPECT_EQ(set["health_reason"],
            "source: the backend is a stand-in on CPUs, so the times say nothing about GPUs");
  EXPECT_EQ(set["rows"].size(), 10U);
  EXPECT_EQ(set["verified_plans"]["plans"], 10);
  EXPECT_EQ(set["verified_plans"]["bit_equal"], 10);
  EXPECT_EQ(set["verified_plans"]["seed"], 5);
  EXPECT_EQ(set["kernels"].back()["kernel"], "launch");
  EXPECT_EQ(measured.err,
            "note: the backend is a stand-in on CPUs, so the times say nothing about GPUs\n");
  const MeasurementSet read = MeasurementSet::from_json(set, {"run.json", ""});
  EXPECT_EQ(json(read.to_json()), set);

  const ProcessResult fitted = run_shardlab(
      {"calibrate", "run.json", "--out", "fitted.json", "--format", "json"}, folder.path());
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const ProcessResult validated = run_shardlab(
      {"validate", "run.json", "--stack", "fitted.json", "--format", "json"}, folder.path());
  ASSERT_EQ(validated.exit_code, 0) << validated.err;
  EXPECT_EQ(json::parse(validated.out)["points"], 10);
}

TEST(MeasureCommand, PrintsTheTableOfNcclTests) {
  const TemporaryFolder folder;
  const ProcessResult measured =
      run_measure({"--ranks", "2", "--collective", "reduce_scatter,all_to_all", "--dtype",
                   "bf16,i32", "--max-bytes", "4KiB", "--iterations", "3"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  folder.write("table.txt", measured.out);
  const ProcessResult read =
      run_shardlab({"describe", "measurement", "table.txt", "--format", "json"}, folder.path());
  ASSERT_EQ(read.exit_code, 0) << read.err << measured.out;
  const json set = json::parse(read.out);
  ASSERT_EQ(set["rows"].size(), 12U) << measured.out;
  EXPECT_EQ(set["ranks"], 2);
  EXPECT_EQ(set["rows"][0]["collective"], "reduce_scatter");
  EXPECT_EQ(set["rows"][0]["dtype"], "bf16");
  EXPECT_EQ(set["rows"][11]["collective"], "all_to_all");
  EXPECT_EQ(set["rows"][11]["dtype"], "i32");
  EXPECT_EQ(set["rows"][11]["bytes"], 4096);
}

TEST(MeasureCommand, PlansAreEqualAmongProcessesAndThreads) {
  for (const Words& launch :
       {Words{"--ranks", "2"}, Words{"--ranks", "4"}, Words{"--ranks", "4", "--one-process"}}) {
    Words options = launch;
    options.insert(options.end(), {"--verify-plans", "100", "--quiet"});
    const ProcessResult result = run_measure(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out,
              "100 plans were compared with the fake process group: 100 equal bit for bit, 0 "
              "within the bound "
              "of rounding, 0 failed\n");
  }
}

TEST(MeasureCommand, RunsUnderMpirun) {
  const fs::path mpirun = "/usr/bin/mpirun";
  if (!fs::exists(mpirun)) GTEST_SKIP() << "no mpirun here (Debian: openmpi-bin)";
  Variables environment = bare_environment();
  environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
  environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  std::erase_if(environment, [](const auto& variable) { return variable.first == "MASTER_PORT"; });
  const int port = port_of(listen_on("127.0.0.1", 0));
  environment.emplace_back("MASTER_PORT", std::to_string(port));
  // A variable that the tests cleared does not count as a launcher's.
  const Words command = {
      mpirun, "--oversubscribe", "-np", "2",      SHARDLAB_BINARY, "measure", "--backend",
      "cpu",  "--verify-plans",  "50",  "--quiet"};
  const ProcessResult result = run_process(command, {.folder = {}, .environment = environment});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "50 plans were compared with the fake process group: 50 equal bit for bit, 0 within "
            "the bound of "
            "rounding, 0 failed\n")
      << result.err;
}

TEST(MeasureLaunch, ARankThatDiesEndsAll) {
  const std::string id = unique_id("dies");
  const Disturbed run = disturb(SIGKILL, id, {"--time-limit", "30"});
  EXPECT_EQ(run.result.exit_code, 4);
  EXPECT_EQ(run.result.err,
            "shardlab: measure: rank 2 was ended by signal 9 (Killed); the other ranks were "
            "ended\n");
  EXPECT_LT(run.seconds_after, 10.0);
  EXPECT_EQ(run.left, 0U);
}

TEST(MeasureLaunch, ARankThatHangsIsReportedAsAHang) {
  const std::string id = unique_id("hangs");
  const Disturbed run = disturb(SIGSTOP, id, {"--time-limit", "30", "--stall-limit", "1"});
  EXPECT_EQ(run.result.exit_code, 4);
  EXPECT_TRUE(run.result.err.starts_with("shardlab: a hang: rank ")) << run.result.err;
  EXPECT_NE(run.result.err.find(" made no progress for 1 s in plan "), std::string::npos)
      << run.result.err;
  EXPECT_LT(run.seconds_after, 15.0);
  EXPECT_EQ(run.left, 0U);
}

TEST(MeasureLaunch, TheTimeLimitEndsAll) {
  const std::string id = unique_id("limit");
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result =
      run_measure({"--ranks", "4", "--verify-plans", "1000000", "--time-limit", "2", "--id", id});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(result.err.starts_with("shardlab: the time limit of 2 s passed in ")) << result.err;
  EXPECT_LT(took.count(), 15.0);
  EXPECT_TRUE(processes_with(id).empty());
}

TEST(MeasureLaunch, RanksEndWithTheirParent) {
  const std::string id = unique_id("parent");
  auto running = std::async(std::launch::async, [&] {
    return run_measure({"--ranks", "4", "--verify-plans", "1000000", "--id", id});
  });
  pid_t rank = 0;
  for (int i = 0; i < 500 && rank == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rank = process_of_rank(id, 3);
  }
  ASSERT_NE(rank, 0);
  for (const pid_t pid : processes_with(id)) {
    const std::string environment = all_text("/proc/" + std::to_string(pid) + "/environ");
    if (environment.find("SHARDLAB_RANK=") == std::string::npos) kill(pid, SIGKILL);
  }
  EXPECT_EQ(running.get().exit_code, 128 + SIGKILL);
  for (int i = 0; i < 100 && !processes_with(id).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(processes_with(id).empty());
}

Variables torchrun(int rank, int world, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

TEST(MeasureLaunch, AWrongRankCountIsNamed) {
  const int port = port_of(listen_on("127.0.0.1", 0));
  const ProcessResult missing = run_measure({"--time-limit", "2"}, torchrun(0, 3, port));
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_EQ(missing.err, "shardlab: rendezvous: 1 of 3 ranks came within 1 s; missing: 1, 2\n");

  const ProcessResult other = run_measure({"--ranks", "2"}, torchrun(0, 3, port));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(other.err,
            "shardlab: --ranks: found 2, but the launcher (torchrun) started 3 processes; valid: "
            "that number, or no --ranks\n");

  // Ranks that know each other's secret end at once; without one, rank 0 would wait for another
  // guest.
  const auto with_secret = [](Variables variables) {
    variables.emplace_back("SHARDLAB_SECRET", "of the test");
    return variables;
  };
  auto first = std::async(std::launch::async, [&] {
    return run_measure({"--time-limit", "20"}, with_secret(torchrun(0, 2, port)));
  });
  const ProcessResult second =
      run_measure({"--time-limit", "20"}, with_secret(torchrun(1, 3, port)));
  const std::string expected =
      "shardlab: rendezvous: rank 1 expects 3 ranks, but rank 0 expects 2\n";
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_EQ(second.err, expected);
  const ProcessResult of_first = first.get();
  EXPECT_EQ(of_first.exit_code, 4);
  EXPECT_EQ(of_first.err, expected);
}

TEST(MeasureLaunch, APortInUseIsNamed) {
  const Socket taken = listen_on("127.0.0.1", 0);
  const std::string port = std::to_string(port_of(taken));
  const std::string expected = "shardlab: rendezvous: port " + port +
                               " is in use; choose another (--port, or MASTER_PORT)\n";
  const ProcessResult own = run_measure({"--ranks", "2", "--port", port});
  EXPECT_EQ(own.exit_code, 4);
  EXPECT_EQ(own.err, expected);
  const ProcessResult launched =
      run_measure({"--time-limit", "5"}, torchrun(0, 2, std::stoi(port)));
  EXPECT_EQ(launched.exit_code, 4);
  EXPECT_EQ(launched.err, expected);
}

TEST(MeasureLaunch, TorchrunsRanksMeet) {
  const int port = port_of(listen_on("127.0.0.1", 0));
  auto second = std::async(std::launch::async, [&] {
    return run_measure({"--verify-plans", "20"}, torchrun(1, 2, port));
  });
  const ProcessResult first = run_measure({"--verify-plans", "20"}, torchrun(0, 2, port));
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("20 equal bit for bit"), std::string::npos) << first.out;
  const ProcessResult of_second = second.get();
  EXPECT_EQ(of_second.exit_code, 0) << of_second.err;
  EXPECT_EQ(of_second.out, "");
}

struct BadOption {
  Words options;
  std::string message;
};

TEST(MeasureCommand, NamesWhatIsValid) {
  const std::vector<BadOption> table = {
      {{"--min-bytes", "1MB", "--max-bytes", "1kB"},
       "--min-bytes and --max-bytes: found 1MB and 1kB; valid: --min-bytes of at least 1 byte, and "
       "--max-bytes no smaller"},
      {{"--collective", "all_reduce,gather"},
       "measure: --collective: found \"gather\"; valid: all_reduce, "
       "all_gather, reduce_scatter, all_to_all, broadcast, send_recv"},
      {{"--kernels", "conv"},
       "measure: --kernels: found \"conv\" (did you mean \"copy\"?); valid: gemm, copy, reshuffle, "
       "elementwise, reduction, launch"},
      {{"--ranks", "0"}, "measure: --ranks: found \"0\"; valid: an integer from 1 to 4096"},
      {{"--ranks", "1", "--verify-plans", "5"},
       "--verify-plans: none of 1000 questions among 1 ranks has a plan that communicates; valid: "
       "2 ranks or more"},
  };
  for (const BadOption& bad : table) {
    const ProcessResult result = run_measure(bad.options);
    EXPECT_EQ(result.exit_code, 2) << bad.message;
    EXPECT_EQ(result.err, "shardlab: " + bad.message + "\n");
  }
}

}  // namespace measure_test
}  // namespace shardlab::testing_support
