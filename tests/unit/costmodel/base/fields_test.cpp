// Writing, reading and the schema all follow the list of fields.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"

namespace shardlab {
namespace fields_test {

enum class Side { kLeft, kRight };

struct Step {
  std::string collective;
  std::optional<double> us;
};

struct Extra {
  std::int64_t weight = 0;
  std::optional<double> share;
};

struct Route {
  std::string name;
  Side side = Side::kLeft;
  bool is_open = false;
  std::uint64_t seed = 0;
  std::int64_t hops = 1;
  std::string reason;
  std::optional<Step> first;
  std::vector<Step> steps;
  std::map<std::string, std::int64_t> counts;
  nlohmann::json config = nlohmann::json::object();
  std::string note;
  std::optional<std::int64_t> layer;
  std::optional<std::optional<Step>> looked_up;
  std::optional<Extra> extra;
  std::map<std::string, double> times;
};

}  // namespace fields_test

template <>
struct EnumNames<fields_test::Side> {
  static constexpr std::string_view kKind = "side";
  static constexpr std::array kNames = {Named{fields_test::Side::kLeft, "left"},
                                        Named{fields_test::Side::kRight, "right"}};
};

template <>
struct Fields<fields_test::Step> {
  static constexpr std::string_view kName = "step";
  static constexpr std::string_view kMeaning = "one collective";
  static constexpr auto kList =
      std::tuple(field("collective", &fields_test::Step::collective, "which one ran"),
                 field("us", &fields_test::Step::us, "null: impossible"));
};

template <>
struct Fields<fields_test::Extra> {
  static constexpr auto kList = std::tuple(field("weight", &fields_test::Extra::weight, ""),
                                           field("share", &fields_test::Extra::share, ""));
};

template <>
struct Fields<fields_test::Route> {
  static constexpr auto kList = std::tuple(
      ConstantField{"schema", "route/1"}, field("name", &fields_test::Route::name, ""),
      field("side", &fields_test::Route::side, ""), field("open", &fields_test::Route::is_open, ""),
      field("seed", &fields_test::Route::seed, ""),
      field("hops", &fields_test::Route::hops, "", {.min = 1}),
      nullable_text("reason", &fields_test::Route::reason, ""),
      field("first", &fields_test::Route::first, ""),
      field("steps", &fields_test::Route::steps, ""),
      field("counts", &fields_test::Route::counts, ""),
      field("config", &fields_test::Route::config, ""),
      optional_field("note", &fields_test::Route::note, ""),
      optional_or_null("layer", &fields_test::Route::layer, ""),
      optional_field("looked_up", &fields_test::Route::looked_up, ""),
      all_or_none(&fields_test::Route::extra), keys_ending_in("_ms", &fields_test::Route::times));
  static std::optional<Contradiction> contradiction(const fields_test::Route& route) {
    if (route.name != route.reason) return std::nullopt;
    return Contradiction{"/reason", "the reason is the name"};
  }
};

namespace fields_test {

using nlohmann::json;

Route full() {
  Route route;
  route.name = "a";
  route.side = Side::kRight;
  route.seed = std::numeric_limits<std::uint64_t>::max();
  route.hops = 3;
  route.reason = "b";
  route.first = Step{"all_gather", 2.5};
  route.steps = {{"all_reduce", std::nullopt}};
  route.counts = {{"x", 1}};
  route.config = {{"any", {1, 2}}};
  route.note = "c";
  route.layer = 4;
  route.looked_up.emplace();
  route.extra = Extra{7, std::nullopt};
  route.times = {{"wall_ms", 1.5}};
  return route;
}

// The error of the full route after `change`.
std::string error_after(const std::function<void(json&)>& change) {
  json value = json_of(full());
  change(value);
  try {
    static_cast<void>(read_as<Route>(value, {"f.json", "/at"}));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Fields, KeysAreWrittenInTheOrderOfTheList) {
  EXPECT_EQ(
      json_of(full()).dump(),
      R"({"schema":"route/1","name":"a","side":"right","open":false,"seed":18446744073709551615,)"
      R"("hops":3,"reason":"b","first":{"collective":"all_gather","us":2.5},)"
      R"("steps":[{"collective":"all_reduce","us":null}],"counts":{"x":1},"config":{"any":[1,2]},)"
      R"("note":"c","layer":4,"looked_up":null,"weight":7,"share":null,"wall_ms":1.5})");
}

TEST(Fields, WhatIsEmptyIsNullOrAbsentAsItsFieldSays) {
  EXPECT_EQ(json_of(Route{}).dump(),
            R"({"schema":"route/1","name":"","side":"left","open":false,"seed":0,"hops":1,)"
            R"("reason":null,"first":null,"steps":[],"counts":{},"config":{}})");
}

TEST(Fields, WhatWasWrittenReadsBack) {
  Route named;
  named.name = "n";
  for (const Route& route : {full(), named}) {
    const auto written = json_of(route);
    EXPECT_EQ(json_of(read_as<Route>(json(written), {"f.json", ""})).dump(), written.dump());
  }
  json with_null = json_of(named);
  with_null["layer"] = nullptr;
  EXPECT_FALSE(read_as<Route>(with_null, {"f.json", ""}).layer.has_value());
}

TEST(Fields, ErrorsNameThePlaceWhatWasFoundAndWhatIsValid) {
  EXPECT_EQ(error_after([](json& value) { value.erase("open"); }),
            "f.json:/at: missing key \"open\"");
  EXPECT_EQ(error_after([](json& value) { value["steps"][0]["uss"] = 1; }),
            "f.json:/at/steps/0/uss: unknown key (did you mean \"us\"?); valid: collective, us");
  EXPECT_EQ(error_after([](json& value) { value["first"]["us"] = "x"; }),
            "f.json:/at/first/us: found \"x\"; valid: a number");
  EXPECT_EQ(error_after([](json& value) { value["side"] = "up"; }),
            "f.json:/at/side: found \"up\"; valid: left, right");
  EXPECT_EQ(error_after([](json& value) { value["schema"] = "route/2"; }),
            "f.json:/at/schema: found \"route/2\"; valid: route/1");
  EXPECT_EQ(error_after([](json& value) { value["hops"] = 0; }),
            "f.json:/at/hops: found 0; valid: an integer, at least 1");
  EXPECT_EQ(
      error_after([](json& value) { value["hops"] = 9223372036854775808U; }),
      "f.json:/at/hops: found 9223372036854775808; valid: an integer, at most 72057594037927936");
  EXPECT_EQ(error_after([](json& value) { value["seed"] = -1; }),
            "f.json:/at/seed: found -1; valid: an integer, at least 0");
  EXPECT_EQ(error_after([](json& value) { value["open"] = 1; }),
            "f.json:/at/open: found 1; valid: true or false");
  EXPECT_EQ(error_after([](json& value) { value["name"] = 1; }),
            "f.json:/at/name: found 1; valid: a text");
  EXPECT_EQ(error_after([](json& value) { value["steps"] = 1; }),
            "f.json:/at/steps: found 1; valid: an array");
  EXPECT_EQ(error_after([](json& value) { value["counts"]["a/b"] = "x"; }),
            "f.json:/at/counts/a~1b: found \"x\"; valid: an integer, at least 0");
  EXPECT_EQ(error_after([](json& value) { value["config"] = 1; }),
            "f.json:/at/config: found 1; valid: an object");
  EXPECT_EQ(error_after([](json& value) { value["note"] = nullptr; }),
            "f.json:/at/note: found null; valid: a text");
  EXPECT_EQ(error_after([](json& value) { value["wall_ms"] = "x"; }),
            "f.json:/at/wall_ms: found \"x\"; valid: a number");
  EXPECT_EQ(error_after([](json& value) { value["reason"] = "a"; }),
            "f.json:/at/reason: the reason is the name");
  EXPECT_EQ(error_after([](json& value) { value = 3; }), "f.json:/at: found 3; valid: an object");
}

TEST(Fields, KeysThatComeTogetherAreAllThereOrNone) {
  EXPECT_EQ(error_after([](json& value) { value.erase("share"); }),
            "f.json:/at: missing key \"share\"");
  EXPECT_EQ(error_after([](json& value) {
              value.erase("share");
              value.erase("weight");
            }),
            "no error");
}

TEST(Fields, TheSchemaSaysTheSame) {
  SchemaDefinitions definitions = nlohmann::ordered_json::object();
  const json schema = schema_of<Route>(definitions);
  EXPECT_EQ(schema["required"], json({"schema", "name", "side", "open", "seed", "hops", "reason",
                                      "first", "steps", "counts", "config"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  const json& properties = schema["properties"];
  EXPECT_EQ(properties["schema"], json({{"const", "route/1"}}));
  EXPECT_EQ(properties["side"], json({{"enum", {"left", "right"}}}));
  EXPECT_EQ(properties["hops"], json({{"type", "integer"}, {"minimum", 1}}));
  EXPECT_EQ(properties["reason"], json({{"type", {"string", "null"}}}));
  EXPECT_EQ(properties["layer"], json({{"type", {"integer", "null"}}, {"minimum", 0}}));
  EXPECT_EQ(properties["note"], json({{"type", "string"}}));
  const json step = {{"$ref", "#/definitions/step"}};
  const json step_or_null = {{"anyOf", {step, {{"type", "null"}}}}};
  EXPECT_EQ(properties["first"], step_or_null);
  EXPECT_EQ(properties["looked_up"], step_or_null);
  EXPECT_EQ(properties["steps"], json({{"type", "array"}, {"items", step}}));
  EXPECT_EQ(schema["dependencies"], json({{"weight", {"share"}}, {"share", {"weight"}}}));
  EXPECT_EQ(schema["patternProperties"], json({{"_ms$", {{"type", "number"}}}}));
  EXPECT_EQ(json(definitions["step"])["description"], "one collective");
  EXPECT_EQ(json(definitions["step"])["properties"]["us"],
            json({{"type", {"number", "null"}}, {"description", "null: impossible"}}));
}

}  // namespace fields_test
}  // namespace shardlab
