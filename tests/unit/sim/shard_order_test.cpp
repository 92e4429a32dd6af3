// Shard orders are written as strided shards, and read back from them (docs/semantics.md).
#include <gtest/gtest.h>

#include "sim/tensor_spec.h"
#include "tests/support/random_layouts.h"

namespace shardlab {
namespace shard_order_test {

using testing_support::all_layouts;
using testing_support::all_orders;

std::string encoded(const char* mesh, const char* layout) {
  const DeviceMesh m = DeviceMesh::parse(mesh);
  return encode_order_as_strided(Layout::parse(layout, m.ndim()), m).text();
}
std::string decoded(const char* mesh, const char* layout) {
  const DeviceMesh m = DeviceMesh::parse(mesh);
  const auto result = decode_strided_as_order(Layout::parse(layout, m.ndim()), m);
  return result ? result->text() : "none";
}

TEST(ShardOrder, TheDefaultIsAscendingForEachTensorDim) {
  const ShardOrder order = ShardOrder::default_of(Layout::parse("S(1)S(0)RS(1)S(0)", 5).placements);
  EXPECT_EQ(order.position(0), 0);
  EXPECT_EQ(order.position(1), 0);
  EXPECT_EQ(order.position(2), 0);
  EXPECT_EQ(order.position(3), 1);
  EXPECT_EQ(order.position(4), 1);
}

TEST(ShardOrder, EncodesThePublishedExample) {
  // The order (2,0,1) on a mesh (4,3,2).
  EXPECT_EQ(encoded("4x3x2", "S(0)[1]S(0)[2]S(0)[0]"), "_S(0,2)_S(0,2)S(0)");
  EXPECT_EQ(decoded("4x3x2", "_S(0,2)_S(0,2)S(0)"), "S(0)[1]S(0)[2]S(0)[0]");
}

TEST(ShardOrder, ReversedOnThreeDimsMultipliesTheInnerSizes) {
  EXPECT_EQ(encoded("4x3x2", "S(0)[2]S(0)[1]S(0)[0]"), "_S(0,6)_S(0,2)S(0)");
}

TEST(ShardOrder, TheDefaultEncodesAsItself) {
  EXPECT_EQ(encoded("4x3x2", "S(0)S(1)S(0)"), "S(0)S(1)S(0)");
  EXPECT_EQ(decoded("4x3x2", "S(0)S(1)S(0)"), "S(0)S(1)S(0)");
}

TEST(ShardOrder, AFactorThatNoOrderExplainsDoesNotDecode) {
  EXPECT_EQ(decoded("4x3x2", "_S(0,5)S(0)S(0)"), "none");
  EXPECT_EQ(decoded("2x2", "R_S(0,2)"), "none");
  EXPECT_EQ(decoded("2x4", "_S(0,2)S(0)"), "none");
}

TEST(ShardOrder, AFactorOfOneDecodesToAPlainShard) {
  EXPECT_EQ(decoded("2x2", "_S(0,1)R"), "S(0)R");
}

TEST(ShardOrder, OtherTensorDimsDoNotCount) {
  EXPECT_EQ(encoded("2x2x2", "S(0)[1]S(1)S(0)[0]"), "_S(0,2)S(1)S(0)");
  EXPECT_EQ(decoded("2x2x2", "_S(0,2)S(1)S(0)"), "S(0)[1]S(1)S(0)[0]");
}

// Tried for every layout of R, S(0) and S(1) in every order, on meshes of up to four dims.
TEST(ShardOrder, DecodesWhatItEncodedForEveryOrder) {
  int cases = 0;
  for (const char* text : {"2", "3x2", "2x2", "4x3x2", "2x2x2", "2x3x4x5", "2x2x2x2", "5x2x2x3"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    for (const Layout& placements : all_layouts(mesh.ndim(), 2, {})) {
      for (const Layout& layout : all_orders(placements)) {
        const auto back = decode_strided_as_order(encode_order_as_strided(layout, mesh), mesh);
        ASSERT_TRUE(back.has_value()) << layout.text() << " on " << text;
        EXPECT_EQ(*back, layout) << layout.text() << " on " << text;
        ++cases;
      }
    }
  }
  EXPECT_GE(cases, 900);
}

TEST(ShardOrder, EncodesWhatItDecodedForEveryFactorUpToEight) {
  const DeviceMesh mesh = DeviceMesh::parse("2x4x2");
  int decodable = 0;
  for (int a = 0; a <= 8; ++a) {
    for (int b = 0; b <= 8; ++b) {
      // A factor of 0 stands for a replica, and 1 for a plain shard.
      const auto placement = [](int f) {
        return f == 0   ? Placement::replicate()
               : f == 1 ? Placement::shard(0)
                        : Placement::strided_shard(0, f);
      };
      const Layout layout({placement(a), placement(b), Placement::shard(0)});
      const auto order = decode_strided_as_order(layout, mesh);
      if (!order) continue;
      ++decodable;
      EXPECT_FALSE(order->has_strided());
      EXPECT_EQ(encode_order_as_strided(*order, mesh), layout) << layout.text();
    }
  }
  // Mesh dim 2 shards alone (1 order), together with one of the other two (2 orders each), or with
  // both (6 orders).
  EXPECT_EQ(decodable, 11);
}

// The encoded layout names the same rows where the extent divides evenly.
TEST(ShardOrder, TheEncodedLayoutHoldsTheSameRowsOnEveryRank) {
  for (const char* text : {"3x2", "4x3x2", "2x2x2"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    const Shape shape = {2 * mesh.size(), 3 * mesh.size()};
    for (const Layout& placements : all_layouts(mesh.ndim(), 2, {})) {
      for (const Layout& layout : all_orders(placements)) {
        const Layout strided = encode_order_as_strided(layout, mesh);
        for (std::int64_t r = 0; r < mesh.size(); ++r) {
          const auto at = mesh.coordinate(r);
          for (int d = 0; d < 2; ++d) {
            EXPECT_EQ(local_rows(shape, d, layout, mesh, at),
                      local_rows(shape, d, strided, mesh, at))
                << layout.text() << " = " << strided.text() << " on " << text << " rank " << r;
          }
        }
      }
    }
  }
}

TEST(ShardOrder, WithUnitMeshDimsTheDecodedOrderHoldsTheSameRows) {
  for (const char* text : {"1x2", "2x1", "2x1x3", "1x1x2", "1x3x1x2"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    const Shape shape = {6 * mesh.size()};
    for (const Layout& placements : all_layouts(mesh.ndim(), 1, {})) {
      for (const Layout& layout : all_orders(placements)) {
        const auto back = decode_strided_as_order(encode_order_as_strided(layout, mesh), mesh);
        ASSERT_TRUE(back.has_value()) << layout.text() << " on " << text;
        for (std::int64_t r = 0; r < mesh.size(); ++r) {
          EXPECT_EQ(local_rows(shape, 0, *back, mesh, mesh.coordinate(r)),
                    local_rows(shape, 0, layout, mesh, mesh.coordinate(r)))
              << layout.text() << " on " << text;
        }
      }
    }
  }
}

}  // namespace shard_order_test
}  // namespace shardlab
