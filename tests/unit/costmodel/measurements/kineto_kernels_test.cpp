// The kernels of a trace of PyTorch's profiler: which operator each belongs to, what is joined, and
// what is left out.
#include "costmodel/measurements/kineto_kernels.h"

#include <gtest/gtest.h>

#include <fstream>

#include "costmodel/base/error.h"
#include "costmodel/measurements/kineto_trace.h"

namespace shardlab {
namespace kineto_kernels_test {

using nlohmann::json;

json mm_op(int id, int m = 8, int k = 4, int n = 16) {
  return {{"ph", "X"},
          {"cat", "cpu_op"},
          {"name", "aten::mm"},
          {"ts", 1.0},
          {"dur", 1.0},
          {"args",
           {{"External id", id},
            {"Input Dims", {{m, k}, {k, n}}},
            {"Input Strides", {{k, 1}, {n, 1}}},
            {"Input type", {"c10::BFloat16", "c10::BFloat16"}},
            {"Concrete Inputs", {"", ""}}}}};
}

json kernel_event(const std::string& name, double us, std::optional<int> id = {}) {
  json event = {{"ph", "X"},  {"cat", "kernel"}, {"name", name},
                {"ts", 10.0}, {"dur", us},       {"args", {{"device", 0}, {"stream", 7}}}};
  if (id) event["args"]["External id"] = *id;
  return event;
}

TracedKernels read(const json& events) { return read_kineto_kernels(events, {"t.json", "/e"}); }

TEST(KinetoKernels, KernelsOfOneCallAreOneRow) {
  // A product that is split along k, and a second call of the same shape.
  const TracedKernels traced =
      read({mm_op(1), mm_op(2), kernel_event("gemm_splitK", 3.0, 1),
            kernel_event("splitKreduce", 1.0, 1), kernel_event("gemm_splitK", 6.0, 2)});
  ASSERT_EQ(traced.calls.size(), 2U);
  EXPECT_EQ(traced.calls[0].time_us, 4.0);
  EXPECT_EQ(traced.calls[1].time_us, 6.0);
  EXPECT_EQ(traced.total_us, 10.0);
  EXPECT_EQ(left_out_text(traced), "");
  const std::vector<MeasuredKernel> rows = measured_kernels(traced.calls);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(kernel_shape_text(rows[0]), "8x16x4, rows of 4");
  EXPECT_EQ(rows[0].time_us, 5.0);
  EXPECT_EQ(rows[0].iterations, 2);
}

TEST(KinetoKernels, OtherShapesAreOtherRows) {
  const TracedKernels traced =
      read({mm_op(1), mm_op(2, 8, 4, 32), mm_op(3), kernel_event("a", 1.0, 1),
            kernel_event("a", 2.0, 2), kernel_event("a", 3.0, 3)});
  const std::vector<MeasuredKernel> rows = measured_kernels(traced.calls);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].iterations, 2);
  EXPECT_EQ(rows[1].time_us, 2.0);
  EXPECT_FALSE(rows[1].p50_us);
}

TEST(KinetoKernels, WhatIsLeftOutIsNamed) {
  json index = mm_op(2);
  index["name"] = "aten::index";
  json shapeless = mm_op(3);
  shapeless["args"].erase("Input Dims");
  const TracedKernels traced =
      read({mm_op(1), index, shapeless, kernel_event("g", 5.0, 1), kernel_event("i", 2.0, 2),
            kernel_event("g", 2.0, 3), kernel_event("lost", 0.5), kernel_event("late", 0.5, 99)});
  EXPECT_EQ(traced.calls.size(), 1U);
  EXPECT_EQ(
      left_out_text(traced),
      "50.0 % of the time of kernels is left out: 10.0 % in kernels whose operator the trace does "
      "not have, and operators that have no price or no shapes here: aten::index 20.0 %, "
      "aten::mm 20.0 %");
}

TEST(KinetoKernels, OnlyTheLongestOfThoseLeftOutAreNamed) {
  TracedKernels traced;
  traced.total_us = 20.0;
  for (const auto& [name, us] :
       {std::pair("a", 1.0), {"b", 2.0}, {"c", 3.0}, {"d", 4.0}, {"e", 5.0}}) {
    traced.left_out_us[name] = us;
  }
  const std::string head =
      "75.0 % of the time of kernels is left out: operators that have no price or no shapes here: ";
  EXPECT_EQ(left_out_text(traced), head + "e 25.0 %, d 20.0 %, c 15.0 %, b 10.0 % and 1 other");
  traced.left_out_us["f"] = 0.0;
  EXPECT_EQ(left_out_text(traced), head + "e 25.0 %, d 20.0 %, c 15.0 %, b 10.0 % and 2 others");
}

TEST(KinetoKernels, AnOperatorThatTheTraceLacksIsNoName) {
  TracedKernels traced;
  traced.total_us = 8.0;
  traced.left_out_us[""] = 2.0;
  EXPECT_EQ(left_out_text(traced),
            "25.0 % of the time of kernels is left out: 25.0 % in kernels whose operator the trace "
            "does not have");
}

TEST(KinetoKernels, CollectivesAndCopiesFromTheHostAreNone) {
  json named = kernel_event("allreduce_kernel", 7.0);
  named["args"]["Collective name"] = "allreduce";
  json from_host = kernel_event("Memcpy HtoD (Pageable -> Device)", 8.0);
  from_host["cat"] = "gpu_memcpy";
  json inside = kernel_event("Memcpy DtoD (Device -> Device)", 2.0);
  inside["cat"] = "gpu_memcpy";
  inside["args"]["bytes"] = 4096;
  const TracedKernels traced =
      read({kernel_event("ncclDevKernel_AllReduce", 9.0), named, from_host, inside});
  EXPECT_EQ(traced.total_us, 2.0);
  ASSERT_EQ(traced.calls.size(), 1U);
  EXPECT_EQ(traced.calls[0].kernel, "copy");
  EXPECT_EQ(traced.calls[0].bytes, 8192.0);
}

