#include "reports/picture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/writers/layouts_html.h"
#include "reports/writers/picture_svg.h"

namespace shardlab::reports {
namespace picture_test {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

// Two streams of a rank: the second runs for 4 of 10 us, waits for 5, and runs for 1.
reports::Timeline two_streams() {
  reports::Timeline timeline;
  timeline.id = "run";
  timeline.title = "What `rank 0` does.";
  timeline.unit = "us";
  timeline.end = 10.0;
  timeline.series = {"kernels", "all_gather"};
  Lane compute{"compute", {{"aten.mm.default for up", 0.0, 9.0, 0}}};
  Lane communication{"communication", {}};
  communication.bars.push_back({"all_gather <S(0)>", 0.0, 4.0, 1});
  communication.bars.push_back({"rank 6", 4.0, 9.0, 7, true});
  communication.bars.push_back({"all_gather", 9.0, 10.0, 1, false, 0.5});
  timeline.tracks = {{"rank 0 on host 0", {compute, communication}}};
  return timeline;
}

TEST(Picture, LanesCountWhatRunsAndWhatWaits) {
  const reports::Timeline timeline = two_streams();
  const Lane& lane = timeline.tracks[0].lanes[1];
  EXPECT_DOUBLE_EQ(lane.busy(), 4.5);
  EXPECT_DOUBLE_EQ(lane.waits(), 5.0);
  const Table table = picture_table(timeline);
  ASSERT_EQ(table.columns.size(), 6U);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(std::get<std::string>(table.rows[1][1].value), "communication");
  EXPECT_EQ(std::get<double>(table.rows[1][2].value), 2.0);
  EXPECT_EQ(std::get<double>(table.rows[1][4].value), 45.0);
  EXPECT_EQ(std::get<double>(table.rows[1][5].value), 5.0);
}

TEST(Picture, ATableNamesNeitherRanksNorWaitsThatThereAreNot) {
  reports::Timeline timeline = two_streams();
  timeline.tracks[0].title.clear();
  timeline.tracks[0].lanes.pop_back();
  EXPECT_EQ(picture_table(timeline).columns.size(), 4U);
}

TEST(Picture, ATimelineIsDrawnToScaleWithItsWaitsLighterAndNamed) {
  const std::string svg = timeline_svg(two_streams());
  EXPECT_EQ(count(svg, "<rect class=\"lane\""), 2U);
  EXPECT_EQ(count(svg, "<title>"), 4U);
  EXPECT_NE(svg.find("<svg x=\"40%\" y=\"94\" width=\"50%\" height=\"22\"><title>waits for rank 6, "
                     "4.00 to 9.00 us</title><rect class=\"series-8 waits\""),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find(">waits for rank 6</text>"), std::string::npos);
  EXPECT_NE(svg.find("busy 90.0 %"), std::string::npos);
  EXPECT_NE(svg.find("busy 45.0 %"), std::string::npos);
  // Names from a record can't become markup.
  EXPECT_EQ(svg.find("<S(0)>"), std::string::npos);
  EXPECT_NE(svg.find("all_gather &lt;S(0)&gt;"), std::string::npos);
  EXPECT_NE(timeline_legend(two_streams()).find("waiting"), std::string::npos);
}

TEST(Picture, ANameStandsOnABarOnlyIfItFits) {
  reports::Timeline timeline = two_streams();
  std::vector<Bar>& bars = timeline.tracks[0].lanes[0].bars;
  const auto names_on_bars = [&] { return count(timeline_svg(timeline), "class=\"on-bar\""); };
  bars = {{"aten.mm.default for up", 0.0, 9.0, 0}};
  const std::size_t all = names_on_bars();
  bars = {{"aten.mm.default for up", 0.0, 2.0, 0}};  // 140 pixels: the first word fits
  EXPECT_EQ(names_on_bars(), all);
  EXPECT_NE(timeline_svg(timeline).find(">aten.mm.default</text>"), std::string::npos);
  bars = {{"aten.mm.default for up", 0.0, 1.0, 0}};  // 70 pixels: nothing does
  EXPECT_EQ(names_on_bars(), all - 1);
}

TEST(Picture, AnAxisBeginsAtZeroAndHasEvenMarks) {
  EXPECT_EQ(axis_marks(10.0, 7), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_marks(317.39, 4), (std::vector<double>{0, 100, 200, 300}));
  EXPECT_EQ(axis_marks(0.7, 7).size(), 8U);
  EXPECT_EQ(axis_marks(0.0, 7), std::vector<double>{0.0});
  EXPECT_EQ(axis_text(0.2, 0.1), "0.2");
  EXPECT_EQ(axis_text(2000.0, 500.0), "2,000");
  EXPECT_EQ(axis_text(0.0, 0.25), "0.0");
}

// Two devices with a summand each of the upper half of a matrix, then one with all and one with
// none.
LayoutPicture two_stages() {
  LayoutPicture picture;
  picture.id = "layouts";
  picture.title = "Who holds what.";
  picture.columns = 2;
  const HeldTile::Area upper{0.0, 0.0, 1.0, 0.5};
  picture.stages = {{"P(sum)",
                     "two summands",
                     {{"0", "1/2", "sum 1/2", 0, {upper}}, {"1", "1/2", "sum 2/2", 0, {upper}}},
                     TileGroups::kRows,
                     {{"1/2", "[0:4, :]"}}},
                    {"<R>",
                     "all or nothing",
                     {{"0", "all", "", 7, {HeldTile::Area()}}, {"1", "none", "", 1, {}}},
                     TileGroups::kNone,
                     {}}};
  picture.moves = {{"all_reduce", {"along mesh dim 0", "24 B moved"}}};
  return picture;
}

TEST(Picture, StagesHoldTilesWithTheirPartsStripesAndFrames) {
  const std::string html = layouts_html(two_stages());
  EXPECT_EQ(count(html, "class=\"stage\""), 2U);
  EXPECT_EQ(count(html, "class=\"move\""), 1U);
  EXPECT_EQ(count(html, "<rect class=\"tile\""), 4U);
  EXPECT_EQ(count(html, "<rect class=\"series-1 held partial\""), 2U);
  EXPECT_EQ(count(html, "<rect class=\"series-8 held\""), 1U);
  EXPECT_EQ(count(html, "class=\"stripes series-1\""), 2U);
  EXPECT_EQ(count(html, "class=\"frame\""), 1U);
  EXPECT_NE(html.find("<p>1/2 is <code>[0:4, :]</code></p>"), std::string::npos);
  EXPECT_NE(html.find("<strong>all_reduce</strong></p><p>along mesh dim 0</p><p>24 B moved</p>"),
            std::string::npos);
  EXPECT_EQ(html.find("<R>"), std::string::npos);
  EXPECT_NE(html.find("<code>&lt;R&gt;</code>"), std::string::npos);
}

TEST(Picture, FramesSurroundRowsColumnsOrAll) {
  LayoutPicture picture = two_stages();
  const auto frames = [&](TileGroups joined) {
    picture.stages[0].joined = joined;
    return count(layouts_html(picture), "class=\"frame\"");
  };
  EXPECT_EQ(frames(TileGroups::kNone), 0U);
  EXPECT_EQ(frames(TileGroups::kRows), 1U);
  EXPECT_EQ(frames(TileGroups::kColumns), 2U);
  EXPECT_EQ(frames(TileGroups::kAll), 1U);
}

TEST(Picture, ATableOfStagesNamesTheRanksOfEachPart) {
  const Table table = picture_table(two_stages());
  const auto row = [&](std::size_t i) {
    std::string text;
    for (const Cell& cell : table.rows.at(i)) text += std::get<std::string>(cell.value) + "|";
    return text;
  };
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(row(0), "before|P(sum)|1/2|sum 1/2|0|");
  EXPECT_EQ(row(2), "step 1, all_reduce|<R>|all|final|0|");
  LayoutPicture alike = two_stages();
  alike.stages[0].tiles[1].partial = "sum 1/2";
  EXPECT_EQ(std::get<std::string>(picture_table(alike).rows.at(0)[4].value), "0, 1");
}

HostPicture two_hosts() {
  HostPicture picture;
  picture.id = "mesh";
  picture.title = "The ranks.";
  for (const int host : {0, 1}) {
    HostBox box{"host " + std::to_string(host), {}};
    for (int rank = 0; rank < 4; ++rank) {
      box.ranks.push_back(
          {std::to_string(4 * host + rank), std::to_string(host) + "," + std::to_string(rank)});
    }
    picture.hosts.push_back(box);
  }
  picture.groups = {{"dim 0", "over the network", {{0, 0}, {1, 0}}, true},
                    {"dim 1", "over nvlink", {{0, 0}, {0, 1}, {0, 2}, {0, 3}}, false}};
  picture.more = "and 2 more hosts";
  return picture;
}

TEST(Picture, HostsHoldTheirRanksAndALineJoinsEachGroup) {
  const std::string svg = host_svg(two_hosts());
  EXPECT_EQ(count(svg, "<rect class=\"host\""), 2U);
  EXPECT_EQ(count(svg, "<rect class=\"tile\""), 8U);
  EXPECT_EQ(count(svg, "<path class=\"group"), 2U);
  EXPECT_EQ(count(svg, "<circle"), 6U);
  EXPECT_NE(svg.find(">1,3</text>"), std::string::npos);
  EXPECT_NE(svg.find("and 2 more hosts"), std::string::npos);
  EXPECT_NE(host_legend(two_hosts()).find("over nvlink"), std::string::npos);
  const Table table = picture_table(two_hosts());
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(std::get<std::string>(table.rows[0][2].value), "ranks 0, 4 and more");
  EXPECT_EQ(std::get<std::string>(table.rows[1][2].value), "ranks 0, 1, 2, 3");
}

AreaPicture three_moments(double parameters) {
  AreaPicture picture;
  picture.id = "memory";
  picture.title = "What a device holds.";
  picture.unit = "us";
  picture.end = 10.0;
  picture.starts = {0.0, 5.0, 8.0};
  picture.parts = {{"parameters", {parameters, parameters, parameters}},
                   {"activations", {0.0, 100e6, 50e6}}};
  return picture;
}

TEST(Picture, AnAreaStandsOnZeroAndMarksItsPeak) {
  const AreaPicture picture = three_moments(300e6);
  EXPECT_EQ(picture.peak(), 1U);
  EXPECT_EQ(picture.sum_at(1), 400e6);
  const std::string svg = area_svg(picture);
  // 300 of 400 MB are three quarters of the height, whatever lies above them.
  EXPECT_NE(svg.find("d=\"M0 250V250H500V250H800V250H1000V1000H800V1000H500V1000H0Z\""),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("d=\"M0 250V250H500V0H800V125H1000V250H800V250H500V250H0Z\""),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("peak: 400 MB"), std::string::npos);
  const Table table = picture_table(picture);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(std::get<double>(table.rows[2][2].value), 400e6);
  EXPECT_EQ(std::get<double>(table.rows[2][3].value), 350e6);
}

// 317.20 to 317.39 MB differ by less than a thousandth of the picture's height.
TEST(Picture, ASmallDifferenceIsDrawnFlat) {
  AreaPicture picture = three_moments(0.0);
  picture.parts = {{"all", {317.20e6, 317.39e6, 317.20e6}}};
  const std::string svg = area_svg(picture);
  EXPECT_NE(svg.find("d=\"M0 207V207H500V206.52H800V207H1000V1000"), std::string::npos) << svg;
}

}  // namespace picture_test
}  // namespace shardlab::reports
