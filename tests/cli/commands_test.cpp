// Runs the commands as a user runs them, and checks the keys of the JSON, the exit codes, and that
// any number of threads gives the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/cli/messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab::testing_support {
namespace commands_test {

using nlohmann::json;
using Words = std::vector<std::string>;

// The output of a command that has to succeed with nothing on stderr.
std::string output_of(const Words& words, const std::filesystem::path& folder = {}) {
  const ProcessResult result = run_shardlab(words, folder);
  EXPECT_EQ(result.exit_code, 0) << join(words, " ");
  EXPECT_EQ(result.err, "") << join(words, " ");
  return result.out;
}

json json_of(Words words, const std::filesystem::path& folder = {}) {
  words.insert(words.end(), {"--format", "json"});
  const std::string out = output_of(words, folder);
  json document = json::parse(out, nullptr, false);  // one document: anything behind it is an error
  EXPECT_FALSE(document.is_discarded()) << join(words, " ") << "\n" << out.substr(0, 400);
  EXPECT_TRUE(out.ends_with("\n"));
  return document;
}

void expect_keys(const json& object, const std::vector<const char*>& keys) {
  ASSERT_TRUE(object.is_object()) << object.dump().substr(0, 400);
  for (const char* key : keys) EXPECT_TRUE(object.contains(key)) << key;
}

TEST(Program, VersionIsOneLineThatNamesCommitAndBuild) {
  const std::string version = output_of({"--version"});
  EXPECT_THAT(version,
              testing::MatchesRegex(
                  "shardlab [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit ([0-9a-f]{12}(-dirty)?|unknown), "
                  "[A-Za-z]+ build by [A-Za-z]+ [0-9.]+(, sanitizers: [a-z,]+)?\\)\n"));
  EXPECT_EQ(version.find('\n'), version.size() - 1);
}

// -- plan ----------------------------------------------------------------------------------------

const Words kPlan = {"plan",   "--mesh", "2x4",  "--tensor", "bf16[8192,4096]",
                     "--from", "S(0)R",  "--to", "RS(1)"};

TEST(PlanCommand, HasTheKeysOfItsContract) {
  const json plan = json_of(kPlan);
  expect_keys(plan, {"path", "steps", "price_us", "impossible", "unexecutable", "bounds"});
  expect_keys(plan["bounds"], {"volume_ratio", "time_ratio", "memory_ratio"});
  ASSERT_FALSE(plan["steps"].empty());
  double sum = 0;
  for (const json& step : plan["steps"]) {
    expect_keys(step,
                {"collective", "mesh_dims", "from", "to", "full_bytes", "price_us", "parts_us"});
    expect_keys(step["parts_us"], {"latency", "transfer", "compute", "straggler"});
    double parts = 0;
    for (const json& part : step["parts_us"]) parts += part.get<double>();
    EXPECT_DOUBLE_EQ(parts, step["price_us"].get<double>());
    sum += step["price_us"].get<double>();
  }
  EXPECT_DOUBLE_EQ(sum, plan["price_us"].get<double>());
  EXPECT_TRUE(plan["impossible"].is_null());
}

TEST(PlanCommand, AnImpossiblePlanIsAnAnswer) {
  const json plan = json_of({"plan", "--mesh", "4", "--tensor", "f32[8,8]", "--from", "S(0)",
                             "--to", "P(sum)", "--stack", "dtensor-v3"});
  EXPECT_TRUE(plan["price_us"].is_null());
  EXPECT_TRUE(plan["impossible"].is_string());
}

// R01: https://github.com/pytorch/pytorch/pull/170107
std::string path_of_r01(const std::string& stack) {
  return json_of({"plan", "--mesh", "2x2x2", "--tensor", "f32[8,16]", "--from", "S(1)S(0)S(0)",
                  "--to", "S(1)[0]S(1)[2]S(1)[1]", "--stack", stack})["path"];
}

// A model that was fitted to many clusters knows how unlike they are.
TEST(PlanCommand, AFittedPriceHasAnInterval) {
  Words words = {"plan",     "--stack",         "calibrated-h100", "--mesh",   "2x8",
                 "--tensor", "bf16[8192,8192]", "--from",          "S(0)S(1)", "--to",
                 "RR"};
  const json plan = json_of(words);
  double low = 0.0;
  double high = 0.0;
  for (const json& step : plan["steps"]) {
    ASSERT_TRUE(step.contains("low_us")) << step;
    EXPECT_LT(step["low_us"], step["price_us"]);
    EXPECT_GT(step["high_us"], step["price_us"]);
    low += step["low_us"].get<double>();
    high += step["high_us"].get<double>();
  }
  EXPECT_NEAR(plan["low_us"].get<double>(), low, 1e-9 * low);
  EXPECT_NEAR(plan["high_us"].get<double>(), high, 1e-9 * high);
  EXPECT_THAT(output_of(words), testing::HasSubstr(" us on 95 % of clusters like those measured)"));
  words[2] = "alpha-beta";
  EXPECT_FALSE(json_of(words).contains("low_us"));
}

// The cheapest candidate is a third cheaper than the next, by prices that may be half as high
// again.
TEST(SelectCommand, ANarrowChoiceOfFittedPricesIsUndecided) {
  Words words = {"select",  "--op",           "aten.mm.default",      "--mesh",
                 "8",       "--inputs",       "bf16[8192,8192] S(0)", "bf16[8192,8192] S(1)",
                 "--stack", "calibrated-h100"};
  const json selection = json_of(words);
  for (const json& candidate : selection["candidates"]) {
    if (!candidate.contains("low_us")) continue;
    EXPECT_LT(candidate["low_us"], candidate["total_us"]);
    EXPECT_GT(candidate["high_us"], candidate["total_us"]);
  }
  ASSERT_TRUE(selection["selected"].contains("low_us"));
  EXPECT_TRUE(selection["undecided"]);
  // Of matrices that are a hundred times as long, the least move is far cheaper than the next.
  words[6] = "bf16[8192,819200] S(0)";
  words[7] = "bf16[819200,16] S(0)";
  EXPECT_FALSE(json_of(words)["undecided"]);
  words.back() = "alpha-beta";
  EXPECT_FALSE(json_of(words).contains("undecided"));
}

// AutoParallel's NCCL model is a faithful port, also where it is far from every measured cluster.
TEST(PlanCommand, SaysWhichPricesAreDoubtful) {
  const Words far = {"plan",   "--stack", "ap-nccl",  "--topology",        "a100",
                     "--mesh", "128",     "--tensor", "bf16[16384,16384]", "--from",
                     "S(0)",   "--to",    "R"};
  EXPECT_THAT(output_of(far),
              testing::HasSubstr("  note: doubtful price: all_gather of 128 ranks on 16 "
                                 "hosts, 512 MiB: "));
  const json found = json_of(far);
  ASSERT_EQ(found["doubtful"].size(), 1U);
  EXPECT_EQ(found["doubtful"][0]["reason"], "unlike what was measured");
  EXPECT_GT(found["doubtful"][0]["price_us"].get<double>(),
            4.0 * found["doubtful"][0]["other_us"].get<double>());
  const json below =
      json_of({"plan", "--stack", "ap-nccl", "--topology", "b200", "--set", "devices_per_host=1",
               "--mesh", "2", "--tensor", "bf16[8192,8192]", "--from", "P(sum)", "--to", "R"});
  ASSERT_EQ(below["doubtful"].size(), 1U);
  EXPECT_EQ(below["doubtful"][0]["reason"], "faster than the links");
  // A stack that was fitted to such clusters is not compared with itself.
  Words fitted = far;
  fitted[2] = "calibrated-a100";
  EXPECT_FALSE(json_of(fitted).contains("doubtful"));
}

TEST(SimulateCommand, AFittedRunHasAnInterval) {
  Words words = {"simulate",
                 "--stack",
                 "calibrated-h100",
                 "--mesh",
                 "2x8",
                 "--tensor",
                 "bf16[8192,8192]",
                 "--from",
                 "S(0)S(1)",
                 "--to",
                 "RR",
                 "--data",
                 "off"};
  const json run = json_of(words);
  double low = 0.0;
  double high = 0.0;
  for (const json& step : run["steps"]) {
    low += step["low_us"].get<double>();
    high += step["high_us"].get<double>();
  }
  EXPECT_NEAR(run["low_us"].get<double>(), low, 1e-3);
  EXPECT_NEAR(run["high_us"].get<double>(), high, 1e-3);
  EXPECT_LT(low, run["time_us"]["p50"]);
  EXPECT_GT(high, run["time_us"]["p50"]);
  EXPECT_THAT(output_of(words), testing::HasSubstr(" us on 95 % of clusters like those measured)"));
  words[2] = "alpha-beta";
  EXPECT_FALSE(json_of(words).contains("low_us"));
}

// Kernels have no error, so the interval of the sum is that of what moves, and overlap hides part
// of it.
TEST(SolveCommand, AFittedPlanHasIntervals) {
  Words words = {"solve", "transformer-block", "--stack", "calibrated-h100", "--mesh", "2x8"};
  const json plan = json_of(words);
  EXPECT_LT(plan["low_us"], plan["executed_us"]);
  EXPECT_GT(plan["high_us"], plan["executed_us"]);
  EXPECT_GT(plan["low_us"], plan["breakdown_us"]["compute"]);
  EXPECT_LT(plan["step_low_us"], plan["step_us"]);
  EXPECT_GT(plan["step_high_us"], plan["step_us"]);
  EXPECT_LT(plan["step_high_us"], plan["high_us"]);
  words[3] = "alpha-beta";
  EXPECT_FALSE(json_of(words).contains("low_us"));
  EXPECT_FALSE(json_of(words).contains("step_low_us"));
}

// The same doubts as plan's: wherever the price judges or is chosen by.
TEST(OtherCommands, SayWhichPricesAreDoubtful) {
  const Words run = {
      "simulate",          "--stack", "ap-nccl", "--topology", "a100", "--mesh", "128", "--tensor",
      "bf16[16384,16384]", "--from",  "S(0)",    "--to",       "R",    "--data", "off"};
  EXPECT_EQ(json_of(run)["doubtful"].size(), 1U);
  EXPECT_THAT(output_of(run), testing::HasSubstr("  note: doubtful price: all_gather of 128 "));
  const Words choice = {"select",
                        "--stack",
                        "ap-nccl",
                        "--topology",
                        "a100",
                        "--mesh",
                        "128",
                        "--op",
                        "aten.mm.default",
                        "--inputs",
                        "bf16[16384,16384] P",
                        "bf16[16384,16384] P"};
  EXPECT_GE(json_of(choice)["doubtful"].size(), 1U);
  EXPECT_THAT(output_of(choice), testing::HasSubstr("  note: doubtful price: "));
  const Words judged = {"compare",    "--baseline", "dtensor-v3", "--candidate",
                        "dtensor-v4", "--suite",    "ops-small",  "--reference",
                        "ap-nccl",    "--topology", "a100"};
  EXPECT_THAT(output_of(judged), testing::HasSubstr("  note: ap-nccl: doubtful price: "));
}

// The question in which PyTorch's queue finds a dearer strategy.
const Words kQueueQuestion = {
    "select",  "--op",        "aten.mm.default",         "--mesh",
    "16x8",    "--inputs",    "bf16[23170,23170] RS(0)", "bf16[23170,92680] RP(avg)",
    "--stack", "dtensor-2.13"};

TEST(SelectEffort, IsCountedForEachSearch) {
  const auto search = [](const char* kind) {
    Words words = kQueueQuestion;
    words.insert(words.end(), {"--search", kind});
    return json_of(words)["search"];
  };
  const json full = search("full");
  const json bounds = search("exact");
  const json queue = search("dijkstra");
  EXPECT_EQ(full["method"], "enumeration");
  EXPECT_EQ(bounds["method"], "bounds");
  EXPECT_EQ(queue["method"], "queue");
  EXPECT_EQ(full["states_visited"], json_of(kQueueQuestion)["candidates"].size());
  for (const json& each : {full, bounds, queue}) {
    EXPECT_GT(each["states_visited"].get<int>(), 0);
    EXPECT_GT(each["prices_asked"].get<int>(), 0);
  }
}

TEST(SelectEffort, IsALineOfTheTextIfItIsAskedFor) {
  EXPECT_THAT(output_of(kQueueQuestion), testing::Not(testing::HasSubstr("visited")));
  Words words = kQueueQuestion;
  words.emplace_back("--effort");
  EXPECT_THAT(output_of(words),
              testing::ContainsRegex("  the enumeration visited [0-9]+ candidates and asked for "
                                     "[0-9]+ prices of moves of an input\n"));
  words.insert(words.end(), {"--search", "dijkstra"});
  EXPECT_THAT(output_of(words),
              testing::ContainsRegex("  the queue visited [0-9]+ states and asked for [0-9]+ "
                                     "prices of single steps\n"));
}

// compare and record choose by the stack's search, as select does.
TEST(SearchOfAStack, IsThatOfCompareAndRecord) {
  const TemporaryFolder folder;
  folder.write("queue.json",
               R"({"schema": "shardlab/stack/1", "base": "dtensor-2.13", "name": "queue",
                   "search": "dijkstra"})");
  folder.write("one.json",
               R"json({"schema": "shardlab/suite/1", "name": "one", "questions": [
                   {"id": "product", "kind": "select", "op": "mm", "mesh": "16x8", "inputs":
                   ["bf16[23170,23170] RS(0)", "bf16[23170,92680] RP(avg)"]}]})json");
  const auto flips = [&](const char* candidate, const char* baseline) {
    const ProcessResult done =
        run_shardlab({"compare", "--baseline", baseline, "--candidate", candidate, "--suite",
                      "one.json", "--format", "json", "--no-timing", "--quiet"},
                     folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.exit_code == 0 ? json::parse(done.out)["flips"].size() : 99U;
  };
  EXPECT_EQ(flips("queue.json", "dtensor-2.13"), 1U);
  const ProcessResult recorded =
      run_shardlab({"record", "--stack", "queue.json", "--suite", "one.json", "--out",
                    "queue.choices.json", "--quiet"},
                   folder.path());
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  std::ifstream file(folder.path() / "queue.choices.json");
  EXPECT_EQ(json::parse(file)["choices"][0]["inputs"], (json{"S(1)R", "S(0)P(avg)"}));
  // The file is a stack that makes the same choice.
  EXPECT_EQ(flips("queue.choices.json", "queue.json"), 0U);
}

