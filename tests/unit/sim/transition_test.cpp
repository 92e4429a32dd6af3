// One change along one mesh dim under every semantics: its collective, its bytes and its price.
#include "sim/transition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "sim/all_to_all_penalty.h"
#include "sim/redistribute.h"
#include "tests/support/dtensor_ring.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace transition_test {

using testing_support::all_reduce;
using testing_support::all_to_all;
using testing_support::collective_model;
using testing_support::compute_model;
using testing_support::gather;
using testing_support::kInHost;
using testing_support::reduce_scatter;
using testing_support::topology_with;

Placement p(const char* text) { return Placement::parse(text); }

constexpr double kMiB = 1048576;

TEST(EdgeSemantics, AreEightVersionsOfDTensorAndThatOfAutoParallel) {
  std::vector<std::string_view> names;
  for (const EdgeSemanticsRow& row : all_edge_semantics()) {
    names.push_back(row.name);
    EXPECT_EQ(row.make()->name(), row.name);
    EXPECT_FALSE(row.summary.empty()) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"v0", "v1", "v2", "v3", "v4", "v3-rp", "v3-sp",
                                                  "v-compute", "autoparallel"}));
}

TEST(EdgeSemantics, V3IsTheDefaultOfARedistributor) {
  EXPECT_EQ(RedistributionOptions{}.semantics->name(), "v3");
}

TEST(EdgeSemantics, DoNotExistForAnUnknownName) {
  EXPECT_EQ(find_edge_semantics("v9"), nullptr);
  EXPECT_THROW((void)edge_semantics("v9"), ContractError);
}

TEST(EdgeSemantics, OnlyThoseThatPriceAPartitionTakeAnotherPriceForIt) {
  for (const EdgeSemanticsRow& row : all_edge_semantics()) {
    const bool is_parameter = row.name == "v3-rp" || row.name == "v-compute";
    EXPECT_EQ(row.replicate_to_partial.has_value(), is_parameter) << row.name;
    EXPECT_EQ(row.make()->replicate_to_partial(), row.replicate_to_partial) << row.name;
    EXPECT_EQ(row.make()->replicated_source_is_free(), !is_parameter) << row.name;
    if (!is_parameter) continue;
    EXPECT_EQ(row.make(Micros(0.5))->replicate_to_partial(), Micros(0.5)) << row.name;
  }
}

TEST(CollectiveOf, EveryPairOfKinds) {
  struct Case {
    const char* from;
    const char* to;
    Collective collective;
  };
  const std::vector<Case> cases = {
      {"S(0)", "R", Collective::kAllGather},      {"_S(0,2)", "R", Collective::kAllGather},
      {"S(0)", "S(1)", Collective::kAllToAll},    {"S(0)", "_S(0,2)", Collective::kAllToAll},
      {"_S(0,2)", "S(0)", Collective::kAllToAll}, {"P", "R", Collective::kAllReduce},
      {"MP", "R", Collective::kAllReduce},        {"NP(2)", "R", Collective::kAllReduce},
      {"P", "S(0)", Collective::kReduceScatter},  {"P", "_S(0,2)", Collective::kReduceScatter},
      {"R", "S(0)", Collective::kLocal},          {"R", "P", Collective::kLocal},
      {"S(0)", "P", Collective::kLocal},          {"P", "P(avg)", Collective::kLocal},
      {"S(0)", "S(0)", Collective::kLocal},       {"R", "R", Collective::kLocal}};
  for (const Case& c : cases) {
    EXPECT_EQ(collective_of(p(c.from), p(c.to)), c.collective) << c.from << "->" << c.to;
  }
}

// A tensor of 1 MiB on 4 ranks of one host, priced by the model `dtensor`; kernels are free.
struct Version {
  const char* name;
  double all_to_all;          // S0->S1
  double partial_to_partial;  // P(sum)->P(avg)
  double after_chunk;         // bytes after R->S
  double replicate_to_partial;
  double strided_gather;  // _S->R
};
void PrintTo(const Version& v, std::ostream* out) { *out << v.name; }

class TransitionTable : public testing::TestWithParam<Version> {
 protected:
  TransitionTable()
      : topology_(topology_with(8)),
        model_(collective_model("dtensor", topology_)),
        kernels_(compute_model("none", topology_)),
        pricer_(DeviceMesh::parse("4"), topology_, edge_semantics(GetParam().name), *model_,
                *kernels_) {}

  PricedTransition price(const char* from, const char* to, double bytes) const {
    return pricer_.price(p(from), p(to), 0, bytes, DType::kF32);
  }

  Topology topology_;
  std::unique_ptr<CostModel> model_;
  std::unique_ptr<ComputeModel> kernels_;
  TransitionPricer pricer_;
};

