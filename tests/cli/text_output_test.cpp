// How text is written: the digits of figures, colours, and tables where stdout is no terminal.
// tests/scripts/terminal_test.py runs the program on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <regex>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace text_output_test {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

const Words kPlan = {"plan",   "--mesh", "2x4",  "--tensor", "bf16[8192,4096]",
                     "--from", "S(0)R",  "--to", "RS(1)"};
const Words kSolve = {"solve",  "mlp", "--mesh",   "2x4",        "--margins",
                      "--best", "3",   "--greedy", "--no-timing"};

ProcessResult run_with(Words words, const Words& more, Variables variables = {}) {
  words.insert(words.begin(), SHARDLAB_BINARY);
  words.insert(words.end(), more.begin(), more.end());
  variables.emplace_back("SHARDLAB_CONFIGS", "");
  return run_process(words, {.folder = {}, .environment = variables});
}

std::string output_of(const Words& words, const Words& more = {}, const Variables& variables = {}) {
  const ProcessResult result = run_with(words, more, variables);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

// The decimal numbers in a text, those of names, shapes and sizes included.
std::vector<std::string> numbers_of(const std::string& text) {
  static const std::regex kNumber(R"((\d+\.\d+(e[+-]\d+)?|\d+e[+-]\d+))");
  std::vector<std::string> numbers;
  for (std::sregex_iterator it(text.begin(), text.end(), kNumber), end; it != end; ++it) {
    numbers.push_back(it->str());
  }
  return numbers;
}

std::size_t significant_digits(const std::string& number) {
  std::string digits;
  for (const char c : number.substr(0, number.find('e'))) {
    if (c >= '0' && c <= '9') digits += c;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits.size();
}

double value_of(const std::string& number) {
  double value = 0.0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return value;
}

TEST(DigitsOption, FiguresHaveFiveDigitsUnlessMoreAreAskedFor) {
  const double price = json::parse(output_of(kPlan, {"--format", "json"}))["price_us"];
  EXPECT_THAT(output_of(kPlan), HasSubstr("  price 96.282 us\n"));
  EXPECT_THAT(output_of(kPlan, {"--digits", "2"}), HasSubstr("  price 96 us\n"));
  EXPECT_THAT(output_of(kPlan, {"--digits", "full"}),
              HasSubstr("  price " + format_double(price) + " us\n"));
}

TEST(DigitsOption, NoFigureOfACommandHasMoreDigits) {
  const std::vector<Words> commands = {
      kPlan,
      kSolve,
      {"solve", "mlp", "--mesh", "2x4", "--sensitivity", "--budget-curve", "4", "--explain", "RR",
       "--no-timing"},
      {"select", "--op", "aten.mm.default", "--mesh", "8", "--inputs", "bf16[8192,8192] S(0)",
       "bf16[8192,8192] S(0)", "--stack", "alpha-beta"},
      {"simulate", "mlp", "--mesh", "2x4", "--stack", "alpha-beta", "--data", "off", "--straggler",
       "jitter:0.2", "--no-timing"},
      {"ties", "--suite", "ops-small", "--stack", "alpha-beta", "--within", "10"},
      {"step", "llama3-8b", "--topology", "h100", "--mesh", "fsdp=8", "--seq", "8192",
       "--micro-batch", "1"},
      {"validate", "h100_1x8_all_reduce_dgxc", "--stack", "alpha-beta", "--rows"},
      {"calibrate", "h100_1x8_all_reduce_dgxc", "--model", "alpha_beta"},
  };
  for (const Words& command : commands) {
    const std::vector<std::string> numbers = numbers_of(output_of(command));
    EXPECT_GT(numbers.size(), 3U) << join(command, " ");
    for (const std::string& number : numbers) {
      EXPECT_LE(significant_digits(number), 5U) << join(command, " ");
    }
  }
}

TEST(DigitsOption, AllDigitsAreThoseOfJson) {
  const json solved = json::parse(output_of(kSolve, {"--format", "json"}));
  const std::string text = output_of(kSolve, {"--digits", "full"});
  EXPECT_THAT(text, HasSubstr("objective " + format_double(solved["objective_us"]) + " us"));
  for (const json& node : solved["assignment"]) {
    EXPECT_THAT(text, HasSubstr(format_double(node["compute_us"])));
    if (!node["margin_us"].is_null()) {
      EXPECT_THAT(text, HasSubstr(format_double(node["margin_us"])));
    }
  }
  EXPECT_THAT(text, HasSubstr("number 2: " + format_double(solved["best"][1]["objective_us"])));
}

TEST(DigitsOption, ChangesNeitherJsonNorReports) {
  for (const Words& command : {kPlan, kSolve}) {
    EXPECT_EQ(output_of(command, {"--format", "json", "--digits", "2"}),
              output_of(command, {"--format", "json"}));
  }
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "report").string();
  output_of(kSolve, {"--out", out});
  const std::string report = read_text(folder.path() / "report" / "report.json");
  output_of(kSolve, {"--out", out, "--digits", "full"});
  EXPECT_EQ(json::parse(read_text(folder.path() / "report" / "report.json"))["result"],
            json::parse(report)["result"]);
}

TEST(DigitsOption, IsAWholeNumberFromOneTo17OrFull) {
  for (const char* bad : {"0", "18", "-1", "5.0", "all", "1e1"}) {
    const ProcessResult result = run_with(kPlan, {"--digits", bad});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, "shardlab: plan: --digits: found \"" + std::string(bad) +
                              "\"; valid: a whole number from 1 to 17, or full\n");
  }
  const ProcessResult regress = run_with({"regress", "R01"}, {"--digits", "5"});
  EXPECT_EQ(regress.exit_code, 2);
  EXPECT_THAT(regress.err,
              HasSubstr("--digits: regress has no figures whose digits can be chosen"));
}

