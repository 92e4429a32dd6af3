// Options of a topology move the prices of the shipped stacks: faster links never make a step
// dearer.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace topology_options_test {

using nlohmann::json;
using Words = std::vector<std::string>;

double price_us(const std::string& mesh, const std::string& gpu, const Words& overrides) {
  Words words = {
      "plan", "--mesh",     mesh, "--tensor", "f32[268435456]",    "--from",   "P",   "--to",
      "R",    "--topology", gpu,  "--stack",  "calibrated-" + gpu, "--format", "json"};
  for (const std::string& override_text : overrides) {
    words.insert(words.end(), {"--set", override_text});
  }
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out)["price_us"].get<double>();
}

constexpr const char* kSharp = "links.network.reduces=true";
constexpr const char* kNoNvls = "links.nvlink.reduces=false";
constexpr const char* kQuarter = "links.network.bandwidth_gb_per_s=6.25";

// 1 GiB among 64 GPUs on eight hosts.
TEST(TopologyOptions, ANetworkThatReducesMakesAnAllReduceCheaper) {
  for (const char* gpu : {"a100", "h100", "h200", "b200"}) {
    EXPECT_LT(price_us("64", gpu, {kSharp}), price_us("64", gpu, {})) << gpu;
    EXPECT_LT(price_us("64", gpu, {kSharp, kQuarter}), 0.7 * price_us("64", gpu, {kQuarter}))
        << gpu << ", on a slow network";
  }
}

TEST(TopologyOptions, WithoutNvlsAnAllReduceIsDearer) {
  const double with = price_us("8", "h100", {});
  EXPECT_GT(price_us("8", "h100", {kNoNvls}), 1.2 * with);
  EXPECT_EQ(price_us("8", "h100", {kNoNvls}), price_us("8", "h100", {"links.nvlink.kind=nvlink"}));
  EXPECT_EQ(price_us("8", "h100", {"links.nvlink.reduces=true"}), with);
  EXPECT_EQ(price_us("8", "a100", {kNoNvls}), price_us("8", "a100", {}));
}

}  // namespace topology_options_test
}  // namespace shardlab::testing_support
