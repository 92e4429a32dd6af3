#include "strategies/rules/view_rule.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace view_rule_test {

using testing_support::Random;
using testing_support::random_cases;
using Kind = ViewDim::Kind;

// Prints "2" for an input dim, "new", "0*1" for flattened dims, "0*1/(3,2)[0]" for a factor of
// them.
std::string text_of(const ViewDim& dim) {
  std::string text;
  for (const int in : dim.inputs) text += (text.empty() ? "" : "*") + std::to_string(in);
  if (dim.kind == Kind::kNew) return "new";
  if (dim.kind != Kind::kSplit) return text;
  text += "/(";
  for (std::size_t i = 0; i < dim.parts.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(dim.parts[i]);
  }
  return text + ")[" + std::to_string(dim.part) + "]";
}

TEST(ReshapeRule, MatchesTheLeastGroupsOfDims) {
  const auto rule = [](const Shape& from, const Shape& to) {
    std::string text;
    for (const ViewDim& dim : reshape_rule("view", from, to)) {
      text += (text.empty() ? "" : " ") + text_of(dim);
    }
    return text;
  };
  EXPECT_EQ(rule({2, 3, 4}, {2, 12}), "0 1*2");
  EXPECT_EQ(rule({2, 3, 4}, {6, 4}), "0*1 2");
  EXPECT_EQ(rule({24}, {2, 3, 4}), "0/(2,3,4)[0] 0/(2,3,4)[1] 0/(2,3,4)[2]");
  EXPECT_EQ(rule({2, 3}, {3, 2}), "0*1/(3,2)[0] 0*1/(3,2)[1]");
  EXPECT_EQ(rule({6}, {2, 1, 3}), "0/(2,3)[0] new 0/(2,3)[1]");
  EXPECT_EQ(rule({1, 4, 1}, {4}), "1");
  EXPECT_EQ(rule({4}, {1, 4, 1}), "new 0 new");
  EXPECT_EQ(rule({1, 4}, {1, 4}), "0 1");
  EXPECT_EQ(rule({2, 1, 3}, {6}), "0*1*2");
  EXPECT_EQ(rule({}, {1, 1}), "new new");
  EXPECT_EQ(rule({1, 1}, {}), "");
  EXPECT_EQ(rule({4, 0}, {2, 0}), "0/(2,0)[0] 0/(2,0)[1]");
}

TEST(ReshapeRule, PyTorchFailsOnSomeEmptyTensors) {
  for (const auto& [from, to] :
       {std::pair(Shape{0, 3}, Shape{3, 0}), {Shape{0}, Shape{0, 3}}, {Shape{0, 3}, Shape{0}}}) {
    EXPECT_THROW(static_cast<void>(reshape_rule("view", from, to)), InputError);
  }
}

struct DTensorCase {
  const char* name;
  Shape from;
  Shape to;
  const char* mesh;
  const char* layout;
  const char* as_view;  // "input|output", or words of the error
  const char* as_reshape;
};
void PrintTo(const DTensorCase& c, std::ostream* out) { *out << c.name; }
class DTensorView : public testing::TestWithParam<DTensorCase> {};