// pytorch/pytorch#171916: groups of 5 straddle hosts of 8 GPUs in different places.
TEST(ReplicaGate, RefusesPlansAfterWhichReplicasMayDiffer) {
  const Words plan = {"plan",   "--mesh", "ddp=8,fsdp=5", "--tensor", "f32[64,64]",
                      "--from", "PP",     "--to",         "RR"};
  const auto gated = [](Words words, const Words& more = {}) {
    words.push_back("--require-bitwise-replicas");
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words);
  };
  EXPECT_EQ(run_shardlab(plan).exit_code, 0) << "nobody asked";
  const ProcessResult refused = gated(plan);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(
      refused.out,
      testing::HasSubstr("  replicas may differ: step 2, all_reduce P(sum)->R over mesh dim 1: "));
  const ProcessResult merged = gated(plan, {"--flatten", "ddp,fsdp", "--format", "json"});
  EXPECT_EQ(merged.exit_code, 0);
  EXPECT_TRUE(json::parse(merged.out)["replicas_may_differ"].empty());
  Words run = plan;
  run[0] = "simulate";
  EXPECT_EQ(gated(run).exit_code, 1);
  run[2] = "ddp=5,fsdp=8";
  const ProcessResult fine = gated(run);
  EXPECT_EQ(fine.exit_code, 0);
  EXPECT_THAT(fine.out, testing::HasSubstr("  replicas of one value are equal to the last bit\n"));
}

