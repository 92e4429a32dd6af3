#include "strategies/cases/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/cases/case_checks.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace case_test {

namespace fs = std::filesystem;
using case_checks::Match;
using nlohmann::json;

CaseSources shipped_sources() {
  const auto load = [](const std::string& name) { return testing_support::stack_json(name); };
  return {.stack =
              [load](const json& choice, const JsonPlace& place) {
                const json stack = choice.is_string() ? load(choice.get<std::string>()) : choice;
                return Stack::from_json(stack, place, load);
              },
          .topology =
              [](const std::string& name, std::optional<std::int64_t> devices_per_host) {
                std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/topologies/" + name + ".json");
                json topology = json::parse(in);
                if (devices_per_host) topology["devices_per_host"] = *devices_per_host;
                return Topology::from_json(topology, {name, ""});
              }};
}

// A case around one or more checks.
json case_json(const std::string& checks) {
  return {
      {"schema", "shardlab/case/1"},
      {"id", "R99-test"},
      {"title", "a test"},
      {"source", "https://example.org/1"},
      {"status", "built"},
      {"setup",
       {{"mesh", "2"}, {"devices_per_host", 1}, {"tensor", "f32[4,8]"}, {"stack", "dtensor-2.13"}}},
      {"checks", json::parse(checks)}};
}

Case parse_case(const json& document) { return Case::parse(document, {"R99.json", ""}); }

CaseReport report_of(const std::string& checks,
                     const std::optional<std::string>& stack = std::nullopt) {
  return parse_case(case_json(checks)).run(shipped_sources(), stack);
}

// -- What a case file must not say ----------------------------------------------------------------

struct BadFile {
  const char* name;
  const char* patch;  // a JSON merge patch of a good file
  const char* message;
};
void PrintTo(const BadFile& c, std::ostream* out) { *out << c.name; }
class CaseFile : public testing::TestWithParam<BadFile> {};

TEST_P(CaseFile, SaysWhereAndWhatIsValid) {
  json document =
      case_json(R"j([{"plan": {"from": "S(0)", "to": "R"}, "expect": {"price_us": 1}}])j");
  document.merge_patch(json::parse(GetParam().patch));
  EXPECT_THROW_MSG(parse_case(document), ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Errors, CaseFile,
    testing::Values(
        BadFile{"Schema", R"j({"schema": "shardlab/case/2"})j",
                R"j(R99.json:/schema: found "shardlab/case/2"; valid: "shardlab/case/1")j"},
        BadFile{"Id", R"j({"id": "X3"})j",
                R"j(R99.json:/id: found "X3"; valid: Rnn or Rnn-suffix, such as R03)j"},
        BadFile{"Source", R"j({"source": "PR 7"})j",
                R"j(R99.json:/source: found "PR 7"; valid: an https URL)j"},
        BadFile{"See", R"j({"see": ["https://a.b", "c"]})j",
                R"j(R99.json:/see/1: found "c"; valid: an https URL)j"},
        BadFile{"Status", R"j({"status": "exakt"})j",
                "R99.json:/status: found \"exakt\" (did you mean \"exact\"?); valid: exact, "
                "inferred, rounded, built"},
        BadFile{"Story", R"j({"story": ["one", 2]})j",
                R"j(R99.json:/story/1: found 2; valid: a text)j"},
        BadFile{"UnknownKey", R"j({"tittle": "x"})j",
                "R99.json:/tittle: unknown key (did you mean \"title\"?); valid: schema, id, "
                "title, source, see, status, story, setup, checks, releases"},
        BadFile{"NoSetup", R"j({"setup": null})j", R"j(R99.json: missing key "setup")j"},
        BadFile{"SetupKey", R"j({"setup": {"messh": "2"}})j",
                "R99.json:/setup/messh: unknown key (did you mean \"mesh\"?); valid: mesh, "
                "flatten, slice, tensor, topology, devices_per_host, stack"},
        BadFile{"SetupMesh", R"j({"setup": {"mesh": "2x"}})j",
                "R99.json:/setup/mesh: mesh \"2x\": at position 2: expected a mesh dim size (8x8, "
                "dp=8,tp=8)"},
        BadFile{"SetupTensor", R"j({"setup": {"tensor": "f31[2]"}})j",
                "R99.json:/setup/tensor: tensor \"f31[2]\": at position 0: expected a dtype: f64 "
                "f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64"},
        BadFile{"SetupHosts", R"j({"setup": {"devices_per_host": 0}})j",
                "R99.json:/setup/devices_per_host: found 0; valid: an integer from 1 to "
                "1099511627776"},
        BadFile{"SetupStack", R"j({"setup": {"stack": 7}})j",
                "R99.json:/setup/stack: found 7; valid: a stack's name, an object with a "
                "\"base\", or an array of them"},
        BadFile{
            "NoStacks", R"j({"setup": {"stack": []}})j",
            "R99.json:/setup/stack: found an empty array; valid: an array of at least one stack"},
        BadFile{"FlattenUnnamed", R"j({"setup": {"flatten": [["dp", "tp"]]}})j",
                "R99.json:/setup/flatten/0: mesh \"dp, tp\": at position 0: expected a mesh with "
                "axis names (dp=2,tp=4), found none"},
        BadFile{"NoChecks", R"j({"checks": []})j",
                "R99.json:/checks: found an empty array; valid: an array of at least one check"},
        BadFile{"ReleasesOfNothing", R"j({"releases": {"dtensor-2.15": "mended"}})j",
                "R99.json:/releases: found neither of \"fault\" and \"behaviour\"; valid: one of "
                "them"},
        BadFile{"NoReleaseChecks", R"j({"releases": {"fault": [], "dtensor-2.15": "mended"}})j",
                "R99.json:/releases/fault: found an empty array; valid: an array of at least one "
                "check"},
        BadFile{
            "ReleaseCheckWithAStack",
            R"j({"releases": {"fault": [{"plan": {"from": "R", "to": "R", "stack": "dtensor-v1"},
                     "expect": {"price_us": 0}}], "dtensor-2.15": "mended"}})j",
            "R99.json:/releases/fault/0: found a \"stack\"; valid: none, since each release is "
            "asked"},
        BadFile{"ReleaseCheckOfNoRelease",
                R"j({"releases": {"behaviour": [{"chunks": {"extent": 5, "chunks": 2},
                     "expect": {"sizes": [3, 2]}}], "dtensor-2.15": "changed"}})j",
                "R99.json:/releases/behaviour/0: found a chunks check, which asks no stack; valid: "
                "a check whose answer is a release's"},
        BadFile{"VerdictOfABehaviour",
                R"j({"releases": {"behaviour": [{"plan": {"from": "R", "to": "R"},
                     "expect": {"price_us": 0}}], "dtensor-2.15": "mended"}})j",
                "R99.json:/releases/dtensor-2.15: found \"mended\"; valid: as in the thread, "
                "changed"},
        BadFile{"NoRelease",
                R"j({"releases": {"fault": [{"plan": {"from": "R", "to": "R"},
                     "expect": {"price_us": 0}}]}})j",
                "R99.json:/releases: found no release; valid: stacks such as dtensor-2.15, each "
                "with its verdict"}),
    [](const auto& test) { return std::string(test.param.name); });

