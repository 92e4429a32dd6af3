// The CSV of a tuner is refused with a ConfigError, or it is read into rules that are written and
// read back as the same, and that answer for their own sizes.
#include "costmodel/base/error.h"
#include "costmodel/measurements/tuner_csv.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<TunerRule> rules;
  try {
    rules = read_tuner_csv(text, "f.conf");
  } catch (const ConfigError&) {
    return 0;
  }
  const std::string written = tuner_csv_text(rules);
  try {
    FUZZ_CHECK(read_tuner_csv(written, "again.conf") == rules, written);
  } catch (const ConfigError& error) {
    FUZZ_CHECK(false, std::string(error.what()) + "\n" + written);
  }
  for (const TunerRule& rule : rules) {
    for (const std::uint64_t bytes : {rule.min_bytes, rule.max_bytes}) {
      const TunerRule* found = find_rule(rules, rule.collective, bytes, rule.nodes, rule.ranks);
      FUZZ_CHECK(found != nullptr && found <= &rule, written);
    }
  }
  return 0;
}
