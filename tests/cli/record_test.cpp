// Recorded choices: what `record` writes, and what a file of choices answers as a stack.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runner/choices/choices_file.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace record_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class RecordedChoices : public testing::Test {
 protected:
  json record(const Words& more = {}) {
    Words words = {"record", "--stack",          "dtensor-2.13", "--suite", "ops-small",
                   "--out",  "own.choices.json", "--format",     "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out) : json();
  }
  ProcessResult compare(const std::string& candidate, const Words& more = {}) {
    Words words = {"compare",   "--baseline", "dtensor-2.13", "--candidate", candidate, "--suite",
                   "ops-small", "--format",   "json",         "--no-timing", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }
  // A file with one choice, in which a member of the choice or the file is replaced.
  void write_choice(const json& change) {
    json choice = {
        {"question",
         {{"op", "aten.relu.default"}, {"mesh", "2x2"}, {"inputs", {"f32[16,16] S(0)R"}}}},
        {"inputs", {"RR"}},
        {"outputs", {"RR"}},
        {"steps", {{{"input", 0}, {"mesh_dim", 0}, {"from", "S(0)"}, {"to", "R"}}}},
        {"total_us", 3.5}};
    choice.merge_patch(change);
    const json file = {{"schema", "shardlab/choices/1"},
                       {"stack", "foreign"},
                       {"source", "a test"},
                       {"devices_per_host", 8},
                       {"choices", {choice}}};
    folder_.write("foreign.choices.json", file.dump());
  }
  ProcessResult select(const std::string& op, const std::string& input, const Words& more = {}) {
    Words words = {"select",   "--op",    op,
                   "--mesh",   "2x2",     "--inputs",
                   input,      "--stack", "foreign.choices.json",
                   "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }

  TemporaryFolder folder_;
};

TEST_F(RecordedChoices, AnswerAsTheStackThatTheyWereRecordedFrom) {
  const json recorded = record();
  EXPECT_GT(recorded["choices"], 700);
  const ProcessResult result = compare("own.choices.json", {"--out", "report"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json answer = json::parse(result.out);
  EXPECT_EQ(answer["flips"], json::array());
  EXPECT_EQ(answer["questions"].get<std::size_t>() + recorded["refused"].size(),
            recorded["questions"].get<std::size_t>());
  const json run = json::parse(read_text(folder_.path() / "report" / "record.json"));
  for (const json& question : run["questions"]) {
    const json& own = question["answers"][0];
    const json& replayed = question["answers"][1];
    for (const char* key : {"choice", "path", "price_us", "reference_us"}) {
      EXPECT_EQ(own[key], replayed[key]) << question["id"] << " " << key;
    }
  }
}

TEST_F(RecordedChoices, OfAnotherProgramHaveItsLayoutsStepsAndPrice) {
  write_choice(json::object());
  const ProcessResult result = select("aten.relu.default", "f32[16,16] S(0)R");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json selected = json::parse(result.out)["selected"];
  EXPECT_EQ(selected["inputs"], json({"RR"}));
  EXPECT_EQ(selected["total_us"], 3.5);
}

TEST_F(RecordedChoices, AreNamedInTheProvenance) {
  write_choice(json::object());
  const ProcessResult result = select("aten.relu.default", "f32[16,16] S(0)R");
  const json torch = json::parse(result.out)["provenance"]["torch"];
  EXPECT_EQ(torch["stack"], "foreign.choices.json");
  EXPECT_EQ(torch["version"], nullptr);
  EXPECT_EQ(torch["levels"]["recorded"], 1);
}

// A detour that no planner of ours takes shows that the steps are those of the file.
TEST_F(RecordedChoices, AreBroughtAboutByTheStepsOfTheFile) {
  write_choice({{"steps",
                 {{{"input", 0}, {"mesh_dim", 0}, {"from", "S(0)"}, {"to", "S(1)"}},
                  {{"input", 0}, {"mesh_dim", 0}, {"from", "S(1)"}, {"to", "R"}}}}});
  folder_.write("one.json", R"({"schema": "shardlab/suite/1", "name": "one", "questions": [
      {"id": "a", "kind": "select", "op": "aten.relu.default", "mesh": "2x2",
       "inputs": ["f32[16,16] S(0)R"]}]})");
  const ProcessResult result =
      run_shardlab({"compare", "--baseline", "dtensor-2.13", "--candidate", "foreign.choices.json",
                    "--suite", "one.json", "--out", "report", "--quiet"},
                   folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(read_text(folder_.path() / "report" / "record.json"));
  EXPECT_EQ(run["questions"][0]["answers"][1]["path"], json({"input 0: S(0)R->S(1)R->RR"}));
}

TEST_F(RecordedChoices, AreCountedAsTheyAre) {
  const auto recorded = [&](const std::string& op, const json& args) {
    const json question = {{"id", "a"},     {"kind", "select"}, {"op", op},
                           {"mesh", "2x2"}, {"args", args},     {"inputs", {"f32[16,16] S(0)R"}}};
    const json suite = {
        {"schema", "shardlab/suite/1"}, {"name", "one"}, {"questions", json::array({question})}};
    folder_.write("one.json", suite.dump());
    const ProcessResult result = run_shardlab(
        {"record", "--stack", "dtensor-2.13", "--suite", "one.json", "--out", "one.choices.json"},
        folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(recorded("aten.relu.default", json::array()),
            "1 choice of dtensor-2.13 for 1 question: one.choices.json\n");
  const std::string refused = recorded("aten.cumsum_.default", {0});
  EXPECT_TRUE(refused.starts_with(
      "no choices of dtensor-2.13 for 1 question: one.choices.json\n"
      "  1 question has no answer: a: aten.cumsum_.default: no sharding strategy registered"))
      << refused;
}

// Four devices of GB200 share a host, and NVLink joins 72, by which DTensor prices.
TEST_F(RecordedChoices, SayWhichDevicesShareAHostAndWhichOnesNvlinkJoins) {
  folder_.write("one.json", R"({"schema": "shardlab/suite/1", "name": "one", "questions": [
      {"id": "a", "kind": "select", "op": "aten.relu.default", "mesh": "2x2",
       "inputs": ["f32[16,16] P(sum)R"]}]})");
  const auto file_on = [&](const std::string& topology) {
    const ProcessResult result =
        run_shardlab({"record", "--stack", "dtensor-2.13", "--suite", "one.json", "--topology",
                      topology, "--out", topology + ".choices.json"},
                     folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(read_text(folder_.path() / (topology + ".choices.json")));
  };
  json file = file_on("gb200");
  EXPECT_EQ(file["devices_per_host"], 4);
  EXPECT_EQ(file["domain_devices"], 72);
  EXPECT_FALSE(file_on("h100").contains("domain_devices"));

  const auto select_on = [&](const Words& topology) {
    Words words = {"select",
                   "--op",
                   "aten.relu.default",
                   "--mesh",
                   "2x2",
                   "--inputs",
                   "f32[16,16] P(sum)R",
                   "--stack",
                   "changed.choices.json"};
    words.insert(words.end(), topology.begin(), topology.end());
    folder_.write("changed.choices.json", file.dump());
    return run_shardlab(words, folder_.path());
  };
  const Words gb200 = {"--topology", "gb200"};
  const Words small = {"--topology", "h100", "--set", "devices_per_host=4"};
  EXPECT_EQ(select_on(gb200).exit_code, 0);
  EXPECT_EQ(select_on(small).err,
            "shardlab: changed.choices.json:/domain_devices: found 72; valid: 4, as the topology "
            "has\n");
  file.erase("domain_devices");  // the file of a program that does not say it
  EXPECT_EQ(select_on(gb200).exit_code, 0);
  file["devices_per_host"] = 72;
  EXPECT_EQ(select_on(gb200).err,
            "shardlab: changed.choices.json:/devices_per_host: found 72; valid: 4, as the topology "
            "has\n");
}

TEST_F(RecordedChoices, WithoutAPriceAreComparedAlthoughNothingMoves) {
  folder_.write("one.json", R"json({"schema": "shardlab/suite/1", "name": "one", "title": "t",
    "source": "s", "questions": [{"id": "q1", "kind": "select", "op": "aten.relu.default",
    "mesh": "4", "inputs": ["f32[8,8] S(0)"]}]})json");
  folder_.write("free.choices.json", R"json({"schema": "shardlab/choices/1", "stack": "free",
    "source": "a test", "devices_per_host": 8, "choices": [{"question": {"mesh": "4",
    "op": "aten.relu.default", "inputs": ["f32[8,8] S(0)"]}, "inputs": ["S(0)"],
    "outputs": ["S(0)"], "steps": [], "total_us": null}]})json");
  const ProcessResult compared =
      run_shardlab({"compare", "--baseline", "dtensor-2.15", "--candidate", "free.choices.json",
                    "--suite", "one.json", "--out", "compared"},
                   folder_.path());
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const json record = json::parse(read_text(folder_.path() / "compared" / "record.json"));
  EXPECT_EQ(record["questions"][0]["answers"][1]["impossible"],
            "its price is infinite where the decision was made, although nothing moves");
}

TEST_F(RecordedChoices, AreRefusedWhereOnlyOtherCandidatesCouldAnswer) {
  write_choice(json::object());
  const ProcessResult ties = run_shardlab(
      {"ties", "--stack", "foreign.choices.json", "--suite", "ops-small"}, folder_.path());
  EXPECT_EQ(ties.exit_code, 2);
  EXPECT_NE(ties.err.find("found the choices of foreign.choices.json, which do not say"),
            std::string::npos)
      << ties.err;
  const ProcessResult solve = run_shardlab(
      {"solve", "mlp", "--mesh", "2x2", "--stack", "foreign.choices.json"}, folder_.path());
  EXPECT_EQ(solve.exit_code, 2);
  EXPECT_NE(solve.err.find("found a stack that rests on the choices of foreign.choices.json"),
            std::string::npos)
      << solve.err;
}

TEST_F(RecordedChoices, RefuseAQuestionThatTheyDoNotHold) {
  write_choice(json::object());
  ProcessResult result = select("aten.relu.default", "f32[16,16] RR");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("foreign.choices.json: holds no choice for "
                            "aten.relu.default(f32[16,16] RR) on 2x2"),
            std::string::npos)
      << result.err;
  result = select("aten.neg.default", "f32[16,16] RR");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("holds no choice for the op aten.neg.default"), std::string::npos)
      << result.err;
  result = compare("foreign.choices.json");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("holds no plan for"), std::string::npos) << result.err;
}