TEST_P(DTensorView, DoesWhatPyTorchDoes) {
  const DTensorCase& c = GetParam();
  const DeviceMesh mesh = DeviceMesh::parse(c.mesh);
  const Placements placements = Layout::parse(c.layout, mesh.ndim()).placements;
  const ViewRule rule = reshape_rule("view", c.from, c.to);
  for (const bool strict : {true, false}) {
    const std::string expected = strict ? c.as_view : c.as_reshape;
    try {
      const ViewLayouts layouts = dtensor_view("view", rule, c.from, placements, mesh, strict);
      EXPECT_EQ(Layout(layouts.input).text() + "|" + Layout(layouts.output).text(), expected)
          << strict;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << strict << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DTensorView,
    testing::Values(
        DTensorCase{"FirstOfFlattened", {4, 3}, {12}, "2", "S(0)", "S(0)|S(0)", "S(0)|S(0)"},
        DTensorCase{"LaterOfFlattened", {2, 4}, {8}, "2", "S(1)", "S(1)|_S(0,2)", "R|R"},
        DTensorCase{"FactorsAreLocal",
                    {4, 6},
                    {24},
                    "2x3",
                    "S(0)S(1)",
                    "S(0)S(1)|S(0)_S(0,2)",
                    "S(0)R|S(0)R"},
        DTensorCase{"UnevenFlatten",
                    {5, 4},
                    {20},
                    "2",
                    "S(0)",
                    "cannot flatten unevenly sharded tensor: dim 0 of extent 5",
                    "R|R"},
        DTensorCase{"UnevenLastDim", {4, 5}, {20}, "2", "S(1)", "S(1)|_S(0,4)", "R|R"},
        DTensorCase{
            "NestedUneven",
            {6, 4},
            {24},
            "2x2x2",
            "S(0)S(0)S(1)",
            "cannot shard unevenly distributed tensor: dim 0 of extent 3 is not divisible by "
            "the 2 ranks of mesh dim 1",
            "S(0)S(0)R|S(0)S(0)R"},
        DTensorCase{"Unflatten", {12}, {6, 2}, "3", "S(0)", "S(0)|S(0)", "S(0)|S(0)"},
        DTensorCase{"UnevenUnflatten",
                    {12},
                    {6, 2},
                    "4",
                    "S(0)",
                    "cannot unflatten unevenly sharded tensor: output part 0 of extent 6",
                    "R|R"},
        DTensorCase{
            "StridedComesBack", {8}, {2, 4}, "2", "_S(0,2)", "_S(0,2)|S(1)", "_S(0,2)|S(1)"},
        // This is a fault, since pieces of 8 elements do not fit into rows of 12.
        DTensorCase{
            "StridedStays", {24}, {2, 12}, "2", "_S(0,3)", "_S(0,3)|_S(1,3)", "_S(0,3)|_S(1,3)"},
        DTensorCase{"StridedFitsNowhere",
                    {24},
                    {4, 6},
                    "2",
                    "_S(0,5)",
                    "cannot unflatten",
                    "_S(0,5)|_S(0,5)"},
        DTensorCase{"RegroupedFirst", {6, 5}, {3, 10}, "3", "S(0)", "S(0)|S(0)", "S(0)|S(0)"},
        DTensorCase{"RegroupedFirstUneven",
                    {6, 5},
                    {3, 10},
                    "2",
                    "S(0)",
                    "cannot unflatten unevenly sharded tensor: output part 0 of extent 3",
                    "S(0)|S(0)"},
        DTensorCase{"RegroupedLater", {12, 8}, {16, 6}, "4", "S(1)", "R|R", "R|R"},
        DTensorCase{"Partials",
                    {2, 3},
                    {6},
                    "2x2",
                    "P(sum)S(0)",
                    "P(sum)S(0)|P(sum)S(0)",
                    "P(sum)S(0)|P(sum)S(0)"}),
    [](const auto& test) { return test.param.name; });

TEST(DTensorViewErrors, NameShardsThatPyTorchLosesTrackOf) {
  const DeviceMesh mesh = DeviceMesh::parse("4x2");
  const Shape shape = {2, 4};
  const auto layouts = [&](const ViewRule& rule, const char* layout) {
    return dtensor_view("aten.expand.default", rule, shape, Layout::parse(layout, 2).placements,
                        mesh, false);
  };
  const ViewRule copies = {ViewDim{.kind = Kind::kBroadcast, .inputs = {0}}, ViewDim::input(1)};
  EXPECT_THROW_MSG(static_cast<void>(layouts(copies, "S(0)R")), InputError,
                   "aten.expand.default: PyTorch finds no output dim for a shard of dim 0");
  EXPECT_EQ(Layout(layouts(copies, "S(1)R").output).text(), "S(1)R");
  // PyTorch's rule takes only the plain shard into account.
  const ViewRule flat = {ViewDim{.kind = Kind::kFlatten, .inputs = {0, 1}}};
  EXPECT_THROW_MSG(
      static_cast<void>(dtensor_view("aten.view.default", flat, shape,
                                     Layout::parse("_S(0,2)S(1)", 2).placements, mesh, true)),
      InputError, "aten.view.default: PyTorch finds no output dim for a shard of dim 0");
}

// -- The exact view against the elements that every rank holds ----------------------------------

using Elements = std::vector<std::vector<std::int64_t>>;  // for each rank, in local order

Elements elements_of(const Shape& shape, const Placements& placements, const DeviceMesh& mesh) {
  Elements all;
  const Layout layout(placements);
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    const std::vector<std::int64_t> coordinate = mesh.coordinate(rank);
    std::vector<std::int64_t> elements = {0};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::vector<std::int64_t> rows =
          local_rows(shape, static_cast<int>(d), layout, mesh, coordinate);
      std::vector<std::int64_t> longer;
      for (const std::int64_t element : elements) {
        for (const std::int64_t row : rows) longer.push_back(element * shape[d] + row);
      }
      elements = std::move(longer);
    }
    all.push_back(std::move(elements));
  }
  return all;
}

