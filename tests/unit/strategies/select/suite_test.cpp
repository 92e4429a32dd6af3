// Suites: what a file may say, in which words it is refused, and what a generator draws.
#include "strategies/select/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/ties.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace suite_test {

using nlohmann::json;
using testing_support::stack_with;
using testing_support::topology_with;

const JsonPlace kPlace{"s.json", ""};

json suite_of(const std::string& questions) {
  return {{"schema", "shardlab/suite/1"},
          {"name", "s"},
          {"title", "t"},
          {"questions", json::parse(questions)}};
}

Suite read(const json& suite) { return Suite::from_json(suite, kPlace); }

Suite shipped(const std::string& name) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/suites/" + name + ".json");
  return Suite::from_json(json::parse(in), {name + ".json", ""});
}

// A suite with its questions written out is the same suite, whether it was generated or recorded.
TEST(Suite, ReadsBackWhatItWrites) {
  for (const char* name : {"ops-small", "moe-ep", "torchtitan-llama3-8b-cp"}) {
    const Suite suite = shipped(name);
    const Suite again = read(json::parse(suite.to_json().dump()));
    EXPECT_EQ(again.name, suite.name);
    EXPECT_EQ(again.title, suite.title);
    EXPECT_EQ(again.source, suite.source);
    ASSERT_EQ(again.questions.size(), suite.questions.size());
    for (std::size_t i = 0; i < suite.questions.size(); ++i) {
      const Question& before = suite.questions[i];
      const Question& after = again.questions[i];
      EXPECT_EQ(after.id, before.id);
      EXPECT_EQ(after.mesh.text(), before.mesh.text()) << before.id;
      EXPECT_EQ(after.count, before.count) << before.id;
      EXPECT_EQ(after.where, before.where) << before.id;
      EXPECT_EQ(after.call, before.call) << before.id;
      EXPECT_EQ(after.inputs(), before.inputs()) << before.id;
    }
  }
}

// -- reading -------------------------------------------------------------------------------------

TEST(Suite, ReadsWhatAnOpIsAsked) {
  const Suite suite = read(suite_of(R"json([{"id": "a", "kind": "select", "op": "sum.dim_IntList",
      "mesh": "2x4", "inputs": ["bf16[8,16] S(0)R"], "args": [[0], true], "count": 3}])json"));
  EXPECT_EQ(suite.name, "s");
  EXPECT_EQ(suite.title, "t");
  ASSERT_EQ(suite.questions.size(), 1U);
  const Question& question = suite.questions[0];
  EXPECT_EQ(question.kind, Question::Kind::kSelect);
  EXPECT_EQ(question.op(), "aten.sum.dim_IntList") << "one spelling per op";
  EXPECT_EQ(question.mesh.text(), "2x4");
  EXPECT_EQ(question.bytes(), 8 * 16 * 2);
  EXPECT_EQ(question.count, 3);
  EXPECT_EQ(question.inputs(), (std::vector<std::string>{"bf16[8,16] S(0)R", "[0]", "true"}));
}

TEST(Suite, ReadsARedistribution) {
  const Suite suite = read(suite_of(R"json([{"id": "a", "kind": "plan", "mesh": "dp=2,tp=4",
      "tensor": "f32[8,16]", "from": "S(0)[1]S(0)[0]", "to": "R,S(1)"}])json"));
  const Question& question = suite.questions.at(0);
  EXPECT_EQ(question.kind, Question::Kind::kPlan);
  EXPECT_EQ(question.op(), "redistribute");
  EXPECT_EQ(question.bytes(), 8 * 16 * 4);
  EXPECT_EQ(question.count, 1);
  EXPECT_EQ(question.inputs(), (std::vector<std::string>{"f32[8,16] S(0)[1]S(0)[0] to RS(1)"}));
}

TEST(Suite, TheLargestTensorOfAListCounts) {
  const Suite suite = read(suite_of(R"json([{"id": "a", "kind": "select", "op": "cat", "mesh": "2",
      "inputs": ["[f32[8] R; f32[16] S(0)]"], "args": [0]}])json"));
  EXPECT_EQ(suite.questions.at(0).bytes(), 64);
  EXPECT_EQ(suite.questions.at(0).inputs(),
            (std::vector<std::string>{"[f32[8] R; f32[16] S(0)]", "0"}));
}

