// Which prices are doubted: bounds by hand, and one price on either side of each.
#include "costmodel/price_doubts.h"

#include <gtest/gtest.h>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace price_doubts_test {

using testing_support::topology_with;

constexpr double kMiB = 1024.0 * 1024;

// A model that has one price for each collective.
class Given final : public CostModel {
 public:
  Given(double all_gather_us, double all_reduce_us)
      : all_gather_us_(all_gather_us), all_reduce_us_(all_reduce_us) {}
  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    return Price::of(
        Micros(), Micros(query.kind == Collective::kAllReduce ? all_reduce_us_ : all_gather_us_));
  }

 private:
  double all_gather_us_;
  double all_reduce_us_;
};

CollectiveQuery query_of(Collective kind, std::int64_t ranks, std::int64_t hosts, Bytes bytes) {
  return {kind,
          bytes,
          {.ranks = ranks, .hosts = hosts, .domains = hosts, .ranks_per_host = ranks / hosts}};
}

std::optional<PriceDoubt> doubt_of(const CostModel& model, const CollectiveQuery& query,
                                   const CostModel* measured = nullptr) {
  const Topology topology = topology_with(8);
  return PriceDoubts(model, topology, {"calibrated", measured}).of(query);
}

// The fastest link and the network of the topology, and a host's interfaces together.
TEST(PriceDoubts, TimeBelowWhatTheLinksCarry) {
  const Topology topology = topology_with(8);
  const double inside = topology.links().front().bandwidth.value() * 1e3;  // bytes per us
  const double network = topology.links().back().bandwidth.value() * 1e3;
  const auto devices = static_cast<double>(topology.devices_per_host());
  const CollectiveQuery here = query_of(Collective::kAllGather, 8, 1, 800 * kMiB);
  EXPECT_DOUBLE_EQ(least_us(here, topology), 700 * kMiB / inside);
  const CollectiveQuery there = query_of(Collective::kAllGather, 16, 2, 800 * kMiB);
  EXPECT_DOUBLE_EQ(least_us(there, topology),
                   std::max(750 * kMiB / inside, 400 * kMiB / (devices * network)));
  const CollectiveQuery exchange = query_of(Collective::kAllToAll, 16, 2, 800 * kMiB);
  EXPECT_DOUBLE_EQ(least_us(exchange, topology),
                   std::max(750 * kMiB / inside, 8 * 400 * kMiB / (devices * network)));
  EXPECT_EQ(least_us(query_of(Collective::kAllGather, 1, 1, kMiB), topology), 0.0);

  const double least = least_us(here, topology);
  EXPECT_FALSE(doubt_of(Given(least, least), here));
  const auto doubt = doubt_of(Given(0.9 * least, least), here);
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->kind, DoubtKind::kFasterThanLinks);
  EXPECT_DOUBLE_EQ(doubt->other_us, least);
}

TEST(PriceDoubts, PairwiseLinksCarryNoMoreThanThoseBetweenMembers) {
  const Topology pairs = testing_support::pairwise_topology();
  EXPECT_DOUBLE_EQ(least_us(query_of(Collective::kAllGather, 2, 1, 64e6), pairs), 500.0);
  EXPECT_DOUBLE_EQ(least_us(query_of(Collective::kAllGather, 8, 1, 64e6), pairs), 125.0);
}

// One of nine ranks on hosts of eight is alone with its interface, and must send and receive 8/9.
TEST(PriceDoubts, ALoneRankHasTheBoundOfItsOwnInterface) {
  const Topology topology = topology_with(8);
  CollectiveQuery query = query_of(Collective::kAllGather, 9, 2, 900 * kMiB);
  query.group.ranks_per_host = 1;
  EXPECT_DOUBLE_EQ(least_us(query, topology), 800 * kMiB / 50e3);
  query.kind = Collective::kReduceScatter;
  EXPECT_DOUBLE_EQ(least_us(query, topology), 800 * kMiB / 50e3);
  query.kind = Collective::kAllReduce;
  EXPECT_DOUBLE_EQ(least_us(query, topology), 900 * kMiB / 50e3);
  // Of four devices that share an interface, one may have it alone.
  nlohmann::json json = testing_support::topology_json(8);
  json["nics_per_host"] = 2;
  EXPECT_DOUBLE_EQ(least_us(query, Topology::from_json(json, {"shared.json", ""})),
                   900 * kMiB / 200e3);
}

