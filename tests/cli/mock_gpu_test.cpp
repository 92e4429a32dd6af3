// Runs shardlab measure on a mock of a GPU (tests/mock_gpu): the code that calls CUDA, NCCL and
// cuBLASLt runs as on a GPU, in all its launches, with its errors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "costmodel/measurements/measurement_set.h"
#include "tests/cli/launches.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace mock_gpu_test {

using nlohmann::json;

ProcessResult run_measure(const Words& options, const Variables& variables = {},
                          const fs::path& folder = {}) {
  return run_measure_of({SHARDLAB_MOCK_GPU, "measure"}, options, variables, folder);
}

json set_of(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? json::parse(result.out) : json();
}

struct Launch {
  Words options;
  Variables variables;
};

std::vector<Launch> launches() {
  return {
      {{"--one-gpu", "--ranks", "2"}, {}},
      {{"--one-gpu", "--ranks", "4"}, {{"MOCK_NCCL_VERSION", "22809"}}},
      {{"--one-gpu", "--ranks", "3", "--one-process"}, {}},
      {{"--ranks", "4"}, {{"MOCK_GPUS", "4"}}},
      {{"--ranks", "4", "--one-process"}, {{"MOCK_GPUS", "4"}}},
      {{}, {{"MOCK_GPUS", "2"}}},
  };
}

TEST(MockGpus, PlansAreRightInEveryLaunch) {
  for (const Launch& launch : launches()) {
    Words options = launch.options;
    options.insert(options.end(), {"--verify-plans", "60", "--seed", "7", "--format", "json"});
    const json set = set_of(run_measure(options, launch.variables));
    ASSERT_FALSE(set.is_null()) << json(launch.options);
    const json& verified = set["verified_plans"];
    EXPECT_EQ(verified["plans"], 60);
    EXPECT_EQ(verified["failed"], 0) << set.dump(1);
    // The mock adds from the last rank to the first, so that sums of more than two numbers may
    // round differently.
    EXPECT_EQ(verified["bit_equal"].get<int>() + verified["within_bound"].get<int>(), 60);
    EXPECT_GE(verified["bit_equal"].get<int>(), 45);
    if (set["ranks"] == 2) {
      EXPECT_EQ(verified["bit_equal"], 60);
    }
  }
}

TEST(MockGpus, EveryCollectiveIsMeasured) {
  for (const Launch& launch : launches()) {
    Words options = launch.options;
    options.insert(options.end(), {"--collective",
                                   "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast,"
                                   "send_recv",
                                   "--dtype", "f32,bf16,u64", "--min-bytes", "1KiB", "--max-bytes",
                                   "1MiB", "--step-factor", "32", "--iterations", "4", "--warmup",
                                   "1", "--format", "json"});
    const json set = set_of(run_measure(options, launch.variables));
    ASSERT_FALSE(set.is_null()) << json(launch.options);
    // NCCL does not reduce our u64, so four collectives are measured for it and six for the other
    // dtypes.
    EXPECT_EQ(set["rows"].size(), (6 * 2 + 4) * 3U);
    for (const json& row : set["rows"]) {
      const std::string kind = row["collective"];
      const bool is_between_two = kind == "all_to_all" || kind == "send_recv";
      EXPECT_EQ(row.contains("algorithm"), !is_between_two) << row;
      EXPECT_EQ(row.contains("nccl_estimate_us"), !is_between_two) << row;
      EXPECT_EQ(row.contains("in_place_time_us"), !is_between_two) << row;
      EXPECT_EQ(row["iterations"], 4);
      if (!is_between_two) {
        EXPECT_NEAR(row["time_us"].get<double>(), row["nccl_estimate_us"].get<double>(),
                    0.02 * row["nccl_estimate_us"].get<double>())
            << row;
      }
    }
    EXPECT_EQ(set["gpu"], "mock GPU");
    EXPECT_EQ(set["health"],
              launch.options.empty() || launch.options[0] != "--one-gpu" ? "unknown" : "unhealthy");
  }
}