TEST_P(TransitionTable, ShardToReplicaGathersAllBytes) {
  const PricedTransition step = price("S(0)", "R", kMiB / 4);
  EXPECT_EQ(step.price.total.value(), 16.75144669327252);
  EXPECT_DOUBLE_EQ(step.price.total.value(), gather(4, kMiB, kInHost));
  EXPECT_EQ(step.full_bytes, kMiB);
  EXPECT_EQ(step.bytes_after, kMiB);
  EXPECT_EQ(step.collective, Collective::kAllGather);
}

TEST_P(TransitionTable, PartialToReplicaReducesAndKeepsTheBytes) {
  const PricedTransition step = price("P", "R", kMiB);
  EXPECT_EQ(step.price.total.value(), 26.90289338654504);
  EXPECT_DOUBLE_EQ(step.price.total.value(), all_reduce(4, kMiB, kInHost));
  EXPECT_EQ(step.full_bytes, kMiB);
  EXPECT_EQ(step.bytes_after, kMiB);
}

TEST_P(TransitionTable, PartialToShardReducesAndScatters) {
  const PricedTransition step = price("P", "S(0)", kMiB);
  EXPECT_EQ(step.price.total.value(), 16.75144669327252);
  EXPECT_DOUBLE_EQ(step.price.total.value(), reduce_scatter(4, kMiB, kInHost));
  EXPECT_EQ(step.full_bytes, kMiB);
  EXPECT_EQ(step.bytes_after, kMiB / 4);
}

TEST(TransitionFigures, AnAllToAllOfAQuarterOfAMiBAmongFourRanks) {
  EXPECT_DOUBLE_EQ(all_to_all(4, kMiB / 4, kInHost), 10.487861673318129);
}

TEST_P(TransitionTable, ShardToShardExchangesLocalBytes) {
  const PricedTransition step = price("S(0)", "S(1)", kMiB / 4);
  EXPECT_EQ(step.price.total.value(), GetParam().all_to_all);
  EXPECT_EQ(step.full_bytes, kMiB / 4);
  EXPECT_EQ(step.bytes_after, kMiB / 4);
}

TEST_P(TransitionTable, ReplicaToShardIsFreeAndDividesTheBytesSinceV2) {
  const PricedTransition step = price("R", "S(0)", kMiB);
  EXPECT_EQ(step.price.total.value(), 0.0);
  EXPECT_EQ(step.bytes_after, GetParam().after_chunk);
}

TEST_P(TransitionTable, ReplicaToPartialKeepsTheBytes) {
  const PricedTransition step = price("R", "P", kMiB);
  EXPECT_EQ(step.price.total.value(), GetParam().replicate_to_partial);
  EXPECT_EQ(step.bytes_after, kMiB);
}

TEST_P(TransitionTable, ShardToPartialIsImpossible) {
  const PricedTransition step = price("S(0)", "P", kMiB);
  EXPECT_EQ(step.price.impossible, "a shard can't become a partial");
  EXPECT_TRUE(std::isinf(step.price.total.value()));
}

TEST_P(TransitionTable, PartialToAnotherPartial) {
  const PricedTransition step = price("P(sum)", "P(avg)", kMiB);
  EXPECT_EQ(step.price.total.value(), GetParam().partial_to_partial);
  EXPECT_EQ(step.price.is_possible(), std::isfinite(GetParam().partial_to_partial));
}

TEST_P(TransitionTable, NothingToDoCostsNothing) {
  for (const char* text : {"R", "S(1)", "P(max)", "_S(0,2)", "MP", "NP(3)"}) {
    const PricedTransition step = price(text, text, kMiB);
    EXPECT_EQ(step.price.total.value(), 0.0) << text;
    EXPECT_EQ(step.bytes_after, kMiB) << text;
    EXPECT_EQ(step.full_bytes, 0.0) << text;
    EXPECT_EQ(step.collective, Collective::kLocal) << text;
  }
}

