// AutoParallel's model on topologies; tests/golden/autoparallel_test.cpp compares it with its
// figures.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace ap_nccl_model_test {

using namespace testing_support;
using nlohmann::json;

std::set<std::string> algorithms(bool reduces, json params, std::int64_t hosts) {
  params["architecture"] = 80;
  json value = topology_json(8);
  value["links"][1]["reduces"] = reduces;
  const auto model = collective_model({{"name", "ap_nccl"}, {"params", params}},
                                      Topology::from_json(value, {"test.json", ""}));
  const GroupSpan group{.ranks = 8 * hosts,
                        .hosts = hosts,
                        .domains = hosts,
                        .ranks_per_host = 8,
                        .extent = 8 * hosts,
                        .walk = 8 * hosts};
  std::set<std::string> all;
  for (const Alternative& a : model->alternatives({Collective::kAllReduce, 1e6, group})) {
    all.insert(std::string(a.algorithm));
  }
  return all;
}

// Unless the parameter says otherwise, CollNet is weighed between nodes whose network reduces.
TEST(ApNccl, CollNetNeedsANetworkThatReduces) {
  using Names = std::set<std::string>;
  const Names plain = {"RING", "TREE"};
  const Names collnet = {"COLLNET_CHAIN", "COLLNET_DIRECT", "RING", "TREE"};
  const json none = json::object();
  EXPECT_EQ(algorithms(false, none, 2), plain);
  EXPECT_EQ(algorithms(true, none, 2), collnet);
  EXPECT_EQ(algorithms(true, none, 1), plain);
  EXPECT_EQ(algorithms(true, {{"collnet", 0}}, 2), plain);
  EXPECT_EQ(algorithms(false, {{"collnet", 1}}, 2), collnet);
}

}  // namespace ap_nccl_model_test
}  // namespace shardlab
