// The model table: straight lines between rows, and impossible prices where there are none.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace table_test {

using nlohmann::json;
using testing_support::collective_model;
using testing_support::topology_with;

json row(double bytes, double time_us, std::int64_t ranks = 8) {
  return {{"collective", "all_gather"}, {"ranks", ranks}, {"bytes", bytes}, {"time_us", time_us}};
}

class Table : public testing::Test {
 protected:
  std::unique_ptr<CostModel> model(const json& rows) {
    return collective_model({{"name", "table"}, {"rows", rows}}, topology_);
  }
  static Price ask(const CostModel& model, double bytes, std::int64_t ranks = 8,
                   std::int64_t hosts = 1) {
    return model.price({Collective::kAllGather, bytes, {.ranks = ranks, .hosts = hosts}});
  }
  const Topology topology_ = topology_with(8);
};

TEST_F(Table, ReturnsItsRowsExactly) {
  const auto table = model({row(1000, 10), row(3000, 14), row(2000, 11)});
  EXPECT_EQ(ask(*table, 1000).total.value(), 10);
  EXPECT_EQ(ask(*table, 2000).total.value(), 11);
  EXPECT_EQ(ask(*table, 3000).total.value(), 14);
}

TEST_F(Table, IsLinearBetweenTwoRows) {
  const auto table = model({row(1000, 10), row(2000, 11), row(3000, 14)});
  EXPECT_DOUBLE_EQ(ask(*table, 1500).total.value(), 10.5);
  EXPECT_DOUBLE_EQ(ask(*table, 2250).total.value(), 11.75);
}

TEST_F(Table, RepeatsTheFirstRowBelowIt) {
  const auto table = model({row(1000, 10), row(2000, 11)});
  EXPECT_EQ(ask(*table, 0).total.value(), 10);
  EXPECT_EQ(ask(*table, 999).total.value(), 10);
}

TEST_F(Table, ContinuesTheLastSlopeAboveTheLastRow) {
  const auto table = model({row(1000, 10), row(2000, 11), row(3000, 14)});
  EXPECT_DOUBLE_EQ(ask(*table, 5000).total.value(), 14 + 2000 * 0.003);
}

TEST_F(Table, ReachesAsFarAsItIsTold) {
  const auto table = collective_model(
      {{"name", "table"}, {"params", {{"reach", 2}}}, {"rows", {row(1000, 10), row(2000, 11)}}},
      topology_);
  EXPECT_EQ(ask(*table, 500).total.value(), 10);
  EXPECT_EQ(ask(*table, 499).impossible, "the table has no row near this size");
  EXPECT_EQ(ask(*table, 4000).total.value(), 13);
  EXPECT_EQ(ask(*table, 4001).impossible, "the table has no row near this size");
}

TEST_F(Table, ScalesALoneRowByItsBytes) {
  EXPECT_DOUBLE_EQ(ask(*model(json::array({row(1000, 10)})), 4000).total.value(), 40.0);
}

TEST_F(Table, LatencyIsTheFirstRowAndTransferTheRest) {
  const Price price = ask(*model({row(1000, 10), row(2000, 11)}), 2000);
  EXPECT_EQ(price.latency.value(), 10);
  EXPECT_EQ(price.transfer.value(), 1);
}

TEST_F(Table, PrefersRowsOfTheSameHosts) {
  json two_hosts = row(1000, 99);
  two_hosts["hosts"] = 2;
  const auto table = model({row(1000, 10), two_hosts});
  EXPECT_EQ(ask(*table, 1000, 8, 2).total.value(), 99);
  EXPECT_EQ(ask(*table, 1000, 8, 4).total.value(),
            10);  // rows without hosts serve any number of hosts
}

TEST_F(Table, IsImpossibleWithoutARow) {
  const auto table = model(json::array({row(1000, 10)}));
  for (const Price& price :
       {ask(*table, 1000, 4), table->price({Collective::kAllReduce, 1000, {.ranks = 8}})}) {
    EXPECT_EQ(price.impossible, "the table has no row for this collective and group");
    EXPECT_TRUE(std::isinf(price.total.value()));
  }
}

TEST_F(Table, OneRankAndLocalWorkAreFree) {
  const auto table = model(json::array());
  EXPECT_EQ(ask(*table, 1000, 1).total.value(), 0);
  EXPECT_EQ(table->price({Collective::kLocal, 1000, {.ranks = 8}}).total.value(), 0);
}

TEST_F(Table, NeverPricesBelowZeroWhereItsLastRowsFall) {
  const auto table = model({row(1000, 10), row(2000, 1)});
  EXPECT_GE(ask(*table, 1e9).total.value(), 0.0);
}

TEST_F(Table, ALoneRowOfZeroBytesStillGivesAFinitePrice) {
  const Price price = ask(*model(json::array({row(0, 10)})), 4000);
  EXPECT_TRUE(std::isfinite(price.total.value()) || !price.is_possible());
}

struct TableError {
  const char* name;
  const char* rows;
  const char* message;
};
void PrintTo(const TableError& c, std::ostream* out) { *out << c.rows; }
class TableErrors : public testing::TestWithParam<TableError> {};

TEST_P(TableErrors, AreTheseWordForWord) {
  const Topology topology = topology_with(8);
  EXPECT_THROW_MSG(
      collective_model({{"name", "table"}, {"rows", json::parse(GetParam().rows)}}, topology),
      ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TableErrors,
    testing::Values(
        TableError{"UnknownCollective",
                   R"([{"collective": "gather", "ranks": 2, "bytes": 1, "time_us": 1}])",
                   "test.json:/model/rows/0/collective: found \"gather\"; valid: all_gather "
                   "all_reduce reduce_scatter all_to_all broadcast scatter send_recv local"},
        TableError{"NoBytes", R"([{"collective": "all_gather", "ranks": 2, "time_us": 1}])",
                   "test.json:/model/rows/0: missing key \"bytes\""},
        TableError{"NegativeTime",
                   R"([{"collective": "all_gather", "ranks": 2, "bytes": 1, "time_us": -1}])",
                   "test.json:/model/rows/0/time_us: found -1; valid: a number from 0 to 1e+15"},
        TableError{"UnknownKey",
                   R"([{"collective": "all_gather", "ranks": 2, "bytes": 1, "time_us": 1,
                        "tme_us": 2}])",
                   "test.json:/model/rows/0/tme_us: unknown key (did you mean \"time_us\"?); "
                   "valid: collective, ranks, hosts, bytes, time_us"},
        TableError{"TwoRowsOfOneSize",
                   R"([{"collective": "all_gather", "ranks": 2, "bytes": 1, "time_us": 1},
                       {"collective": "all_gather", "ranks": 2, "bytes": 1, "time_us": 2}])",
                   "test.json:/model/rows: found two rows of the same collective, group and size; "
                   "valid: at most one"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace table_test
}  // namespace shardlab
