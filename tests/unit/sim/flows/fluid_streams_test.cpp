#include "sim/flows/fluid_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "costmodel/base/error.h"
#include "tests/support/naive_fair_share.h"

namespace shardlab {
namespace fluid_streams_test {

using namespace testing_support;

FluidTask task(double work_us, int stream, std::vector<ResourceUse> uses = {},
               std::vector<int> after = {}) {
  return {.work_us = work_us, .stream = stream, .after = std::move(after), .uses = std::move(uses)};
}

std::vector<double> ends_of(const std::vector<FluidTask>& tasks, int streams, int resources) {
  std::vector<double> ends;
  for (const FluidSpan& span : simulate_fluid(tasks, streams, resources)) {
    ends.push_back(span.end_us);
  }
  return ends;
}

// Tasks with random dependencies, of which each uses up to `most` of some resources.
std::vector<FluidTask> random_tasks(std::mt19937_64& random, int count, int streams, int resources,
                                    double most) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  std::vector<FluidTask> tasks;
  for (int t = 0; t < count; ++t) {
    FluidTask next = task(random() % 10 == 0 ? 0.0 : 100.0 * share(random),
                          static_cast<int>(random() % static_cast<unsigned>(streams)));
    for (int r = 0; r < resources; ++r) {
      if (random() % 2 == 0) next.uses.push_back({r, most * share(random)});
    }
    for (int a = 0; t > 0 && a < 2; ++a) {
      if (random() % 3 == 0)
        next.after.push_back(static_cast<int>(random() % static_cast<unsigned>(t)));
    }
    tasks.push_back(std::move(next));
  }
  return tasks;
}

// The same by steps of time: at each start or end the speeds of all running tasks are computed
// anew.
std::vector<FluidSpan> naive_fluid(const std::vector<FluidTask>& tasks, int resources) {
  const std::vector<double> capacities(static_cast<std::size_t>(resources), 1.0);
  std::vector<FluidSpan> spans(tasks.size());
  std::vector<double> left;
  for (const FluidTask& t : tasks) left.push_back(t.work_us);
  std::vector<bool> begun(tasks.size(), false);
  std::vector<bool> ended(tasks.size(), false);
  double now = 0.0;
  std::size_t done = 0;
  while (done < tasks.size()) {
    std::vector<std::size_t> running;
    std::vector<NaiveFlow> flows;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (ended[t]) continue;
      bool may_run = true;
      for (const int a : tasks[t].after) may_run = may_run && ended[static_cast<std::size_t>(a)];
      for (std::size_t before = 0; before < t; ++before) {
        may_run = may_run && (ended[before] || tasks[before].stream != tasks[t].stream);
      }
      if (!may_run) continue;
      if (!begun[t]) spans[t].start_us = now;
      begun[t] = true;
      running.push_back(t);
      flows.push_back({.uses = tasks[t].uses});
    }
    const std::vector<double> speeds = naive_speeds(capacities, flows);
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < running.size(); ++i) {
      step = std::min(step, left[running[i]] / speeds[i]);
    }
    now += step;
    for (std::size_t i = 0; i < running.size(); ++i) {
      left[running[i]] -= step * speeds[i];
      if (left[running[i]] > 1e-9) continue;
      ended[running[i]] = true;
      spans[running[i]].end_us = now;
      ++done;
    }
  }
  return spans;
}

TEST(FluidStreams, TasksThatShareAResourceSlowEachOtherDown) {
  // Together they want 1.2 of resource 0, so both run at speed 1 / 1.2.
  EXPECT_THAT(ends_of({task(10, 0, {{0, 0.8}}), task(10, 1, {{0, 0.4}})}, 2, 1),
              testing::Pointwise(testing::DoubleNear(1e-12), {12.0, 12.0}));
  // The second task ends at 4 with half of the speed; the first has 8 left and then runs alone.
  EXPECT_EQ(ends_of({task(10, 0, {{0, 1.0}}), task(2, 1, {{0, 1.0}})}, 2, 1),
            (std::vector<double>{12, 4}));
  // Max-min: task 1 is held back to 1/2 on resource 0, and task 2 takes what task 1 leaves on
  // resource 1, which is 0.75 of it, so it runs at full speed.
  EXPECT_EQ(ends_of({task(10, 0, {{0, 1.0}}), task(10, 1, {{0, 1.0}, {1, 0.5}}),
                     task(10, 2, {{1, 0.75}})},
                    3, 2),
            (std::vector<double>{20, 20, 10}));
}

