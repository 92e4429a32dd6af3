// Calibration on synthetic clusters whose parameters are known: what it recovers, how often the
// intervals hold the truth, what stays at a prior, and what it refuses.
#include "costmodel/calibrate/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "costmodel/base/error.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"
#include "tests/unit/costmodel/calibrate/normal_variate.h"

namespace shardlab {
namespace calibration_test {

using namespace testing_support;
using nlohmann::json;

GroupSpan group_of(std::int64_t ranks, std::int64_t hosts = 1) {
  return {.ranks = ranks,
          .hosts = hosts,
          .domains = hosts,
          .ranks_per_host = ranks / hosts,
          .extent = ranks,
          .walk = ranks};
}

// 24 rows: all-reduces of 12 sizes, 1 KiB to 4 GiB, among two groups.
std::vector<CollectiveQuery> questions(const GroupSpan& small = group_of(2),
                                       const GroupSpan& large = group_of(8)) {
  std::vector<CollectiveQuery> out;
  for (const GroupSpan& group : {small, large}) {
    for (int k = 0; k < 12; ++k) {
      out.push_back({Collective::kAllReduce, std::exp2(10 + 2 * k), group});
    }
  }
  return out;
}

std::vector<Observation> measured(const CostModel& model, const std::vector<CollectiveQuery>& asked,
                                  Random& random, double noise) {
  std::vector<Observation> rows;
  for (const CollectiveQuery& query : asked) {
    const double us = model.price(query).total.value();
    rows.push_back({query, us * (1 + noise * normal_variate(random)), 0});
  }
  return rows;
}

ModelChoice choice_of(const char* name, const nlohmann::json& params) {
  return read_model_choice({{"name", name}, {"params", params}}, {"test", ""});
}

struct Truth {
  const char* model;
  json params;
  std::vector<CollectiveQuery> asked;
};
void PrintTo(const Truth& truth, std::ostream* out) { *out << truth.model; }

const std::vector<Truth>& truths() {
  static const std::vector<Truth> kTruths = {
      {"alpha_beta",
       {{"launch_us", 9.0}, {"latency_us", 1.7}, {"bandwidth_gb_per_s", 180.0}},
       questions()},
      {"nccl",
       {{"base_latency_factor", 1.0},  // hard to tell from the steps, so often kept
        {"step_latency_factor", 1.3},
        {"network_latency_factor", 1.2},
        {"intra_bandwidth_factor", 0.9},
        {"inter_bandwidth_factor", 0.8}},
       questions(group_of(8), group_of(16, 2))},
  };
  return kTruths;
}

struct Coverage {
  int intervals = 0;
  int held = 0;
  double worst_bias = 0.0;  // relative error of the mean over the clusters
};

Coverage coverage_of(const Truth& truth, int clusters) {
  const Topology topology = topology_with(8);
  const ModelChoice choice = choice_of(truth.model, truth.params);
  const auto model = make_collective_model(choice, topology);
  Random random(71);
  Coverage coverage;
  std::map<std::string, double> sums;
  for (int i = 0; i < clusters; ++i) {
    const auto rows = measured(*model, truth.asked, random, 0.03);
    const Calibration fit = calibrate(*choice.entry, rows, topology);
    for (const KeptParameter& kept : fit.not_identified) {
      EXPECT_EQ(kept.name, "base_latency_factor");
    }
    for (const FittedParameter& p : fit.parameters) {
      const double value = truth.params[p.name].get<double>();
      ++coverage.intervals;
      coverage.held += p.low_95 <= value && value <= p.high_95 ? 1 : 0;
      sums[p.name] += p.value / value - 1;
    }
  }
  for (const auto& [name, sum] : sums) {
    coverage.worst_bias = std::max(coverage.worst_bias, std::abs(sum / clusters));
  }
  return coverage;
}

void expect_coverage(const Coverage& coverage) {
  const double share = static_cast<double>(coverage.held) / coverage.intervals;
  const double error = std::sqrt(0.95 * 0.05 / coverage.intervals);
  EXPECT_GE(share, 0.93 - 3 * error);
  EXPECT_LE(share, 0.97 + 3 * error);
  EXPECT_LE(coverage.worst_bias, 0.02);
}

class SyntheticClusters : public testing::TestWithParam<Truth> {};
TEST_P(SyntheticClusters, AreRecoveredAndHeldByTheIntervals) {
  SHARDLAB_TRACE_SEED();
  expect_coverage(coverage_of(GetParam(), random_cases(100)));
}
INSTANTIATE_TEST_SUITE_P(Models, SyntheticClusters, testing::ValuesIn(truths()));

class SyntheticClustersSlow : public testing::TestWithParam<Truth> {};
TEST_P(SyntheticClustersSlow, AreRecoveredAndHeldByTheIntervals) {
  SHARDLAB_TRACE_SEED();
  const Coverage coverage = coverage_of(GetParam(), random_cases(2000));
  const double share = static_cast<double>(coverage.held) / coverage.intervals;
  RecordProperty("coverage_percent", std::to_string(100 * share));
  EXPECT_GE(share, 0.93);
  EXPECT_LE(share, 0.97);
  EXPECT_LE(coverage.worst_bias, 0.02);
}
INSTANTIATE_TEST_SUITE_P(Models, SyntheticClustersSlow, testing::ValuesIn(truths()));

// Rows that say the same again and again make intervals narrower, and leave the prices as they are.
class RepeatedRows : public testing::TestWithParam<const char*> {};

TEST_P(RepeatedRows, GiveTheModelOfTheRowsThemselves) {
  SHARDLAB_TRACE_SEED();
  Random random(79);
  const Topology topology = topology_with(8);
  const Truth& known = truths()[std::string_view(GetParam()) == "nccl" ? 1 : 0];
  const auto truth = make_collective_model(choice_of(known.model, known.params), topology);
  std::vector<CollectiveQuery> asked;
  for (int k = 0; k < 32; ++k) {
    asked.push_back({Collective::kAllReduce, std::exp2(3 + k), group_of(16, 2)});
  }
  const std::vector<Observation> rows = measured(*truth, asked, random, 0.03);
  std::vector<Observation> repeated;
  while (repeated.size() < 96'000) repeated.insert(repeated.end(), rows.begin(), rows.end());
  const ModelEntry& model = *find_cost_model(GetParam());
  const Calibration once = calibrate(model, rows, topology);
  const Calibration often = calibrate(model, repeated, topology);
  EXPECT_EQ(often.rows_used, repeated.size());
  // What few rows tell, many tell more closely; they may also tell more.
  for (const FittedParameter& few : once.parameters) {
    const auto many = std::find_if(often.parameters.begin(), often.parameters.end(),
                                   [&](const FittedParameter& p) { return p.name == few.name; });
    ASSERT_NE(many, often.parameters.end()) << few.name;
    EXPECT_LT(many->high_95 - many->low_95, few.high_95 - few.low_95) << few.name;
  }
  for (const FittedParameter& many : often.parameters) {
    EXPECT_LT(many.low_95, many.high_95) << many.name;
  }
  const auto of_few = make_collective_model(once.choice(), topology);
  const auto of_many = make_collective_model(often.choice(), topology);
  for (const CollectiveQuery& query : asked) {
    EXPECT_NEAR(of_many->price(query).total.value() / of_few->price(query).total.value(), 1.0, 0.05)
        << query.full_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RepeatedRows, testing::Values("alpha_beta", "nccl", "piecewise"),
                         [](const auto& test) { return std::string(test.param); });

// What a fit asks of a model: how many of its instances were asked for more prices than `bound`.
struct AskedPrices {
  static inline std::size_t bound = 0;
  static inline std::size_t instances = 0;
  static inline std::size_t beyond = 0;
};

class CountedModel final : public CostModel {
 public:
  explicit CountedModel(std::unique_ptr<CostModel> model) : model_(std::move(model)) {}
  ~CountedModel() override {
    ++AskedPrices::instances;
    AskedPrices::beyond += asked_ > AskedPrices::bound ? 1U : 0U;
  }
  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    ++asked_;
    return model_->price(query);
  }

 private:
  std::unique_ptr<CostModel> model_;
  mutable std::size_t asked_ = 0;
};

// In each step of a fit, the model prices some thousands of sizes, however many there are.
TEST(Calibrate, ManyDistinctSizesAndGroupsArePricedInPart) {
  SHARDLAB_TRACE_SEED();
  Random random(80);
  const Topology topology = topology_with(8);
  const auto truth = make_collective_model(choice_of("nccl", truths()[1].params), topology);
  ModelEntry counted = *find_cost_model("nccl");
  counted.make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
    return std::make_unique<CountedModel>(find_cost_model("nccl")->make_collective(input));
  };
  for (const int groups : {2, 60}) {
    std::vector<CollectiveQuery> asked;
    for (int g = 0; g < groups; ++g) {
      for (int i = 0; i < 24'000 / groups; ++i) {
        asked.push_back({Collective::kAllReduce,
                         std::floor(1024 * std::exp(15.0 * i * groups / 24'000)),
                         group_of(8 * (g + 1), g + 1)});
      }
    }
    const std::vector<Observation> rows = measured(*truth, asked, random, 0.03);
    AskedPrices::bound = 8192;
    AskedPrices::instances = AskedPrices::beyond = 0;
    const Calibration fit = calibrate(counted, rows, topology);
    EXPECT_EQ(fit.rows_used, rows.size());
    EXPECT_GT(AskedPrices::instances, 10U);
    EXPECT_EQ(AskedPrices::beyond, 1U) << "the errors of the finished fit are those of all rows";
    const auto fitted = make_collective_model(fit.choice(), topology);
    for (std::size_t i = 0; i < asked.size(); i += 97) {
      const double us = truth->price(asked[i]).total.value();
      EXPECT_NEAR(fitted->price(asked[i]).total.value() / us, 1.0, 0.03) << asked[i].full_bytes;
    }
  }
}

TEST(Calibrate, SixRowsAtOneRankCountLeaveOneConstantAtItsPrior) {
  const Topology topology = topology_with(8);
  const ModelChoice choice = choice_of("alpha_beta", truths()[0].params);
  const auto model = make_collective_model(choice, topology);
  Random random(72);
  std::vector<CollectiveQuery> asked;
  for (int k = 0; k < 6; ++k) {
    asked.push_back({Collective::kAllReduce, std::exp2(10 + 4 * k), group_of(8)});
  }
  const auto rows = measured(*model, asked, random, 0.01);
  const Calibration fit = calibrate(*choice.entry, rows, topology);
  ASSERT_EQ(fit.not_identified.size(), 1U);
  EXPECT_EQ(fit.parameters.size(), 2U);
  const KeptParameter& kept = fit.not_identified.front();
  EXPECT_TRUE(kept.name == "launch_us" || kept.name == "latency_us") << kept.name;
  EXPECT_EQ(kept.prior, kept.name == "launch_us" ? 7.0 : 0.6);
  const auto fitted = make_collective_model(fit.choice(), topology);
  for (const CollectiveQuery& query : asked) {
    const double us = model->price(query).total.value();
    EXPECT_NEAR(fitted->price(query).total.value() / us, 1.0, 0.03);
  }
}

TEST(Calibrate, RowsOfOneSetThatContradictEachOtherAreRefused) {
  const Topology topology = topology_with(8);
  const auto model = make_collective_model(choice_of("alpha_beta", truths()[0].params), topology);
  Random random(73);
  auto rows = measured(*model, questions(), random, 0.01);
  rows.push_back(rows[3]);
  rows.back().time_us *= 2;
  for (const char* name : {"alpha_beta", "piecewise"}) {
    const Calibration fit = calibrate(*find_cost_model(name), rows, topology);
    ASSERT_EQ(fit.refused.size(), 2U) << name;
    EXPECT_EQ(fit.refused[0].row, 3U);
    EXPECT_EQ(fit.refused[1].row, 24U);
    EXPECT_EQ(fit.rows_used, 23U);
    EXPECT_NE(fit.refused[0].reason.find("rows for the same collective, size and group range from"),
              std::string::npos);
  }
  rows.back().set = 1;  // another system, which may be slower
  EXPECT_TRUE(calibrate(*find_cost_model("piecewise"), rows, topology).refused.empty());
}

TEST(Calibrate, RefusesWhatItCannotFit) {
  const Topology topology = topology_with(8);
  const std::vector<Observation> two = {{{Collective::kAllReduce, 1024, group_of(8)}, 10.0, 0},
                                        {{Collective::kAllReduce, 2048, group_of(8)}, 11.0, 0}};
  EXPECT_THROW_MSG(calibrate(*find_cost_model("piecewise"), two, topology), InputError,
                   "calibrate: piecewise needs at least 3 rows of one collective and group; found "
                   "at most 2 of any");
  const std::vector<Observation> one = {two[0]};
  EXPECT_THROW_MSG(calibrate(*find_cost_model("piecewise"), one, topology), InputError,
                   "calibrate: piecewise needs at least 3 rows of one collective and group; found "
                   "at most 1 of any");
  const std::vector<Observation> apart = {two[0],
                                          {{Collective::kAllGather, 1024, group_of(8)}, 10.0, 0}};
  EXPECT_THROW_MSG(calibrate(*find_cost_model("piecewise"), apart, topology), InputError,
                   "calibrate: piecewise needs at least 3 rows of one collective and group; found "
                   "at most 1 of any");
  const std::vector<Observation> none = {{{Collective::kAllReduce, 1024, group_of(8)}, 0.0, 0}};
  EXPECT_THROW_MSG(calibrate(*find_cost_model("alpha_beta"), none, topology), InputError,
                   "calibrate: found all_reduce of 1024 B among 8 ranks on 1 host: 0 us; valid: "
                   "at least 2 ranks and a time above 0");
  EXPECT_THROW(static_cast<void>(calibrate(*find_cost_model("dtensor"), two, topology)),
               InputError);
}

TEST(Calibrate, NamesSizesThatHelpMost) {
  const Topology topology = topology_with(8);
  const auto model = make_collective_model(choice_of("alpha_beta", truths()[0].params), topology);
  Random random(74);
  std::vector<CollectiveQuery> asked;
  for (const double bytes : {1024.0, 2048.0, 4096.0, 8192.0}) {
    asked.push_back({Collective::kAllReduce, bytes, group_of(8)});
  }
  const Calibration fit =
      calibrate(*find_cost_model("piecewise"), measured(*model, asked, random, 0.01), topology);
  ASSERT_EQ(fit.next_sizes.size(), 3U);
  EXPECT_GT(fit.more_rows, 0);
  // All rows are small, so a large one tells the most.
  EXPECT_GE(fit.next_sizes.front().query.full_bytes, 1 << 20);
  EXPECT_LT(fit.next_sizes.front().variance_left_percent, 70.0);
}

TEST(Calibrate, AsymptotesThatNoRowTellsComeFromTheOtherCurves) {
  const Topology topology = topology_with(8);
  const auto model = make_collective_model(choice_of("alpha_beta", truths()[0].params), topology);
  Random random(76);
  std::vector<CollectiveQuery> asked;
  for (int k = 0; k < 12; ++k) {
    asked.push_back({Collective::kAllGather, std::exp2(10 + 2 * k), group_of(8)});
  }
  for (int k = 0; k < 6; ++k) {
    asked.push_back({Collective::kAllReduce, std::exp2(8 + k), group_of(8)});
  }
  const auto rows = measured(*model, asked, random, 0.01);
  const Calibration fit = calibrate(*find_cost_model("piecewise"), rows, topology);
  ASSERT_EQ(fit.not_identified.size(), 1U);
  EXPECT_EQ(fit.not_identified[0].name, "all_reduce.8x1.bandwidth_gb_per_s");
  EXPECT_EQ(
      fit.not_identified[0].reason,
      "no row is large enough to determine the bandwidth; the prior comes from the other curves");
  const CollectiveQuery large{Collective::kAllReduce, 1e9, group_of(8)};
  const double us = model->price(large).total.value();
  const auto fitted = make_collective_model(fit.choice(), topology);
  EXPECT_NEAR(fitted->price(large).total.value() / us, 1.0, 0.3);

  const std::span<const Observation> small(rows.data() + 12, 6);
  const Calibration alone = calibrate(*find_cost_model("piecewise"), small, topology);
  EXPECT_EQ(alone.not_identified[0].reason,
            "no row is large enough to determine the bandwidth; the prior comes from the topology");
}

}  // namespace calibration_test
}  // namespace shardlab
