// What the report of a solved program pictures is added up once more, by other ways than the
// program itself takes: bytes that move are counted where virtual ranks move them, bytes of tensors
// are multiplied out from their texts, and the memory over the step is held against its stated
// peak.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_pictures_test {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr int kMeshSize = 2;  // of both mesh dims

class SolvePictures : public testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult solved =
        run_shardlab({"solve", "transformer-block", "--mesh", "2x2", "--stack", "alpha-beta",
                      "--pin-inputs", "S(0)R", "--format", "json", "--no-timing", "--out", "out"},
                     folder_.path());
    ASSERT_EQ(solved.exit_code, 0) << solved.err;
    folder_.write("plan.json", solved.out);
    result_ = json::parse(read_text(folder_.path() / "out/record.json"))["result"];
  }
  json run(Words words) const {
    words.insert(words.end(), {"--format", "json", "--no-timing"});
    const ProcessResult done = run_shardlab(words, folder_.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out);
  }
  TemporaryFolder folder_;
  json result_;
};

// "f32[512,8]" as the extents and the bytes of an element.
std::pair<std::vector<double>, double> tensor_of(const std::string& text) {
  const double itemsize = text.starts_with("i64") ? 8.0 : text.starts_with("f32") ? 4.0 : 0.0;
  EXPECT_GT(itemsize, 0.0) << text;
  std::vector<double> shape;
  std::istringstream extents(text.substr(text.find('[') + 1));
  for (double extent = 0.0; extents >> extent; extents.ignore(1)) shape.push_back(extent);
  return {shape, itemsize};
}

// What rank 0 holds: each shard of a layout such as "S(0)R" halves its dim, rounded up.
double bytes_of_rank_0(const std::string& tensor, const std::string& layout) {
  auto [shape, bytes] = tensor_of(tensor);
  for (std::size_t at = layout.find("S("); at != std::string::npos;
       at = layout.find("S(", at + 1)) {
    double& extent = shape.at(static_cast<std::size_t>(layout[at + 2] - '0'));
    extent = std::ceil(extent / kMeshSize);
  }
  for (const double extent : shape) bytes *= extent;
  return bytes;
}

TEST_F(SolvePictures, BytesThatMoveAreThoseThatVirtualRanksMove) {
  std::map<std::tuple<std::string, std::string, std::string>, double> moves;
  double all = 0.0;
  for (const json& node : result_["assignment"]) {
    if (!node.contains("moves")) continue;
    for (const json& move : node["moves"]) {
      const double bytes = move["bytes_moved"].get<double>();
      all += bytes;
      const auto [place, is_new] =
          moves.try_emplace({move["tensor"].get<std::string>(), move["from"].get<std::string>(),
                             move["to"].get<std::string>()},
                            bytes);
      EXPECT_EQ(place->second, bytes) << move.dump();
    }
  }
  int counted = 0;
  for (const auto& [move, bytes] : moves) {
    const auto& [tensor, from, to] = move;
    if (bytes_of_rank_0(tensor, "RR") > 2e7) continue;
    // With data, the executor counts what it copies between the memories of two ranks.
    const json done = run({"simulate", "--mesh", "2x2", "--tensor", tensor, "--from", from, "--to",
                           to, "--stack", "alpha-beta"});
    EXPECT_EQ(done["data"], true);
    EXPECT_EQ(done["bytes_moved"].get<double>(), bytes) << tensor << " " << from << " " << to;
    ++counted;
  }
  EXPECT_GE(counted, 3);
  // The run of the whole program has the same sum.
  EXPECT_EQ(run({"simulate", "transformer-block", "--mesh", "2x2", "--stack", "alpha-beta",
                 "--plan", "plan.json", "--data", "off"})["bytes_moved"]
                .get<double>(),
            all);
  EXPECT_GT(all, 0.0);
}

TEST_F(SolvePictures, BytesOfTensorsFollowFromTheirShapesAndLayouts) {
  std::map<std::string, double> held;
  int given = 0;
  for (const json& node : result_["assignment"]) {
    if (!node.contains("given") || node["given"].is_null()) continue;
    const json& tensor = node["given"];
    const auto text = tensor["tensor"].get<std::string>();
    EXPECT_EQ(tensor["bytes"].get<double>(), bytes_of_rank_0(text, "RR")) << node.dump();
    EXPECT_EQ(tensor["bytes_per_rank"].get<double>(),
              bytes_of_rank_0(text, node["layout_out"].get<std::string>()))
        << node.dump();
    held[node["kind"].get<std::string>()] += tensor["bytes_per_rank"].get<double>();
    ++given;
  }
  EXPECT_GE(given, 10);
  const json& memory = result_["memory_over_step"];
  EXPECT_EQ(memory["parameters"][0].get<double>(), held["parameter"]);
  EXPECT_EQ(memory["optimizer"][0].get<double>(), 2.0 * held["parameter"]) << "Adam's moments";
}

TEST_F(SolvePictures, TheMemoryOverTheStepHasThePeakThatIsStated) {
  const json& memory = result_["memory_over_step"];
  double peak = 0.0;
  for (std::size_t i = 0; i < memory["start_us"].size(); ++i) {
    double sum = 0.0;
    for (const char* part :
         {"parameters", "gradients", "optimizer", "activations", "gathered", "temporary"}) {
      sum += memory[part][i].get<double>();
    }
    peak = std::max(peak, sum);
  }
  EXPECT_EQ(peak, result_["memory"]["peak_bytes"].get<double>());
  double parts = 0.0;
  for (const json& part : result_["memory"]["parts"]) parts += part.get<double>();
  EXPECT_EQ(parts, peak);
}

}  // namespace solve_pictures_test
}  // namespace shardlab::testing_support