TEST_F(RecordedChoices, RefuseATopologyWithOtherHosts) {
  write_choice(json::object());
  const ProcessResult result =
      select("aten.relu.default", "f32[16,16] S(0)R", {"--set", "devices_per_host=4"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("/devices_per_host: found 8; valid: 4"), std::string::npos)
      << result.err;
}

TEST_F(RecordedChoices, ThatAreWrongAreNamedWithTheirPlace) {
  struct Wrong {
    json change;
    const char* said;
  };
  const std::vector<Wrong> all = {
      {{{"inputs", {"RS(x)"}}}, "foreign.choices.json:/choices/0/inputs/0: "},
      {{{"inputs", {"RR", "RR"}}}, "/choices/0/inputs: found 2 layouts; valid: 1"},
      {{{"question", {{"mesh", "2by2"}}}}, "/choices/0/question/mesh: "},
      {{{"question", {{"op", nullptr}}}}, "/choices/0/question"},
      {{{"question", {{"tensor", "f32[8]"}}}}, "found neither a question about an op"},
      {{{"steps", {{{"input", 0}, {"mesh_dim", 2}, {"from", "S(0)"}, {"to", "R"}}}}},
       "/choices/0/steps/0/mesh_dim: found 2; valid: 0 to 1"},
      {{{"total_us", "3.5"}}, "/choices/0/total_us"},
      {{{"total_us", -3}}, "/choices/0/total_us: found -3; valid: 0 or more, or null"},
      {{{"steps", {{{"input", 1}, {"mesh_dim", 0}, {"from", "S(0)"}, {"to", "R"}}}}},
       "/choices/0/steps/0/input: found 1; valid: 0"},
      {{{"steps", {{{"input", 0}, {"mesh_dim", 0}, {"from", "S(1)"}, {"to", "R"}}}}},
       "/choices/0/steps: found a step of input 0 from S(1) on mesh dim 0; valid: a step from "
       "S(0), "
       "since it is in S(0)R by then"},
      {{{"steps", {{{"input", 0}, {"mesh_dim", 0}, {"from", "S(0)"}, {"to", "S(1)"}}}}},
       "/choices/0/steps: found steps that leave input 0 in S(1)R; valid: steps to RR"},
      {{{"price", 3.5}}, "/choices/0/price: unknown key"},
  };
  for (const Wrong& wrong : all) {
    write_choice(wrong.change);
    const ProcessResult result = select("aten.relu.default", "f32[16,16] S(0)R");
    EXPECT_EQ(result.exit_code, 3) << wrong.change;
    EXPECT_NE(result.err.find(wrong.said), std::string::npos) << wrong.change << result.err;
  }
}

// Without its last step a plan would be shorter, and would be judged as an improvement.
TEST_F(RecordedChoices, OfARedistributionHaveToLeadThere) {
  const auto said = [&](const json& steps, const json& total_us) {
    write_choice({{"question",
                   {{"mesh", "2x2"},
                    {"op", nullptr},
                    {"inputs", nullptr},
                    {"tensor", "f32[16,16]"},
                    {"from", "S(0)S(1)"},
                    {"to", "RR"}}},
                  {"inputs", json::array()},
                  {"outputs", json::array()},
                  {"steps", steps},
                  {"total_us", total_us}});
    return run_shardlab({"plan", "--mesh", "2x2", "--tensor", "f32[16,16]", "--from", "S(0)S(1)",
                         "--to", "RR", "--stack", "foreign.choices.json"},
                        folder_.path())
        .err;
  };
  const json first = {{"input", 0}, {"mesh_dim", 0}, {"from", "S(0)"}, {"to", "R"}};
  const json second = {{"input", 0}, {"mesh_dim", 1}, {"from", "S(1)"}, {"to", "R"}};
  EXPECT_EQ(said({first, second}, 5.0), "");
  EXPECT_NE(said(json::array({first}), 5.0)
                .find("/choices/0/steps: found steps that leave the tensor in RS(1); "
                      "valid: steps to RR"),
            std::string::npos);
  EXPECT_NE(said(json::array(), 5.0).find("found steps that leave the tensor in S(0)S(1)"),
            std::string::npos);
}

TEST(ChoicesSchema, IsTheShippedFile) {
  const std::filesystem::path file =
      std::filesystem::path(SHARDLAB_SOURCE_DIR) / "configs/schema/choices.schema.json";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(file) << choices_schema_text();
    return;
  }
  EXPECT_EQ(read_text(file), choices_schema_text())
      << "UPDATE_GOLDEN=1 rewrites " << file.filename();
}

