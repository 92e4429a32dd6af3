// Chakra execution traces: refused with a ConfigError, or read into sets that hold.
//
// Byte 0: 0 for no hints, else GPUs a host; then the file.
#include "costmodel/error.h"
#include "costmodel/measurements/chakra_trace.h"
#include "tests/fuzz/trace_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  SourceHints hints;
  if (const int devices = input.byte() % 16; devices > 0) hints.gpus_per_host = devices;
  try {
    const CollectiveTrace trace = read_chakra_trace(input.rest(), "f.0.et");
    check_sets(trace, hints);
  } catch (const ConfigError&) {
  }
  return 0;
}
