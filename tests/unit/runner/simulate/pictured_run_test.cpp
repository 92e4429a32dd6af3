#include "runner/simulate/pictured_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/records/simulation_record.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace pictured_run_test {

using namespace testing_support;

// A kernel of 5 us, then a collective of 10 us over mesh dim 0, then a kernel of 1 us.
Schedule three_tasks() {
  Schedule schedule;
  ScheduledKernel kernel;
  kernel.name = "aten.mm.default";
  kernel.price = Micros(5);
  (void)schedule.add(kernel);
  ScheduledKernel collective;
  collective.name = "all_reduce";
  collective.stream = Stream::kCommunication;
  collective.mesh_dims = {0};
  collective.price = Micros(10);
  collective.full_bytes = 512;
  collective.after = {0};
  (void)schedule.add(collective);
  kernel.price = Micros(1);
  kernel.after = {1};
  (void)schedule.add(kernel);
  return schedule;
}

nlohmann::json timeline_of(const Schedule& schedule, const std::string& straggler) {
  const DeviceMesh mesh = DeviceMesh::parse("2x4");
  const Topology topology = topology_with(4);
  SimulationOptions options{.slowdown = Slowdown::parse(straggler), .tells_waits = true};
  const SimulationResult run = Simulator(mesh, topology, options).run(schedule);
  const std::vector<PicturedRank> ranks = ranks_to_draw(run.waits);
  for (const PicturedRank& rank : ranks) options.shown_ranks.push_back(rank.index);
  const SimulationResult shown = Simulator(mesh, topology, options).run(schedule);
  std::vector<std::string> labels;
  for (const ScheduledKernel& kernel : schedule.kernels) labels.push_back(kernel.name);
  return timeline_json(ranks, schedule, labels, shown.timeline, mesh, topology);
}

TEST(PicturedRun, DrawsTheSlowestRankAndOneThatWaitsAsMostDo) {
  const auto drawn = [](std::vector<RankWaits> waits) {
    std::vector<std::pair<std::int64_t, std::string>> ranks;
    for (const PicturedRank& rank : ranks_to_draw(waits)) {
      ranks.emplace_back(rank.index, std::string(rank.role));
    }
    return ranks;
  };
  using Ranks = std::vector<std::pair<std::int64_t, std::string>>;
  EXPECT_EQ(drawn({}), Ranks());
  EXPECT_EQ(drawn({{0, 0, 15}, {0, 0, 15}}), (Ranks{{0, "alike"}}));
  // Rank 1 delays the others; of these the waits are 1, 4 and 9 us.
  EXPECT_EQ(drawn({{4, 0, 15}, {0, 14, 15}, {1, 0, 15}, {9, 0, 15}}),
            (Ranks{{0, "usual"}, {1, "slowest"}}));
  // Nobody waits: rank 2 is slow because it ends last.
  EXPECT_EQ(drawn({{0, 0, 15}, {0, 0, 15}, {0, 0, 30}}), (Ranks{{0, "usual"}, {2, "slowest"}}));
}

// Host 1 takes twice as long: its kernel ends at 10, its collective at 10 + 20, its last kernel at
// 32.
TEST(PicturedRun, NamesWhatEachStreamWaitsFor) {
  const nlohmann::json ranks = timeline_of(three_tasks(), "host:1:2");
  ASSERT_EQ(ranks.size(), 2U);
  const auto bars_of = [](const nlohmann::json& rank) {
    std::vector<std::string> bars;
    for (const auto& bar : rank["bars"]) {
      bars.push_back(bar["stream"].get<std::string>() + " " +
                     (bar["waits_for"].is_null()
                          ? bar["name"].get<std::string>()
                          : "waits for " + bar["waits_for"].get<std::string>()) +
                     " " + std::to_string(bar["start_us"].get<int>()) + "-" +
                     std::to_string(bar["end_us"].get<int>()));
    }
    return bars;
  };
  EXPECT_EQ(ranks[0]["role"], "usual");
  EXPECT_EQ(ranks[0]["host"], 0);
  EXPECT_EQ(bars_of(ranks[0]),
            (std::vector<std::string>{
                "compute aten.mm.default 0-5", "compute waits for all_reduce 5-30",
                "compute aten.mm.default 30-31", "communication waits for aten.mm.default 0-5",
                "communication waits for rank " + std::to_string(ranks[0]["rank"].get<int>() + 4) +
                    " 5-10",
                "communication all_reduce 10-30"}));
  EXPECT_EQ(ranks[1]["role"], "slowest");
  EXPECT_EQ(ranks[1]["host"], 1);
  EXPECT_EQ(ranks[1]["delays_us"], 5.0);
  EXPECT_EQ(bars_of(ranks[1]),
            (std::vector<std::string>{
                "compute aten.mm.default 0-10", "compute waits for all_reduce 10-30",
                "compute aten.mm.default 30-32", "communication waits for aten.mm.default 0-10",
                "communication all_reduce 10-30"}));
  EXPECT_EQ(ranks[0]["waits"][0],
            (nlohmann::json{
                {"stream", "compute"}, {"waits_for", "all_reduce"}, {"times", 1}, {"us", 25.0}}));
}

TEST(PicturedRun, JoinsTasksThatAreTooShortAndCountsTheirTime) {
  Schedule schedule;
  ScheduledKernel kernel;
  for (int i = 0; i < 5000; ++i) {
    kernel.name = i % 2 == 0 ? "aten.mm.default" : "aten.add.Tensor";
    kernel.price = Micros(2);
    (void)schedule.add(kernel);
  }
  const nlohmann::json ranks = timeline_of(schedule, "none");
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0]["role"], "alike");
  EXPECT_LE(ranks[0]["bars"].size(), 200U);
  std::int64_t tasks = 0;
  double busy = 0.0;
  for (const auto& bar : ranks[0]["bars"]) {
    tasks += bar["tasks"].get<std::int64_t>();
    busy += bar["busy_us"].get<double>();
  }
  EXPECT_EQ(tasks, 5000);
  EXPECT_DOUBLE_EQ(busy, 10000.0);
}

TEST(PicturedRun, SaysHowTheMeshLiesOnItsHosts) {
  const nlohmann::json hosts = hosts_json(DeviceMesh::parse("dp=2,cp=1,tp=4"), topology_with(4));
  EXPECT_EQ(hosts["devices_per_host"], 4);
  ASSERT_EQ(hosts["dims"].size(), 3U);
  EXPECT_EQ(hosts["dims"][0]["name"], "dp");
  EXPECT_EQ(hosts["dims"][0]["stride"], 4);
  EXPECT_EQ(hosts["dims"][0]["link"], topology_with(4).links().back().name);
  EXPECT_TRUE(hosts["dims"][1]["link"].is_null());
  EXPECT_EQ(hosts["dims"][2]["stride"], 1);
  EXPECT_EQ(hosts["dims"][2]["link"], topology_with(4).links().front().name);
}

}  // namespace pictured_run_test
}  // namespace shardlab
