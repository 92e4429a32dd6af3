// Every shipped measurement set reads back to its own bytes, names its public source, carries the
// health that the rules or its source give it, and says what the logs that it was transcribed from
// say.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "costmodel/measurements/health.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/validation.h"
#include "tests/support/process.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace measurements_contract_test {

namespace fs = std::filesystem;
using testing_support::read_text;
using testing_support::shipped;

const fs::path kFolder = SHARDLAB_SOURCE_DIR "/configs/measurements";

std::vector<MeasurementSet> all_sets() {
  const ConfigStore store = shipped();
  return read_measurements(store, store.names(ConfigKind::kMeasurement), {});
}

TEST(ShippedMeasurements, AreABroadMix) {
  std::set<std::string_view> topologies;
  std::set<Collective> collectives;
  std::set<std::string> scales;
  std::size_t healthy = 0;
  std::size_t rows = 0;
  const std::vector<MeasurementSet> sets = all_sets();
  for (const MeasurementSet& set : sets) {
    topologies.insert(topology_of_gpu(set.gpu));
    scales.insert(scale_of(set));
    healthy += set.health == Health::kHealthy ? 1U : 0U;
    rows += set.rows.size();
    for (const MeasuredRow& row : set.rows) collectives.insert(row.collective);
  }
  EXPECT_EQ(sets.size(), 253U);
  EXPECT_EQ(rows, 4961U);
  EXPECT_EQ(healthy, 225U);
  EXPECT_EQ(topologies, (std::set<std::string_view>{"", "a100", "a100-40", "b200", "b300", "gb200",
                                                    "gb300", "h100", "h200", "mi300x", "mi355x"}));
  EXPECT_GE(scales.size(), 20U);
  EXPECT_EQ(collectives, (std::set<Collective>{Collective::kAllGather, Collective::kAllReduce,
                                               Collective::kReduceScatter, Collective::kAllToAll,
                                               Collective::kBroadcast, Collective::kSendRecv}));
}

TEST(ShippedMeasurements, ReadBackToTheirOwnBytesUnderTheirOwnNames) {
  const ConfigStore store = shipped();
  for (const std::string& name : store.names(ConfigKind::kMeasurement)) {
    const MeasurementSet set = read_measurement(store, name, {});
    EXPECT_EQ(set.name, name);
    EXPECT_FALSE(set.source.empty()) << name;
    EXPECT_EQ(set.ranks, set.hosts * set.gpus_per_host) << name;
    EXPECT_EQ(measurement_text(set), read_text(kFolder / (name + ".json"))) << name;
  }
}

TEST(ShippedMeasurements, CarryTheHealthOfTheRulesOrOfTheirSource) {
  const ConfigStore store = shipped();
  for (const std::string& name : store.names(ConfigKind::kMeasurement)) {
    MeasurementSet set = read_measurement(store, name, {});
    const Health flag = set.health;
    const std::string reason = set.health_reason;
    EXPECT_NE(flag, Health::kUnknown) << name;
    EXPECT_EQ(flag == Health::kHealthy, reason.empty()) << name;
    if (reason.starts_with("source: ")) continue;
    set.health = Health::kUnknown;
    set.health_reason.clear();
    const Judgement judgement = judge(set);
    EXPECT_EQ(judgement.health, flag) << name;
    EXPECT_EQ(judgement.reason, reason) << name;
  }
}

TEST(ShippedMeasurements, EveryRowHasAPriceUnderEveryStack) {
  const ConfigStore store = shipped();
  const std::vector<MeasurementSet> sets = all_sets();
  const auto hardware = [&](const MeasurementSet& set) {
    return topology_for(store, "", set).topology;
  };
  for (const char* stack : {"alpha-beta", "dtensor-2.13"}) {
    for (const RowPrediction& row : predict(store.stack(stack), hardware, sets)) {
      EXPECT_TRUE(row.is_priced()) << stack << ": " << sets[row.set].name << ": " << row.impossible;
      EXPECT_GE(row.predicted_us, 0.0) << stack << ": " << sets[row.set].name;
    }
  }
}

// The logs of the first sets are kept beside the tests. Of later sets only the figures are kept.
TEST(ShippedMeasurements, SayWhatTheirLogsSay) {
  const fs::path logs = SHARDLAB_GOLDEN_DIR "/nccl-tests";
  const ConfigStore store = shipped();
  std::size_t compared = 0;
  for (const std::string& name : store.names(ConfigKind::kMeasurement)) {
    const fs::path log = logs / (name + ".txt");
    if (!fs::exists(log)) continue;
    ++compared;
    EXPECT_EQ(measurement_text(parse_measurement(read_text(log), {}, log.string())),
              read_text(kFolder / (name + ".json")))
        << name;
  }
  EXPECT_EQ(compared, 158U);
}

}  // namespace measurements_contract_test
}  // namespace shardlab
