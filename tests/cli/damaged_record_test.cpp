// Every value of a record, whatever its kind, may be damaged: it is then either refused when the
// record is read, with the file and the place, or shown. It never breaks a contract of the report.
#include <gtest/gtest.h>

#include <set>

#include "costmodel/base/error.h"
#include "reports/run_record.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace damaged_record_test {

using nlohmann::json;
using Words = std::vector<std::string>;

struct Run {
  const char* name;
  Words words;
};
void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

class DamagedRecords : public testing::TestWithParam<Run> {};

// One leaf for each place of a record; the elements of an array count as one place, and the first
// of them stands for all.
void collect_leaves(const json& value, const json::json_pointer& at, const std::string& place,
                    std::set<std::string>& places, std::vector<json::json_pointer>& leaves) {
  if (value.is_structured()) {
    for (const auto& [key, element] : value.items()) {
      collect_leaves(element, value.is_array() ? at / std::stoul(key) : at / key,
                     place + "/" + (value.is_array() ? "*" : key), places, leaves);
    }
  } else if (places.insert(place + (value.is_string() ? "" : " number")).second) {
    leaves.push_back(at);
  }
}

std::vector<json::json_pointer> leaves_of(const json& record) {
  std::set<std::string> places;
  std::vector<json::json_pointer> leaves;
  collect_leaves(record, json::json_pointer(), "", places, leaves);
  return leaves;
}

// Keeps a few elements of the long arrays, so that thousands of reports take seconds.
json shortened(json record) {
  constexpr std::size_t kMost = 6;
  const auto cut = [](json& array) {
    if (array.size() > kMost) array.erase(array.begin() + kMost, array.end());
  };
  if (record.contains("questions")) cut(record["questions"]);
  if (record.contains("curves")) cut(record["curves"]);
  const json::json_pointer stacks("/configuration/stacks");
  const json::json_pointer rows("/collective_model/rows");
  if (record.contains(stacks)) {
    for (json& stack : record[stacks]) {
      if (stack.contains(rows)) cut(stack[rows]);
    }
  }
  if (record.contains("result")) {
    for (const char* key : {"items", "rows"}) {
      if (record["result"].contains(key)) cut(record["result"][key]);
    }
    // The errors by file, GPU and so on: an object whose values are alike.
    if (record["result"].contains("by")) {
      for (json& groups : record["result"]["by"])
        groups.erase(std::next(groups.begin()), groups.end());
    }
  }
  return record;
}

// What `report` does with a record. Returns what the record is refused for, or nothing.
std::string report(const json& record) {
  try {
    const reports::RunRecord read = reports::parse_run_record(record.dump(), "record.json");
    (void)reports::write_report(read);
    (void)reports::summary_markdown(read);
    (void)reports::run_record_text(read);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_P(DamagedRecords, AreRefusedOrShown) {
  const TemporaryFolder folder;
  Words words = GetParam().words;
  words.insert(words.end(), {"--quiet", "--out", "run"});
  const ProcessResult run = run_shardlab(words, folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json record = shortened(json::parse(read_text(folder.path() / "run/record.json")));
  ASSERT_EQ(report(record), "");

  constexpr std::int64_t kLargestExact = std::int64_t{1} << 53;  // beyond it, double skips integers
  const std::vector<json> numbers = {-1, 1e308,       -1e308,        1e-308,    nullptr,   -1e-308,
                                     0,  100'000'000, kLargestExact, INT64_MAX, UINT64_MAX};
  const std::vector<json> texts = {"", nullptr, "\x1b[2J\n|`]("};
  std::size_t refused = 0;
  for (const json::json_pointer& leaf : leaves_of(record)) {
    for (const json& value : record[leaf].is_string() ? texts : numbers) {
      json damaged = record;
      damaged[leaf] = value;
      try {
        const std::string message = report(damaged);
        if (!message.empty()) ++refused;
        EXPECT_TRUE(message.empty() || message.starts_with("record.json:")) << message;
      } catch (const std::exception& error) {
        ADD_FAILURE() << leaf.to_string() << " = " << value << ": " << error.what();
      }
    }
  }
  EXPECT_GT(refused, 20U);
}

INSTANTIATE_TEST_SUITE_P(
    Commands, DamagedRecords,
    testing::Values(
        Run{"Compare",
            {"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
             "ops-small", "--program", "mlp", "--mesh", "4"}},
        Run{"Ties", {"ties", "--suite", "ops-small", "--stack", "dtensor-v3"}},
        Run{"Validate", {"validate", "--stack", "alpha-beta"}},
        Run{"Simulate",
            {"simulate", "--mesh", "2x4", "--tensor", "f32[16,8]", "--from", "S(0)P", "--to",
             "RS(1)"}},
        Run{"SimulateOp",
            {"simulate", "--mesh", "4", "--op", "aten.mm.default", "--inputs", "f32[8,8] S(1)",
             "f32[8,8] R"}},
        Run{"SimulateProgram", {"simulate", "mlp", "--mesh", "4"}},
        Run{"Plan",
            {"plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from", "S(0)S(0)", "--to",
             "RS(0)", "--stack", "dtensor-v3g", "--against", "dtensor-v3"}},
        Run{"PlanOfPartials",
            {"plan", "--mesh", "2x4", "--tensor", "bf16[8192,4096]", "--from", "PP", "--to",
             "RS(0)", "--stack", "dtensor-v3"}},
        Run{"Solve", {"solve", "mlp", "--mesh", "4"}},
        Run{"SolveAnswers",
            {"solve", "mlp", "--mesh", "4", "--budget-curve", "4", "--greedy", "--sensitivity"}},
        Run{"SolveRecipes", {"solve", "mlp", "--mesh", "4", "--compare-recipes"}},
        Run{"Step", {"step", "llama3-8b", "--mesh", "fsdp=8", "--layers", "2"}}),
    [](const testing::TestParamInfo<Run>& test) { return std::string(test.param.name); });

}  // namespace damaged_record_test
}  // namespace shardlab::testing_support
