// When tasks of a few streams start and end, if tasks that run at once slow each other down.
//
//   const std::vector<FluidTask> tasks = {
//       {.work_us = 10, .stream = 0, .uses = {{0, 0.8}}},   // a kernel: 80 % of the memory's rate
//       {.work_us = 10, .stream = 1, .uses = {{0, 0.4}}}};  // a collective beside it
//   simulate_fluid(tasks, 2, 1);                            // both take 12, at speed 1 / 1.2
//
// Time is in microseconds. A task starts when the task before it on its stream and all tasks that
// it waits for have ended. It runs at a speed of at most 1; at speed 1 it takes its work. Speeds
// are max-min fair (sim/flows/fair_share.h), and are computed anew whenever a task starts or ends.
// A task that is never slowed down takes exactly its work, so that its end is the plain sum of its
// start and its work. Status: assumed; hardware schedules blocks of threads and packets, not fair
// shares.
#pragma once

#include <span>
#include <vector>

#include "sim/flows/fair_share.h"

namespace shardlab {

struct FluidTask {
  double work_us = 0.0;           // how long it takes alone
  int stream = 0;                 // tasks of a stream run one after the other, in this order
  std::vector<int> after;         // earlier tasks that must have ended, by index
  std::vector<ResourceUse> uses;  // what it uses at speed 1; a task that uses nothing has no rivals
};

struct FluidSpan {
  double start_us = 0.0;
  double end_us = 0.0;
};

// The spans of the tasks, by index. Each resource has the capacity 1. Throws ContractError for a
// task that waits for one that is not earlier, for an unknown stream or resource, for work that is
// negative or not finite, and for a task that uses less than none or more than all of a resource.
// It takes O(n log streams), and each start and end the time of an update of FairShare.
[[nodiscard]] std::vector<FluidSpan> simulate_fluid(std::span<const FluidTask> tasks, int streams,
                                                    int resources);

}  // namespace shardlab