struct BadCheck {
  const char* name;
  const char* checks;
  const char* message;  // after "R99.json:/checks"
};
void PrintTo(const BadCheck& c, std::ostream* out) { *out << c.name; }
class CaseCheck : public testing::TestWithParam<BadCheck> {};

TEST_P(CaseCheck, SaysWhereAndWhatIsValid) {
  EXPECT_THROW_MSG(parse_case(case_json(GetParam().checks)), ConfigError,
                   std::string("R99.json:/checks") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Errors, CaseCheck,
    testing::Values(
        BadCheck{"Kind", R"j([{"plam": {}, "expect": {}}])j",
                 "/0/plam: unknown kind of check (did you mean \"plan\"?); valid: plan, steps, "
                 "select, policy, rules, relation, sweep, mesh, layout, local, chunks, simulate, "
                 "execute, solve"},
        BadCheck{"NoKind", R"j([{"expect": {}}])j",
                 "/0: found no kind of check; valid: plan, steps, select, policy, rules, relation, "
                 "sweep, mesh, layout, local, chunks, simulate, execute, solve"},
        BadCheck{"TwoKinds", R"j([{"plan": {}, "mesh": {}}])j",
                 R"j(/0: found "plan" and "mesh"; valid: one kind of check)j"},
        BadCheck{"ExecuteUnknownOp",
                 R"j([{"execute": {"mesh": "2", "op": "aten.lu", "placements": "R|R",
                       "inputs": ["f32[2]"]}, "expect": {}}])j",
                 "/0/execute/op: found \"aten.lu\"; valid: an op with a reference kernel "
                 "(strategies/proof/kernels)"},
        BadCheck{"ExecuteOtherNumberOfInputs",
                 R"j([{"execute": {"mesh": "2", "op": "aten.mm", "placements": "R|R,R",
                       "inputs": ["f32[2]"]}, "expect": {}}])j",
                 "/0/execute/inputs: found 1 tensors; valid: 2, as many as \"placements\" has "
                 "inputs"},
        BadCheck{"ExecuteTooFewLocals",
                 R"j([{"execute": {"mesh": "2", "op": "aten.abs", "placements": "R|S(0)",
                       "inputs": [{"tensor": "f32[2]", "locals": [[1]]}]}, "expect": {}}])j",
                 "/0/execute/inputs/0/locals: found 1 arrays; valid: one for each of the 2 ranks"},
        BadCheck{"ExecuteTooManyNumbers",
                 R"j([{"execute": {"mesh": "2", "op": "aten.abs", "placements": "R|S(0)",
                       "inputs": [{"tensor": "f32[2]", "locals": [[1], [2, 3]]}]},
                       "expect": {}}])j",
                 "/0/execute/inputs/0/locals/1: found 2 numbers; valid: 1"},
        BadCheck{"ExecuteShardOfNoDim",
                 R"j([{"execute": {"mesh": "2", "op": "aten.abs", "placements": "R|S(1)",
                       "inputs": ["f32[2]"]}, "expect": {}}])j",
                 "/0/execute/inputs/0: layout \"S(1)\": at position 0: expected shards of tensor "
                 "dims 0 to 0, found S(1)"},
        BadCheck{"NotAnObject", R"j([7])j", "/0: found 7; valid: an object"},
        BadCheck{"Key", R"j([{"plan": {"from": "R", "to": "R"}, "expectt": {}}])j",
                 "/0/expectt: unknown key (did you mean \"expect\"?); valid: plan, name, digits, "
                 "expect, error, warning"},
        BadCheck{"Answer", R"j([{"plan": {"from": "R", "to": "R"}, "expect": {"pats": "x"}}])j",
                 "/0/expect/pats: unknown key (did you mean \"path\"?); valid: path, to, "
                 "price_us, executed_us, steps, steps_us, full_bytes, collectives, communicating, "
                 "logical_shapes, optimal_paths, avg_scales, flattened, warnings, warning, "
                 "impossible, unexecutable, error"},
        BadCheck{"PriceAsText",
                 R"j([{"plan": {"from": "R", "to": "R"}, "expect": {"price_us": "18.6"}}])j",
                 "/0/expect/price_us: found \"18.6\"; valid: microseconds, null, or a list of "
                 "these"},
        BadCheck{"Digits", R"j([{"plan": {"from": "R", "to": "R"}, "expect": {}, "digits": 18}])j",
                 "/0/digits: found 18; valid: an integer from 0 to 17"},
        BadCheck{"Nothing", R"j([{"plan": {"from": "R", "to": "R"}}])j",
                 R"j(/0: found nothing to compare; valid: an "expect", or a "name")j"},
        BadCheck{"NoWarning",
                 R"j([{"chunks": {"extent": 1, "chunks": 1},
                     "warning": "no_flattened_mesh"}])j",
                 "/0/warning: a chunks check can't expect a warning"},
        BadCheck{"From", R"j([{"plan": {"from": "S(2)", "to": "R"}, "expect": {"path": ""}}])j",
                 "/0/plan/from: layout \"S(2)\": at position 0: expected shards of tensor dims 0 "
                 "to 1, found S(2)"},
        BadCheck{"To", R"j([{"plan": {"from": "R", "to": "RR"}, "expect": {"path": ""}}])j",
                 "/0/plan/to: layout \"RR\": at position 1: expected 1 placement, one per mesh "
                 "dim"},
        BadCheck{"Planner",
                 R"j([{"plan": {"from": "R", "to": "R", "planner": "best"},
                     "expect": {"to": "R"}}])j",
                 "/0/plan/planner: found \"best\"; valid: greedy, graph"},
        BadCheck{"Rank", R"j([{"plan": {"from": "R", "to": "R", "rank": 2},
                     "expect": {"to": "R"}}])j",
                 "/0/plan/rank: found 2; valid: an integer from 0 to 1"},
        BadCheck{"Step", R"j([{"steps": {"from": "R", "steps": ["0-R"]}, "expect": {"to": "R"}}])j",
                 "/0/steps/steps/0: step \"0-R\": at position 1: expected \":\" and a change such "
                 "as S(0)->R"},
        BadCheck{"NoInputs", R"j([{"select": {"op": "aten.mm.default"}, "expect": {"ties": 1}}])j",
                 R"j(/0/select: missing key "inputs")j"},
        BadCheck{"NoOp", R"j([{"select": {"inputs": ["f32[2] R"]}, "expect": {"ties": 1}}])j",
                 R"j(/0/select: missing key "op")j"},
        BadCheck{"Row",
                 R"j([{"select": {"inputs": ["f32[2] R"], "rows": ["R"]},
                     "expect": {"ties": 1}}])j",
                 "/0/select/rows/0: row \"R\": at position 0: expected outputs, \"|\" and inputs"},
        BadCheck{"Placeholder",
                 R"j([{"rules": {"op": "aten.mm.default", "inputs": ["f32[2] ?0"]},
                     "expect": {}}])j",
                 "/0/rules/inputs/0: layout \"?0\": at position 0: expected a placement: R, S(d), "
                 "_S(d,f), P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"},
        BadCheck{"RowsAndCandidates",
                 R"j([{"select": {"inputs": [], "rows": [], "candidates": []},
                     "expect": {}}])j",
                 R"j(/0/select: found "rows" and "candidates"; valid: one of them, or neither)j"},
        BadCheck{"CandidateInputs",
                 R"j([{"select": {"inputs": ["f32[2] R"], "candidates": ["R|R,R"]},
                     "expect": {"ties": 1}}])j",
                 "/0/select/candidates/0: found 2 inputs; valid: 1"},
        BadCheck{"Search",
                 R"j([{"select": {"op": "aten.relu.default", "inputs": ["f32[2] R"],
                     "search": "astar"}, "expect": {"ties": 1}}])j",
                 "/0/select/search: found \"astar\"; valid: full, dijkstra, exact"},
        BadCheck{"SearchOfRows",
                 R"j([{"select": {"inputs": ["f32[2] R"], "rows": ["R|R"],
                     "search": "full"}, "expect": {"ties": 1}}])j",
                 "/0/select/search: listed rows and candidates are not searched; valid: no "
                 "\"search\""},
        BadCheck{"Order",
                 R"j([{"select": {"op": "aten.relu.default", "inputs": ["f32[2] R"],
                     "order": "sorted"}, "expect": {"ties": 1}}])j",
                 "/0/select/order: order \"sorted\": at position 0: expected listed, reversed or "
                 "shuffled:SEED"},
        BadCheck{"Child",
                 R"j([{"select": {"op": "aten._foreach_neg.default",
                     "inputs": ["[f32[2] R]"], "child": 1}, "expect": {"ties": 1}}])j",
                 "/0/select/child: found 1; valid: 0 to 0"},
        BadCheck{"Policy",
                 R"j([{"policy": {"candidates": [{"total_us": 1}], "policy": "best"},
                     "expect": {"ties": 1}}])j",
                 "/0/policy/policy: found \"best\"; valid: first-listed, keep-input, "
                 "fewest-collectives, least-bytes, compute-time, lexicographic"},
        BadCheck{"Law", R"j([{"sweep": {"law": "triangel"}, "expect": {"violated": 0}}])j",
                 "/0/sweep/law: found \"triangel\" (did you mean \"triangle\"?); valid: search, "
                 "reach, triangle, graph, merged_gather, strided"},
        BadCheck{"TooManyLayouts",
                 R"j([{"sweep": {"law": "triangle", "mesh": "2x2x2x2",
                     "placements": ["R", "P", "S(0)", "S(1)", "P(max)"]},
                     "expect": {"violated": 0}}])j",
                 "/0/sweep/placements: found 5 placements, which make 625 layouts of the mesh; "
                 "valid: 1 to 512 layouts"},
        BadCheck{"Variant",
                 R"j([{"chunks": {"extent": 5, "chunks": 2, "variant": "round"},
                     "expect": {"sizes": []}}])j",
                 "/0/chunks/variant: found \"round\"; valid: chunk-of-chunks, unflatten"},
        BadCheck{"RelationName", R"j([{"name": "gather", "plan": {"from": "S(0)", "to": "R"}},
                     {"relation": ["gahter", "<", 1]}])j",
                 "/1/relation/0: no check above has the name \"gahter\" and a price (did you mean "
                 "\"gather\"?); valid: gather"},
        BadCheck{"RelationSign", R"j([{"name": "gather", "plan": {"from": "S(0)", "to": "R"}},
                     {"relation": ["gather", "=", 1]}])j",
                 "/1/relation/1: found \"=\"; valid: + or -, and once one of < <= == != >= >"},
        BadCheck{"RelationShape", R"j([{"name": "gather", "plan": {"from": "S(0)", "to": "R"}},
                     {"relation": ["gather", "+", 1]}])j",
                 "/1/relation: found [\"gather\",\"+\",1]; valid: names of checks and numbers "
                 "with + or - between them, and one of < <= == != >= >"},
        BadCheck{"NameTwice", R"j([{"name": "a", "plan": {"from": "S(0)", "to": "R"}}, {"name": "a",
                     "plan": {"from": "S(0)", "to": "R"}}])j",
                 "/1/name: found \"a\" twice; valid: a new name"},
        BadCheck{"NameOfPriceless",
                 R"j([{"name": "a", "chunks": {"extent": 1, "chunks": 1}, "expect": {}}])j",
                 "/0/name: a chunks check has no price to name; valid: no \"name\""},
        BadCheck{"NameOfSeveral",
                 R"j([{"name": "a", "plan": {"from": "R", "to": "R",
                     "stack": ["dtensor-v3", "dtensor-v4"]}}])j",
                 "/0/name: a check on several stacks has more than one price; valid: no \"name\""}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Case, NeedsATensorAndAMeshSomewhere) {
  json document = case_json(R"j([{"plan": {"from": "R", "to": "R"}, "expect": {"to": "R"}}])j");
  document["setup"].erase("tensor");
  EXPECT_THROW_MSG(parse_case(document), ConfigError,
                   "R99.json:/checks/0/plan: found no \"tensor\" here or in the setup");
  document["setup"].erase("mesh");
  EXPECT_THROW_MSG(parse_case(document), ConfigError,
                   "R99.json:/checks/0/plan: found no \"mesh\" here or in the setup");
}