// What is asked about a redistribution is answered by the recorded plan, in simulations and
// regression cases too, and a redistribution that was not recorded is refused.
TEST_F(RecordedChoices, PlanWhatTheyRecordAndNothingElse) {
  folder_.write("moves.json", R"json({"schema": "shardlab/suite/1", "name": "moves", "questions": [
      {"id": "move", "kind": "plan", "mesh": "2x4", "tensor": "bf16[8192,4096]",
       "from": "S(0)S(0)", "to": "RS(0)"}]})json");
  const ProcessResult recorded = run_shardlab(
      {"record", "--stack", "dtensor-v3g", "--suite", "moves.json", "--out", "moves.choices.json"},
      folder_.path());
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  const auto ask = [&](const std::string& command, const std::string& stack,
                       const std::string& to) {
    return run_shardlab({command, "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from",
                         "S(0)S(0)", "--to", to, "--stack", stack, "--format", "json"},
                        folder_.path());
  };
  const json best = json::parse(ask("plan", "dtensor-v3g", "RS(0)").out);
  ASSERT_NE(best["path"], json::parse(ask("plan", "dtensor-v3", "RS(0)").out)["path"]);
  EXPECT_EQ(json::parse(ask("plan", "moves.choices.json", "RS(0)").out)["path"], best["path"]);
  EXPECT_EQ(json::parse(ask("simulate", "moves.choices.json", "RS(0)").out)["path"],
            json::parse(ask("simulate", "dtensor-v3g", "RS(0)").out)["path"]);
  for (const std::string command : {"plan", "simulate"}) {
    const ProcessResult other = ask(command, "moves.choices.json", "RR");
    EXPECT_EQ(other.exit_code, 3) << command;
    EXPECT_NE(other.err.find(
                  "moves.choices.json: holds no plan for bf16[8192,4096] S(0)S(0) to RR on 2x4"),
              std::string::npos)
        << other.err;
  }

  const json check = {{"plan", {{"from", "S(0)S(0)"}, {"to", "RS(0)"}}},
                      {"expect", {{"price_us", best["price_us"]}}}};
  const json setup = {{"mesh", "2x4"},
                      {"devices_per_host", 8},
                      {"tensor", "bf16[8192,4096]"},
                      {"stack", "dtensor-v3g"}};
  folder_.write("case.json", json({{"schema", "shardlab/case/1"},
                                   {"id", "R98-moves"},
                                   {"title", "a recorded plan"},
                                   {"source", "https://github.com/pytorch/pytorch/issues/157585"},
                                   {"status", "built"},
                                   {"story", {"The recorded plan is the one of least cost."}},
                                   {"setup", setup},
                                   {"checks", {check}}})
                                 .dump());
  const ProcessResult regress = run_shardlab(
      {"regress", "--file", "case.json", "--stack", "moves.choices.json"}, folder_.path());
  EXPECT_EQ(regress.exit_code, 0) << regress.out << regress.err;
}

