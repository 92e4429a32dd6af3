#include "costmodel/straggler.h"

#include <gtest/gtest.h>

#include "costmodel/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace {

using nlohmann::json;
using testing_support::collective_model;
using testing_support::topology_with;

const JsonPlace kPlace{"s.json", "/straggler"};

TEST(Straggler, IsReadFromItsNameOrAnObject) {
  EXPECT_EQ(Straggler::from_json("none", kPlace).name, "none");
  const Straggler percent = Straggler::from_json({{"name", "percent"}, {"percent", 5}}, kPlace);
  EXPECT_EQ(percent.name, "percent");
  EXPECT_EQ(percent.percent, 5.0);
}

TEST(Straggler, ToJsonReadsBackToTheSame) {
  for (const json& value : {json{{"name", "none"}}, json{{"name", "percent"}, {"percent", 2.5}}}) {
    EXPECT_EQ(Straggler::from_json(value, kPlace).to_json(), value);
  }
}

TEST(Straggler, PercentAddsItsShareToTheTotalAndSaysSo) {
  const Topology topology = topology_with(8);
  const CollectiveQuery query{Collective::kAllGather, 1048576, {.ranks = 4, .walk = 4}};
  const double bare = collective_model("dtensor", topology)->price(query).total.value();
  const auto slowed = Straggler::from_json({{"name", "percent"}, {"percent", 5}}, kPlace)
                          .decorate(collective_model("dtensor", topology));
  const Price price = slowed->price(query);
  EXPECT_DOUBLE_EQ(price.total.value(), bare * 1.05);
  EXPECT_DOUBLE_EQ(price.straggler.value(), bare * 0.05);
  EXPECT_DOUBLE_EQ((price.latency + price.transfer + price.straggler).value(), price.total.value());
}

TEST(Straggler, NoneLeavesTheModelAsItIs) {
  const Topology topology = topology_with(8);
  auto model = collective_model("dtensor", topology);
  const CostModel* bare = model.get();
  EXPECT_EQ(Straggler().decorate(std::move(model)).get(), bare);
}

TEST(Straggler, AnImpossiblePriceKeepsItsReason) {
  const Topology topology = topology_with(8);
  const auto slowed =
      Straggler{.name = "percent", .percent = 5}.decorate(collective_model("table", topology));
  const Price price = slowed->price({Collective::kAllGather, 8, {.ranks = 4}});
  EXPECT_EQ(price.impossible, "the table has no row for this collective and group");
  EXPECT_EQ(price.straggler.value(), 0.0);
}

TEST(Straggler, ErrorsNameWhatIsValid) {
  EXPECT_THROW_MSG(Straggler::from_json("slow", kPlace), ConfigError,
                   "s.json:/straggler: unknown straggler model \"slow\"; valid: none, percent");
  EXPECT_THROW_MSG(
      Straggler::from_json({{"name", "slow"}}, kPlace), ConfigError,
      "s.json:/straggler/name: unknown straggler model \"slow\"; valid: none, percent");
  EXPECT_THROW_MSG(Straggler::from_json("percent", kPlace), ConfigError,
                   "s.json:/straggler: valid: {\"name\": \"percent\", \"percent\": NUMBER}");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "percent"}}, kPlace), ConfigError,
                   "s.json:/straggler: missing key \"percent\"");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "percent"}, {"percent", -1}}, kPlace),
                   ConfigError,
                   "s.json:/straggler/percent: found -1; valid: a number from 0 to 1e+06");
  EXPECT_THROW_MSG(Straggler::from_json({{"name", "none"}, {"percent", 1}}, kPlace), ConfigError,
                   "s.json:/straggler/percent: unknown key; valid: name");
  EXPECT_THROW_MSG(Straggler::from_json(3, kPlace), ConfigError,
                   "s.json:/straggler: found 3; valid: an object");
}

}  // namespace
}  // namespace shardlab