TEST(DigitsOption, ARegressionKeepsEveryDigit) {
  EXPECT_THAT(output_of({"regress", "R01"}), HasSubstr("14.402038927415347 us"));
}

// One digit would show most prices of this table as the same, although the command says that one of
// them is the least.
TEST(ComparedChoices, LookDifferentWhereTheirPricesDiffer) {
  const Words words = {"select",  "--op",      "aten.mm.default",  "--mesh",
                       "8",       "--inputs",  "f32[1024,1024] R", "f32[1024,1024] R",
                       "--stack", "alpha-beta"};
  const json selection = json::parse(output_of(words, {"--format", "json"}));
  std::map<std::string, std::set<double>> totals;
  const std::string text = output_of(words, {"--digits", "1"});
  std::istringstream lines(text);
  const auto columns = [](const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> cells;
    for (std::string word; in >> word;) cells.push_back(word);
    return cells;
  };
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells = columns(line);
    if (!cells.empty() && (cells[0] == "chosen" || cells[0] == "tie")) cells.erase(cells.begin());
    std::size_t index = 0;
    if (cells.size() < 5 ||
        std::from_chars(cells[0].data(), cells[0].data() + cells[0].size(), index).ec !=
            std::errc()) {
      continue;
    }
    // index, outputs, two inputs, total
    totals[cells.at(4)].insert(selection["candidates"][index]["total_us"].get<double>());
    ++rows;
  }
  EXPECT_GT(rows, 3);
  for (const auto& [figure, values] : totals) EXPECT_EQ(values.size(), 1U) << figure;
}

TEST(Tables, FiguresOfAColumnShareTheirDecimalPoint) {
  std::istringstream lines(output_of(kSolve));
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("  node ")) {
  }
  const std::size_t end = line.find("kernel us") + std::string("kernel us").size();
  std::set<std::size_t> points;
  int figures = 0;
  while (std::getline(lines, line) && !line.starts_with("  optima")) {
    const std::string row = line.substr(0, line.find_last_not_of(' ', end - 1) + 1);
    const std::size_t point = row.find('.', row.find_last_of(' ') + 1);
    if (point == std::string::npos) continue;
    points.insert(point);
    ++figures;
  }
  EXPECT_GE(figures, 3);
  EXPECT_EQ(points.size(), 1U);
}

TEST(Tables, AreNotCutInAPipeWhateverTheTerminalIs) {
  const Words list = {"list", "stacks"};
  EXPECT_EQ(output_of(list, {}, {{"COLUMNS", "30"}}), output_of(list));
  EXPECT_EQ(output_of(kSolve, {}, {{"COLUMNS", "30"}}), output_of(kSolve));
}

// -- Colours ------------------------------------------------------------------------------------

