#include "runner/evaluation/price_curves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runner/config/configs.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace price_curves_test {

using Labels = std::vector<std::string>;

// The labels of the groups, each once, in the order of the curves.
Labels labels_on(const Topology& topology) {
  const Stack stack = ConfigStore(configs_root()).stack("alpha-beta");
  Labels labels;
  for (const reports::PriceCurve& curve : price_curves({&stack, 1}, stack, topology)) {
    if (labels.empty() || labels.back() != curve.group) labels.push_back(curve.group);
  }
  return labels;
}

TEST(PriceCurves, SayHowManyHostsAndDomainsAGroupSpans) {
  using testing_support::domain_topology;
  using testing_support::topology_with;
  EXPECT_EQ(labels_on(topology_with(8)), Labels({"8 ranks, one host", "64 ranks, 8 hosts"}));
  EXPECT_EQ(labels_on(domain_topology(72)),
            Labels({"4 ranks, one host", "32 ranks, 8 hosts in one NVLink domain"}));
  EXPECT_EQ(labels_on(domain_topology(16)),
            Labels({"4 ranks, one host", "32 ranks, 8 hosts in 2 NVLink domains"}));
  EXPECT_EQ(labels_on(topology_with(1)), Labels({"2 ranks, 2 hosts", "8 ranks, 8 hosts"}));
}

}  // namespace price_curves_test
}  // namespace shardlab
