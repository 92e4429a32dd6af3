// Traces of PyTorch's profiler: which events count, their bytes and groups, and how ranks are
// joined.
#include "costmodel/measurements/kineto_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace kineto_trace_test {

using nlohmann::json;
using testing::ElementsAre;

json nccl_event(const std::string& name, int in, int out, double dur, int sequence) {
  return {{"ph", "X"},
          {"cat", "kernel"},
          {"name", "ncclDevKernel_" + name},
          {"ts", 100.0 * sequence},
          {"dur", dur},
          {"args",
           {{"Collective name", name},
            {"In msg nelems", in},
            {"Out msg nelems", out},
            {"Group size", 4},
            {"dtype", "BFloat16"},
            {"Process Group Name", "0"},
            {"Process Group Ranks", "[0, 1, 2, 3]"},
            {"Seq", sequence}}}};
}

json nccl_trace(int rank, std::vector<json> events) {
  return {{"distributedInfo", {{"backend", "nccl"}, {"rank", rank}, {"world_size", 4}}},
          {"deviceProperties", {{{"name", "H100"}}, {{"name", "H100"}}}},
          {"traceEvents", std::move(events)}};
}

CollectiveTrace read(const json& trace) { return read_kineto_trace(trace, {"t.json", ""}); }

std::string error_of(const json& trace, const SourceHints& hints = {}) {
  try {
    const std::vector<CollectiveTrace> run = {read(trace)};
    static_cast<void>(sets_of_traces(run, hints));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// As older releases of PyTorch write them.
TEST(KinetoTrace, KernelsOfNcclWithoutTheNameOfACollectiveAreCounted) {
  json unnamed = nccl_event("SendRecv", 1024, 4096, 10, 1);
  unnamed["args"] = {{"stream", 20}};
  const json named = nccl_event("allreduce", 4096, 4096, 12, 3);
  EXPECT_EQ(
      error_of(nccl_trace(0, {unnamed, unnamed})),
      "t.json: found no collective with a time: 2 calls are left out: the trace does not have "
      "the \"Collective name\" of a kernel of NCCL");
  const std::vector<CollectiveTrace> run = {read(nccl_trace(0, {unnamed, named}))};
  EXPECT_THAT(sets_of_traces(run, {}).front().warnings,
              testing::Contains("1 call is left out: the trace does not have the \"Collective "
                                "name\" of a kernel of NCCL"));
}

TEST(KinetoTrace, BytesAreTheLargerOfARanksTwoBuffers) {
  const CollectiveTrace trace = read(nccl_trace(
      0, {nccl_event("_allgather_base", 1024, 4096, 10, 1),
          nccl_event("_reduce_scatter_base", 4096, 1024, 11, 2),
          nccl_event("allreduce", 4096, 4096, 12, 3), nccl_event("all_to_allv", 4096, 4096, 13, 4),
          nccl_event("broadcast", 4096, 4096, 14, 5), nccl_event("scatter", 0, 1024, 15, 6)}));
  std::vector<Collective> kinds;
  for (const TracedCall& call : trace.calls) {
    kinds.push_back(call.collective);
    EXPECT_EQ(call.bytes, 8192.0);
    EXPECT_EQ(call.dtype, "bf16");
    EXPECT_THAT(call.group.ranks, ElementsAre(0, 1, 2, 3));
  }
  EXPECT_THAT(
      kinds, ElementsAre(Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce,
                         Collective::kAllToAll, Collective::kBroadcast, Collective::kScatter));
}

// In the first call one rank waits 30 us for the other, in the second 5 us.
TEST(KinetoTrace, TheLeastOverRanksIsTheTimeAndTheRestIsWaiting) {
  const std::vector<CollectiveTrace> run = {
      read(nccl_trace(
          0, {nccl_event("allreduce", 64, 64, 10, 7), nccl_event("allreduce", 64, 64, 25, 8)})),
      // These events were recorded in another order; calls find their partners by their numbers.
      read(nccl_trace(1, {nccl_event("allreduce", 64, 64, 20, 8)})),
      read(nccl_trace(2, {nccl_event("allreduce", 64, 64, 40, 7)}))};
  EXPECT_TRUE(is_of_run(std::span(run).first(2), run[2]));
  EXPECT_FALSE(is_of_run(run, run[2]));
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {});
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].ranks, 4);
  EXPECT_EQ(sets[0].hosts, 2);  // with two devices each
  EXPECT_EQ(sets[0].gpu, "H100");
  ASSERT_EQ(sets[0].rows.size(), 1U);
  const MeasuredRow& row = sets[0].rows[0];
  EXPECT_EQ(row.bytes, 128.0);
  EXPECT_EQ(row.iterations, 2);
  EXPECT_EQ(row.time_us, 10.0);
  EXPECT_EQ(row.p95_us, 20.0);
  EXPECT_EQ(row.wait_us, 0.0);  // the median of 0, 0, 5 and 30 by nearest rank
  EXPECT_THAT(
      sets[0].warnings,
      ElementsAre("only 2 of 4 ranks are traced, so times may include waiting for the others"));
}

