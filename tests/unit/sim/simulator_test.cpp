// Runs in virtual time. tests/contract/execution_contract_test.cpp shows for random plans that
// folding changes nothing.
#include "sim/simulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace simulator_test {

using namespace testing_support;

ScheduledKernel compute(double us, std::vector<int> after = {}) {
  ScheduledKernel kernel;
  kernel.name = "kernel";
  kernel.price = Micros(us);
  kernel.after = std::move(after);
  return kernel;
}

ScheduledKernel collective(double us, double transfer_us, MeshDims mesh_dims,
                           std::vector<int> after = {}) {
  ScheduledKernel kernel = compute(us, std::move(after));
  kernel.name = "all_reduce";
  kernel.stream = Stream::kCommunication;
  kernel.mesh_dims = std::move(mesh_dims);
  kernel.transfer = Micros(transfer_us);
  kernel.full_bytes = 1024;
  return kernel;
}

Schedule schedule_of(const std::vector<ScheduledKernel>& kernels) {
  Schedule schedule;
  for (const ScheduledKernel& kernel : kernels) (void)schedule.add(kernel);
  return schedule;
}

SimulationResult simulated(const std::string& mesh, const Schedule& schedule,
                           const std::string& straggler, SimulationOptions options = {}) {
  options.slowdown = Slowdown::parse(straggler);
  return Simulator(DeviceMesh::parse(mesh), topology_with(4), options).run(schedule);
}

// The p-quantile of the standard normal distribution, by bisection.
double normal_quantile(double p) {
  double low = -10.0;
  double high = 10.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

TEST(Slowdown, ReadsBackWhatItPrints) {
  for (const char* text : {"none", "percent:5", "host:3:1.5", "link:0:4", "jitter:0.25"}) {
    EXPECT_EQ(Slowdown::parse(text).text(), text);
  }
}

TEST(Slowdown, SaysWhereAWrongTextIsWrong) {
  const auto parsing = [](const char* text) {
    return message_of<TextError>([&] { (void)Slowdown::parse(text); });
  };
  EXPECT_EQ(parsing("slow"),
            "straggler model \"slow\": at position 0: expected none, percent:P, host:H:FACTOR, "
            "link:H:FACTOR or jitter:SIGMA");
  EXPECT_EQ(parsing("jitter"), "straggler model \"jitter\": at position 6: expected :NUMBER");
  EXPECT_EQ(
      parsing("jitter:7"),
      "straggler model \"jitter:7\": at position 7: expected a standard deviation from 0 to 5");
  EXPECT_EQ(parsing("host:2"), "straggler model \"host:2\": at position 6: expected :FACTOR");
  EXPECT_EQ(parsing("host:2:0.5"),
            "straggler model \"host:2:0.5\": at position 7: expected a factor from 1 to 1e6");
  EXPECT_EQ(parsing("percent:5%"),
            "straggler model \"percent:5%\": at position 9: expected the end");
}

TEST(Simulator, RunsStreamsSideBySideAndEachInOrder) {
  // compute:        0 [---5---) 5 [--3--) 8
  // communication:            5 [----10----) 15      waits for kernel 0
  const Schedule schedule =
      schedule_of({compute(5), collective(10, 0, {0}, {0}), compute(3), compute(1, {1})});
  const SimulationResult result = simulated("4", schedule, "none");
  std::vector<double> ends;
  for (const KernelTimes& kernel : result.kernels) ends.push_back(kernel.end_us.max);
  EXPECT_EQ(ends, (std::vector<double>{5, 15, 8, 16}));
  EXPECT_EQ(result.time_us.max, 16);
  EXPECT_EQ(result.repetitions, 1);
}

// 8 ranks are on 2 hosts of 4, and host 1 takes twice as long. Groups of mesh dim 1 lie within a
// host, so only those of host 1 are late. The all-reduce across hosts then makes everybody wait.
TEST(Simulator, ASlowHostDelaysThoseWhoMeetIt) {
  const Schedule inside = schedule_of({compute(5), collective(10, 0, {1}, {0})});
  const SimulationResult alone = simulated("2x4", inside, "host:1:2", {.traced_ranks = 8});
  EXPECT_EQ(alone.time_us.max, 30);
  for (const TimelineSpan& span : alone.timeline.spans) {
    if (span.kernel != 1) continue;
    EXPECT_EQ(to_micros(span.ended), span.rank_index < 4 ? 15 : 30) << span.rank_index;
  }
  const Schedule across = schedule_of({compute(5), collective(10, 0, {0}, {0})});
  const SimulationResult met = simulated("2x4", across, "host:1:2", {.traced_ranks = 8});
  for (const TimelineSpan& span : met.timeline.spans) {
    if (span.kernel != 1) continue;
    EXPECT_EQ(to_micros(span.arrived), span.rank_index < 4 ? 5 : 10);
    EXPECT_EQ(to_micros(span.started), 10);
    EXPECT_EQ(to_micros(span.ended), 30);
  }
  EXPECT_EQ(met.kernels[1].wait_us, 2.5);  // half of the ranks wait for 5 us
}

// As in the test above, each rank of host 0 waits 5 us for its partner on host 1, which arrives
// last.
TEST(Simulator, SaysWhoWaitsForWhomAndForHowLong) {
  const Schedule across = schedule_of({compute(5), collective(10, 0, {0}, {0})});
  const SimulationResult run =
      simulated("2x4", across, "host:1:2", {.shown_ranks = {2, 6}, .tells_waits = true});
  ASSERT_EQ(run.waits.size(), 8U);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(run.waits[rank].waits_us, rank < 4 ? 5 : 0) << rank;
    EXPECT_EQ(run.waits[rank].delays_us, rank < 4 ? 0 : 5) << rank;
    EXPECT_EQ(run.waits[rank].end_us, 30) << rank;
  }
  EXPECT_EQ(run.timeline.rank_indices, (std::vector<std::int64_t>{2, 6}));
  ASSERT_EQ(run.timeline.spans.size(), 4U);
  for (const TimelineSpan& span : run.timeline.spans) {
    EXPECT_EQ(span.last_index, span.kernel == 1 ? 6 : span.rank_index);
  }
  EXPECT_TRUE(simulated("2x4", across, "host:1:2").waits.empty());
  EXPECT_TRUE(simulated("2x4", across, "host:1:2").timeline.spans.empty());
}