TEST(Case, AnUnknownStackNamesItsPlace) {
  CaseSources sources = shipped_sources();
  sources.stack = [](const json& choice, const JsonPlace& place) -> Stack {
    place.fail("no stack " + choice.dump());
  };
  const Case one = parse_case(case_json(R"j([{"plan": {"from": "R", "to": "R", "stack": "nope"},
                     "expect": {"to": "R"}}])j"));
  EXPECT_THROW_MSG(static_cast<void>(one.run(sources)), ConfigError,
                   "R99.json:/checks/0/plan/stack: no stack \"nope\"");
}

TEST(Case, AChecksHostsAreSaidWhereTheyAreNotTheSetups) {
  const CaseReport report = report_of(R"j([
      {"plan": {"from": "S(0)", "to": "R"}, "expect": {"to": "R"}},
      {"plan": {"from": "S(0)", "to": "R", "devices_per_host": 8}, "expect": {"to": "R"}}])j");
  ASSERT_EQ(report.checks.size(), 2U);
  EXPECT_TRUE(report.checks[0].check.starts_with("plan f32[4,8] S(0)->R on 2, dtensor"))
      << report.checks[0].check;
  EXPECT_TRUE(report.checks[1].check.starts_with("plan f32[4,8] S(0)->R on 2, 8 devices per host"))
      << report.checks[1].check;
}

TEST(Case, IsNamedByItsThread) {
  json document =
      case_json(R"j([{"chunks": {"extent": 1, "chunks": 1}, "expect": {"sizes": [1]}}])j");
  document["source"] = "https://github.com/pytorch/pytorch/pull/172282";
  document["see"] = {"https://github.com/pytorch/pytorch/issues/168058"};
  const Case one = parse_case(document);
  for (const char* name : {"172282", "#172282", "168058", "pytorch/pytorch#172282",
                           "https://github.com/pytorch/pytorch/issues/172282/",
                           "https://github.com/pytorch/pytorch/pull/172282#issuecomment-1",
                           "https://github.com/pytorch/pytorch/pull/172282"}) {
    EXPECT_TRUE(one.is_named(name)) << name;
  }
  for (const char* name :
       {"17228", "172283", "pull", "https://github.com/pytorch/pytorch", "#", ""}) {
    EXPECT_FALSE(one.is_named(name)) << name;
  }
}

