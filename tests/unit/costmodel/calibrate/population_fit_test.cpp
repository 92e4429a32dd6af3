// The population of clusters: what other clusters' logs say about one, before and after its own
// rows.
#include "costmodel/calibrate/population_fit.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <set>

#include "costmodel/calibrate/population_calibration.h"
#include "costmodel/calibrate/student_t.h"
#include "tests/support/reference_topology.h"
#include "tests/unit/costmodel/calibrate/normal_variate.h"

namespace shardlab {
namespace population_fit_test {

using namespace testing_support;

GroupSpan span(std::int64_t ranks, std::int64_t hosts) {
  return {.ranks = ranks,
          .hosts = hosts,
          .domains = hosts,
          .ranks_per_host = ranks / hosts,
          .extent = ranks,
          .walk = ranks};
}

double physical_us(const CollectiveQuery& query, const Topology& topology) {
  const PhysicalCurve curve = physical_curve(physical_group(query.kind, query.group, topology));
  return curve.us_at_bend(curve.bend(query.full_bytes));
}

// A log whose times are `factor` times what the links allow, from 64 B to 1 GiB.
std::vector<Observation> rows_of(Collective kind, const GroupSpan& group, double factor,
                                 const Topology& topology) {
  std::vector<Observation> rows;
  for (double bytes = 64; bytes <= 1 << 30; bytes *= 16) {
    const CollectiveQuery query{kind, bytes, group};
    rows.push_back({query, factor * physical_us(query, topology), 0});
  }
  return rows;
}

PopulationLog log_of(const std::string& source, double factor) {
  const Topology topology = topology_with(8);
  return {
      source, {"h100", topology}, rows_of(Collective::kAllReduce, span(16, 2), factor, topology)};
}

double factor_at(const PopulationPosterior& posterior, const CollectiveQuery& query) {
  return std::exp(posterior.at({&query, 1}).log_us[0]) /
         physical_us(query, posterior.system().topology);
}

double deviation_at(const PopulationPosterior& posterior, const CollectiveQuery& query) {
  return std::sqrt(posterior.at({&query, 1}).covariance(0, 0));
}

TEST(PopulationKernel, IsACovariance) {
  const Topology topology = topology_with(8);
  std::vector<PopulationPlace> places;
  int number = 0;
  for (const Collective kind : {Collective::kAllGather, Collective::kAllReduce,
                                Collective::kAllToAll, Collective::kSendRecv}) {
    for (const auto& [ranks, hosts] : {std::pair(8, 1), std::pair(16, 2), std::pair(64, 8)}) {
      for (const double bytes : {8.0, 65536.0, 4e6, 1e9}) {
        PopulationPlace place =
            place_of(physical_group(kind, span(ranks, hosts), topology), 1 + number % 3, bytes);
        place.launch = std::log(1.0 + number % 8);
        place.device = number % 3;
        place.cluster = number % 5;
        place.log = number++ % 5;
        places.push_back(place);
      }
    }
  }
  const Eigen::MatrixXd covariance = population_covariances(places, places);
  EXPECT_LT((covariance - covariance.transpose()).cwiseAbs().maxCoeff(), 1e-12);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
  EXPECT_GT(solver.eigenvalues().minCoeff(), -1e-9);
  EXPECT_EQ(covariance(3, 7), population_covariance(places[3], places[7]));
}

// Four sources agree that everything takes 1.5 times as long as the links allow.
TEST(PopulationFit, ALeftOutClusterIsPredictedByTheOthers) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.4), log_of("b", 1.5), log_of("c", 1.5),
                                           log_of("d", 1.6)};
  const PopulationFit fit(logs);
  const PopulationPosterior cluster(fit, {"h100", topology_with(8)}, {});
  for (const double bytes : {64.0, 1e6, 1e9}) {
    const CollectiveQuery query{Collective::kAllReduce, bytes, span(16, 2)};
    EXPECT_GT(factor_at(cluster, query), 1.25) << "nearer to them than to the links, " << bytes;
    EXPECT_LT(factor_at(cluster, query), 1.6) << bytes;
    EXPECT_GT(deviation_at(cluster, query), 0.1) << "clusters differ";
  }
}

