// The shipped logs as a population: whose they are, and what the shipped stacks say.
#include "runner/evaluation/population.h"

#include <gtest/gtest.h>

#include "costmodel/calibrate/population_calibration.h"
#include "costmodel/population_curve.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/validation.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace population_test {

using testing_support::shipped;

MeasurementSet from(const std::string& source) {
  MeasurementSet set;
  set.name = "the set";
  set.source = source;
  return set;
}

TEST(PopulationLogs, ASourceIsWhoPublishes) {
  EXPECT_EQ(source_of(from("https://github.com/a/b/blob/main/c.txt")), "github.com/a/b");
  EXPECT_EQ(source_of(from("https://github.com/a/b")), "github.com/a/b");
  EXPECT_EQ(source_of(from("https://github.com/a/b (README.md)")), "github.com/a/b");
  EXPECT_EQ(source_of(from("https://gist.github.com/a/123")), "gist.github.com/a");
  EXPECT_EQ(source_of(from("Some documentation, a page")), "Some documentation");
  EXPECT_EQ(source_of(from("a repository file, repository name unknown")), "the set");
  EXPECT_EQ(source_of(from("")), "the set");
}

TEST(PopulationLogs, AGpuWithoutATopologyIsLeftOut) {
  MeasurementSet set;
  set.gpu = "GeForce RTX 2080 Ti";
  EXPECT_FALSE(is_in_population(set));
  set.gpu = "GH200-96GB";
  EXPECT_TRUE(is_in_population(set));
}

// The mean of |ln of predicted over measured time| of a set on a topology.
double mean_error(const ModelChoice& choice, const MeasurementSet& set, const Topology& topology) {
  const auto model = make_collective_model(choice, topology);
  const auto rows = predict_set(*model, span_on(set, topology), set, 0);
  double sum = 0.0;
  for (const RowPrediction& row : rows) {
    sum +=
        std::abs(std::log(row.predicted_us / row.measured_us)) / static_cast<double>(rows.size());
  }
  return sum;
}

// Both logs that name SHARP, predicted from the logs of all other sources: the network that adds up
// brings the prices nearer than one that does not.
TEST(ShippedPopulation, SharpExplainsTheLogsThatNameIt) {
  const ConfigStore store = shipped();
  const std::vector<MeasurementSet> sets = healthy_measurements(store);
  PopulationPriors priors(store, sets);
  std::size_t compared = 0;
  for (const MeasurementSet& set : sets) {
    const Topology topology = topology_for(store, "", set).topology;
    if (!topology.links().back().reduces) continue;
    ++compared;
    nlohmann::json json = topology.to_json();
    json["links"].back()["reduces"] = false;
    const Topology plain = Topology::from_json(json, {"plain.json", ""});
    const PopulationSystem system{gpu_model(set.gpu),
                                  store.topology(std::string(topology_of_gpu(set.gpu)))};
    const ModelChoice choice =
        calibrate_for_any_cluster(priors.without(source_of(set)), system, {.errors = false})
            .choice();
    const double with_sharp = mean_error(choice, set, topology);
    EXPECT_LT(with_sharp, mean_error(choice, set, plain)) << set.name;
    EXPECT_LT(with_sharp, 0.25) << set.name;
  }
  EXPECT_EQ(compared, 2U);
}

// The stacks of the files, fitted again. Other compilers may round differently.
TEST(ShippedPopulation, TheStacksAreFresh) {
  const ConfigStore store = shipped();
  const std::vector<MeasurementSet> sets = healthy_measurements(store);
  const PopulationFit fit(population_logs(store, sets));
  for (const std::string gpu : {"a100", "h100", "h200", "b200", "gb200", "mi300x", "mi355x"}) {
    const Topology topology = store.topology(gpu);
    const nlohmann::json fitted =
        calibrate_for_any_cluster(fit, {gpu, topology}, {.errors = false}).rows;
    const nlohmann::json& rows = store.stack("calibrated-" + gpu).collective_model.rows;
    ASSERT_EQ(rows.size(), fitted.size()) << gpu;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const PopulationCurve a = PopulationCurve::from_json(rows[i], {"shipped", ""});
      const PopulationCurve b = PopulationCurve::from_json(fitted[i], {"fitted", ""});
      ASSERT_EQ(a.points.size(), b.points.size()) << gpu;
      for (std::size_t p = 0; p < a.points.size(); ++p) {
        EXPECT_NEAR(a.points[p].factor / b.points[p].factor, 1.0, 2e-3) << gpu << rows[i].dump();
      }
    }
  }
}

// AMD's logs share with NVIDIA's only what all logs share: they move the times of an H100 by a
// small part of what clusters differ by.
TEST(ShippedPopulation, LogsOfOneVendorHardlyMoveTheOthersTimes) {
  const ConfigStore store = shipped();
  std::vector<PopulationLog> all = population_logs(store, healthy_measurements(store));
  std::vector<PopulationLog> nvidia;
  for (const PopulationLog& log : all) {
    if (!log.system.device.starts_with("mi")) nvidia.push_back(log);
  }
  ASSERT_LT(nvidia.size(), all.size());
  const PopulationFit with(all);
  const PopulationFit without(nvidia);
  const PopulationSystem system{"h100", store.topology("h100")};
  const GroupSpan host{
      .ranks = 8, .hosts = 1, .domains = 1, .ranks_per_host = 8, .extent = 8, .walk = 8};
  for (const double bytes : {1e3, 1e6, 1e9}) {
    const CollectiveQuery queries[] = {{Collective::kAllReduce, bytes, host}};
    const PopulationPosterior::Figures all_logs = PopulationPosterior(with, system, {}).at(queries);
    const double alone = PopulationPosterior(without, system, {}).at(queries).log_us[0];
    const double deviation = std::sqrt(all_logs.covariance(0, 0));
    EXPECT_LT(std::abs(all_logs.log_us[0] - alone), 0.25 * deviation) << bytes;
  }
}

// The acceptance of the shipped stacks: a network of a quarter of the speed takes longer, and one
// of slower steps takes longer for small messages.
TEST(ShippedPopulation, OptionsOfTheTopologyMoveThePrices) {
  const ConfigStore store = shipped();
  const ModelChoice& choice = store.stack("calibrated-h100").collective_model;
  nlohmann::json slow = store.topology("h100").to_json();
  slow["links"].back()["bandwidth_gb_per_s"] = 12.5;
  slow["links"].back()["latency_us"] = 8.1;
  const auto fast = make_collective_model(choice, store.topology("h100"));
  const auto slower = make_collective_model(choice, Topology::from_json(slow, {"slow", ""}));
  const GroupSpan group{
      .ranks = 16, .hosts = 2, .domains = 2, .ranks_per_host = 8, .extent = 16, .walk = 16};
  for (const double bytes : {1e3, 1e9}) {
    const CollectiveQuery query{Collective::kAllReduce, bytes, group};
    EXPECT_GT(slower->price(query).total.value(), 1.8 * fast->price(query).total.value()) << bytes;
  }
}

}  // namespace population_test
}  // namespace shardlab