TEST(Case, IsNamedByItsNumberOrItsWholeId) {
  const Case one = parse_case(
      case_json(R"j([{"chunks": {"extent": 1, "chunks": 1}, "expect": {"sizes": [1]}}])j"));
  EXPECT_TRUE(one.is_named("R99-test"));
  EXPECT_TRUE(one.is_named("R99"));
  EXPECT_FALSE(one.is_named("R9"));
  EXPECT_FALSE(one.is_named("R99-te"));
  EXPECT_FALSE(one.is_named(""));
  EXPECT_EQ(one.setup_text(), "mesh 2, h100 with 1 device per host, f32[4,8]");
}

// -- Digits and matches ---------------------------------------------------------------------------

TEST(Digits, SeventeenAskForTheSameDouble) {
  const double price = 22.81853570377591;
  EXPECT_TRUE(case_checks::matches(Match::kEqual, price, price, 17));
  EXPECT_FALSE(case_checks::matches(
      Match::kEqual, price, std::nextafter(price, std::numeric_limits<double>::infinity()), 17));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, json(3), json(3.0), 17));
}

TEST(Digits, FewerCompareWhatIsPrinted) {
  const double price = 22.81853570377591;
  EXPECT_TRUE(case_checks::matches(Match::kEqual, 22.82, price, 2));
  EXPECT_FALSE(case_checks::matches(Match::kEqual, 22.81, price, 2));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, 22.8, price, 1));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, 23, price, 0));
  EXPECT_FALSE(case_checks::matches(Match::kEqual, 22.82, price, 3));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, json::array({1, 2.05}), json({1, 2.049}), 2));
}

TEST(Match, ComparesArraysByElementAndObjectsByTheExpectedKeys) {
  EXPECT_FALSE(case_checks::matches(Match::kEqual, json({1, 2}), json({1, 2, 3}), 17));
  EXPECT_FALSE(case_checks::matches(Match::kEqual, json({1, 2}), json({2, 1}), 17));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, {{"a", 1}}, {{"a", 1}, {"b", 2}}, 17));
  EXPECT_FALSE(case_checks::matches(Match::kEqual, {{"c", nullptr}}, {{"a", 1}}, 17));
  EXPECT_TRUE(case_checks::matches(Match::kEqual, nullptr, nullptr, 17));
  EXPECT_FALSE(case_checks::matches(Match::kEqual, nullptr, 0, 17));
}

TEST(Match, FindsPartsOfTextsAndElementsOfLists) {
  EXPECT_TRUE(case_checks::matches(Match::kContains, "shard", "a shard can't", 17));
  EXPECT_FALSE(case_checks::matches(Match::kContains, "", "a shard can't", 17));
  EXPECT_TRUE(case_checks::matches(Match::kContains, "", "", 17));
  EXPECT_FALSE(case_checks::matches(Match::kContains, "x", nullptr, 17));
  EXPECT_TRUE(case_checks::matches(Match::kIncludes, {"b", "a"}, {"a", "b", "c"}, 17));
  EXPECT_FALSE(case_checks::matches(Match::kIncludes, {"d"}, {"a", "b", "c"}, 17));
  EXPECT_TRUE(case_checks::matches(Match::kLacks, {"d"}, {"a", "b", "c"}, 17));
  EXPECT_FALSE(case_checks::matches(Match::kLacks, {"d", "a"}, {"a", "b", "c"}, 17));
}

// -- Every kind of check passes, and fails --------------------------------------------------------

struct KindCase {
  const char* name;
  const char* check;  // with what is right
  const char* wrong;  // a merge patch of "expect" that makes it wrong
};
void PrintTo(const KindCase& c, std::ostream* out) { *out << c.name; }
class CheckKind : public testing::TestWithParam<KindCase> {};

TEST_P(CheckKind, PassesWithTheRightAnswer) {
  const CaseReport report = report_of("[" + std::string(GetParam().check) + "]");
  EXPECT_EQ(to_string(report.status), "pass");
  ASSERT_FALSE(report.checks.empty());
  for (const CheckOutcome& check : report.checks) {
    EXPECT_TRUE(check.ok) << check.what() << ": expected " << check.expected << ", got "
                          << check.got;
  }
}