TEST(KinetoKernels, AProductThatCopiesFirstIsAProduct) {
  json inside = kernel_event("Memcpy DtoD (Device -> Device)", 2.0, 1);
  inside["cat"] = "gpu_memcpy";
  inside["args"]["bytes"] = 4096;
  const TracedKernels traced = read({mm_op(1), inside, kernel_event("gemm", 5.0, 1)});
  ASSERT_EQ(traced.calls.size(), 1U);
  EXPECT_EQ(traced.calls[0].kernel, "gemm");
  EXPECT_EQ(traced.calls[0].time_us, 7.0);
}

TEST(KinetoKernels, AnIdThatTwoOperatorsHaveTellsNothing) {
  const TracedKernels traced = read({mm_op(1), mm_op(1, 8, 4, 32), kernel_event("gemm", 5.0, 1)});
  EXPECT_TRUE(traced.calls.empty());
  EXPECT_EQ(traced.left_out_us.at(""), 5.0);
}

TEST(KinetoKernels, ArgumentsThatAreNoTensorsAreSkipped) {
  json add = mm_op(1);
  add["name"] = "aten::add";
  add["args"]["Input Dims"] = {{8, 16}, json::array(), "odd"};
  add["args"]["Input type"] = {"float", "Scalar", ""};
  add["args"]["Input Strides"] = {{16, 1}, json::array()};
  json huge = mm_op(2);
  huge["args"]["Input Dims"] = {{1e300, 4}, {4, 16}};
  json negative = mm_op(3);
  negative["args"]["Input Dims"] = {{-8, 4}, {4, 16}};
  const TracedKernels traced = read({add, huge, negative, kernel_event("a", 1.0, 1),
                                     kernel_event("a", 1.0, 2), kernel_event("a", 1.0, 3)});
  ASSERT_EQ(traced.calls.size(), 1U);
  EXPECT_EQ(traced.calls[0].bytes, 2.0 * 4 * 8 * 16);
  EXPECT_EQ(traced.left_out_us.at("aten::mm"), 2.0);
}

TEST(KinetoKernels, TimesMustBeTimes) {
  const auto error_of = [](const json& event) -> std::string {
    try {
      (void)read(json::array({event}));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  json event = kernel_event("k", 1.0);
  event["dur"] = -1.0;
  EXPECT_NE(error_of(event).find("t.json:/e/0/dur: "), std::string::npos) << error_of(event);
  event.erase("dur");
  EXPECT_EQ(error_of(event), "t.json:/e/0: missing key \"dur\"");
}

// A model's step on an H100, as others recorded it (tests/golden/traces/README.md).
TEST(KinetoKernels, ReadATraceOfOthers) {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/tests/golden/traces/h100_bert_small.json");
  const json trace = json::parse(file);
  const TracedKernels traced = read(trace.at("traceEvents"));
  EXPECT_EQ(left_out_text(traced),
            "3.2 % of the time of kernels is left out: operators that have no price or no shapes "
            "here: aten::index_select 3.2 %");
  const std::vector<MeasuredKernel> rows = measured_kernels(traced.calls);
  const auto widest = std::find_if(rows.begin(), rows.end(), [](const MeasuredKernel& row) {
    return kernel_shape_text(row) == "141x30522x512, rows of 2";
  });
  ASSERT_NE(widest, rows.end());
  EXPECT_EQ(widest->kernel, "gemm");
  EXPECT_EQ(widest->time_us, 41.28);
  const auto attention = std::find_if(rows.begin(), rows.end(), [](const MeasuredKernel& row) {
    return row.kernel == "attention";
  });
  ASSERT_NE(attention, rows.end());
  EXPECT_EQ(kernel_shape_text(*attention), "1x8x141x64 on 8x141");
  EXPECT_EQ(attention->iterations, 4);
}

// The set of the kernels stands beside those of the collectives.
TEST(KinetoKernels, AreASetOfTheirOwn) {
  const json collective = {{"Collective name", "allreduce"},
                           {"In msg nelems", 1024},
                           {"Out msg nelems", 1024},
                           {"Group size", 4},
                           {"dtype", "BFloat16"},
                           {"Process Group Ranks", "[0, 1, 2, 3]"}};
  json all_reduce = kernel_event("ncclDevKernel_AllReduce", 20.0);
  all_reduce["args"].update(collective);
  const json trace = {{"deviceProperties", {{{"name", "H100"}}}},
                      {"traceEvents", {mm_op(1), kernel_event("g", 5.0, 1), all_reduce}}};
  const std::vector<CollectiveTrace> run = {read_kineto_trace(trace, {"t.json", ""})};
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {});
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].name, "t");
  EXPECT_TRUE(sets[0].kernels.empty());
  EXPECT_EQ(sets[1].name, "t_kernels");
  EXPECT_EQ(sets[1].ranks, 1);
  EXPECT_EQ(sets[1].gpu, "H100");
  ASSERT_EQ(sets[1].kernels.size(), 1U);
  const MeasurementSet again = MeasurementSet::from_json(sets[1].to_json(), {"again.json", ""});
  EXPECT_EQ(again.kernels, sets[1].kernels);
}

}  // namespace kineto_kernels_test
}  // namespace shardlab