// The quick way to the times gives what the way with covariances gives, and a table without errors
// has the factors of the one with them.
TEST(PopulationFit, TimesAloneAreThoseOfTheFigures) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.4), log_of("b", 1.6)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const PopulationPosterior cluster(fit, system, {});
  const CollectiveQuery queries[] = {{Collective::kAllReduce, 64, span(16, 2)},
                                     {Collective::kAllGather, 1e6, span(8, 1)}};
  const Eigen::VectorXd quick = cluster.log_us_at(queries);
  EXPECT_LT((quick - cluster.at(queries).log_us).cwiseAbs().maxCoeff(), 1e-9);
  const std::vector<Observation> own =
      rows_of(Collective::kAllReduce, span(16, 2), 2.0, system.topology);
  const PopulationPosterior known(fit, system, own);
  EXPECT_LT((known.log_us_at(queries) - known.at(queries).log_us).cwiseAbs().maxCoeff(), 1e-9);

  const Collective kinds[] = {Collective::kAllReduce};
  const Calibration with = calibrate_for_any_cluster(fit, system, {.kinds = kinds});
  const Calibration without =
      calibrate_for_any_cluster(fit, system, {.kinds = kinds, .errors = false});
  ASSERT_EQ(with.rows.size(), without.rows.size());
  std::set<double> delays;
  for (std::size_t i = 0; i < with.rows.size(); ++i) {
    const PopulationCurve a = PopulationCurve::from_json(with.rows[i], {"with", ""});
    const PopulationCurve b = PopulationCurve::from_json(without.rows[i], {"without", ""});
    EXPECT_EQ(a.kind, Collective::kAllReduce);
    EXPECT_NEAR(a.log_factor(0.0), b.log_factor(0.0), 2e-3);
    EXPECT_GT(a.log_error(0.0), 0.1);
    EXPECT_EQ(b.log_error(0.0), 0.0);
    if (a.network_delay) delays.insert(*a.network_delay);
  }
  EXPECT_EQ(delays, (std::set<double>{1.0, 1.2, 1.5, 2.2, 3.0, 20.0}));
}

// Two sources measured with one process for each GPU, and two with one process for eight, which
// takes twice as long. How much of that a prediction follows depends on the collective.
TEST(PopulationFit, OneProcessLaunchesSendsAndReceivesSlowly) {
  const Topology topology = topology_with(8);
  const auto log = [&](const std::string& source, Collective kind, double factor,
                       std::int64_t gpus) {
    PopulationLog out{source, {"h100", topology}, rows_of(kind, span(8, 1), factor, topology)};
    for (Observation& row : out.rows) row.query.gpus_per_process = gpus;
    return out;
  };
  const auto rise = [&](Collective kind) {
    const std::vector<PopulationLog> logs = {log("a", kind, 1.0, 1), log("b", kind, 1.0, 1),
                                             log("c", kind, 2.0, 8), log("d", kind, 2.0, 8)};
    const PopulationFit fit(logs);
    const PopulationPosterior cluster(fit, {"h100", topology}, {});
    const CollectiveQuery own{kind, 64, span(8, 1), 1};
    const CollectiveQuery shared{kind, 64, span(8, 1), 8};
    return factor_at(cluster, shared) / factor_at(cluster, own);
  };
  EXPECT_GT(rise(Collective::kAllReduce), 1.1);
  EXPECT_GT(rise(Collective::kAllToAll), 1.1 * rise(Collective::kAllReduce))
      << "the launch of sends and receives varies more, so that the same logs tell more about it";
}

// All-gathers of one group on one GPU tell about the floor of a reduce-scatter of the same group on
// a GPU of another vendor, and nothing about that of a far larger group.
TEST(PopulationFit, GroupsOfLikeShapesHaveLikeFloors) {
  const Topology topology = topology_with(4);
  std::vector<PopulationLog> logs;
  for (const std::string source : {"a", "b", "c"}) {
    logs.push_back(
        {source, {"a100", topology}, rows_of(Collective::kAllGather, span(12, 3), 2.0, topology)});
  }
  const PopulationFit fit(logs);
  const PopulationPosterior other(fit, {"mi300x", topology}, {});
  EXPECT_GT(factor_at(other, {Collective::kReduceScatter, 64, span(12, 3)}), 1.2);
  EXPECT_LT(factor_at(other, {Collective::kReduceScatter, 64, span(512, 128)}), 1.1);
}