TEST_P(TransitionTable, AStridedShardIsFreeUntilVCompute) {
  EXPECT_EQ(price("_S(0,2)", "R", kMiB / 4).price.total.value(), GetParam().strided_gather);
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kAllToAll = all_to_all(4, kMiB / 4, kInHost);
constexpr double kAllToAllWithPenalty = kAllToAll + 1;
constexpr double kGather = gather(4, kMiB, kInHost);
INSTANTIATE_TEST_SUITE_P(
    Versions, TransitionTable,
    testing::Values(Version{"v0", kAllToAllWithPenalty, 0, kMiB, 0, 0},
                    Version{"v1", kAllToAllWithPenalty, 0, kMiB, 0, 0},
                    Version{"v2", kAllToAllWithPenalty, 0, kMiB / 4, 0, 0},
                    Version{"v3", kAllToAllWithPenalty, kInf, kMiB / 4, 0, 0},
                    Version{"v4", kAllToAll, kInf, kMiB / 4, 0, 0},
                    Version{"v3-rp", kAllToAllWithPenalty, kInf, kMiB / 4, 0.001, 0},
                    Version{"v3-sp", kAllToAllWithPenalty, kInf, kMiB / 4, 0, 0},
                    Version{"v-compute", kAllToAll, kInf, kMiB / 4, 0, kGather}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// A local kernel that moves 2.345 GB reads and writes 2 * 2.345 GB at 0.7 of the 3350 GB/s of the
// device, which is 2345 kB/us: 2000 us. A quarter takes 500 us.
class LocalWork : public testing::Test {
 protected:
  LocalWork()
      : topology_(topology_with(8)),
        model_(collective_model("dtensor", topology_)),
        kernels_(compute_model("roofline", topology_)),
        pricer_(DeviceMesh::parse("4x1"), topology_, edge_semantics("v-compute"), *model_,
                *kernels_) {}

  double compute(const char* from, const char* to, double bytes, int mesh_dim = 0) const {
    return pricer_.price(p(from), p(to), mesh_dim, bytes, DType::kF32).price.compute.value();
  }

  static constexpr double kBytes = 2.345e9;
  Topology topology_;
  std::unique_ptr<CostModel> model_;
  std::unique_ptr<ComputeModel> kernels_;
  TransitionPricer pricer_;
};

TEST_F(LocalWork, AGatherInterleavesUnlessItsDimIsZero) {
  EXPECT_DOUBLE_EQ(compute("S(1)", "R", kBytes / 4), 2000.0);
  EXPECT_EQ(compute("S(0)", "R", kBytes / 4), 0.0);
}

TEST_F(LocalWork, AnAllToAllPacksAndUnpacksDimsOtherThanZero) {
  EXPECT_DOUBLE_EQ(compute("S(0)", "S(1)", kBytes / 4), 500.0);
  EXPECT_DOUBLE_EQ(compute("S(1)", "S(0)", kBytes / 4), 500.0);
  EXPECT_DOUBLE_EQ(compute("S(1)", "S(2)", kBytes / 4), 1000.0);
}

TEST_F(LocalWork, AReduceScatterPacksUnlessItsDimIsZero) {
  EXPECT_DOUBLE_EQ(compute("P", "S(1)", kBytes), 2000.0);
  EXPECT_EQ(compute("P", "S(0)", kBytes), 0.0);
  EXPECT_EQ(compute("P", "R", kBytes), 0.0);
}

TEST_F(LocalWork, AChunkIsCopied) {
  EXPECT_DOUBLE_EQ(compute("R", "S(0)", kBytes), 500.0);
  EXPECT_DOUBLE_EQ(compute("R", "S(1)", kBytes), 500.0);
}

TEST_F(LocalWork, APartitionDividesForSumsAndNormsOnly) {
  EXPECT_DOUBLE_EQ(compute("R", "P(sum)", kBytes), 2000.0);
  EXPECT_DOUBLE_EQ(compute("R", "NP(2)", kBytes), 2000.0);
  for (const char* text : {"P(avg)", "P(max)", "P(min)", "MP"}) {
    EXPECT_EQ(compute("R", text, kBytes), 0.0) << text;
  }
}

TEST_F(LocalWork, OnAMeshDimOfOneRankThereIsNone) {
  for (const char* to : {"R", "S(0)"}) EXPECT_EQ(compute("S(1)", to, kBytes, 1), 0.0) << to;
  EXPECT_EQ(compute("R", "S(1)", kBytes, 1), 0.0);
}

TEST_F(LocalWork, IsAddedToTheCollective) {
  const PricedTransition step = pricer_.price(p("S(1)"), p("R"), 0, kBytes / 4, DType::kF32);
  const Price bare = model_->price({Collective::kAllGather, kBytes, pricer_.span(0)});
  EXPECT_EQ(step.price.total.value(), bare.total.value() + step.price.compute.value());
}

TEST_F(LocalWork, AnImpossibleStepHasNone) {
  EXPECT_EQ(compute("S(1)", "P", kBytes), 0.0);
  EXPECT_EQ(compute("P", "P(avg)", kBytes), 0.0);
}

TEST(TransitionPricer, SizeOneDimsStillCostTheBaseLatencyOfTheRelease) {
  const Topology topology = topology_with(8);
  const auto model = collective_model("dtensor", topology);
  const auto kernels = compute_model("none", topology);
  const TransitionPricer pricer(DeviceMesh::parse("1x4"), topology, edge_semantics("v3"), *model,
                                *kernels);
  EXPECT_EQ(pricer.price(p("S(0)"), p("R"), 0, kMiB, DType::kF32).price.total.value(), 6.6);
  EXPECT_EQ(pricer.price(p("S(0)"), p("S(1)"), 0, kMiB, DType::kF32).price.total.value(), 7.6);
  EXPECT_EQ(pricer.mesh_size(0), 1);
  EXPECT_EQ(pricer.mesh_size(1), 4);
  EXPECT_EQ(pricer.mesh_ndim(), 2);
}

TEST(TransitionPricer, PricesAlongAnyCommunicator) {
  // A flattened mesh of all ranks of a mesh 2x4 costs as much as any group of 8 ranks.
  const Topology topology = topology_with(8);
  const auto model = collective_model("dtensor", topology);
  const auto kernels = compute_model("none", topology);
  const TransitionPricer pricer(DeviceMesh::parse("2x4"), topology, edge_semantics("v3"), *model,
                                *kernels);
  const GroupSpan eight{.ranks = 8, .hosts = 1, .ranks_per_host = 8, .extent = 8, .walk = 8};
  EXPECT_EQ(pricer.price(p("P"), p("R"), eight, kMiB, DType::kF32).price.total.value(),
            34.486708950969216);
  EXPECT_DOUBLE_EQ(all_reduce(8, kMiB, kInHost), 34.486708950969216);
}

}  // namespace transition_test
namespace all_to_all_penalty_test {

class BytesAsMicros final : public CostModel {
 public:
  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    return Price::of(Micros(0.3), Micros(query.full_bytes / 7.0));
  }
};

class OneMicro final : public ComputeModel {
 public:
  [[nodiscard]] Price price(const KernelQuery&) const override {
    return Price::of_compute(Micros(1.0));
  }
};

Price price_of(const EdgeSemantics& semantics, const Placement& from, const Placement& to) {
  const BytesAsMicros collectives;
  const OneMicro kernels;
  const GroupSpan group{.ranks = 4};
  return semantics.price_step({collectives, kernels}, {from, to, group, 1001.0, DType::kBF16})
      .price;
}

// v4 is v3 without the penalty, to the last digit, and v3 is v4 with a penalty of 1.
TEST(AllToAllPenalty, ZeroMakesV4OfV3AndOneMakesV3OfV4) {
  const auto v3 = edge_semantics("v3");
  const auto v4 = edge_semantics("v4");
  const auto changed_v3 = with_all_to_all_penalty(v3, Micros(0.0));
  const auto changed_v4 = with_all_to_all_penalty(v4, Micros(1.0));
  const Placement placements[] = {Placement::shard(0), Placement::shard(1), Placement::replicate(),
                                  Placement::partial()};
  for (const Placement& from : placements) {
    for (const Placement& to : placements) {
      if (from == to) continue;
      EXPECT_EQ(price_of(*changed_v3, from, to).total, price_of(*v4, from, to).total);
      EXPECT_EQ(price_of(*changed_v4, from, to).total, price_of(*v3, from, to).total);
      EXPECT_EQ(price_of(*changed_v4, from, to).latency, price_of(*v3, from, to).latency);
    }
  }
  EXPECT_NE(price_of(*v3, placements[0], placements[1]).total,
            price_of(*v4, placements[0], placements[1]).total);
}

// In every version an all-to-all alone costs more, and everything else behaves as before.
TEST(AllToAllPenalty, ChangesNothingElse) {
  for (const EdgeSemanticsRow& row : all_edge_semantics()) {
    const auto base = row.make();
    const auto changed = with_all_to_all_penalty(base, Micros(2.5));
    EXPECT_EQ(changed->name(), base->name());
    EXPECT_EQ(changed->follows_plan(), base->follows_plan()) << row.name;
    EXPECT_EQ(changed->chunk_is_free(), base->chunk_is_free()) << row.name;
    EXPECT_EQ(changed->replicate_to_partial(), base->replicate_to_partial()) << row.name;
    EXPECT_EQ(changed->plans_sums_of_shards(), base->plans_sums_of_shards()) << row.name;
    EXPECT_EQ(all_to_all_penalty_given(*changed), Micros(2.5)) << row.name;
    EXPECT_EQ(all_to_all_penalty_given(*base), std::nullopt) << row.name;
    const auto gather = [&](const EdgeSemantics& semantics) {
      return price_of(semantics, Placement::shard(1), Placement::replicate()).total;
    };
    EXPECT_EQ(gather(*changed), gather(*base)) << row.name;
    const auto exchange = [&](const EdgeSemantics& semantics) {
      return price_of(semantics, Placement::shard(1), Placement::shard(2)).total;
    };
    const auto dearer = with_all_to_all_penalty(base, Micros(3.5));
    EXPECT_NEAR(exchange(*dearer).value() - exchange(*changed).value(), 1.0, 1e-9) << row.name;
  }
}

}  // namespace all_to_all_penalty_test
}  // namespace shardlab
