// Chakra execution traces as JSON are refused with a ConfigError, or they are read into messages
// that are the same as JSON and as protocol buffers, and into measurement sets that are valid.
//
// Byte 0 is the number of GPUs per host, or 0 for no hint; then comes the file.
#include "costmodel/base/error.h"
#include "costmodel/measurements/chakra_json.h"
#include "costmodel/measurements/chakra_trace.h"
#include "runner/config/read_json.h"
#include "tests/fuzz/trace_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  SourceHints hints;
  if (const int devices = input.byte() % 16; devices > 0) hints.gpus_per_host = devices;
  try {
    const std::string text(input.rest());
    const nlohmann::json json = parse_json(chakra_array_text(text).value_or(text), "f.json");
    if (!is_chakra_json(json)) return 0;
    const ChakraMessages messages = read_chakra_json(json, {"f.json", ""});
    const std::string own = chakra_json_text(messages);
    const ChakraMessages again = read_chakra_json(parse_json(own, "own.json"), {"own.json", ""});
    FUZZ_CHECK(chakra_json_text(again) == own, own);
    const ChakraMessages of_wire = read_chakra_wire(chakra_wire_text(messages), "own.et");
    FUZZ_CHECK(chakra_json_text(of_wire) == own, own);
    check_sets(read_chakra_trace(messages, "f.0.json"), hints);
  } catch (const ConfigError&) {
  }
  return 0;
}
