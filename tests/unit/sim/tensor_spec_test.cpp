#include "sim/tensor_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_chunks.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace tensor_spec_test {

using testing_support::all_layouts;
using testing_support::all_orders;
using testing_support::all_rows;
using testing_support::cut;
using testing_support::cut_strided;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::random_tensor;
using testing_support::RowList;
using testing_support::rows_at;

TEST(TensorText, PrintsWhatItParses) {
  for (const char* text : {"f32[]", "bf16[8192,4096]", "i64[0]", "b8[1,2,3]"}) {
    EXPECT_EQ(TensorMeta::parse(text).text(), text);
  }
  EXPECT_EQ(TensorMeta::parse(" bool [ 2 , 3 ] ").text(), "b8[2,3]");
}

TEST(TensorText, CountsItsBytes) {
  EXPECT_EQ(TensorMeta::parse("f32[]").bytes(), 4.0);
  EXPECT_EQ(TensorMeta::parse("bf16[8192,4096]").bytes(), 8192.0 * 4096 * 2);
  EXPECT_EQ(TensorMeta::parse("f64[3,0,5]").bytes(), 0.0);
}

struct TensorError {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const TensorError& c, std::ostream* out) { *out << c.text; }
class TensorErrors : public testing::TestWithParam<TensorError> {};