TEST(KinetoTrace, GroupsOfDifferentShapesAreDifferentSets) {
  json pair = nccl_event("allreduce", 64, 64, 5, 1);
  pair["args"]["Group size"] = 2;
  pair["args"]["Process Group Name"] = "1";
  pair["args"]["Process Group Ranks"] = "[0, 2]";
  const std::vector<CollectiveTrace> run = {
      read(nccl_trace(0, {pair, nccl_event("allreduce", 64, 64, 10, 1)}))};
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {});
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].name, "t_2x1");
  EXPECT_EQ(sets[0].ranks, 2);
  EXPECT_EQ(sets[0].rows[0].time_us, 5.0);
  EXPECT_EQ(sets[1].name, "t_2x2");
  EXPECT_EQ(sets_of_traces(run, {.gpus_per_host = 4})[0].name, "t_1x2");
}

// A set spreads its ranks evenly over its hosts, and a group of four and one takes longer than one
// of three and two.
TEST(KinetoTrace, AGroupThatIsSpreadUnevenlyIsLeftOut) {
  json five = nccl_event("allreduce", 64, 64, 5, 1);
  five["args"]["Group size"] = 5;
  five["args"]["Process Group Ranks"] = "[0, 1, 2, 3, 4]";
  EXPECT_EQ(error_of(nccl_trace(0, {five}), {.gpus_per_host = 4}),
            "t.json: found no collective with a time: 1 call is left out: the group has 4 ranks on "
            "one host and 1 on another, and a measured set spreads its ranks evenly");
  five["args"]["Process Group Ranks"] = "[0, 1, 2, 4, 5]";
  const std::vector<CollectiveTrace> run = {read(nccl_trace(0, {five}))};
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {.gpus_per_host = 4});
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].ranks, 5);
  EXPECT_EQ(sets[0].gpus_per_host, 3);
}

json gloo_trace(const json& dims, const json& types) {
  return {{"distributedInfo", {{"backend", "gloo"}, {"rank", 0}, {"world_size", 4}}},
          {"traceEvents",
           {{{"ph", "X"},
             {"cat", "user_annotation"},
             {"name", "gloo:all_to_all"},
             {"ts", 1.0},
             {"dur", 5.0},
             {"args", {{"Input Dims", dims}, {"Input type", types}}}}}}};
}

TEST(KinetoTrace, ACallOfGlooWithAListHasTheBytesOfAllItsTensors) {
  const CollectiveTrace trace = read(gloo_trace(json::parse("[[16,2],[8]]"), {"float", "float"}));
  ASSERT_EQ(trace.calls.size(), 1U);
  EXPECT_EQ(trace.calls[0].bytes, (16 * 2 + 8) * 4);
  using LeftOut = std::map<std::string, int>;
  EXPECT_EQ(read(gloo_trace(json::parse("[[16],[8]]"), {"float", "double"})).left_out,
            (LeftOut{{"all_to_all has inputs of several dtypes", 1}}));
  EXPECT_EQ(read(gloo_trace(nullptr, nullptr)).left_out,
            (LeftOut{{"the rank has no input, as in a scatter from another rank", 1}}));
}