// The greedy planner reduces the product over one mesh dim after the other; groups of 5 straddle
// hosts.
TEST(ReplicaGate, SolveNamesTheNodeAndTheStep) {
  const TemporaryFolder folder;
  folder.write("product.json", R"({"schema": "shardlab/program/1", "name": "product", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [64, 960]}]},
    {"name": "w", "kind": "parameter", "outputs": [{"dtype": "bf16", "shape": [960, 64]}]},
    {"name": "y", "op": "aten.mm.default", "inputs": ["x", "w"],
     "outputs": [{"dtype": "bf16", "shape": [64, 64]}]},
    {"name": "z", "kind": "output", "inputs": ["y"],
     "outputs": [{"dtype": "bf16", "shape": [64, 64]}]}]})");
  const auto solve = [&](const std::string& mesh, const Words& more) {
    Words words = {"solve",   "product.json", "--mesh", mesh,
                   "--stack", "dtensor-2.13", "--set",  "stack.compute_model=roofline",
                   "--pin",   "x=S(1)S(1)",   "--pin",  "w=S(0)S(0)",
                   "--pin",   "z=RR"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  };
  EXPECT_EQ(solve("ddp=8,fsdp=5", {}).exit_code, 0) << "nobody asked";
  const ProcessResult refused = solve("ddp=8,fsdp=5", {"--require-bitwise-replicas"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.out, testing::HasSubstr(
                               "  replicas may differ: node z, input 0, P(sum)P(sum)->RP(sum)->RR: "
                               "step 2, all_reduce P(sum)->R over mesh dim 1: "));
  const ProcessResult as_json =
      solve("ddp=8,fsdp=5", {"--require-bitwise-replicas", "--format", "json"});
  EXPECT_EQ(as_json.exit_code, 1);
  EXPECT_EQ(json::parse(as_json.out)["replicas_may_differ"].size(), 1U);
  const ProcessResult fine = solve("ddp=5,fsdp=8", {"--require-bitwise-replicas"});
  EXPECT_EQ(fine.exit_code, 0) << fine.err;
  EXPECT_THAT(fine.out, testing::HasSubstr("  replicas of one value are equal to the last bit\n"));
}

TEST(ReplicaGate, CompareCountsAndNamesTheFirstChoice) {
  const ProcessResult compared =
      run_shardlab({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
                    "ops-small", "--require-bitwise-replicas", "--set", "devices_per_host=3"});
  EXPECT_EQ(compared.exit_code, 1);
  EXPECT_THAT(compared.out, testing::ContainsRegex(
                                "  dtensor-v4: replicas may differ after [1-9][0-9]* of [0-9]+ "
                                "choices, first at ops-small/"));
}

TEST(PlanCommand, PrintsThePathOfR01CharacterForCharacter) {
  EXPECT_EQ(path_of_r01("dtensor-v1"),
            "S(1)S(0)[0]S(0)[1]->S(1)S(0)R->S(1)[0]S(0)S(1)[1]->S(1)[0]RS(1)[1]"
            "->S(1)[0]S(1)[2]S(1)[1]");
  EXPECT_EQ(path_of_r01("dtensor-v4"),
            "S(1)S(0)[0]S(0)[1]->S(1)[0]S(0)S(1)[1]->S(1)[0]S(1)[2]S(1)[1]");
}

TEST(PlanCommand, AnOverrideOfTheTopologyChangesThePrice) {
  Words changed = kPlan;
  changed.insert(changed.end(), {"--set", "devices_per_host=1"});
  EXPECT_GT(json_of(changed)["price_us"].get<double>(), json_of(kPlan)["price_us"].get<double>());
  Words spelled_out = kPlan;
  spelled_out.insert(spelled_out.end(), {"--set", "topology.devices_per_host=1"});
  EXPECT_EQ(json_of(changed), json_of(spelled_out));
}

TEST(PlanCommand, SaysWhatSelectionAddsForATensorThatMoves) {
  const Words words = {"plan",
                       "--mesh",
                       "8",
                       "--tensor",
                       "f32[64,64]",
                       "--from",
                       "P",
                       "--to",
                       "R",
                       "--stack",
                       "dtensor-v3",
                       "--set",
                       "stack.transition_us=50"};
  const json plan = json_of(words);
  EXPECT_EQ(plan["transition_us"], 50.0);
  EXPECT_EQ(plan["price_us"], 15.304479827358893);
  const ProcessResult text = run_shardlab(words);
  EXPECT_NE(text.out.find("  select, compare and solve count 50 us more for a tensor that moves: "
                          "the stack's transition_us\n"),
            std::string::npos)
      << text.out;
  Words stays = words;
  stays[8] = "P";
  EXPECT_EQ(json_of(stays)["transition_us"], 0.0);
}

TEST(PlanCommand, RankAndPlannerAndFlattenAreHeard) {
  const Words graph = {"plan",   "--mesh",    "dp=2,tp=4", "--tensor", "f32[16,9]",
                       "--from", "S(0)S(0)",  "--to",      "RR",       "--planner",
                       "graph",  "--flatten", "dp,tp",     "--rank",   "7"};
  const json plan = json_of(graph);
  EXPECT_EQ(plan["steps"].size(), 1U) << plan["path"];
  EXPECT_EQ(plan["steps"][0]["mesh_dims"], json({0, 1}));
  EXPECT_EQ(plan["steps"][0]["flattened_mesh"], "dp_tp");
}

TEST(PlanCommand, DrawsWhoHoldsWhatIfAsked) {
  const std::string plain = output_of(kPlan);
  Words words = kPlan;
  words.emplace_back("--draw");
  const std::string drawn = output_of(words);
  ASSERT_TRUE(drawn.starts_with(plain)) << "what was printed before is printed still";
  EXPECT_NE(drawn.find("  S(0)R: 2 parts of bf16[4096,4096], each held by 4 devices\n"
                       "    0: part 1  1: part 1  2: part 1  3: part 1\n"
                       "    4: part 2  5: part 2  6: part 2  7: part 2\n"
                       "    part 1 is [0:4096, :], part 2 is [4096:8192, :]\n"),
            std::string::npos)
      << drawn;
  EXPECT_NE(drawn.find("  RS(1): 4 parts of bf16[8192,1024], each held by 2 devices\n"),
            std::string::npos)
      << drawn;
  const json document = json_of(words);
  EXPECT_FALSE(json_of(kPlan).contains("drawing"));
  EXPECT_EQ(document["drawing"]["layouts"].size(), document["steps"].size() + 1);
  EXPECT_EQ(document["drawing"]["moves"].size(), document["steps"].size());
  EXPECT_EQ(document["drawing"]["layouts"][0]["devices"].size(), 8U);
  words.emplace_back("--torch-names");
  EXPECT_NE(output_of(words).find("  (Shard(dim=0), Replicate()): 2 parts"), std::string::npos);
}

// Planners that plan the same are one block, however often they are named.
TEST(PlanCommand, SaysOnceWhoPlansTheSame) {
  Words words = kPlan;
  words.insert(words.end(), {"--against", "graph", "--against", "graph", "--against", "greedy",
                             "--against", "dtensor-v4"});
  const std::string text = output_of(words);
  const std::size_t first = text.find("against ");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("against graph, greedy and dtensor-v4: "), std::string::npos) << text;
  EXPECT_NE(text.find("  all of them plan the same, as this stack does\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("against ", first + 1), std::string::npos) << text;
}

// Each planner that is named plans what a stack that names it plans, strided shards of unknown
// order included.
TEST(PlanCommand, PlansStridedShardsByThePlannerThatIsNamed) {
  const Words words = {"plan",     "--mesh", "2x4",   "--tensor", "f32[24,16]", "--from",
                       "_S(0,3)R", "--to",   "S(0)R", "--stack",  "alpha-beta"};
  const auto with = [&](std::initializer_list<std::string> more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all);
  };
  const json greedy = with({"--set", "stack.planner=greedy"});
  const json graph = with({"--set", "stack.planner=graph"});
  EXPECT_EQ(greedy["path"], "_S(0,3)R->S(0)R");
  EXPECT_EQ(graph["path"], "_S(0,3)R->RR->S(0)R");
  EXPECT_EQ(with({"--set", "stack.planner=graph", "--planner", "greedy"})["path"], greedy["path"]);
  EXPECT_EQ(with({"--set", "stack.planner=greedy", "--planner", "graph"})["path"], graph["path"]);
  const json others = with({"--against", "greedy", "--against", "graph"})["against"];
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0]["path"], greedy["path"]);
  EXPECT_EQ(others[0]["price_us"], greedy["price_us"]);
  EXPECT_EQ(others[1]["path"], graph["path"]);
  EXPECT_EQ(others[1]["price_us"], graph["price_us"]);
}

