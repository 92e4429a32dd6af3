#include "runner/measure/collective_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "reports/statistics.h"

namespace shardlab {
namespace {

bool reduces_data(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter;
}

// Collects the times of all ranks of the world on every process, ordered by rank.
std::vector<std::vector<double>> gather_times(const MeasuringRun& run,
                                              const std::vector<std::vector<double>>& mine) {
  std::string text;
  for (const std::vector<double>& times : mine) {
    text.append(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
  }
  const std::size_t iterations = mine.front().size();
  std::vector<std::vector<double>> all;
  const std::size_t most = to_index(run.backend.ranks().world) * iterations * sizeof(double);
  for (const std::string& part : run.meeting.all_gather(text, most)) {
    if (part.size() % (iterations * sizeof(double)) != 0) {
      throw EnvironmentError("a rank sends " + std::to_string(part.size()) +
                             " bytes of times; valid: a multiple of " +
                             std::to_string(iterations * sizeof(double)));
    }
    for (std::size_t begin = 0; begin < part.size(); begin += iterations * sizeof(double)) {
      all.emplace_back(iterations);
      std::memcpy(all.back().data(), part.data() + begin, iterations * sizeof(double));
    }
  }
  return all;
}

// Buffers of one size on every local rank.
class Buffers {
 public:
  Buffers(Backend& backend, const CollectiveCall& call)
      : call_(call), size_(backend.ranks().world) {
    const std::int64_t bytes = call.count * itemsize(call.dtype);
    for (std::int64_t i = 0; i < backend.ranks().local; ++i) {
      send_.push_back(backend.allocate(i, bytes));
      receive_.push_back(backend.allocate(i, bytes));
    }
    first_ = backend.ranks().first;
  }

  [[nodiscard]] std::vector<CallBuffers> out_of_place() const {
    std::vector<CallBuffers> out;
    for (std::size_t i = 0; i < send_.size(); ++i)
      out.push_back({send_[i].get(), receive_[i].get()});
    return out;
  }
  // Buffers for calls in place, where a rank's part lies within the buffer of the whole. Empty for
  // collectives that can't run in place.
  [[nodiscard]] std::vector<CallBuffers> in_place() const {
    std::vector<CallBuffers> out;
    if (call_.kind == Collective::kAllToAll || call_.kind == Collective::kSendRecv) return out;
    const std::int64_t part = call_.count / size_ * itemsize(call_.dtype);
    for (std::size_t i = 0; i < send_.size(); ++i) {
      std::byte* whole = receive_[i].get();
      std::byte* mine = whole + part * (first_ + static_cast<std::int64_t>(i));
      out.push_back({call_.kind == Collective::kAllGather ? mine : whole,
                     call_.kind == Collective::kReduceScatter ? mine : whole});
    }
    return out;
  }

 private:
  CollectiveCall call_;
  std::int64_t size_;
  std::int64_t first_ = 0;
  std::vector<DevicePointer> send_;
  std::vector<DevicePointer> receive_;
};

IterationSummary time_call(const MeasuringRun& run, Group& group, const CollectiveCall& call,
                           const std::vector<CallBuffers>& buffers,
                           const CollectiveRequest& request) {
  const std::vector<CollectiveCall> calls(buffers.size(), call);
  for (int i = 0; i < request.warmup; ++i) group.run(calls, buffers);
  run.meeting.barrier();
  return summarize_iterations(gather_times(run, group.time_us(call, buffers, request.iterations)));
}

}  // namespace

std::vector<std::int64_t> counts_of(const CollectiveRequest& request, DType dtype,
                                    std::int64_t ranks) {
  std::vector<std::int64_t> counts;
  const double item = itemsize(dtype);
  for (double bytes = request.min_bytes; bytes <= request.max_bytes * (1 + 1e-12);
       bytes *= request.step_factor) {
    const auto elements = static_cast<std::int64_t>(bytes / item);
    const std::int64_t count = std::max(elements / ranks, std::int64_t{1}) * ranks;
    if (counts.empty() || count > counts.back()) counts.push_back(count);
  }
  return counts;
}

IterationSummary summarize_iterations(std::span<const std::vector<double>> times_us) {
  std::vector<double> shortest;
  std::vector<double> waits;
  for (std::size_t n = 0; n < times_us.front().size(); ++n) {
    double low = times_us.front()[n];
    double high = low;
    for (const std::vector<double>& of_rank : times_us) {
      low = std::min(low, of_rank[n]);
      high = std::max(high, of_rank[n]);
    }
    shortest.push_back(low);
    waits.push_back(high - low);
  }
  const double sum = std::accumulate(shortest.begin(), shortest.end(), 0.0);
  return {.mean_us = sum / static_cast<double>(shortest.size()),
          .p5_us = reports::percentile(shortest, 0.05).value_or(0.0),
          .p50_us = reports::percentile(shortest, 0.5).value_or(0.0),
          .p95_us = reports::percentile(shortest, 0.95).value_or(0.0),
          .wait_us = reports::percentile(waits, 0.5).value_or(0.0)};
}

std::vector<MeasuredRow> measure_collectives(const MeasuringRun& run,
                                             const CollectiveRequest& request) {
  const std::int64_t ranks = run.backend.ranks().world;
  const std::unique_ptr<Group> world =
      run.backend.make_group(std::vector<std::int64_t>(to_index(ranks), 0));
  std::vector<MeasuredRow> rows;
  for (const Collective kind : request.collectives) {
    for (const DType dtype : request.dtypes) {
      if (reduces_data(kind) && !run.backend.reduces(ReduceOp::kSum, dtype)) continue;
      for (const std::int64_t count : counts_of(request, dtype, ranks)) {
        const CollectiveCall call = {.kind = kind, .dtype = dtype, .count = count};
        MeasuredRow row;
        row.collective = kind;
        row.dtype = to_string(dtype);
        row.bytes = static_cast<double>(count * itemsize(dtype));
        run.watchdog.step(std::string(to_string(kind)) + " of " + format_bytes(row.bytes) + " " +
                          row.dtype);
        const Buffers buffers(run.backend, call);
        const std::vector<CallBuffers> apart = buffers.out_of_place();
        const IterationSummary summary = time_call(run, *world, call, apart, request);
        // A time is never recorded as zero, even if it is below the clock's resolution.
        constexpr double kLeastUs = 1e-3;
        row.time_us = std::max(summary.mean_us, kLeastUs);
        row.p5_us = std::max(summary.p5_us, kLeastUs);
        row.p50_us = std::max(summary.p50_us, kLeastUs);
        row.p95_us = std::max(summary.p95_us, kLeastUs);
        row.wait_us = summary.wait_us;
        row.iterations = request.iterations;
        if (const auto in_place = buffers.in_place(); !in_place.empty()) {
          row.in_place_time_us =
              std::max(time_call(run, *world, call, in_place, request).mean_us, kLeastUs);
        }
        row.nccl_estimate_us = world->estimate_us(call, apart);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace shardlab
