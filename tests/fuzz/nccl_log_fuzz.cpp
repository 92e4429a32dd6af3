// Lines of an NCCL log are passed over or read, whatever the log holds. What was read is sensible,
// also as the rules of a tuner.
#include <cmath>

#include "costmodel/measurements/nccl_log.h"
#include "costmodel/measurements/tuner_csv.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  MeasurementSet set;
  for (const NcclChoice& choice : read_nccl_choices(text)) {
    FUZZ_CHECK(choice.bytes >= 0 && std::isfinite(choice.bytes), choice.algorithm);
    FUZZ_CHECK(!choice.algorithm.empty() && !choice.protocol.empty(), "no name");
    MeasuredRow row;
    row.collective = choice.collective;
    row.bytes = choice.bytes;
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    set.rows.push_back(row);
  }
  const std::vector<TunerRule> rules = tuner_rules_of(set);
  const std::string written = tuner_csv_text(rules);
  FUZZ_CHECK(read_tuner_csv(written, "f.conf") == rules, written);
  for (const NcclTable& table : read_nccl_tables(text)) {
    FUZZ_CHECK((table.ranks > 0) == (table.hosts > 0), "half a group");
    for (const NcclTableCell& cell : table.cells) {
      FUZZ_CHECK(cell.latency_us > 0 && cell.latency_us <= 1e9, "no latency");
      FUZZ_CHECK(cell.gb_per_s >= 0 && cell.gb_per_s <= 1e9, "no bandwidth");
    }
  }
  FUZZ_CHECK(nccl_version_in_log(text).find_first_not_of("0123456789.") == std::string::npos,
             "no version");
  return 0;
}
