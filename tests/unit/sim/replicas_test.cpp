// After which steps replicas may differ, against what the executor makes of random plans.
#include "sim/replicas.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/executor.h"
#include "sim/redistribute.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace replicas_test {

using namespace testing_support;

class ReplicasTest : public testing::Test {
 protected:
  [[nodiscard]] Plan plan(const DeviceMesh& mesh, const std::string& tensor,
                          const std::string& from, const std::string& to) const {
    Redistributor redistributor(mesh, topology_, {}, *model_, *kernels_);
    const TensorMeta meta = TensorMeta::parse(tensor);
    return redistributor.plan(meta, Layout::parse(from, mesh.ndim()),
                              Layout::parse(to, mesh.ndim()));
  }
  [[nodiscard]] std::optional<ReplicaFault> fault(const DeviceMesh& mesh, const std::string& tensor,
                                                  const std::string& from,
                                                  const std::string& to) const {
    return replicas_may_differ(plan(mesh, tensor, from, to), mesh, topology_);
  }

  Topology topology_ = topology_with(8);
  std::unique_ptr<CostModel> model_ = collective_model("dtensor", topology_);
  std::unique_ptr<ComputeModel> kernels_ = compute_model("none", topology_);
  // pytorch/pytorch#171916: groups of 5 straddle hosts of 8 in different places.
  DeviceMesh mesh_ = DeviceMesh::parse("ddp=8,fsdp=5");
};

TEST_F(ReplicasTest, GroupsThatLieDifferentlyOnDomainsMayRoundDifferently) {
  const Plan steps = plan(mesh_, "f32[64,64]", "PP", "RR");
  const auto found = replicas_may_differ(steps, mesh_, topology_);
  ASSERT_TRUE(found);
  EXPECT_EQ(
      found->text(steps),
      "step 2, all_reduce P(sum)->R over mesh dim 1: the groups of rank 0 and of rank 20 lie "
      "differently on NVLink domains of 8 devices, so the replicas along mesh dim 0 may differ "
      "in their last bits");
}

TEST_F(ReplicasTest, OneCollectiveHasOneOrder) {
  const std::vector<std::string> names = {"ddp", "fsdp"};
  EXPECT_FALSE(fault(mesh_.flatten(names), "f32[64,64]", "PP", "RR"));
}

TEST_F(ReplicasTest, WhereNoRoundingDependsOnAnOrderAllReplicasAreEqual) {
  EXPECT_FALSE(fault(mesh_, "i32[64,64]", "PP", "RR")) << "integers";
  EXPECT_FALSE(fault(mesh_, "f32[64,64]", "P(max)P(max)", "RR")) << "maxima";
  EXPECT_FALSE(fault(DeviceMesh::parse("5x2"), "f32[64,64]", "PP", "RR")) << "a sum of two";
  EXPECT_FALSE(fault(DeviceMesh::parse("5x4"), "f32[64,64]", "PP", "RR"))
      << "no group of 4 leaves its half of a host";
  EXPECT_FALSE(fault(mesh_, "f32[64,64]", "S(0)P", "S(0)R")) << "other groups hold other rows";
}

TEST_F(ReplicasTest, AMillionRanksTakeNoLonger) {
  EXPECT_TRUE(fault(DeviceMesh::parse("262144x5"), "f32[64,64]", "PP", "RR"));
  EXPECT_FALSE(fault(DeviceMesh::parse("131072x8"), "f32[64,64]", "PP", "RR"));
}

// Random plans with random numbers, run with sums inside of domains first. Where no fault is found,
// all replicas are equal. Where one is, most of the runs show it: the last bits may also agree by
// chance, or because too few numbers are added.
TEST_F(ReplicasTest, TheExecutorFindsDifferencesOnlyWhereTheyAreExpected) {
  std::mt19937 random(7);
  const auto one_of = [&](const auto& values) { return values[random() % values.size()]; };
  const std::vector<std::string> meshes = {"3x5", "5x3", "6x4", "4x6", "3x3x3", "2x5x3", "8x3"};
  const std::vector<std::string> from = {"P", "R", "S(0)", "P", "P"};
  const std::vector<std::string> to = {"R", "R", "S(1)"};
  int expected = 0;
  int differ = 0;
  for (int i = 0; i < 300; ++i) {
    const DeviceMesh mesh = DeviceMesh::parse(one_of(meshes));
    std::string source;
    std::string target;
    for (int m = 0; m < mesh.ndim(); ++m) {
      source += one_of(from);
      target += one_of(to);
    }
    const Plan steps = plan(mesh, "f32[12,12]", source, target);
    if (!steps.impossible.empty() || !steps.unexecutable.empty()) continue;
    const Executor executor(mesh, topology_, {.reduction = {.domains_first = true}});
    DistributedTensor tensor = executor.distribute(
        steps.meta, steps.start, {.seed = random(), .values = DataValues::kUniform});
    const ExecutionResult run = executor.run(steps, tensor);
    const auto found = replicas_may_differ(steps, mesh, topology_);
    if (!found) {
      EXPECT_TRUE(run.replicas_bitwise_equal) << mesh.text() << " " << steps.path();
      continue;
    }
    ++expected;
    if (!run.replicas_bitwise_equal) ++differ;
  }
  EXPECT_GT(expected, 30);
  EXPECT_GT(differ, expected / 2);
}

}  // namespace replicas_test
}  // namespace shardlab
