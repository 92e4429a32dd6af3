// Traces of PyTorch's profiler are refused with a ConfigError, or they are read into measurement
// sets that are valid, and into a profile of a step whose parts are times.
//
// Byte 0 is the number of GPUs per host, or 0 for no hint; then comes the file.
#include "costmodel/base/error.h"
#include "costmodel/measurements/kineto_trace.h"
#include "costmodel/measurements/step_profile.h"
#include "runner/config/read_json.h"
#include "tests/fuzz/trace_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  SourceHints hints;
  if (const int devices = input.byte() % 16; devices > 0) hints.gpus_per_host = devices;
  try {
    const nlohmann::json json = parse_json(input.rest(), "f.json");
    if (!is_kineto_trace(json)) return 0;
    try {
      const StepProfile profile = read_step_profile(json, {"f.json", ""});
      FUZZ_CHECK(profile.steps >= 1, profile.gpu);
      for (const double us :
           {profile.step_us, profile.gemm_us, profile.attention_us, profile.other_us,
            profile.exposed_us, profile.collectives_us, profile.idle_us}) {
        FUZZ_CHECK(us >= 0.0 && std::isfinite(us), profile.gpu);
      }
    } catch (const ConfigError&) {
    }
    check_sets(read_kineto_trace(json, {"f.json", ""}), hints);
  } catch (const ConfigError&) {
  }
  return 0;
}
