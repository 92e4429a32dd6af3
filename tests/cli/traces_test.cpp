// Traces that a user may give: a simulated run is written and read back, what PyTorch recorded is
// read, and messages name what is broken word for word.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace traces_test {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kRecorded = SHARDLAB_SOURCE_DIR "/tests/golden/traces/";

json json_of(Words words, const std::filesystem::path& folder) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

// One step of a redistribution: the collective, the ranks of its group, its bytes and its price.
struct Step {
  std::string collective;
  std::int64_t ranks;
  double bytes;
  double time_us;
};

// Expects that the sets, read from the traces of a run on these ranks, have these steps as their
// rows.
void expect_rows(const json& sets, std::vector<Step> steps) {
  std::vector<Step> rows;
  for (const json& set : sets.is_array() ? sets : json::array({sets})) {
    EXPECT_EQ(set["gpu"], "h100");
    for (const json& row : set["rows"]) {
      EXPECT_EQ(row["dtype"], "bf16");
      rows.push_back({row["collective"], set["ranks"], row["bytes"], row["time_us"]});
    }
  }
  const auto by_size = [](const Step& a, const Step& b) {
    return std::pair(a.ranks, a.collective) < std::pair(b.ranks, b.collective);
  };
  std::sort(rows.begin(), rows.end(), by_size);
  std::sort(steps.begin(), steps.end(), by_size);
  ASSERT_EQ(rows.size(), steps.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].collective, steps[i].collective);
    EXPECT_EQ(rows[i].ranks, steps[i].ranks);
    EXPECT_DOUBLE_EQ(rows[i].bytes, steps[i].bytes);
    // The clocks tick in picoseconds.
    EXPECT_NEAR(rows[i].time_us, steps[i].time_us, 1e-5);
  }
}

class SimulatedTrace : public testing::TestWithParam<std::string> {};

TEST_P(SimulatedTrace, ReadsBackToTheStepsOfThePlan) {
  const TemporaryFolder folder;
  const Words run = {"--mesh", "2x4",        "--tensor", "bf16[2048,512]",
                     "--from", "P(sum)S(0)", "--to",     "S(1)R"};
  Words simulate = {"simulate", "--data", "off", "--trace", GetParam()};
  simulate.insert(simulate.end(), run.begin(), run.end());
  const json simulated = json_of(simulate, folder.path());
  std::vector<Step> steps;
  for (const json& step : simulated["steps"]) {
    if (step["collective"] == "local") continue;
    const bool is_outer = step["mesh_dims"] == json::array({0});
    double bytes = 2048.0 * 512.0 * 2.0;
    // The outer reduce_scatter sees the inner dim's shard unless that was gathered before.
    if (step["logical_shape"] == json({512, 512})) bytes /= 4.0;
    if (step["logical_shape"] == json({2048, 256})) bytes /= 2.0;
    steps.push_back({step["collective"], is_outer ? 2 : 4, bytes, step["price_us"]});
  }
  ASSERT_EQ(steps.size(), 2U);
  Words files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    files.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(files.size(), GetParam().starts_with("t.et") ? 8U : 1U);
  std::sort(files.begin(), files.end());
  const ProcessResult described =
      run_shardlab({"describe", "measurement", files[0]}, folder.path());
  ASSERT_EQ(described.exit_code, 0) << described.err;
  expect_rows(json::parse(described.out), steps);
  // The traces of all ranks together give the same rows, and nobody waited.
  Words validate = {"validate", "--rows"};
  validate.insert(validate.end(), files.begin(), files.end());
  const json validated = json_of(validate, folder.path());
  EXPECT_EQ(validated["points"], 2);
  EXPECT_EQ(validated["warnings"], json::array());
}

INSTANTIATE_TEST_SUITE_P(Formats, SimulatedTrace, testing::Values("t.json", "t.et", "t.et.json"),
                         [](const auto& which) {
                           return std::string(which.param == "t.et"     ? "Chakra"
                                              : which.param == "t.json" ? "Kineto"
                                                                        : "ChakraAsJson");
                         });

// Chakra's JSON is read in both forms that its jsonizers write.
TEST(Traces, ChakraAsJsonIsTheSame) {
  const auto described = [](const std::string& file) {
    json sets = json_of({"describe", "measurement", kRecorded + file}, {});
    for (json& set : sets) set.erase("name");
    return sets;
  };
  const json expected = described("chakra.5.et");
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(described("chakra_jsonizer.json"), expected);
  EXPECT_EQ(described("chakra_schema_names.json"), expected);
}

