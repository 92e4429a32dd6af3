// Which prices of a model cannot be right, or are unlike anything that was measured on such a GPU.
//
//   const PriceDoubts doubts(*model, topology,
//                            {.name = "calibrated-h100", .model = measured.get()});
//   if (const auto doubt = doubts.of(query)) print(doubt->text());
//
// A price is doubted for the first of these reasons that holds:
//
//   faster than the links    less time than the bytes need that must reach one rank, or pass into
//                            or out of one domain (NVLink's, which is a host or larger), at the
//                            full rates of the topology's links. Per rank: S of a broadcast, S/n of
//                            a scatter, S of a send_recv, otherwise S (n-1)/n. Per domain, on the
//                            interfaces of its members, or of the g of the n ranks that are in the
//                            domain with the fewest: S (1 - g/n) of an all_gather or
//                            reduce_scatter, g times that of an all_to_all, and S of a broadcast.
//                            An all_reduce brings S into every domain, since every element of the
//                            sum depends on other domains, and unless the network reduces (SHARP)
//                            2 S (d-1) into all d domains together. A member that shares an
//                            interface with other devices may have it alone. S is full_bytes.
//                            Source: the lower bounds of Chan et al., Collective communication:
//                            theory, practice, and experience, 2007, section 3; those of ranks
//                            leave the reductions to the switches (NVLink SHARP).
//   below an all_gather      an all_reduce of at least kBandwidthBound bytes that takes less time
//                            than this model's own all_gather of the same buffer, though every
//                            rank has to receive as much and has to send its summands too. Not
//                            where the network reduces: its tree has fewer steps than the ring.
//   unlike what was measured a price that differs from that of a model which was fitted to runs on
//                            this GPU by more than kUnlike times, either way.
//
// Status: the bounds are derived; kUnlike is a choice. Clusters of one GPU differ from their common
// model by less than it in more than nine of ten rows (reports/scoreboard.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/topology.h"

namespace shardlab {

enum class DoubtKind : std::uint8_t { kFasterThanLinks, kBelowAllGather, kUnlikeMeasured };

// A model that was fitted to measurements; null for none.
struct MeasuredModel {
  std::string name;
  const CostModel* model = nullptr;
};

struct PriceDoubt {
  DoubtKind kind = DoubtKind::kUnlikeMeasured;
  CollectiveQuery query;
  double price_us = 0.0;
  double other_us = 0.0;   // the bound, the all_gather's price, or the measured model's
  std::string other_name;  // kUnlikeMeasured: of the measured model

  // "all_gather of 128 ranks on 16 hosts, 512 MiB: 49990 us is 13 times what calibrated-a100 says,
  // 3721 us".
  [[nodiscard]] std::string text() const;
  // The factor by which the two figures differ: at least 1.
  [[nodiscard]] double ratio() const;
};

class PriceDoubts {
 public:
  static constexpr double kUnlike = 4.0;
  static constexpr Bytes kBandwidthBound = 16.0 * 1024.0 * 1024.0;

  // Keeps references to both models and to the topology.
  PriceDoubts(const CostModel& model, const Topology& topology, MeasuredModel measured)
      : model_(model), topology_(topology), measured_(std::move(measured)) {}

  // Nothing for a price that no reason speaks against, and for what moves nothing.
  [[nodiscard]] std::optional<PriceDoubt> of(const CollectiveQuery& query) const;

 private:
  const CostModel& model_;
  const Topology& topology_;
  MeasuredModel measured_;
};

// The time below which the links of a topology cannot carry a collective, in microseconds.
[[nodiscard]] double least_us(const CollectiveQuery& query, const Topology& topology);

}  // namespace shardlab
