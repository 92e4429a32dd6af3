// Terms that were planted into synthetic rows are found again.
#include "runner/steps/step_calibration.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runner/steps/steps_answers.h"
#include "tests/support/process.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace step_calibration_test {

using testing_support::h100;
using testing_support::shipped;

// Small runs of two GPUs and two modes, whose figures come from the model itself.
std::vector<StepRow> small_rows() {
  std::vector<StepRow> rows;
  for (const char* gpu : {"H100", "A100"}) {
    for (const char* compile : {"yes", "no"}) {
      for (const std::int64_t seq : {1024, 4096, 16384}) {
        for (const std::int64_t gpus : {8, 32}) {
          StepRow row;
          row.id = std::to_string(rows.size());
          row.source = "test/rows";
          row.framework = "torchtitan";
          row.model = "llama3-8b";
          row.layers = 4;
          row.gpu = gpu;
          row.gpus = gpus;
          row.fsdp = gpus;
          row.seq = seq;
          row.micro_batch = 16384 / seq;
          row.act_ckpt = "none";
          row.compile = compile;
          row.tokens_per_s_per_gpu = 1.0;
          rows.push_back(row);
        }
      }
    }
  }
  return rows;
}

ExpressedSteps express(const std::vector<StepRow>& rows) {
  static const Stack stack = shipped().stack("steps");
  const RecipeBook book = read_csv("source_repo,model\n", "recipes.csv");
  return express_steps(
      rows, {stack.collective_model, stack.compute_model, stack.straggler},
      [](const PublishedRun& run) {
        return shipped().topology(run.topology, run.devices_per_host);
      },
      book);
}

ExpressedSteps planted(const StepTerms& terms) {
  ExpressedSteps steps = express(small_rows());
  for (ExpressedStep& step : steps.steps) {
    step.row.tokens_per_s_per_gpu = step.predict(terms).tokens_per_s_per_gpu;
  }
  return steps;
}

// Where every term is at the middle of its prior.
StepTerms prior_terms(const ExpressedSteps& steps) {
  StepTerms terms;
  for (const TermKind& kind : term_kinds()) {
    std::set<RunTraits> groups;
    for (const ExpressedStep& step : steps.steps) {
      const RunTraits& traits = step.published.traits;
      if (!StepTerm{.name = "", .when = kind.only}.holds(traits)) continue;
      RunTraits when = kind.only;
      for (const std::string_view trait : kind.traits) {
        when[std::string(trait)] = traits.at(std::string(trait));
      }
      groups.insert(when);
    }
    for (const RunTraits& when : groups) {
      terms.terms.push_back(
          {.name = std::string(kind.factor), .when = when, .value = kind.expected});
    }
  }
  return terms;
}

TEST(StepCalibration, RowsAtThePriorsLeaveThemAlone) {
  const StepTerms priors = prior_terms(express(small_rows()));
  const ExpressedSteps steps = planted(priors);
  ASSERT_EQ(steps.steps.size(), 24U);
  const StepCalibration fit = calibrate_steps(steps);
  EXPECT_EQ(fit.rows, 24U);
  for (const ExpressedStep& step : steps.steps) {
    const StepFactors found = fit.terms.factors(step.published.traits);
    const StepFactors known = priors.factors(step.published.traits);
    for (const FactorRow& row : all_step_factors()) {
      EXPECT_NEAR(found.*row.member, known.*row.member, 0.01 * std::abs(known.*row.member) + 1e-9)
          << row.name;
    }
  }
}

TEST(StepCalibration, PlantedFactorsAreFoundWithinTheirIntervals) {
  StepTerms terms = prior_terms(express(small_rows()));
  terms.terms.push_back({.name = "gemm", .when = {{"gpu", "h100"}}, .value = 0.85});
  terms.terms.push_back({.name = "gemm", .when = {{"gpu", "a100"}}, .value = 1.1});
  terms.terms.push_back({.name = "attention", .when = {{"gpu", "h100"}}, .value = 0.8});
  terms.terms.push_back({.name = "memory", .when = {{"execution", "eager"}}, .value = 0.7});
  const ExpressedSteps steps = planted(terms);
  const StepCalibration fit = calibrate_steps(steps);
  for (const StepResult& result : predict_all(steps, fit.terms)) {
    EXPECT_LT(std::abs(result.error_percent()), 1.5) << result.step->row.id;
  }
  // The product of all terms that hold for a run is what the rows tell; how it is shared among
  // terms of coarse and fine groups is told by the priors. The products are close, and each term of
  // the fit has an interval around it.
  for (const ExpressedStep& step : steps.steps) {
    const StepFactors found = fit.terms.factors(step.published.traits);
    const StepFactors known = terms.factors(step.published.traits);
    EXPECT_NEAR(found.gemm / known.gemm, 1.0, 0.03);
    EXPECT_NEAR(found.attention / known.attention, 1.0, 0.08);
    EXPECT_NEAR(found.memory / known.memory, 1.0, 0.12);
    double low = 0.0;
    double high = 0.0;
    for (const StepTerm& term : fit.terms.terms) {
      ASSERT_TRUE(term.low && term.high) << term.name;
      EXPECT_LE(*term.low, term.value);
      EXPECT_GE(*term.high, term.value);
      if (term.name != "gemm" || !term.holds(step.published.traits)) continue;
      low += std::log(*term.low);
      high += std::log(*term.high);
    }
    EXPECT_LE(low, std::log(known.gemm));
    EXPECT_GE(high, std::log(known.gemm));
  }
}

TEST(StepCalibration, AFittedStackReadsBackAndPredictsTheSame) {
  const Stack stack = shipped().stack("steps");
  StepCalibration fit;
  fit.rows = 2;
  fit.terms.terms = {{.name = "gemm", .when = {{"gpu", "h100"}}, .value = 0.9},
                     {.name = "memory", .when = {}, .value = 0.7, .low = 0.6, .high = 0.8}};
  LoadedSteps loaded;
  loaded.file = "rows.csv";
  loaded.stack = stack;
  const testing_support::TemporaryFolder folder;
  const auto path = folder.write("mine.json", fitted_step_stack(loaded, fit, "mine").dump());
  const Stack read = shipped().stack(path.string());
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(step_terms_of(read).to_json(), fit.terms.to_json());
  const ExpressedSteps steps = express(small_rows());
  for (const ExpressedStep& step : steps.steps) {
    EXPECT_EQ(step.predict(step_terms_of(read)).step_us, step.predict(fit.terms).step_us);
  }
}

TEST(StepValidation, RowsThatCantBeExpressedAreListedWithTheReason) {
  std::vector<StepRow> rows = small_rows();
  rows.resize(2);
  rows[1].gpu = "MI300X";
  const ExpressedSteps steps = express(rows);
  EXPECT_EQ(steps.steps.size(), 1U);
  ASSERT_EQ(steps.not_expressed.size(), 1U);
  EXPECT_EQ(steps.not_expressed[0].id, "1");
  EXPECT_NE(steps.not_expressed[0].reason.find("MI300X"), std::string::npos);
}

}  // namespace step_calibration_test
}  // namespace shardlab
