// Which prices of a model are based on measurements: the collectives, groups and sizes that it has
// rows for.
//
//   const MeasuredRanges measured(model->measured());
//   measured.gap({Collective::kAllGather, 1 << 20, {.ranks = 8}})   // nothing: it was measured
//   measured.gap(query)->text()                   // "all_gather of 8 ranks on 1 host below 32 MiB"
//
// A query counts as measured if there are rows for the same collective among the same numbers of
// ranks and hosts, at sizes from the smallest of these rows to the largest, both included. Between
// two rows a model interpolates, and that counts as measured, however far apart the rows lie. A
// query that needs no communication (a local change, a group of one rank) has no gap either; code
// that counts measured steps must leave it out. How the ranks lie on their hosts, what else runs
// beside them, and the dtype play no part, since rows do not record them. Nothing was measured on a
// topology of another GPU than the rows are of (fitted_gpus.h).
//
// This file does not judge how good the rows are (measurements/health.h). Tested by
// tests/unit/costmodel/measured_ranges_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/collective.h"

namespace shardlab {

// The rows of one collective and group.
struct MeasuredRange {
  Collective kind = Collective::kLocal;
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;  // kAnyHosts if the rows do not say
  Bytes smallest = 0.0;
  Bytes largest = 0.0;
  // The GPUs that were measured, "h100", if the topology's GPU is another one; "" otherwise.
  std::string gpus = {};

  static constexpr std::int64_t kAnyHosts = 0;
  friend bool operator==(const MeasuredRange&, const MeasuredRange&) = default;
};

// What was not measured about a query. Queries of one group have one of four gaps, whatever their
// size: the whole group, the sizes below its rows, the sizes above them, or the GPU.
struct MeasuredGap {
  Collective kind = Collective::kLocal;
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;
  // The group was measured, but only from the size `below` on, or only up to the size `above`. If
  // neither is set, and no `gpus` either, the group was not measured at all.
  std::optional<Bytes> below = {};
  std::optional<Bytes> above = {};
  // The group was measured, but on these GPUs, none of which is the topology's; "" otherwise.
  std::string gpus = {};

  // "all_gather of 16 ranks on 2 hosts", "all_gather of 8 ranks on 1 host below 32 MiB",
  // "all_gather of 16 ranks on 2 hosts (the rows are of h100)".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const MeasuredGap&, const MeasuredGap&) = default;
};

// Whether a query communicates at all.
[[nodiscard]] constexpr bool communicates(const CollectiveQuery& query) {
  return query.kind != Collective::kLocal && query.group.ranks > 1;
}

class MeasuredRanges {
 public:
  // Ranges of one collective and group are merged into one, from the smallest size to the largest.
  explicit MeasuredRanges(const std::vector<MeasuredRange>& ranges);

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  // Nothing if the query was measured, or does not communicate. Rows without a number of hosts are
  // used for a group only if no rows name both its ranks and its hosts.
  [[nodiscard]] std::optional<MeasuredGap> gap(const CollectiveQuery& query) const;

 private:
  [[nodiscard]] const MeasuredRange* find(Collective kind, std::int64_t ranks,
                                          std::int64_t hosts) const;

  std::vector<MeasuredRange> ranges_;
};

}  // namespace shardlab
