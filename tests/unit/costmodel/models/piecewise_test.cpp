// The piecewise model: how it reads its rows, and which prices come from which of them.
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/registry.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace piecewise_test {

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

TEST(Piecewise, ReadsItsRowsStrictly) {
  const auto row = [](nlohmann::json kinks) {
    return nlohmann::json{{"collective", "all_reduce"},
                          {"ranks", 8},
                          {"hosts", 1},
                          {"latency_us", 10.0},
                          {"bandwidth_gb_per_s", 100.0},
                          {"sharpness", 0.7},
                          {"kinks", std::move(kinks)}};
  };
  const auto make = [&](const nlohmann::json& rows) {
    return make_collective_model(
        read_model_choice({{"name", "piecewise"}, {"rows", rows}}, {"f", ""}), topology_with(8));
  };
  EXPECT_THROW_MSG(make(json::array({row(json::parse("[[8, 1.0], [8, 1.1]]"))})), ConfigError,
                   "f:/rows/0/kinks/1: found [8,1.1]; valid: bytes that rise from pair to pair, "
                   "and factors above 0");
  EXPECT_THROW_MSG(make(json::array({row(json::parse("[8]"))})), ConfigError,
                   "f:/rows/0/kinks/0: found 8; valid: [bytes, factor]");
  EXPECT_THROW_MSG(
      make(json::array({row(json::array()), row(json::array())})), ConfigError,
      "f:/rows/1: found a second row of the same collective, ranks and hosts; valid: at most one");
  const auto model = make(json::array({row(json::array())}));
  // The group that was measured has the row's curve. The price of another group in a host is
  // carried over from that curve. A group of two hosts, for which there is no row, has the price of
  // alpha_beta.
  const double own = model->price({Collective::kAllReduce, 1e9, group_of(8)}).total.value();
  EXPECT_NEAR(own, 1e9 / 1e5, 0.03 * own);
  const double four = model->price({Collective::kAllReduce, 1e9, group_of(4)}).total.value();
  EXPECT_NEAR(four / own, 1.5 / 1.75, 0.01);
  const auto alpha_beta =
      make_collective_model(read_model_choice("alpha_beta", {"f", ""}), topology_with(8));
  const CollectiveQuery far{Collective::kAllReduce, 1e9, group_of(16, 2)};
  EXPECT_EQ(model->price(far).total, alpha_beta->price(far).total);
}

// What eight GPUs measured says of two of them that they have one link of seven.
TEST(Piecewise, CarriesACurveOverToTheLinksOfTheGroup) {
  const auto rows = json::parse(
      R"([{"collective": "all_gather", "ranks": 8, "hosts": 1, "latency_us": 10.0,
           "bandwidth_gb_per_s": 400.0, "sharpness": 0.7, "kinks": []}])");
  const auto model =
      make_collective_model(read_model_choice({{"name", "piecewise"}, {"rows", rows}}, {"f", ""}),
                            testing_support::pairwise_topology());
  const auto us = [&](std::int64_t ranks) {
    return model->price({Collective::kAllGather, 1e12, group_of(ranks)}).total.value();
  };
  // 7/8 of the bytes cross seven links, 1/2 of them one.
  EXPECT_NEAR(us(2) / us(8), 7.0 * (1.0 / 2) / (7.0 / 8), 0.01);
}

}  // namespace piecewise_test
}  // namespace shardlab
