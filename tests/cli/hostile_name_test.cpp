// Names are data. Stacks, topologies, suites, questions, cases, experiments and programs whose
// names hold codes for a terminal, line breaks, letters that turn the text around, and links: each
// command shows such a name, and nothing of it acts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace hostile_name_test {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

const std::string kHostile =
    "x\x1b[31mRED\nFORGED line\u202eTURNED\u2066 ![i](http://e.org/i) [l](http://e.org) @someone "
    "https://e.org #1 <b> `` ` \a";

// Markdown without what stands between as many backticks as opened it.
std::string without_code(const std::string& markdown) {
  std::string text;
  for (std::size_t at = 0; at < markdown.size();) {
    const std::size_t end = std::min(markdown.find_first_not_of('`', at), markdown.size());
    if (markdown[at] == '\\' && at + 1 < markdown.size()) {
      text += markdown.substr(at, 2);
      at += 2;
    } else if (end == at) {
      text += markdown[at++];
    } else {
      const std::string fence = markdown.substr(at, end - at);
      std::size_t close = markdown.find(fence, end);
      const auto is_longer = [&] {
        return close != std::string::npos &&
               (markdown[close - 1] == '`' || markdown.substr(close + fence.size(), 1) == "`");
      };
      while (is_longer()) close = markdown.find(fence, close + 1);
      if (close == std::string::npos) text += fence;
      at = close == std::string::npos ? end : close + fence.size();
    }
  }
  return text;
}

class HostileNames : public testing::Test {
 protected:
  void SetUp() override {
    const auto shipped = [](const std::string& file) {
      return json::parse(read_text(SHARDLAB_SOURCE_DIR "/configs/" + file));
    };
    write("stack.json", {{"schema", "shardlab/stack/1"},
                         {"name", "s" + kHostile},
                         {"title", "t" + kHostile},
                         {"base", "ap-nccl"},
                         {"transition_us", 1}});
    json topology = shipped("topologies/h100.json");
    topology["name"] = "h" + kHostile;
    write("topology.json", topology);
    write("suite.json", {{"schema", "shardlab/suite/1"},
                         {"name", "u" + kHostile},
                         {"questions",
                          {{{"id", "q" + kHostile},
                            {"kind", "select"},
                            {"op", "mm"},
                            {"mesh", "2x4"},
                            {"inputs", {"f32[64,64] S(0)R", "f32[64,64] RS(1)"}}},
                           {{"id", "p" + kHostile},
                            {"kind", "plan"},
                            {"mesh", "2x4"},
                            {"tensor", "f32[8,8]"},
                            {"from", "S(0)R"},
                            {"to", "RR"}}}}});
    write("experiment.json", {{"schema", "shardlab/experiment/1"},
                              {"name", "e" + kHostile},
                              {"topologies", {"topology.json"}},
                              {"suites", {"suite.json"}},
                              {"stacks", {"stack.json", "dtensor-v3"}}});
    json one = shipped("regressions/R01.json");
    one["title"] = "c" + kHostile;
    one["source"] = "https://e.org/" + kHostile;
    write("case.json", one);
    json program = shipped("programs/mlp.json");
    const std::string first = program["nodes"][0]["name"];
    program["name"] = "g" + kHostile;
    json renamed =
        json::parse(replaced(program.dump(), json(first).dump(), json("n" + kHostile).dump()));
    write("program.json", renamed);
  }
  void write(const std::string& file, const json& content) const {
    folder.write(file, content.dump());
  }
  std::string output_of(Words words) const {
    words.emplace_back("--quiet");
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << join(words, " ") << "\n" << result.err;
    expect_safe(result.out, words);
    expect_safe(result.err, words);
    return result.out;
  }
  static void expect_safe(const std::string& text, const Words& words) {
    for (const char* code : {"\x1b", "\a", "\nFORGED", "\u202e", "\u2066"}) {
      EXPECT_EQ(text.find(code), std::string::npos) << join(words, " ") << "\n" << text;
    }
  }
  // Links, images, mentions and HTML in Markdown, outside of code.
  static void expect_dead(const std::string& markdown) {
    const std::string text = without_code(markdown);
    const std::regex alive(R"([^\\]\]\(|@[A-Za-z0-9]|[^&]#[A-Za-z0-9]|[^\\]://|[^\\]<b>)");
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, alive)) << found.str() << " in\n" << text;
  }
  TemporaryFolder folder;
};

const Words kStack = {"--stack", "stack.json", "--topology", "topology.json"};
const Words kCompare = {"compare", "--baseline", "dtensor-v3", "--candidate",  "stack.json",
                        "--suite", "suite.json", "--topology", "topology.json"};