TEST_P(CheckKind, FailsWithAWrongAnswer) {
  json check = json::parse(GetParam().check);
  if (check.contains("error")) {
    check["error"] = "something else";
  } else {
    check["expect"].merge_patch(json::parse(GetParam().wrong));
  }
  const CaseReport report = report_of(json::array({check}).dump());
  EXPECT_EQ(to_string(report.status), "fail");
  const auto failed = std::count_if(report.checks.begin(), report.checks.end(),
                                    [](const CheckOutcome& outcome) { return !outcome.ok; });
  EXPECT_EQ(failed, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CheckKind,
    testing::Values(
        KindCase{"Plan",
                 R"j({"plan": {"from": "S(0)", "to": "S(1)", "planner": "greedy"},
                     "expect": {"path": "S(0)->S(1)", "price_us": 10.301544641981327,
                     "collectives": ["all_to_all"], "communicating": 1,
                     "steps": ["0:S(0)->S(1)"], "impossible": "", "warnings": []}})j",
                 R"j({"communicating": 2})j"},
        KindCase{"PlanRounded", R"j({"plan": {"from": "S(0)", "to": "S(1)"},
                     "expect": {"price_us": 10.3}, "digits": 1})j",
                 R"j({"price_us": 10.4})j"},
        KindCase{"ImpossiblePlan", R"j({"plan": {"from": "S(0)", "to": "P", "planner": "greedy"},
                     "expect": {"price_us": null,
                     "impossible": "a shard can't become a partial"}})j",
                 R"j({"impossible": ""})j"},
        KindCase{"OptimalPaths", R"j({"plan": {"from": "S(0)", "to": "R", "planner": "graph"},
                     "expect": {"optimal_paths": 1}})j",
                 R"j({"optimal_paths": 2})j"},
        KindCase{"MergedPlan",
                 R"j({"plan": {"mesh": "a=2,b=2", "flatten": [["a", "b"]], "from": "PP",
                     "to": "RR"}, "expect": {"path": "P(sum)P(sum)-->RR", "flattened": ["a_b"]}})j",
                 R"j({"flattened": []})j"},
        KindCase{"MergeWarning",
                 R"j({"plan": {"mesh": "a=2,b=2", "from": "PP", "to": "RR"},
                     "expect": {"warning": "no_flattened_mesh"}})j",
                 R"j({"warning": "uneven_tensor_shape"})j"},
        KindCase{"Steps",
                 R"j({"steps": {"mesh": "2x2", "from": "PP", "steps": ["1:P->S(0)",
                     "0:P->S(0)"]}, "expect": {"to": "S(0)[1]S(0)[0]", "full_bytes": [128, 64]}})j",
                 R"j({"to": "S(0)S(0)"})j"},
        KindCase{"StepsFromElsewhere",
                 R"j({"steps": {"from": "R", "steps": ["0:P->R"]},
                     "error": "expected a step from the layout before it, R"})j",
                 ""},
        KindCase{"Select",
                 R"j({"select": {"op": "aten.mm.default", "inputs": ["f32[4,8] S(0)",
                     "f32[8,16] S(0)"]}, "expect": {"chosen": "S(0)|S(0),R", "inputs": ["S(0)",
                     "R"], "outputs": ["S(0)"], "candidates": 8, "ties": 1, "selected": 2,
                     "flips_with_order": false, "collectives": ["all_gather"],
                     "totals": {"P(sum)|S(1),S(0)": 10.301544641981327}, "has": ["R|R,R"],
                     "lacks": ["P(sum)|P(sum),P(sum)"]}})j",
                 R"j({"totals": {"P(sum)|S(1),S(0)": 10.301544641981328}})j"},
        KindCase{"SelectOrder",
                 R"j({"select": {"op": "aten.mul.Tensor", "mesh": "4",
                     "order": "reversed", "inputs": ["f32[8,8] P(max)", "f32[8,8] R"]},
                     "expect": {"chosen": "P(avg)|R,P(avg)", "ties_include": ["R|R,R"]}})j",
                 R"j({"chosen": "R|R,R"})j"},
        KindCase{"SelectRows",
                 R"j({"select": {"inputs": ["f32[8,8] S(0)", "f32[8,8] R"],
                     "rows": ["?0|?0,R", "P|P,R"]}, "expect": {"candidates": 3,
                     "chosen": "S(0)|S(0),R"}})j",
                 R"j({"candidates": 4})j"},
        KindCase{"SelectCandidates",
                 R"j({"select": {"inputs": ["f32[8,8] S(0)"], "candidates": ["R|R",
                     "S(0)|S(0)"]}, "expect": {"selected": 1}})j",
                 R"j({"selected": 0})j"},
        KindCase{"SelectSearch",
                 R"j({"select": {"op": "aten.mm.default", "search": "dijkstra",
                     "stack": "dtensor-v3", "inputs": ["f32[4,8] S(0)", "f32[8,16] S(0)"]},
                     "expect": {"chosen": "P(sum)|S(1),S(0)", "search_note": ""}})j",
                 R"j({"search_note": "the op has no rows"})j"},
        KindCase{"SelectForeachChild",
                 R"j({"select": {"op": "aten._foreach_neg.default", "child": 1,
                     "inputs": ["[f32[8] R; f32[8] S(0)]"]}, "expect": {"outputs": ["S(0)"]}})j",
                 R"j({"outputs": ["R"]})j"},
        KindCase{"SelectError",
                 R"j({"select": {"op": "aten.relu_.default", "inputs": ["f32[8] P"]},
                     "error": "in-place operations that require placement changes"})j",
                 ""},
        KindCase{"Policy",
                 R"j({"policy": {"candidates": [{"total_us": 0}, {"total_us": 0,
                     "keeps_inputs": true}, {"total_us": null}]}, "expect": {"selected": 1,
                     "ties": 2}})j",
                 R"j({"selected": 0})j"},
        KindCase{"Rules",
                 R"j({"rules": {"op": "aten.abs.default",
                     "inputs": ["f32[4,8] _S(1,2)"]}, "expect": {"rows": ["?0|?0", "?1|?1"],
                     "count": 3, "outputs": ["f32[4,8]"], "filled": ["R|R", "_S(0,2)|_S(0,2)",
                     "_S(1,2)|_S(1,2)"]}})j",
                 R"j({"count": 5})j"},
        KindCase{"RulesOfAFollower",
                 R"j({"rules": {"op": "aten.sum.default", "inputs": ["f32[4,8] R"]},
                     "error": "aten.sum.default follows the layouts of its inputs, so it has no rows"})j",
                 ""},
        KindCase{"SweepTriangle",
                 R"j({"sweep": {"law": "triangle", "mesh": "2x2", "placements": ["S(0)",
                     "R"], "stack": {"base": "dtensor-2.13", "planner": "graph"}},
                     "expect": {"questions": 64, "violated": 0}})j",
                 R"j({"violated": 1})j"},
        KindCase{"SweepGraph",
                 R"j({"sweep": {"law": "graph", "placements": ["S(0)", "S(1)", "R",
                     "P"]}, "expect": {"questions": 16, "violated": 0}})j",
                 R"j({"questions": 17})j"},
        KindCase{"SweepSearch",
                 R"j({"sweep": {"law": "search", "op": "aten.mm.default",
                     "stack": "dtensor-v3g", "inputs": ["f32[4,8]", "f32[8,4]"],
                     "placements": ["S(0)", "R"]}, "expect": {"questions": 4, "equal": 4}})j",
                 R"j({"equal": 3})j"},
        KindCase{"SweepReach",
                 R"j({"sweep": {"law": "reach", "op": "aten.mm.default",
                     "inputs": ["f32[4,8]", "f32[8,4]"], "placements": ["S(0)", "R"]},
                     "expect": {"questions": 4, "violated": 0}})j",
                 R"j({"violated": 1})j"},
        KindCase{"SweepMergedGather",
                 R"j({"sweep": {"law": "merged_gather", "mesh": "a=2,b=2",
                     "flatten": [["a", "b"]], "stack": "dtensor-2.13", "max_extent": 6},
                     "expect": {"merged": [1, 2, 3, 4, 5, 6], "wrong": [2, 5, 6]}})j",
                 R"j({"wrong": []})j"},
        KindCase{"SweepStrided",
                 R"j({"sweep": {"law": "strided", "max_extent": 3},
                     "expect": {"questions": 65, "violated": 0}})j",
                 R"j({"questions": 64})j"},
        KindCase{"Mesh",
                 R"j({"mesh": {"mesh": "dp=2,pp=3,tp=4", "flatten": [{"axes": ["dp",
                     "tp"], "name": "x"}], "slice": ["dp", "tp"], "dims": [0, 1], "name": "x"},
                     "expect": {"text": "dp=2,tp=4", "layouts": ["2:12", "4:1"], "size": 8,
                     "layout": "(2:12,4:1)", "flattened": "x", "registered": "(2:12,4:1)"}})j",
                 R"j({"flattened": "y"})j"},
        KindCase{"MeshError",
                 R"j({"mesh": {"mesh": "dp=2,tp=4", "slice": ["tp", "dp"]},
                     "error": "axes in the order of the root mesh"})j",
                 ""},
        KindCase{"Layout",
                 R"j({"layout": {"mesh": "2x2", "layout": "S(0)[1]S(0)[0]"},
                     "expect": {"encoded": "_S(0,2)S(0)", "shards": 4, "shardable": true,
                     "even": [true, true], "printed": "S(0)[1]S(0)[0]"}})j",
                 R"j({"encoded": "S(0)S(0)"})j"},
        KindCase{"LayoutError",
                 R"j({"layout": {"mesh": "2x2", "layout": "PP(max)"},
                     "error": "partials of one kind"})j",
                 ""},
        KindCase{"Local", R"j({"local": {"mesh": "4", "tensor": "f32[3,5]", "layout": "S(1)",
                     "dim": 1}, "expect": {"extents": [2, 2, 1, 0], "rows": [[0, 1], [2, 3], [4],
                     []], "shapes": [[3, 2], [3, 2], [3, 1], [3, 0]]}})j",
                 R"j({"extents": [2, 1, 1, 1]})j"},
        KindCase{"Chunks",
                 R"j({"chunks": {"extent": 5, "chunks": 2, "factor": 2,
                     "variant": "unflatten"}, "expect": {"rows": [[0, 1, 3, 4], [2]],
                     "sizes": [4, 1]}})j",
                 R"j({"sizes": [3, 2]})j"},
        KindCase{"Simulate",
                 R"j({"simulate": {"mesh": "2", "tensor": "i32[3]", "from": "S(0)", "to": "R",
                     "values": "counting", "rank": 1, "reduction": "tree", "seed": 3},
                     "expect": {"path": "S(0)->R", "verified": true, "max_abs_error": 0,
                     "replicas_bitwise_equal": true, "bytes_moved": 12, "communicating": 1,
                     "local": [1, 2, 3], "mismatch": "", "refused": "", "notes": []}})j",
                 R"j({"local": [1, 3, 2]})j"},
        KindCase{"Execute",
                 R"j({"execute": {"mesh": "2", "op": "aten.mm.default", "args": [],
                     "placements": "P(sum)|S(1),S(0)", "to": "R", "rank": 1,
                     "inputs": [{"tensor": "f32[2,2]", "values": [[0, 1], [2, 3]]}, "f32[2,2]"]},
                     "expect": {"result": [2, 3, 6, 11], "local": [2, 3, 6, 11],
                     "verified": true, "max_abs_error": 0, "steps": 1, "mismatch": ""}})j",
                 R"j({"result": [2, 3, 6, 12]})j"},
        KindCase{"ExecuteError",
                 R"j({"execute": {"mesh": "2", "op": "aten.mm.default", "placements": "R|R,R",
                     "inputs": ["f32[2,2]", "f32[3,2]"]},
                     "error": "aten.mm.default: shapes do not fit mk,kn->mn"})j",
                 ""},
        KindCase{"Solve",
                 R"j({"solve": {"mesh": "2", "stack": "ap-nccl", "pin_inputs": "S(0)",
                     "pin_outputs": "S(0)", "parameter_budget": 1, "program": {
                     "schema": "shardlab/program/1", "name": "double", "nodes": [
                     {"name": "x", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "y", "op": "aten.alias.default", "inputs": ["x"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "out", "kind": "output", "inputs": ["y"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]}]}},
                     "expect": {"objective_us": 0, "evaluated_us": 0, "optimal": true, "nodes": 3,
                     "strategies": 9, "infeasible": "", "chosen": {"y": "S(0)<-S(0)"},
                     "rows": {"x": ["R", "S(0)", "S(1)"]}, "edges": {"y:0": [3, 3, 9, 0]},
                     "disagreements": 0, "to_partial": [], "unexecutable": [], "verified": true,
                     "wrong_nodes": [], "max_abs_error": 0}})j",
                 R"j({"chosen": {"y": "R<-R"}})j"},
        KindCase{"SolveWithFlaws",
                 R"j({"solve": {"mesh": "2", "stack": "ap-nccl", "pins": {"x": "S(1)", "w": "S(0)",
                     "y": "P(sum)"}, "flaws": {"first_argument_only": true}, "program": {
                     "schema": "shardlab/program/1", "name": "square", "nodes": [
                     {"name": "x", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "w", "kind": "parameter",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "y", "op": "aten.mm.default", "inputs": ["x", "w"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "z", "op": "aten.mul.Tensor", "inputs": ["y", "y"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]}]}},
                     "expect": {"disagreements": 1, "verified": true}})j",
                 R"j({"disagreements": 0})j"},
        KindCase{"SolveWithTies",
                 R"j({"solve": {"mesh": "2", "stack": "ap-nccl", "pins": {"a": "S(0)", "b": "S(1)"},
                     "flaws": {"tied": [["c", "d"]]}, "program": {
                     "schema": "shardlab/program/1", "name": "two", "nodes": [
                     {"name": "a", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "b", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "c", "op": "aten.alias.default", "inputs": ["a"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "d", "op": "aten.alias.default", "inputs": ["b"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]}]}},
                     "expect": {"objective_us": null, "infeasible": "forbidden pairs"}})j",
                 R"j({"infeasible": "budget"})j"},
        KindCase{"SolveStrided",
                 R"j({"solve": {"mesh": "4", "stack": "ap-nccl", "strided": true,
                     "pins": {"x": "S(1)", "out": "S(1)"}, "program": {
                     "schema": "shardlab/program/1", "name": "rows", "nodes": [
                     {"name": "x", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [2, 4, 8]}]},
                     {"name": "w", "kind": "parameter",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "rows", "op": "aten.view.default", "inputs": ["x"],
                      "args": {"positional": [[8, 8]]},
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "y", "op": "aten.mm.default", "inputs": ["rows", "w"],
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
                     {"name": "back", "op": "aten.view.default", "inputs": ["y"],
                      "args": {"positional": [[2, 4, 8]]},
                      "outputs": [{"dtype": "f32", "shape": [2, 4, 8]}]},
                     {"name": "out", "kind": "output", "inputs": ["back"],
                      "outputs": [{"dtype": "f32", "shape": [2, 4, 8]}]}]}},
                     "expect": {"chosen": {"rows": "_S(0,2)<-S(1)", "y": "_S(0,2)<-_S(0,2),R",
                     "back": "S(1)<-_S(0,2)"}, "verified": true}})j",
                 R"j({"chosen": {"rows": "R<-R"}})j"},
        KindCase{"SolveError",
                 R"j({"solve": {"mesh": "2", "stack": "ap-nccl", "flaws": {"tied": [["x", "z"]]},
                     "program": {"schema": "shardlab/program/1", "name": "one", "nodes": [
                     {"name": "x", "kind": "input",
                      "outputs": [{"dtype": "f32", "shape": [8, 8]}]}]}},
                     "error": "tied: the program has no node \"z\""})j",
                 ""}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(CheckKinds, EveryOneIsTestedAbove) {
  const std::set<std::string_view> tested = {"plan",     "steps",   "select", "policy", "rules",
                                             "sweep",    "mesh",    "layout", "local",  "chunks",
                                             "simulate", "execute", "solve"};
  for (const case_checks::CheckKind& kind : case_checks::all_check_kinds()) {
    if (kind.read == nullptr || kind.name == "relation") continue;
    EXPECT_TRUE(tested.contains(kind.name)) << kind.name;
  }
}

