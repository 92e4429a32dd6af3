#include "reports/records/record.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "costmodel/base/error.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace record_test {

using nlohmann::json;

ComparisonRecord timed_record() {
  ComparisonRecord record = small_record();
  record.timing = RunTiming{"2025-01-17T09:30:00Z", {{"price_ms", 2.5}, {"wall_ms", 8.25}}};
  return record;
}

// What the reader says of the small record after `change`.
std::string error_after(const std::function<void(json&)>& change) {
  json value = json::parse(record_text(timed_record()));
  change(value);
  std::string of_tree = "no error";
  std::string of_text = "no error";
  try {
    static_cast<void>(from_json(value, "run.json"));
  } catch (const ConfigError& error) {
    of_tree = error.what();
  }
  try {
    static_cast<void>(parse_record(value.dump(), "run.json"));
  } catch (const ConfigError& error) {
    of_text = error.what();
  }
  EXPECT_EQ(of_tree, of_text) << "both readers say the same";
  return of_text;
}

TEST(Record, ReadsBackWhatItWrote) {
  ComparisonRecord refused = small_record();
  refused.questions[0].answers[0].cannot_run = "input 0: P(sum)->P(max) is refused";
  for (const ComparisonRecord& record :
       {small_record(), refused, timed_record(), large_record(200, 3, 0.5)}) {
    EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
    EXPECT_EQ(from_json(json::parse(record_text(record)), "run.json"), record);
  }
}

TEST(Record, TextAndTreeHoldTheSame) {
  const ComparisonRecord record = timed_record();
  EXPECT_EQ(json::parse(record_text(record)), json(to_json(record)));
}

TEST(Record, DoublesKeepEveryBit) {
  ComparisonRecord record = small_record();
  record.questions[0].answers[0].price_us = 22.81853570377591;
  record.questions[0].answers[1].price_us = 0.1 + 0.2;
  const ComparisonRecord again = parse_record(record_text(record), "run.json");
  EXPECT_EQ(*again.questions[0].answers[0].price_us, 22.81853570377591);
  EXPECT_EQ(*again.questions[0].answers[1].price_us, 0.1 + 0.2);
}

TEST(Record, SeedsUseAll64Bits) {
  ComparisonRecord record = small_record();
  record.context.seed = 18446744073709551615U;
  EXPECT_EQ(parse_record(record_text(record), "run.json").context.seed, 18446744073709551615U);
}

TEST(Record, TimingStandsAloneAndIsLeftOutWhereThereIsNone) {
  EXPECT_EQ(json::parse(record_text(small_record())).count("timing"), 0);
  ComparisonRecord record = timed_record();
  record.timing.reset();
  EXPECT_EQ(record_text(record), record_text(small_record()));
}

TEST(Record, EachQuestionHasALineOfItsOwn) {
  const std::string text = record_text(small_record());
  EXPECT_NE(text.find("\n    {\"id\":\"q1\",\"suite\":\"small\","), std::string::npos);
  EXPECT_NE(text.find("\n    {\"id\":\"q7\",\"suite\":\"small\","), std::string::npos);
}

TEST(Record, UnknownKeysAreErrorsThatNameTheirPointer) {
  EXPECT_EQ(error_after([](json& value) { value["extra"] = 1; }),
            "run.json:/extra: unknown key; valid: schema, kind, context, timing, configuration, "
            "provenance, stacks, reference, "
            "questions, invariants, curves, steps, not_asked");
  const std::string of_answer =
      error_after([](json& value) { value["questions"][3]["answers"][1]["prize_us"] = 1; });
  EXPECT_TRUE(of_answer.starts_with(
      "run.json:/questions/3/answers/1/prize_us: unknown key (did you mean \"price_us\"?); valid: "
      "choice, path, price_us, "))
      << of_answer;
  EXPECT_EQ(error_after([](json& value) { value["timing"]["wall_s"] = 1; }),
            "run.json:/timing/wall_s: unknown key (did you mean \"wall_ms\"?); valid: started_utc, "
            "price_ms, wall_ms");
}

TEST(Record, MissingKeysAreErrorsThatNameTheirPointer) {
  EXPECT_EQ(error_after([](json& value) { value.erase("reference"); }),
            "run.json: missing key \"reference\"");
  EXPECT_EQ(error_after([](json& value) { value.erase("questions"); }),
            "run.json: missing key \"questions\"");
  EXPECT_EQ(error_after([](json& value) { value["questions"][2].erase("count"); }),
            "run.json:/questions/2: missing key \"count\"");
  EXPECT_EQ(error_after([](json& value) { value["questions"][0]["best"].erase("us"); }),
            "run.json:/questions/0/best: missing key \"us\"");
  EXPECT_EQ(error_after([](json& value) { value["invariants"][0]["worst"].erase("witness"); }),
            "run.json:/invariants/0/worst: missing key \"witness\"");
}