// What moves between devices in a drawing is what a run on virtual ranks counts while it moves
// them.
TEST(PlanCommand, DrawnBytesAreThoseThatARunMoves) {
  for (const Words& ends :
       {Words{"S(0)S(0)", "RS(0)"}, {"S(0)P", "RS(1)"}, {"PP", "RR"}, {"S(1)S(0)", "S(0)R"}}) {
    const Words what = {"--mesh", "2x4",  "--tensor", "f32[24,16]", "--from",
                        ends[0],  "--to", ends[1],    "--stack",    "alpha-beta"};
    Words plan = {"plan", "--draw"};
    Words run = {"simulate", "--no-timing"};
    plan.insert(plan.end(), what.begin(), what.end());
    run.insert(run.end(), what.begin(), what.end());
    const json moves = json_of(plan)["drawing"]["moves"];
    const json steps = json_of(run)["steps"];
    ASSERT_EQ(moves.size(), steps.size()) << ends[0];
    for (std::size_t i = 0; i < moves.size(); ++i) {
      EXPECT_EQ(moves[i]["bytes_moved"], steps[i]["bytes_moved"]) << ends[0] << " " << i;
    }
  }
}

TEST(PlanCommand, SaysHowOtherPlansDiffer) {
  const Words words = {"plan",        "--mesh",    "2x4",        "--tensor",  "bf16[8192,4096]",
                       "--from",      "S(0)S(0)",  "--to",       "RS(0)",     "--stack",
                       "dtensor-v3g", "--against", "dtensor-v3", "--against", "graph"};
  const json plan = json_of(words);
  ASSERT_EQ(plan["against"].size(), 2U);
  const json& other = plan["against"][0];
  EXPECT_EQ(other["name"], "dtensor-v3");
  EXPECT_EQ(other["collectives"], 2);
  // Both stacks have the prices of v3, so the other plan costs here what its own stack says.
  EXPECT_EQ(other["here_us"], other["price_us"]);
  const json alone = json_of({"plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from",
                              "S(0)S(0)", "--to", "RS(0)", "--stack", "dtensor-v3"});
  EXPECT_EQ(other["path"], alone["path"]);
  EXPECT_EQ(other["price_us"], alone["price_us"]);
  EXPECT_EQ(plan["against"][1]["path"], plan["path"]);
  const std::string text = output_of(words);
  EXPECT_NE(text.find("against dtensor-v3: S(0)[0]S(0)[1]->S(0)R->RR->RS(0)\n"
                      "  639.2 us by the prices of dtensor-v3g, 323.7 us more (+102.6 %); 2 "
                      "collectives, 470 MB moved instead of 3 collectives, 218 MB moved\n"
                      "against graph: S(0)[0]S(0)[1]->S(0)S(1)->RS(1)->RS(0)\n  the same plan\n"),
            std::string::npos)
      << text;
  Words wrong = kPlan;
  wrong.insert(wrong.end(), {"--against", "dtensor-v33"});
  const ProcessResult result = run_shardlab(wrong);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(
      result.err.starts_with("shardlab: --against: neither a planner (greedy, graph) nor a "
                             "stack: unknown stack \"dtensor-v33\" (did you mean "))
      << result.err;
}

TEST(PlanCommand, WorksFromAnyFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(json_of(kPlan, folder.path()), json_of(kPlan, "/"));
}

// -- select --------------------------------------------------------------------------------------

// Case R03 with a matrix product: https://github.com/pytorch/pytorch/pull/172282
json r03(const std::string& stack) {
  return json_of({"select", "--op", "aten.mm.default", "--mesh", "4", "--inputs", "f32[8,8] P(max)",
                  "f32[8,8] R", "--set", "devices_per_host=1", "--stack", stack});
}

std::set<json> tied_inputs(const json& selection) {
  std::set<json> inputs;
  for (const json& i : selection["ties"]) {
    inputs.insert(selection["candidates"][i.get<std::size_t>()]["inputs"]);
  }
  return inputs;
}

TEST(SelectCommand, HasTheKeysOfItsContract) {
  const json selection = r03("dtensor-v3");
  expect_keys(selection,
              {"candidates", "selected", "ties", "margin_us", "flips_with_order", "unexecutable"});
  const std::vector<const char*> keys = {"index",      "inputs",   "outputs",   "redistribute_us",
                                         "compute_us", "total_us", "impossible"};
  expect_keys(selection["selected"], keys);
  for (std::size_t i = 0; i < selection["candidates"].size(); ++i) {
    const json& candidate = selection["candidates"][i];
    expect_keys(candidate, keys);
    EXPECT_EQ(candidate["index"], i);
    EXPECT_EQ(candidate["total_us"].is_null(), candidate["impossible"].is_string());
  }
  EXPECT_EQ(selection["selected"],
            selection["candidates"][selection["selected"]["index"].get<std::size_t>()]);
}

TEST(SelectCommand, TellsTheTieOfR03) {
  const json before = r03("dtensor-v3");
  EXPECT_EQ(before["selected"]["total_us"], 22.81853570377591);
  const std::set<json> tied = tied_inputs(before);
  EXPECT_TRUE(tied.contains(json({"R", "R"})));
  EXPECT_TRUE(tied.contains(json({"R", "P(sum)"})));
  EXPECT_TRUE(tied.contains(json({"R", "P(avg)"})));
  EXPECT_EQ(before["flips_with_order"], true);

  const json after = r03("dtensor-v3-rp");
  EXPECT_EQ(tied_inputs(after), std::set<json>{json({"R", "R"})});
  EXPECT_EQ(after["flips_with_order"], false);
  EXPECT_GT(after["margin_us"].get<double>(), 0.0);
}

TEST(SelectCommand, ReversedOrderTakesTheOtherSideOfATie) {
  Words words = {"select",
                 "--op",
                 "mm",
                 "--mesh",
                 "4",
                 "--inputs",
                 "f32[8,8] P(max)",
                 "f32[8,8] R",
                 "--set",
                 "devices_per_host=1",
                 "--stack",
                 "dtensor-v3"};
  const json listed = json_of(words);
  words.insert(words.end(), {"--order", "reversed"});
  const json reversed = json_of(words);
  EXPECT_NE(listed["selected"]["inputs"], reversed["selected"]["inputs"]);
  EXPECT_EQ(listed["selected"]["total_us"], reversed["selected"]["total_us"]);
  EXPECT_EQ(listed["candidates"].size(), reversed["candidates"].size());
}

// The queue's total is not that of the same candidate in a full enumeration, so the text says why.
TEST(SelectCommand, SaysThatPyTorchsQueueKnowsOneCandidate) {
  Words words = {
      "select",           "--mesh",           "2x4",     "--op",       "mm",       "--inputs",
      "f32[64,64] S(0)R", "f32[64,64] RS(1)", "--stack", "dtensor-v3", "--search", "dijkstra"};
  const std::string note =
      "found by PyTorch's priority queue, which stops at the first candidate that it reaches; its "
      "total adds up the queue's steps, where --search full prices every candidate by the planner";
  const auto text_of = [](const Words& all) { return run_shardlab(all).out; };
  EXPECT_TRUE(text_of(words).ends_with("\n  " + note + "\n")) << text_of(words);
  EXPECT_EQ(json_of(words)["search_note"], note);
  words[words.size() - 3] = "dtensor-v3g";  // whose planner searches by the same prices
  EXPECT_NE(text_of(words).find("\n  1 candidate at the minimum"), std::string::npos);
  EXPECT_FALSE(json_of(words).contains("search_note"));
}

