#include "costmodel/measurements/step_rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "costmodel/base/error.h"

namespace shardlab {
namespace step_rows_test {

constexpr const char* kHeader = "id,model,gpu,gpus,seq,micro_batch,tokens_per_s_per_gpu";

std::vector<StepRow> rows_of(const std::string& lines, const std::string& more_columns = "") {
  return read_step_rows(kHeader + more_columns + "\n" + lines, "rows.csv");
}

std::string error_of(const std::string& lines, const std::string& more_columns = "") {
  try {
    (void)rows_of(lines, more_columns);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StepRows, WhatIsNotSaidIsNotKnown) {
  const std::vector<StepRow> rows = rows_of("a,llama3-8b,H100,8,8192,2,5762\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, "a");
  EXPECT_EQ(rows[0].gpus, 8);
  EXPECT_EQ(rows[0].tokens_per_s_per_gpu, 5762.0);
  EXPECT_EQ(rows[0].tp, std::nullopt);
  EXPECT_EQ(rows[0].memory_gib, std::nullopt);
  EXPECT_EQ(rows[0].precision, "");
  EXPECT_EQ(rows[0].line, 2);
}

TEST(StepRows, ColumnsAreFoundByNameAndOthersIgnored) {
  const std::vector<StepRow> rows =
      rows_of("a,m,g,8,1,1,2.5,\"a, b\",x,4,82.4\n", ",unknown,mood,tp,memory_gib");
  EXPECT_EQ(rows[0].unknown, "a, b");
  EXPECT_EQ(rows[0].tp, 4);
  EXPECT_EQ(rows[0].memory_gib, 82.4);
}

TEST(StepRows, AWordThatIsNoChoiceIsRefused) {
  EXPECT_EQ(rows_of("a,m,g,8,1,1,2.5,yes\n", ",no_sync")[0].no_sync, "yes");
  EXPECT_EQ(rows_of("a,m,g,8,1,1,2.5,\n", ",no_sync")[0].no_sync, "");
  const std::string error = error_of("a,m,g,8,1,1,2.5,maybe\n", ",no_sync");
  EXPECT_NE(error.find("line 2"), std::string::npos) << error;
  EXPECT_NE(error.find("column no_sync: found \"maybe\"; valid: yes, no, true, false, "),
            std::string::npos)
      << error;
}

TEST(StepRows, ThePublishedRowsAreRead) {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/configs/steptimes/published.csv");
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<std::string> ignored;
  const std::vector<StepRow> rows = read_step_rows(text.str(), "published.csv", &ignored);
  EXPECT_EQ(ignored, std::vector<std::string>());
  EXPECT_EQ(rows.size(), 434U);
  EXPECT_EQ(rows[0].id, "P001");
  EXPECT_EQ(rows[0].source, "pytorch/torchtitan");
  EXPECT_EQ(rows[0].tokens_per_s_per_gpu, 5762.0);
  EXPECT_EQ(rows[0].memory_gib, 82.4);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                          [](const StepRow& row) { return row.memory_gib.has_value(); }),
            34);
}

TEST(StepRows, BadRowsSayTheLineAndWhatIsValid) {
  EXPECT_EQ(error_of("a,m,g,8,1,1,2\na,m,g,8,1,1,2\n"),
            "rows.csv:line 3: the id \"a\" stands there twice");
  EXPECT_EQ(
      error_of("a,m,g,eight,1,1,2\n"),
      "rows.csv:line 2: column gpus: found \"eight\"; valid: a number that is not negative, or "
      "nothing");
  EXPECT_EQ(error_of("a,m,g,,1,1,2\n"),
            "rows.csv:line 2: column gpus: found \"\"; valid: a whole number from 1 to 10^9");
  EXPECT_EQ(error_of("a,m,g,8,1.5,1,2\n"),
            "rows.csv:line 2: column seq: found \"1.5\"; valid: a whole number from 1 to 10^9, or "
            "nothing");
  EXPECT_EQ(
      error_of("a,m,g,8,1,0,2\n"),
      "rows.csv:line 2: column micro_batch: found \"0\"; valid: a whole number from 1 to 10^9, "
      "or nothing");
  EXPECT_EQ(error_of("a,m,g,8,1,1,0\n"),
            "rows.csv:line 2: column tokens_per_s_per_gpu: found \"0\"; valid: a number above "
            "0, or nothing");
  EXPECT_EQ(error_of("a,m,g,8,1,1,\n"), "");  // such a row can't be compared, but the file is good
  EXPECT_EQ(error_of("a,,g,8,1,1,2\n"), "rows.csv:line 2: column model: found \"\"; valid: a name");
  EXPECT_EQ(error_of("a,m,g,8,1,1,2,0\n", ",memory_gib"),
            "rows.csv:line 2: column memory_gib: found \"0\"; valid: a number above 0, or nothing");
  for (const char* bad : {"nan", "inf", "-1", "1e400", "0x10", "1 2"}) {
    EXPECT_NE(error_of(std::string("a,m,g,8,1,1,") + bad + "\n"), "") << bad;
    EXPECT_NE(error_of(std::string("a,m,g,8,1,1,2,") + bad + "\n", ",tp"), "") << bad;
  }
  EXPECT_NE(error_of("a,m,g,8,1,1,2,1e12\n", ",pp"), "");
}

TEST(StepRows, RequiredColumnsAreNamed) {
  try {
    (void)read_step_rows("id,model,gpu,gpus,seq,micro_batch\n", "rows.csv");
    FAIL() << "no tokens were needed";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "rows.csv:line 1: there is no column \"tokens_per_s_per_gpu\"; required: id, model, "
        "gpu, gpus, seq, micro_batch, tokens_per_s_per_gpu");
  }
}

TEST(StepRows, YesAndNoHaveTheirUsualSpellings) {
  const auto compile = [](const std::string& word) {
    return rows_of("a,m,g,8,1,1,2.5," + word + "\n", ",compile")[0].compile;
  };
  for (const char* word : {"yes", "Yes", "true", "TRUE", "1", "y", "on", "yes (all of it)"}) {
    EXPECT_EQ(compile(word), "yes") << word;
  }
  for (const char* word : {"no", "false", "0", "N", "off", "no (CUDA graphs in some recipes)"}) {
    EXPECT_EQ(compile(word), "no") << word;
  }
  EXPECT_EQ(compile("unknown"), "unknown");
  EXPECT_EQ(compile(""), "");
  for (const char* column : {"compile", "async_tp", "no_sync"}) {
    EXPECT_EQ(
        error_of("a,m,g,8,1,1,2.5,quux\n", std::string(",") + column),
        std::string("rows.csv:line 2: column ") + column +
            ": found \"quux\"; valid: yes, no, true, false, 1, 0, on, off, unknown, or nothing");
  }
}

TEST(StepRows, ColumnsWithoutAMeaningAreToldWithTheNearestName) {
  std::vector<std::string> ignored;
  (void)read_step_rows(std::string(kHeader) + ",act_chkpt,remark_of_ours,compile\n", "rows.csv",
                       &ignored);
  ASSERT_EQ(ignored.size(), 2U);
  EXPECT_EQ(ignored[0], "\"act_chkpt\" (did you mean \"act_ckpt\"?)");
  EXPECT_EQ(ignored[1], "\"remark_of_ours\"");
}

}  // namespace step_rows_test
}  // namespace shardlab