constexpr const char* kPrices = R"j(
    {"name": "gather", "plan": {"mesh": "4", "tensor": "f32[10,10]", "from": "S(0)", "to": "R"}},
    {"name": "reduce", "plan": {"mesh": "4", "tensor": "f32[10,10]", "from": "P", "to": "R"}},)j";

TEST(Relation, ComparesSumsOfNamedPrices) {
  const CaseReport report =
      report_of("[" + std::string(kPrices) +
                R"j({"relation": ["reduce", "+", 1, "<", "gather", "+", "gather"]},
                     {"relation": ["reduce", "-", "gather", "-", 1, ">", 0]},
                     {"relation": ["gather", "==", "gather"]}])j");
  EXPECT_EQ(to_string(report.status), "pass");
  ASSERT_EQ(report.checks.size(), 3U);
  EXPECT_EQ(report.checks[0].what(), "reduce + 1 < gather + gather");
  EXPECT_EQ(report.checks[0].expected, "reduce + 1 < gather + gather");
  EXPECT_EQ(report.checks[0].got,
            "22.828962037149857 + 1 < 14.714481018574928 + 14.714481018574928");
  EXPECT_EQ(report.checks[1].got, "22.828962037149857 - 14.714481018574928 - 1 > 0");
}

TEST(Relation, FailsWhereItDoesNotHold) {
  const CaseReport report =
      report_of("[" + std::string(kPrices) + R"j({"relation": ["reduce", "<", "gather"]}])j");
  EXPECT_EQ(to_string(report.status), "fail");
}

