// Tests the expansion of rows over the dims of a mesh, and the numbers that a LayoutTable gives to
// layouts.
#include "strategies/rules/row_expansion.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/programs/layout_table.h"

namespace shardlab {
namespace row_expansion_test {

TensorMeta meta(const char* text) { return TensorMeta::parse(text); }
Placements placements(const char* text, int mesh_ndim) {
  return Layout::parse(text, mesh_ndim).placements;
}
std::vector<std::string> texts(const std::vector<Placements>& layouts) {
  std::vector<std::string> result;
  for (const Placements& p : layouts) result.push_back(Layout(p).text());
  return result;
}
std::vector<Placement> row(std::initializer_list<const char*> entries) {
  std::vector<Placement> result;
  for (const char* entry : entries) result.push_back(Placement::parse(entry));
  return result;
}

TEST(RowExpansion, TheLastMeshDimIsFastest) {
  const TensorMeta tensor = meta("f32[8,8]");
  const std::array<const TensorMeta*, 1> metas = {&tensor};
  const auto layouts =
      expand_over_mesh({row({"R"}), row({"S(0)"})}, metas, DeviceMesh::parse("2x2"));
  EXPECT_EQ(texts(layouts[0]), (std::vector<std::string>{"RR", "RS(0)", "S(0)R", "S(0)S(0)"}));
}

TEST(RowExpansion, ADimMayBeUnevenButNotTooShort) {
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  // A shard of 16 over 8 ranks has 2 elements, too few for 8 ranks; one of 57 has 8.
  EXPECT_FALSE(is_layout_of(meta("f32[16]"), placements("S(0)S(0)", 2), mesh));
  EXPECT_TRUE(is_layout_of(meta("f32[57]"), placements("S(0)S(0)", 2), mesh));
  EXPECT_FALSE(is_layout_of(meta("f32[56]"), placements("S(0)S(0)", 2), mesh));
  EXPECT_FALSE(is_layout_of(meta("f32[7]"), placements("S(0)R", 2), mesh));
  EXPECT_FALSE(is_layout_of(meta("f32[]"), placements("S(0)R", 2), mesh));
}

TEST(RowExpansion, OnlySumsAndAveragesMix) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const TensorMeta tensor = meta("f32[8]");
  EXPECT_TRUE(is_layout_of(tensor, placements("P(sum)P(avg)", 2), mesh));
  Placements mixed = placements("P(sum)P(sum)", 2);
  mixed[1] = Placement::partial(ReduceOp::kMax);
  EXPECT_FALSE(is_layout_of(tensor, mixed, mesh));
  mixed[1] = Placement::mask_partial(0, 8);
  EXPECT_FALSE(is_layout_of(tensor, mixed, mesh));
}

TEST(RowExpansion, DropsARowWhereAnyTensorCantHaveIt) {
  const TensorMeta wide = meta("f32[8,8]");
  const TensorMeta narrow = meta("f32[8,1]");
  const std::array<const TensorMeta*, 2> metas = {&wide, &narrow};
  const auto layouts = expand_over_mesh(
      {row({"R", "R"}), row({"S(1)", "S(1)"}), row({"S(1)", "R"})}, metas, DeviceMesh::parse("2"));
  EXPECT_EQ(texts(layouts[0]), (std::vector<std::string>{"R", "S(1)"}));
  EXPECT_EQ(texts(layouts[1]), (std::vector<std::string>{"R", "R"}));
}

// Compares with the product of all rows that is filtered only at the end.
TEST(RowExpansion, IsTheFilteredProductOnAnyMesh) {
  const std::vector<std::vector<Placement>> rows = {row({"R", "R"}), row({"S(0)", "S(1)"}),
                                                    row({"P(sum)", "R"}), row({"P(max)", "S(0)"}),
                                                    row({"S(1)", "P(avg)"})};
  for (const char* mesh_text : {"4", "2x3", "3x2x2", "2x2x2x2"}) {
    const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
    for (const char* shape : {"f32[8,8]", "f32[5,3]", "f32[2,24]"}) {
      const TensorMeta tensor = meta(shape);
      const std::array<const TensorMeta*, 2> metas = {&tensor, &tensor};
      std::size_t combinations = 1;
      for (int m = 0; m < mesh.ndim(); ++m) combinations *= rows.size();
      std::vector<Placements> first;
      std::vector<Placements> second;
      for (std::size_t c = 0; c < combinations; ++c) {
        std::array<Placements, 2> both;
        std::size_t weight = combinations;
        for (int m = 0; m < mesh.ndim(); ++m) {
          weight /= rows.size();
          const std::vector<Placement>& own = rows[c / weight % rows.size()];
          both[0].push_back(own[0]);
          both[1].push_back(own[1]);
        }
        if (!is_layout_of(tensor, both[0], mesh) || !is_layout_of(tensor, both[1], mesh)) continue;
        first.push_back(both[0]);
        second.push_back(both[1]);
      }
      const auto layouts = expand_over_mesh(rows, metas, mesh);
      EXPECT_EQ(layouts[0], first) << mesh_text << " " << shape;
      EXPECT_EQ(layouts[1], second) << mesh_text << " " << shape;
    }
  }
}

TEST(RowExpansion, RefusesANodeWithTooManyRows) {
  std::vector<std::vector<Placement>> rows = {row({"R"})};
  for (int d = 0; d < 8; ++d) rows.push_back({Placement::shard(d)});
  const TensorMeta tensor = meta("f32[64,64,64,64,64,64,64,64]");
  const std::array<const TensorMeta*, 1> metas = {&tensor};
  try {
    static_cast<void>(expand_over_mesh(rows, metas, DeviceMesh::parse("2x2x2x2x2x2")));
    FAIL();
  } catch (const LimitError& error) {
    EXPECT_STREQ(error.what(), "more than 65536 strategies; valid: a mesh of fewer dims");
  }
}

TEST(LayoutTable, EqualLayoutsAndListsHaveOneNumber) {
  LayoutTable table;
  const LayoutId a = table.id(placements("S(0)R", 2));
  const LayoutId b = table.id(placements("RS(0)", 2));
  EXPECT_NE(a, b);
  EXPECT_EQ(table.id(placements("S(0)R", 2)), a);
  EXPECT_EQ(table.text(b), "RS(0)");
  EXPECT_NE(table.id(placements("R", 1)), table.id(placements("RR", 2)));
  const LayoutListId list = table.list({a, b});
  EXPECT_EQ(table.list({a, b}), list);
  EXPECT_NE(table.list({b, a}), list);
  EXPECT_EQ(table.list_at(list)[1], b);
}

}  // namespace row_expansion_test
}  // namespace shardlab
