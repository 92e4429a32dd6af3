#include "reports/writers/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace json_test {

using nlohmann::json;

json report_of(const ComparisonRecord& record) {
  return json::parse(write_json(record, compare(record)));
}

TEST(ReportJson, HoldsTheKeysOfTheInterface) {
  const json report = report_of(small_record());
  EXPECT_EQ(report["schema"], "shardlab/report/1");
  EXPECT_EQ(report["questions"], 7);
  EXPECT_EQ(report["baseline"], "old");
  EXPECT_EQ(report["candidates"], json::array({"new"}));
  EXPECT_EQ(report["reference"]["label"], "datasheet, not measured");
  EXPECT_EQ(report["summary"].get<std::string>().substr(0, 42),
            "Changing old to new lengthens small by 2.8");
  EXPECT_EQ(report["suites"].size(), 1U);

  const json& stack = report["stacks"][1];
  EXPECT_EQ(stack["name"], "new");
  EXPECT_EQ(stack["role"], "candidate");
  EXPECT_DOUBLE_EQ(stack["regret"]["mean"].get<double>(), 0.15);
  EXPECT_DOUBLE_EQ(stack["regret"]["p50"].get<double>(), 0.0);
  EXPECT_DOUBLE_EQ(stack["regret"]["p99"].get<double>(), 0.49);
  EXPECT_DOUBLE_EQ(stack["regret"]["max"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(stack["kendall_tau"].get<double>(), 0.8);
  EXPECT_EQ(stack["invariants"]["triangle"]["checked"], 100);
  EXPECT_EQ(stack["invariants"]["triangle"]["violated"], 0);
  EXPECT_TRUE(stack["invariants"]["triangle"]["worst"].is_null());
  EXPECT_EQ(report["stacks"][0]["invariants"]["triangle"]["worst"]["witness"],
            "S(0)R to RS(1) by way of RR");
  EXPECT_EQ(stack["flips"]["total"], 6);
  EXPECT_EQ(stack["flips"]["worse"], 2);
  EXPECT_EQ(stack["flips_by_size"][">=64MB"]["total"], 1);
}

TEST(ReportJson, AFlipHoldsBothChoicesAndAllFourPrices) {
  const json report = report_of(small_record());
  ASSERT_EQ(report["flips"].size(), 6U);
  const json& flip = report["flips"][0];
  EXPECT_EQ(flip["question"], "q1");
  EXPECT_EQ(flip["stack"], "new");
  EXPECT_EQ(flip["baseline"], "P(sum)|S(0)R,RR");
  EXPECT_EQ(flip["candidate"], "RR");
  EXPECT_EQ(flip["baseline_us"], 9);
  EXPECT_EQ(flip["candidate_us"], 7.5);
  EXPECT_EQ(flip["reference_us"]["baseline"], 10);
  EXPECT_EQ(flip["reference_us"]["candidate"], 8);
  EXPECT_EQ(flip["verdict"], "better");
  EXPECT_EQ(flip["gain_us"], 2);
  EXPECT_EQ(flip["gain_percent"], 20);
  EXPECT_EQ(flip["count"], 1);
  EXPECT_EQ(flip["delta_us"], -2);
  EXPECT_DOUBLE_EQ(flip["share_percent"].get<double>(), -200.0 / 35.0);
  EXPECT_EQ(flip["baseline_path"], json::array({"S(0)R->RR"}));
  EXPECT_EQ(flip.count("reason"), 0);
}

TEST(ReportJson, WhatHasNoNumberIsNullWithAReason) {
  const json report = report_of(small_record());
  const json& from_free = report["flips"][1];
  EXPECT_EQ(from_free["question"], "q4");
  EXPECT_TRUE(from_free["gain_percent"].is_null());
  EXPECT_EQ(from_free["reason"],
            "the reference prices the baseline's choice at 0, so there is no percentage");
  const json& impossible = report["flips"][4];
  EXPECT_EQ(impossible["question"], "q7");
  EXPECT_TRUE(impossible["baseline_us"].is_null());
  EXPECT_EQ(impossible["baseline_impossible"], "no finite candidate");
  EXPECT_EQ(impossible["reason"], "ref has no price for the choice of old: no finite candidate");

  ComparisonRecord empty = small_record();
  empty.questions.clear();
  const json of_nothing = report_of(empty);
  EXPECT_TRUE(of_nothing["stacks"][0]["regret"]["mean"].is_null());
  EXPECT_EQ(of_nothing["stacks"][0]["regret"]["reason"],
            "the reference judges no decision of this stack");
  EXPECT_TRUE(of_nothing["stacks"][0]["kendall_tau"].is_null());
  EXPECT_TRUE(of_nothing["stacks"][0].contains("kendall_tau_reason"));
}

TEST(ReportJson, ListsEveryOrderDependentChoice) {
  const json report = report_of(small_record());
  ASSERT_EQ(report["order_dependent"].size(), 1U);
  EXPECT_EQ(report["order_dependent"][0]["question"], "q2");
  EXPECT_EQ(report["order_dependent"][0]["ties"], 2);
}

TEST(ReportJson, RepeatsConfigurationAndContextAndTimingOnlyWhereThereIsOne) {
  ComparisonRecord record = small_record();
  EXPECT_EQ(report_of(record).count("timing"), 0);
  EXPECT_EQ(report_of(record)["context"]["seed"], 42);
  EXPECT_EQ(report_of(record)["configuration"]["stacks"][1]["model"]["latency_us"], 3.0);
  EXPECT_EQ(report_of(record)["curves"][0]["collective"], "all_gather");
  record.timing = RunTiming{std::nullopt, {{"wall_ms", 8.0}}};
  EXPECT_EQ(report_of(record)["timing"], (json{{"wall_ms", 8.0}}));
}

TEST(ReportJson, EveryFlipIsThereHoweverMany) {
  const ComparisonRecord record = large_record(3000, 2, 0.9);
  EXPECT_EQ(report_of(record)["flips"].size(), compare(record).flips.size());
}

}  // namespace json_test
}  // namespace shardlab::reports