TEST(Relation, CanBeExpectedNotToHold) {
  const CaseReport report =
      report_of("[" + std::string(kPrices) +
                R"j({"relation": ["reduce", "<", "gather"], "expect": {"holds": false}}])j");
  EXPECT_EQ(to_string(report.status), "pass");
}

// -- Running --------------------------------------------------------------------------------------

constexpr const char* kPinnedAndFree = R"j([
    {"plan": {"from": "S(0)", "to": "S(1)", "stack": "dtensor-v3"},
     "expect": {"price_us": 10.301544641981327}},
    {"plan": {"from": "S(0)", "to": "S(1)"}, "expect": {"price_us": 10.301544641981327}}])j";

TEST(Case, AnotherStackReplacesOnlyTheStackOfTheSetup) {
  const CaseReport as_written = report_of(kPinnedAndFree);
  EXPECT_EQ(to_string(as_written.status), "pass");
  const CaseReport replaced = report_of(kPinnedAndFree, "dtensor-v4");
  EXPECT_EQ(to_string(replaced.status), "fail");
  ASSERT_EQ(replaced.checks.size(), 2U);
  EXPECT_TRUE(replaced.checks[0].ok);
  EXPECT_FALSE(replaced.checks[1].ok);
  EXPECT_EQ(replaced.checks[1].what(), "plan f32[4,8] S(0)->S(1) on 2, dtensor-v4: price_us");
  EXPECT_EQ(replaced.checks[1].got, 9.301544641981327);
}

TEST(Case, AStackThatHasNoRuleFailsTheCheckAndSaysWhy) {
  const CaseReport report =
      report_of(R"j([{"select": {"op": "aten.einsum.default", "args": ["i,i->i"],
                     "inputs": ["f32[8] R", "f32[8] R"]}, "expect": {"ties": 1}}])j");
  EXPECT_EQ(to_string(report.status), "fail");
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].got["error"],
            "aten.einsum.default: no sharding strategy registered in rule set dtensor-2.13; valid: "
            "shardlab, autoparallel, autoparallel-2.15");
}

// An all-to-all that costs what it does from v4 on, which is the subject of a made-up thread.
json case_with_releases(const std::string& verdicts) {
  json document =
      case_json(R"j([{"plan": {"from": "S(0)", "to": "R"}, "expect": {"path": "S(0)->R"}}])j");
  document["releases"] = json::parse(verdicts);
  const char* subject = document["releases"].contains("fault") ? "fault" : "behaviour";
  document["releases"][subject] = json::parse(R"j([
      {"name": "there", "plan": {"from": "S(0)", "to": "S(1)"}},
      {"name": "back", "plan": {"from": "S(1)", "to": "S(0)"}},
      {"relation": ["there", "==", "back"]},
      {"plan": {"from": "S(0)", "to": "S(1)"}, "expect": {"price_us": 9.301544641981327}}])j");
  return document;
}

TEST(Case, AsksEveryReleaseWhatBecameOfTheFault) {
  const json document =
      case_with_releases(R"j({"fault": [], "dtensor-v3": "mended", "dtensor-v4": "still there"})j");
  const CaseReport report = parse_case(document).run(shipped_sources());
  EXPECT_EQ(to_string(report.status), "pass");
  EXPECT_EQ(report.checks.size(), 1U);
  EXPECT_TRUE(report.plans.size() == 1U) << "the story's table shows the case's own checks alone";
  ASSERT_EQ(report.releases.size(), 2U);
  EXPECT_EQ(report.releases[0].stack, "dtensor-v3");
  EXPECT_EQ(to_string(report.releases[0].verdict), "mended");
  EXPECT_EQ(to_string(report.releases[1].verdict), "still there");
  ASSERT_EQ(report.releases[1].checks.size(), 2U);
  EXPECT_EQ(report.releases[1].checks[0].what(), "there == back, dtensor-v4");
}

TEST(Case, FailsWhereAReleaseDoesOtherwiseThanItSays) {
  const json document = case_with_releases(
      R"j({"behaviour": [], "dtensor-v3": "changed", "dtensor-v4": "changed"})j");
  const CaseReport report = parse_case(document).run(shipped_sources());
  EXPECT_EQ(to_string(report.status), "fail");
  ASSERT_EQ(report.releases.size(), 2U);
  EXPECT_TRUE(report.releases[0].ok());
  EXPECT_FALSE(report.releases[1].ok());
  EXPECT_EQ(to_string(report.releases[1].verdict), "as in the thread");
}

TEST(Case, GivesAVerdictOnTheStackOfTheCallerToo) {
  const json document = case_with_releases(R"j({"fault": [], "dtensor-v3": "mended"})j");
  const CaseReport report = parse_case(document).run(shipped_sources(), "dtensor-v4");
  EXPECT_EQ(to_string(report.status), "pass");
  ASSERT_EQ(report.releases.size(), 2U);
  EXPECT_EQ(report.releases[1].stack, "dtensor-v4");
  EXPECT_EQ(to_string(report.releases[1].verdict), "still there");
  EXPECT_FALSE(report.releases[1].expected);
}

TEST(Case, GivesOneVerdictOnAReleaseThatTheCallerNamesToo) {
  const json document = case_with_releases(R"j({"fault": [], "dtensor-v3": "mended"})j");
  const CaseReport report = parse_case(document).run(shipped_sources(), "dtensor-v3");
  ASSERT_EQ(report.releases.size(), 1U);
  EXPECT_EQ(report.releases[0].stack, "dtensor-v3");
  EXPECT_TRUE(report.releases[0].expected);
}

TEST(Case, SeveralStacksAreSeveralComparisons) {
  const CaseReport report = report_of(
      R"j([{"plan": {"from": "S(0)", "to": "R", "stack": ["dtensor-v3",
                     {"base": "dtensor-v4", "planner": "graph"}]},
                     "expect": {"path": "S(0)->R"}}])j");
  ASSERT_EQ(report.checks.size(), 2U);
  EXPECT_EQ(report.checks[0].what(), "plan f32[4,8] S(0)->R on 2, dtensor-v3: path");
  EXPECT_EQ(report.checks[1].what(), "plan f32[4,8] S(0)->R on 2, dtensor-v4{planner=graph}: path");
}