TEST(PopulationFit, OneOddSourceCountsLess) {
  std::vector<PopulationLog> logs = {log_of("a", 1.0), log_of("b", 1.0), log_of("c", 1.0),
                                     log_of("d", 1.0)};
  const CollectiveQuery query{Collective::kAllReduce, 64, span(16, 2)};
  logs.push_back(log_of("odd", 8.0));
  const PopulationFit fit(logs);
  const double factor = factor_at(PopulationPosterior(fit, {"h100", topology_with(8)}, {}), query);
  EXPECT_LT(factor, std::pow(8.0, 0.1)) << "a fifth of the sources, but less than half of that";
}

TEST(PopulationFit, WithoutASourceIsTheFitOfTheOthers) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.0), log_of("b", 1.0), log_of("c", 1.0)};
  const std::vector<PopulationLog> two = {logs[0], logs[2]};
  const PopulationFit all(logs);
  const std::vector<std::string> left_out = {"b"};
  const PopulationFit without = all.without(left_out);
  const PopulationFit fit(two);
  EXPECT_EQ(without.rows(), fit.rows());
  const CollectiveQuery query{Collective::kAllGather, 1e6, span(8, 1)};
  const PopulationSystem system{"h100", topology_with(8)};
  EXPECT_NEAR(factor_at(PopulationPosterior(without, system, {}), query),
              factor_at(PopulationPosterior(fit, system, {}), query), 1e-9);
}

// A log of one host. A process that drives all 8 GPUs takes twice as long on the floor, and as long
// on the plateau.
PopulationLog launched_log(const std::string& source, std::int64_t gpus_per_process) {
  const Topology topology = topology_with(8);
  PopulationLog log{
      source, {"h100", topology}, rows_of(Collective::kAllReduce, span(8, 1), 1.0, topology)};
  for (Observation& row : log.rows) {
    row.query.gpus_per_process = gpus_per_process;
    const PhysicalCurve curve =
        physical_curve(physical_group(row.query.kind, row.query.group, topology));
    const double share = PhysicalCurve::plateau_share(curve.bend(row.query.full_bytes));
    if (gpus_per_process == 8) row.time_us *= std::exp(std::log(2.0) * (1.0 - share));
  }
  return log;
}

const std::vector<PopulationLog>& launched_logs() {
  static const std::vector<PopulationLog> logs = {launched_log("a", 1), launched_log("b", 8),
                                                  launched_log("c", 1), launched_log("d", 8)};
  return logs;
}

TEST(PopulationFit, AProcessThatDrivesSeveralGpusHasAHigherFloor) {
  const PopulationFit fit(launched_logs());
  const PopulationPosterior cluster(fit, {"h100", topology_with(8)}, {});
  const auto factor = [&](double bytes, std::int64_t gpus) {
    return factor_at(cluster, {Collective::kAllReduce, bytes, span(8, 1), gpus});
  };
  EXPECT_GT(factor(64, 8), 1.3 * factor(64, 1));
  EXPECT_GT(factor(64, 8), factor(64, 2));
  EXPECT_GT(factor(64, 2), factor(64, 1));
  EXPECT_NEAR(factor(1e9, 8), factor(1e9, 1), 0.01);
  EXPECT_EQ(factor(64, 0), factor(64, 1)) << "where it is not known, PyTorch's way is assumed";
}

