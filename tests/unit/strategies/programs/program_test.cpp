#include "strategies/programs/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace program_test {

using testing_support::message_of;

constexpr const char* kTensor = R"("outputs": [{"dtype": "f32", "shape": [4, 8]}])";

nlohmann::json program_of(const std::string& nodes, const std::string& more = "") {
  return nlohmann::json::parse(R"({"schema": "shardlab/program/1", "name": "p", "nodes": [)" +
                               nodes + "]" + more + "}");
}
std::string node(const std::string& name, const std::string& more) {
  return R"({"name": ")" + name + R"(", )" + more + ", " + kTensor + "}";
}

TEST(Program, ReadsNodesInTheirOrder) {
  const Program program = Program::from_json(
      program_of(node("x", R"("kind": "input")") + "," + node("w", R"("kind": "parameter")") + "," +
                     R"({"name": "y", "op": "aten.max.dim", "inputs": ["x", ["w", "x:0"]],
                         "args": {"positional": [1, true]}, "phase": "backward",
                         "outputs": [{"dtype": "f32", "shape": [4, 1], "stride": [1, 1]},
                                     {"dtype": "i64", "shape": [4, 2], "stride": [1, 4]}]},)" +
                     node("g", R"("kind": "gradient", "inputs": ["y:1"])"),
                 R"(, "pairs": [["w", "g"]])"),
      {"p.json", ""});
  ASSERT_EQ(program.nodes.size(), 4U);
  const ProgramNode& y = program.nodes[2];
  EXPECT_TRUE(y.computes());
  EXPECT_FALSE(y.is_source());
  EXPECT_EQ(to_string(y.phase), "backward");
  EXPECT_EQ(y.inputs[0].values, (std::vector<ValueRef>{{0, 0}}));
  EXPECT_FALSE(y.inputs[0].is_list);
  EXPECT_EQ(y.inputs[1].values, (std::vector<ValueRef>{{1, 0}, {0, 0}}));
  EXPECT_TRUE(y.inputs[1].is_list);
  EXPECT_EQ(y.args, nlohmann::json::parse("[1, true]"));
  EXPECT_TRUE(y.outputs[0].strides.empty());  // contiguous
  EXPECT_EQ(y.outputs[1].strides, (Shape{1, 4}));
  EXPECT_EQ(program.nodes[3].inputs[0].values, (std::vector<ValueRef>{{2, 1}}));
  EXPECT_EQ(program.pairs, (std::vector<std::pair<std::size_t, std::size_t>>{{1, 3}}));
  EXPECT_EQ(program.find("g"), 3U);
  EXPECT_EQ(program.find("h"), std::nullopt);
}

TEST(Program, ItsTextIsReadAsTheSameProgram) {
  const char* nodes =
      R"({"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [4, 8]}]},
         {"name": "s", "op": "aten.split.Tensor", "inputs": ["x"], "args": {"positional": [2]},
          "outputs": [{"dtype": "bf16", "shape": [2, 8]},
                      {"dtype": "bf16", "shape": [2, 8], "stride": [1, 2]}]},
         {"name": "c", "op": "aten.cat.default", "inputs": [["s", "s:1"]], "phase": "backward",
          "args": {"positional": [0]}, "outputs": [{"dtype": "bf16", "shape": [4, 8]}]},
         {"name": "g", "kind": "gradient", "op": "aten.alias.default", "inputs": ["c"],
          "outputs": [{"dtype": "c64", "shape": []}]})";
  const auto read = [](const std::string& text) {
    return Program::from_json(nlohmann::json::parse(text), {"p.json", ""});
  };
  const Program program = read(program_of(nodes, R"(, "pairs": [["x", "c"]])").dump());
  const std::string text = program.text();
  EXPECT_EQ(read(text).text(), text);
  const nlohmann::json again = nlohmann::json::parse(text);
  EXPECT_EQ(again["nodes"][2]["inputs"], nlohmann::json::parse(R"([["s", "s:1"]])"));
  EXPECT_EQ(again["nodes"][1]["outputs"][0]["stride"], nlohmann::json::parse("[8, 1]"));
  EXPECT_EQ(again["nodes"][1]["outputs"][1]["stride"], nlohmann::json::parse("[1, 2]"));
  EXPECT_EQ(again["nodes"][3]["kind"], "gradient");
  EXPECT_EQ(again["pairs"], nlohmann::json::parse(R"([["x", "c"]])"));
}