struct SuiteError {
  const char* name;
  const char* question;  // the keys that replace those of a good question
  const char* message;
};
void PrintTo(const SuiteError& c, std::ostream* out) { *out << c.name; }
class SuiteErrors : public testing::TestWithParam<SuiteError> {};

TEST_P(SuiteErrors, NameFileAndPointerWordForWord) {
  json suite = suite_of(R"json([{"id": "a", "kind": "plan", "mesh": "2", "tensor": "f32[8]",
      "from": "R", "to": "S(0)"}, {"id": "b", "kind": "select", "op": "mm", "mesh": "2",
      "inputs": ["f32[8,8] R", "f32[8,8] R"]}])json");
  const json patch = json::parse(GetParam().question);
  suite["questions"][patch.contains("tensor") || patch.contains("from") ? 0 : 1].merge_patch(patch);
  EXPECT_THROW_MSG(read(suite), ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, SuiteErrors,
    testing::Values(
        SuiteError{"SameId", R"({"id": "a"})", "s.json:/questions/1/id: found \"a\" twice"},
        SuiteError{"IdOfAnotherType", R"({"id": 7})",
                   "s.json:/questions/1/id: found 7; valid: a text"},
        SuiteError{"UnknownKind", R"({"kind": "ask"})",
                   "s.json:/questions/1/kind: found \"ask\"; valid: select, plan"},
        SuiteError{"NoMesh", R"({"mesh": null})", "s.json:/questions/1: missing key \"mesh\""},
        SuiteError{"BadMesh", R"({"mesh": "2x"})",
                   "s.json:/questions/1/mesh: mesh \"2x\": at position 2: expected a mesh dim size "
                   "(8x8, dp=8,tp=8)"},
        SuiteError{"BadTensor", R"({"tensor": "f31[8]"})",
                   "s.json:/questions/0/tensor: tensor \"f31[8]\": at position 0: expected a "
                   "dtype: f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64"},
        SuiteError{"DimOutOfRange", R"json({"from": "S(1)"})json",
                   "s.json:/questions/0/from: layout \"S(1)\": at position 0: expected shards of "
                   "tensor dims 0 to 0, found S(1)"},
        SuiteError{"BadInput", R"json({"inputs": ["f32[8,8] R", "f32[8,8] X"]})json",
                   "s.json:/questions/1/inputs/1: layout \"X\": at position 0: expected a "
                   "placement: R, S(d), _S(d,f), P(op), MP or NP(p); or one that is registered: "
                   "RG(DIMS:UNITS)"},
        SuiteError{"UnknownOp", R"({"op": "aten.bmm.defaul"})",
                   "s.json:/questions/1/op: unknown op \"aten.bmm.defaul\" (did you mean "
                   "\"aten.bmm.default\"?); valid: the ops of `shardlab list ops`"},
        SuiteError{"CountTooLarge", R"({"count": 1e300})",
                   "s.json:/questions/1/count: found 1e+300; valid: an integer from 1 to "
                   "9007199254740992"},
        SuiteError{"TensorForAnOp", R"({"to": "R"})",
                   "s.json:/questions/1/to: unknown key (did you mean \"id\"?); valid: id, kind, "
                   "mesh, count, where, op, inputs, args"}),
    [](const testing::TestParamInfo<SuiteError>& test) { return test.param.name; });

TEST(Suite, HasQuestionsOrAGeneratorButNotBoth) {
  json suite = suite_of("[]");
  EXPECT_EQ(read(suite).questions.size(), 0U);
  suite["generate"] = json::object();
  EXPECT_THROW_MSG(read(suite), ConfigError,
                   "s.json: found both \"questions\" and \"generate\"; valid: one of them");
}

// -- generating ----------------------------------------------------------------------------------

json generator(const std::string& patch = "{}") {
  json suite = suite_of("[]");
  suite.erase("questions");
  suite["generate"] = json::parse(R"json({"seed": 7, "ops": ["mm", "aten._softmax.default", "cat"],
      "meshes": ["2", "2x2x2"], "sizes_bytes": [1, 4096], "layouts_per_case": 2,
      "redistributions_per_case": 3})json");
  suite["generate"].merge_patch(json::parse(patch));
  return suite;
}

std::vector<std::string> texts(const Suite& suite) {
  std::vector<std::string> all;
  for (const Question& question : suite.questions) {
    std::string text = question.id + " on " + question.mesh.text() + ":";
    for (const std::string& input : question.inputs()) text += " " + input;
    all.push_back(text);
  }
  return all;
}

