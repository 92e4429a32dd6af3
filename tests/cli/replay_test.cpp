// A recorded run goes through every command without a GPU: set -> calibrate -> held-out sizes ->
// stack -> validate -> compare -> tuner CSV. The recording (tests/golden/measured) is of the CPU
// stand-in among 4 processes: `shardlab measure --backend cpu --ranks 4 --collective
// all_reduce,all_gather, reduce_scatter,all_to_all,broadcast,send_recv --min-bytes 1KiB --max-bytes
// 16MiB --iterations 40 --kernels copy,reshuffle,elementwise,reduction,launch --kernel-bytes 256MiB
// --verify-plans 200 --seed 1`.
#include <gtest/gtest.h>

#include "costmodel/measurements/tuner_csv.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace replay_test {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kRecorded =
    SHARDLAB_SOURCE_DIR "/tests/golden/measured/cpu_stand_in_4_ranks.json";

json json_of(Words words, const std::filesystem::path& folder) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, 0) << join(words, " ") << "\n" << result.err;
  return json::parse(result.out, nullptr, false);
}

TEST(Replay, MeasuredTimesBecomeAStackThatIsCompared) {
  const TemporaryFolder folder;
  const json fit =
      json_of({"calibrate", kRecorded, "--hold-out", "--out", "replayed.json"}, folder.path());
  EXPECT_EQ(fit["rows_used"].get<int>() + static_cast<int>(fit["rows_refused"].size()), 90);
  EXPECT_EQ(fit["held_out"]["points"], 48);
  EXPECT_LT(fit["held_out"]["median_ape_percent"].get<double>(), 20.0);
  const json errors = json_of({"validate", kRecorded, "--stack", "replayed.json"}, folder.path());
  EXPECT_EQ(errors["points"], 90);
  const json datasheet = json_of({"validate", kRecorded, "--stack", "alpha-beta"}, folder.path());
  // TCP sockets are not NVLink, so what was measured predicts better than a datasheet.
  EXPECT_LT(errors["median_ape_percent"].get<double>(),
            datasheet["median_ape_percent"].get<double>() / 4);
  const ProcessResult compared = run_shardlab(
      {"compare", "--baseline", "alpha-beta", "--candidate", "replayed.json", "--suite",
       "ops-small", "--reference", "replayed.json", "--out", "report", "--quiet"},
      folder.path());
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "report" / "report.json"));
}

TEST(Replay, MeasuredKernelsBecomeARoofline) {
  const TemporaryFolder folder;
  const json fit = json_of(
      {"calibrate", kRecorded, "--model", "roofline", "--hold-out", "--out", "roofline.json"},
      folder.path());
  EXPECT_EQ(fit["model"], "roofline");
  EXPECT_EQ(fit["rows_used"], 51);
  EXPECT_EQ(fit["held_out"]["points"], 25);
  const json stack = json::parse(read_text(folder.path() / "roofline.json"));
  EXPECT_EQ(stack["compute_model"]["name"], "roofline");
  EXPECT_TRUE(stack["compute_model"]["params"].contains("copy_efficiency"));
  EXPECT_FALSE(stack.contains("collective_model"));
  const ProcessResult selected =
      run_shardlab({"select", "--op", "aten.mm.default", "--mesh", "4", "--inputs",
                    "f32[64,64] S(0)", "f32[64,64] R", "--stack", "roofline.json"},
                   folder.path());
  EXPECT_EQ(selected.exit_code, 0) << selected.err;
}

TEST(Replay, RecordedPlansWereEqual) {
  const json set = json::parse(read_text(kRecorded));
  EXPECT_EQ(set["verified_plans"]["plans"], 200);
  EXPECT_EQ(set["verified_plans"]["bit_equal"], 200);
  EXPECT_EQ(set["health"], "unhealthy");  // so no fit for GPUs uses it
}

TEST(TunerExport, ParsesBackToTheSameDecisions) {
  const TemporaryFolder folder;
  const json fit = json_of(
      {"calibrate", "h100_2x8_all_reduce_dgx06-07", "--model", "nccl", "--tuner-csv", "tuner.conf"},
      folder.path());
  EXPECT_EQ(fit["model"], "nccl");
  const std::string text = read_text(folder.path() / "tuner.conf");
  const std::vector<TunerRule> rules = read_tuner_csv(text, "tuner.conf");
  ASSERT_FALSE(rules.empty());
  for (const TunerRule& rule : rules) {
    EXPECT_EQ(rule.nodes, 2);
    EXPECT_EQ(rule.ranks, 16);
  }
  const ProcessResult read = run_shardlab({"describe", "tuner", "tuner.conf"}, folder.path());
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(read.out, text);
  const json described = json_of({"describe", "tuner", "tuner.conf"}, folder.path());
  EXPECT_EQ(described["rules"].size(), rules.size());
}

TEST(TunerExport, OfAMeasuredRunIsWhatNcclTook) {
  const TemporaryFolder folder;
  folder.write("run.json", R"({"schema": "shardlab/measurements/1", "source": "record:run",
      "gpu": "H200", "gpus_per_host": 2, "hosts": 1, "ranks": 2, "rows": [
      {"collective": "all_reduce", "dtype": "f32", "bytes": 1024, "time_us": 9,
       "algorithm": "TREE", "protocol": "LL"},
      {"collective": "all_reduce", "dtype": "f32", "bytes": 1048576, "time_us": 50,
       "algorithm": "RING", "protocol": "SIMPLE"}]})");
  const ProcessResult read = run_shardlab({"describe", "tuner", "run.json"}, folder.path());
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(read.out,
            "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,"
            "numPipeOps,regBuff\n"
            "allreduce,0,1048575,tree,ll,-1,1,2,-1,-1\n"
            "allreduce,1048576,18446744073709551615,ring,simple,-1,1,2,-1,-1\n");
}

TEST(TunerExport, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  folder.write("bad.conf", "allreduce,0,1,ring,ll,-1,-1\n");
  const auto message = [&](const Words& words, int exit_code) {
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return result.err;
  };
  EXPECT_EQ(message({"describe", "tuner", "bad.conf"}, 3),
            "shardlab: bad.conf:line 1: found 7 fields; valid: 8, 9 or 10\n");
  EXPECT_EQ(message({"describe", "tuner"}, 2),
            "shardlab: describe tuner: a file is required: a tuner's CSV, or a measurement that "
            "says what NCCL chose\n");
  EXPECT_EQ(message({"describe", "tuner", kRecorded}, 2),
            "shardlab: " + kRecorded + ": no row says which algorithm and protocol NCCL took\n");
  EXPECT_EQ(
      message({"calibrate", "h100_1x8_all_reduce_dgxc", "--tuner-csv", "t.conf"}, 2),
      "shardlab: --tuner-csv: population does not choose among NCCL's algorithms; valid: --model "
      "nccl\n");
  EXPECT_EQ(message({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "roofline"}, 2),
            "shardlab: calibrate: found 0 kernels that the roofline prices; valid: at least 2\n");
}

}  // namespace replay_test
}  // namespace shardlab::testing_support
