// Malformed command lines: exit 2, nothing on stdout, and a message that names the place, what was
// found and what is valid. The messages are compared word for word.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace bad_command_line_test {

using Words = std::vector<std::string>;

struct BadCommand {
  const char* name;
  Words words;
  const char* message;
  int exit_code = 2;
};
void PrintTo(const BadCommand& command, std::ostream* out) { *out << join(command.words, " "); }

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kGoodPlan = {"plan",   "--mesh", "2x4",  "--tensor", "f32[8,8]",
                         "--from", "RR",     "--to", "RR"};
const Words kGoodSimulation = {"simulate", "--mesh", "2x4",  "--tensor", "f32[8,8]",
                               "--from",   "RR",     "--to", "RR"};
const Words kGoodMatmul = {"select", "--op",     "mm",         "--mesh",
                           "4",      "--inputs", "f32[8,8] R", "f32[8,8] R"};
const Words kComparison = {"compare", "--baseline", "dtensor-v3",
                           "--suite", "ops-small",  "--candidate"};

Words plan_of(const char* mesh, const char* tensor, const char* from, const char* to) {
  return {"plan", "--mesh", mesh, "--tensor", tensor, "--from", from, "--to", to};
}
Words select_of(const char* op, const Words& inputs, const Words& more = {}) {
  return with(with({"select", "--op", op, "--mesh", "4", "--inputs"}, inputs), more);
}

class BadCommandLine : public testing::TestWithParam<BadCommand> {};

TEST_P(BadCommandLine, IsAnsweredWordForWord) {
  const TemporaryFolder folder;
  folder.write("legacy.json", R"({"base": "dtensor-v3", "rules": "dtensor-legacy"})");
  const ProcessResult result = run_shardlab(GetParam().words, folder.path());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "shardlab: " + with_lists(GetParam().message) + "\n");
}

