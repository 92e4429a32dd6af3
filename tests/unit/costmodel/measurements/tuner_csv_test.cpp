#include "costmodel/measurements/tuner_csv.h"

#include <gtest/gtest.h>

#include <random>

#include "costmodel/base/error.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace tuner_csv_test {

using testing_support::collective_model;
using testing_support::topology_with;

GroupSpan span_of(std::int64_t hosts, std::int64_t a_host) {
  return {.ranks = hosts * a_host,
          .hosts = hosts,
          .domains = hosts,
          .ranks_per_host = a_host,
          .extent = hosts * a_host,
          .walk = hosts * a_host};
}

TEST(TunerCsv, ReadsLinesOfEightNineAndTenFields) {
  const std::vector<TunerRule> rules = read_tuner_csv(
      "# a comment\n"
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n"
      "\n"
      "allreduce,0,65536,tree,ll,2,1,8\r\n"
      "reduce, 1, 2, collnet_chain, ll128, -1, -1, -1, 4\n"
      "broadcast,0,18446744073709551615,nvls_tree,simple,-1,-1,-1,-1,1",
      "tuner.conf");
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0], (TunerRule{.collective = TunerCollective::kAllReduce,
                                 .min_bytes = 0,
                                 .max_bytes = 65536,
                                 .algorithm = NcclAlgorithm::kTree,
                                 .protocol = NcclProtocol::kLL,
                                 .channels = 2,
                                 .nodes = 1,
                                 .ranks = 8}));
  EXPECT_EQ(rules[1].collective, TunerCollective::kReduce);
  EXPECT_EQ(rules[1].pipe_ops, 4);
  EXPECT_EQ(rules[2].max_bytes, kAnySize);
  EXPECT_EQ(rules[2].registered, 1);
  EXPECT_EQ(read_tuner_csv(tuner_csv_text(rules), "again"), rules);
}