Topology slow_network(bool reduces) {
  nlohmann::json json = testing_support::topology_json(8);
  json["links"][1]["bandwidth_gb_per_s"] = 5.0;
  json["links"][1]["reduces"] = reduces;
  return Topology::from_json(json, {"test.json", ""});
}

// Without SHARP, some of four hosts receives 2 * 3 / 4 of the buffer, through eight interfaces of 5
// GB/s; with it, each receives the sum once.
TEST(PriceDoubts, ANetworkThatReducesLowersTheBoundOfAllReduces) {
  const CollectiveQuery reduce = query_of(Collective::kAllReduce, 32, 4, 800 * kMiB);
  EXPECT_DOUBLE_EQ(least_us(reduce, slow_network(false)), 1.5 * 800 * kMiB / 40e3);
  EXPECT_DOUBLE_EQ(least_us(reduce, slow_network(true)), 800 * kMiB / 40e3);
  const CollectiveQuery gather = query_of(Collective::kAllGather, 32, 4, 800 * kMiB);
  EXPECT_DOUBLE_EQ(least_us(gather, slow_network(true)), least_us(gather, slow_network(false)));
}

// With SHARP an all_reduce may be the faster one: it has few steps, the ring of an all_gather many.
TEST(PriceDoubts, AnAllReduceMayTakeLessThanAnAllGatherWithSharp) {
  const Given model(900e3, 800e3);
  const CollectiveQuery large = query_of(Collective::kAllReduce, 16, 2, 160 * kMiB);
  const Topology plain = slow_network(false);
  const Topology sharp = slow_network(true);
  ASSERT_TRUE(PriceDoubts(model, plain, {}).of(large));
  EXPECT_EQ(PriceDoubts(model, plain, {}).of(large)->kind, DoubtKind::kBelowAllGather);
  EXPECT_FALSE(PriceDoubts(model, sharp, {}).of(large));
}

TEST(PriceDoubts, AnAllReduceBelowItsOwnAllGather) {
  const CollectiveQuery large = query_of(Collective::kAllReduce, 16, 2, 16 * kMiB);
  EXPECT_FALSE(doubt_of(Given(9000.0, 9000.0), large));
  const auto doubt = doubt_of(Given(9000.0, 8000.0), large);
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->kind, DoubtKind::kBelowAllGather);
  EXPECT_EQ(doubt->text(),
            "all_reduce of 16 ranks on 2 hosts, 16 MiB: 8000 us is less than the same stack's "
            "all_gather takes, 9000 us, though an all_reduce moves no less");
  // Small ones differ in their steps, which a tree has fewer of.
  EXPECT_FALSE(doubt_of(Given(9000.0, 8000.0), query_of(Collective::kAllReduce, 16, 2, kMiB)));
}

TEST(PriceDoubts, APriceFarFromWhatWasMeasured) {
  const CollectiveQuery query = query_of(Collective::kAllGather, 128, 16, 512 * kMiB);
  const Given measured(40000.0, 80000.0);
  EXPECT_FALSE(doubt_of(Given(159000.0, 0.0), query, &measured));
  const auto above = doubt_of(Given(480000.0, 0.0), query, &measured);
  ASSERT_TRUE(above);
  EXPECT_EQ(above->text(),
            "all_gather of 128 ranks on 16 hosts, 512 MiB: 480000 us is 12 times what calibrated "
            "says, 40000 us");
  const Given slow(400000.0, 400000.0);
  const auto below = doubt_of(Given(80000.0, 0.0), query, &slow);
  ASSERT_TRUE(below);
  EXPECT_NE(below->text().find("5.0 times less than what calibrated says"), std::string::npos);
}

}  // namespace price_doubts_test
}  // namespace shardlab
