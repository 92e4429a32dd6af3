// Chakra's messages as JSON: they are written as protocol buffers' own library writes them, and
// read back.
#include "costmodel/measurements/chakra_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "costmodel/base/error.h"
#include "costmodel/measurements/chakra_trace.h"

namespace shardlab {
namespace chakra_json_test {

using nlohmann::json;

std::string golden(const std::string& name) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/tests/golden/traces/" + name, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_NE(out.str(), "") << name;
  return out.str();
}

ChakraMessages of_json(const std::string& text) {
  return read_chakra_json(json::parse(text), {"t.json", ""});
}

// The golden files hold every type of attribute, alone and as a list, with its extreme values, as
// the library writes them.
TEST(ChakraJson, IsWhatTheLibraryWrites) {
  const std::string wire = golden("chakra_types.et");
  const std::string text = golden("chakra_types.json");
  const ChakraMessages of_wire = read_chakra_wire(wire, "t.et");
  EXPECT_EQ(of_wire.nodes[0].attributes.size(), 59U);
  EXPECT_EQ(json::parse(chakra_json_text(of_wire)), json::parse(text));
  EXPECT_EQ(chakra_wire_text(of_json(text)), wire);
  EXPECT_EQ(chakra_wire_text(of_json(chakra_json_text(of_wire))), wire);
}

void expect_same(const std::vector<MeasurementSet>& own, const std::vector<MeasurementSet>& other) {
  ASSERT_EQ(own.size(), other.size());
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].to_json(), other[i].to_json());
}

// The trace of a simulated rank in four forms: protocol buffers, our JSON, and two spellings of the
// library's JSON.
TEST(ChakraJson, EveryFormGivesTheSameMeasurements) {
  const std::string wire = golden("chakra.5.et");
  const auto sets = [](const ChakraMessages& messages) {
    return sets_of_traces(std::vector<CollectiveTrace>{read_chakra_trace(messages, "t.5.et")}, {});
  };
  const ChakraMessages messages = read_chakra_wire(wire, "t.5.et");
  EXPECT_EQ(chakra_wire_text(messages), wire);
  const std::vector<MeasurementSet> expected = sets(messages);
  ASSERT_EQ(expected.size(), 2U);
  const std::string own = chakra_json_text(messages);
  EXPECT_TRUE(is_chakra_json(json::parse(own)));
  expect_same(sets(of_json(own)), expected);
  expect_same(sets(of_json(golden("chakra_schema_names.json"))), expected);
  const std::optional<std::string> array = chakra_array_text(golden("chakra_jsonizer.json"));
  ASSERT_TRUE(array.has_value());
  expect_same(sets(of_json(*array)), expected);
}

TEST(ChakraJson, RanksAreOfTheFilesName) {
  const ChakraMessages messages = read_chakra_wire(golden("chakra.5.et"), "t.5.et");
  for (const char* file : {"runs/t.5.et", "t.5.et.json", "t.5.json"}) {
    EXPECT_EQ(read_chakra_trace(messages, file).rank, 5) << file;
  }
  EXPECT_EQ(read_chakra_trace(messages, "t.5.et.json").file, "t.5.et.json");
  EXPECT_EQ(read_chakra_trace(messages, "t.json").rank, std::nullopt);
}

TEST(ChakraJson, ObjectsOneAfterTheOtherAreAnArray) {
  EXPECT_EQ(chakra_array_text("{\"version\": \"}\\\"{\"}{}\n{\"id\": 1}\n"),
            "[{\"version\": \"}\\\"{\"},{}\n,{\"id\": 1}]");
  for (const char* text : {"", "{\"version\": \"0.0.4\"}", "{\"traceEvents\": []}{}",
                           "{\"version\": 1}x", "{\"version\": 1} {", "{\"version\" 1}{}",
                           "{\"version\": \"1\", \"events\": []}{}", "[{\"version\": \"1\"}]"}) {
    EXPECT_EQ(chakra_array_text(text), std::nullopt) << text;
  }
}

TEST(ChakraJson, OtherArraysAreNone) {
  for (const char* text : {"[]", "[1]", "[{}]", R"([{"ph": "X"}])", R"({"version": "0.0.4"})",
                           R"([{"version": "0.0.4", "ph": "X"}])"}) {
    EXPECT_FALSE(is_chakra_json(json::parse(text))) << text;
  }
  EXPECT_TRUE(is_chakra_json(json::parse(R"([{"version": "0.0.4"}])")));
}