TEST(SelectCommand, TakesTensorListsAndArguments) {
  const Words apart = {
      "select", "--op", "cat", "--mesh", "4", "--inputs", "[f32[8,8] R; f32[8,8] S(0)]",
      "--args", "[1]"};
  const Words joined = {
      "select", "--op", "cat", "--mesh", "4", "--inputs=[f32[8,8] R; f32[8,8] S(0)]", "--args=[1]"};
  const json selection = json_of(apart);
  EXPECT_EQ(selection["selected"]["inputs"].size(), 2U);
  EXPECT_EQ(json_of(joined), selection);
}

TEST(SelectCommand, TheElementsOfAForeachAreChildren) {
  const json selection = json_of({"select", "--op", "aten._foreach_add.List", "--mesh", "4",
                                  "--inputs", "[f32[8] R; f32[8] S(0)]", "[f32[8] R; f32[8] R]"});
  ASSERT_EQ(selection["children"].size(), 2U);
  for (const json& child : selection["children"]) expect_keys(child, {"candidates", "selected"});
}

// -- simulate ------------------------------------------------------------------------------------

TEST(SimulateCommand, HasTheKeysOfItsContract) {
  const json document = json_of({"simulate", "--mesh", "8x8", "--tensor", "f32[256,256]", "--from",
                                 "S(0)S(1)", "--to", "S(1)S(0)"});
  expect_keys(document, {"ranks", "verified", "max_abs_error", "replicas_bitwise_equal", "time_us",
                         "bytes_moved", "steps", "timing"});
  expect_keys(document["time_us"], {"p50", "p95", "max"});
  expect_keys(document["timing"], {"wall_ms"});
  EXPECT_EQ(document["ranks"], 64);
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(document["max_abs_error"], 0.0);
  EXPECT_EQ(document["steps"].size(), 3U);
  // An all-gather among 8 ranks in each of 8 groups: each of the 64 ranks lacks 7/8 of an eighth of
  // 256 KiB.
  EXPECT_EQ(document["steps"][0]["bytes_moved"], 64 * 7 * 256 * 256 * 4 / 64);
  // Each of the three steps is rounded to a picosecond.
  EXPECT_NEAR(document["time_us"]["max"].get<double>(), document["price_us"].get<double>(), 1.5e-6);
}

// The block has ops such as full, which make a tensor out of nothing: their kernels have no input.
TEST(SimulateCommand, PricesKernelsThatReadNoTensor) {
  const json result = json_of(
      {"simulate", "transformer-block", "--mesh", "2x4", "--stack", "alpha-beta", "--data", "off"});
  const auto is_full = [](const json& step) { return step.value("op", "") == "aten.full.default"; };
  const json& steps = result["steps"];
  const auto full = std::find_if(steps.begin(), steps.end(), is_full);
  ASSERT_NE(full, steps.end());
  EXPECT_GT((*full)["price_us"].get<double>(), 0.0);
}

TEST(SimulateCommand, ShapesAloneGiveTheSameTimesAndBytes) {
  Words words = {"simulate", "--mesh",   "4x6",  "--tensor", "f32[50,35]",
                 "--from",   "S(0)S(1)", "--to", "S(1)S(0)", "--no-timing"};
  const json with_data = json_of(words);
  words.insert(words.end(), {"--data", "off"});
  const json shapes = json_of(words);
  EXPECT_EQ(shapes["verified"], nullptr);
  EXPECT_EQ(shapes["replicas_bitwise_equal"], nullptr);
  EXPECT_EQ(shapes["bytes_moved"], with_data["bytes_moved"]);
  EXPECT_EQ(shapes["time_us"], with_data["time_us"]);
  for (std::size_t i = 0; i < shapes["steps"].size(); ++i) {
    EXPECT_EQ(shapes["steps"][i]["bytes_moved"], with_data["steps"][i]["bytes_moved"]) << i;
    EXPECT_EQ(shapes["steps"][i]["end_us"], with_data["steps"][i]["end_us"]) << i;
  }
}

TEST(SimulateCommand, ASlowedRunSaysWhenEachStepIsDone) {
  const Words words = {"simulate", "--mesh",      "8x8",        "--tensor",   "f32[64,64]",
                       "--from",   "S(0)S(1)",    "--to",       "S(1)S(0)",   "--data",
                       "off",      "--straggler", "percent:50", "--no-timing"};
  const ProcessResult text = run_shardlab(words);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  const json run = json_of(words);
  EXPECT_NE(text.out.find("price us  done at us"), std::string::npos) << text.out;
  const double end = run["time_us"]["p50"];
  EXPECT_EQ(run["steps"].back()["end_us"]["p50"], end);
  // The time stands in the last step's column, and in the line below the table.
  const std::string shown = text.out.substr(text.out.find("done after ") + 11);
  const std::string number = shown.substr(0, shown.find(' '));
  EXPECT_NE(text.out.find(" " + number + "\n"), std::string::npos) << text.out;
}

// Hosts of 3 devices and 2 network interfaces of 75 GB/s each: two devices share one, and want 50
// GB/s each, so their transfers take 4/3 of the time.
TEST(SimulateCommand, DevicesThatShareANetworkInterfaceContend) {
  const TemporaryFolder folder;
  json topology = topology_json(3);
  topology["nics_per_host"] = 2;
  folder.write("nics.json", topology.dump());
  const Words common = {"--mesh",     "2x3",       "--tensor", "f32[6144,4096]",
                        "--topology", "nics.json", "--stack",  "alpha-beta",
                        "--from",     "S(0)S(1)",  "--to",     "RS(1)"};
  const auto run = [&](Words words) {
    words.insert(words.end(), common.begin(), common.end());
    return json_of(words, folder.path());
  };
  const json step = run({"plan"})["steps"].at(0);
  const double price = step["price_us"];
  const double transfer = step["parts_us"]["transfer"];
  const json without = run({"simulate", "--data", "off", "--no-timing"});
  const json with = run({"simulate", "--data", "off", "--no-timing", "--contention"});
  EXPECT_GT(transfer, 100);
  EXPECT_NEAR(without["time_us"]["p50"], price, 1e-6);
  EXPECT_NEAR(with["time_us"]["p50"], price + transfer / 3, 1e-5);
  EXPECT_FALSE(without.contains("contention"));
  EXPECT_EQ(with["contention"], true);
}

TEST(SimulateCommand, FoldsAMillionRanks) {
  const json document = json_of({"simulate", "--mesh", "1024x1024", "--tensor", "f32[8192,8192]",
                                 "--from", "S(0)S(1)", "--to", "S(1)S(0)", "--data", "off"});
  EXPECT_EQ(document["ranks"], 1048576);
  EXPECT_EQ(document["simulated_ranks"], 1);
  // An all-gather among 1024 ranks in each of 1024 groups: rows of 8 elements at 32 KiB each.
  EXPECT_EQ(document["steps"][0]["bytes_moved"], std::int64_t{1023} * 1024 * 8 * 8192 * 4);
}

TEST(SimulateCommand, JitterIsTheSameForAnyNumberOfThreads) {
  const auto run = [](const char* jobs, const char* seed) {
    return json_of({"simulate", "--mesh", "8x8", "--tensor", "f32[8192,8192]", "--from", "S(0)S(1)",
                    "--to", "S(1)S(0)", "--data", "off", "--straggler", "jitter:0.2", "--jobs",
                    jobs, "--seed", seed, "--no-timing"});
  };
  const json one = run("1", "3");
  EXPECT_EQ(one, run("4", "3"));
  EXPECT_NE(one, run("1", "4"));
  EXPECT_EQ(one["repetitions"], 100);
  EXPECT_EQ(one["simulated_ranks"], 64);
  EXPECT_LT(one["price_us"], one["time_us"]["p50"]);
  EXPECT_LT(one["time_us"]["p50"], one["time_us"]["p95"]);
  EXPECT_LT(one["time_us"]["p95"], one["time_us"]["max"]);
}

TEST(SimulateCommand, RunsAnOp) {
  const json document = json_of({"simulate", "--mesh", "2x2", "--op", "aten.mm.default", "--inputs",
                                 "f32[8,6] S(1)P", "f32[6,4] RR", "--stack", "shardlab"});
  expect_keys(document, {"ranks", "verified", "max_abs_error", "replicas_bitwise_equal", "time_us",
                         "bytes_moved", "steps", "op", "inputs", "outputs"});
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(document["max_abs_error"], 0.0);
  EXPECT_EQ(document["steps"].back()["op"], "aten.mm.default");
  EXPECT_EQ(document["inputs"].size(), 2U);
  EXPECT_EQ(document["inputs"][0]["from"], "S(1)P(sum)");
  double priced = 0.0;
  for (const json& step : document["steps"]) priced += step["price_us"].get<double>();
  EXPECT_GT(priced, 7.0);
  EXPECT_LE(document["time_us"]["max"].get<double>(), priced + 1e-5);
}