// The ranks are alike, so that one stands for all: nobody waits, and any rank can be shown.
TEST(Simulator, ShowsAnyRankOfARunThatIsFolded) {
  const Schedule across = schedule_of({compute(5), collective(10, 0, {0}, {0})});
  const SimulationResult run =
      simulated("2x4", across, "none", {.shown_ranks = {5}, .tells_waits = true});
  ASSERT_EQ(run.waits.size(), 1U);
  EXPECT_EQ(run.waits[0].waits_us, 0);
  EXPECT_EQ(run.waits[0].end_us, 15);
  ASSERT_EQ(run.timeline.spans.size(), 2U);
  EXPECT_EQ(run.timeline.spans[1].rank_index, 5);
  EXPECT_EQ(run.timeline.spans[1].last_index, 5);
}

ScheduledKernel on(Stream stream, ScheduledKernel kernel) {
  kernel.stream = stream;
  return kernel;
}

std::vector<double> ends_of(const SimulationResult& result) {
  std::vector<double> ends;
  for (const KernelTimes& kernel : result.kernels) ends.push_back(kernel.end_us.max);
  return ends;
}

TEST(SimulatorContention, TransfersThatOverlapShareTheirLinks) {
  // Each spends 2 us before its transfer of 8 us. On the network of hosts of 4 both transfer from 2
  // to 18; over the network and over NVLink each transfers alone.
  const auto both = [](MeshDims a, MeshDims b) {
    const Schedule schedule = schedule_of(
        {collective(10, 8, std::move(a)), on(Stream::kGather, collective(10, 8, std::move(b)))});
    return ends_of(simulated("2x4", schedule, "none", {.contention = true}));
  };
  EXPECT_EQ(both({0}, {0}), (std::vector<double>{18, 18}));
  EXPECT_EQ(both({1}, {1}), (std::vector<double>{18, 18}));
  EXPECT_EQ(both({0}, {1}), (std::vector<double>{10, 10}));
}

