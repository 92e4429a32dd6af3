// Malformed files: exit 3, nothing on stdout, and a message that names the file, the line and
// column or the JSON pointer, what was found and what is valid. The messages are compared word for
// word.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace bad_file_test {

using nlohmann::json;
using Words = std::vector<std::string>;

struct BadFile {
  const char* name;
  Words words;       // the command, which reads bad.json
  std::string text;  // the contents of bad.json
  const char* message;
};
void PrintTo(const BadFile& file, std::ostream* out) { *out << file.text.substr(0, 200); }

const Words kStack = {"describe", "stack", "bad.json"};
const Words kTopology = {"describe", "topology", "bad.json"};
const Words kSuite = {"describe", "suite", "bad.json"};
const Words kCase = {"regress", "--file", "bad.json"};
const Words kPlan = {"plan", "--mesh", "2", "--tensor", "f32[8]",  "--from",
                     "S(0)", "--to",   "R", "--stack",  "bad.json"};

// A good file with a JSON merge patch (RFC 7386: null removes a key).
std::string patched(json good, const char* patch) {
  good.merge_patch(json::parse(patch));
  return good.dump();
}
std::string stack_with(const char* patch) {
  return patched(read_json_file(SHARDLAB_SOURCE_DIR "/configs/stacks/dtensor-2.13.json"), patch);
}
std::string topology_with(const char* patch) {
  return patched(read_json_file(SHARDLAB_SOURCE_DIR "/configs/topologies/h100.json"), patch);
}
json suite_of(const json& questions) {
  return {{"schema", "shardlab/suite/1"}, {"name", "bad"}, {"questions", questions}};
}
std::string suite_with(const char* patch) { return patched(suite_of(json::array()), patch); }
std::string questions_with(const json& good, const std::vector<const char*>& patches) {
  json questions = json::array();
  for (const char* patch : patches) {
    questions.push_back(good);
    questions.back().merge_patch(json::parse(patch));
  }
  return suite_of(questions).dump();
}
std::string selects_with(const std::vector<const char*>& patches) {
  return questions_with({{"id", "a"},
                         {"kind", "select"},
                         {"op", "mm"},
                         {"mesh", "4"},
                         {"inputs", {"f32[8,8] R", "f32[8,8] R"}}},
                        patches);
}
std::string plans_with(const std::vector<const char*>& patches) {
  return questions_with({{"id", "a"},
                         {"kind", "plan"},
                         {"mesh", "2x4"},
                         {"tensor", "f32[8,8]"},
                         {"from", "RR"},
                         {"to", "RR"}},
                        patches);
}
std::string generate_with(const char* patch) {
  json suite = suite_of(nullptr);
  suite.erase("questions");
  suite["generate"] = {
      {"seed", 1},          {"ops", {"mm"}},         {"meshes", {"2"}},
      {"sizes_bytes", {8}}, {"layouts_per_case", 1}, {"redistributions_per_case", 1}};
  suite["generate"].merge_patch(json::parse(patch));
  return suite.dump();
}

std::string case_with(const char* check) {
  return json{{"schema", "shardlab/case/1"},
              {"id", "R98"},
              {"title", "a bad check"},
              {"source", "https://example.org"},
              {"status", "exact"},
              {"setup", {{"mesh", "2"}, {"tensor", "f32[8]"}, {"stack", "dtensor-v3"}}},
              {"checks", {json::parse(check)}}}
      .dump();
}

class BadFileContent : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileContent, IsAnsweredWordForWord) {
  const TemporaryFolder folder;
  folder.write("bad.json", with_lists(GetParam().text));
  const ProcessResult result = run_shardlab(GetParam().words, folder.path());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "shardlab: " + with_lists(GetParam().message) + "\n");
}

