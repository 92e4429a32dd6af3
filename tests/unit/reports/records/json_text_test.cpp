#include "reports/records/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace shardlab::reports {
namespace json_text_test {

TEST(JsonObjectText, WritesAKeyToALineAndAnElementToALine) {
  JsonObjectText text;
  text.value("schema", nlohmann::ordered_json("x/1"));
  text.begin_array("none");
  text.end_array();
  text.begin_array("rows");
  text.element({{"b", 1}, {"a", 2}});
  text.element({{"b", 3}});
  text.end_array();
  EXPECT_EQ(text.finish(),
            "{\n  \"schema\": \"x/1\",\n  \"none\": [],\n  \"rows\": [\n    {\"b\":1,\"a\":2},\n   "
            " {\"b\":3}\n  ]\n}\n");
}

TEST(JsonObjectText, InfinityBecomesNullAndBadUtf8IsReplaced) {
  EXPECT_EQ(json_line({{"x", std::numeric_limits<double>::infinity()}}), "{\"x\":null}");
  EXPECT_EQ(json_line({{"x", "a\xff"}}), "{\"x\":\"a\xEF\xBF\xBD\"}");
}

}  // namespace json_text_test
}  // namespace shardlab::reports