TEST(SimulatorContention, SpeedsChangeWhenTransfersStartAndEnd) {
  // communication: 2 us, then 5 of its 8 us alone, and 3 us at half speed, until 13
  // gathers:       from 5 on; it transfers from 7 on, 3 us at half speed, and 5 us alone until 18
  const Schedule schedule =
      schedule_of({compute(5), collective(10, 8, {0}),
                   on(Stream::kGather, collective(10, 8, {0}, {0})), compute(1, {2})});
  for (const bool fold : {true, false}) {
    const SimulationResult result =
        simulated("2x4", schedule, "none", {.fold = fold, .contention = true});
    EXPECT_EQ(ends_of(result), (std::vector<double>{5, 13, 18, 19}));
    EXPECT_EQ(result.simulated_ranks, fold ? 1 : 8);
  }
  EXPECT_EQ(ends_of(simulated("2x4", schedule, "none")), (std::vector<double>{5, 10, 15, 16}));
  // Everything takes twice as long, also the transfers.
  EXPECT_EQ(ends_of(simulated("2x4", schedule, "percent:100", {.contention = true})),
            (std::vector<double>{10, 26, 36, 38}));
}

// Random kernels on some of the streams.
Schedule random_schedule(std::mt19937_64& random, std::vector<Stream> streams, int mesh_dims) {
  Schedule schedule;
  for (int k = 0; k < 30; ++k) {
    std::vector<int> after;
    if (k > 0 && random() % 2 == 0) after.push_back(static_cast<int>(random() % to_index(k)));
    const double us = 0.001 * static_cast<double>(1 + random() % 20000);
    const Stream stream = streams[random() % streams.size()];
    if (stream == Stream::kCompute) {
      (void)schedule.add(compute(us, after));
      continue;
    }
    const double transfer = us * static_cast<double>(random() % 11) / 10;
    MeshDims dims = {static_cast<int>(random() % to_index(mesh_dims))};
    ScheduledKernel kernel = on(stream, collective(us, transfer, std::move(dims), after));
    if (random() % 3 == 0) kernel.name = "all_to_all";
    (void)schedule.add(std::move(kernel));
  }
  return schedule;
}

TEST(SimulatorContention, OneStreamOfCollectivesTakesItsPricesToTheDigit) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    const Schedule schedule =
        random_schedule(random, {Stream::kCompute, Stream::kCommunication}, 2);
    for (const char* straggler : {"none", "percent:7", "host:1:1.5", "link:0:3", "jitter:0.2"}) {
      const SimulationOptions off{.repetitions = 3};
      const SimulationOptions on{.repetitions = 3, .contention = true};
      const SimulationResult without = simulated("4x4", schedule, straggler, off);
      const SimulationResult with = simulated("4x4", schedule, straggler, on);
      ASSERT_EQ(ends_of(without), ends_of(with)) << straggler;
      ASSERT_EQ(without.time_us.p50, with.time_us.p50) << straggler;
      ASSERT_EQ(without.simulated_ranks, with.simulated_ranks) << straggler;
    }
  }
}

// One rank stands for all: the same as when each rank's links are followed, but for the rounding of
// picoseconds. Starting later, or ending earlier, by a picosecond may move what follows by as much.
TEST(SimulatorContention, FoldingChangesNothing) {
  std::mt19937_64 random(2);
  int slower = 0;
  for (int round = 0; round < 60; ++round) {
    const Schedule schedule = random_schedule(
        random, {Stream::kCompute, Stream::kCommunication, Stream::kGather, Stream::kReduction}, 3);
    const SimulationResult folded = simulated("2x2x4", schedule, "none", {.contention = true});
    const SimulationResult all =
        simulated("2x2x4", schedule, "none", {.fold = false, .contention = true});
    ASSERT_EQ(folded.simulated_ranks, 1);
    ASSERT_EQ(all.simulated_ranks, 16);
    const std::vector<double> ends = ends_of(folded);
    const std::vector<double> ends_of_all = ends_of(all);
    for (std::size_t k = 0; k < ends.size(); ++k) {
      ASSERT_NEAR(ends[k], ends_of_all[k], 1e-4) << "round " << round << " kernel " << k;
    }
    if (folded.time_us.max > simulated("2x2x4", schedule, "none").time_us.max) ++slower;
  }
  EXPECT_GT(slower, 30);
}