// Host 1 takes twice as long; the waiting of the others does not count in their times.
TEST(Traces, WaitingForASlowHostIsNoPartOfTheTime) {
  const TemporaryFolder folder;
  const json simulated =
      json_of({"simulate", "--mesh", "2x8", "--tensor", "bf16[4096,64]", "--from", "S(1)S(0)",
               "--to", "RR", "--data", "off", "--straggler", "host:1:2", "--trace", "t.json"},
              folder.path());
  const ProcessResult described =
      run_shardlab({"describe", "measurement", "t.json"}, folder.path());
  ASSERT_EQ(described.exit_code, 0) << described.err;
  const json sets = json::parse(described.out);
  ASSERT_EQ(sets.size(), 2U);
  ASSERT_EQ(simulated["steps"].size(), 2U);
  const auto price_over = [&](int mesh_dim) {
    const json& first = simulated["steps"][0];
    return (first["mesh_dims"] == json::array({mesh_dim}) ? first
                                                          : simulated["steps"][1])["price_us"]
        .get<double>();
  };
  // Across hosts all take as long as the slow one; the host that is not slow waits for it.
  EXPECT_EQ(sets[0]["ranks"], 2);
  EXPECT_EQ(sets[0]["rows"][0]["iterations"], 8);
  EXPECT_NEAR(sets[0]["rows"][0]["time_us"].get<double>(), 2 * price_over(0), 1e-5);
  // Within a host each rank takes its own time.
  EXPECT_EQ(sets[1]["ranks"], 8);
  EXPECT_EQ(sets[1]["rows"][0]["iterations"], 2);
  EXPECT_NEAR(sets[1]["rows"][0]["p5_us"].get<double>(), price_over(1), 1e-5);
  EXPECT_NEAR(sets[1]["rows"][0]["p95_us"].get<double>(), 2 * price_over(1), 1e-5);
}

TEST(Traces, ValidateReadsWhatPyTorchRecorded) {
  const json out = json_of({"validate", kRecorded + "gloo_0.json", kRecorded + "gloo_1.json",
                            "--rows", "--topology", "h100"},
                           {});
  EXPECT_EQ(out["sets"], 1);
  EXPECT_EQ(out["points"], 8);
  EXPECT_EQ(out["by"]["scale"]["1x2"]["points"], 8);
  EXPECT_EQ(out["warnings"],
            json::array({"gloo_0: 6 calls are left out: no cost model prices \"barrier\""}));
  // With the trace of one rank alone the times include waiting, and a note says so.
  const json alone = json_of({"validate", kRecorded + "gloo_0.json", "--topology", "h100"}, {});
  EXPECT_EQ(
      alone["warnings"],
      json({"gloo_0 is unhealthy: ragged: 4 KiB take 221.3 times as long as 64 KiB",
            "gloo_0: only 1 of 2 ranks is traced, so times may include waiting for the others",
            "gloo_0: the trace names no hosts, so all ranks are assumed to be on one; "
            "give the number per host with --gpus-per-host",
            "gloo_0: 3 calls are left out: no cost model prices \"barrier\""}));
}

// A model's step on an H100, as others recorded it.
TEST(Traces, KernelsArePricedByTheirShapes) {
  const std::string bert = kRecorded + "h100_bert_small.json";
  const json out = json_of({"validate", bert, "--stack", "steps", "--rows"}, {});
  EXPECT_EQ(out["points"], 0);
  EXPECT_EQ(out["kernels"].size(), 11U);
  EXPECT_EQ(out["by"]["kernel"]["gemm"]["points"], 4);
  EXPECT_NEAR(out["by"]["kernel"]["gemm"]["measured_us"], 197.02, 0.01);
  EXPECT_LT(out["by"]["kernel"]["gemm"]["median_ape_percent"], 6.0);
  EXPECT_EQ(out["worst_kernels"][0]["shape"], "141x512");
  EXPECT_EQ(out["worst_kernels"][0]["calls"], 10);
  EXPECT_EQ(out["warnings"],
            json::array({"h100_bert_small: 3.2 % of the time of kernels is left out: operators "
                         "that have no price or no shapes here: aten::index_select 3.2 %"}));
  // The total weighs each kernel by its calls.
  double measured = 0.0;
  double predicted = 0.0;
  for (const json& kernel : out["kernels"]) {
    if (kernel["kernel"] != "gemm") continue;
    measured += kernel["calls"].get<double>() * kernel["measured_us"].get<double>();
    predicted += kernel["calls"].get<double>() * kernel["predicted_us"].get<double>();
  }
  EXPECT_NEAR(out["by"]["kernel"]["gemm"]["total_percent"], 100.0 * (predicted / measured - 1.0),
              1e-9);
  // A stack that prices no kernels says so, and not that they take no time.
  const json none = json_of({"validate", bert, "--stack", "dtensor-2.13"}, {});
  EXPECT_EQ(none["by"]["kernel"]["gemm"]["points"], 0);
  EXPECT_EQ(none["by"]["kernel"]["gemm"]["unpriced"], 4);
  EXPECT_EQ(none["worst_kernels"], json::array());
}

