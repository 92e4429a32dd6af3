// The content of a file decides how it is read; what it does not say about its health is judged.
#include "runner/evaluation/measurement_files.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/process.h"
#include "tests/support/reference_messages.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace measurement_files_test {

using testing_support::shipped;
using testing_support::TemporaryFolder;

constexpr std::string_view kText =
    "# nodes: 2\n# gpus_per_node: 8\n"
    "65536 16384 float sum -1 20.00 3.28 6.1 0 21.00 3.12 5.8 0\n";

TEST(MeasurementFiles, JsonOfAnotherFormIsToldWhatIsRead) {
  const std::string valid =
      "; valid: a report of nccl-tests (which has the key results), a trace of torch.profiler "
      "(traceEvents), the array that Chakra's jsonizer writes, or a measurement set (schema)";
  EXPECT_THROW_MSG(
      static_cast<void>(parse_measurement(R"({"workload_graph": []})", {}, "x.json")), ConfigError,
      "x.json: found JSON of an unknown form, with the key \"workload_graph\"" + valid);
  EXPECT_THROW_MSG(static_cast<void>(parse_measurement("{}", {}, "x.json")), ConfigError,
                   "x.json: found JSON of an unknown form" + valid);
}

TEST(MeasurementFiles, ATraceWithoutDurationsIsNamed) {
  EXPECT_THROW_MSG(
      static_cast<void>(
          parse_measurement(R"({"schema": "1.1.1-chakra.0.0.4", "pid": 1})", {}, "host.json")),
      ConfigError,
      "host.json:/schema: found \"1.1.1-chakra.0.0.4\", a trace of PyTorch's "
      "ExecutionTraceObserver, which has no durations; valid: a trace of torch.profiler "
      "(traceEvents), or what Chakra's linker and converter make of the two");
}

TEST(MeasurementFiles, TextJsonAndOurOwn) {
  const MeasurementSet text = parse_measurement(kText, {}, "all_reduce.txt");
  EXPECT_EQ(text.ranks, 16);
  EXPECT_EQ(text.health, Health::kHealthy);
  const MeasurementSet own = parse_measurement(measurement_text(text), {}, "x.json");
  EXPECT_EQ(own.name, "all_reduce");
  EXPECT_EQ(own.rows.size(), 1U);
  EXPECT_EQ(own.rows[0].time_us, 20.0);
  const MeasurementSet json = parse_measurement(
      R"( {"args": ["all_gather_perf"], "results": [{"size": 65536, "type": "float",
           "out_of_place": {"time": 20.0, "alg_bw": 3.28, "nwrong": null}}]})",
      {.hosts = 1, .gpus_per_host = 4}, "run.json");
  EXPECT_EQ(json.rows[0].collective, Collective::kAllGather);
  EXPECT_EQ(json.ranks, 4);
  // A tag of MPI begins with a bracket, as an array of JSON would.
  EXPECT_EQ(parse_measurement("[1,0]<stdout>:# ranks: 8\n[1,0]<stdout>:# nodes: 1\n"
                              "[1,0]<stdout>:65536 16384 float sum -1 20.00 3.28 5.7 0 21.00 3.12 "
                              "5.5 0\n",
                              {}, "all_reduce.txt")
                .ranks,
            8);
}

TEST(MeasurementFiles, WrappedTextIsNamed) {
  const auto message = [](const std::string& text) {
    try {
      static_cast<void>(parse_measurement(text, {}, "run.log"));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("{\"log\":\"# ranks: 8\\n\",\"stream\":\"stdout\"}\n{\"log\":\"\"}\n"),
            "run.log: found a log whose lines are JSON, as Docker's driver json-file writes them; "
            "valid: the log itself, as docker logs NAME or jq -rj .log FILE prints it");
  EXPECT_EQ(message("\xff\xfe#"),
            "run.log: found text in UTF-16; valid: UTF-8, as iconv -f UTF-16 -t UTF-8 writes it");
}

TEST(MeasurementFiles, WhatALogCallsNormalIsJudgedToo) {
  const MeasurementSet set = parse_measurement(
      "# health: normal\n# settings: NCCL_ALGO=Tree\n" + std::string(kText), {}, "all_reduce.txt");
  EXPECT_EQ(set.health, Health::kUnhealthy);
  EXPECT_EQ(remarks_on(set),
            std::vector<std::string>{"all_reduce is unhealthy: forced: NCCL_ALGO= is set"});
  EXPECT_TRUE(left_out_of(set).empty());
}

TEST(MeasurementFiles, WrittenTextReadsBackToTheSame) {
  const MeasurementSet set = parse_measurement(kText, {}, "all_reduce.txt");
  const std::string written = measurement_text(set);
  EXPECT_EQ(measurement_text(parse_measurement(written, {}, "all_reduce.json")), written);
  EXPECT_NE(written.find("\n    {\"collective\":\"all_reduce\",\"dtype\":\"f32\",\"bytes\":65536,"
                         "\"time_us\":20.0,\"in_place_time_us\":21.0}\n"),
            std::string::npos)
      << written;
}

TEST(MeasurementFiles, NamesAndPaths) {
  const ConfigStore store = shipped();
  const TemporaryFolder folder;
  const std::string file = folder.write("all_reduce.log", std::string(kText)).string();
  const std::vector<std::string> files = {file, "h100_1x8_all_reduce_dgxc"};
  const auto sets = read_measurements(store, files, {});
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].name, "all_reduce");
  EXPECT_EQ(sets[1].gpu, "H100-SXM5-80GB");
  EXPECT_THROW(static_cast<void>(read_measurement(store, "no_such_set", {})), InputError);
  EXPECT_THROW(static_cast<void>(read_measurement(store, "./no/such.txt", {})), InputError);
}

}  // namespace measurement_files_test
}  // namespace shardlab
