#include "runner/simulate/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace trace_test {

using namespace testing_support;

Schedule two_collectives() {
  Schedule schedule;
  ScheduledKernel kernel;
  kernel.name = "local";
  kernel.price = Micros(2.5);
  (void)schedule.add(kernel);
  for (const int m : {0, 1}) {
    ScheduledKernel collective;
    collective.name = "all_gather";
    collective.stream = Stream::kCommunication;
    collective.mesh_dims = {m};
    collective.price = Micros(10);
    collective.full_bytes = 512;
    collective.after = {m};
    (void)schedule.add(collective);
  }
  return schedule;
}

nlohmann::json trace_of(const std::string& mesh_text, const std::string& straggler,
                        std::int64_t ranks) {
  const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
  const Topology topology = topology_with(4);
  const Schedule schedule = two_collectives();
  const SimulationResult result =
      Simulator(mesh, topology, {.slowdown = Slowdown::parse(straggler), .traced_ranks = ranks})
          .run(schedule);
  std::ostringstream out;
  write_trace(out, "two \"gathers\"", mesh, topology, schedule, result.timeline);
  return nlohmann::json::parse(out.str());
}

std::vector<nlohmann::json> events(const nlohmann::json& trace, const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST(Trace, ShowsAProcessPerHostAndAThreadPerRankAndStream) {
  const auto trace = trace_of("2x4", "none", 64);
  EXPECT_EQ(trace["otherData"]["title"], "two \"gathers\"");
  EXPECT_EQ(trace["otherData"]["ranks_shown"], 8);
  std::set<std::string> names;
  for (const auto& event : events(trace, "M")) {
    if (event["name"] == "thread_sort_index") continue;
    names.insert(std::to_string(event["pid"].get<int>()) + " " +
                 event["args"]["name"].get<std::string>());
  }
  EXPECT_EQ(names.size(), 2U + 2U * 8U);
  EXPECT_TRUE(names.contains("1 host 1"));
  EXPECT_TRUE(names.contains("1 rank 5 communication"));
  EXPECT_EQ(events(trace, "X").size(), 3U * 8U);
}

TEST(Trace, TiesTheMembersOfACollectiveByArrowsInsideTheirSlices) {
  const auto trace = trace_of("2x4", "host:1:2", 64);
  std::map<int, std::vector<std::string>> flows;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    flows[event["id"]].push_back(phase);
    bool inside = false;
    for (const auto& slice : events(trace, "X")) {
      inside = inside || (slice["pid"] == event["pid"] && slice["tid"] == event["tid"] &&
                          slice["ts"] <= event["ts"] &&
                          event["ts"] <= slice["ts"].get<double>() + slice["dur"].get<double>());
    }
    EXPECT_TRUE(inside) << event;
  }
  ASSERT_EQ(flows.size(), 4U + 2U);  // groups of mesh dim 0, of mesh dim 1
  EXPECT_EQ(flows[1], (std::vector<std::string>{"s", "f"}));
  EXPECT_EQ(flows[6], (std::vector<std::string>{"s", "t", "t", "f"}));
}

TEST(Trace, ShowsWhoWaitsAndBytesInFlight) {
  const auto trace = trace_of("2x4", "host:1:2", 64);
  int waits = 0;
  for (const auto& event : events(trace, "X")) {
    if (event["name"] != "wait") continue;
    ++waits;
    EXPECT_EQ(event["pid"], 0);  // host 0 waits for host 1
    EXPECT_EQ(event["ts"], 2.5);
    EXPECT_EQ(event["dur"], 2.5);
  }
  EXPECT_EQ(waits, 4);
  std::map<int, double> last;
  double most = 0.0;
  for (const auto& event : events(trace, "C")) {
    last[event["pid"]] = event["args"]["bytes"];
    most = std::max(most, event["args"]["bytes"].get<double>());
  }
  EXPECT_EQ(most, 4 * 512);
  EXPECT_EQ(last, (std::map<int, double>{{0, 0.0}, {1, 0.0}}));
}

TEST(Trace, ShowsSomeOfManyRanks) {
  const auto folded = trace_of("1024x1024", "none", 16);
  EXPECT_EQ(folded["otherData"]["ranks"], 1048576);
  EXPECT_EQ(folded["otherData"]["ranks_shown"], 16);
  EXPECT_EQ(events(folded, "X").size(), 3U * 16U);
  Schedule long_one;
  for (int i = 0; i < 100000; ++i) (void)long_one.add({});
  EXPECT_EQ(traced_ranks(long_one, 64), 2);
  EXPECT_EQ(traced_ranks(two_collectives(), 64), 64);
}

}  // namespace trace_test
}  // namespace shardlab