TEST(MockGpus, KernelsAreMeasuredAndFitted) {
  const TemporaryFolder folder;
  const json set = set_of(run_measure(
      {"--ranks", "1", "--kernels", "gemm,copy,reshuffle,elementwise,reduction,launch",
       "--kernel-bytes", "64MiB", "--iterations", "4", "--out", "kernels.json", "--format", "json"},
      {}, folder.path()));
  ASSERT_FALSE(set.is_null());
  std::set<std::string> kinds;
  for (const json& row : set["kernels"]) {
    kinds.insert(row["kernel"].get<std::string>() + " " + row["dtype"].get<std::string>());
    EXPECT_GT(row["time_us"], 1.9) << row;
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"copy f32", "elementwise f32", "gemm bf16", "gemm f16",
                                          "gemm f32", "gemm f8e4m3", "gemm tf32", "launch f32",
                                          "reduction f32", "reshuffle f32"}));
  // The mock's times follow a roofline, give or take 1 %.
  const ProcessResult fitted = run_shardlab(
      {"calibrate", "kernels.json", "--model", "roofline", "--hold-out", "--format", "json"},
      folder.path());
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_LT(json::parse(fitted.out)["held_out"]["median_ape_percent"], 10.0) << fitted.out;

  // Without --hold-out the command writes a stack, whose kernels are then judged by kind.
  const ProcessResult stack = run_shardlab(
      {"calibrate", "kernels.json", "--model", "roofline", "--out", "roofline.json", "--quiet"},
      folder.path());
  ASSERT_EQ(stack.exit_code, 0) << stack.err;
  Words validate = {"validate", "kernels.json", "--stack", "roofline.json", "--quiet"};
  const ProcessResult text = run_shardlab(validate, folder.path());
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find(" shapes of kernels, priced by the compute model of roofline.json; "),
            std::string::npos)
      << text.out;
  validate.insert(validate.end(), {"--format", "json"});
  const json judged = json::parse(run_shardlab(validate, folder.path()).out)["by"]["kernel"];
  EXPECT_EQ(judged.size(), 6U) << judged;
  EXPECT_LT(judged["gemm"]["median_ape_percent"], 5.0) << judged;
  EXPECT_EQ(judged["launch"]["points"], 0);
  EXPECT_EQ(judged["launch"]["unpriced"], 1);
}

TEST(MockGpus, ItsTopologyIsRead) {
  const TemporaryFolder folder;
  const ProcessResult measured =
      run_measure({"--one-gpu", "--ranks", "2", "--topology-xml", "topology.xml", "--iterations",
                   "1", "--max-bytes", "1KiB", "--format", "json"},
                  {}, folder.path());
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  const ProcessResult read = run_shardlab({"describe", "topology", "topology.xml"}, folder.path());
  EXPECT_EQ(read.exit_code, 0) << read.err;
}

TEST(MockGpus, NcclsTableIsKeptAndCompared) {
  const TemporaryFolder folder;
  const ProcessResult measured =
      run_measure({"--one-gpu", "--ranks", "4", "--nccl-log", "nccl.log", "--iterations", "1",
                   "--max-bytes", "1KiB", "--format", "json"},
                  {{"MOCK_NCCL_VERSION", "22809"}}, folder.path());
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_EQ(json::parse(measured.out)["rows"][0]["algorithm"], "TREE");
  const ProcessResult checked = run_shardlab({"validate", "--nccl-table", "nccl.log", "--stack",
                                              "nccl", "--topology", "h100", "--format", "json"},
                                             folder.path());
  ASSERT_EQ(checked.exit_code, 0) << checked.err;
  const json table = json::parse(checked.out)["tables"][0];
  EXPECT_EQ(table["nccl_version"], "2.28.9");
  EXPECT_EQ(table["ranks"], 4);
  EXPECT_EQ(table["hosts"], 4);
  EXPECT_EQ(table["cells"].size(), 8U);
  EXPECT_EQ(table["cells"][0]["nccl_gb_per_s"], 100.0);
}

struct Failure {
  Words options;
  Variables variables;
  std::string message;
};

