// shardlab solve-network: keys, exit codes, messages word for word.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_network_test {

using nlohmann::json;

constexpr const char* kProblem = R"({"problem":{"name":"pair","mustbe":"<100.50"},
"variables":{"x":["a","b"],"y":3},
"functions":{"fx":{"scope":["x"],"costs":[1.5,2.25]},
"f":{"scope":[x,y],"defaultcost":3.0,"costs":[a,0,0.5,"b",2,100.5]},
"g":{"scope":[],"costs":[1.0]},
"h":{"scope":["y"],"costs":[0,-1.5,0]}}})";

ProcessResult solve(const std::string& text, std::vector<std::string> more = {}) {
  const TemporaryFolder folder;
  folder.write("p.cfn", text);
  std::vector<std::string> words = {"solve-network", "p.cfn"};
  words.insert(words.end(), more.begin(), more.end());
  return run_shardlab(words, folder.path());
}

std::string error_of(const std::string& text) {
  const ProcessResult result = solve(text);
  EXPECT_EQ(result.exit_code, 3) << result.out;
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(SolveNetworkCommand, HasTheKeysOfItsContract) {
  const ProcessResult result =
      solve(kProblem, {"--margins", "--best", "3", "--format", "json", "--no-timing"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["nodes"], 2);
  EXPECT_EQ(found["strategies"], 5);
  EXPECT_EQ(found["objective_us"], 3.0);  // 1 + 1.5 + 0.5
  EXPECT_EQ(found["lower_bound_us"], 3.0);
  EXPECT_EQ(found["optimal"], true);
  EXPECT_EQ(found["optima"], 1.0);
  EXPECT_EQ(found["infeasible"], nullptr);
  EXPECT_EQ(found["assignment"],
            json::parse(R"([{"node":"x","layout_out":"a","cost_us":1.5,"margin_us":1.75},
                            {"node":"y","layout_out":"0","cost_us":0.0,"margin_us":1.0}])"));
  ASSERT_EQ(found["best"].size(), 3U);
  EXPECT_EQ(found["best"][1]["objective_us"], 4.0);
  EXPECT_EQ(found["best"][1]["assignment"], (json{{"x", "a"}, {"y", "1"}}));
  EXPECT_EQ(found["best"][2]["objective_us"], 4.75);
  EXPECT_FALSE(found.contains("timing"));
}

TEST(SolveNetworkCommand, ItsTextSaysTheSame) {
  const ProcessResult result = solve(kProblem, {"--no-timing", "--best", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            "pair: 2 variables, 1 edges\n"
            "  objective 3 us, lower bound 3 us, optimal\n"
            "  variable  value  cost us\n"
            "  x         a          1.5\n"
            "  y         0          0\n"
            "  number 2: 4 us, y 1\n");
}

TEST(SolveNetworkCommand, SolveWithAProblemPrintsTheSame) {
  const TemporaryFolder folder;
  folder.write("p.cfn", kProblem);
  const auto out_of = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--margins", "--best", "3", "--no-timing"});
    return run_shardlab(words, folder.path()).out;
  };
  EXPECT_EQ(out_of({"solve", "--problem", "p.cfn"}), out_of({"solve-network", "p.cfn"}));
  EXPECT_EQ(out_of({"solve", "--problem", "p.cfn", "--format", "json"}),
            out_of({"solve-network", "p.cfn", "--format", "json"}));
}

TEST(SolveNetworkCommand, HasNoneOfTheOptionsOfPrograms) {
  const TemporaryFolder folder;
  folder.write("p.cfn", kProblem);
  const ProcessResult result =
      run_shardlab({"solve-network", "p.cfn", "--mesh", "8"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "shardlab: solve-network: unknown option \"--mesh\" (did you mean \"--best\"?); valid: "
            "--help, --margins, --best, "
            "--format, --jobs, --digits, --max-input, --color, --quiet, --no-timing\n");
}

TEST(SolveNetworkCommand, ReadsNoConfiguration) {
  const ProcessResult result = run_shardlab({"solve-network", "gone.cfn", "--set", "foo=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "shardlab: solve-network: --set: solve-network reads no configuration; valid: without "
            "--set\n");
}

TEST(SolveNetworkCommand, AnInfeasibleNetworkIsAnAnswerWithItsConflict) {
  const ProcessResult result = solve(
      R"({"problem":{"name":"p","mustbe":"<10"},"variables":{"x":2,"y":2,"z":2},"functions":{
          "same":{"scope":["x","y"],"costs":[0,10,10,0]},"x0":{"scope":["x"],"costs":[0,10]},
          "y1":{"scope":["y"],"costs":[10,0]},"z":{"scope":["y","z"],"costs":[0,1,2,3]}}})",
      {"--format", "json", "--no-timing"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["objective_us"], nullptr);
  EXPECT_EQ(found["optimal"], false);
  EXPECT_EQ(found["infeasible"],
            "no assignment satisfies all of: forbidden values of \"x\"; forbidden values of \"y\"; "
            "forbidden "
            "pairs of \"x\" and \"y\"");
  EXPECT_EQ(found["conflict"].size(), 3U);
}

TEST(SolveNetworkCommand, CostsBelowTheLimitOrNothing) {
  const ProcessResult result = solve(
      R"({"problem":{"name":"p","mustbe":"<5"},"variables":{"x":2},"functions":{
          "f":{"scope":["x"],"costs":[3,4]},"c":{"scope":[],"costs":[1]},
          "d":{"scope":["x"],"costs":[4,2]}}})");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("infeasible: "), std::string::npos) << result.out;
}

