// Times collectives on a backend over sizes and dtypes, in place and out of place.
//
//   const std::vector<MeasuredRow> rows = measure_collectives(run, {.collectives = {...}, ...});
//
// Every process of the world makes the same call; process 0 gets the rows. The time of one
// iteration is the shortest among the ranks: the last rank to arrive waits for no other, so its
// time runs from the last arrival to the end. The longest time minus the shortest is how long the
// earliest rank waited.
#pragma once

#include <span>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "runner/launch/rendezvous.h"
#include "runner/launch/watchdog.h"
#include "runner/nccl/backend.h"

namespace shardlab {

// What every part of a measurement needs.
struct MeasuringRun {
  Backend& backend;
  Rendezvous& meeting;
  Watchdog& watchdog;
};

struct CollectiveRequest {
  std::vector<Collective> collectives;
  std::vector<DType> dtypes;
  double min_bytes = 0.0;  // bytes of the full array
  double max_bytes = 0.0;
  double step_factor = 2.0;
  int warmup = 5;
  int iterations = 20;
};

// The collectives that a backend can run.
inline constexpr std::string_view kMeasuredCollectives =
    "all_reduce all_gather reduce_scatter all_to_all broadcast send_recv";

[[nodiscard]] std::vector<MeasuredRow> measure_collectives(const MeasuringRun& run,
                                                           const CollectiveRequest& request);

// Element counts in rising order for sizes from min to max bytes, each a multiple of the number of
// ranks.
[[nodiscard]] std::vector<std::int64_t> counts_of(const CollectiveRequest& request, DType dtype,
                                                  std::int64_t ranks);

// Summary of the iterations of one row. `times_us` has one list per rank, with one time per
// iteration; all lists are equally long.
struct IterationSummary {
  double mean_us = 0.0;
  double p5_us = 0.0;
  double p50_us = 0.0;
  double p95_us = 0.0;
  double wait_us = 0.0;
};
[[nodiscard]] IterationSummary summarize_iterations(std::span<const std::vector<double>> times_us);

}  // namespace shardlab