TEST(KinetoTrace, ShortenedListsAreEvenlyApartOrInPgConfig) {
  json event = nccl_event("allreduce", 64, 64, 10, 1);
  event["args"]["Group size"] = 64;
  event["args"]["Process Group Ranks"] = "[0, 2, 4, ..., 126]";
  json trace = nccl_trace(0, {event});
  EXPECT_EQ(read(trace).calls[0].group.stride, 2);
  EXPECT_EQ(sets_of_traces(std::vector{read(trace)}, {.gpus_per_host = 8})[0].hosts, 16);
  trace["traceEvents"][0]["args"]["Process Group Ranks"] = "[0, 2, 4, ..., 127]";
  EXPECT_EQ(error_of(trace),
            "t.json: found no collective with a time: 1 call is left out: \"Process Group Ranks\" "
            "is shortened, and pg_config does not list the group");
  std::vector<int> ranks(64);
  for (int i = 0; i < 64; ++i) ranks[to_index(i)] = i < 63 ? 2 * i : 127;
  trace["distributedInfo"]["pg_config"] = {{{"pg_name", "0"}, {"ranks", ranks}}};
  EXPECT_EQ(read(trace).calls[0].group.ranks.back(), 127);
}

TEST(KinetoTrace, ErrorsNameTheEvent) {
  const auto with = [](const char* key, const json& value) {
    json event = nccl_event("allreduce", 64, 64, 10, 1);
    event["args"][key] = value;
    return nccl_trace(0, {event});
  };
  EXPECT_EQ(
      error_of(with("Group size", 0)),
      "t.json:/traceEvents/0/args/Group size: found 0; valid: an integer from 1 to 1073741824");
  EXPECT_EQ(error_of(with("Process Group Ranks", "[0, 1]")),
            "t.json:/traceEvents/0/args/Process Group Ranks: found 2 ranks; valid: 4, the \"Group "
            "size\"");
  EXPECT_EQ(error_of(with("In msg nelems", nullptr)),
            "t.json:/traceEvents/0/args: missing key \"In msg nelems\"");
  EXPECT_EQ(error_of(with("dtype", "Quint8")),
            "t.json: found no collective with a time: 1 call is left out: the element type "
            "\"Quint8\" is unknown");
  EXPECT_EQ(error_of(with("Collective name", "barrier")),
            "t.json: found no collective with a time: 1 call is left out: no cost model prices "
            "\"barrier\"");
  EXPECT_EQ(error_of({{"traceEvents", 3}}), "t.json:/traceEvents: found 3; valid: an array");
}

// The file is a trace that PyTorch 2.13 recorded, and the figures are those in the file.
TEST(KinetoTrace, ReadsWhatPyTorchRecordedUnderGloo) {
  std::vector<CollectiveTrace> run;
  for (const char* name : {"gloo_0.json", "gloo_1.json"}) {
    std::ifstream in(std::string(SHARDLAB_SOURCE_DIR "/tests/golden/traces/") + name);
    run.push_back(read_kineto_trace(json::parse(in), {name, ""}));
    EXPECT_EQ(run.back().calls.size(), 12U);
    EXPECT_EQ(run.back().left_out,
              (std::map<std::string, int>{{"no cost model prices \"barrier\"", 3}}));
  }
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {});
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].ranks, 2);
  EXPECT_EQ(sets[0].hosts, 1);
  std::vector<std::pair<std::string, double>> rows;
  for (const MeasuredRow& row : sets[0].rows) {
    rows.emplace_back(std::string(to_string(row.collective)) + " " + row.dtype, row.bytes);
  }
  using Row = std::pair<std::string, double>;
  EXPECT_THAT(rows, testing::UnorderedElementsAre(
                        Row("all_reduce f32", 4096), Row("broadcast f32", 4096),
                        Row("all_gather f32", 8192), Row("all_to_all f64", 16384),
                        Row("all_reduce f32", 65536), Row("broadcast f32", 65536),
                        Row("all_gather f32", 131072), Row("all_to_all f64", 262144)));
  // Rank 0 arrived first and waited.
  EXPECT_EQ(run[0].calls[0].collective, Collective::kAllReduce);
  EXPECT_GT(run[0].calls[0].duration_us, 100 * sets[0].rows[0].time_us);
}

TEST(KinetoTrace, GroupsAsText) {
  EXPECT_EQ(ranks_text({.size = 3, .ranks = {0, 4, 8}}), "[0, 4, 8]");
  const std::string text = ranks_text({.size = 64, .first = 1, .stride = 2});
  EXPECT_TRUE(text.starts_with("[1, 3, 5, ")) << text;
  EXPECT_TRUE(text.ends_with(", 57, ..., 127]")) << text;
  EXPECT_EQ(ranks_text({.size = 9000, .first = 8, .stride = 0}), "[8, ...]");
}

}  // namespace kineto_trace_test
}  // namespace shardlab