TEST(FluidStreams, ATaskThatStartsLaterSlowsDownTheRestOfTheOther) {
  // 4 us alone, then both at half speed until task 2 has done its 3 us, then 3 us alone.
  EXPECT_EQ(ends_of({task(10, 0, {{0, 1.0}}), task(4, 1), task(3, 1, {{0, 1.0}})}, 2, 1),
            (std::vector<double>{13, 4, 10}));
}

TEST(FluidStreams, WithoutContentionEndsArePlainSums) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::vector<FluidTask> tasks = random_tasks(random, 200, 4, 3, 0.25);
    const std::vector<FluidSpan> spans = simulate_fluid(tasks, 4, 3);
    std::vector<double> free(4, 0.0);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      double& its_stream = free[static_cast<std::size_t>(tasks[t].stream)];
      double start = its_stream;
      for (const int a : tasks[t].after) {
        start = std::max(start, spans[static_cast<std::size_t>(a)].end_us);
      }
      its_stream = start + tasks[t].work_us;
      ASSERT_EQ(spans[t].start_us, start) << t;
      ASSERT_EQ(spans[t].end_us, its_stream) << t;
    }
  }
}

// Shares that add up to 1 exactly, but not in floating point.
TEST(FluidStreams, AResourceThatIsUsedUpSlowsDownNobody) {
  std::vector<FluidTask> tasks;
  for (int s = 0; s < 10; ++s) tasks.push_back(task(7.3, s, {{0, 0.1}}));
  EXPECT_EQ(ends_of(tasks, 10, 1), std::vector<double>(10, 7.3));
  EXPECT_EQ(ends_of({task(7.3, 0, {{0, 1.0 + 1e-12}})}, 1, 1), std::vector<double>{7.3});
}

TEST(FluidStreams, EqualsStepsOfTime) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    const int streams = 1 + static_cast<int>(random() % 6);
    const int resources = static_cast<int>(random() % 4);
    const std::vector<FluidTask> tasks = random_tasks(random, 40, streams, resources, 1.0);
    const std::vector<FluidSpan> spans = simulate_fluid(tasks, streams, resources);
    const std::vector<FluidSpan> naive = naive_fluid(tasks, resources);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      ASSERT_NEAR(spans[t].start_us, naive[t].start_us, 1e-6) << "round " << round << " task " << t;
      ASSERT_NEAR(spans[t].end_us, naive[t].end_us, 1e-6) << "round " << round << " task " << t;
    }
  }
}

// Streams that all want the whole resource share it out, but lose none of it.
TEST(FluidStreams, AScarceResourceIsNeverIdle) {
  std::mt19937_64 random(3);
  std::vector<FluidTask> tasks;
  double sum = 0.0;
  for (int t = 0; t < 1000; ++t) {
    tasks.push_back(task(1 + static_cast<double>(random() % 50), t % 4, {{0, 1.0}}));
    sum += tasks.back().work_us;
  }
  double last = 0.0;
  for (const double end : ends_of(tasks, 4, 1)) last = std::max(last, end);
  EXPECT_NEAR(last, sum, 1e-7);
}

TEST(FluidStreams, RefusesWhatMakesNoSense) {
  const auto run = [](FluidTask wrong) {
    (void)simulate_fluid(std::vector<FluidTask>{task(1, 0), std::move(wrong)}, 2, 1);
  };
  EXPECT_NO_THROW(run(task(1, 1, {{0, 1.0}}, {0})));
  EXPECT_THROW(run(task(1, 1, {}, {1})), ContractError);
  EXPECT_THROW(run(task(1, 1, {}, {-1})), ContractError);
  EXPECT_THROW(run(task(1, 2)), ContractError);
  EXPECT_THROW(run(task(-1, 1)), ContractError);
  EXPECT_THROW(run(task(std::numeric_limits<double>::quiet_NaN(), 1)), ContractError);
  EXPECT_THROW(run(task(1, 1, {{1, 0.5}})), ContractError);
  EXPECT_THROW(run(task(1, 1, {{0, -0.5}})), ContractError);
  EXPECT_THROW(run(task(1, 1, {{0, 1.1}})), ContractError);
  EXPECT_THROW(run(task(1, 1, {{0, 0.6}, {0, 0.6}})), ContractError);
}

}  // namespace fluid_streams_test
}  // namespace shardlab