// PyTorch's rule of stack offers partials of different kinds, although its executor refuses them.
TEST_F(RecordedChoices, WithMixedPartialsAreReadAndMarked) {
  const Words op = {"--op",     "aten.stack.default",
                    "--mesh",   "2x2",
                    "--inputs", "[i8[1,1] RP(sum); i8[1,1] P(max)R]",
                    "--args",   "[0]"};
  const std::string why =
      "input 0: P(max)P(sum) mixes partials of different kinds, which DTensor's executor refuses "
      "(\"Mixed Partial reduce types are not supported\")";
  const auto ask = [&](const std::string& command, const std::string& stack, const Words& more) {
    Words words = {command, "--stack", stack};
    words.insert(words.end(), op.begin(), op.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  };
  const ProcessResult selected = ask("select", "dtensor-2.13", {"--format", "json"});
  ASSERT_EQ(selected.exit_code, 0) << selected.err;
  const json selection = json::parse(selected.out);
  EXPECT_EQ(selection["selected"]["outputs"], json({"P(max)P(sum)"}));
  EXPECT_EQ(selection["unexecutable"], why);
  EXPECT_NE(ask("select", "dtensor-2.13", {}).out.find("  the choice can't run: " + why + "\n"),
            std::string::npos);
  EXPECT_EQ(ask("simulate", "dtensor-2.13", {}).exit_code, 1);

  folder_.write("mixed.json", json({{"schema", "shardlab/suite/1"},
                                    {"name", "mixed"},
                                    {"title", "t"},
                                    {"source", "s"},
                                    {"questions",
                                     {{{"id", "q1"},
                                       {"kind", "select"},
                                       {"mesh", "2x2"},
                                       {"op", op[1]},
                                       {"inputs", {op[5]}},
                                       {"args", {0}}}}}})
                                  .dump());
  const ProcessResult recorded = run_shardlab(
      {"record", "--suite", "mixed.json", "--stack", "dtensor-2.13", "--out", "mixed.choices.json"},
      folder_.path());
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  const ProcessResult again = ask("select", "mixed.choices.json", {"--format", "json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["selected"]["inputs"], selection["selected"]["inputs"]);
  EXPECT_EQ(json::parse(again.out)["unexecutable"], why);
}

}  // namespace record_test
}  // namespace shardlab::testing_support