std::string error_of(const std::string& node) {
  try {
    static_cast<void>(
        read_chakra_trace(of_json(R"([{"version": "0.0.4"}, )" + node + "]"), "t.json"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ChakraJson, ErrorsNameThePointer) {
  EXPECT_EQ(error_of("3"), "t.json:/1: found 3; valid: an object");
  EXPECT_EQ(error_of(R"({"dur": 1})"),
            "t.json:/1/dur: unknown key (did you mean \"durationMicros\"?); valid: id, name, type, "
            "ctrlDeps, dataDeps, "
            "startTimeMicros, durationMicros, inputs, outputs, attr, storage");
  EXPECT_EQ(error_of(R"({"dataDeps": ["1"], "data_deps": ["1"]})").substr(0, 63),
            "t.json:/1/data_deps: unknown key (did you mean \"dataDeps\"?); va");
  EXPECT_EQ(
      error_of(R"({"id": "-1"})"),
      "t.json:/1/id: found \"-1\"; valid: a whole number from 0 to 18446744073709551615, or that "
      "number as a text");
  EXPECT_EQ(error_of(R"({"durationMicros": 1.5})"),
            "t.json:/1/durationMicros: found 1.5; valid: a whole number from 0 to "
            "18446744073709551615, or that number as a text");
  EXPECT_EQ(
      error_of(R"({"dataDeps": ["1", "x"]})"),
      "t.json:/1/dataDeps/1: found \"x\"; valid: a whole number from 0 to 18446744073709551615, "
      "or that number as a text");
  EXPECT_EQ(error_of(R"({"dataDeps": "1"})"), "t.json:/1/dataDeps: found \"1\"; valid: an array");
  EXPECT_EQ(error_of(R"({"type": "COMM"})"),
            "t.json:/1/type: found \"COMM\"; valid: INVALID_NODE, METADATA_NODE, MEM_LOAD_NODE, "
            "MEM_STORE_NODE, COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE, "
            "STORAGE_NODE, BATCH_NODE, CHECKPOINT_NODE");
  EXPECT_EQ(
      error_of(R"({"inputs": {"type": "x"}})"),
      "t.json:/1/inputs/type: unknown key (did you mean \"types\"?); valid: values, shapes, types");
  const auto attribute = [](const std::string& value) {
    return error_of(R"({"attr": [{"name": "a", )" + value + "}]}");
  };
  EXPECT_EQ(
      attribute(R"("int32Val": 2147483648)"),
      "t.json:/1/attr/0/int32Val: found 2147483648; valid: a whole number from -2147483648 to "
      "2147483647, or that number as a text");
  EXPECT_EQ(attribute(R"("int64Val": "1", "doubleVal": 1)"),
            "t.json:/1/attr/0/int64Val: found a second value beside doubleVal; valid: one value");
  EXPECT_EQ(attribute(R"("doubleVal": "1")"),
            "t.json:/1/attr/0/doubleVal: found \"1\"; valid: a number, \"NaN\", \"Infinity\" or "
            "\"-Infinity\"");
  EXPECT_EQ(attribute(R"("floatVal": 1e39)"),
            "t.json:/1/attr/0/floatVal: found 1e+39; valid: a number that a float holds, up to "
            "3.4e38");
  EXPECT_EQ(attribute(R"("boolVal": 1)"),
            "t.json:/1/attr/0/boolVal: found 1; valid: true or false");
  EXPECT_EQ(attribute(R"("bytesVal": "a*")"),
            "t.json:/1/attr/0/bytesVal: found \"a*\"; valid: base64");
  EXPECT_EQ(attribute(R"("int64List": ["1"])"),
            "t.json:/1/attr/0/int64List: found an array; valid: an object");
  EXPECT_EQ(attribute(R"("uint32List": {"values": [1, -1]})"),
            "t.json:/1/attr/0/uint32List/values/1: found -1; valid: a whole number from 0 to "
            "4294967295, or that number as a text");
  EXPECT_EQ(attribute(R"("int64": 1)").substr(0, 66),
            "t.json:/1/attr/0/int64: unknown key; valid: name, docString, doubl");
  EXPECT_EQ(error_of(R"({"type": "COMM_COLL_NODE"})"),
            "t.json:/1: a COMM_COLL_NODE has no attribute comm_type");
}

TEST(ChakraJson, NullIsAbsent) {
  EXPECT_EQ(error_of(R"({"id": null, "attr": null, "inputs": null, "type": null})"), "");
}

}  // namespace chakra_json_test
}  // namespace shardlab