TEST(Record, WrongTypesAndValuesAreErrors) {
  EXPECT_EQ(error_after([](json& value) { value["schema"] = "shardlab/record/9"; }),
            "run.json:/schema: found \"shardlab/record/9\"; valid: shardlab/record/1");
  EXPECT_EQ(error_after([](json& value) { value["questions"][1]["kind"] = "guess"; }),
            "run.json:/questions/1/kind: found \"guess\"; valid: select, plan");
  EXPECT_EQ(error_after([](json& value) { value["questions"][1]["count"] = 0; }),
            "run.json:/questions/1/count: found 0; valid: an integer, at least 1");
  EXPECT_EQ(error_after([](json& value) { value["questions"][6] = 3; }),
            "run.json:/questions/6: found 3; valid: an object");
  EXPECT_EQ(error_after([](json& value) { value["questions"][5] = json::array({1}); }),
            "run.json:/questions/5: found an array; valid: an object");
  EXPECT_EQ(error_after([](json& value) { value["questions"] = 3; }),
            "run.json:/questions: found 3; valid: an array");
}

TEST(Record, ContradictionsAreErrors) {
  EXPECT_EQ(error_after([](json& value) { value["questions"][0]["answers"].erase(1); }),
            "run.json:/questions/0/answers: expected one answer for each of the 2 stacks, found 1");
  EXPECT_EQ(error_after([](json& value) { value["questions"][1]["id"] = "q1"; }),
            "run.json:/questions/1/id: a second question has the id \"q1\"");
  EXPECT_EQ(
      error_after([](json& value) { value["questions"][0]["answers"][0]["price_us"] = nullptr; }),
      "run.json:/questions/0/answers/0: price_us is null, and impossible does not say why");
  EXPECT_EQ(error_after([](json& value) { value["questions"][0]["best"]["us"] = nullptr; }),
            "run.json:/questions/0/best: expected either us or a reason for its absence");
  EXPECT_EQ(error_after([](json& value) { value["stacks"] = {"old"}; }),
            "run.json:/stacks: expected a baseline and at least one candidate");
  EXPECT_EQ(error_after([](json& value) { value["stacks"][1] = "old"; }),
            "run.json:/stacks: a name occurs twice");
  EXPECT_EQ(error_after([](json& value) { value["curves"][0]["bytes"].erase(0); }),
            "run.json:/curves/0/price_us: expected as many prices as bytes, found 3 and 2");
  EXPECT_EQ(
      error_after([](json& value) { value["invariants"][0]["stack"] = "older"; }),
      "run.json:/invariants/0/stack: \"older\" is neither among the stacks nor the reference");
  EXPECT_EQ(error_after([](json& value) { value["invariants"][0]["violated"] = 101; }),
            "run.json:/invariants/0/violated: expected a number from 0 to checked");
}

TEST(Record, TextThatIsNoJsonNamesLineAndColumn) {
  try {
    static_cast<void>(parse_record("{\n  \"schema\": ,\n}", "run.json"));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 44),
              "run.json: parse error at line 2, column 13: ");
  }
}

TEST(Record, AKeyThatStandsTwiceIsAnError) {
  std::string text = record_text(small_record());
  text.insert(1, "\"questions\": [],");
  EXPECT_THROW(static_cast<void>(parse_record(text, "run.json")), ConfigError);
}

TEST(Record, InfinityInARecordIsAContractError) {
  ComparisonRecord record = small_record();
  record.questions[0].answers[0].price_us = std::numeric_limits<double>::infinity();
  EXPECT_THROW(static_cast<void>(record_text(record)), ContractError);
  EXPECT_THROW(check_record(record), ContractError);
}

TEST(Record, AChoiceThatIsImpossibleMayStillBeNamed) {
  ComparisonRecord record = small_record();
  record.questions[0]
      .answers[0]
      .price_us.reset();  // DTensor takes the first of an all-infinite list
  record.questions[0].answers[0].impossible = "every candidate is impossible";
  EXPECT_NO_THROW(check_record(record));
}

}  // namespace record_test
}  // namespace shardlab::reports
