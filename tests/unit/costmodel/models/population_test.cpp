// The model population: how it reads its rows, and which prices come from which of them.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/physical_curve.h"
#include "costmodel/population_curve.h"
#include "costmodel/registry.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace population_model_test {

using namespace testing_support;
using nlohmann::json;

GroupSpan group_of(std::int64_t ranks, std::int64_t hosts = 1) {
  return {.ranks = ranks,
          .hosts = hosts,
          .domains = hosts,
          .ranks_per_host = ranks / hosts,
          .extent = ranks,
          .walk = ranks};
}

json row(const char* collective, int ranks, int domains, const json& points) {
  return {{"collective", collective}, {"ranks", ranks}, {"domains", domains}, {"points", points}};
}

json doubling(double factor) { return json::array({json::array({-8.0, factor, 0.2})}); }

std::unique_ptr<CostModel> model_of(const json& rows, const json& params = json::object(),
                                    const Topology& topology = topology_with(8)) {
  return collective_model({{"name", "population"}, {"rows", rows}, {"params", params}}, topology);
}

double us(const CostModel& model, Collective kind, double bytes, const GroupSpan& group) {
  return model.price({kind, bytes, group}).total.value();
}

double physical_us(Collective kind, double bytes, const GroupSpan& group) {
  const PhysicalCurve curve = physical_curve(physical_group(kind, group, topology_with(8)));
  return curve.us_at_bend(curve.bend(bytes));
}

// The points are for one GPU a process; where one process drives 8, the floor is e^(0.25 ln 8)
// times as high, and the plateau the same.
TEST(Population, AProcessThatDrivesSeveralGpusHasAHigherFloor) {
  json with = row("all_reduce", 8, 1, doubling(2.0));
  with["by_launch"] = {0.0, 0.25};
  const auto model = model_of(json::array({with}));
  const auto price = [&](double bytes, std::int64_t gpus) {
    return model->price({Collective::kAllReduce, bytes, group_of(8), gpus}).total.value();
  };
  const double usual = 2.0 * physical_us(Collective::kAllReduce, 1, group_of(8));
  EXPECT_NEAR(price(1, 1), usual, 1e-3 * usual);
  EXPECT_EQ(price(1, 0), price(1, 1));
  EXPECT_NEAR(price(1, 8), usual * std::pow(8.0, 0.25), 1e-3 * usual);
  EXPECT_NEAR(price(1e12, 8), price(1e12, 1), 1e-3 * price(1e12, 1));
  with["by_launch"] = {std::log(8.0), 0.25};
  EXPECT_NEAR(model_of(json::array({with}))
                  ->price({Collective::kAllReduce, 1, group_of(8), 8})
                  .total.value(),
              usual, 1e-3 * usual);
}

TEST(Population, RowsAreWrittenAsTheyAreRead) {
  json written = row("all_reduce", 8, 1, doubling(2.0));
  const auto again = [&] {
    return PopulationCurve::from_json(written, {"test.json", ""}).to_json();
  };
  EXPECT_EQ(again(), written);
  written["by_launch"] = {0.0, 0.25};
  written["measured"] = {1, 8.0, 1024.0};
  EXPECT_EQ(again(), written);
  written["by_launch"] = {0.0};
  EXPECT_THROW_MSG(
      again(), ConfigError,
      "test.json:/by_launch: found an array; valid: [launch, rise of ln of the floor]");
}

TEST(Population, ReadsItsRowsStrictly) {
  const auto read = [](const json& points) {
    return model_of(json::array({row("all_reduce", 8, 1, points)}));
  };
  EXPECT_THROW_MSG(read(json::parse("[[0, 1, 0.1], [0, 1, 0.1]]")), ConfigError,
                   "test.json:/model/rows/0/points/1: found [0,1,0.1]; valid: bends that rise from "
                   "point to point");
  EXPECT_THROW_MSG(read(json::parse("[[0, 1]]")), ConfigError,
                   "test.json:/model/rows/0/points/0: found an array; valid: [bend, factor, "
                   "standard deviation]");
  EXPECT_THROW_MSG(read(json::parse("[[0, 0, 0.1]]")), ConfigError,
                   "test.json:/model/rows/0/points/0: found [0,0,0.1]; valid: a bend from -100 to "
                   "100, a factor from 1e-6 to 1e6, and a standard deviation from 0 to 20");
  EXPECT_THROW_MSG(read(json::array()), ConfigError,
                   "test.json:/model/rows/0/points: found no points; valid: at least one");
  EXPECT_THROW_MSG(
      model_of(json::array(
          {row("all_reduce", 8, 1, doubling(2)), row("all_reduce", 8, 1, doubling(2))})),
      ConfigError,
      "test.json:/model/rows/1: found a second row of the same collective, ranks, domains and "
      "network_delay; valid: at most one");
}

