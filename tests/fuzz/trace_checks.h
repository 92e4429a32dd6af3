// What the fuzzers of traces check: sets that were read have sensible figures, and print JSON that
// reads back as the same.
#pragma once

#include <cmath>

#include "costmodel/measurements/collective_trace.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {

inline void check_sets(const CollectiveTrace& trace, const SourceHints& hints) {
  const std::vector<CollectiveTrace> run = {trace};
  for (const MeasurementSet& set : sets_of_traces(run, hints)) {
    FUZZ_CHECK(set.rows.empty() != set.kernels.empty(), set.name);
    FUZZ_CHECK(set.hosts >= 1 && set.ranks >= (set.rows.empty() ? 1 : 2), set.name);
    FUZZ_CHECK(set.hosts <= set.ranks, set.name);
    FUZZ_CHECK(set.gpus_per_host >= 1 && set.gpus_per_host <= set.ranks, set.name);
    for (const MeasuredRow& row : set.rows) {
      FUZZ_CHECK(row.bytes > 0 && std::isfinite(row.bytes), row.dtype);
      FUZZ_CHECK(row.time_us > 0 && std::isfinite(row.time_us), row.dtype);
    }
    for (const MeasuredKernel& kernel : set.kernels) {
      FUZZ_CHECK(kernel.bytes > 0 && std::isfinite(kernel.bytes), kernel.kernel);
      FUZZ_CHECK(kernel.time_us > 0 && std::isfinite(kernel.time_us), kernel.kernel);
      FUZZ_CHECK(std::isfinite(kernel.flops), kernel.kernel);
      FUZZ_CHECK(!kernel_shape_text(kernel).empty(), kernel.kernel);
    }
    const nlohmann::json json = set.to_json();
    const MeasurementSet again = MeasurementSet::from_json(json, {"again.json", ""});
    FUZZ_CHECK(again.to_json().dump() == set.to_json().dump(), json.dump());
  }
}

}  // namespace shardlab::testing_support