const Words kSelect = {"select",           "--mesh",          "2x4", "--op", "mm", "--inputs",
                       "f32[64,64] S(0)R", "f32[64,64] RS(1)"};
const Words kPlan = {"plan",   "--mesh", "2x4",  "--tensor", "f32[8,8]",
                     "--from", "S(0)R",  "--to", "RR"};
const Words kSimulate = {"simulate", "--mesh", "2x4",  "--tensor", "f32[8,8]",
                         "--from",   "S(0)R",  "--to", "RR"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(HostileNames, AreShownAndDoNotActOnATerminal) {
  const std::string shown = "x\\x1b[31mRED\\x0aFORGED line\\u{202e}TURNED\\u{2066} ";
  for (const Words& words :
       {kCompare, with(kCompare, {"--program", "program.json", "--mesh", "2x4"}),
        with(kSelect, kStack), Words{"regress", "--file", "case.json"},
        Words{"sweep", "experiment.json", "--out", "sweep"},
        Words{"record", "--suite", "suite.json", "--stack", "stack.json", "--out", "choices.json"},
        Words{"solve", "program.json", "--mesh", "2x4"},
        Words{"simulate", "program.json", "--mesh", "2x4"}}) {
    EXPECT_THAT(output_of(words), HasSubstr(shown)) << join(words, " ");
  }
  for (const Words& words :
       {with(kPlan, kStack), with(kPlan, {"--against", "stack.json"}), with(kSimulate, kStack),
        with({"ties", "--suite", "suite.json"}, kStack),
        with({"solve", "program.json", "--mesh", "2x4"}, kStack),
        Words{"validate", "--stack", "stack.json"}}) {
    output_of(words);
  }
}

TEST_F(HostileNames, AreEscapedInJsonWithoutAChange) {
  const std::string name = json(kHostile.substr(0, kHostile.find(' '))).dump();
  for (const Words& words :
       {kCompare, with({"solve", "program.json", "--mesh", "2x4"}, kStack),
        with({"ties", "--suite", "suite.json"}, kStack), with(kPlan, {"--against", "stack.json"}),
        Words{"validate", "--stack", "stack.json"}}) {
    const std::string document = json::parse(output_of(with(words, {"--format", "json"}))).dump();
    if (words[0] != "compare" && words[0] != "solve") continue;  // the others name files alone
    EXPECT_THAT(document, HasSubstr(name.substr(1, name.size() - 2))) << join(words, " ");
    EXPECT_THAT(document, HasSubstr("\u202eTURNED\u2066")) << join(words, " ");
  }
}

TEST_F(HostileNames, AreNoLinksInReports) {
  for (const Words& words :
       {kCompare, with(kCompare, {"--program", "program.json", "--mesh", "2x4"}),
        with({"ties", "--suite", "suite.json"}, kStack),
        with({"solve", "program.json", "--mesh", "2x4"}, kStack),
        with(kPlan, with(kStack, {"--against", "dtensor-v3"})), with(kSimulate, kStack),
        Words{"validate", "--stack", "stack.json"}}) {
    expect_dead(output_of(with(words, {"--summary", "--out", "report"})));
    const std::string html = read_text(folder.path() / "report/report.html");
    EXPECT_EQ(html.find("\x1b"), std::string::npos) << join(words, " ");
    EXPECT_EQ(html.find("\u202e"), std::string::npos) << join(words, " ");
    EXPECT_EQ(html.find("<b>"), std::string::npos) << join(words, " ");
    const std::string markdown = read_text(folder.path() / "report/report.md");
    expect_safe(markdown, words);
    expect_dead(markdown);
  }
}

// The codes of a terminal that stand between 0x7f and 0x9f, as one letter of UTF-8 each.
TEST_F(HostileNames, OfControlCharactersBeyondAsciiDoNotReachReports) {
  const std::string controls = "\u007f\u0080\u0085\u009b31m\u009f";
  json program = json::parse(read_text(folder.path() / "program.json"));
  program["name"] = "g" + controls;
  write("controls.json", json::parse(replaced(program.dump(), json("n" + kHostile).dump(),
                                              json("n" + controls).dump())));
  json topology = json::parse(read_text(folder.path() / "topology.json"));
  topology["name"] = "h" + controls;
  write("topology.json", topology);
  json suite = json::parse(read_text(folder.path() / "suite.json"));
  suite["name"] = "u" + controls;
  for (json& question : suite["questions"])
    question["id"] = question["kind"].get<std::string>() + controls;
  write("suite.json", suite);
  for (const Words& words : {Words{"solve", "controls.json", "--mesh", "2x4"}, kCompare,
                             with({"ties", "--suite", "suite.json"}, kStack)}) {
    output_of(with(words, {"--summary", "--out", "report"}));
    for (const char* file : {"report/report.html", "report/report.md"}) {
      const std::string text = read_text(folder.path() / file);
      EXPECT_EQ(text.find('\x7f'), std::string::npos) << file << " of " << join(words, " ");
      EXPECT_THAT(text, HasSubstr("\\xc2\\x9b31m")) << file << " of " << join(words, " ");
      for (const char* control : {"\u0080", "\u0085", "\u009b", "\u009f"}) {
        EXPECT_EQ(text.find(control), std::string::npos) << file << " of " << join(words, " ");
      }
    }
  }
}

// The names of files are typed, or come from a shell's pattern.
TEST_F(HostileNames, OfFilesDoNotActOnATerminal) {
  const std::string folder_name = "q\x1b[31m\nFORGED\u202e";
  EXPECT_THAT(output_of(with(kCompare, {"--out", folder_name})),
              HasSubstr("report: q\\x1b[31m\\x0aFORGED\\u{202e}/report.html\n"));
  const std::string record = "e\x1b[31m\nFORGED\u202e.json";
  folder.write(record, read_text(folder.path() / folder_name / "record.json"));
  std::filesystem::copy(folder.path() / record, folder.path() / "other.json");
  output_of({"report", record, "--out", folder_name});
  output_of({"report", record, "other.json", "--out", folder_name});
  output_of({"sweep", "experiment.json", "--out", folder_name + "s"});
  output_of(with({"record", "--suite", "suite.json"}, with(kStack, {"--out", folder_name + "c"})));
  const ProcessResult gone = run_shardlab({"report", "gone" + record, "--out", "r"}, folder.path());
  EXPECT_EQ(gone.exit_code, 3);
  expect_safe(gone.err, {"report"});
}

// A label is a comment in the file that `apply` writes, and a name is a key. Neither ends its line.
TEST_F(HostileNames, AreNoCodeInPython) {
  const std::string hostile = std::string("a\nimport os\"\"\"\\\0b\u202e", 20) + "\U0001f600";
  json program = json::parse(read_text(folder.path() / "program.json"));
  program["name"] = hostile;
  for (json& node : program["nodes"]) {
    if (node.contains("op")) node["label"] = hostile;
  }
  write("labels.json", json::parse(replaced(program.dump(), json("n" + kHostile).dump(),
                                            json("n" + hostile).dump())));
  const ProcessResult solved = run_shardlab(
      {"solve", "labels.json", "--mesh", "2x4", "--format", "json", "--quiet"}, folder.path());
  ASSERT_EQ(solved.exit_code, 0) << solved.err;
  folder.write("plan.json", solved.out);
  output_of({"apply", "labels.json", "--plan", "plan.json", "--out", "sharded.py"});
  const std::string python = read_text(folder.path() / "sharded.py");
  EXPECT_EQ(python.find("\nimport os"), std::string::npos);
  EXPECT_EQ(python.find_first_of(std::string("\0", 1)), std::string::npos);
  EXPECT_EQ(python.find("\u202e"), std::string::npos);
  EXPECT_THAT(python, HasSubstr("    # a\\x0aimport os\"\"\"\\\\x00b\\u{202e}\U0001f600\n"));
  EXPECT_THAT(python, HasSubstr(R"("na\nimport os\"\"\"\\\u0000b\U0000202e\U0001f600": Layout()"));
}

// "...json" without its ending is the name of the folder above.
TEST_F(HostileNames, OfRecordsDoNotLeadOutOfTheFolder) {
  output_of(
      {"plan", "--mesh", "8", "--tensor", "f32[8]", "--from", "S(0)", "--to", "R", "--out", "run"});
  const std::string record = read_text(folder.path() / "run/record.json");
  for (const char* file : {"...json", "..json", "a.json", "deep/...json"}) {
    std::filesystem::create_directories((folder.path() / file).parent_path());
    folder.write(file, record);
  }
  output_of({"report", "...json", "..json", "a.json", "--out", "deep/out"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "deep/report.md"));
  for (const char* inside : {"...json", "..json", "a"}) {
    EXPECT_EQ(read_text(folder.path() / "deep/out" / inside / "record.json"), record) << inside;
  }
  const ProcessResult twice =
      run_shardlab({"report", "...json", "deep/...json", "--out", "deep/out"}, folder.path());
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_EQ(twice.err,
            "shardlab: report: ...json and deep/...json would both go to deep/out/...json; valid: "
            "records of different names, or one at a time\n");
}

}  // namespace hostile_name_test
}  // namespace shardlab::testing_support