TEST(Traces, KernelsAloneAreJudgedByTheGateAndByNoReport) {
  const std::string bert = kRecorded + "h100_bert_small.json";
  const auto exit_code = [&](const std::string& bound) {
    const Words words = {"validate", bert, "--stack", "steps", "--max-median-ape-percent", bound};
    return run_shardlab(words, {}).exit_code;
  };
  EXPECT_EQ(exit_code("100"), 0);
  EXPECT_EQ(exit_code("1"), 1);
  const ProcessResult summary =
      run_shardlab({"validate", bert, "--stack", "steps", "--summary"}, {});
  EXPECT_EQ(summary.exit_code, 2);
  EXPECT_EQ(summary.out, "");
  EXPECT_EQ(summary.err,
            "shardlab: --out, --summary: a report shows collectives, and these files hold kernels "
            "alone; valid: without it, or --format json\n");
  const ProcessResult none = run_shardlab({"validate", bert, "--quiet"}, {});
  EXPECT_NE(none.out.find("\n  it prices none of them; valid: another stack, such as --stack "
                          "steps\n"),
            std::string::npos)
      << none.out;
}

TEST(Traces, KernelsBecomeAMeasurementSet) {
  const TemporaryFolder folder;
  const json set =
      json_of({"describe", "measurement", kRecorded + "h100_bert_small.json"}, folder.path());
  EXPECT_EQ(set["gpu"], "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(set["kernels"].size(), 11U);
  folder.write("set.json", set.dump());
  const ProcessResult fitted = run_shardlab(
      {"calibrate", "set.json", "--model", "roofline", "--out", "fitted.json", "--quiet"},
      folder.path());
  EXPECT_EQ(fitted.exit_code, 0) << fitted.err;
}

TEST(Traces, BrokenOnesSayWhere) {
  const TemporaryFolder folder;
  folder.write("short.et", std::string("\x07\x0a\x05"
                                       "0.0.4\x20\x08",
                                       10));
  folder.write("broken.json",
               R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2,
                   "args": {"Collective name": "allreduce", "dtype": "Float"}}]})");
  folder.write("empty.json", R"({"traceEvents": []})");
  folder.write("shapeless.json",
               R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2,
                   "args": {"External id": 3}}]})");
  folder.write("array.json", R"([{"ph": "X", "name": "k"}])");
  folder.write("node.json", R"([{"version": "0.0.4"}, {"id": "1", "type": 7, "Comm": 1}])");
  folder.write("lines.json", "{\"version\": \"0.0.4\"}\n{\"id\": \"1\",\n \"type\" 7}\n");
  const auto error_of = [&](const char* file) {
    const ProcessResult result = run_shardlab({"validate", file}, folder.path());
    EXPECT_EQ(result.exit_code, 3);
    return result.err;
  };
  EXPECT_EQ(error_of("short.et"), "shardlab: short.et:byte 9: the text ends after 1 of 32 bytes\n");
  EXPECT_EQ(error_of("broken.json"),
            "shardlab: broken.json:/traceEvents/0/args: missing key \"Group size\"\n");
  EXPECT_EQ(
      error_of("empty.json"),
      "shardlab: empty.json: found no collective with a time, and no kernel of a GPU; valid: a "
      "trace that PyTorch's profiler wrote with ProfilerActivity.CUDA, or a Chakra trace with "
      "collectives\n");
  EXPECT_EQ(error_of("shapeless.json"),
            "shardlab: shapeless.json: found no collective with a time; found kernels, but none of "
            "an operator that has a price and shapes; valid: a trace that PyTorch's profiler wrote "
            "with record_shapes=True\n");
  EXPECT_EQ(
      error_of("array.json"),
      "shardlab: array.json:/0: found an object; valid: GlobalMetadata, with the keys version "
      "and attr, as a trace of Chakra begins\n");
  EXPECT_EQ(error_of("node.json"),
            "shardlab: node.json:/1/Comm: unknown key; valid: id, name, type, ctrlDeps, dataDeps, "
            "startTimeMicros, durationMicros, inputs, outputs, attr, storage\n");
  EXPECT_EQ(error_of("lines.json"),
            "shardlab: lines.json:line 3, column 9: broken JSON: found \"7\"; valid: \":\"\n");
}

}  // namespace traces_test
}  // namespace shardlab::testing_support