std::string name_of(const testing::TestParamInfo<BadCommand>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Options, BadCommandLine,
    testing::Values(
        BadCommand{"UnknownCommand",
                   {"plam"},
                   "unknown command \"plam\" (did you mean \"plan\"?); valid: {commands}"},
        BadCommand{"CommandOfAnotherName",
                   {"optimize"},
                   "unknown command \"optimize\" (did you mean \"solve\"?); valid: {commands}"},
        BadCommand{"OptionOfAnotherName", with(kGoodPlan, {"--gpu", "h100"}),
                   "plan: unknown option \"--gpu\" (did you mean \"--topology\"?); valid: "
                   "{plan options}"},
        BadCommand{
            "UnknownOptionBeforeTheCommand",
            {"--verbos"},
            "unknown option \"--verbos\"; valid: --help, --version, or a command: {commands}"},
        BadCommand{"OptionBeforeTheCommand",
                   {"--format", "json", "plan", "--mesh", "2x4", "--tensor", "f32[8,8]", "--from",
                    "RR", "--to", "RR"},
                   "found \"--format\" before the command; valid: shardlab plan OPTIONS"},
        BadCommand{"UnknownOption", with(kGoodPlan, {"--plannner", "greedy"}),
                   "plan: unknown option \"--plannner\" (did you mean \"--planner\"?); valid: "
                   "{plan options}"},
        BadCommand{
            "MisspeltRequiredOption",
            {"plan", "--meshh", "2x4"},
            "plan: unknown option \"--meshh\" (did you mean \"--mesh\"?); valid: {plan options}"},
        BadCommand{"UnexpectedArgument", with(kGoodPlan, {"extra"}),
                   "plan: unexpected argument \"extra\"; see `shardlab plan --help`"},
        BadCommand{"OneRequiredOptionMissing",
                   {"plan", "--mesh", "2", "--tensor", "f32[8]", "--from", "R"},
                   "plan: --to is required: layout wanted"},
        BadCommand{"SeveralRequiredOptionsMissing",
                   {"plan", "--mesh", "2"},
                   "plan: --tensor, --from, --to are required; see `shardlab plan --help`"},
        BadCommand{"OptionWithoutItsValue",
                   {"plan", "--mesh", "--tensor", "f32[8]"},
                   "plan: --mesh: a value is missing: 8x8, dp=8,tp=8, or as PyTorch writes it: "
                   "\"(8, 8)\""},
        BadCommand{"OptionTwice", with(kGoodPlan, {"--from", "RR"}),
                   "plan: --from: found 2 values; valid: one"},
        BadCommand{"FlagWithAValue", with(kGoodPlan, {"--quiet=maybe"}),
                   "plan: --quiet: found \"maybe\"; valid: no value, it is a flag"},
        BadCommand{"UnknownFormat", with(kGoodPlan, {"--format", "jsn"}),
                   "plan: --format: found \"jsn\" (did you mean \"json\"?); valid: text, json"},
        BadCommand{
            "UnknownPlanner", with(kGoodPlan, {"--planner", "graf"}),
            "plan: --planner: found \"graf\" (did you mean \"graph\"?); valid: greedy, graph"},
        BadCommand{"NegativeJobs", with(kGoodSimulation, {"--jobs", "-1"}),
                   "simulate: --jobs: found \"-1\"; valid: an integer from 0 to 1024"},
        BadCommand{"JobsNotANumber", with(kGoodSimulation, {"--jobs", "two"}),
                   "simulate: --jobs: found \"two\"; valid: an integer from 0 to 1024"},
        BadCommand{"TooManyJobs", with(kGoodSimulation, {"--jobs", "1025"}),
                   "simulate: --jobs: found \"1025\"; valid: an integer from 0 to 1024"},
        BadCommand{
            "NegativeSeed", with(kGoodSimulation, {"--seed", "-1"}),
            "simulate: --seed: found \"-1\"; valid: an integer from 0 to 18446744073709551615"},
        BadCommand{
            "SeedWithAFraction", with(kGoodSimulation, {"--seed", "1.5"}),
            "simulate: --seed: found \"1.5\"; valid: an integer from 0 to 18446744073709551615"},
        BadCommand{"SeedTooLarge", with(kGoodSimulation, {"--seed", "18446744073709551616"}),
                   "simulate: --seed: found \"18446744073709551616\"; valid: an integer from 0 to "
                   "18446744073709551615"},
        BadCommand{"SeedForAPlan", with(kGoodPlan, {"--seed", "1"}),
                   "plan: --seed: plan makes no random choices; valid: without --seed"},
        BadCommand{"JobsForAPlan", with(kGoodPlan, {"--jobs=2"}),
                   "plan: --jobs: plan has no work for several threads; valid: without --jobs"},
        BadCommand{"SetForAList",
                   {"list", "stacks", "--set", "stack.planner=graph"},
                   "list: --set: list reads no configuration; valid: without --set"},
        BadCommand{"SeedWhereAnArgumentIsMissing",
                   {"describe", "--seed", "1"},
                   "describe: --seed: describe makes no random choices; valid: without --seed"},
        BadCommand{"HelpForAnUnknownCommand",
                   {"help", "plam"},
                   "help: unknown command \"plam\" (did you mean \"plan\"?); valid: {commands}"},
        BadCommand{"HelpForACommandOfAnotherName",
                   {"help", "diff"},
                   "help: unknown command \"diff\" (did you mean \"compare\"?); valid: {commands}"},
        BadCommand{"ProgramOfNoLayers",
                   {"program", "llama3-8b", "--layers", "0"},
                   "program: --layers: found \"0\"; valid: an integer from 1 to 1024"},
        BadCommand{"ProgramForm",
                   {"program", "llama3-8b", "--matmul", "mm"},
                   "program: --matmul: found \"mm\"; valid: einsum, native"},
        BadCommand{"ProgramOfNoWidth",
                   {"program", "llama3-8b", "--width", "0"},
                   "program: --width: found \"0\"; valid: an integer from 1 to 16777216"},
        BadCommand{"ProgramOfTooManyExperts",
                   {"program", "moe-1.3b-64e", "--experts", "65537"},
                   "program: --experts: found \"65537\"; valid: an integer from 1 to 65536"},
        BadCommand{"ProgramOfUnevenHeads",
                   {"program", "llama3-8b", "--width", "64", "--heads", "5"},
                   "--heads: found 5; valid: a divisor of 32, which is half the width"},
        BadCommand{"ProgramWithoutExperts",
                   {"program", "gpt2-xl", "--experts", "4"},
                   "--experts: found 4, but gpt2-xl has no experts"},
        BadCommand{
            "ProgramTooLarge",
            {"program", "llama3-8b", "--layers", "1", "--batch", "1048576", "--seqlen", "16777216"},
            "--batch, --seqlen: found a tensor bf16[1048576,16777216,128256] (tangents_1); "
            "valid: tensors of at most 2^53 bytes"},
        BadCommand{"RankOutOfRange", with(kGoodPlan, {"--rank", "8"}),
                   "--rank: found 8; valid: 0 to 7, the ranks of mesh 2x4"},
        BadCommand{"NegativeRank", with(kGoodPlan, {"--rank", "-1"}),
                   "plan: --rank: found \"-1\"; valid: an integer from 0 to 1099511627775"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Meshes, BadCommandLine,
    testing::Values(
        BadCommand{"MeshOfSizeZero", plan_of("0x4", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"0x4\": at position 0: expected a mesh dim size (8x8, dp=8,tp=8) "
                   "from 1 to "
                   "1099511627776"},
        BadCommand{"NegativeMesh", plan_of("-4", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"-4\": at position 0: expected a mesh dim size (8x8, dp=8,tp=8) "
                   "from 1 to 1099511627776"},
        BadCommand{"EmptyMesh", plan_of("", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"\": at position 0: expected a mesh dim size (8x8, dp=8,tp=8)"},
        BadCommand{
            "MeshWithTwoSeparators", plan_of("2xx4", "f32[8,8]", "RR", "RR"),
            "--mesh: mesh \"2xx4\": at position 2: expected a mesh dim size (8x8, dp=8,tp=8)"},
        BadCommand{
            "MeshWithTooManyDims", plan_of("1x1x1x1x1x1x1x1x1", "f32[8,8]", "RR", "RR"),
            "--mesh: mesh \"1x1x1x1x1x1x1x1x1\": at position 16: expected at most 8 mesh dims"},
        BadCommand{"MeshWithTooManyRanks", plan_of("1048576x1048577", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"1048576x1048577\": at position 8: expected at most 2^40 ranks"},
        BadCommand{"MeshSizeBeyondSixtyFourBits",
                   plan_of("99999999999999999999", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"99999999999999999999\": at position 0: expected a mesh dim size "
                   "(8x8, dp=8,tp=8) "
                   "from 1 to "
                   "1099511627776"},
        BadCommand{"DuplicateAxis", plan_of("dp=2,dp=4", "f32[8,8]", "RR", "RR"),
                   "--mesh: mesh \"dp=2,dp=4\": at position 5: expected distinct axis names, found "
                   "\"dp\" twice"},
        BadCommand{
            "AxisWithoutSize", plan_of("dp=2,tp", "f32[8,8]", "RR", "RR"),
            "--mesh: mesh \"dp=2,tp\": at position 7: expected \"=\" and the size of axis \"tp\""},
        BadCommand{"FlattenWithoutAxisNames", with(kGoodPlan, {"--flatten", "dp,tp"}),
                   "--flatten: mesh \"dp, tp\": at position 0: expected a mesh with axis names "
                   "(dp=2,tp=4), "
                   "found none"},
        BadCommand{"FlattenUnknownAxis",
                   with(plan_of("dp=2,tp=4", "f32[8,8]", "RR", "RR"), {"--flatten", "dp,cp"}),
                   "--flatten: mesh \"dp, cp\": at position 0: expected known axis names, found "
                   "\"cp\"; valid: "
                   "dp, tp"},
        BadCommand{"FlattenSameAxisTwice",
                   with(plan_of("dp=2,tp=4", "f32[8,8]", "RR", "RR"), {"--flatten", "dp,dp"}),
                   "--flatten: mesh \"dp, dp\": at position 0: expected distinct axis names, found "
                   "\"dp\" twice"},
        BadCommand{"FlattenInAnotherOrder",
                   with(plan_of("dp=2,tp=4", "f32[8,8]", "RR", "RR"), {"--flatten", "tp,dp"}),
                   "--flatten: mesh \"tp, dp\": at position 0: expected axes in the order of the "
                   "root mesh"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadCommandLine,
    testing::Values(
        BadCommand{"UnknownDType", plan_of("2", "floaty[8]", "R", "R"),
                   "--tensor: tensor \"floaty[8]\": at position 0: expected a dtype: {dtypes}"},
        BadCommand{"NegativeDimSize", plan_of("2", "f32[-8]", "R", "R"),
                   "--tensor: tensor \"f32[-8]\": at position 4: expected a dim size from 0 to "
                   "9007199254740992"},
        BadCommand{"DimSizeWithAFraction", plan_of("2", "f32[8.5]", "R", "R"),
                   "--tensor: tensor \"f32[8.5]\": at position 5: expected \",\" and another dim "
                   "size, or \"]\""},
        BadCommand{"DimSizeOf2To63", plan_of("2", "i8[9223372036854775808]", "R", "R"),
                   "--tensor: tensor \"i8[9223372036854775808]\": at position 3: expected a dim "
                   "size from 0 to "
                   "9007199254740992"},
        BadCommand{"TensorOf2To63Bytes", plan_of("2", "i8[3037000500,3037000500]", "R", "R"),
                   "--tensor: tensor \"i8[3037000500,3037000500]\": at position 0: expected a "
                   "tensor of at "
                   "most 2^53 bytes"},
        BadCommand{"NewTensorOf2To82Bytes",
                   {"select", "--op", "aten.new_empty.default", "--mesh", "2", "--inputs",
                    "f32[4,6] R", "--args", "[[1099511627776,1099511627776]]"},
                   "aten.new_empty.default: the result would be f32[1099511627776,1099511627776]; "
                   "valid: a tensor of at most 2^53 bytes"},
        BadCommand{"TensorWithTooManyDims",
                   plan_of("2", "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "R", "R"),
                   "--tensor: tensor \"f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\": at position 36: "
                   "expected at "
                   "most 16 tensor dims"},
        BadCommand{"TensorWithoutBracket", plan_of("2", "f32[8,8", "R", "R"),
                   "--tensor: tensor \"f32[8,8\": at position 7: expected \",\" and another dim "
                   "size, or \"]\""}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Layouts, BadCommandLine,
    testing::Values(
        BadCommand{"UnknownPlacement", plan_of("2x4", "f32[8,8]", "XR", "RR"),
                   "--from: layout \"XR\": at position 0: expected a placement: R, S(d), _S(d,f), "
                   "P(op), MP or "
                   "NP(p); or one that is registered: RG(DIMS:UNITS)"},
        BadCommand{"TensorDimOutOfRange", plan_of("2x4", "f32[8,8]", "S(2)R", "RR"),
                   "--from: layout \"S(2)R\": at position 0: expected shards of tensor dims 0 to "
                   "1, found S(2)"},
        BadCommand{"NegativeTensorDim", plan_of("2x4", "f32[8,8]", "S(-3)R", "RR"),
                   "--from: layout \"S(-3)R\": at position 2: expected a tensor dim from -2 to 1"},
        BadCommand{
            "NegativeTensorDimWithoutATensor",
            {"solve", "mlp", "--mesh", "2x4", "--explain", "S(-1)R"},
            "--explain: layout \"S(-1)R\": at position 2: expected a tensor dim from 0 to "
            "15, since a negative one counts from the last dim of a tensor, and no tensor is "
            "known here"},
        BadCommand{
            "ShardOfAScalar", plan_of("2", "f32[]", "S(0)", "R"),
            "--from: layout \"S(0)\": at position 0: expected no shard, since the tensor has "
            "no dims; found S(0)"},
        BadCommand{"LayoutTooShort", plan_of("2x4", "f32[8,8]", "R", "RR"),
                   "--from: layout \"R\": at position 1: expected 2 placements, one per mesh dim"},
        BadCommand{"LayoutTooLong", plan_of("2x4", "f32[8,8]", "RR", "RRR"),
                   "--to: layout \"RRR\": at position 2: expected 2 placements, one per mesh dim"},
        BadCommand{"EmptyLayout", plan_of("2x4", "f32[8,8]", "", "RR"),
                   "--from: layout \"\": at position 0: expected 2 placements, one per mesh dim"},
        BadCommand{
            "UnknownReduceOp", plan_of("2x4", "f32[8,8]", "P(summ)R", "RR"),
            "--from: layout \"P(summ)R\": at position 2: expected a reduce op: sum, avg, max, min, "
            "product, band, bor, bxor"},
        BadCommand{"MixedPartials", plan_of("2x4", "f32[8,8]", "P(sum)P(max)", "RR"),
                   "--from: layout \"P(sum)P(max)\": at position 6: expected partials of one kind "
                   "(only P(sum) and P(avg) may be mixed), not P(sum) on mesh dim 0 and P(max) on "
                   "mesh dim 1"},
        BadCommand{"OrderIndexTwice", plan_of("2x4", "f32[8,8]", "S(0)[0]S(0)[0]", "RR"),
                   "--from: layout \"S(0)[0]S(0)[0]\": at position 0: expected order indices 0 to "
                   "1 on the "
                   "shards of tensor dim 0"},
        BadCommand{"OrderIndexOnOneOfTwoShards", plan_of("2x4", "f32[8,8]", "S(0)[0]S(0)", "RR"),
                   "--from: layout \"S(0)[0]S(0)\": at position 0: expected order indices 0 to 1 "
                   "on the shards "
                   "of tensor dim 0"},
        BadCommand{"OrderIndexTooLarge", plan_of("2x4", "f32[8,8]", "S(0)[9]S(0)[0]", "RR"),
                   "--from: layout \"S(0)[9]S(0)[0]\": at position 5: expected an order index from "
                   "0 to 7"},
        BadCommand{
            "OrderIndexOnAReplica", plan_of("2x4", "f32[8,8]", "R[0]R", "RR"),
            "--from: layout \"R[0]R\": at position 2: expected an order index only after a shard"},
        BadCommand{"SplitFactorZero", plan_of("2", "f32[8]", "_S(0,0)", "R"),
                   "--from: layout \"_S(0,0)\": at position 5: expected a split factor from 1 to "
                   "1073741824"},
        BadCommand{"NormOfNaN", plan_of("2", "f32[8]", "NP(nan)", "R"),
                   "--from: layout \"NP(nan)\": at position 3: expected the p of a p-norm"},
        BadCommand{"NormOfInfinity", plan_of("2", "f32[8]", "NP(inf)", "R"),
                   "--from: layout \"NP(inf)\": at position 3: expected a p other than 0 (use "
                   "P(sum)) and infinity (use P(max))"},
        BadCommand{"PlacementCutOff", plan_of("2x4", "f32[8,8]", "S(0", "RR"),
                   "--from: layout \"S(0\": at position 3: expected \")\""},
        BadCommand{"BytesThatAreNoText", plan_of("2", "f32[8]", "R\xff\x1b[31m", "R"),
                   "--from: layout \"R\\xff\\x1b[31m\": at position 1: expected a placement: R, "
                   "S(d), _S(d,f), "
                   "P(op), MP or NP(p); or one that is registered: RG(DIMS:UNITS)"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Names, BadCommandLine,
    testing::Values(
        BadCommand{"UnknownStack", with(kGoodPlan, {"--stack", "dtensor-v33"}),
                   "unknown stack \"dtensor-v33\" (did you mean \"dtensor-v3\"?); valid: a path, "
                   "or {stacks}"},
        BadCommand{
            "UnknownTopology", with(kGoodPlan, {"--topology", "h1000"}),
            "unknown topology \"h1000\" (did you mean \"h100\"?); valid: a path, or {topologies}"},
        BadCommand{
            "TopologyInCapitals", with(kGoodPlan, {"--topology", "H100"}),
            "unknown topology \"H100\" (did you mean \"h100\"?); valid: a path, or {topologies}"},
        BadCommand{
            "TopologyByItsProduct", with(kGoodPlan, {"--topology", "H200-SXM-141GB"}),
            "unknown topology \"H200-SXM-141GB\" (did you mean \"h200\"?); valid: a path, or "
            "{topologies}"},
        BadCommand{"StackInCapitals", with(kGoodPlan, {"--stack", "AlphaBeta"}),
                   "unknown stack \"AlphaBeta\" (did you mean \"alpha-beta\"?); valid: a path, or "
                   "{stacks}"},
        BadCommand{
            "UnknownSuite",
            {"ties", "--suite", "ops-smal"},
            "unknown suite \"ops-smal\" (did you mean \"ops-small\"?); valid: a path, or {suites}"},
        BadCommand{"UnknownProgram",
                   {"solve", "mlq", "--mesh", "4"},
                   "unknown program \"mlq\" (did you mean \"mlp\"?); valid: a path, or mlp, "
                   "transformer-block; `shardlab program NAME --out FILE` writes one: gpt2-xl, "
                   "llama3-70b, llama3-8b, moe-1.3b-64e"},
        BadCommand{"ProgramThatIsNotWrittenYet",
                   {"simulate", "llama3-8b", "--mesh", "4"},
                   "unknown program \"llama3-8b\"; valid: a path, or mlp, transformer-block; "
                   "`shardlab program llama3-8b --out FILE` writes one"},
        BadCommand{"UnknownReference",
                   with(kComparison, {"dtensor-v4", "--reference", "alfa-beta"}),
                   "unknown stack \"alfa-beta\" (did you mean \"alpha-beta\"?); valid: a path, or "
                   "{stacks}"},
        BadCommand{
            "StackPathWithoutFile", with(kGoodPlan, {"--stack", "./none.json"}),
            "stack \"./none.json\": no such file; valid: a path, or a name of `shardlab list "
            "stacks`"},
        BadCommand{
            "UnknownRegistry",
            {"list", "stakcs"},
            "list: what: found \"stakcs\" (did you mean \"stacks\"?); valid: stacks, models, "
            "topologies, ops, placements, suites, regressions, programs, recipes, experiments, "
            "measurements"},
        BadCommand{"RegistryMissing",
                   {"list"},
                   "list: what is required: which registry "
                   "{stacks,models,topologies,ops,placements,suites,regressions,programs,recipes,"
                   "experiments,"
                   "measurements}"},
        BadCommand{"TwoRegistries",
                   {"list", "stacks", "ops"},
                   "list: unexpected argument \"ops\"; see `shardlab list --help`"},
        BadCommand{
            "UnknownKindOfEntry",
            {"describe", "modl", "alpha_beta"},
            "describe: what: found \"modl\" (did you mean \"model\"?); valid: stack, model, "
            "topology, "
            "op, placement, suite, regression, program, recipe, experiment, measurement, models, "
            "tuner"},
        BadCommand{"DescribeWithoutName",
                   {"describe", "stack"},
                   "describe stack: a name is required; valid: the names that `shardlab list "
                   "stacks` prints"},
        BadCommand{"UnknownModel",
                   {"describe", "model", "alpha_bta"},
                   "unknown model \"alpha_bta\" (did you mean \"alpha_beta\"?); valid: {models}"},
        BadCommand{"OpWithSeveralOverloadsToDescribe",
                   {"describe", "op", "add_"},
                   "op \"add_\" has several overloads; valid: aten.add_.Tensor, "
                   "aten.add_.Scalar"},
        BadCommand{
            "UnknownOpToDescribe",
            {"describe", "op", "aten.mm.defalt"},
            "unknown op \"aten.mm.defalt\" (did you mean \"aten.mm.default\"?); valid: the ops of "
            "`shardlab list ops`"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Ops, BadCommandLine,
    testing::Values(
        BadCommand{
            "UnknownOp", select_of("aten.add.Tensr", {"f32[8] R", "f32[8] R"}),
            "unknown op \"aten.add.Tensr\" (did you mean \"aten.add.Tensor\"?); valid: the ops of "
            "`shardlab list ops`"},
        BadCommand{"OpWithSeveralOverloads", select_of("aten::add", {"f32[8] R", "f32[8] R"}),
                   "op \"aten::add\" has several overloads; valid: aten.add.Tensor, "
                   "aten.add.Scalar"},
        BadCommand{"OpWithoutRuleInTheStack",
                   select_of("aten._foreach_add.List", {"[f32[8] R]", "[f32[8] R]"},
                             {"--stack", "legacy.json"}),
                   "aten._foreach_add.List: no sharding strategy registered in rule set "
                   "dtensor-legacy; valid: dtensor-2.15, dtensor-2.14, dtensor-2.13, shardlab, "
                   "autoparallel, autoparallel-2.15"},
        BadCommand{"WrongNumberOfTensors", select_of("mm", {"f32[8,8] R"}),
                   "aten.mm.default: takes 2 tensors, found 1"},
        BadCommand{"ShapesThatDoNotFit", select_of("mm", {"f32[8,8] R", "f32[9,8] R"}),
                   "aten.mm.default: shapes do not fit mk,kn->mn: found [8,8], [9,8]"},
        BadCommand{"ShapesThatDoNotBroadcast",
                   select_of("add.Tensor", {"f32[8,8] R", "f32[3,8] R"}),
                   "aten.add.Tensor: shapes do not broadcast: f32[8,8], f32[3,8]"},
        BadCommand{"BatchesThatDiffer", select_of("bmm", {"f32[2,8,8] R", "f32[3,8,8] R"}),
                   "aten.bmm.default: shapes do not fit bmk,bkn->bmn: found [2,8,8], [3,8,8]"},
        BadCommand{"BiasThatDoesNotBroadcast",
                   select_of("addmm", {"f32[3] R", "f32[8,8] R", "f32[8,8] R"}),
                   "aten.addmm.default: shapes do not broadcast: f32[3], f32[8,8]"},
        BadCommand{"InputWithoutLayout", select_of("mm", {"f32[8,8] R", "f32[8,8]"}),
                   "--inputs, text 2: tensor and layout \"f32[8,8]\": at position 8: expected a "
                   "layout of 1 "
                   "placement after the tensor, such as R"},
        BadCommand{"InputLayoutOfAnotherMesh", select_of("mm", {"f32[8,8] RR", "f32[8,8] R"}),
                   "--inputs, text 1: layout \"RR\": at position 1: expected 1 placement, one per "
                   "mesh dim"},
        BadCommand{"InputDimOutOfRange", select_of("mm", {"f32[8,8] R", "f32[8,8] S(2)"}),
                   "--inputs, text 2: layout \"S(2)\": at position 0: expected shards of tensor "
                   "dims 0 to 1, "
                   "found S(2)"},
        BadCommand{"NoInput",
                   {"select", "--op", "mm", "--mesh", "4", "--inputs"},
                   "select: --inputs: a value is missing: one text per tensor argument: \"f32[8,8] "
                   "S(0)R\", a list \"[f32[8] R; f32[8] R]\", or none"},
        BadCommand{"ListWithoutEnd", select_of("cat", {"[f32[8,8] R; f32[8,8] R"}),
                   "--inputs: tensor list \"[f32[8,8] R; f32[8,8] R\": at position 23: expected "
                   "\"]\" at the "
                   "end of a tensor list"},
        BadCommand{
            "EmptyList", select_of("cat", {"[]"}),
            "--inputs: tensor list \"[]\": at position 1: expected a tensor, such as [f32[8,8] R; "
            "f32[8,8] R]"},
        BadCommand{
            "TensorsInsteadOfAList", select_of("cat", {"f32[8,8] R", "f32[8,8] R"}),
            "aten.cat.default: takes one tensor list, such as \"[f32[8,8] R; f32[8,8] S(0)]\""},
        BadCommand{"ListsOfDifferentLengths",
                   select_of("_foreach_add.List", {"[f32[8] R; f32[8] R]", "[f32[8] R]"}),
                   "aten._foreach_add.List: found tensor lists of length 2 and 1; valid: lists of "
                   "one length"},
        BadCommand{"ListOfShapesThatDiffer",
                   select_of("cat", {"[f32[8,8] R; f32[8,7] R]"}, {"--args", "[0]"}),
                   "aten.cat.default: shapes differ outside dim 0: f32[8,8] and f32[8,7]"},
        BadCommand{"InPlaceOpThatWouldMove", select_of("relu_", {"f32[8] P(sum)"}),
                   "aten.relu_.default: in-place operations that require placement changes are not "
                   "supported "
                   "(input P(sum))"},
        BadCommand{
            "ArgsNotJson", with(kGoodMatmul, {"--args", "[1,"}),
            "--args:line 1, column 4: broken JSON: the text ends too early; valid: a complete JSON "
            "document"},
        BadCommand{"ArgsNotAnArray", with(kGoodMatmul, {"--args", "{}"}),
                   "--args: found an object; valid: a JSON array, such as [1,false]"},
        BadCommand{"ArgsWithNaN", with(kGoodMatmul, {"--args", "[NaN]"}),
                   "--args:line 1, column 2: broken JSON: found NaN; JSON has no NaN and no "
                   "Infinity; valid: a "
                   "finite number"},
        BadCommand{
            "ArgsOfAnotherType",
            select_of("sum.dim_IntList", {"f32[8,8] R"}, {"--args", R"(["x"])"}),
            "aten.sum.dim_IntList: argument 0 of --args: found \"x\"; valid: a list of integers, "
            "the dim "
            "of sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
            "dtype=None) -> Tensor"},
        BadCommand{"ArgsDimOutOfRange",
                   select_of("_softmax", {"f32[8,8] R"}, {"--args", "[2,false]"}),
                   "aten._softmax.default: dim 2 out of range; valid: -2 to 1"},
        BadCommand{
            "ArgsBeyondSixtyFourBits",
            select_of("_softmax", {"f32[8,8] R"}, {"--args", "[18446744073709551615,false]"}),
            "aten._softmax.default: argument 0 of --args: found 18446744073709551615; valid: an "
            "integer"},
        BadCommand{"EinsumEquationWithARepeatedLetter",
                   select_of("einsum", {"f32[8,8] R", "f32[8,8] R"},
                             {"--args", R"(["mm,k->mk"])", "--stack", "shardlab"}),
                   "aten.einsum.default: --args: einsum equation \"mm,k->mk\": at position 1: "
                   "expected distinct letters in one input"},
        BadCommand{"ArgsMissing", select_of("_softmax", {"f32[8,8] R"}),
                   "aten._softmax.default: --args must begin with the dim"},
        BadCommand{"UnknownSearch", with(kGoodMatmul, {"--search", "ful"}),
                   "select: --search: found \"ful\" (did you mean \"full\"?); valid: full, "
                   "dijkstra, exact"},
        BadCommand{
            "UnknownOrder", with(kGoodMatmul, {"--order", "sorted"}),
            "--order: order \"sorted\": at position 0: expected listed, reversed or shuffled:SEED"},
        BadCommand{"ShuffleWithoutSeed", with(kGoodMatmul, {"--order", "shuffled"}),
                   "--order: order \"shuffled\": at position 8: expected \":\" and a seed"},
        BadCommand{"ShuffleWithNegativeSeed", with(kGoodMatmul, {"--order", "shuffled:-1"}),
                   "--order: order \"shuffled:-1\": at position 9: expected a seed from 0 to "
                   "9223372036854775807"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    ArgumentsOfOps, BadCommandLine,
    testing::Values(
        BadCommand{"TopkWithoutItsNumber", select_of("topk", {"f32[4] R"}),
                   "aten.topk.default: argument 0 of --args is missing; valid: an integer"},
        BadCommand{"TopkOfTooMany", select_of("topk", {"f32[4] R"}, {"--args", "[9]"}),
                   "aten.topk.default: found a k of 9 for a dim of 4 elements; valid: 0 to 4"},
        BadCommand{"ViewAsNoShape", select_of("view", {"f32[4] R"}, {"--args", R"(["f32"])"}),
                   "aten.view.default: argument 0 of --args: found \"f32\"; valid: a list of "
                   "integers, the size of view(Tensor(a) self, SymInt[] size) -> Tensor(a)"},
        BadCommand{"ViewAsNoType", select_of("view.dtype", {"f32[4] R"}),
                   "aten.view.dtype: argument 0 of --args is missing; valid: {dtypes}"},
        BadCommand{"LayerNormOfNothing", select_of("native_layer_norm", {"f32[4,8] R"}),
                   "aten.native_layer_norm.default: argument 0 of --args: found none; valid: the "
                   "last dims of f32[4,8], which are normalized"},
        BadCommand{"LayerNormOfOtherDims",
                   select_of("native_layer_norm", {"f32[4,8] R"}, {"--args", "[[7],1e-5]"}),
                   "aten.native_layer_norm.default: argument 0 of --args: found [7]; valid: the "
                   "last dims of f32[4,8], which are normalized"},
        BadCommand{"IndicesThatAreNone", select_of("index.Tensor", {"f32[4,8] R", "[none; none]"}),
                   "aten.index.Tensor: found 2 indices, of which 0 are tensors; valid: at most one "
                   "index for each of 2 dims, and at least one tensor"},
        BadCommand{"OptimizerWithoutItsMoments", select_of("_fused_adam_", {"[f32[4] R]"}),
                   "aten._fused_adam_.default: takes 6 tensor lists (the fifth may be none), found "
                   "1 with 1 tensors"},
        BadCommand{"OptimizerWithoutSecondMoments",
                   select_of("_fused_adam_", {"[f32[4] R]", "[f32[4] R]", "[f32[4] R]", "none",
                                              "[f32[4] R]", "[f32[] R]"}),
                   "aten._fused_adam_.default: takes 6 tensor lists (the fifth may be none), found "
                   "6 with 5 tensors"},
        BadCommand{
            "MoreArgumentsThanTheOpTakes",
            {"simulate", "--op", "relu", "--mesh", "4", "--inputs", "f32[4] R", "--args",
             "[1,2,3]"},
            "aten.relu.default: argument 0 of --args: found 1; valid: no arguments beside the "
            "tensors of relu(Tensor self) -> Tensor"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Proofs, BadCommandLine,
    testing::Values(
        BadCommand{"UnknownRuleSet",
                   {"rules", "mm", "--rule-set", "shardlb"},
                   "--rule-set: found \"shardlb\" (did you mean \"shardlab\"?); valid: "
                   "dtensor, dtensor-2.15, dtensor-2.14, dtensor-2.13, dtensor-legacy, shardlab, "
                   "autoparallel, autoparallel-2.15, torch:PYTHON"},
        BadCommand{"UnknownOpToProve",
                   {"rules", "aten.mm.defalt"},
                   "unknown op \"aten.mm.defalt\" (did you mean \"aten.mm.default\"?); valid: the "
                   "ops of `shardlab list ops`"},
        BadCommand{"ProofOnOneRank",
                   {"rules", "mm", "--mesh", "1"},
                   "--mesh: found 1; valid: one mesh dim of 2 to 8 ranks"},
        BadCommand{"ProofOnTwoMeshDims",
                   {"rules", "mm", "--mesh", "2x2"},
                   "--mesh: found 2x2; valid: one mesh dim of 2 to 8 ranks"},
        BadCommand{"ProofWithoutSamples",
                   {"rules", "mm", "--samples", "0"},
                   "rules: --samples: found \"0\"; valid: an integer from 1 to 1000"},
        BadCommand{"NegativeNearness",
                   {"ties", "--suite", "ops-small", "--within", "-1"},
                   "ties: --within: found \"-1\"; valid: a number from 0 to 1e+06"},
        BadCommand{"TiesOfNoSuite",
                   {"ties", "--all", "--no-flips"},
                   "ties: --suite is required: shipped name or path; may be repeated"},
        BadCommand{
            "OpToDescribeMissing",
            {"describe", "op"},
            "describe op: a name is required; valid: the names that `shardlab list ops` prints"}),
    name_of);

Words simulate_of(const char* mesh, const char* tensor, const Words& more = {}) {
  return with({"simulate", "--mesh", mesh, "--tensor", tensor, "--from", "S(0)", "--to", "R"},
              more);
}

INSTANTIATE_TEST_SUITE_P(
    Simulations, BadCommandLine,
    testing::Values(
        BadCommand{"MemoryIsNoSize", simulate_of("2", "f32[8]", {"--memory", "8 gigs"}),
                   "--memory: size \"8 gigs\": at position 1: expected a unit: B, KiB, MiB, GiB, "
                   "TiB, kB, KB, MB, GB or TB"},
        BadCommand{"MemoryBeyondAnyMachine", simulate_of("2", "f32[8]", {"--memory", "1e30"}),
                   "--memory: size \"1e30\": at position 0: expected 0 to 2^53 bytes"},
        BadCommand{"DataBeyondTheMemory", simulate_of("2", "f32[1024,1024]", {"--memory", "1MiB"}),
                   "the data of the virtual ranks needs 4 MiB beside the 0 B in use; the limit is "
                   "1 MiB; valid: a larger limit, a smaller tensor or mesh, or shapes only",
                   3},
        BadCommand{
            "TooManyRanksForData", simulate_of("1048576", "f32[8]"),
            "found data for 1048576 ranks of mesh 1048576; valid: at most 65536 ranks (or shapes "
            "only: --data off)"},
        BadCommand{"NoDataOfThatType", simulate_of("2", "f8e4m3[8]"),
                   "dtype f8e4m3 holds no data here; valid: f64 f32 f16 bf16 i64 i32 i16 i8 u8 b8, "
                   "or shapes only"},
        BadCommand{
            "UnknownStraggler", simulate_of("2", "f32[8]", {"--straggler", "slow"}),
            "--straggler: straggler model \"slow\": at position 0: expected none, percent:P, "
            "host:H:FACTOR, link:H:FACTOR or jitter:SIGMA"},
        BadCommand{"StragglerOnNoHost", simulate_of("2", "f32[8]", {"--straggler", "host:1:2"}),
                   "straggler model host:1:2: mesh 2 has no host 1; valid: 0 to 0"},
        BadCommand{
            "ClocksBeyondTheMemory",
            simulate_of("1048576", "f32[8]",
                        {"--data", "off", "--straggler", "jitter:0.1", "--memory", "1MiB"}),
            "the run needs 108 MiB for the clocks of 1048576 ranks, since each has its own under "
            "jitter:0.1, and 3.1 KiB for 100 repetitions of 1 kernel; the limit is 1 MiB; valid: a "
            "higher limit, fewer ranks or repetitions, or the straggler model none or percent:P",
            3},
        BadCommand{"NoRepetitions", simulate_of("2", "f32[8]", {"--repetitions", "0"}),
                   "simulate: --repetitions: found \"0\"; valid: an integer from 1 to 1000000"},
        BadCommand{"UnknownReduction", simulate_of("2", "f32[8]", {"--reduction", "nvls"}),
                   "simulate: --reduction: found \"nvls\"; valid: ring, tree, flat"},
        BadCommand{"UnknownValues", simulate_of("2", "f32[8]", {"--values", "hole"}),
                   "simulate: --values: found \"hole\" (did you mean \"whole\"?); valid: whole, "
                   "uniform"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Overrides, BadCommandLine,
    testing::Values(
        BadCommand{"SetWithoutValue", with(kGoodPlan, {"--set", "devices_per_host"}),
                   "--set \"devices_per_host\": at position 0: expected PATH=VALUE, such as "
                   "devices_per_host=1 "
                   "or stack.collective_model.params.latency_us=3"},
        BadCommand{
            "SetWithoutPath", with(kGoodPlan, {"--set", "=1"}),
            "--set \"=1\": at position 0: expected PATH=VALUE, such as devices_per_host=1 or "
            "stack.collective_model.params.latency_us=3"},
        BadCommand{"SetWithEmptyKey", with(kGoodPlan, {"--set", "stack..planner=graph"}),
                   "--set \"stack..planner=graph\": at position 0: expected PATH=VALUE, such as "
                   "devices_per_host=1 or stack.collective_model.params.latency_us=3"},
        BadCommand{"SetUnknownKey", with(kGoodPlan, {"--set", "devices_per_hst=1"}),
                   "--set devices_per_hst=1: {configs}/topologies/h100.json:/devices_per_hst: "
                   "unknown key (did "
                   "you mean \"devices_per_host\"?); valid: schema, name, title, source, "
                   "devices_per_host, "
                   "domain_devices, nics_per_host, links, device"},
        BadCommand{
            "SetOutOfRange", with(kGoodPlan, {"--set", "devices_per_host=0"}),
            "--set devices_per_host=0: {configs}/topologies/h100.json:/devices_per_host: found 0; "
            "valid: an integer from 1 to 1099511627776"},
        BadCommand{"SetPcieThatReduces",
                   with(kGoodPlan,
                        {"--set", "links.nvlink.kind=pcie", "--set", "links.nvlink.reduces=true"}),
                   "--set links.nvlink.kind=pcie --set links.nvlink.reduces=true: "
                   "{configs}/topologies/h100.json:/links/0/reduces: found true on a level of kind "
                   "\"pcie\"; valid: true on a network, and on an nvswitch from compute "
                   "capability 90 on"},
        BadCommand{"SetNaN", with(kGoodPlan, {"--set", "links.nvlink.latency_us=nan"}),
                   "--set links.nvlink.latency_us=nan: "
                   "{configs}/topologies/h100.json:/links/0/latency_us: "
                   "found \"nan\"; valid: a number"},
        BadCommand{"SetHugeNumber", with(kGoodPlan, {"--set", "links.nvlink.latency_us=1e999"}),
                   "--set links.nvlink.latency_us=1e999: "
                   "{configs}/topologies/h100.json:/links/0/latency_us: "
                   "found \"1e999\"; valid: a number"},
        BadCommand{"SetUnknownElement", with(kGoodPlan, {"--set", "links.nvlnk.latency_us=1"}),
                   "--set links.nvlnk.latency_us=1: no element \"nvlnk\" there (did you mean "
                   "\"nvlink\"?); "
                   "valid: nvlink, network"},
        BadCommand{"SetInsideANumber", with(kGoodPlan, {"--set", "stack.transition_us.x=1"}),
                   "--set stack.transition_us.x=1: found 0.0 before \"x\"; valid: an object"},
        BadCommand{"SetUnknownWord", with(kGoodPlan, {"--set", "stack.planner=graf"}),
                   "--set stack.planner=graf: {configs}/stacks/dtensor-2.15.json:/planner: found "
                   "\"graf\" (did "
                   "you mean \"graph\"?); valid: greedy, graph"},
        BadCommand{
            "SetUnknownParameter",
            with(kGoodPlan, {"--set", "stack.collective_model.params.latencyus=3"}),
            "--set stack.collective_model.params.latencyus=3: "
            "{configs}/stacks/dtensor-2.15.json:/collective_model/params/latencyus: unknown "
            "parameter; "
            "valid: base_latency_us, intra_host_hop_us, inter_host_hop_us, bandwidth_gb_per_s, "
            "inter_host_factor"},
        BadCommand{"SetExperiment", with(kGoodPlan, {"--set", "experiment.seed=1"}),
                   "--set experiment.seed=1: this command reads no experiment; valid: a path of "
                   "the topology or of the stack"},
        BadCommand{"SetForRules",
                   {"rules", "mm", "--set", "stack.bogus=1"},
                   "rules: --set: rules reads no configuration; valid: without --set"},
        BadCommand{"SetForRulesWithoutForm",
                   {"rules", "mm", "--set", "nonsense"},
                   "rules: --set: rules reads no configuration; valid: without --set"},
        BadCommand{"SetForANetwork",
                   {"solve", "--problem", "gone.cfn", "--set", "foo=1"},
                   "--set foo=1: solve --problem reads no configuration; valid: without --set"},
        BadCommand{"TopologyForANetwork",
                   {"solve", "--problem", "gone.cfn", "--topology", "a100"},
                   "solve: --topology is for a PROGRAM, not for --problem; valid: without it"},
        BadCommand{"SetStackForCalibrate",
                   {"calibrate", "h100_1x8_all_reduce_dgxc", "--set", "stack.transition_us=3"},
                   "--set stack.transition_us=3: this command reads no stack; valid: a path of the "
                   "topology"},
        BadCommand{"SetExperimentForCalibrate",
                   {"calibrate", "h100_1x8_all_reduce_dgxc", "--set", "experiment.seed=1"},
                   "--set experiment.seed=1: this command reads no experiment; valid: a path of "
                   "the topology"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Suites, BadCommandLine,
    testing::Values(
        BadCommand{"WithinNaN",
                   {"ties", "--suite", "ops-small", "--within", "nan"},
                   "ties: --within: found \"nan\"; valid: a number from 0 to 1e+06"},
        BadCommand{"WithinNegative",
                   {"ties", "--suite", "ops-small", "--within", "-1"},
                   "ties: --within: found \"-1\"; valid: a number from 0 to 1e+06"},
        BadCommand{"WithinInfinity",
                   {"ties", "--suite", "ops-small", "--within", "inf"},
                   "ties: --within: found \"inf\"; valid: a number from 0 to 1e+06"},
        BadCommand{"SuiteTwice",
                   {"ties", "--suite", "ops-small", "--suite", "ops-small"},
                   "--suite: suite \"ops-small\" is named twice"},
        BadCommand{
            "CompareWithoutCandidate",
            {"compare", "--baseline", "dtensor-v3", "--suite", "ops-small"},
            "compare: a --candidate is required, or a change such as --set stack.transition_us=1"},
        BadCommand{"CompareWithItself", with(kComparison, {"dtensor-v3"}),
                   "compare: stack \"dtensor-v3\" is named twice; valid: stacks of different names "
                   "(to compare a stack with itself, copy its file under another name)"},
        BadCommand{"CompareOneSuiteTwice",
                   with(kComparison, {"dtensor-v4", "--suite", "ops-small"}),
                   "--suite: suite \"ops-small\" is named twice"},
        BadCommand{"OutWithoutName", with(kComparison, {"dtensor-v4", "--out", ""}),
                   "compare: --out: found \"\"; valid: a text that is not empty"},
        BadCommand{"UnknownCase",
                   {"regress", "R99"},
                   "unknown case \"R99\" (did you mean \"R09\"?); valid: the number of a thread, "
                   "or {cases}"}),
    name_of);

}  // namespace bad_command_line_test
}  // namespace shardlab::testing_support