TEST(Case, SimulateRunsOnVirtualRanks) {
  const CaseReport report = report_of(
      R"j([{"simulate": {"tensor": "i32[3]", "from": "S(0)", "to": "R", "values": "counting"},
            "expect": {"verified": true, "local": [1, 2, 3], "bytes_moved": 12,
                       "communicating": 1, "replicas_bitwise_equal": true, "refused": ""}},
           {"simulate": {"tensor": "f32[3]", "from": "S(0)", "to": "P(sum)"},
            "expect": {"verified": false, "refused": "a shard can't become"}}])j");
  for (const auto& check : report.checks) EXPECT_TRUE(check.ok) << check.what();
}

TEST(Case, ExecuteRunsAnOpInGivenLayouts) {
  const CaseReport report = report_of(
      R"j([{"execute": {"op": "aten.max.default", "placements": "P(sum)|P(sum)",
                        "inputs": [{"tensor": "f32[2]", "locals": [[1, -3], [-2, 5]]}]},
            "expect": {"verified": false, "result": [6], "mismatch": "found 6, expected 2"}}])j");
  for (const auto& check : report.checks) EXPECT_TRUE(check.ok) << check.what() << check.got;
}

TEST(Case, ALargeElementHidesNoWrongOneBesideIt) {
  const CaseReport report = report_of(
      R"j([{"execute": {"op": "aten.relu.default", "placements": "P(sum)|P(sum)",
                        "inputs": [{"tensor": "f32[3]", "locals": [[1e9, 5, -7], [0, -7, 5]]}]},
            "expect": {"verified": false, "max_abs_error": 5}},
           {"execute": {"op": "aten.cat.default", "args": [0], "placements": "S(0)|S(0),S(0)",
                        "inputs": [{"tensor": "f32[2]", "values": [1e9, 1]},
                                   {"tensor": "f32[2]", "values": [50, -3]}]},
            "expect": {"verified": false, "mismatch": "element [1]: found 50, expected 1"}}])j");
  for (const auto& check : report.checks) EXPECT_TRUE(check.ok) << check.what() << check.got;
}

TEST(Case, AnOutputOfTheWrongShapeIsNotRedistributed) {
  const CaseReport report = report_of(
      R"j([{"execute": {"op": "aten.embedding.default", "placements": "MP|S(1),R", "to": "R",
                        "inputs": ["f32[5,2]", {"tensor": "i64[2]", "values": [0, 2]}]},
            "expect": {"verified": false, "result": null,
                       "mismatch": "rank 0: found f32[2,1], expected f32[2,2]"}},
           {"execute": {"op": "aten.neg.default", "placements": "S(3)|R", "inputs": ["f32[2]"]},
            "error": "S(3) of f32[2]: S(3) names a dim that the tensor lacks"}])j");
  for (const auto& check : report.checks) EXPECT_TRUE(check.ok) << check.what() << check.got;
}

TEST(Case, ShowsWhatItsSelectionsAndPlansSaw) {
  const CaseReport report = report_of(
      R"j([{"select": {"op": "aten.mul.Tensor", "mesh": "4",
                     "order": "reversed", "inputs": ["f32[8,8] P(max)", "f32[8,8] R"]},
                     "expect": {"ties": 3}}, {"plan": {"from": "S(0)", "to": "P",
                     "planner": "greedy"}, "expect": {"price_us": null}}])j");
  ASSERT_EQ(report.selections.size(), 1U);
  const SelectView& view = report.selections[0];
  EXPECT_EQ(view.question, "aten.mul.Tensor(f32[8,8] P(max), f32[8,8] R) on 4");
  EXPECT_EQ(view.stack, "dtensor-2.13");
  EXPECT_EQ(view.order, "reversed");
  EXPECT_EQ(view.chosen, "P(avg)|R,P(avg)");
  EXPECT_EQ(view.ties, (std::vector<std::string>{"P(avg)|R,P(avg)", "P(sum)|R,P(sum)", "R|R,R"}));
  ASSERT_EQ(view.totals.size(), 5U);
  EXPECT_EQ(view.totals[4].first, "R|R,R");
  ASSERT_EQ(report.plans.size(), 1U);
  EXPECT_EQ(report.plans[0].price_us, std::numeric_limits<double>::infinity());
}

// -- The corpus -----------------------------------------------------------------------------------

std::vector<std::string> shipped_cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(SHARDLAB_SOURCE_DIR "/configs/regressions")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Corpus : public testing::TestWithParam<std::string> {};

TEST_P(Corpus, Passes) {
  const std::string path = SHARDLAB_SOURCE_DIR "/configs/regressions/" + GetParam() + ".json";
  std::ifstream in(path);
  const Case one = Case::parse(json::parse(in), {path, ""});
  EXPECT_EQ(one.id(), GetParam());
  const CaseReport report = one.run(shipped_sources());
  EXPECT_EQ(to_string(report.status), "pass");
  for (const CheckOutcome& check : report.checks) {
    EXPECT_TRUE(check.ok) << check.what() << ": expected " << check.expected << ", got "
                          << check.got;
  }
  for (const StackVerdict& release : report.releases) {
    EXPECT_TRUE(release.ok()) << release.stack << ": " << to_string(release.verdict);
  }
}

INSTANTIATE_TEST_SUITE_P(Regressions, Corpus, testing::ValuesIn(shipped_cases()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CorpusAsAWhole, HasAtLeastFortyFiveEntriesAndThoseThatMatterMost) {
  const std::vector<std::string> names = shipped_cases();
  std::set<std::string> entries;
  for (const std::string& name : names) entries.insert(name.substr(0, 3));
  EXPECT_GE(entries.size(), 45U);
  for (const char* id : {"R01", "R02", "R03", "R04", "R05", "R07", "R12", "R20", "R21", "R23",
                         "R24", "R25", "R30"}) {
    EXPECT_TRUE(entries.contains(id)) << id;
  }
}

// A new release is asked by every case that asks the older ones.
TEST(CorpusAsAWhole, SpeaksOfEveryReleaseOrOfNone) {
  std::vector<std::string> releases;
  for (const auto& entry : fs::directory_iterator(SHARDLAB_SOURCE_DIR "/configs/stacks")) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with("dtensor-2.")) releases.push_back(name);
  }
  ASSERT_GE(releases.size(), 3U);
  std::size_t speaking = 0;
  for (const std::string& name : shipped_cases()) {
    const json one =
        json::parse(std::ifstream(SHARDLAB_SOURCE_DIR "/configs/regressions/" + name + ".json"));
    if (!one.contains("releases")) continue;
    ++speaking;
    for (const std::string& release : releases) {
      EXPECT_TRUE(one["releases"].contains(release)) << name << " says nothing of " << release;
    }
  }
  EXPECT_GE(speaking, 60U);
}

}  // namespace case_test
}  // namespace shardlab
