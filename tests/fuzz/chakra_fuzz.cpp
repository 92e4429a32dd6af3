// Chakra execution traces are refused with a ConfigError, or they are read into messages that come
// back the same as protocol buffers and as JSON, and into measurement sets that are valid.
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
    const ChakraMessages messages = read_chakra_wire(input.rest(), "f.0.et");
    const std::string own = chakra_wire_text(messages);
    const ChakraMessages again = read_chakra_wire(own, "own.et");
    FUZZ_CHECK(chakra_wire_text(again) == own, own);
    const std::string text = chakra_json_text(messages);
    const nlohmann::json json = parse_json(text, "own.json");
    FUZZ_CHECK(chakra_json_text(read_chakra_json(json, {"own.json", ""})) == text, text);
    check_sets(read_chakra_trace(messages, "f.0.et"), hints);
  } catch (const ConfigError&) {
  }
  return 0;
}