// An own log of one process says what a process for each GPU would take, too.
TEST(PopulationCalibration, RowsOfOneProcessTellAboutAProcessForEachGpu) {
  const PopulationFit fit(launched_logs());
  const PopulationSystem system{"h100", topology_with(8)};
  std::vector<Observation> own = launched_log("own", 8).rows;
  for (Observation& row : own) row.time_us *= 1.2;
  const PopulationPosterior cluster(fit, system, own);
  CollectiveQuery query = own.front().query;
  query.gpus_per_process = 1;
  const PopulationCurve curve = population_curve(cluster, query, own);
  const PhysicalCurve physical =
      physical_curve(physical_group(query.kind, query.group, system.topology));
  EXPECT_EQ(curve.launch, 0.0);
  EXPECT_GT(curve.floor_by_launch, 0.1);
  for (const Observation& row : own) {
    const double bend = physical.bend(row.query.full_bytes);
    const double one = std::log(physical.us_at_bend(bend)) + curve.log_factor(bend);
    const double all = one + curve.log_launched(std::log(8.0), bend);
    EXPECT_NEAR(all, std::log(row.time_us), 0.03) << row.query.full_bytes;
    query.full_bytes = row.query.full_bytes;
    EXPECT_NEAR(one, cluster.at({&query, 1}).log_us[0], 0.03) << row.query.full_bytes;
  }
}

// Each further row makes the rest of the curve surer, and one row of one collective also says
// something of another.
TEST(PopulationFit, EveryRowOfTheClusterNarrowsTheIntervals) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const std::vector<Observation> rows =
      rows_of(Collective::kAllReduce, span(16, 2), 3.0, system.topology);
  const CollectiveQuery query{Collective::kAllReduce, 3e6, span(16, 2)};
  const CollectiveQuery other{Collective::kAllGather, 64, span(16, 2)};
  double before = 10.0;
  for (std::size_t n = 0; n <= rows.size(); ++n) {
    const PopulationPosterior cluster(fit, system, std::span(rows).first(n));
    const double now = deviation_at(cluster, query);
    EXPECT_LT(now, before) << n;
    before = now;
  }
  const PopulationPosterior none(fit, system, {});
  const PopulationPosterior all(fit, system, rows);
  EXPECT_NEAR(factor_at(all, query), 3.0, 0.3);
  EXPECT_NEAR(factor_at(all, {Collective::kAllReduce, 64, span(16, 2)}), 3.0, 0.15);
  EXPECT_LT(deviation_at(all, other), deviation_at(none, other));
}

// How many of the 95 % intervals hold the truth, in percent, where each row has normally
// distributed noise of this standard deviation.
double coverage_percent(double noise) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  Random random(7);
  int held = 0;
  int all = 0;
  for (int draw = 0; draw < 100; ++draw) {
    const double factor = 1.3 * std::exp(0.1 * normal_variate(random));
    std::vector<Observation> rows;
    for (double bytes = 64; bytes <= 1 << 30; bytes *= 2) {
      const CollectiveQuery query{Collective::kAllReduce, bytes, span(16, 2)};
      const double truth = factor * physical_us(query, system.topology);
      const double in_place_us = 1.01 * truth * std::exp(noise * normal_variate(random));
      rows.push_back({query, truth * std::exp(noise * normal_variate(random)), 0, in_place_us});
    }
    const Calibration calibration = calibrate_population(fit, system, rows);
    const double smallest_us = factor * physical_us(rows.front().query, system.topology);
    const double largest_us = factor * physical_us(rows.back().query, system.topology);
    const double truths[] = {smallest_us, rows.back().query.full_bytes / 1e3 / largest_us};
    for (std::size_t i = 0; i < 2; ++i) {
      const FittedParameter& fitted = calibration.parameters[i];
      held += fitted.low_95 <= truths[i] && truths[i] <= fitted.high_95 ? 1 : 0;
      ++all;
    }
  }
  return 100.0 * held / all;
}

// 200 draws of 95 % have a standard deviation of 1.5 %.
TEST(PopulationCalibration, IntervalsHoldTheTruthHoweverNoisyTheRowsAre) {
  for (const double noise : {0.01, 0.05, 0.12}) {
    EXPECT_GE(coverage_percent(noise), 90.0) << noise;
    EXPECT_LE(coverage_percent(noise), 99.9) << noise;
  }
}