TEST(SimulatorContention, TheResultDoesNotDependOnThreads) {
  std::mt19937_64 random(3);
  const Schedule schedule =
      random_schedule(random, {Stream::kCommunication, Stream::kGather, Stream::kReduction}, 2);
  SimulationOptions options{.repetitions = 8, .contention = true};
  const SimulationResult one = simulated("4x4", schedule, "jitter:0.3", options);
  options.threads = 4;
  EXPECT_EQ(ends_of(one), ends_of(simulated("4x4", schedule, "jitter:0.3", options)));
  options.contention = false;
  EXPECT_LT(simulated("4x4", schedule, "jitter:0.3", options).time_us.p50, one.time_us.p50);
}

TEST(SimulatorContention, AMillionRanksFoldIfTheyFillTheHostsEvenly) {
  const Schedule schedule =
      schedule_of({collective(10, 8, {0}), on(Stream::kGather, collective(10, 8, {0}))});
  const SimulationResult result = simulated("1024x1024", schedule, "none", {.contention = true});
  EXPECT_EQ(ends_of(result), (std::vector<double>{18, 18}));
  EXPECT_EQ(result.simulated_ranks, 1);
  EXPECT_EQ(
      message_of<LimitError>(
          [&] { (void)simulated("65536x3", schedule, "none", {.contention = true}); }),
      "contention needs the links of each of 196608 ranks, since they are not alike; valid: at "
      "most 65536 ranks, or mesh dims that fill the hosts evenly and the straggler model none "
      "or percent:P");
}

TEST(Simulator, ASlowLinkStretchesTheTransferOfGroupsThatLeaveItsHost) {
  const Schedule schedule = schedule_of({collective(10, 4, {1}), collective(10, 4, {0})});
  const SimulationResult result = simulated("2x4", schedule, "link:0:3");
  EXPECT_EQ(result.kernels[0].end_us.max, 10);
  EXPECT_EQ(result.kernels[1].end_us.max, 10 + 10 + 2 * 4);
  EXPECT_EQ(simulated("4x1", schedule, "link:0:3").time_us.max, 20);  // one host has no such link
}

// Two hosts of 4 make one NVLink domain of 8: between them no network link is used.
TEST(Simulator, ASlowLinkStretchesNothingInsideAnNvlinkDomain) {
  const Schedule schedule = schedule_of({collective(10, 4, {1}), collective(10, 4, {0})});
  const auto end_of = [&](const char* mesh, std::int64_t domain) {
    const SimulationOptions options{.slowdown = Slowdown::parse("link:0:3")};
    return Simulator(DeviceMesh::parse(mesh), domain_topology(domain), options)
        .run(schedule)
        .kernels[1]
        .end_us.max;
  };
  EXPECT_EQ(end_of("2x4", 8), 20);
  EXPECT_EQ(end_of("4x4", 8), 10 + 10 + 2 * 4);
}

// The p-quantile of the slowest rank's factor among n ranks is exp(sigma z), where z is the normal
// quantile of p^(1/n).
TEST(Simulator, JitterShowsTheOrderStatisticsOfItsRanks) {
  constexpr double kSigma = 0.25;
  double last = 0.0;
  for (const int n : {1, 4, 64, 1024}) {
    const SimulationResult result =
        simulated(std::to_string(n), schedule_of({collective(100, 50, {0})}), "jitter:0.25",
                  {.seed = 7, .repetitions = 4000});
    const auto expected = [&](double p) {
      return 100 * std::exp(kSigma * normal_quantile(std::pow(p, 1.0 / n)));
    };
    EXPECT_NEAR(result.time_us.p50 / expected(0.5), 1.0, 0.02) << n;
    EXPECT_NEAR(result.time_us.p95 / expected(0.95), 1.0, 0.03) << n;
    EXPECT_GT(result.time_us.p50, last);
    last = result.time_us.p50;
    EXPECT_EQ(result.simulated_ranks, n);
    EXPECT_EQ(result.repetitions, 4000);
  }
}