Shape random_shape(Random& random, std::int64_t elements) {
  Shape shape = {elements};
  for (int cut = random.below(4); cut > 0; --cut) {
    const auto d = static_cast<std::size_t>(random.below(static_cast<int>(shape.size())));
    std::vector<std::int64_t> divisors;
    for (std::int64_t n = 1; n <= shape[d]; ++n) {
      if (shape[d] % n == 0) divisors.push_back(n);
    }
    const std::int64_t outer = random.pick(divisors);
    shape[d] /= outer;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), outer);
  }
  return shape;
}

Placement random_shard(Random& random, const Shape& shape) {
  const int dim = random.below(static_cast<int>(shape.size()));
  return random.below(2) == 0 ? Placement::shard(dim)
                              : Placement::strided_shard(dim, random.below(4) + 1);
}

TEST(ExactView, KeepsWhatHoldsTheSameElementsOnEveryRank) {
  SHARDLAB_TRACE_SEED();
  Random random(7);
  int kept = 0;
  for (int i = 0; i < random_cases(4000); ++i) {
    const DeviceMesh mesh = DeviceMesh::parse(
        random.pick(std::vector<std::string>{"2", "3", "4", "2x2", "2x3", "3x2", "2x2x2"}));
    const std::int64_t elements =
        random.pick(std::vector<std::int64_t>{4, 6, 8, 12, 20, 24, 30, 36});
    const Shape from = random_shape(random, elements);
    const Shape to = random_shape(random, elements);
    Placements placements;
    for (int m = 0; m < mesh.ndim(); ++m) {
      placements.push_back(random.below(4) == 0 ? Placement::replicate()
                                                : random_shard(random, from));
    }
    const ViewLayouts layouts = exact_view(from, to, placements, mesh);
    EXPECT_EQ(elements_of(from, layouts.input, mesh), elements_of(to, layouts.output, mesh))
        << TensorMeta{DType::kF32, from, {}}.text() << Layout(layouts.input).text() << " "
        << TensorMeta{DType::kF32, to, {}}.text() << Layout(layouts.output).text();
    kept += layouts.input == placements ? 1 : 0;
  }
  EXPECT_GT(kept, random_cases(4000) / 8);
}

