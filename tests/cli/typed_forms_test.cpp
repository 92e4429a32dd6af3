// What people type and paste: layouts, tensors, meshes and ops as PyTorch writes them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"

namespace shardlab {
namespace typed_forms_test {

using nlohmann::json;
using testing_support::ProcessResult;
using testing_support::run_shardlab;
using Words = std::vector<std::string>;

json answer(Words words) {
  words.insert(words.end(), {"--format", "json", "--no-timing"});
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

std::string text(Words words) {
  words.emplace_back("--no-timing");
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(TypedForms, OfAPlanMeanTheSameAsShortOnes) {
  const json expected = answer(
      {"plan", "--mesh", "2x4", "--tensor", "bf16[8,8]", "--from", "S(0)P(sum)", "--to", "RS(1)"});
  EXPECT_EQ(expected["from"], "S(0)P(sum)");
  for (const Words& words : {
           Words{"[2, 4]", "torch.bfloat16[8, 8]", "(Shard(dim=0), Partial('sum'))",
                 "[Replicate(), Shard(-1)]"},
           {"(2, 4)", "bfloat16[8,8]", "[Shard(0), Partial()]", "R S(-1)"},
           {"2,4", "bf16[8, 8]", "(Shard(dim=0), Partial(sum))", "(Replicate(), Shard(dim=1))"},
           {"DeviceMesh((2, 4), 'cuda', stride=(4, 1))", "bf16[8,8]", "Shard(0) Partial",
            "[R, S(1)]"},
       }) {
    EXPECT_EQ(answer({"plan", "--mesh", words[0], "--tensor", words[1], "--from", words[2], "--to",
                      words[3]}),
              expected)
        << words[2];
  }
}

TEST(TypedForms, OfASelectionMeanTheSameAsShortOnes) {
  const json expected = answer({"select", "--op", "aten.mm.default", "--mesh", "2x4", "--inputs",
                                "f32[8,8] S(0)R", "f32[8,8] RS(1)"});
  for (const char* op : {"mm", "aten.mm", "aten::mm", "torch.ops.aten.mm.default"}) {
    EXPECT_EQ(answer({"select", "--op", op, "--mesh", "(2, 4)", "--inputs",
                      "Spec(f32[8, 8](S(0)R))", "float32[8,8] [Replicate(), Shard(-1)]"}),
              expected)
        << op;
  }
}

TEST(TypedForms, OfPinsMeanTheSameAsShortOnes) {
  const json expected =
      answer({"solve", "mlp", "--mesh", "2x4", "--pin", "x=S(0)R", "--pin-inputs", "S(0)R"});
  EXPECT_EQ(answer({"solve", "mlp", "--mesh", "2x4", "--pin", "x=(Shard(dim=-2), Replicate())",
                    "--pin-inputs", "[Shard(-2), Replicate()]"}),
            expected);
  EXPECT_EQ(answer({"simulate", "mlp", "--mesh", "2x4", "--pin", "x=[Shard(0), Replicate()]"}),
            answer({"simulate", "mlp", "--mesh", "2x4", "--pin", "x=S(0)R"}));
}

TEST(TorchNames, AreWrittenInTextAndReadBack) {
  const std::string plan = text({"plan", "--mesh", "2x4", "--tensor", "f32[8,8]", "--from", "S(0)R",
                                 "--to", "RS(1)", "--torch-names"});
  EXPECT_TRUE(plan.starts_with("(Shard(dim=0), Replicate())\n")) << plan;
  EXPECT_NE(plan.find("Shard(dim=0) -> Replicate()"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("S(0)"), std::string::npos) << plan;
  const std::string choice = text({"select", "--op", "mm", "--mesh", "2", "--inputs",
                                   "f32[8,8] S(0)", "f32[8,8] R", "--torch-names"});
  EXPECT_NE(choice.find("(Shard(dim=0),), (Replicate(),)"), std::string::npos) << choice;
  const std::string solution = text({"solve", "mlp", "--mesh", "2x4", "--torch-names"});
  EXPECT_NE(solution.find("(Shard(dim=0), Shard(dim=0))"), std::string::npos) << solution;
  EXPECT_EQ(solution.find("S(0)"), std::string::npos) << solution;
}

TEST(TorchNames, AreThoseOfTiesAndRulesToo) {
  const std::string ties = text(
      {"ties", "--suite", "ops-small", "--stack", "dtensor-v3", "--no-flips", "--torch-names"});
  EXPECT_NE(ties.find("(Replicate(),), (Replicate(),) -> (Replicate(),)"), std::string::npos)
      << ties;
  EXPECT_EQ(ties.find("R -> R"), std::string::npos) << ties;
  const std::string rules =
      text({"rules", "aten.cumsum.default", "--rule-set", "dtensor-2.13", "--torch-names"});
  EXPECT_NE(rules.find("unsound aten.cumsum.default  (Shard(dim=1),) | (Shard(dim=1),)\n"),
            std::string::npos)
      << rules;
}

TEST(TorchNames, LeaveJsonAsItIs) {
  const Words words = {"plan",   "--mesh", "2x4",  "--tensor", "f32[8,8]",
                       "--from", "S(0)R",  "--to", "RS(1)"};
  Words named = words;
  named.emplace_back("--torch-names");
  EXPECT_EQ(answer(named), answer(words));
}

TEST(Suggestions, OfAPinNameTheNearestLabel) {
  const ProcessResult result = run_shardlab({"solve", "mlp", "--mesh", "2x4", "--pin", "dwon=RR"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "shardlab: pin: the program has no node \"dwon\" (did you mean \"down\"?)\n");
}

TEST(Suggestions, OfABareMemoryBudgetAskWhetherGigabytesWereMeant) {
  const ProcessResult result =
      run_shardlab({"solve", "mlp", "--mesh", "2x4", "--memory-budget", "80"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.err,
      "shardlab: --memory-budget: found \"80\", which is 80 bytes, too few for any tensor of a "
      "model (did you mean \"80GB\"?); valid: a size with its unit, such as 80GB or 80B\n");
  EXPECT_NE(run_shardlab({"solve", "mlp", "--mesh", "2x4", "--memory-budget", "80gb"})
                .err.find("(did you mean GB?)"),
            std::string::npos);
  EXPECT_EQ(run_shardlab({"solve", "mlp", "--mesh", "2x4", "--memory-budget", "80B"}).exit_code, 1);
  EXPECT_EQ(run_shardlab({"solve", "mlp", "--mesh", "2x4", "--memory-budget", "80GB"}).exit_code,
            0);
}

// -- What has no price ---------------------------------------------------------------------------

const char* const kUnpriced =
    "the stack dtensor-2.15 prices no kernels; --stack alpha-beta does, and so does this one with "
    "--set stack.compute_model=roofline";

TEST(UnpricedKernels, OfAnOpThatMovesNothingHaveNoTimeAndAReason) {
  const Words words = {"simulate", "--mesh",         "2x4",         "--op",    "mm",
                       "--inputs", "f32[8,8] S(0)R", "f32[8,8] RR", "--stack", "dtensor-2.15"};
  const json document = answer(words);
  EXPECT_EQ(document["unpriced"], kUnpriced);
  EXPECT_EQ(document["time_us"], json::parse(R"({"p50": null, "p95": null, "max": null})"));
  EXPECT_TRUE(document["steps"][0]["price_us"].is_null());
  EXPECT_EQ(document["verified"], true);
  const std::string printed = text(words);
  EXPECT_EQ(printed.find("0.000"), std::string::npos) << printed;
  EXPECT_NE(printed.find("  nothing is timed, 0 B moved\n  " + std::string(kUnpriced) + "\n"),
            std::string::npos)
      << printed;
}

TEST(UnpricedKernels, BesideCommunicationLeaveItsTime) {
  const Words words = {"simulate", "mlp",   "--mesh",   "2x4",     "--pin-inputs",
                       "S(0)R",    "--pin", "up=S(0)R", "--stack", "dtensor-2.15"};
  const json document = answer(words);
  EXPECT_EQ(document["unpriced"], kUnpriced);
  EXPECT_GT(document["time_us"]["p50"].get<double>(), 0.0);
  EXPECT_GT(document["price_us"].get<double>(), 0.0);
  int unpriced = 0;
  for (const json& step : document["steps"]) {
    EXPECT_EQ(step["price_us"].is_null(), step.contains("op"));
    unpriced += step["price_us"].is_null() ? 1 : 0;
  }
  EXPECT_GT(unpriced, 0);
  EXPECT_NE(text(words).find("the time is that of communication alone: " + std::string(kUnpriced)),
            std::string::npos);
}

TEST(UnpricedKernels, AreNoneUnderAStackThatPricesThem) {
  const json document = answer({"simulate", "mlp", "--mesh", "2x4", "--stack", "alpha-beta"});
  EXPECT_TRUE(document["unpriced"].is_null());
  EXPECT_GT(document["time_us"]["p50"].get<double>(), 0.0);
  for (const json& step : document["steps"]) EXPECT_GT(step["price_us"].get<double>(), 0.0);
}

}  // namespace typed_forms_test
}  // namespace shardlab