// Rank 2 of 3 holds none of the 4 rows, and a maximum of no elements does not exist.
TEST(SimulateCommand, AnOpThatFailsOnARankIsAGate) {
  const Words words = {"simulate", "--mesh",      "3",       "--op",        "aten.amax.default",
                       "--inputs", "f32[4] S(0)", "--stack", "dtensor-2.13"};
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(
      result.out.find("WRONG: aten.amax.default: rank 2: aten.amax.default of an empty tensor "
                      "has no result"),
      std::string::npos)
      << result.out;
}

constexpr const char* kProgram = R"({"schema": "shardlab/program/1", "name": "mlp", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [512, 64]}]},
    {"name": "w1", "kind": "parameter", "outputs": [{"dtype": "bf16", "shape": [64, 256]}]},
    {"name": "w2", "kind": "parameter", "outputs": [{"dtype": "bf16", "shape": [256, 64]}]},
    {"name": "h", "op": "aten.mm.default", "inputs": ["x", "w1"],
     "outputs": [{"dtype": "bf16", "shape": [512, 256]}]},
    {"name": "y", "op": "aten.mm.default", "inputs": ["h", "w2"],
     "outputs": [{"dtype": "bf16", "shape": [512, 64]}]},
    {"name": "z", "op": "aten.relu.default", "inputs": ["y"],
     "outputs": [{"dtype": "bf16", "shape": [512, 64]}]},
    {"name": "out", "kind": "output", "inputs": ["z"], "outputs": []}]})";

TEST(SimulateCommand, RunsAProgramInVirtualTime) {
  const TemporaryFolder folder;
  folder.write("mlp.json", kProgram);
  const ProcessResult result =
      run_shardlab({"simulate", "mlp.json", "--mesh", "2x4", "--pin-inputs", "S(0)R", "--pin",
                    "w1=RS(1)", "--pin", "w2=RS(0)", "--stack", "shardlab", "--format", "json"},
                   folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["ops"], 3);
  EXPECT_EQ(document["verified"], nullptr);
  // Megatron's pair of products: one reduction, after the second.
  std::vector<std::string> steps;
  for (const json& step : document["steps"]) {
    steps.push_back(step["node"].get<std::string>() + " " + step["collective"].get<std::string>());
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"h local", "y local", "z reduce_scatter", "z local"}));
  EXPECT_GT(document["bytes_moved"], 0);
  EXPECT_NEAR(document["time_us"]["max"].get<double>(), document["price_us"].get<double>(), 1e-5);
}

TEST(SimulateCommand, RefusesAProgramWithAnImpossibleNode) {
  const ProcessResult result =
      run_shardlab({"simulate", "mlp", "--mesh", "2x4", "--pin", "down=P(product)R", "--stack",
                    "dtensor-v0", "--format", "json"});
  EXPECT_EQ(result.exit_code, 1);
  const json document = json::parse(result.out);
  EXPECT_EQ(document["verified"], false);
  EXPECT_EQ(document["steps"].size(), 0U);
  EXPECT_EQ(document["price_us"], nullptr);
  EXPECT_TRUE(document["refused"].get<std::string>().starts_with("node ")) << document["refused"];
}