TEST(Simulator, GivesTheSameTimesForAnyNumberOfThreadsAndOthersForAnotherSeed) {
  const Schedule schedule = schedule_of(
      {compute(5), collective(10, 4, {0}, {0}), collective(7, 4, {1}, {1}), compute(2)});
  const auto run = [&](int threads, std::uint64_t seed) {
    const SimulationResult result =
        simulated("3x5", schedule, "jitter:0.3",
                  {.seed = seed, .repetitions = 50, .threads = threads, .traced_ranks = 5});
    std::vector<double> numbers = {result.time_us.p50, result.time_us.p95, result.time_us.max};
    for (const KernelTimes& kernel : result.kernels) {
      numbers.push_back(kernel.end_us.p50);
      numbers.push_back(kernel.wait_us);
    }
    for (const TimelineSpan& span : result.timeline.spans) {
      numbers.push_back(static_cast<double>(span.ended));
    }
    return numbers;
  };
  EXPECT_EQ(run(1, 1), run(4, 1));
  EXPECT_NE(run(1, 1), run(1, 2));
}

TEST(Simulator, FoldsAMillionRanksThatAreAlikeAndBoundsTheMemoryOfOthers) {
  const Schedule schedule = schedule_of({collective(10, 4, {0}), collective(10, 4, {1})});
  const SimulationResult folded = simulated("1024x1024", schedule, "percent:50");
  EXPECT_EQ(folded.simulated_ranks, 1);
  EXPECT_EQ(folded.time_us.max, 30);
  const std::string message = message_of<LimitError>([&] {
    (void)simulated("1024x1024", schedule, "jitter:0.1", {.memory_limit_bytes = 1 << 20});
  });
  EXPECT_EQ(
      message,
      "the run needs 120 MiB for the clocks of 1048576 ranks, since each has its own under "
      "jitter:0.1, and 64 B for 1 repetition of 2 kernels; the limit is 1 MiB; valid: a higher "
      "limit, fewer ranks or repetitions, or the straggler model none or percent:P");
}

TEST(Simulator, RefusesAHostThatTheMeshDoesNotReach) {
  EXPECT_EQ(message_of<InputError>([] { (void)simulated("2x4", {}, "host:2:2"); }),
            "straggler model host:2:2: mesh 2x4 has no host 2; valid: 0 to 1");
}

TEST(Simulator, CountsWhatRepetitionsLeaveAsMemory) {
  const std::string message = message_of<LimitError>([] {
    (void)simulated("4", schedule_of({compute(1)}), "jitter:0.1",
                    {.repetitions = 100000, .memory_limit_bytes = 1 << 20});
  });
  EXPECT_TRUE(
      message.starts_with("the run needs 432 B for the clocks of 4 ranks, since each has its own "
                          "under jitter:0.1, and 3.1 MiB for 100000 repetitions of 1 kernel;"))
      << message;
}

// One slice has ranks 0, 2, 4 and 6 of 8 on hosts of 4; another stays on host 0 and has no host 1.
TEST(Simulator, KnowsTheHostsOfASlice) {
  const DeviceMesh root = DeviceMesh::parse("a=2,b=2,c=2");
  const Schedule schedule = schedule_of({compute(5)});
  const Topology topology = topology_with(4);
  const auto run = [&](const std::vector<std::string>& axes) {
    return Simulator(root.slice(axes), topology, {.slowdown = Slowdown::parse("host:1:2")})
        .run(schedule)
        .time_us.max;
  };
  EXPECT_EQ(run({"a", "b"}), 10);
  EXPECT_EQ(message_of<InputError>([&] {
              (void)run({"b", "c"});
            }),
            "straggler model host:1:2: mesh b=2,c=2 has no host 1; valid: 0 to 0");
}

TEST(Simulator, AnEmptyScheduleTakesNoTime) {
  EXPECT_EQ(simulated("4", {}, "none").time_us.max, 0);
  EXPECT_EQ(simulated("4", {}, "jitter:0.1", {.repetitions = 3}).time_us.max, 0);
}

TEST(Quantiles, AreByNearestRank) {
  const Quantiles q = quantiles_of({5, 1, 4, 2, 3});
  EXPECT_EQ(q.p50, 3);
  EXPECT_EQ(q.p95, 5);
  EXPECT_EQ(q.max, 5);
}

}  // namespace simulator_test
}  // namespace shardlab
