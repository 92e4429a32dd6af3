// What a communicator spans on a topology: the closed form is compared with a list of all groups.
#include <gtest/gtest.h>

#include "sim/mesh.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_chunks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace mesh_span_test {

using testing_support::domain_topology;
using testing_support::fewest_in_block;
using testing_support::groups_of;
using testing_support::most_blocks;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_mesh;
using testing_support::topology_with;
using Names = std::vector<std::string>;

TEST(MeshSpan, OfTheUsualMeshes) {
  const Topology h100 = topology_with(8);
  const DeviceMesh mesh = DeviceMesh::parse("4x8");
  EXPECT_EQ(
      mesh.span(1, h100),
      (GroupSpan{
          .ranks = 8, .hosts = 1, .domains = 1, .ranks_per_host = 8, .extent = 8, .walk = 8}));
  EXPECT_EQ(
      mesh.span(0, h100),
      (GroupSpan{
          .ranks = 4, .hosts = 4, .domains = 4, .ranks_per_host = 1, .extent = 25, .walk = 32}));
  const DeviceMesh small = DeviceMesh::parse("2x4");
  EXPECT_EQ(
      small.span(1, h100),
      (GroupSpan{
          .ranks = 4, .hosts = 1, .domains = 1, .ranks_per_host = 4, .extent = 4, .walk = 4}));
  EXPECT_EQ(
      small.span(0, h100),
      (GroupSpan{
          .ranks = 2, .hosts = 1, .domains = 1, .ranks_per_host = 2, .extent = 5, .walk = 8}));
  const DeviceMesh wide = DeviceMesh::parse("2x16");
  EXPECT_EQ(
      wide.span(1, h100),
      (GroupSpan{
          .ranks = 16, .hosts = 2, .domains = 2, .ranks_per_host = 8, .extent = 16, .walk = 16}));
}

TEST(MeshSpan, AGroupThatStraddlesAHostBoundaryCounts) {
  // A mesh 3x4 on hosts of 6: the group of ranks 4 to 7 is on two hosts.
  EXPECT_EQ(DeviceMesh::parse("3x4").span(1, topology_with(6)).hosts, 2);
}

TEST(MeshSpan, GroupsOfTwelveOnHostsOfEightTouchTwo) {
  // Ranks 0 to 11 are on hosts 0 and 1, ranks 12 to 23 on hosts 1 and 2. No group starts at the
  // last device of a host.
  EXPECT_EQ(DeviceMesh::parse("2x12").span(1, topology_with(8)).hosts, 2);
}

TEST(MeshSpan, TheHostWithTheFewestRanksOfAGroupCounts) {
  const Topology h100 = topology_with(8);
  EXPECT_EQ(DeviceMesh::parse("9").span(0, h100).ranks_per_host, 1);    // 8 and 1
  EXPECT_EQ(DeviceMesh::parse("12").span(0, h100).ranks_per_host, 4);   // 8 and 4
  EXPECT_EQ(DeviceMesh::parse("4x6").span(1, h100).ranks_per_host, 2);  // 6, 2 and 4, 4 and 2
  EXPECT_EQ(DeviceMesh::parse("8x5").span(1, h100).ranks_per_host, 1);  // 5, 3 and 2, 1 and 4
  EXPECT_EQ(DeviceMesh::parse("1000x12").span(1, h100).ranks_per_host, 4);
}

