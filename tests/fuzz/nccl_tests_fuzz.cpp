// Logs of nccl-tests, as text or JSON, are refused with a ConfigError or read. What was read has
// sensible figures, and prints JSON that reads back as the same.
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/measurements/health.h"
#include "runner/config/read_json.h"
#include "runner/evaluation/measurement_files.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {
namespace {

void check(const MeasurementSet& set) {
  FUZZ_CHECK(!set.rows.empty() || !set.kernels.empty() || set.verified_plans, "no rows");
  FUZZ_CHECK(set.hosts >= 1 && set.ranks >= set.hosts && set.gpus_per_host >= 1, set.name);
  for (const MeasuredRow& row : set.rows) {
    FUZZ_CHECK(row.bytes > 0 && std::isfinite(row.bytes), row.dtype);
    FUZZ_CHECK(row.time_us > 0 && std::isfinite(row.time_us), row.dtype);
  }
  const GroupSpan span = set.span();
  FUZZ_CHECK(span.ranks_per_host >= 1, set.name);
  const std::string text = measurement_text(set);
  try {
    const MeasurementSet again =
        MeasurementSet::from_json(parse_json(text, "again.json"), {"again.json", ""});
    FUZZ_CHECK(again.rows.size() == set.rows.size(), text);
    FUZZ_CHECK(measurement_text(again) == text, text);
    FUZZ_CHECK(set.health == Health::kUnhealthy || judge(again).health == set.health, text);
  } catch (const ConfigError& error) {
    FUZZ_CHECK(false, "its own text is refused: " + std::string(error.what()) + "\n" + text);
  }
}

}  // namespace
}  // namespace shardlab::testing_support

// Byte 0 is the number of hosts, or 0 for no hint; then comes the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  SourceHints hints;
  if (const int hosts = input.byte() % 16; hosts > 0) {
    hints.hosts = hosts;
    hints.gpus_per_host = 8;
  }
  try {
    check(parse_measurement(input.rest(), hints, "f_all_reduce.txt"));
  } catch (const ConfigError&) {
  }
  return 0;
}