std::string name_of(const testing::TestParamInfo<BadFile>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Json, BadFileContent,
    testing::Values(
        BadFile{"EmptyFile", kStack, "",
                "bad.json:line 1, column 1: broken JSON: found nothing; valid: a JSON document"},
        BadFile{"OnlyBlanks", kStack, " \n",
                "bad.json:line 2, column 1: broken JSON: found nothing; valid: a JSON document"},
        BadFile{"CutOff", kStack, R"({"schema": "shardlab/stack/1")",
                "bad.json:line 1, column 30: broken JSON: the text ends too early; valid: a "
                "complete JSON "
                "document"},
        BadFile{"ValueMissing", kStack, "{\n  \"schema\": \"shardlab/stack/1\",\n  \"name\":\n}",
                "bad.json:line 4, column 1: broken JSON: found \"}\"; valid: a value"},
        BadFile{"TrailingComma", kStack, R"({"name": "x",})",
                "bad.json:line 1, column 14: broken JSON: found \"}\"; valid: another key in "
                "double quotes"},
        BadFile{"CommaMissing", kStack, R"({"name": "x" "title": "y"})",
                "bad.json:line 1, column 20: broken JSON: found '\"'; valid: \",\" or \"}\""},
        BadFile{
            "Comment", kStack, "// a stack\n{}",
            "bad.json:line 1, column 1: broken JSON: found a comment; JSON has none; valid: a JSON "
            "document"},
        BadFile{"UnquotedKey", kStack, R"({name: "x"})",
                "bad.json:line 1, column 2: broken JSON: found name; valid: a key in double "
                "quotes, or \"}\""},
        BadFile{
            "NaN", kStack, R"({"transition_us": NaN})",
            "bad.json:line 1, column 19: broken JSON: found NaN; JSON has no NaN and no Infinity; "
            "valid: a finite number"},
        BadFile{"Infinity", kStack, R"({"transition_us": -Infinity})",
                "bad.json:line 1, column 19: broken JSON: found -Infinity; JSON has no NaN and no "
                "Infinity; "
                "valid: a finite number"},
        BadFile{"HugeNumber", kStack, R"({"transition_us": 1e999})",
                "bad.json:line 1, column 23: broken JSON: found 1e999; valid: a number that a "
                "double holds, "
                "up to 1.8e308"},
        BadFile{"PythonTrue", kStack, R"({"merge_checks_all_gather": True})",
                "bad.json:line 1, column 29: broken JSON: found True; valid: true, false, null, a "
                "number or "
                "a text in double quotes"},
        BadFile{"TwoDocuments", kStack, "{} {}",
                "bad.json:line 1, column 4: broken JSON: found \"{\"; valid: nothing after the "
                "document's "
                "end"},
        BadFile{"BytesThatAreNoUtf8", kStack, "{\"name\": \"\xff\xfe\"}",
                "bad.json:line 1, column 11: broken JSON: found bytes that are not UTF-8; valid: "
                "UTF-8 text"},
        BadFile{"NulByte", kStack, std::string("{\"name\": \"x\"\0}", 13),
                "bad.json:line 1, column 13: broken JSON: found a control character; valid: \",\" "
                "or \"}\""},
        BadFile{"LineBreakInAText", kStack, "{\"name\": \"x\ny\"}",
                "bad.json:line 1, column 12: broken JSON: found a control character inside a text; "
                "valid: "
                "an escape such as \\n"},
        BadFile{"BadEscape", kStack, R"({"name": "\q"})",
                "bad.json:line 1, column 12: broken JSON: found \"q\" inside a text; valid: after "
                "\"\\\", "
                "one of \" \\ / b f n r t, or u and 4 hex digits"},
        BadFile{"KeyTwice", kStack, R"({"collective_model": {"name": "dtensor", "name": "none"}})",
                "bad.json:/collective_model: key \"name\" occurs twice"},
        BadFile{
            "TenThousandBrackets", kStack, std::string(10000, '['),
            "bad.json:/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0...: is nested too deep; valid: at "
            "most 64 "
            "levels"},
        BadFile{
            "TenThousandLevels", kStack,
            R"({"rows":)" + std::string(10000, '[') + std::string(10000, ']') + "}",
            "bad.json:/rows/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/...: is nested too deep; valid: at "
            "most 64 "
            "levels"},
        BadFile{"ArrayInsteadOfAnObject", kStack, "[]",
                "bad.json: found an array; valid: an object"},
        BadFile{"NullInsteadOfAnObject", kTopology, "null",
                "bad.json: found null; valid: an object"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Stacks, BadFileContent,
    testing::Values(
        BadFile{"WrongSchema", kStack, stack_with(R"({"schema": "shardlab/stack/2"})"),
                "bad.json:/schema: found \"shardlab/stack/2\"; valid: \"shardlab/stack/1\""},
        BadFile{"SchemaOfAnotherKind", kStack, stack_with(R"({"schema": "shardlab/topology/1"})"),
                "bad.json:/schema: found \"shardlab/topology/1\"; valid: \"shardlab/stack/1\""},
        BadFile{"SchemaMissing", kStack, stack_with(R"({"schema": null})"),
                "bad.json: missing key \"schema\""},
        BadFile{"UnknownKey", kStack, stack_with(R"({"colour": "red"})"),
                "bad.json:/colour: unknown key; valid: {stack keys}"},
        BadFile{"MisspeltKey", kStack, stack_with(R"({"planer": "graph"})"),
                "bad.json:/planer: unknown key (did you mean \"planner\"?); valid: {stack keys}"},
        BadFile{
            "UnknownWord", kStack, stack_with(R"({"planner": "graf"})"),
            "bad.json:/planner: found \"graf\" (did you mean \"graph\"?); valid: greedy, graph"},
        BadFile{"WordOfAnotherType", kStack, stack_with(R"({"planner": 3})"),
                "bad.json:/planner: found 3; valid: a text"},
        BadFile{"KeyMissing", kStack, stack_with(R"({"transitions": null})"),
                "bad.json: missing key \"transitions\""},
        BadFile{"UnknownRuleSet", kStack, stack_with(R"({"rules": "dtensor-2.12"})"),
                "bad.json:/rules: found \"dtensor-2.12\" (did you mean \"dtensor-2.15\"?); valid: "
                "dtensor-2.15, dtensor-2.14, dtensor-2.13, dtensor-legacy, shardlab, autoparallel, "
                "autoparallel-2.15"},
        BadFile{"UnknownTransitions", kStack, stack_with(R"({"transitions": "v9"})"),
                "bad.json:/transitions: unknown transition version \"v9\" (did you mean \"v0\"?); "
                "valid: "
                "v0, v1, v2, v3, v4, v3-rp, v3-sp, v-compute, autoparallel"},
        BadFile{"PriceOfReplicateToPartialWhereThereIsNone", kStack,
                stack_with(R"({"transitions": {"name": "v3", "replicate_to_partial_us": 1}})"),
                "bad.json:/transitions/replicate_to_partial_us: version \"v3\" has no price for "
                "R->P; valid "
                "in v3-rp and v-compute"},
        BadFile{"UnknownOrder", kStack, stack_with(R"({"order": "random"})"),
                "bad.json:/order: order \"random\": at position 0: expected listed, reversed or "
                "shuffled:SEED"},
        BadFile{"UnknownPolicy", kStack, stack_with(R"({"policy": "keep-inputs"})"),
                "bad.json:/policy: found \"keep-inputs\" (did you mean \"keep-input\"?); valid: "
                "first-listed, keep-input, fewest-collectives, least-bytes, compute-time, "
                "lexicographic"},
        BadFile{"FlagOfAnotherType", kStack, stack_with(R"({"merge_checks_all_gather": "yes"})"),
                "bad.json:/merge_checks_all_gather: found \"yes\"; valid: true or false"},
        BadFile{"NegativeTransitionPrice", kStack, stack_with(R"({"transition_us": -1})"),
                "bad.json:/transition_us: found -1; valid: a number from 0 to 1e+09"},
        BadFile{"UnknownModel", kStack, stack_with(R"({"collective_model": "dtensr"})"),
                "bad.json:/collective_model: unknown model \"dtensr\" (did you mean \"dtensor\"?); "
                "valid: "
                "{models}"},
        BadFile{"UnknownModelInAnObject", kStack,
                stack_with(R"({"collective_model": {"name": "dtensr"}})"),
                "bad.json:/collective_model/name: unknown model \"dtensr\" (did you mean "
                "\"dtensor\"?); "
                "valid: {models}"},
        BadFile{"ModelOfTheOtherKind", kStack, stack_with(R"({"collective_model": "roofline"})"),
                "bad.json:/collective_model: \"roofline\" prices no collectives; valid: "
                "{collective_models}"},
        BadFile{
            "ComputeModelOfTheOtherKind", kStack, stack_with(R"({"compute_model": "alpha_beta"})"),
            "bad.json:/compute_model: \"alpha_beta\" prices no kernels; valid: {compute_models}"},
        BadFile{"UnknownParameter", kStack,
                stack_with(
                    R"({"collective_model": {"name": "alpha_beta", "params": {"latencyus": 3}}})"),
                "bad.json:/collective_model/params/latencyus: unknown parameter (did you mean "
                "\"latency_us\"?); valid: launch_us, latency_us, bandwidth_gb_per_s"},
        BadFile{
            "ParameterOutOfRange", kStack,
            stack_with(
                R"({"collective_model": {"name": "alpha_beta", "params": {"latency_us": -3}}})"),
            "bad.json:/collective_model/params/latency_us: found -3; valid: a number from 0 to "
            "1e+06"},
        BadFile{
            "ParameterOfAnotherType", kStack,
            stack_with(
                R"({"collective_model": {"name": "alpha_beta", "params": {"latency_us": "3"}}})"),
            "bad.json:/collective_model/params/latency_us: found \"3\"; valid: a number"},
        BadFile{"ParamsNotAnObject", kStack,
                stack_with(R"({"collective_model": {"name": "alpha_beta", "params": 3}})"),
                "bad.json:/collective_model/params: found 3; valid: an object"},
        BadFile{"RowsMissing", kStack, stack_with(R"({"collective_model": {"name": "table"}})"),
                "bad.json:/collective_model: \"table\" needs rows; valid: {\"name\": ..., "
                "\"rows\": [...]}"},
        BadFile{"RowsForAModelWithoutRows", kStack,
                stack_with(R"({"collective_model": {"name": "dtensor", "rows": [{}]}})"),
                "bad.json:/collective_model/rows: model \"dtensor\" reads no rows"},
        BadFile{
            "UnknownStraggler", kStack, stack_with(R"({"straggler": "slow"})"),
            "bad.json:/straggler: unknown straggler model \"slow\"; valid: none, percent, fixed, "
            "order_statistics"},
        BadFile{"StragglerWithoutPercent", kStack,
                stack_with(R"({"straggler": {"name": "percent"}})"),
                "bad.json:/straggler: missing key \"percent\""},
        BadFile{"StragglerAsAWord", kStack, stack_with(R"({"straggler": "percent"})"),
                "bad.json:/straggler: found \"percent\" without its figures; valid: {\"name\": "
                "\"percent\", "
                "\"percent\": NUMBER}"},
        BadFile{"UnknownBase", kStack, stack_with(R"({"base": "dtensor-v33"})"),
                "bad.json:/base: unknown stack \"dtensor-v33\" (did you mean \"dtensor-v3\"?); "
                "valid: a "
                "path, or {stacks}"},
        BadFile{"BaseOfAnotherType", kStack, stack_with(R"({"base": 3})"),
                "bad.json:/base: found 3; valid: a text"},
        BadFile{"OwnBase", kStack, R"({"base": "./bad.json"})",
                "bad.json:/base: found \"./bad.json\", which has this stack as its own base"},
        BadFile{"BaseThatIsATopology", kStack, R"({"base": "{configs}/topologies/h100.json"})",
                "bad.json:/base: found \"{configs}/topologies/h100.json\", which is not a stack"},
        BadFile{
            "UnknownCollectiveInARow", kPlan,
            stack_with(
                R"({"collective_model": {"name": "table", "rows": [
                    {"collective": "all_gater", "ranks": 2, "bytes": 8, "time_us": 1}]}})"),
            "bad.json:/collective_model/rows/0/collective: found \"all_gater\"; valid: all_gather "
            "all_reduce reduce_scatter all_to_all broadcast scatter send_recv local"},
        BadFile{"TwoRowsForOneSize", kPlan,
                stack_with(
                    R"({"collective_model": {"name": "table", "rows": [
                    {"collective": "all_gather", "ranks": 2, "bytes": 8, "time_us": 1},
                    {"collective": "all_gather", "ranks": 2, "bytes": 8, "time_us": 2}]}})"),
                "bad.json:/collective_model/rows: found two rows of the same collective, group and "
                "size; "
                "valid: at most one"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Topologies, BadFileContent,
    testing::Values(
        BadFile{
            "NegativeBandwidth", kTopology,
            topology_with(
                R"({"links": [
                    {"name": "n", "joins": "all", "latency_us": 1, "bandwidth_gb_per_s": -1}]})"),
            "bad.json:/links/0/bandwidth_gb_per_s: found -1; valid: a number from 1e-06 to 1e+09"},
        BadFile{
            "ZeroBandwidth", kTopology,
            topology_with(
                R"({"links": [
                    {"name": "n", "joins": "all", "latency_us": 1, "bandwidth_gb_per_s": 0}]})"),
            "bad.json:/links/0/bandwidth_gb_per_s: found 0; valid: a number from 1e-06 to 1e+09"},
        BadFile{"MisspeltUnitInAKey", kTopology,
                topology_with(
                    R"({"links": [
                    {"name": "n", "joins": "all", "latency_us": 1, "bandwith_gb_per_s": 1}]})"),
                "bad.json:/links/0: missing key \"bandwidth_gb_per_s\" (is \"bandwith_gb_per_s\" a "
                "typo of it?)"},
        BadFile{"UnknownScope", kTopology,
                topology_with(
                    R"({"links": [
                    {"name": "n", "joins": "hosts", "latency_us": 1, "bandwidth_gb_per_s": 1}]})"),
                "bad.json:/links/0/joins: found \"hosts\"; valid: pcie, socket, host, domain, "
                "rail, all"},
        BadFile{"NoLinks", kTopology, topology_with(R"({"links": []})"),
                "bad.json:/links: the last link level must join \"all\" ranks"},
        BadFile{"LinksInAnotherOrder", kTopology,
                topology_with(
                    R"({"links": [
                    {"name": "a", "joins": "all", "latency_us": 1, "bandwidth_gb_per_s": 1},
                    {"name": "b", "joins": "host", "latency_us": 1, "bandwidth_gb_per_s": 1}]})"),
                "bad.json:/links: the last link level must join \"all\" ranks"},
        BadFile{"TooManyInterfaces", kTopology, topology_with(R"({"nics_per_host": 100000})"),
                "bad.json:/nics_per_host: found 100000; valid: an integer from 1 to 1024"},
        BadFile{"NoDevicesPerHost", kTopology, topology_with(R"({"devices_per_host": 0})"),
                "bad.json:/devices_per_host: found 0; valid: an integer from 1 to 1099511627776"},
        BadFile{"DevicesPerHostWithAFraction", kTopology,
                topology_with(R"({"devices_per_host": 1.5})"),
                "bad.json:/devices_per_host: found 1.5; valid: an integer from 1 to 1099511627776"},
        BadFile{
            "DevicesPerHostTooMany", kTopology, topology_with(R"({"devices_per_host": 1e+30})"),
            "bad.json:/devices_per_host: found 1e+30; valid: an integer from 1 to 1099511627776"},
        BadFile{"UnknownDType", kTopology,
                topology_with(R"({"device": {"peak_tflops": {"bf17": 1}}})"),
                "bad.json:/device/peak_tflops/bf17: unknown dtype; valid: default {dtypes} f4e2m1 "
                "tf32"},
        BadFile{"NoDefaultPeak", kTopology,
                topology_with(R"({"device": {"peak_tflops": {"default": null}}})"),
                "bad.json:/device/peak_tflops: missing key \"default\""},
        BadFile{"NoDevice", kTopology, topology_with(R"({"device": null})"),
                "bad.json: missing key \"device\""}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Suites, BadFileContent,
    testing::Values(
        BadFile{"QuestionsMissing", kSuite, suite_with(R"({"questions": null})"),
                "bad.json: found neither \"questions\" nor \"generate\"; valid: one of them"},
        BadFile{"QuestionsAndGenerate", kSuite, suite_with(R"({"generate": {}})"),
                "bad.json: found both \"questions\" and \"generate\"; valid: one of them"},
        BadFile{"SameIdTwice", kSuite, selects_with({R"({})", R"({})"}),
                "bad.json:/questions/1/id: found \"a\" twice"},
        BadFile{"UnknownKindOfQuestion", kSuite, selects_with({R"({"kind": "choose"})"}),
                "bad.json:/questions/0/kind: found \"choose\"; valid: select, plan"},
        BadFile{"UnknownKeyOfAQuestion", kSuite, selects_with({R"({"meshes": "4"})"}),
                "bad.json:/questions/0/meshes: unknown key (did you mean \"mesh\"?); valid: id, "
                "kind, mesh, "
                "count, where, op, inputs, args"},
        BadFile{"MeshOfSizeZero", kSuite, selects_with({R"({"mesh": "0"})"}),
                "bad.json:/questions/0/mesh: mesh \"0\": at position 0: expected a mesh dim size "
                "(8x8, dp=8,tp=8) "
                "from 1 to "
                "1099511627776"},
        BadFile{"UnknownOp", kSuite, selects_with({R"({"op": "aten.mm.defalt"})"}),
                "bad.json:/questions/0/op: unknown op \"aten.mm.defalt\" (did you mean "
                "\"aten.mm.default\"?); valid: the ops of `shardlab list ops`"},
        BadFile{"InputThatDoesNotParse", kSuite,
                selects_with({R"json({"inputs": ["f32[8,8] R", "f32[8,8] S(9)"]})json"}),
                "bad.json:/questions/0/inputs/1: layout \"S(9)\": at position 0: expected shards "
                "of tensor "
                "dims 0 to 1, found S(9)"},
        BadFile{"TensorThatDoesNotParse", kSuite, plans_with({R"({"tensor": "f32[8"})"}),
                "bad.json:/questions/0/tensor: tensor \"f32[8\": at position 5: expected \",\" and "
                "another "
                "dim size, or \"]\""},
        BadFile{"LayoutTooShort", kSuite, plans_with({R"({"from": "R"})"}),
                "bad.json:/questions/0/from: layout \"R\": at position 1: expected 2 placements, "
                "one per "
                "mesh dim"},
        BadFile{"ArgsNotAnArray", kSuite, selects_with({R"({"args": 3})"}),
                "bad.json:/questions/0/args: found 3; valid: an array"},
        BadFile{
            "CountOfZero", kSuite, selects_with({R"({"count": 0})"}),
            "bad.json:/questions/0/count: found 0; valid: an integer from 1 to 9007199254740992"},
        BadFile{"GenerateUnknownOp", kSuite, generate_with(R"({"ops": ["mmm"]})"),
                "bad.json:/generate/ops/0: unknown op \"mmm\" (did you mean \"bmm\"?); valid: the "
                "ops of `shardlab list ops`"},
        BadFile{"GenerateBadMesh", kSuite, generate_with(R"({"meshes": ["2", "2y2"]})"),
                "bad.json:/generate/meshes/1: mesh \"2y2\": at position 1: expected \"x\" and "
                "another size, "
                "or the end (8x8, dp=8,tp=8)"},
        BadFile{"GenerateSizeOfZero", kSuite, generate_with(R"({"sizes_bytes": [0]})"),
                "bad.json:/generate/sizes_bytes/0: found 0; valid: a number from 1 to 1e+13"},
        BadFile{"GenerateNegativeSeed", kSuite, generate_with(R"({"seed": -1})"),
                "bad.json:/generate/seed: found -1; valid: an integer from 0 to 9007199254740992"},
        BadFile{
            "GenerateTooMany", kSuite, generate_with(R"({"layouts_per_case": 1001})"),
            "bad.json:/generate/layouts_per_case: found 1001; valid: an integer from 0 to 1000"},
        BadFile{"GenerateKeyMissing", kSuite, generate_with(R"({"meshes": null})"),
                "bad.json:/generate: missing key \"meshes\""},
        BadFile{
            "GenerateUnknownKey", kSuite, generate_with(R"({"op": "mm"})"),
            "bad.json:/generate/op: unknown key (did you mean \"ops\"?); valid: seed, ops, meshes, "
            "sizes_bytes, layouts_per_case, redistributions_per_case"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Cases, BadFileContent,
    testing::Values(
        BadFile{
            "CaseOfAnUnknownKind", kCase, case_with(R"({"plam": {}, "expect": {}})"),
            "bad.json:/checks/0/plam: unknown kind of check (did you mean \"plan\"?); valid: plan, "
            "steps, select, policy, rules, relation, sweep, mesh, layout, local, chunks, simulate, "
            "execute, solve"},
        BadFile{"CaseOfAnUnknownProgram", kCase,
                case_with(R"({"solve": {"program": {"built_in": "llama3-9b"}}, "expect": {}})"),
                "bad.json:/checks/0/solve/program/built_in: found \"llama3-9b\" (did you mean "
                "\"llama3-8b\"?); valid: gpt2-xl, llama3-70b, llama3-8b, moe-1.3b-64e"},
        BadFile{"CaseOfAProgramThatDoesNotDivide", kCase,
                case_with(R"({"solve": {"program": {"built_in": "gpt2-xl", "heads": 7}}})"),
                "bad.json:/checks/0/solve/program: --heads: found 7; valid: a divisor of 1600, "
                "which is the width"},
        BadFile{"CaseWithABadPin", kCase,
                case_with(R"json({"solve": {"program": {"built_in": "gpt2-xl"},
                                       "pins": {"primals_1": "S(0)S(0)"}}, "expect": {}})json"),
                "bad.json:/checks/0/solve/pins/primals_1: layout \"S(0)S(0)\": at position 4: "
                "expected 1 placement, one per mesh dim"},
        BadFile{"CaseWithALonelyTie", kCase,
                case_with(R"({"solve": {"program": {"built_in": "gpt2-xl"},
                                       "flaws": {"tied": [["mm"]]}}, "expect": {}})"),
                "bad.json:/checks/0/solve/flaws/tied/0: found one node; valid: at least two nodes, "
                "which are tied"},
        BadFile{"CaseWithABadLayout", kCase,
                case_with(
                    R"json({"plan": {"from": "S(1)", "to": "R"}, "expect": {"price_us": 1}})json"),
                "bad.json:/checks/0/plan/from: layout \"S(1)\": at position 0: expected shards of "
                "tensor "
                "dims 0 to 0, found S(1)"}),
    name_of);

