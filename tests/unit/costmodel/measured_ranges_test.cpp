// Which collectives, ranks, hosts and sizes count as measured, and which models say so.
#include "costmodel/measured_ranges.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "costmodel/straggler.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace measured_ranges_test {

constexpr double kMiB = 1024.0 * 1024;

CollectiveQuery query_of(Collective kind, std::int64_t ranks, std::int64_t hosts, Bytes bytes) {
  return {kind, bytes, {.ranks = ranks, .hosts = hosts, .ranks_per_host = ranks / hosts}};
}

// All-gathers of 8 ranks on one host were measured from 1 MiB to 64 MiB, and all-reduces of 16
// ranks on two hosts from 8 B to 1 MiB.
const MeasuredRanges kMeasured({{Collective::kAllGather, 8, 1, kMiB, 64 * kMiB},
                                {Collective::kAllReduce, 16, 2, 8, kMiB}});

std::string gap(const CollectiveQuery& query, const MeasuredRanges& measured = kMeasured) {
  const std::optional<MeasuredGap> found = measured.gap(query);
  return found ? found->text() : "";
}

TEST(MeasuredRanges, SizesFromTheSmallestRowToTheLargestWereMeasured) {
  for (const double bytes : {kMiB, kMiB + 1, 5.5 * kMiB, 64 * kMiB}) {
    EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, bytes)), "") << bytes;
  }
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, kMiB - 1)),
            "all_gather of 8 ranks on 1 host below 1 MiB");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, 64 * kMiB + 1)),
            "all_gather of 8 ranks on 1 host above 64 MiB");
  EXPECT_EQ(gap(query_of(Collective::kAllReduce, 16, 2, 4)),
            "all_reduce of 16 ranks on 2 hosts below 8 B");
}

TEST(MeasuredRanges, AnotherCollectiveRanksOrHostsWereNot) {
  EXPECT_EQ(gap(query_of(Collective::kReduceScatter, 8, 1, 8 * kMiB)),
            "reduce_scatter of 8 ranks on 1 host");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 4, 1, 8 * kMiB)),
            "all_gather of 4 ranks on 1 host");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 2, 8 * kMiB)),
            "all_gather of 8 ranks on 2 hosts");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 16, 2, 512)), "all_gather of 16 ranks on 2 hosts")
      << "the sizes of the all-reduces are not those of the all-gathers";
}

TEST(MeasuredRanges, WhatDoesNotCommunicateNeedsNoRow) {
  const CollectiveQuery local = query_of(Collective::kLocal, 4, 1, kMiB);
  const CollectiveQuery alone = query_of(Collective::kAllGather, 1, 1, kMiB);
  for (const CollectiveQuery& query : {local, alone}) {
    EXPECT_FALSE(communicates(query));
    EXPECT_EQ(gap(query), "");
    EXPECT_EQ(gap(query, MeasuredRanges({})), "");
  }
  EXPECT_TRUE(communicates(query_of(Collective::kAllGather, 2, 1, 0)));
}

TEST(MeasuredRanges, RangesOfOneGroupAreOne) {
  const MeasuredRanges measured({{Collective::kAllGather, 8, 1, 16, 64},
                                 {Collective::kAllGather, 8, 1, 1024, 4096},
                                 {Collective::kAllGather, 8, 1, 32, 128}});
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, 512), measured), "");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, 8), measured),
            "all_gather of 8 ranks on 1 host below 16 B");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, 8192), measured),
            "all_gather of 8 ranks on 1 host above 4 KiB");
}

TEST(MeasuredRanges, RowsWithoutHostsSpeakForGroupsThatNoneNames) {
  const MeasuredRanges measured({{Collective::kAllGather, 8, MeasuredRange::kAnyHosts, 16, 64},
                                 {Collective::kAllGather, 8, 1, 1024, 4096}});
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 2, 32), measured), "");
  EXPECT_EQ(gap(query_of(Collective::kAllGather, 8, 1, 32), measured),
            "all_gather of 8 ranks on 1 host below 1 KiB")
      << "its own rows are what the table prices it by";
}

// -- models --------------------------------------------------------------------------------------

std::unique_ptr<CostModel> model_of(const std::string& json) {
  return testing_support::collective_model(nlohmann::json::parse(json),
                                           testing_support::topology_with(8));
}

TEST(MeasuredRanges, ACurveWasMeasuredFromItsFirstKinkToItsLast) {
  const auto model = model_of(R"({"name": "piecewise", "rows": [
      {"collective": "all_gather", "ranks": 8, "hosts": 1, "latency_us": 10, "sharpness": 0.7,
       "bandwidth_gb_per_s": 300, "kinks": [[1024, 1.1], [4096, 0.9], [65536, 1.0]]},
      {"collective": "all_reduce", "ranks": 8, "hosts": 1, "latency_us": 10, "sharpness": 0.7,
       "bandwidth_gb_per_s": 300, "kinks": []}]})");
  EXPECT_EQ(model->measured(),
            (std::vector<MeasuredRange>{{Collective::kAllGather, 8, 1, 1024, 65536}}))
      << "a curve without kinks tells no size";
}

TEST(MeasuredRanges, ATableWasMeasuredFromItsFirstRowToItsLast) {
  const auto model = model_of(R"({"name": "table", "rows": [
      {"collective": "all_gather", "ranks": 8, "hosts": 1, "bytes": 4096, "time_us": 20},
      {"collective": "all_gather", "ranks": 8, "hosts": 1, "bytes": 1024, "time_us": 10},
      {"collective": "all_reduce", "ranks": 4, "bytes": 512, "time_us": 5}]})");
  EXPECT_EQ(model->measured(),
            (std::vector<MeasuredRange>{
                {Collective::kAllGather, 8, 1, 1024, 4096},
                {Collective::kAllReduce, 4, MeasuredRange::kAnyHosts, 512, 512}}));
}

TEST(MeasuredRanges, FormulasHaveNoneAndWaitsAddNone) {
  for (const char* name : {R"("alpha_beta")", R"("dtensor")", R"("nccl")"}) {
    EXPECT_TRUE(model_of(name)->measured().empty()) << name;
  }
  const Straggler waits = Straggler::from_json(
      nlohmann::json::parse(R"({"name": "percent", "percent": 10})"), {"straggler", ""});
  const auto waiting = waits.decorate(model_of(R"({"name": "table", "rows": [
      {"collective": "all_gather", "ranks": 8, "hosts": 1, "bytes": 4096, "time_us": 20}]})"));
  EXPECT_EQ(waiting->measured(),
            (std::vector<MeasuredRange>{{Collective::kAllGather, 8, 1, 4096, 4096}}));
}

}  // namespace measured_ranges_test
}  // namespace shardlab
