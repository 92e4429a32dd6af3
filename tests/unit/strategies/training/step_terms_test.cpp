#include "strategies/training/step_terms.h"

#include <gtest/gtest.h>

#include <set>

#include "costmodel/base/error.h"

namespace shardlab {
namespace step_terms_test {

StepTerms terms_of(const nlohmann::json& json) {
  return StepTerms::from_json(json, {"stack.json", "/step_terms"});
}

std::string error_of(const nlohmann::json& json) {
  try {
    (void)terms_of(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StepTerms, WithoutTermsTheStacksPricesHold) {
  const StepFactors factors = terms_of(nlohmann::json::array()).factors({{"gpu", "h100"}});
  const StepFactors plain;
  for (const FactorRow& row : all_step_factors()) {
    EXPECT_EQ(factors.*row.member, plain.*row.member) << row.name;
    EXPECT_GE(plain.*row.member, row.min) << row.name;
    EXPECT_LE(plain.*row.member, row.max) << row.name;
  }
}

TEST(StepTerms, TermsWhoseConditionsAllHoldAreMultiplied) {
  const StepTerms terms = terms_of(
      {{{"name", "gemm"}, {"value", 0.9}},
       {{"name", "gemm"}, {"when", {{"gpu", "h100"}}}, {"value", 0.8}},
       {{"name", "gemm"}, {"when", {{"gpu", "h100"}, {"execution", "eager"}}}, {"value", 0.5}},
       {{"name", "host_us"}, {"value", 2.0}}});
  EXPECT_DOUBLE_EQ(terms.factors({}).gemm, 0.9);
  EXPECT_DOUBLE_EQ(terms.factors({{"gpu", "h100"}}).gemm, 0.9 * 0.8);
  EXPECT_DOUBLE_EQ(terms.factors({{"gpu", "h100"}, {"execution", "eager"}}).gemm, 0.9 * 0.8 * 0.5);
  EXPECT_DOUBLE_EQ(terms.factors({{"gpu", "a100"}, {"execution", "eager"}}).gemm, 0.9);
  EXPECT_DOUBLE_EQ(terms.factors({}).host_us, 10.0);
  EXPECT_EQ(terms.factors({}).attention, 1.0);
}

TEST(StepTerms, FactorsThatAreTimesAreMultipliedToo) {
  const StepTerms terms = terms_of({{{"name", "waiting"}, {"value", 2.0}},
                                    {{"name", "waiting"}, {"when", {{"gpu", "b"}}}, {"value", 3.0}},
                                    {{"name", "fixed_us"}, {"value", 0.5}}});
  const StepFactors plain;
  EXPECT_DOUBLE_EQ(terms.factors({}).waiting, 2.0 * plain.waiting);
  EXPECT_DOUBLE_EQ(terms.factors({{"gpu", "b"}}).waiting, 6.0 * plain.waiting);
  EXPECT_DOUBLE_EQ(terms.factors({}).fixed_us, 0.5 * plain.fixed_us);
}

TEST(StepTerms, FactorsStayWithinTheirBounds) {
  for (const FactorRow& row : all_step_factors()) {
    const std::string name(row.name);
    EXPECT_EQ(terms_of({{{"name", name}, {"value", 1e9}}}).factors({}).*row.member, row.max)
        << name;
    EXPECT_EQ(terms_of({{{"name", name}, {"value", 0.0}}}).factors({}).*row.member, row.min)
        << name;
  }
}

TEST(StepTerms, AreWrittenAsTheyWereRead) {
  const nlohmann::json json = {
      {{"name", "gemm"}, {"when", {{"gpu", "h100"}}}, {"value", 0.9}, {"low", 0.8}, {"high", 1.0}},
      {{"name", "links"}, {"value", 1.5}}};
  EXPECT_EQ(terms_of(json).to_json(), json);
}

TEST(StepTerms, BadTermsSayWhereTheyStandAndWhatIsValid) {
  EXPECT_EQ(
      error_of({{{"name", "gem"}, {"value", 1.0}}}),
      "stack.json:/step_terms/0/name: found \"gem\" (did you mean \"gemm\"?); valid: rate, "
      "gemm, low_gemm, grouped, attention, memory, links, network, host_us, collective_share, "
      "memory_passes, waiting, fixed_us");
  EXPECT_EQ(error_of({{{"name", "gemm"}, {"value", 1.0}}, {{"name", "gemm"}}}),
            "stack.json:/step_terms/1: missing key \"value\"");
  EXPECT_EQ(error_of({{{"name", "gemm"}, {"value", 1.0}, {"when", "h100"}}}),
            "stack.json:/step_terms/0/when: found \"h100\"; valid: an object of texts, {\"gpu\": "
            "\"h100\"}");
  EXPECT_NE(error_of({{{"name", "gemm"}, {"value", -1.0}}}), "");
  EXPECT_NE(error_of({{{"name", "gemm"}, {"value", 1.0}, {"when", {{"gpu", 3}}}}}), "");
  EXPECT_NE(error_of({{{"name", "gemm"}, {"value", 1.0}, {"valeu", 3}}}), "");
  EXPECT_NE(error_of({{"name", "gemm"}}), "");
}

}  // namespace step_terms_test
}  // namespace shardlab
