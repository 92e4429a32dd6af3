// The table that NCCL wrote to a public log is compared with the model nccl.
#include "runner/evaluation/nccl_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/registry.h"
#include "tests/support/reference_topology.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace nccl_table_test {

using nlohmann::json;
using testing_support::shipped;

json golden() {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/tests/golden/nccl/table-2.29.7.json");
  return json::parse(file);
}

NcclTable golden_table() {
  const json row = golden()["rows"][0];
  NcclTable table = {.ranks = row["hosts"].get<std::int64_t>() * row["ranks_per_host"].get<int>(),
                     .hosts = row["hosts"],
                     .cells = {}};
  for (const json& cell : row["cells"]) {
    table.cells.push_back({*collective_from_name(cell["collective"].get<std::string>()),
                           *nccl_algorithm_from_name(cell["algorithm"].get<std::string>()),
                           *nccl_protocol_from_name(cell["protocol"].get<std::string>()),
                           cell["latency_us"], cell["bandwidth_gb_per_s"]});
  }
  return table;
}

// One GPU per host, with two network interfaces of 10 Gb/s, which is what NCCL assumes of a socket.
// The log does not say how many there are; its four channels and its bandwidths do.
Topology socket_hosts() {
  json topology = testing_support::topology_json(1);
  topology["device"]["compute_capability"] = 120;
  topology["links"][0] = {{"name", "pcie"},
                          {"joins", "host"},
                          {"kind", "pcie"},
                          {"latency_us", 1.0},
                          {"bandwidth_gb_per_s", 64.0}};
  topology["links"][1]["bandwidth_gb_per_s"] = 2.5;
  topology["nics_per_host"] = 2;
  return Topology::from_json(topology, {"test.json", ""});
}

TEST(NcclTable, EqualsThatOfALog) {
  const NcclTableCheck check =
      check_nccl_table(shipped().stack("nccl"), socket_hosts(), golden_table());
  for (const NcclCellCheck& each : check.cells) {
    EXPECT_TRUE(each.same_latency() && each.same_bandwidth())
        << to_string(each.cell.collective) << " " << to_string(each.cell.algorithm) << " "
        << to_string(each.cell.protocol) << ": " << each.latency_us.value_or(-1) << " us, "
        << each.gb_per_s.value_or(-1) << " GB/s; logged " << each.cell.latency_us << ", "
        << each.cell.gb_per_s;
  }
  EXPECT_EQ(check.compared, 12);
  EXPECT_EQ(check.same_latencies, 12);
  EXPECT_EQ(check.same_bandwidths, 12);
}

TEST(NcclTable, ItsChoicesAreThoseOfTheModel) {
  const Stack stack = shipped().stack("nccl");
  const auto model = make_collective_model(stack.collective_model, socket_hosts());
  const GroupSpan two_hosts = {
      .ranks = 2, .hosts = 2, .domains = 2, .ranks_per_host = 1, .extent = 2, .walk = 2};
  const json file = golden();
  int choices = 0;
  for (const json& chosen : file["choices"]) {
    for (const double bytes : chosen["bytes"]) {
      const auto kind = collective_from_name(chosen["collective"].get<std::string>());
      const std::vector<Alternative> all = model->alternatives({*kind, bytes, two_hosts});
      const auto best = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.price.total < b.price.total;
      });
      ASSERT_NE(best, all.end());
      EXPECT_EQ(best->algorithm, chosen["algorithm"].get<std::string>()) << bytes;
      EXPECT_EQ(best->protocol, chosen["protocol"].get<std::string>()) << bytes;
      ++choices;
    }
  }
  EXPECT_EQ(choices, 18);
}

TEST(NcclTable, NeedsAModelOfNcclsAlgorithms) {
  try {
    (void)check_nccl_table(shipped().stack("alpha-beta"), socket_hosts(), golden_table());
    ADD_FAILURE() << "alpha-beta has no algorithms";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "stack alpha-beta: its collectives (alpha_beta) do not choose among NCCL's "
                 "algorithms; valid: a stack whose collective_model is nccl");
  }
}

}  // namespace nccl_table_test
}  // namespace shardlab