TEST(MockGpus, FailuresAreNamed) {
  const std::vector<Failure> table = {
      {{}, {{"MOCK_GPUS", "0"}}, "measure: no GPU is here (cudaGetDeviceCount: cudaErrorNoDevice)"},
      {{},
       {{"MOCK_GPUS", "driver"}},
       "measure: no NVIDIA driver that fits CUDA 13.0 is here (cudaGetDeviceCount: "
       "cudaErrorInsufficientDriver)"},
      {{"--one-process", "--ranks", "3"},
       {{"MOCK_GPUS", "2"}},
       "measure: rank 2 needs GPU 2, but this host has 2 GPUs; valid: fewer --ranks, or --one-gpu"},
      {{"--one-gpu", "--one-process"},
       {{"MOCK_NCCL_VERSION", "22809"}},
       "measure: --one-gpu in --one-process needs NCCL 2.30 or newer"},
      {{"--one-gpu", "--ranks", "2"},
       {{"NCCL_MULTI_RANK_GPU_ENABLE", "0"}},
       "ncclCommInitRank: invalid usage; NCCL_DEBUG=WARN prints more"},
      {{"--ranks", "1"},
       {{"MOCK_GPU_FAIL", "cudaMalloc=1"}},
       "cudaMalloc: cudaErrorMemoryAllocation: out of memory"},
      {{"--ranks", "1"},
       {{"MOCK_GPU_FAIL", "ncclCommInitRank=1"}},
       "ncclCommInitRank: unhandled system error; NCCL_DEBUG=WARN prints more"},
      {{"--ranks", "1"},
       {{"MOCK_GPU_FAIL", "ncclCollective=3"}},
       "ncclAllReduce: internal error; NCCL_DEBUG=WARN prints more"},
      {{"--ranks", "1", "--kernels", "gemm"},
       {{"MOCK_GPU_FAIL", "cublasLtMatmul=2"}},
       "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"},
      {{"--ranks", "1", "--nccl-log", "none/nccl.log"},
       {},
       "none/nccl.log: can't be written: No such file or directory"},
      {{"--ranks", "1", "--kernels", "launch"},
       {{"MOCK_GPU_FAIL", "cudaLaunchKernel=5"}},
       "cudaLaunchKernel: cudaErrorInvalidValue: as the mock decided"},
  };
  for (const Failure& failure : table) {
    const ProcessResult result = run_measure(failure.options, failure.variables);
    EXPECT_EQ(result.exit_code, 4) << failure.message;
    EXPECT_NE(result.err.find("shardlab: " + failure.message + "\n"), std::string::npos)
        << failure.message << "\nand not\n"
        << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(MockGpus, ARankThatDiesEndsAll) {
  const std::string id = unique_id("mock-dies");
  const auto run = [](const Words& options) { return run_measure(options, {{"MOCK_GPUS", "4"}}); };
  const Disturbed disturbed = disturb_launch(run, SIGKILL, id, {"--time-limit", "30"});
  EXPECT_EQ(disturbed.result.exit_code, 4);
  EXPECT_EQ(disturbed.result.err,
            "shardlab: measure: rank 2 was ended by signal 9 (Killed); the other ranks were "
            "ended\n");
  EXPECT_LT(disturbed.seconds_after, 10.0);
  EXPECT_EQ(disturbed.left, 0U);
}

TEST(MockGpus, ARankThatHangsIsReportedAsAHang) {
  const std::string id = unique_id("mock-hangs");
  const auto run = [](const Words& options) { return run_measure(options, {{"MOCK_GPUS", "4"}}); };
  const Disturbed disturbed =
      disturb_launch(run, SIGSTOP, id, {"--time-limit", "30", "--stall-limit", "1"});
  EXPECT_EQ(disturbed.result.exit_code, 4);
  EXPECT_TRUE(disturbed.result.err.starts_with("shardlab: a hang: rank ")) << disturbed.result.err;
  EXPECT_LT(disturbed.seconds_after, 15.0);
  EXPECT_EQ(disturbed.left, 0U);
}

void write_program(const TemporaryFolder& folder, const std::string& name,
                   const std::string& text) {
  fs::permissions(folder.write(name, "#!/bin/bash\n" + text), fs::perms::owner_all);
}

// Runs scripts/gpu_check.sh, which is meant for a machine with a GPU, on the mock. PyTorch there is
// played by a Python that says it has a GPU and writes a trace that was recorded elsewhere.
class GpuCheck {
 public:
  GpuCheck() {
    fs::copy_file(SHARDLAB_MOCK_GPU, binary_);
    write_program(programs_, "nvidia-smi",
                  "[[ $1 == -L ]] && echo 'GPU 0: NVIDIA H100' || echo 'NVIDIA H100 80GB HBM3'\n");
    write_program(programs_, "python3", R"(
case "$*" in
  *"import sys, torch"*) ;;
  scripts/profile_*.py*) gzip -c tests/golden/traces/h100_bert_small.json > "${!#}" ;;
  *) PATH=${PATH#*:} exec python3 "$@" ;;
esac
)");
  }

  ProcessResult run(const Words& options, const Variables& mock = {}) const {
    Variables environment = bare_environment();
    environment.insert(environment.end(), mock.begin(), mock.end());
    environment.emplace_back("PATH", programs_.path().string() + ":" + std::getenv("PATH"));
    Words words = {"/bin/bash", SHARDLAB_SOURCE_DIR "/scripts/gpu_check.sh", "--binary",
                   binary_.string()};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(out_.path().string());
    return run_process(words, {.folder = {}, .environment = environment});
  }
  std::string log() const { return all_text(out_.path() / "log.txt"); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(out_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }

 private:
  // The mock is copied to a program of its own name, because the script looks for processes of it
  // that are left, and other tests run the mock at the same time.
  TemporaryFolder programs_;
  fs::path binary_ = programs_.path() / "shardlab";
  TemporaryFolder out_;
};

TEST(MockGpus, TheGpuCheckPasses) {
  const GpuCheck check;
  const ProcessResult result = check.run({"--kernel-bytes", "64MiB", "--plans", "140"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err << check.log();
  for (const char* line :
       {"\nok    profile, compiled: ", "\nok    prediction, eager: ",
        "\nok    kernels, attention: ", "\n      predicted ms, profiled ms: ", "\n  kernel gemm ",
        "\nok    kernels, as measured: ", "\nok    2 ranks on one GPU, 130 plans: ",
        "\nok    4 ranks on one GPU, 10 plans: ", " of 280\n"}) {
    EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out;
  }
  EXPECT_NE(result.out.find("\n0 failed; "), std::string::npos) << result.out;
  EXPECT_EQ(check.files(),
            (std::set<std::string>{"details.tar.gz", "kernels.json", "log.txt",
                                   "profile_compiled.json.gz", "profile_eager.json.gz",
                                   "ranks2.json", "ranks4.json", "summary.txt"}));
}

TEST(MockGpus, TheGpuCheckRunsThePartsThatAreNamed) {
  const GpuCheck check;
  const ProcessResult result = check.run({"--parts", "step"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err << check.log();
  EXPECT_EQ(check.files(),
            (std::set<std::string>{"details.tar.gz", "log.txt", "profile_compiled.json.gz",
                                   "profile_eager.json.gz", "summary.txt"}));
}

// A plan that computes something else than the fake process group is a failure, under the seed that
// repeats it; the plans of the other launches of these ranks are left out.
TEST(MockGpus, TheGpuCheckNamesAPlanThatIsWrong) {
  const GpuCheck check;
  const ProcessResult result =
      check.run({"--parts", "plans", "--plans", "140"}, {{"MOCK_NCCL_WRONG", "sums"}});
  EXPECT_EQ(result.exit_code, 1);
  for (const std::string ranks : {"2", "4"}) {
    EXPECT_NE(result.out.find("\nFAIL  " + ranks + " ranks, plans: {"), std::string::npos)
        << result.out;
    EXPECT_NE(result.out.find("'first_failure': 'seed " + ranks + ": "), std::string::npos)
        << result.out;
    EXPECT_EQ(result.out.find(ranks + " ranks on one GPU, 10 plans"), std::string::npos);
  }
  EXPECT_NE(result.out.find("\nFAIL  plans equal bit for bit: "), std::string::npos) << result.out;
}

// What there is no time for is a failure that says so, and not a check that passed.
TEST(MockGpus, TheGpuCheckSaysWhatItLeavesOut) {
  const GpuCheck check;
  const ProcessResult result = check.run({"--parts", "plans", "--time-limit", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("\nFAIL  2 ranks on one GPU, 130 plans: left out, since the 1 s of "
                            "--time-limit are over; run it with --parts\n"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("\nFAIL  plans equal bit for bit: 0 of 1040\n"), std::string::npos)
      << result.out;
}

TEST(MockGpus, TheGpuCheckRefusesWordsItDoesNotKnow) {
  const GpuCheck check;
  const std::pair<Words, std::string> table[] = {
      {{"--parts", "kernels,foo"},
       "gpu_check: --parts: found \"foo\"; valid: kernels, step, plans, links\n"},
      {{"--time-limit", "0"},
       "gpu_check: --time-limit: found \"0\"; valid: a whole number from 1 to 999999\n"},
  };
  for (const auto& [options, message] : table) {
    const ProcessResult result = check.run(options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, message);
  }
}

}  // namespace mock_gpu_test
}  // namespace shardlab::testing_support
