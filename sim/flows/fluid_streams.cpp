#include "sim/flows/fluid_streams.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// How much more than all of a resource a task may use, since shares are often quotients.
constexpr double kRounding = 1e-9;

using Uses = boost::container::small_vector<ResourceUse, 8>;

// The uses with each resource named once.
Uses merged(std::span<const ResourceUse> uses) {
  Uses merged;
  for (const ResourceUse& use : uses) {
    const auto known = std::find_if(merged.begin(), merged.end(), [&](const ResourceUse& m) {
      return m.resource == use.resource;
    });
    if (known == merged.end()) {
      merged.push_back(use);
    } else {
      known->amount += use.amount;
    }
  }
  return merged;
}

// The earliest of the times at which streams end their tasks: a tree of comparisons, of which
// changing one time renews a single path.
class EarliestEnd {
 public:
  explicit EarliestEnd(std::size_t streams) {
    while (leaves_ < streams) leaves_ *= 2;
    times_.assign(2 * leaves_, kNever);
  }
  void set(std::size_t stream, double time) {
    std::size_t node = leaves_ + stream;
    times_[node] = time;
    while (node > 1) {
      node /= 2;
      times_[node] = std::min(times_[2 * node], times_[2 * node + 1]);
    }
  }
  [[nodiscard]] double time() const { return times_[1]; }
  // A stream that ends its task at time(). Assumes that time() is finite.
  [[nodiscard]] std::size_t stream() const {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (times_[2 * node] == times_[node] ? 0 : 1);
    return node - leaves_;
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<double> times_;
};

class FluidRun {
 public:
  FluidRun(std::span<const FluidTask> tasks, int streams, int resources)
      : tasks_(tasks),
        share_(std::vector<double>(to_index(resources), 1.0)),
        streams_(to_index(streams)),
        ends_(to_index(streams)),
        missing_(tasks.size(), 0),
        first_waiting_(tasks.size() + 1, 0),
        spans_(tasks.size()) {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      expect_task(tasks[t], static_cast<int>(t), streams, resources);
      streams_[to_index(tasks[t].stream)].tasks.push_back(static_cast<int>(t));
      missing_[t] = static_cast<int>(tasks[t].after.size());
      for (const int earlier : tasks[t].after) ++first_waiting_[to_index(earlier) + 1];
    }
    for (std::size_t t = 0; t < tasks.size(); ++t) first_waiting_[t + 1] += first_waiting_[t];
    waiting_.resize(first_waiting_.back());
    std::vector<std::size_t> filled(first_waiting_.begin(), first_waiting_.end() - 1);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      for (const int earlier : tasks[t].after) {
        waiting_[filled[to_index(earlier)]++] = static_cast<int>(t);
      }
    }
  }

  std::vector<FluidSpan> run() {
    for (std::size_t s = 0; s < streams_.size(); ++s) start(s, 0.0);
    settle(0.0);
    while (ends_.time() < kNever) {
      // All tasks that end now end before speeds are shared anew.
      const double now = ends_.time();
      while (ends_.time() == now) end(ends_.stream(), now);
      settle(now);
    }
    return std::move(spans_);
  }

 private:
  struct StreamState {
    std::vector<int> tasks;
    std::size_t next = 0;  // position of the task that runs or waits
    bool runs = false;
    int flow = -1;       // the flow of the task that runs; -1 if it uses nothing
    double since = 0.0;  // when its speed last changed
    double left = 0.0;   // its work that was left then
    double speed = 1.0;
  };

  static void expect_task(const FluidTask& task, int index, int streams, int resources) {
    SHARDLAB_CHECK(task.stream >= 0 && task.stream < streams, "task ", index, " is on stream ",
                   task.stream, " of ", streams);
    SHARDLAB_CHECK(task.work_us >= 0.0 && std::isfinite(task.work_us), "task ", index, " takes ",
                   task.work_us, " us");
    for (const int earlier : task.after) {
      SHARDLAB_CHECK(earlier >= 0 && earlier < index, "task ", index, " waits for task ", earlier);
    }
    for (const ResourceUse& use : task.uses) {
      SHARDLAB_CHECK(use.resource >= 0 && use.resource < resources, "task ", index,
                     " uses resource ", use.resource, " of ", resources);
      SHARDLAB_CHECK(use.amount >= 0.0, "task ", index, " uses ", use.amount, " of resource ",
                     use.resource);
    }
    for (const ResourceUse& use : merged(task.uses)) {
      SHARDLAB_CHECK(use.amount <= 1.0 + kRounding, "task ", index, " uses ", use.amount,
                     " of resource ", use.resource);
    }
  }

  // Starts the next task of an idle stream, unless it must wait.
  void start(std::size_t s, double now) {
    StreamState& stream = streams_[s];
    if (stream.runs || stream.next == stream.tasks.size()) return;
    const auto task = to_index(stream.tasks[stream.next]);
    if (missing_[task] > 0) return;
    spans_[task].start_us = now;
    stream.runs = true;
    stream.since = now;
    stream.left = tasks_[task].work_us;
    stream.speed = 1.0;
    ends_.set(s, now + stream.left);
    if (tasks_[task].uses.empty() || stream.left == 0.0) return;
    Uses uses = merged(tasks_[task].uses);
    for (ResourceUse& use : uses) use.amount = std::min(use.amount, 1.0);
    stream.flow = share_.add({uses.data(), uses.size()});
    if (to_index(stream.flow) >= stream_of_.size()) stream_of_.resize(to_index(stream.flow) + 1);
    stream_of_[to_index(stream.flow)] = s;
  }

  void end(std::size_t s, double now) {
    StreamState& stream = streams_[s];
    const auto task = to_index(stream.tasks[stream.next]);
    spans_[task].end_us = now;
    stream.runs = false;
    ++stream.next;
    ends_.set(s, kNever);
    if (stream.flow >= 0) share_.remove(stream.flow);
    stream.flow = -1;
    start(s, now);
    for (std::size_t w = first_waiting_[task]; w < first_waiting_[task + 1]; ++w) {
      const auto waiting = to_index(waiting_[w]);
      if (--missing_[waiting] > 0) continue;
      const StreamState& its = streams_[to_index(tasks_[waiting].stream)];
      if (its.next < its.tasks.size() && to_index(its.tasks[its.next]) == waiting) {
        start(to_index(tasks_[waiting].stream), now);
      }
    }
  }

  // Gives the running tasks the speeds that they have from now on.
  void settle(double now) {
    for (const int flow : share_.update()) {
      const std::size_t s = stream_of_[to_index(flow)];
      StreamState& stream = streams_[s];
      const double speed = share_.speed(flow);
      if (speed == stream.speed) continue;  // a new task starts out with speed 1
      stream.left = std::max(0.0, stream.left - (now - stream.since) * stream.speed);
      stream.since = now;
      stream.speed = speed;
      ends_.set(s, now + stream.left / speed);
    }
  }

  std::span<const FluidTask> tasks_;
  FairShare share_;
  std::vector<StreamState> streams_;
  EarliestEnd ends_;
  std::vector<int> missing_;                // by task: how many of `after` have not ended
  std::vector<std::size_t> first_waiting_;  // by task: where its part of `waiting_` begins
  std::vector<int> waiting_;                // the tasks that wait for a task
  std::vector<std::size_t> stream_of_;      // by flow
  std::vector<FluidSpan> spans_;
};

}  // namespace

std::vector<FluidSpan> simulate_fluid(std::span<const FluidTask> tasks, int streams,
                                      int resources) {
  SHARDLAB_CHECK(streams >= 0 && resources >= 0, streams, " streams, ", resources, " resources");
  return FluidRun(tasks, streams, resources).run();
}

}  // namespace shardlab