const Words kSelect = {"select", "--op",     "aten.mm.default", "--mesh",
                       "2",      "--inputs", "f32[16,16] S(0)", "f32[16,16] R"};

std::string without_colours(const std::string& text) {
  return std::regex_replace(text, std::regex("\033\\[[0-9]*m"), "");
}

TEST(ColorOption, APipeHasColoursOnlyIfTheyAreAskedFor) {
  const std::string plain = output_of(kSelect);
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_EQ(output_of(kSelect, {"--color", "auto"}), plain);
  EXPECT_EQ(output_of(kSelect, {"--color", "never"}), plain);
  const std::string coloured = output_of(kSelect, {"--color", "always"});
  EXPECT_THAT(coloured, HasSubstr("\033[32mchosen\033[0m"));
  EXPECT_THAT(coloured, HasSubstr("\033[1minputs\033[0m"));
  EXPECT_EQ(without_colours(coloured), plain) << "a colour says nothing that words do not say";
}

TEST(ColorOption, WhatIsAskedForCountsMoreThanTheEnvironment) {
  EXPECT_THAT(output_of(kSelect, {"--color", "always"}, {{"NO_COLOR", "1"}}),
              HasSubstr("\033[32m"));
  EXPECT_THAT(output_of(kSelect, {"--color", "always"}, {{"TERM", "dumb"}}), HasSubstr("\033[32m"));
}

TEST(ColorOption, EveryCommandReadsItAndJsonHasNone) {
  EXPECT_EQ(output_of(kPlan, {"--format", "json", "--color", "always"}),
            output_of(kPlan, {"--format", "json"}));
  for (const Words& command : std::vector<Words>{{"list", "stacks"},
                                                 {"describe", "stack", "alpha-beta"},
                                                 {"regress", "R01"},
                                                 {"rules", "aten.mm.default"},
                                                 kSolve}) {
    EXPECT_EQ(without_colours(output_of(command, {"--color", "always"})), output_of(command));
  }
  EXPECT_THAT(output_of({"regress", "R01"}, {"--color", "always"}),
              HasSubstr("\033[32mpass\033[0m"));
}

TEST(ColorOption, LessTimeIsGreenAndMoreTimeIsRed) {
  const Words compare = {"compare",     "--baseline",        "dtensor-v3",
                         "--candidate", "dtensor-v-compute", "--candidate",
                         "dtensor-v4",  "--suite",           "ops-small"};
  const std::string plain = output_of(compare);
  const std::string coloured = output_of(compare, {"--color", "always"});
  EXPECT_EQ(without_colours(coloured), plain);
  // The change of the suite's time under the first candidate, and under the second.
  EXPECT_THAT(coloured,
              testing::ContainsRegex("dtensor-v-compute +time .*\033\\[32m-[0-9.]+ %\033"));
  EXPECT_THAT(coloured, testing::ContainsRegex("dtensor-v4 +time .*\033\\[31m\\+[0-9.]+ %\033"));
  EXPECT_THAT(coloured, testing::ContainsRegex("\033\\[32m-[0-9.]+ us\033"));
}

TEST(ColorOption, AnErrorIsRedWhereItsFirstWordIs) {
  const ProcessResult plain = run_with({"describe", "stack", "none-such"}, {});
  EXPECT_THAT(plain.err, StartsWith("shardlab: unknown stack \"none-such\""));
  const ProcessResult coloured =
      run_with({"describe", "stack", "none-such"}, {"--color", "always"});
  EXPECT_EQ(coloured.exit_code, plain.exit_code);
  EXPECT_EQ(coloured.err, "\033[31mshardlab:\033[0m" + plain.err.substr(9));
}

TEST(ColorOption, NamesFromFilesCannotColourThemselves) {
  const TemporaryFolder folder;
  json program = json::parse(output_of({"describe", "program", "mlp"}));
  program["name"] = "\033[31mred";
  const std::string file = folder.write("red.json", program.dump()).string();
  const std::string text =
      output_of({"solve", file, "--mesh", "2", "--no-timing"}, {"--color", "always"});
  EXPECT_THAT(text, StartsWith("\\x1b[31mred: "));
  EXPECT_THAT(text, Not(HasSubstr("\033[31m")));
}

}  // namespace text_output_test
}  // namespace shardlab::testing_support