// A traced rank is found without listing 2^40 of them.
TEST(SimulateCommand, TracesAMeshOfAnySize) {
  const TemporaryFolder folder;
  const ProcessResult result = run_shardlab(
      {"simulate", "--mesh", "1048576x1048576", "--tensor", "f32[8,8]", "--from", "S(0)R", "--to",
       "RR", "--data", "off", "--trace", "trace.json", "--trace-ranks", "4"},
      folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// The greedy planner of v0 moves an outer shard under an inner one. Rows that shards then lack are
// filled with zeros, so that every run prints the same.
TEST(SimulateCommand, WrongShardsAreTheSameInEveryRun) {
  const Words words = {"simulate", "--mesh", "3x4",      "--tensor", "f32[1,7]",   "--from",
                       "_S(1,2)R", "--to",   "S(0)S(1)", "--stack",  "dtensor-v0", "--no-timing"};
  const ProcessResult once = run_shardlab(words);
  EXPECT_EQ(once.exit_code, 1);
  EXPECT_NE(once.out.find("element [0,1]: found 0, expected"), std::string::npos) << once.out;
  EXPECT_EQ(run_shardlab(words).out, once.out);
}

TEST(SimulateCommand, SaysWhichNodeOfAProgramCantRun) {
  const TemporaryFolder folder;
  std::string broken = kProgram;
  broken.replace(broken.find("aten.relu.default"), 17, "aten.rely.default");
  folder.write("mlp.json", broken);
  const ProcessResult result =
      run_shardlab({"simulate", "mlp.json", "--mesh", "2x4"}, folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err.substr(0, 72),
            "shardlab: mlp.json:/nodes/5: node z: unknown op \"aten.rely.default\" (did");
}

TEST(SimulateCommand, WritesATraceThatIsTheSameEveryTime) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "shardlab_trace";
  std::filesystem::create_directories(folder);
  std::vector<std::string> traces;
  for (const char* name : {"a.json", "b.json"}) {
    const std::string path = (folder / name).string();
    (void)json_of({"simulate", "--mesh", "2x4", "--tensor", "f32[64,64]", "--from", "S(0)P", "--to",
                   "RS(1)", "--straggler", "jitter:0.2", "--trace", path.c_str()});
    std::ifstream in(path);
    traces.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(traces[0], traces[1]);
  const json trace = json::parse(traces[0]);
  EXPECT_EQ(trace["otherData"]["ranks_shown"], 8);
  EXPECT_GT(trace["traceEvents"].size(), 16U);
}

TEST(SimulateCommand, SaysWhetherReplicasAreEqual) {
  const Words words = {"simulate", "--mesh",   "a=8,b=5,c=1", "--tensor",
                       "bf16[64]", "--from",   "PPR",         "--to",
                       "RRR",      "--values", "uniform",     "--domains-first"};
  const json apart = json_of(words);
  EXPECT_EQ(apart["replicas_bitwise_equal"], false);
  EXPECT_EQ(apart["notes"][0],
            "replicas differ, because groups that reduce one after the other round in different "
            "orders; 2 "
            "steps over mesh dims 0,1 are not merged (no_flattened_mesh)");
  Words merged = words;
  merged.insert(merged.end(), {"--flatten", "a,b"});
  EXPECT_EQ(json_of(merged)["replicas_bitwise_equal"], true);
}

TEST(SimulateCommand, AnImpossiblePlanIsAnAnswerAndAGate) {
  const ProcessResult result = run_shardlab({"simulate", "--mesh", "2", "--tensor", "f32[4]",
                                             "--from", "S(0)", "--to", "P", "--format", "json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
  const json document = json::parse(result.out);
  EXPECT_EQ(document["price_us"], nullptr);
  EXPECT_EQ(document["impossible"], "a shard can't become a partial");
  EXPECT_EQ(document["verified"], false);
  EXPECT_EQ(document["time_us"]["max"], nullptr);
}

// pytorch/pytorch#194457, as PyTorch 2.13.0 does it.
TEST(SimulateCommand, WrongDataIsAGate) {
  const ProcessResult result =
      run_shardlab({"simulate", "--mesh", "a=2,b=2", "--flatten", "a,b", "--tensor", "i64[5]",
                    "--from", "S(0)S(0)", "--to", "RR"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("WRONG: after step 1 (RR): rank 0, element [3]: found 0"),
            std::string::npos)
      << result.out;
}

// -- ties, compare, regress ----------------------------------------------------------------------

const Words kTies = {"ties", "--suite", "ops-small", "--stack", "dtensor-v3"};
const Words kCompare = {"compare",       "--baseline", "dtensor-v3", "--candidate",
                        "dtensor-v3-rp", "--suite",    "ops-small"};

TEST(TiesCommand, HasTheKeysOfItsContract) {
  const json ties = json_of(kTies);
  expect_keys(ties, {"questions", "exact_ties", "near_ties", "order_dependent", "items"});
  std::size_t exact = 0;
  std::size_t order_dependent = 0;
  // Every choice that has a price is in one place of the distribution.
  const json& margins = ties["margins"];
  std::int64_t choices =
      margins["exact"].get<std::int64_t>() + margins["alone"].get<std::int64_t>() +
      margins["free"].get<std::int64_t>() + margins["one_plan"].get<std::int64_t>() +
      margins["one_path"].get<std::int64_t>();
  for (const json& band : margins["bands"]) choices += band["choices"].get<std::int64_t>();
  EXPECT_EQ(choices, ties["questions"].get<std::int64_t>() -
                         ties["impossible"].get<std::int64_t>() -
                         ties["not_asked"].get<std::int64_t>());
  EXPECT_EQ(margins["exact"], ties["exact_ties"]);
  for (const json& item : ties["items"]) {
    exact += item["exact_ties"].get<int>() > 1 ? 1U : 0U;
    order_dependent += item["order_dependent"].get<bool>() ? 1U : 0U;
  }
  EXPECT_EQ(ties["exact_ties"], exact);
  EXPECT_EQ(ties["order_dependent"], order_dependent);
}

// The greedy planner makes one plan; the graph planner counts the paths that share the lowest
// price.
TEST(TiesCommand, RedistributionsAreNoChoicesOfAPlannerThatMakesOnePlan) {
  const json questions = json_of({"describe", "suite", "ops-small", "--questions"})["questions"];
  std::int64_t redistributions = 0;
  for (const json& question : questions) redistributions += question.contains("from") ? 1 : 0;
  ASSERT_GT(redistributions, 50);
  const json greedy = json_of(kTies);
  EXPECT_EQ(greedy["margins"]["one_plan"].get<std::int64_t>() +
                greedy["margins"]["one_path"].get<std::int64_t>(),
            redistributions);
  EXPECT_GT(greedy["margins"]["one_plan"], 0);
  const std::string text = output_of(kTies);
  EXPECT_NE(
      text.find("  " + greedy["margins"]["one_plan"].dump() +
                " questions are redistributions for which the planner makes one plan: there is "
                "no tie to break\n"),
      std::string::npos)
      << text.substr(0, 600);
  EXPECT_NE(
      text.find("  " + greedy["margins"]["alone"].dump() +
                " choices have no other possible candidate: the rules list one, or no other can "
                "be priced\n"),
      std::string::npos)
      << text.substr(0, 600);
  // What the line says, counted from the items.
  Words every = kTies;
  every.insert(every.end(), {"--all", "--no-flips"});
  std::int64_t alone = 0;
  const json items = json_of(every)["items"];
  for (const json& item : items) {
    const bool is_priced = !item["total_us"].is_null() && item["op"] != "redistribute";
    alone += is_priced && item["exact_ties"] == 1 && item["margin_us"].is_null() ? 1 : 0;
  }
  EXPECT_EQ(greedy["margins"]["alone"], alone);
  Words words = kTies;
  words.back() = "dtensor-v3g";
  const json graph = json_of(words);
  EXPECT_LT(graph["margins"]["one_plan"], greedy["margins"]["one_plan"]);
  EXPECT_GT(graph["margins"]["one_path"], greedy["margins"]["one_path"]);
  EXPECT_NE(output_of(words).find(" questions are redistributions of which one path alone is the "
                                  "cheapest; "),
            std::string::npos);
}

TEST(DescribeCommand, TheQuestionsOfASuiteAreASuite) {
  const TemporaryFolder folder;
  const ProcessResult written = run_shardlab(
      {"describe", "suite", "ops-small", "--questions", "--format", "json"}, folder.path());
  ASSERT_EQ(written.exit_code, 0) << written.err;
  folder.write("mine.json", written.out);
  const auto ties = [&](const char* suite) {
    const ProcessResult result = run_shardlab(
        {"ties", "--suite", suite, "--stack", "dtensor-2.13", "--format", "json", "--no-timing"},
        folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  EXPECT_EQ(ties("mine.json")["items"], ties("ops-small")["items"]);
  const ProcessResult text = run_shardlab({"describe", "suite", "moe-ep", "--questions"});
  EXPECT_NE(text.out.find("moe-ep/0003 redistribute on 8: bf16[2048,4096] S(0) to R (2 times)\n"),
            std::string::npos)
      << text.out;
}

TEST(DescribeCommand, OnlySuitesHaveQuestions) {
  const ProcessResult result = run_shardlab({"describe", "stack", "dtensor", "--questions"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "shardlab: --questions: found for stack; valid: describe suite NAME --questions\n");
}

TEST(DescribeCommand, SaysOnWhichCallsAnOpIsProved) {
  const json described = json_of({"describe", "op", "aten.where.self"});
  ASSERT_FALSE(described["samples"].empty());
  for (const json& sample : described["samples"]) {
    ASSERT_EQ(sample["inputs"].size(), 3U);
    EXPECT_EQ(sample["inputs"][0].get<std::string>().rfind("b8[", 0), 0U) << sample;
    EXPECT_TRUE(sample["args"].is_array());
  }
}

TEST(TiesCommand, AllListsEveryQuestionInTextToo) {
  const TemporaryFolder folder;
  folder.write("two.json", R"j({"schema": "shardlab/suite/1", "name": "two", "questions": [
      {"id": "plain", "kind": "select", "op": "aten.mm.default", "mesh": "8",
       "inputs": ["f32[64,64] S(0)", "f32[64,64] R"]},
      {"id": "other", "kind": "select", "op": "aten.relu.default", "mesh": "8",
       "inputs": ["f32[64] S(0)"]}]})j");
  const auto rows = [&](Words more) {
    Words words = {"ties", "--suite", "two.json", "--stack", "dtensor-v3", "--no-flips"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string out = run_shardlab(words, folder.path()).out;
    return (out.find("plain") != std::string::npos) + (out.find("other") != std::string::npos);
  };
  EXPECT_LT(rows({}), 2);
  EXPECT_EQ(rows({"--all"}), 2);
}

TEST(TiesCommand, FailOnTieIsAGateThatPrintsFirst) {
  Words words = kTies;
  words.insert(words.end(), {"--fail-on-tie", "--format", "json"});
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(json::parse(result.out), json_of(kTies));
}

TEST(CompareCommand, HasTheKeysOfItsContract) {
  const json report = json_of(kCompare);
  expect_keys(report, {"questions", "flips", "stacks", "reference", "timing"});
  EXPECT_EQ(report["reference"]["label"], "datasheet, not measured");
  for (const json& flip : report["flips"]) {
    expect_keys(
        flip, {"question", "baseline", "candidate", "baseline_us", "candidate_us", "reference_us"});
    EXPECT_NE(flip["baseline"], flip["candidate"]);
  }
  ASSERT_EQ(report["stacks"].size(), 2U);
  for (const json& stack : report["stacks"]) {
    expect_keys(stack, {"regret", "kendall_tau", "invariants"});
    expect_keys(stack["regret"], {"mean", "p50", "p99", "max"});
    for (const char* name : {"triangle", "monotone", "monotone_bandwidth", "zero_same_layout",
                             "reduce_scatter_le_all_reduce"}) {
      expect_keys(stack["invariants"][name], {"checked", "violated"});
    }
  }
}

TEST(CompareCommand, WritesItsReportsWhereAsked) {
  const TemporaryFolder folder;
  Words words = kCompare;
  words.insert(words.end(), {"--out", "deep/report", "--no-timing"});
  const json report = json_of(words, folder.path());
  EXPECT_FALSE(report.contains("timing"));
  EXPECT_EQ(json::parse(read_text(folder.path() / "deep/report/report.json")), report);
  const std::string html = read_text(folder.path() / "deep/report/report.html");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!doctype html>"));
  EXPECT_EQ(html.find("src=\"http"), std::string::npos) << "no network";
  EXPECT_NE(read_text(folder.path() / "deep/report/report.md"), "");
}

TEST(CompareCommand, AnOverrideOfTheStackMakesACandidate) {
  const json report = json_of({"compare", "--baseline", "dtensor-v3", "--suite", "ops-small",
                               "--set", "stack.transition_us=1"});
  ASSERT_EQ(report["stacks"].size(), 2U);
  EXPECT_EQ(report["stacks"][0]["name"], "dtensor-v3");
  EXPECT_EQ(report["stacks"][1]["name"], "dtensor-v3+set");
  EXPECT_EQ(report["configuration"]["stacks"][0]["transition_us"], 0.0);
  EXPECT_EQ(report["configuration"]["stacks"][1]["transition_us"], 1.0);
}

TEST(RegressCommand, HasTheKeysOfItsContract) {
  const json report = json_of({"regress", "R01", "R03"});
  expect_keys(report, {"cases", "passed", "failed", "skipped"});
  EXPECT_EQ(report["failed"], 0);
  std::set<std::string> ids;
  for (const json& one : report["cases"]) {
    expect_keys(one, {"id", "title", "status", "checks", "releases"});
    ASSERT_GE(one["releases"].size(), 3U) << one["id"];
    for (const json& release : one["releases"]) {
      expect_keys(release, {"stack", "verdict", "expected", "ok"});
    }
    ids.insert(one["id"].get<std::string>().substr(0, 3));
    for (const json& check : one["checks"]) expect_keys(check, {"what", "expected", "got", "ok"});
  }
  EXPECT_EQ(ids, (std::set<std::string>{"R01", "R03"}));
}

TEST(RegressCommand, SaysWhichFaultsAreStillThereInAStack) {
  const std::string story = output_of({"regress", "R41"});
  EXPECT_NE(
      story.find("\nreleases:  still there in dtensor-2.13, dtensor-2.14, dtensor-2.15; mended "
                 "in shardlab\n"),
      std::string::npos)
      << story;
  // A stack may fail what the case demands of every stack, and still be given a verdict.
  const ProcessResult asked =
      run_shardlab({"regress", "R41", "--stack", "dtensor-v3", "--format", "json"});
  const json last = json::parse(asked.out)["cases"][0]["releases"].back();
  EXPECT_EQ(last, (json{{"stack", "dtensor-v3"}, {"verdict", "still there"}, {"ok", true}}));
  const std::string summary = output_of({"regress"});
  EXPECT_NE(summary.find("\ndtensor-2.15:  21 still there (R02, R03, "), std::string::npos)
      << summary;
}

TEST(RegressCommand, AFailedCaseIsAGateThatPrintsFirst) {
  const TemporaryFolder folder;
  json one = read_json_file(SHARDLAB_SOURCE_DIR "/configs/regressions/R01.json");
  for (json& check : one["checks"]) {
    if (check.contains("expect")) check["expect"] = {{"path", "RRR"}};
  }
  folder.write("wrong.json", one.dump());
  const ProcessResult result =
      run_shardlab({"regress", "--file", "wrong.json", "--format", "json"}, folder.path());
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(json::parse(result.out)["failed"], 1);
}

// -- program -------------------------------------------------------------------------------------

TEST(ProgramCommand, WritesAFileThatIsReadAgain) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      output_of({"program", "llama3-8b", "--layers", "1", "--out", "one.json"}, folder.path()), "");
  const std::string text = output_of({"program", "llama3-8b", "--layers", "1"});
  const json program = json::parse(text);
  EXPECT_EQ(program["schema"], "shardlab/program/1");
  EXPECT_EQ(program["nodes"].size(), 332U);
  EXPECT_EQ(json::parse(std::ifstream(folder.path() / "one.json")), program);
  expect_keys(program["nodes"][17], {"name", "op", "inputs", "outputs"});
  expect_keys(program["nodes"][17]["outputs"][0], {"dtype", "shape", "stride"});
  EXPECT_EQ(json_of({"describe", "program", "one.json"}, folder.path()), program);
}

TEST(ProgramCommand, TheMatmulFormAndTheExtentsAreHeard) {
  const json native = json::parse(output_of({"program", "llama3-8b", "--layers", "1", "--batch",
                                             "4", "--seqlen", "256", "--matmul", "native"}));
  EXPECT_EQ(native["nodes"].size(), 387U);
  EXPECT_EQ(native["nodes"][13]["outputs"][0]["shape"], json({4, 256}));
}

// -- list, describe ------------------------------------------------------------------------------

class Registry : public testing::TestWithParam<const char*> {};

TEST_P(Registry, IsOneKeyWithAnArrayOfSortedNames) {
  const std::string name = GetParam();
  const json listed = json_of({"list", name});
  ASSERT_EQ(listed.size(), 1U);
  ASSERT_TRUE(listed[name].is_array());
  const auto names = listed[name].get<std::vector<std::string>>();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  const std::string text = output_of({"list", name});
  for (const std::string& each : names) EXPECT_NE(text.find(each), std::string::npos);
}

TEST_P(Registry, DescribesEachOfItsEntries) {
  std::string kind = GetParam();
  const json listed = json_of({"list", kind});
  kind = kind == "topologies" ? "topology" : kind.substr(0, kind.size() - 1);
  std::size_t asked = 0;
  for (const json& name : listed.front()) {
    if (++asked > 20) break;  // there are too many ops and cases to ask for each
    const json entry = json_of({"describe", kind, name.get<std::string>()});
    EXPECT_TRUE(entry.contains("name") || entry.contains("id")) << name;
    EXPECT_NE(output_of({"describe", kind, name.get<std::string>()}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Registry,
                         testing::Values("stacks", "models", "topologies", "ops", "suites",
                                         "regressions", "programs", "recipes", "experiments",
                                         "measurements"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           return std::string(test.param);
                         });

TEST(DescribeCommand, AStackIsItsEffectiveConfigurationAfterOverrides) {
  const json stack =
      json_of({"describe", "stack", "dtensor-v3", "--set",
               "stack.collective_model.params.base_latency_us=3", "--set",
               "stack.straggler.name=percent", "--set", "stack.straggler.percent=5"});
  EXPECT_EQ(stack["collective_model"]["params"]["base_latency_us"], 3.0);
  EXPECT_EQ(stack["straggler"], json({{"name", "percent"}, {"percent", 5.0}}));
}

// -- the same bytes ------------------------------------------------------------------------------

class SameBytes : public testing::TestWithParam<Words> {};

TEST_P(SameBytes, ForOneThreadForFourAndTwice) {
  for (const char* format : {"json", "text"}) {
    const auto run = [&](const char* jobs) {
      Words words = GetParam();
      words.insert(words.end(), {"--no-timing", "--format", format, "--jobs", jobs});
      return output_of(words);
    };
    const std::string once = run("1");
    EXPECT_TRUE(run("4") == once) << "4 threads, " << format;
    EXPECT_TRUE(run("4") == once) << "the second run, " << format;
    EXPECT_EQ(once.find("wall_ms"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Commands, SameBytes,
    testing::Values(kTies, kCompare,
                    Words{"simulate", "--mesh", "2x4", "--tensor", "f32[33,8]", "--from", "S(0)P",
                          "--to", "RS(1)", "--values", "uniform"},
                    Words{"regress", "R01", "R02", "R03", "R04", "R05", "R07", "R12"}),
    [](const testing::TestParamInfo<Words>& test) { return test.param[0]; });

TEST(CompareCommand, ItsFilesAreTheSameBytesForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  for (const char* jobs : {"1", "4"}) {
    Words words = kCompare;
    words.insert(words.end(), {"--no-timing", "--quiet", "--jobs", jobs, "--out", jobs});
    static_cast<void>(output_of(words, folder.path()));
  }
  for (const char* file : {"report.html", "report.md", "report.json", "record.json"}) {
    const std::string one = read_text(folder.path() / "1" / file);
    EXPECT_NE(one, "") << file;
    EXPECT_TRUE(one == read_text(folder.path() / "4" / file)) << file;
  }
}

}  // namespace commands_test
}  // namespace shardlab::testing_support