std::string error_of(const std::string& line) {
  try {
    (void)read_tuner_csv("# first\n" + line, "t.conf");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TunerCsv, NamesTheLineAndWhatIsValid) {
  EXPECT_EQ(error_of("allreduce,0,1,ring,ll,-1,-1"),
            "t.conf:line 2: found 7 fields; valid: 8, 9 or 10");
  EXPECT_EQ(error_of("alreduce,0,1,ring,ll,-1,-1,-1"),
            "t.conf:line 2: collective_type: found \"alreduce\" (did you mean \"allreduce\"?); "
            "valid: broadcast, reduce, allgather, reducescatter, allreduce");
  EXPECT_EQ(error_of("allreduce,-5,1,ring,ll,-1,-1,-1"),
            "t.conf:line 2: min_bytes: found \"-5\"; valid: a number of bytes");
  EXPECT_EQ(error_of("allreduce,9,1,ring,ll,-1,-1,-1"),
            "t.conf:line 2: min_bytes 9 is above max_bytes 1");
  EXPECT_EQ(error_of("allreduce,0,1,rings,ll,-1,-1,-1"),
            "t.conf:line 2: algorithm: found \"rings\" (did you mean \"ring\"?); valid: tree, "
            "ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat");
  EXPECT_EQ(error_of("allreduce,0,1,ring,simpel,-1,-1,-1"),
            "t.conf:line 2: protocol: found \"simpel\" (did you mean \"simple\"?); valid: ll, "
            "ll128, simple");
  EXPECT_EQ(error_of("allreduce,0,1,ring,ll,0,-1,-1"),
            "t.conf:line 2: channels: found \"0\"; valid: -1, or 1 to 64");
  EXPECT_EQ(error_of("allreduce,0,1,ring,ll,-1,-1,-1,-1,2"),
            "t.conf:line 2: regBuff: found \"2\"; valid: -1, or 0 to 1");
}

TEST(TunerCsv, TheFirstRuleThatFitsCounts) {
  const std::vector<TunerRule> rules = read_tuner_csv(
      "allreduce,0,100,tree,ll,-1,1,8\nallreduce,50,200,ring,ll,-1,-1,-1\n", "t.conf");
  EXPECT_EQ(find_rule(rules, TunerCollective::kAllReduce, 60, 1, 8), &rules[0]);
  EXPECT_EQ(find_rule(rules, TunerCollective::kAllReduce, 60, 2, 16), &rules[1]);
  EXPECT_EQ(find_rule(rules, TunerCollective::kAllReduce, 101, 1, 8), &rules[1]);
  EXPECT_EQ(find_rule(rules, TunerCollective::kAllReduce, 201, 1, 8), nullptr);
  EXPECT_EQ(find_rule(rules, TunerCollective::kAllGather, 60, 1, 8), nullptr);
}

// The file that is written reads back as the decisions of the model: at every power of two, at the
// sizes beside it, and at random sizes.
TEST(TunerCsv, RoundTripsTheDecisionsOfAModel) {
  const Topology topology = topology_with(8);
  const auto model = collective_model("nccl", topology);
  std::mt19937_64 random(5);
  for (const GroupSpan& span : {span_of(1, 2), span_of(1, 8), span_of(2, 8), span_of(16, 8)}) {
    const std::vector<TunerRule> rules =
        read_tuner_csv(tuner_csv_text(tuner_rules(*model, span)), "t.conf");
    std::vector<std::uint64_t> sizes;
    for (int i = 3; i < 35; ++i) {
      const std::uint64_t power = std::uint64_t{1} << static_cast<unsigned>(i);
      sizes.insert(sizes.end(), {power - 1, power, power + 1, power + random() % power});
    }
    for (const Collective kind : {Collective::kBroadcast, Collective::kAllGather,
                                  Collective::kReduceScatter, Collective::kAllReduce}) {
      std::size_t changes = 0;
      for (const TunerRule& rule : rules) {
        changes += rule.collective == *tuner_collective(kind) ? 1U : 0U;
      }
      EXPECT_GT(changes, 1U) << to_string(kind);
      for (const std::uint64_t size : sizes) {
        const auto expected = decision_of(*model, {kind, static_cast<double>(size), span});
        ASSERT_TRUE(expected.has_value());
        const TunerRule* rule =
            find_rule(rules, *tuner_collective(kind), size, span.hosts, span.ranks);
        ASSERT_NE(rule, nullptr) << to_string(kind) << " of " << size;
        EXPECT_EQ((NcclDecision{rule->algorithm, rule->protocol}), *expected)
            << to_string(kind) << " of " << size << " among " << span.ranks;
      }
    }
  }
}

TEST(TunerCsv, AModelOfOneFormulaHasNoRules) {
  const Topology topology = topology_with(8);
  EXPECT_TRUE(tuner_rules(*collective_model("alpha_beta", topology), span_of(1, 8)).empty());
}

TEST(TunerCsv, AMeasuredRunTellsItsRules) {
  MeasurementSet set;
  set.hosts = 2;
  set.ranks = 4;
  const auto add = [&](double bytes, const char* algorithm, const char* protocol) {
    MeasuredRow row;
    row.collective = Collective::kAllReduce;
    row.bytes = bytes;
    row.algorithm = algorithm;
    row.protocol = protocol;
    set.rows.push_back(row);
  };
  add(4096, "RING", "LL");
  add(1024, "TREE", "LL");
  add(2048, "TREE", "LL");
  add(8192, "", "");
  const std::vector<TunerRule> rules = tuner_rules_of(set);
  EXPECT_EQ(tuner_csv_text(rules),
            "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,"
            "numPipeOps,regBuff\n"
            "allreduce,0,4095,tree,ll,-1,2,4,-1,-1\n"
            "allreduce,4096,18446744073709551615,ring,ll,-1,2,4,-1,-1\n");
}

}  // namespace tuner_csv_test
}  // namespace shardlab