// Beyond 1e15, sums of costs would no longer be exact, and such a cost is not a forbidden one
// either.
TEST(SolveNetworkCommand, RefusesCostsThatAreTooLargeButNotForbidden) {
  const std::string problem = R"({"problem":{"name":"p","mustbe":"<1e17"},"variables":{"x":2,"y":2},
      "functions":{"f":{"scope":["x","y"],"costs":[4e16,3e16,2e16,1e16]}}})";
  EXPECT_EQ(error_of(problem),
            "shardlab: p.cfn:/functions/f/costs/0: found 4e+16; valid: a cost of at most 1e+15, or "
            "one that mustbe forbids because it reaches the limit\n");
  EXPECT_NE(error_of(replaced(problem, ",\"mustbe\":\"<1e17\"", "")), "");
  const ProcessResult forbidden = solve(replaced(replaced(problem, "<1e17", "<1e16"), "2e16", "7"),
                                        {"--format", "json", "--no-timing"});
  EXPECT_EQ(forbidden.exit_code, 0) << forbidden.err;
  EXPECT_EQ(json::parse(forbidden.out)["objective_us"], 7.0);
}

// A value with which no assignment costs less than the limit is no other value.
TEST(SolveNetworkCommand, MarginsKeepToTheLimit) {
  const std::string problem = R"({"problem":{"name":"p","mustbe":"<5.0"},
      "variables":{"x":["a","b"],"y":["a","b"]},"functions":{
          "f":{"scope":["x"],"costs":[0.0,3.0]},
          "h":{"scope":["x","y"],"costs":[0.0,0.0,3.0,3.0]}}})";
  const auto margins = [&](const std::string& text) {
    const json found =
        json::parse(solve(text, {"--margins", "--format", "json", "--no-timing"}).out);
    return json{found["assignment"][0]["margin_us"], found["assignment"][1]["margin_us"]};
  };
  EXPECT_EQ(margins(problem), (json{nullptr, 0.0}));
  EXPECT_EQ(margins(replaced(problem, "<5.0", "<6.0")), (json{nullptr, 0.0}));
  EXPECT_EQ(margins(replaced(problem, "<5.0", "<6.1")), (json{6.0, 0.0}));
  const ProcessResult text = solve(problem, {"--margins", "--no-timing"});
  EXPECT_NE(text.out.find("  x         a            0  no other value\n"), std::string::npos)
      << text.out;
}

// toulbar2 takes functions without names.
TEST(SolveNetworkCommand, FunctionsMayBeAnArray) {
  const std::string problem = R"({"problem":{"name":"p"},"variables":{"x":["a","b"]},
      "functions":[{"scope":["x"],"costs":[2.0,0.5]},{"scope":[],"costs":[1.0]}]})";
  const ProcessResult result = solve(problem, {"--format", "json", "--no-timing"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["objective_us"], 1.5);
  EXPECT_EQ(error_of(replaced(problem, R"("scope":[],"costs":[1.0])", R"("scope":["z"])")),
            "shardlab: p.cfn:/functions/1/scope/0: found \"z\"; valid: the name of a variable\n");
}

TEST(SolveNetworkCommand, MessagesNameThePlaceAndWhatIsValid) {
  const auto with = [](const std::string& from, const std::string& to) {
    return error_of(replaced(kProblem, from, to));
  };
  EXPECT_EQ(with("\"<100.50\"", "\">100.50\""),
            "shardlab: p.cfn:/problem/mustbe: found \">100.50\", but maximisation is not "
            "supported; valid: "
            "\"<\" and a cost\n");
  EXPECT_EQ(with("\"scope\":[x,y]", "\"scope\":[x,z]"),
            "shardlab: p.cfn:/functions/f/scope/1: found \"z\"; valid: the name of a variable\n");
  EXPECT_EQ(with("\"scope\":[x,y]", "\"scope\":[x,x]"),
            "shardlab: p.cfn:/functions/f/scope: found the variable \"x\" twice; valid: two "
            "different variables\n");
  EXPECT_EQ(with("\"scope\":[x,y]", "\"scope\":[x,y,x]"),
            "shardlab: p.cfn:/functions/f/scope: a function of 3 variables is not supported; "
            "valid: at most 2\n");
  EXPECT_EQ(with("\"b\",2,100.5", "\"c\",2,100.5"),
            "shardlab: p.cfn:/functions/f/costs/3: found \"c\", which is not a value of \"x\"; "
            "valid: a, b\n");
  EXPECT_EQ(with("[1.5,2.25]", "[1.5]"),
            "shardlab: p.cfn:/functions/fx/costs: found 1 costs; valid: 2\n");
  EXPECT_EQ(with("\"scope\":[x,y],", "\"scope\":[x,y],\"type\":\"salldiff\","),
            "shardlab: p.cfn:/functions/f: global functions are not supported; valid: scope, "
            "costs, defaultcost\n");
  EXPECT_EQ(with("\"y\":3", "\"y\":0"),
            "shardlab: p.cfn:/variables/y: found 0; valid: an integer from 1 to 65536\n");
}

}  // namespace solve_network_test
}  // namespace shardlab::testing_support
