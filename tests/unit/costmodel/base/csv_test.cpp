#include "costmodel/base/csv.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"

namespace shardlab {
namespace csv_test {

using Fields = std::vector<std::string>;

CsvTable table_of(std::string_view text) { return read_csv(text, "rows.csv"); }

std::string error_of(std::string_view text) {
  try {
    (void)table_of(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Csv, ReadsFieldsByColumn) {
  const CsvTable table = table_of("a,b,c\n1,2,3\n4,,6\n");
  EXPECT_EQ(table.header, (Fields{"a", "b", "c"}));
  ASSERT_EQ(table.records.size(), 2U);
  EXPECT_EQ(table.field(table.records[1], "a"), "4");
  EXPECT_EQ(table.field(table.records[1], "b"), "");
  EXPECT_EQ(table.field(table.records[1], "none"), "");
  EXPECT_EQ(table.records[1].line, 3);
}

TEST(Csv, QuotedFieldsHoldCommasQuotesAndLineBreaks) {
  const CsvTable table = table_of("a,b\n\"x, y\",\"say \"\"hi\"\"\"\n\"two\nlines\",2\n3,4\n");
  ASSERT_EQ(table.records.size(), 3U);
  EXPECT_EQ(table.records[0].fields, (Fields{"x, y", "say \"hi\""}));
  EXPECT_EQ(table.records[1].fields, (Fields{"two\nlines", "2"}));
  EXPECT_EQ(table.records[1].line, 3);
  EXPECT_EQ(table.records[2].line, 5);
}

TEST(Csv, LinesEndInThreeWaysAndTheLastNeedNotEnd) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string text = std::string("a,b") + end + "1,\"2\"" + end + end + "3,4";
    const CsvTable table = table_of(text);
    ASSERT_EQ(table.records.size(), 2U);
    EXPECT_EQ(table.records[0].fields, (Fields{"1", "2"}));
    EXPECT_EQ(table.records[1].fields, (Fields{"3", "4"}));
    EXPECT_EQ(table.records[1].line, 4);
  }
}

TEST(Csv, IgnoresAByteOrderMarkEmptyLinesAndBlanksAroundFields) {
  const CsvTable table = table_of("\xEF\xBB\xBF\n \na, b ,c\n\n 1 ,\t \"2, 3\" , \"4\"\n  \n");
  EXPECT_EQ(table.header, (Fields{"a", "b", "c"}));
  ASSERT_EQ(table.records.size(), 1U);
  EXPECT_EQ(table.records[0].fields, (Fields{"1", "2, 3", "4"}));
  EXPECT_EQ(table.records[0].line, 5);
}

TEST(Csv, ATableMayHaveNoRecords) {
  EXPECT_TRUE(table_of("a,b").records.empty());
  EXPECT_TRUE(table_of("a,b\n\n").records.empty());
}

TEST(Csv, BadTextsSayWhereTheyAreAndWhatIsValid) {
  EXPECT_EQ(error_of(""), "rows.csv: the file is empty; valid: a line of column names");
  EXPECT_EQ(error_of("\n \r\n"), "rows.csv: the file is empty; valid: a line of column names");
  EXPECT_EQ(error_of("\xEF\xBB\xBF"), "rows.csv: the file is empty; valid: a line of column names");
  EXPECT_EQ(error_of("\na,b,a\n"), "rows.csv:line 2: column \"a\" stands there twice");
  EXPECT_EQ(error_of("a,b\n1,2\n3\n"),
            "rows.csv:line 3: found 1 fields; valid: 2, as many as there are columns");
  EXPECT_EQ(error_of("a,b\n1,2,3\n"),
            "rows.csv:line 2: found 3 fields; valid: 2, as many as there are columns");
  EXPECT_EQ(error_of("a,b\n1,\"2\n3,4\n"),
            "rows.csv:line 2: a field begins with a quote that nothing closes");
  EXPECT_EQ(
      error_of("a,b\n\"1\n\"x,2\n"),
      "rows.csv:line 3: a quoted field is followed by more text; valid: a comma or the line's "
      "end");
}

}  // namespace csv_test
}  // namespace shardlab