std::string error_of(const Words& words, int exit_code, const TemporaryFolder& folder) {
  const ProcessResult result = run_shardlab(words, folder.path());
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(BadFile, AFolderIsNoFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "bad.json");
  EXPECT_EQ(error_of(kStack, 3, folder), "shardlab: bad.json: is a folder; valid: a file\n");
}

TEST(BadFile, AFileThatCanNotBeReadIsNotTakenForAnEmptyOne) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of({"describe", "stack", "/proc/self/mem"}, 3, folder),
            "shardlab: /proc/self/mem: can't be read: Input/output error; valid: a file\n");
}

TEST(BadFile, ADeviceOrAPipeWithoutDataIsNoFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / "pipe.json").c_str(), 0600), 0);
  folder.write("file.json", "{}");
  for (const Words& words :
       {Words{"report", "FILE", "--out", "report"}, Words{"describe", "stack", "FILE"},
        Words{"describe", "topology", "FILE"}, Words{"describe", "suite", "FILE"},
        Words{"solve", "FILE", "--mesh", "4"},
        Words{"solve", "mlp", "--mesh", "4", "--diff", "FILE"},
        Words{"simulate", "mlp", "--mesh", "4", "--plan", "FILE"},
        Words{"apply", "mlp", "--plan", "FILE", "--out", "f.py"}, Words{"solve-network", "FILE"},
        Words{"validate", "FILE"}, Words{"validate", "--steps", "FILE"}, Words{"calibrate", "FILE"},
        Words{"regress", "--file", "FILE"}, Words{"sweep", "FILE", "--out", "sweep"}}) {
    for (const auto& [file, message] :
         {std::pair{"/dev/zero", "is neither a regular file nor a pipe; valid: a file"},
          std::pair{"./pipe.json", "is a pipe without data; valid: a file"}}) {
      Words with_file = words;
      for (std::string& word : with_file) word = replaced(word, "FILE", file);
      const std::string error = error_of(with_file, 3, folder);
      EXPECT_NE(error.find(replaced(file, "./", "") + ": " + message + "\n"), std::string::npos)
          << join(with_file, " ") << "\n"
          << error;
    }
  }
}

