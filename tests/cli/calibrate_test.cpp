// shardlab calibrate as a user runs it, what it writes, and the committed scoreboard.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(CalibrateCommand, WritesAStackThatPredictsItsRows) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string stack = (folder / "calibrated-h100.json").string();
  const ProcessResult fitted =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--out", stack, "--format", "json"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const json out = json::parse(fitted.out);
  EXPECT_EQ(out["model"], "piecewise");
  EXPECT_EQ(out["rows_used"], 32);
  EXPECT_EQ(out["rows_refused"].size(), 0U);
  for (const json& p : out["parameters"]) {
    EXPECT_LE(p["low_95"].get<double>(), p["value"].get<double>()) << p["name"];
    EXPECT_GE(p["high_95"].get<double>(), p["value"].get<double>()) << p["name"];
  }
  const ProcessResult validated =
      run_shardlab({"validate", "h100_1x8_all_reduce_dgxc", "--stack", stack,
                    "--max-median-ape-percent", "5", "--format", "json"});
  EXPECT_EQ(validated.exit_code, 0) << validated.out << validated.err;
  EXPECT_NEAR(json::parse(validated.out)["median_ape_percent"].get<double>(),
              out["residuals"]["median_ape_percent"].get<double>(), 1e-9);
  const ProcessResult planned = run_shardlab({"plan", "--mesh", "8", "--tensor", "f32[1024,1024]",
                                              "--from", "P", "--to", "R", "--stack", stack});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

TEST(CalibrateCommand, FitsTheConstantsOfEveryModelThatHasSome) {
  for (const char* model : {"alpha_beta", "nccl"}) {
    const ProcessResult fitted =
        run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "h100_1x8_all_gather_xxrjun-c01",
                      "--model", model, "--format", "json"});
    ASSERT_EQ(fitted.exit_code, 0) << model << fitted.err;
    const json out = json::parse(fitted.out);
    EXPECT_FALSE(out["parameters"].empty()) << model;
    EXPECT_LT(out["residuals"]["median_ape_percent"].get<double>(), 60.0) << model;
  }
}

TEST(CalibrateCommand, NamesWhatIsValid) {
  const ProcessResult model =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "dtensor"});
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_NE(model.err.find("dtensor has no free constants; valid: alpha_beta"), std::string::npos)
      << model.err;
  const ProcessResult unknown =
      run_shardlab({"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "hockney"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("unknown model \"hockney\"; valid: "), std::string::npos);
}

TEST(Scoreboard, TheCommittedOneIsTodays) {
  const ProcessResult today = run_shardlab({"validate", "--scoreboard"});
  ASSERT_EQ(today.exit_code, 0) << today.err;
  EXPECT_EQ(today.out,
            read_file(std::filesystem::path(SHARDLAB_SOURCE_DIR) / "reports/scoreboard.md"))
      << "run scripts/generate_scoreboard.sh";
}

}  // namespace
}  // namespace shardlab::testing_support