TEST(Population, RowsMultiplyWhatTheLinksAllow) {
  const auto model = model_of(
      json::array({row("all_reduce", 8, 1, doubling(2)), row("all_reduce", 2, 1, doubling(8)),
                   row("broadcast", 8, 1, doubling(3))}));
  const GroupSpan eight = group_of(8);
  // Tables of the model have steps, so that its prices are right to a thousandth.
  const auto expect_factor = [&](Collective kind, double bytes, const GroupSpan& group,
                                 double factor) {
    EXPECT_NEAR(us(*model, kind, bytes, group) / physical_us(kind, bytes, group), factor,
                1e-3 * factor)
        << to_string(kind) << " of " << bytes;
  };
  for (const double bytes : {64.0, 1e6, 1e9})
    expect_factor(Collective::kAllReduce, bytes, eight, 2);
  // Four ranks lie midway between two and eight in the logarithm, so that the factor is 4.
  expect_factor(Collective::kAllReduce, 1e6, group_of(4), 4);
  // What has no rows: the links alone; a scatter takes the rows of broadcast.
  expect_factor(Collective::kAllGather, 1e6, eight, 1);
  expect_factor(Collective::kAllReduce, 1e6, group_of(16, 2), 1);
  expect_factor(Collective::kScatter, 1e6, eight, 3);
}

// The row's factors fall by more than the bytes rise, so that the larger size would be cheaper.
TEST(Population, PricesNeverFallWithTheSize) {
  const auto model = model_of(json::array(
      {row("all_gather", 8, 1, json::parse("[[-6, 1, 0.1], [-2, 9, 0.1], [0, 1, 0.1]]"))}));
  double before = 0.0;
  for (double bytes = 1; bytes < 1e9; bytes *= 1.5) {
    const double now = us(*model, Collective::kAllGather, bytes, group_of(8));
    EXPECT_GE(now, before);
    before = now;
  }
}

// A stack that was fitted to a cluster keeps that cluster's network on every topology; one that was
// not follows the topology.
TEST(Population, TheNetworkIsTheTopologysUnlessItIsGiven) {
  const json rows = json::array({row("all_gather", 16, 2, doubling(1))});
  json slow = topology_json(8);
  slow["links"][1]["bandwidth_gb_per_s"] = 12.5;
  const Topology slow_topology = Topology::from_json(slow, {"slow.json", ""});
  const json own = {{"network_bandwidth_gb_per_s", 50.0}, {"network_latency_us", 2.7}};
  const auto at = [&](const json& params, const Topology& topology) {
    return us(*model_of(rows, params, topology), Collective::kAllGather, 1e9, group_of(16, 2));
  };
  EXPECT_GT(at(json::object(), slow_topology), 2 * at(json::object(), topology_with(8)));
  EXPECT_EQ(at(own, slow_topology), at(own, topology_with(8)));
}

// Rows of one group for two networks: the row whose delay is the topology's decides, and between
// two delays the nearer one counts more.
TEST(Population, RowsForOtherNetworksCountByTheirDelay) {
  json infiniband = row("all_gather", 16, 2, doubling(1));
  infiniband["network_delay"] = 1.0;
  json efa = row("all_gather", 16, 2, doubling(4));
  efa["network_delay"] = 2.2;
  const auto factor_at_delay = [&](double delay) {
    json slow = topology_json(8);
    slow["links"][1]["latency_us"] = 2.7 * delay;
    const Topology topology = Topology::from_json(slow, {"slow.json", ""});
    const PhysicalCurve curve =
        physical_curve(physical_group(Collective::kAllGather, group_of(16, 2), topology));
    return us(*model_of(json::array({infiniband, efa}), json::object(), topology),
              Collective::kAllGather, 1e3, group_of(16, 2)) /
           curve.us_at_bend(curve.bend(1e3));
  };
  EXPECT_NEAR(factor_at_delay(1.0), 1.0, 1e-2);
  EXPECT_NEAR(factor_at_delay(2.2), 4.0, 4e-2);
  EXPECT_GT(factor_at_delay(1.3), 1.0);
  EXPECT_LT(factor_at_delay(1.3), 2.0) << "nearer to InfiniBand";
  EXPECT_EQ(PopulationCurve::from_json(efa, {"test.json", ""}).to_json(), efa);
}