TEST(BadFile, APipeWithDataIsAFile) {
  const TemporaryFolder folder;
  folder.write("stack.json", R"({"base": "dtensor-v3", "name": "mine", "title": "piped"})");
  const auto run = [&](const std::string& line) {
    return run_process({"/bin/sh", "-c", replaced(line, "shardlab", SHARDLAB_BINARY)},
                       {.folder = folder.path(), .environment = {{"SHARDLAB_CONFIGS", ""}}});
  };
  const ProcessResult read = run("cat stack.json | shardlab describe stack /dev/stdin");
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(json::parse(read.out)["title"], "piped");
  const ProcessResult written =
      run("shardlab program llama3-8b --layers 1 --out /dev/stdout | cat");
  EXPECT_EQ(json::parse(written.out.substr(0, written.out.rfind('}') + 1))["schema"],
            "shardlab/program/1")
      << written.err;
}

TEST(BadFile, ALargeFileIsRefusedUnlessItIsAllowed) {
  const TemporaryFolder folder;
  folder.write("bad.json", stack_with(R"({"title": "long"})") + std::string(10'000, ' '));
  Words words = kStack;
  words.insert(words.end(), {"--max-input", "10kB"});
  EXPECT_EQ(error_of(words, 3, folder),
            "shardlab: bad.json: is larger than 10000 bytes; valid: a smaller file, or a larger "
            "--max-input\n");
  words.back() = "100kB";
  EXPECT_EQ(run_shardlab(words, folder.path()).exit_code, 0);
  words.back() = "much";
  EXPECT_TRUE(error_of(words, 2, folder).starts_with("shardlab: --max-input: size \"much\": "));
}

// A message shows the beginning and the end of a value, however long the value is.
TEST(BadFile, MessagesQuoteLittleOfAValue) {
  const TemporaryFolder folder;
  const std::string value(100'000, 'a');
  const std::string shown = std::string(157, 'a') + "..." + std::string(40, 'a');
  folder.write("bad.json", stack_with(("{\"planner\": \"" + value + "\"}").c_str()));
  EXPECT_EQ(error_of(kStack, 3, folder),
            "shardlab: bad.json:/planner: found \"" + shown + "\"; valid: greedy, graph\n");
  folder.write("bad.json", stack_with(("{\"" + value + "\": 1}").c_str()));
  EXPECT_LT(error_of(kStack, 3, folder).size(), 600U);
  EXPECT_LT(error_of({"describe", "stack", value}, 2, folder).size(), 1000U);
  EXPECT_LT(error_of({"plan", "--mesh", value, "--tensor", "f32[8]", "--from", "R", "--to", "R"}, 2,
                     folder)
                .size(),
            700U);
}

// The message is the same whichever command looks for the file.
TEST(BadFile, AFileThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string reason = "gone.json: can't be read: No such file or directory; valid: a file\n";
  for (const Words& words : {Words{"report", "gone.json", "--out", "report"},
                             Words{"solve", "mlp", "--mesh", "4", "--diff", "gone.json"},
                             Words{"simulate", "mlp", "--mesh", "4", "--plan", "gone.json"},
                             Words{"solve", "--problem", "gone.json"}}) {
    EXPECT_EQ(error_of(words, 3, folder), "shardlab: " + reason) << join(words, " ");
  }
  // Each names the list of what is shipped, which the command `list` knows.
  for (const auto& [words, kind, list] :
       {std::tuple{Words{"describe", "stack", "gone.json"}, "stack", "stacks"},
        std::tuple{Words{"ties", "--suite", "gone.json"}, "suite", "suites"},
        std::tuple{Words{"solve", "gone.json", "--mesh", "4"}, "program", "programs"},
        std::tuple{Words{"solve", "mlp", "--mesh", "4", "--recipe", "gone.json"}, "recipe",
                   "recipes"},
        std::tuple{Words{"sweep", "gone.json", "--out", "sweep"}, "experiment", "experiments"},
        std::tuple{Words{"validate", "gone.json"}, "measurement set", "measurements"},
        std::tuple{Words{"describe", "topology", "gone.json"}, "topology", "topologies"}}) {
    EXPECT_EQ(error_of(words, 2, folder),
              "shardlab: " + std::string(kind) +
                  " \"gone.json\": no such file; valid: a path, or a name of `shardlab list " +
                  list + "`\n")
        << join(words, " ");
    EXPECT_EQ(run_shardlab({"list", list}, folder.path()).exit_code, 0) << list;
  }
}

TEST(BadFile, ATraceThatCanNotBeWritten) {
  const TemporaryFolder folder;
  const Words run = {"simulate", "mlp", "--mesh", "4", "--trace"};
  for (const auto& [file, written] :
       {std::pair{"gone/t.json", "gone/t.json"}, std::pair{"gone/t.et", "gone/t.0.et"}}) {
    Words words = run;
    words.emplace_back(file);
    EXPECT_EQ(error_of(words, 4, folder), "shardlab: " + std::string(written) +
                                              ": can't be written: No such file or directory\n");
  }
  std::filesystem::create_directory(folder.path() / "t.json");
  Words words = run;
  words.emplace_back("t.json");
  EXPECT_EQ(error_of(words, 4, folder), "shardlab: t.json: can't be written: Is a directory\n");
}

TEST(BadFile, TwoStacksThatAreEachOthersBase) {
  const TemporaryFolder folder;
  folder.write("bad.json", R"({"base": "./other.json"})");
  folder.write("other.json", R"({"base": "./bad.json"})");
  EXPECT_EQ(error_of(kStack, 3, folder),
            "shardlab: other.json:/base: found \"./bad.json\", which has this stack as its own "
            "base\n");
}

TEST(BadFile, ABaseIsFoundFromTheFileThatNamesIt) {
  const TemporaryFolder folder;
  folder.write("deep/base.json", R"({"base": "dtensor-v3", "transition_us": 2})");
  folder.write("deep/stack.json", R"({"base": "./base.json", "name": "mine"})");
  const ProcessResult result =
      run_shardlab({"describe", "stack", "deep/stack.json", "--format", "json"}, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json stack = json::parse(result.out);
  EXPECT_EQ(stack["name"], "mine");
  EXPECT_EQ(stack["transition_us"], 2.0);
}

TEST(BadFile, TheFilesOwnFaultComesBeforeThatOfAnOverride) {
  const TemporaryFolder folder;
  folder.write("bad.json", stack_with(R"({"planner": "graf"})"));
  Words words = kPlan;
  words.insert(words.end(), {"--set", "stack.search=ful"});
  EXPECT_EQ(error_of(words, 3, folder),
            "shardlab: bad.json:/planner: found \"graf\" (did you mean \"graph\"?); valid: greedy, "
            "graph\n");
}

TEST(BadEnvironment, AFolderWithoutConfigurationsIsNamed) {
  const TemporaryFolder folder;
  const ProcessResult result =
      run_process({SHARDLAB_BINARY, "list", "stacks"},
                  {.folder = {}, .environment = {{"SHARDLAB_CONFIGS", folder.path().string()}}});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "shardlab: SHARDLAB_CONFIGS=" + folder.path().string() +
                            ": found no folder with stacks/ in it\n");
}

TEST(BadEnvironment, AReportThatCanNotBeWrittenIsRefusedBeforeTheWork) {
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_EQ(error_of({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
                      "ops-small", "--out", "file/report"},
                     4, folder),
            "shardlab: file/report: can't be made: Not a directory\n");
}

TEST(BadEnvironment, AFullDiskIsNoSuccess) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c", std::string(SHARDLAB_BINARY) + " list stacks > /dev/full"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.err, "shardlab: writing to stdout failed\n");
}

}  // namespace bad_file_test
}  // namespace shardlab::testing_support
