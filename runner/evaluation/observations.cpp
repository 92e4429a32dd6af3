#include "runner/evaluation/observations.h"

#include <optional>

#include "costmodel/base/text.h"
#include "costmodel/measurements/health.h"
#include "costmodel/price_doubts.h"
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
                          static_cast<int>(s),
                          row.in_place_time_us});
      out.labels.push_back(sets[s].name + ":" + std::to_string(number));
    }
  }
  return out;
}

namespace {

std::string faster_than_links(const MeasurementSet& set, const Topology& topology) {
  constexpr double kTolerated = 0.95;
  const Observations seen = observations_of({&set, 1}, topology);
  std::size_t impossible = 0;
  std::optional<std::size_t> worst;
  double worst_share = kTolerated;
  for (std::size_t i = 0; i < seen.rows.size(); ++i) {
    const double least = least_us(seen.rows[i].query, topology);
    const double share = least > 0.0 ? seen.rows[i].time_us / least : kTolerated;
    if (share >= kTolerated) continue;
    ++impossible;
    if (share >= worst_share) continue;
    worst_share = share;
    worst = i;
  }
  if (!worst) return "";
  const Observation& row = seen.rows[*worst];
  return seen.labels[*worst] + ": " + std::string(to_string(row.query.kind)) + " of " +
         format_bytes(row.query.full_bytes) + " takes " + format_double(row.time_us) +
         " us, but the links of " + topology.name() + " need " +
         format_fixed(least_us(row.query, topology), 1) +
         " us (rows that are too fast: " + std::to_string(impossible) + " of " +
         std::to_string(seen.rows.size()) +
         "); the run had another topology (--topology), or its times are wrong";
}

std::string slower_than_links(const MeasurementSet& set, const Topology& topology) {
  constexpr double kSlowShare = 0.1;
  const Observations seen = observations_of({&set, 1}, topology);
  double best_share = 0.0;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < seen.rows.size(); ++i) {
    const CollectiveQuery& query = seen.rows[i].query;
    if (!is_ring_bound(query.kind) || query.full_bytes < kLargeBytes) continue;
    const double share = least_us(query, topology) / seen.rows[i].time_us;
    if (best && share <= best_share) continue;
    best_share = share;
    best = i;
  }
  if (!best || best_share <= 0.0 || best_share >= kSlowShare) return "";
  const Observation& row = seen.rows[*best];
  const std::string other_links =
      set.hosts > 1 ? " (--topology, or a line \"# interconnect_inter: 8 x 400 Gb/s per node\")"
                    : " (--topology)";
  return seen.labels[*best] + ": " + std::string(to_string(row.query.kind)) + " of " +
         format_bytes(row.query.full_bytes) + " takes " + format_fixed(row.time_us, 0) + " us, " +
         format_fixed(1.0 / best_share, 0) + " times what the links of " + topology.name() +
         " need, and no other large message is nearer; the run had other links" + other_links +
         ", or it was not healthy";
}

}  // namespace

std::vector<std::string> doubts_of_links(const MeasurementSet& set, const Topology& topology) {
  std::vector<std::string> doubts;
  for (std::string doubt : {faster_than_links(set, topology), slower_than_links(set, topology)}) {
    if (!doubt.empty()) doubts.push_back(std::move(doubt));
  }
  return doubts;
}

}  // namespace shardlab