TEST(MeshSpan, TheDomainWithTheFewestRanksOfAGroupCounts) {
  const Topology gb200 = domain_topology(72);
  const GroupSpan span = DeviceMesh::parse("80").span(0, gb200);
  EXPECT_EQ(span.domains, 2);
  EXPECT_EQ(span.ranks_per_domain, 8);
  EXPECT_EQ(span.ranks_per_host, 4);
  EXPECT_EQ(DeviceMesh::parse("36x4").span(0, gb200).ranks_per_domain, 18);
  int wrong = 0;
  for (const char* text : {"80", "90", "7x11", "5x20", "16x9", "100x3", "3x5x10", "13x13"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    for (int m = 0; m < mesh.ndim(); ++m) {
      const std::int64_t fewest = fewest_in_block(groups_of(mesh, {m}), 72);
      if (mesh.span(m, gb200).ranks_per_domain == fewest) continue;
      ++wrong;
      ADD_FAILURE() << text << " dim " << m << ": " << mesh.span(m, gb200).ranks_per_domain
                    << " ranks, a list of the groups says " << fewest;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(MeshSpan, TheWalkIsTheProductOfThisDimAndAllInside) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3x4");
  EXPECT_EQ(mesh.span(0, topology_with(8)).walk, 24);
  EXPECT_EQ(mesh.span(1, topology_with(8)).walk, 12);
  EXPECT_EQ(mesh.span(2, topology_with(8)).walk, 4);
}

// Tried for every mesh of up to three dims of up to 6 ranks, on hosts of 1 to 12 devices.
TEST(MeshSpan, HostsEqualThoseOfTheWorstGroupForAllSmallMeshes) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t a = 1; a <= 6; ++a) {
    shapes.push_back({a});
    for (std::int64_t b = 1; b <= 6; ++b) {
      shapes.push_back({a, b});
      for (std::int64_t c = 1; c <= 6; ++c) shapes.push_back({a, b, c});
    }
  }
  int wrong = 0;
  for (std::int64_t per_host = 1; per_host <= 12; ++per_host) {
    const Topology topology = topology_with(per_host);
    for (const auto& shape : shapes) {
      const DeviceMesh mesh = DeviceMesh::make(shape);
      for (int m = 0; m < mesh.ndim(); ++m) {
        const GroupSpan span = mesh.span(m, topology);
        const std::int64_t hosts = most_blocks(groups_of(mesh, {m}), per_host);
        if (span.hosts != hosts && ++wrong <= 5) {
          ADD_FAILURE() << mesh.text() << " dim " << m << ", " << per_host
                        << " devices a host: span says " << span.hosts << ", the groups touch "
                        << hosts;
        }
        EXPECT_EQ(span.ranks, mesh.size(m));
        const std::int64_t fewest = fewest_in_block(groups_of(mesh, {m}), per_host);
        if (span.ranks_per_host != fewest && ++wrong <= 5) {
          ADD_FAILURE() << mesh.text() << " dim " << m << ", " << per_host
                        << " devices a host: span says that a host has " << span.ranks_per_host
                        << " ranks of a group at least, a list of the groups says " << fewest;
        }
        EXPECT_EQ(span.ranks_per_domain, span.ranks_per_host);
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(MeshSpan, HostsEqualThoseOfTheWorstGroupForRandomFlattenedMeshes) {
  Random random(14);
  SHARDLAB_TRACE_SEED();
  const Names names = {"a", "b", "c", "d"};
  for (int i = 0; i < random_cases(400); ++i) {
    const DeviceMesh bare = random_mesh(random, 4, 6);
    std::vector<std::int64_t> sizes;
    for (int m = 0; m < bare.ndim(); ++m) sizes.push_back(bare.size(m));
    const DeviceMesh mesh =
        DeviceMesh::make(sizes, Names(names.begin(), names.begin() + bare.ndim()));
    const std::int64_t per_host = random.between(1, 16);
    std::vector<int> dims;
    MeshLayout layout;
    for (int m = 0; m < mesh.ndim(); ++m) {
      if (!random.percent(60)) continue;
      dims.push_back(m);
      layout = layout.concatenate(mesh.layout(m));
    }
    const GroupSpan span = mesh.span(layout.coalesce(), mesh.size(), topology_with(per_host));
    EXPECT_EQ(span.hosts, most_blocks(groups_of(mesh, dims), per_host))
        << mesh.text() << " " << layout.coalesce().text() << ", " << per_host << " devices a host";
    EXPECT_EQ(span.ranks_per_host, fewest_in_block(groups_of(mesh, dims), per_host))
        << mesh.text() << " " << layout.coalesce().text() << ", " << per_host << " devices a host";
  }
}

TEST(MeshSpan, OfASliceCountsTheRanksOfTheRoot) {
  // The slice has dp and tp of a mesh 2x4x2 on hosts of 4. The two ranks along dp are 8 apart.
  const DeviceMesh sub = DeviceMesh::parse("dp=2,pp=4,tp=2").slice(Names{"dp", "tp"});
  EXPECT_EQ(sub.span(0, topology_with(4)).hosts, 2);
  EXPECT_EQ(sub.span(1, topology_with(4)).hosts, 1);
}

TEST(MeshSpan, OfAHugeMeshIsFoundWithoutListingItsRanks) {
  const DeviceMesh mesh = DeviceMesh::parse("1048576x1048576");
  EXPECT_EQ(mesh.span(0, topology_with(8)).hosts, 1048576);
  EXPECT_EQ(mesh.span(1, topology_with(8)).hosts, 131072);
}

// The link level that a group gets is compared with the domains that its ranks are in.
TEST(MeshSpan, AGroupInsideOneNvlinkDomainNeverCrossesTheNetwork) {
  int wrong = 0;
  for (const std::int64_t domain : {8, 12, 72}) {
    const Topology topology = domain_topology(domain);
    for (const char* text : {"8", "8x8", "4x16", "2x16", "16x4", "9x8", "2x36", "3x3x8", "64", "72",
                             "18x8", "8x18", "2x5x4"}) {
      const DeviceMesh mesh = DeviceMesh::parse(text);
      for (int m = 0; m < mesh.ndim(); ++m) {
        const bool inside = most_blocks(groups_of(mesh, {m}), domain) == 1;
        const std::string& link = topology.link(mesh.span(m, topology)).name;
        if ((link == "nvlink") != inside && ++wrong <= 5) {
          ADD_FAILURE() << "mesh " << text << " dim " << m << ", domains of " << domain << ": "
                        << (inside ? "every group is inside one domain"
                                   : "a group leaves its domain")
                        << ", but its link is " << link;
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(MeshSpan, ASliceThatLeavesItsDomainCrossesTheNetwork) {
  // The two ranks along dp are 20 apart: those at 60 and 80 lie on both sides of the boundary at
  // 72.
  const DeviceMesh sub = DeviceMesh::parse("x=4,dp=2,pp=5,tp=4").slice(Names{"dp", "tp"});
  const Topology gb200 = domain_topology(72);
  ASSERT_EQ(most_blocks(sub.groups(0), 72), 2);
  EXPECT_EQ(gb200.link(sub.span(0, gb200)).name, "network");
}

}  // namespace mesh_span_test
}  // namespace shardlab