// A cluster unlike all others, a kink and an in-place time that is longer throughout are no noise.
TEST(PopulationFit, NoiseIsWhatTwoMeasurementsOfOneThingDifferBy) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  std::vector<Observation> rows;
  for (double bytes = 64; bytes <= 1 << 30; bytes *= 4) {
    const CollectiveQuery query{Collective::kAllReduce, bytes, span(16, 2)};
    const double us = (bytes < 1e6 ? 5.0 : 7.0) * physical_us(query, system.topology);
    rows.push_back({query, us, 0, 1.1 * us});
  }
  const PopulationPosterior quiet(fit, system, rows);
  EXPECT_EQ(PopulationPosterior(fit, system, {}).noise(), kPopulationNoise);
  EXPECT_EQ(quiet.noise(), kPopulationNoise);
  std::vector<Observation> in_place = rows;
  Random random(3);
  for (Observation& row : in_place) *row.in_place_us *= std::exp(0.2 * normal_variate(random));
  const PopulationPosterior noisy(fit, system, in_place);
  EXPECT_NEAR(noisy.noise(), 0.2 / std::sqrt(2.0), 0.07);
  // Another run, whose calls take half as long.
  std::vector<Observation> mixed = rows;
  for (Observation row : rows) {
    row.set = 1;
    row.time_us /= 2.0;
    row.in_place_us = row.time_us;
    mixed.push_back(row);
  }
  EXPECT_GT(PopulationPosterior(fit, system, mixed).noise(), 0.5);
  const CollectiveQuery query{Collective::kAllReduce, 64, span(16, 2)};
  EXPECT_GT(deviation_at(noisy, query), 3.0 * deviation_at(quiet, query));
  EXPECT_EQ(factor_at(noisy, query), factor_at(quiet, query));
}

TEST(PopulationCalibration, TheModelIsWhatThePosteriorSays) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const std::vector<Observation> rows =
      rows_of(Collective::kAllReduce, span(16, 2), 2.0, system.topology);
  const Calibration calibration = calibrate_population(fit, system, rows);
  EXPECT_EQ(calibration.rows_used, rows.size());
  EXPECT_LT(calibration.median_ape_percent, 3.0);
  const auto model = make_collective_model(calibration.choice(), system.topology);
  const PopulationPosterior posterior(fit, system, rows);
  for (const auto& [kind, group] : {std::pair(Collective::kAllReduce, span(16, 2)),
                                    std::pair(Collective::kAllGather, span(8, 1)),
                                    std::pair(Collective::kSendRecv, span(2, 2))}) {
    for (const double bytes : {256.0, 3e5, 1e8}) {
      const CollectiveQuery query{kind, bytes, group};
      const double us = std::exp(posterior.at({&query, 1}).log_us[0]);
      EXPECT_NEAR(model->price(query).total.value() / us, 1.0, 0.03) << bytes;
    }
  }
  ASSERT_EQ(model->measured().size(), 1U);
  EXPECT_EQ(model->measured()[0].smallest, 64);
  ASSERT_EQ(calibration.parameters.size(), 2U);
  const FittedParameter& smallest = calibration.parameters[0];
  EXPECT_EQ(smallest.name, "all_reduce.16x2.smallest_us");
  EXPECT_LT(smallest.low_95, smallest.value);
  EXPECT_GT(smallest.high_95, smallest.value);
}

// The first call of a run is often slow. Prices never fall with the size, so the stack has the
// times of the sizes behind it.
TEST(PopulationCalibration, ParametersAreWhatTheFittedModelSaysOfASlowFirstRow) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  std::vector<Observation> rows =
      rows_of(Collective::kAllReduce, span(16, 2), 2.0, system.topology);
  const double second_us = rows[1].time_us;
  rows.front().time_us *= 2.5;
  const Calibration calibration = calibrate_population(fit, system, rows);
  const auto model = make_collective_model(calibration.choice(), system.topology);
  const FittedParameter& smallest = calibration.parameters.at(0);
  EXPECT_EQ(smallest.value, model->price(rows.front().query).total.value());
  EXPECT_NEAR(smallest.value / second_us, 1.0, 0.1);
  const double error = model->log_error(rows.front().query).value();
  EXPECT_NEAR(std::log(smallest.high_95 / smallest.value), kNormal95 * error, 1e-9);
  EXPECT_NEAR(std::log(smallest.value / smallest.low_95), kNormal95 * error, 1e-9);
  const FittedParameter& largest = calibration.parameters.at(1);
  const CollectiveQuery& query = rows.back().query;
  EXPECT_EQ(largest.value, query.full_bytes / 1e3 / model->price(query).total.value());
}