TEST(ShowsAlike, SaysWhetherEveryRankHoldsTheSameElements) {
  SHARDLAB_TRACE_SEED();
  Random random(9);
  int alike = 0;
  for (int i = 0; i < random_cases(20000); ++i) {
    const DeviceMesh mesh =
        DeviceMesh::parse(random.pick(std::vector<std::string>{"2", "3", "2x2", "2x3", "2x2x2"}));
    const std::int64_t elements = random.pick(std::vector<std::int64_t>{8, 12, 24, 30});
    const Shape from = random_shape(random, elements);
    const Shape to = random_shape(random, elements);
    ViewLayouts layouts;
    for (int m = 0; m < mesh.ndim(); ++m) {
      layouts.input.push_back(random_shard(random, from));
      layouts.output.push_back(random_shard(random, to));
    }
    if (i % 2 == 1) layouts = exact_view(from, to, layouts.input, mesh);
    const bool same =
        elements_of(from, layouts.input, mesh) == elements_of(to, layouts.output, mesh);
    const bool said = shows_alike(from, to, layouts, mesh);
    // A view never makes pieces of different lengths, or shards after an empty one.
    EXPECT_TRUE(same || !said) << Layout(layouts.input).text() << Layout(layouts.output).text();
    EXPECT_TRUE(said || i % 2 == 0) << Layout(layouts.input).text();
    alike += said ? 1 : 0;
  }
  EXPECT_GT(alike, random_cases(20000) / 2);
}

// DTensor takes elements 0 to 3 of each of 4 pieces of 16 for the strided shard R_S(1,4) of [8,8].
TEST(ShowsAlike, SaysNoForShardsThatPyTorchMixesUp) {
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  const Placements flat = Layout::parse("R_S(0,4)", 2).placements;
  EXPECT_FALSE(shows_alike({64}, {8, 8}, {flat, Layout::parse("R_S(1,4)", 2).placements}, mesh));
  EXPECT_FALSE(shows_alike({64}, {8, 8}, {flat, Layout::parse("RR", 2).placements}, mesh));
  EXPECT_TRUE(shows_alike({64}, {4, 16}, {flat, Layout::parse("RS(1)", 2).placements}, mesh));
}

TEST(ExactView, LosesNoShardThatTheResultCanHave) {
  SHARDLAB_TRACE_SEED();
  Random random(8);
  int lost = 0;
  for (int i = 0; i < random_cases(1500); ++i) {
    const DeviceMesh mesh = DeviceMesh::parse(random.pick(std::vector<std::string>{"2", "3", "4"}));
    const std::int64_t elements = random.pick(std::vector<std::int64_t>{4, 6, 8, 12, 20, 24});
    const Shape from = random_shape(random, elements);
    const Shape to = random_shape(random, elements);
    const Placement shard = Placement::shard(random.below(static_cast<int>(from.size())));
    // A single row is on one rank, and any split factor describes that.
    if (from[to_index(shard.dim())] == 1) continue;
    if (!exact_view(from, to, {shard}, mesh).input[0].is_replicate()) continue;
    ++lost;
    const Elements held = elements_of(from, {shard}, mesh);
    for (int d = 0; d < static_cast<int>(to.size()); ++d) {
      for (int factor = 1; factor <= to[to_index(d)]; ++factor) {
        // A flattened shard has no pieces of different lengths.
        if (to[to_index(d)] % factor != 0) continue;
        EXPECT_NE(elements_of(to, {Placement::strided_shard(d, factor)}, mesh), held)
            << TensorMeta{DType::kF32, from, {}}.text() << shard.text() << " on " << mesh.text()
            << " as " << TensorMeta{DType::kF32, to, {}}.text() << " _S(" << d << "," << factor
            << ")";
      }
    }
  }
  EXPECT_GT(lost, random_cases(1500) / 30);
}

TEST(ExactView, ReplicatesTensorsWithoutElements) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const ViewLayouts layouts =
      exact_view({0, 4}, {2, 0}, Layout::parse("S(1)P(sum)", 2).placements, mesh);
  EXPECT_EQ(Layout(layouts.input).text() + "|" + Layout(layouts.output).text(), "RP(sum)|RP(sum)");
}

}  // namespace view_rule_test
}  // namespace shardlab