TEST_P(TensorErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(TensorMeta::parse(GetParam().text), TextError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorErrors,
    testing::Values(
        TensorError{"UnknownDType", "f31[8]",
                    "tensor \"f31[8]\": at position 0: expected a dtype: f64 f32 f16 bf16 f8e4m3 "
                    "f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64"},
        TensorError{"NoShape", "f32",
                    "tensor \"f32\": at position 3: expected \"[\" and the shape"},
        TensorError{"NotClosed", "f32[8",
                    "tensor \"f32[8\": at position 5: expected \",\" and another dim size, or "
                    "\"]\""},
        TensorError{"DanglingComma", "f32[8,]",
                    "tensor \"f32[8,]\": at position 6: expected a dim size"},
        TensorError{"NegativeSize", "f32[-1]",
                    "tensor \"f32[-1]\": at position 4: expected a dim size from 0 to "
                    "9007199254740992"},
        TensorError{"SeventeenDims", "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
                    "tensor \"f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\": at position 36: expected "
                    "at most 16 tensor dims"},
        TensorError{"TooLarge", "f32[4294967296,1048576]",
                    "tensor \"f32[4294967296,1048576]\": at position 0: expected a tensor of at "
                    "most 2^53 bytes"},
        TensorError{"Trailing", "f32[8]x",
                    "tensor \"f32[8]x\": at position 6: expected the end of the tensor"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(TensorMeta, IsContiguousUnlessItsStridesSayOtherwise) {
  TensorMeta meta = TensorMeta::parse("f32[4,1,6]");
  EXPECT_TRUE(meta.is_contiguous());
  meta.strides = {6, 6, 1};
  EXPECT_TRUE(meta.is_contiguous());
  meta.strides = {6, 99, 1};  // the stride 99 of a dim with one row is never used
  EXPECT_TRUE(meta.is_contiguous());
  meta.strides = {1, 4, 4};
  EXPECT_FALSE(meta.is_contiguous());
}

TEST(TensorSpec, IsATensorAndALayout) {
  const TensorSpec spec = TensorSpec::parse("f32[16,16] S(0)R", 2);
  EXPECT_EQ(spec.meta, TensorMeta::parse("f32[16,16]"));
  EXPECT_EQ(spec.layout, Layout::parse("S(0)R", 2));
  EXPECT_EQ(spec.text(), "f32[16,16] S(0)R");
}

TEST(TensorSpec, RefusesAShardOfADimThatTheTensorLacks) {
  const TensorMeta matrix = TensorMeta::parse("f32[16,16]");
  EXPECT_THROW_MSG(parse_layout("RS(2)", 2, matrix), TextError,
                   "layout \"RS(2)\": at position 0: expected shards of tensor dims 0 to 1, found "
                   "S(2)");
  EXPECT_THROW_MSG(parse_layout("_S(3,2)R", 2, matrix), TextError,
                   "layout \"_S(3,2)R\": at position 0: expected shards of tensor dims 0 to 1, "
                   "found _S(3,2)");
  EXPECT_THROW_MSG(parse_layout("S(0)", 1, TensorMeta::parse("f32[]")), TextError,
                   "layout \"S(0)\": at position 0: expected no shard, since the tensor has no "
                   "dims; found S(0)");
  EXPECT_THROW(static_cast<void>(TensorSpec::parse("f32[16] S(1)", 1)), TextError);
}

// -- Chunks -------------------------------------------------------------------------------------

TEST(Chunk, OfThePublishedExamples) {
  const auto sizes = [](std::int64_t extent, std::int64_t n) {
    std::vector<std::int64_t> all;
    for (std::int64_t r = 0; r < n; ++r) all.push_back(chunk_of(extent, n, r).size);
    return all;
  };
  EXPECT_EQ(sizes(5, 4), (std::vector<std::int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(sizes(8, 3), (std::vector<std::int64_t>{3, 3, 2}));
  EXPECT_EQ(sizes(14, 4), (std::vector<std::int64_t>{4, 4, 4, 2}));  // R81
}

TEST(Chunk, PastTheEndStartsAtTheExtent) {
  EXPECT_EQ(chunk_of(5, 4, 3), (Chunk{0, 5}));
  EXPECT_EQ(chunk_of(0, 4, 0), (Chunk{0, 0}));
  EXPECT_EQ(chunk_of(1, 4, 2), (Chunk{0, 1}));
}

TEST(Chunk, EqualsTheNaiveCutForEveryExtentUpTo17AndUpTo6Pieces) {
  for (std::int64_t extent = 0; extent <= 17; ++extent) {
    for (std::int64_t n = 1; n <= 6; ++n) {
      const auto pieces = cut(all_rows(extent), n);
      std::int64_t end = 0;
      for (std::int64_t r = 0; r < n; ++r) {
        const Chunk chunk = chunk_of(extent, n, r);
        const RowList& piece = pieces[to_index(r)];
        EXPECT_EQ(chunk.size, static_cast<std::int64_t>(piece.size())) << extent << "/" << n;
        EXPECT_EQ(chunk.offset, piece.empty() ? extent : piece.front()) << extent << "/" << n;
        EXPECT_EQ(chunk.offset, end) << "chunks leave no gap";
        end = chunk.offset + chunk.size;
      }
      EXPECT_EQ(end, extent);
    }
  }
}

TEST(StridedRows, OfThePublishedExamples) {
  const auto rows = [](std::int64_t extent, std::int64_t factor, std::int64_t n) {
    std::vector<RowList> all;
    for (std::int64_t r = 0; r < n; ++r) all.push_back(strided_rows(extent, factor, n, r));
    return all;
  };
  EXPECT_EQ(rows(9, 2, 4), (std::vector<RowList>{{0, 1, 5}, {2, 3, 6}, {4, 7}, {8}}));
  EXPECT_EQ(rows(5, 2, 2), (std::vector<RowList>{{0, 1, 3}, {2, 4}}));
  EXPECT_EQ(rows(8, 2, 2), (std::vector<RowList>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(StridedRows, TheProposalOf168134ViewsTheExtentAsAMatrix) {
  const auto rows = [](std::int64_t r) {
    return strided_rows(5, 2, 2, r, StridedVariant::kUnflatten);
  };
  EXPECT_EQ(rows(0), (RowList{0, 1, 3, 4}));
  EXPECT_EQ(rows(1), (RowList{2}));
}

TEST(StridedRows, EqualTheNaiveCutForAllSmallCases) {
  for (std::int64_t extent = 0; extent <= 17; ++extent) {
    for (std::int64_t factor = 1; factor <= 4; ++factor) {
      for (std::int64_t n = 1; n <= 6; ++n) {
        for (std::int64_t r = 0; r < n; ++r) {
          EXPECT_EQ(strided_rows(extent, factor, n, r), cut_strided(all_rows(extent), factor, n, r))
              << "extent " << extent << " factor " << factor << " n " << n << " r " << r;
        }
      }
    }
  }
}

TEST(StridedRows, OfBothVariantsPartitionTheExtentAndAgreeWhereItDividesEvenly) {
  for (std::int64_t extent = 0; extent <= 17; ++extent) {
    for (std::int64_t factor = 1; factor <= 4; ++factor) {
      for (std::int64_t n = 1; n <= 6; ++n) {
        for (const auto variant : {StridedVariant::kChunkOfChunks, StridedVariant::kUnflatten}) {
          RowList all;
          for (std::int64_t r = 0; r < n; ++r) {
            const RowList rows = strided_rows(extent, factor, n, r, variant);
            EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
            all.insert(all.end(), rows.begin(), rows.end());
            if (extent % (factor * n) == 0) {
              EXPECT_EQ(rows, strided_rows(extent, factor, n, r));
            }
          }
          std::sort(all.begin(), all.end());
          EXPECT_EQ(all, all_rows(extent));
        }
      }
    }
  }
}

TEST(StridedRows, ByOneAreAPlainShard) {
  for (std::int64_t extent = 0; extent <= 17; ++extent) {
    for (std::int64_t r = 0; r < 3; ++r) {
      EXPECT_EQ(strided_rows(extent, 1, 3, r), cut(all_rows(extent), 3)[to_index(r)]);
    }
  }
}

TEST(StridedSize, IsTheNumberOfRowsAndLargestAtCoordinateZero) {
  for (std::int64_t extent = 0; extent <= 40; ++extent) {
    for (std::int64_t factor = 1; factor <= 7; ++factor) {
      for (std::int64_t n = 1; n <= 6; ++n) {
        for (std::int64_t r = 0; r < n; ++r) {
          const std::int64_t size = strided_size(extent, factor, n, r);
          EXPECT_EQ(size, static_cast<std::int64_t>(strided_rows(extent, factor, n, r).size()))
              << "extent " << extent << " factor " << factor << " n " << n << " r " << r;
          EXPECT_LE(size, strided_size(extent, factor, n, 0));
        }
      }
    }
  }
}

// -- Local shapes -------------------------------------------------------------------------------

std::vector<std::int64_t> local_extents(const char* mesh_text, const char* layout_text,
                                        std::int64_t extent) {
  const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
  const Layout layout = Layout::parse(layout_text, mesh.ndim());
  std::vector<std::int64_t> all;
  for (std::int64_t r = 0; r < mesh.size(); ++r) {
    all.push_back(local_shape({extent}, layout, mesh, mesh.coordinate(r))[0]);
  }
  return all;
}

TEST(LocalShape, NestedChunksAreNotFlatChunks) {
  EXPECT_EQ(local_extents("2x2", "S(0)S(0)", 5), (std::vector<std::int64_t>{2, 1, 1, 1}));
  EXPECT_EQ(local_extents("4", "S(0)", 5), (std::vector<std::int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(local_extents("3x2", "S(0)S(0)", 8), (std::vector<std::int64_t>{2, 1, 2, 1, 1, 1}));
  EXPECT_EQ(local_extents("6", "S(0)", 8), (std::vector<std::int64_t>{2, 2, 2, 2, 0, 0}));
}

TEST(LocalShape, NestedAndFlatChunksAgreeExactlyWhereTheExtentDivides) {
  for (std::int64_t extent = 1; extent <= 36; ++extent) {
    const bool equal =
        local_extents("2x3", "S(0)S(0)", extent) == local_extents("6", "S(0)", extent);
    if (extent % 6 == 0) {
      EXPECT_TRUE(equal) << extent;
    }
  }
  EXPECT_NE(local_extents("2x3", "S(0)S(0)", 8), local_extents("6", "S(0)", 8));
}

TEST(LocalShape, TheShardOrderDecidesWhoIsOuter) {
  // 5 rows on a mesh (2,3). In default order mesh dim 0 makes 3 and 2 rows, which mesh dim 1 cuts
  // into 1,1,1 and 1,1,0. In reversed order mesh dim 1 makes 2, 2 and 1 rows, which mesh dim 0 cuts
  // into 1,1 and 1,1 and 1,0.
  EXPECT_EQ(local_extents("2x3", "S(0)[0]S(0)[1]", 5),
            (std::vector<std::int64_t>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(local_extents("2x3", "S(0)[1]S(0)[0]", 5),
            (std::vector<std::int64_t>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(local_extents("2x3", "S(0)[0]S(0)[1]", 7),
            (std::vector<std::int64_t>{2, 2, 0, 1, 1, 1}));
  EXPECT_EQ(local_extents("2x3", "S(0)[1]S(0)[0]", 7),
            (std::vector<std::int64_t>{2, 2, 1, 1, 1, 0}));
}

TEST(LocalRows, OfARightToLeftShardAreStrided) {
  // 8 rows under _S(0,2)S(0) on a mesh (2,2): the ranks hold rows (0,1), (4,5), (2,3) and (6,7).
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const Layout layout = Layout::parse("_S(0,2)S(0)", 2);
  const std::vector<RowList> expected = {{0, 1}, {4, 5}, {2, 3}, {6, 7}};
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(local_rows({8}, 0, layout, mesh, mesh.coordinate(r)), expected[to_index(r)]);
  }
}

TEST(LocalRows, EqualTheNaiveTwinForRandomLayouts) {
  Random random(22);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(1500); ++i) {
    const DeviceMesh mesh = random_mesh(random, 4, 4, 64);
    const TensorMeta meta = random_tensor(random, 3, 17);
    const Layout layout = random_layout(random, mesh, meta.ndim(), {.strided = random.percent(40)});
    const std::vector<std::int64_t> at =
        mesh.coordinate(random.below(static_cast<int>(mesh.size())));
    const Shape local = local_shape(meta.shape, layout, mesh, at);
    for (int d = 0; d < meta.ndim(); ++d) {
      const auto dim = static_cast<std::size_t>(d);
      const RowList expected = rows_at(meta.shape[dim], d, layout, mesh, at);
      EXPECT_EQ(local_rows(meta.shape, d, layout, mesh, at), expected)
          << meta.text() << " " << layout.text() << " on " << mesh.text();
      EXPECT_EQ(local[dim], static_cast<std::int64_t>(expected.size()));
    }
  }
}

// -- Numbers of shards --------------------------------------------------------------------------

TEST(NumShards, MultipliesTheMeshDimsThatShard) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3x5");
  EXPECT_EQ(num_shards(Layout::parse("S(0)RS(1)", 3).placements, mesh, true), 10);
  EXPECT_EQ(num_shards(Layout::parse("RPR", 3).placements, mesh, true), 1);
}

TEST(NumShards, CountsStridedShardsOnlyWhenAsked) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  const Placements placements = Layout::parse("S(0)_S(0,2)", 2).placements;
  EXPECT_EQ(num_shards(placements, mesh, true), 6);
  EXPECT_EQ(num_shards(placements, mesh, false), 2);
}

TEST(Shardable, NeedsOneElementAShard) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  const auto can = [&](std::int64_t extent, const char* layout) {
    return is_shardable({extent, 100}, Layout::parse(layout, 2).placements, mesh);
  };
  EXPECT_TRUE(can(6, "S(0)S(0)"));
  EXPECT_FALSE(can(5, "S(0)S(0)"));
  EXPECT_TRUE(can(2, "S(0)R"));
  EXPECT_FALSE(can(1, "S(0)R"));
  EXPECT_TRUE(can(1, "RS(1)"));
  EXPECT_TRUE(can(0, "RP"));
}

TEST(Shardable, AStridedShardNeedsAnElementForEveryPieceOfEveryShard) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  EXPECT_TRUE(is_shardable({12}, Layout::parse("_S(0,3)S(0)", 2).placements, mesh));
  EXPECT_FALSE(is_shardable({5}, Layout::parse("_S(0,3)S(0)", 2).placements, mesh));  // 2 * 3
  EXPECT_TRUE(is_shardable({6}, Layout::parse("_S(0,3)S(0)", 2).placements, mesh));
  EXPECT_FALSE(is_shardable({11}, Layout::parse("S(0)_S(0,2)", 2).placements, mesh));  // 2 * 3 * 2
}

TEST(Shardable, NotOnADimThatTheTensorLacks) {
  EXPECT_FALSE(is_shardable({8}, Layout::parse("S(1)", 1).placements, DeviceMesh::parse("1")));
  EXPECT_FALSE(is_shardable({}, Layout::parse("S(0)", 1).placements, DeviceMesh::parse("1")));
}

TEST(EvenlyShardable, NeedsTheExtentDividedByEveryPrefix) {
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  const auto even = [&](std::int64_t extent, const char* layout) {
    return is_evenly_shardable_on_dim({extent}, Layout::parse(layout, 2).placements, mesh, 0);
  };
  EXPECT_TRUE(even(12, "S(0)S(0)"));
  EXPECT_FALSE(even(8, "S(0)S(0)"));
  EXPECT_TRUE(even(8, "S(0)R"));
  EXPECT_FALSE(even(9, "S(0)R"));
  EXPECT_TRUE(even(7, "RP"));
  EXPECT_TRUE(even(12, "_S(0,3)R"));
  EXPECT_FALSE(even(10, "_S(0,3)R"));
}

TEST(TensorSpec, OfNoMeshDimsReadsBackWhatItPrints) {
  const TensorSpec spec = TensorSpec::parse("f16[96],", 0);
  EXPECT_EQ(TensorSpec::parse(spec.text(), 0), spec);
}

}  // namespace tensor_spec_test
}  // namespace shardlab
