#include "runner/evaluation/observations.h"

#include "runner/evaluation/validation.h"

namespace shardlab {

Observations observations_of(std::span<const MeasurementSet> sets, const Topology& topology) {
  Observations out;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const GroupSpan span = span_on(sets[s], topology);
    for (std::size_t r = 0; r < sets[s].rows.size(); ++r) {
      const MeasuredRow& row = sets[s].rows[r];
      const auto number = row.line > 0 ? row.line : static_cast<int>(r) + 1;
      out.rows.push_back({{row.collective, row.bytes, span, sets[s].gpus_per_process},
                          row.time_us,
                          static_cast<int>(s)});
      out.labels.push_back(sets[s].name + ":" + std::to_string(number));
    }
  }
  return out;
}

}  // namespace shardlab