TEST(SuiteGenerator, TheSameSeedDrawsTheSameQuestions) {
  EXPECT_EQ(texts(read(generator())), texts(read(generator())));
  EXPECT_NE(texts(read(generator())), texts(read(generator(R"({"seed": 8})"))));
}

// These texts are the same with every compiler and library, since the arithmetic is our own.
TEST(SuiteGenerator, DrawsTheseQuestions) {
  const std::vector<std::string> drawn = texts(read(generator()));
  ASSERT_GT(drawn.size(), 10U);
  EXPECT_EQ(drawn[0], "00001 redistribute on 2: i8[1] R to S(0)");
  EXPECT_EQ(drawn[4], "00005 aten.mm.default on 2: i8[1,1] S(1) i8[1,1] R");
  EXPECT_EQ(drawn.back(),
            "00036 aten.cat.default on 2x2x2: [bf16[45,45] RS(0)P(sum); bf16[45,45] RS(0)S(0)] 0");
}

TEST(SuiteGenerator, EveryOpMeetsEveryMeshAndSize) {
  const Suite suite = read(generator());
  EXPECT_EQ(suite.questions.size(), 2U * 2U * (3U + 3U * 2U));
  std::set<std::string> ids;
  std::set<std::pair<std::string, std::string>> met;
  for (const Question& question : suite.questions) {
    ids.insert(question.id);
    met.insert({question.op(), question.mesh.text()});
  }
  EXPECT_EQ(ids.size(), suite.questions.size());
  EXPECT_EQ(met.size(), 4U * 2U);
}

TEST(SuiteGenerator, ThePredicateOfAChoiceHoldsTruthValues) {
  int choices = 0;
  for (const Question& question : shipped("ops-full").questions) {
    if (question.op() != "aten.where.self") continue;
    ++choices;
    const TensorSpec& predicate = question.call.required_tensor(0);
    EXPECT_EQ(predicate.meta.dtype, DType::kB8) << question.id;
    EXPECT_FALSE(has_partial(predicate.layout.placements)) << question.id;
    EXPECT_NE(question.call.required_tensor(1).meta.dtype, DType::kB8) << question.id;
  }
  EXPECT_EQ(choices, 675);
}

TEST(SuiteGenerator, RefusesMoreQuestionsThanAnyoneCanAsk) {
  EXPECT_THROW_MSG(read(generator(R"({"layouts_per_case": 1000, "sizes_bytes": [1, 2, 4, 8, 16,
      32, 64, 128, 256, 512, 1024, 2048], "redistributions_per_case": 1000,
      "ops": ["mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm",
              "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm",
              "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm", "mm",
              "mm"]})")),
                   ConfigError,
                   "s.json:/generate: found 1032000 questions; valid: at most 1000000");
}

TEST(SuiteGenerator, OpsSmallIsHundredsOfQuestionsThatCanAllBeAsked) {
  const Suite suite = shipped("ops-small");
  EXPECT_GE(suite.questions.size(), 200U);
  for (const char* stack : {"dtensor-2.13", "shardlab"}) {
    StackEvaluator evaluator(stack_with(stack), topology_with(8));
    for (const Question& question : suite.questions) {
      EXPECT_EQ(audit_ties(question, evaluator, 1.0).error, "") << stack << ", " << question.id;
    }
  }
}

TEST(SuiteGenerator, OpsFullCoversSizesFromOneByteToEightGibibytes) {
  const Suite suite = shipped("ops-full");
  EXPECT_GE(suite.questions.size(), 20000U);
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  double least = 1e300;
  double most = 0;
  std::set<int> mesh_ndims;
  std::set<std::string> ops;
  for (const Question& question : suite.questions) {
    least = std::min(least, question.bytes());
    most = std::max(most, question.bytes());
    mesh_ndims.insert(question.mesh.ndim());
    ops.insert(question.op());
  }
  EXPECT_EQ(least, 1);
  EXPECT_GE(most, 7.9 * kGib);
  EXPECT_LE(most, 33 * kGib) << "a right operand may be four times as large";
  EXPECT_EQ(mesh_ndims, (std::set<int>{1, 2, 3, 4}));
  EXPECT_GE(ops.size(), 30U);
}

}  // namespace suite_test
}  // namespace shardlab