// Rows of `sizes` distinct sizes among each of `groups` groups.
std::vector<Observation> many_rows(int groups, int sizes, const Topology& topology) {
  std::vector<Observation> rows;
  for (int g = 0; g < groups; ++g) {
    const GroupSpan group = span(8 * (g + 2), g + 2);
    for (int i = 0; i < sizes; ++i) {
      const double bytes = std::floor(1024 * std::exp(13.0 * i / sizes));
      const CollectiveQuery query{Collective::kAllReduce, bytes, group};
      rows.push_back({query, 2.0 * physical_us(query, topology), 0});
    }
  }
  return rows;
}

std::size_t most_points(const Calibration& calibration) {
  std::size_t most = 0;
  for (const nlohmann::json& row : calibration.rows) most = std::max(most, row["points"].size());
  return most;
}

// The work grows with the cube of the rows that are used, and with the points of the curves.
TEST(PopulationCalibration, ManyDistinctSizesAndGroupsAreThinnedOut) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const auto used = [&](int groups, int sizes) {
    return PopulationPosterior(fit, system, many_rows(groups, sizes, system.topology)).rows();
  };
  EXPECT_EQ(used(2, 50), 100U);
  EXPECT_EQ(used(2, 5000), 2 * PopulationPosterior::kRowsOfCluster);
  EXPECT_EQ(used(40, 200), 40 * PopulationPosterior::kRowsOfCluster / 4);
  EXPECT_EQ(used(2000, 5), PopulationPosterior::kMostRowsOfCluster);

  constexpr std::size_t kGrid = 21;
  const std::vector<Observation> rows = many_rows(3, 3000, system.topology);
  const Calibration calibration = calibrate_population(fit, system, rows);
  EXPECT_EQ(calibration.rows_used, rows.size());
  EXPECT_LT(calibration.median_ape_percent, 1.0);
  EXPECT_GE(most_points(calibration), PopulationPosterior::kRowsOfCluster);
  EXPECT_LE(most_points(calibration), PopulationPosterior::kRowsOfCluster + kGrid);
}

// Rows that are repeated leave the sizes of the curves, and their times, as they are.
TEST(PopulationCalibration, RepeatedRowsGiveTheModelOfTheRowsThemselves) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const std::vector<Observation> rows = many_rows(1, 32, system.topology);
  std::vector<Observation> repeated;
  while (repeated.size() < 32'000) repeated.insert(repeated.end(), rows.begin(), rows.end());
  const Calibration once = calibrate_population(fit, system, rows);
  const Calibration often = calibrate_population(fit, system, repeated);
  EXPECT_EQ(often.rows_used, repeated.size());
  EXPECT_EQ(most_points(often), most_points(once));
  const auto of_few = make_collective_model(once.choice(), system.topology);
  const auto of_many = make_collective_model(often.choice(), system.topology);
  for (const Observation& row : rows) {
    EXPECT_NEAR(of_many->price(row.query).total.value() / of_few->price(row.query).total.value(),
                1.0, 0.05)
        << row.query.full_bytes;
  }
}

// Once both ends of a curve are known, the times are least sure where protocols change.
TEST(PopulationCalibration, AdviceGoesWhereTheVarianceIs) {
  const std::vector<PopulationLog> logs = {log_of("a", 1.2), log_of("b", 1.5)};
  const PopulationFit fit(logs);
  const PopulationSystem system{"h100", topology_with(8)};
  const std::vector<Observation> all =
      rows_of(Collective::kAllReduce, span(16, 2), 2.0, system.topology);
  const std::vector<Observation> ends = {all.front(), all.back()};
  const Calibration calibration = calibrate_population(fit, system, ends);
  ASSERT_EQ(calibration.next_sizes.size(), 3U);
  EXPECT_GT(calibration.next_sizes[0].query.full_bytes, 16e3);
  EXPECT_LT(calibration.next_sizes[0].query.full_bytes, 300e6);
  EXPECT_LT(calibration.next_sizes[1].variance_left_percent,
            calibration.next_sizes[0].variance_left_percent);
  EXPECT_GT(calibration.more_rows, 0);
}

}  // namespace population_fit_test
}  // namespace shardlab