// x[:, idx] leaves the first index out, a convolution may have no bias, and a mask is filled with
// -inf.
TEST(Program, OptionalTensorsAndInfinitiesAreReadAndWritten) {
  const char* nodes =
      R"({"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [4, 8]}]},
         {"name": "i", "kind": "buffer", "outputs": [{"dtype": "i64", "shape": [3]}]},
         {"name": "y", "op": "aten.index.Tensor", "inputs": ["x", [null, "i"]],
          "outputs": [{"dtype": "f32", "shape": [4, 3]}]},
         {"name": "z", "op": "mylib.pad.default", "inputs": ["y", null, "y"],
          "args": {"positional": ["-inf", [0, "inf"], "nan", "reflect"]},
          "outputs": [{"dtype": "f32", "shape": [4, 3]}]},
         {"name": "u", "kind": "buffer_update", "inputs": ["i"],
          "outputs": [{"dtype": "i64", "shape": [3]}]})";
  const Program program =
      Program::from_json(program_of(nodes, R"(, "pairs": [["i", "u"]])"), {"p.json", ""});
  const ProgramInput& indices = program.nodes[2].inputs[1];
  EXPECT_EQ(indices.values, (std::vector<ValueRef>{{1, 0}}));
  EXPECT_EQ(indices.given, (std::vector<bool>{false, true}));
  const ProgramNode& z = program.nodes[3];
  EXPECT_TRUE(z.inputs[1].values.empty());
  EXPECT_FALSE(z.inputs[1].is_list);
  EXPECT_EQ(z.args[0].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(z.args[1][1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(z.args[2].get<double>()));
  EXPECT_EQ(z.args[3], "reflect");
  EXPECT_TRUE(program.nodes[4].leaves());
  const std::string text = program.text();
  EXPECT_EQ(Program::from_json(nlohmann::json::parse(text), {"again.json", ""}).text(), text);
  EXPECT_NE(text.find(R"("inputs":["x",[null,"i"]])"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(["-inf",[0,"inf"],"nan","reflect"])"), std::string::npos) << text;
}

TEST(Program, PairsAreOfOneShape) {
  const std::string nodes = node("x", R"("kind": "input")") +
                            R"(, {"name": "g", "kind": "gradient", "inputs": ["x"],
                                  "outputs": [{"dtype": "bf16", "shape": [4, 9]}]})";
  EXPECT_EQ(message_of<ConfigError>([&] {
              (void)Program::from_json(program_of(nodes, R"(, "pairs": [["x", "x"], ["x", "g"]])"),
                                       {"p.json", ""});
            }),
            "p.json:/pairs/1: found f32[4,8] and bf16[4,9]; valid: tensors of one shape");
}

struct BadProgram {
  const char* name;
  std::string nodes;
  const char* message;
};
void PrintTo(const BadProgram& program, std::ostream* out) { *out << program.name; }
class ProgramErrors : public testing::TestWithParam<BadProgram> {};

TEST_P(ProgramErrors, SayWhereAndWhatIsValid) {
  EXPECT_EQ(message_of<ConfigError>([] {
              (void)Program::from_json(program_of(GetParam().nodes), {"p.json", ""});
            }),
            std::string("p.json:/nodes") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ProgramErrors,
    testing::Values(
        BadProgram{"Empty", "", ": found an empty array; valid: an array of at least one node"},
        BadProgram{"Later", node("y", R"("op": "aten.abs", "inputs": ["x"])"),
                   "/0/inputs/0: found \"x\"; valid: the name of an earlier node, or NAME:OUTPUT"},
        BadProgram{"OutputPastTheLast",
                   node("x", R"("kind": "input")") + "," +
                       node("y", R"("op": "aten.abs", "inputs": ["x:1"])"),
                   "/1/inputs/0: found \"x:1\"; valid: an output of x, which has 1 output"},
        BadProgram{"Twice", node("x", R"("kind": "input")") + "," + node("x", R"("kind": "input")"),
                   "/1/name: found \"x\" a second time; valid: a new name"},
        BadProgram{"Kind", node("x", R"("kind": "inputs")"),
                   "/0/kind: found \"inputs\" (did you mean \"input\"?); valid: op, parameter, "
                   "buffer, input, tangent, output, gradient, buffer_update"},
        BadProgram{"InputsOfAnInput",
                   node("x", R"("kind": "input")") + "," +
                       node("w", R"("kind": "parameter", "inputs": ["x"])"),
                   "/1/inputs: found inputs for a node of kind parameter; valid: no inputs"},
        BadProgram{
            "ReadsWhatHasLeft",
            node("x", R"("kind": "input")") + "," +
                node("o", R"("kind": "output", "inputs": ["x"])") + "," +
                node("y", R"("op": "aten.abs", "inputs": ["o"])"),
            "/2/inputs/0: found \"o\", of kind output; valid: a node that does not leave the "
            "program"},
        BadProgram{"InputOfTwoTensors", R"({"name": "x", "kind": "input", "outputs": []})",
                   "/0/outputs: found 0 outputs; valid: 1 output for a node of kind input"},
        BadProgram{"NoOp", node("y", R"("op": "")"), "/0/op: found \"\"; valid: an op"},
        BadProgram{"DType", R"({"name": "x", "kind": "input",
                                "outputs": [{"dtype": "f31", "shape": []}]})",
                   "/0/outputs/0: tensor \"f31[]\": at position 0: expected a dtype: f64 f32 f16 "
                   "bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64"},
        BadProgram{"Stride", R"({"name": "x", "kind": "input",
                                 "outputs": [{"dtype": "f32", "shape": [2], "stride": [1, 1]}]})",
                   "/0/outputs/0/stride: found 2 strides; valid: 1, one for each dim"},
        BadProgram{"Args", node("x", R"("op": "aten.abs", "args": {"dim": 1})"),
                   "/0/args/dim: unknown key; valid: positional"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace program_test
}  // namespace shardlab