TEST(Population, SharpIsTheTopologysUnlessItIsGiven) {
  const json rows = json::array({row("all_reduce", 64, 8, doubling(1))});
  json json_of = topology_json(8);
  json_of["links"][1]["bandwidth_gb_per_s"] = 12.5;
  const Topology plain = Topology::from_json(json_of, {"plain.json", ""});
  json_of["links"][1]["reduces"] = true;
  const Topology sharp = Topology::from_json(json_of, {"sharp.json", ""});
  const auto at = [&](const json& params, const Topology& topology) {
    return us(*model_of(rows, params, topology), Collective::kAllReduce, 1e9, group_of(64, 8));
  };
  EXPECT_LT(at(json::object(), sharp), 0.65 * at(json::object(), plain));
  EXPECT_EQ(at({{"network_reduces", 0}}, sharp), at(json::object(), plain));
  EXPECT_EQ(at({{"network_reduces", 1}}, plain), at(json::object(), sharp));
}

// Next to a measured size, the deviation rises as that of a random walk: with the root of the
// distance.
TEST(PopulationCurve, DeviationsGrowWithTheRootOfTheDistance) {
  const PopulationCurve curve = PopulationCurve::from_json(
      row("all_reduce", 8, 1, json::parse("[[0, 1, 0.0], [1, 4, 0.2]]")), {"test.json", ""});
  EXPECT_NEAR(curve.log_error(0.25), 0.1, 1e-12);
  EXPECT_NEAR(curve.log_error(-5), 0.0, 1e-12);
  EXPECT_NEAR(curve.log_error(5), 0.2, 1e-12);
  EXPECT_NEAR(curve.log_factor(0.5), std::log(2.0), 1e-12);
  EXPECT_EQ(PopulationCurve::from_json(curve.to_json(), {"again", ""}).to_json(), curve.to_json());
}

TEST(Population, ErrorsOfOneCurveAreAlikeNearByAndThoseOfOthersInPart) {
  json rows = json::array();
  for (const auto& [kind, domains] :
       {std::pair("all_gather", 2), {"all_reduce", 2}, {"all_gather", 1}}) {
    rows.push_back(row(kind, 8 * domains, domains, doubling(1)));
  }
  const auto model = model_of(rows);
  const auto alike = [&](Collective a, double bytes_a, std::int64_t hosts_a, Collective b,
                         double bytes_b, std::int64_t hosts_b) {
    return model->error_correlation({a, bytes_a, group_of(8 * hosts_a, hosts_a)},
                                    {b, bytes_b, group_of(8 * hosts_b, hosts_b)});
  };
  const Collective gather = Collective::kAllGather;
  const Collective reduce = Collective::kAllReduce;
  EXPECT_EQ(alike(gather, 1e6, 2, gather, 1e6, 2), 1.0);
  const double near = alike(gather, 1e6, 2, gather, 1.1e6, 2);
  const double far = alike(gather, 1e6, 2, gather, 64e6, 2);
  EXPECT_LT(near, 1.0);
  EXPECT_GT(near, 0.8);
  EXPECT_LT(far, near);
  const double other = alike(gather, 1e3, 2, reduce, 1e3, 2);
  EXPECT_GT(other, 0.1) << "a cluster is slow for all collectives alike";
  EXPECT_LT(other, 0.5);
  EXPECT_EQ(alike(gather, 1e6, 2, gather, 1e6, 1), 0.0) << "inside a host other links carry it";
  // Rows of the cluster's own, with which the network is named, tell how slow the cluster is.
  const auto own = model_of(rows, {{"network_bandwidth_gb_per_s", 50.0}});
  EXPECT_EQ(own->error_correlation({gather, 1e9, group_of(16, 2)}, {reduce, 1e9, group_of(16, 2)}),
            0.0);
}

TEST(Population, SaysWhatWasMeasured) {
  json measured = row("all_gather", 16, 2, doubling(1));
  measured["measured"] = {2, 1024, 1048576};
  const auto model = model_of(json::array({measured, row("all_reduce", 16, 2, doubling(1))}));
  ASSERT_EQ(model->measured().size(), 1U);
  EXPECT_EQ(model->measured()[0], (MeasuredRange{Collective::kAllGather, 16, 2, 1024, 1048576}));
}

}  // namespace population_model_test
}  // namespace shardlab
