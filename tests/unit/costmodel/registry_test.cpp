#include "costmodel/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace registry_test {

using nlohmann::json;
using testing_support::topology_with;

const JsonPlace kPlace{"s.json", "/collective_model"};

TEST(ModelRegistry, IsSortedWithoutDuplicates) {
  std::vector<std::string_view> names;
  for (const ModelEntry* entry : all_cost_models()) names.push_back(entry->name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  EXPECT_GE(names.size(), 5U);
}

TEST(ModelRegistry, EveryEntryIsDescribedAndMakesSomething) {
  for (const ModelEntry* entry : all_cost_models()) {
    SCOPED_TRACE(entry->name);
    EXPECT_FALSE(entry->summary.empty());
    EXPECT_FALSE(entry->formula.empty());
    EXPECT_FALSE(entry->source.empty());
    EXPECT_FALSE(entry->valid_range.empty());
    EXPECT_TRUE(entry->make_collective != nullptr || entry->make_compute != nullptr);
    EXPECT_EQ(find_cost_model(entry->name), entry);
  }
}

TEST(ModelRegistry, EveryParameterHasItsHelpAndADefaultInRange) {
  for (const ModelEntry* entry : all_cost_models()) {
    std::set<std::string_view> names;
    for (const ParamSpec& spec : entry->params) {
      SCOPED_TRACE(std::string(entry->name) + "." + std::string(spec.name));
      EXPECT_TRUE(names.insert(spec.name).second);
      EXPECT_FALSE(spec.help.empty());
      EXPECT_LE(spec.min, spec.max);
      if (spec.default_value) {
        EXPECT_GE(*spec.default_value, spec.min);
        EXPECT_LE(*spec.default_value, spec.max);
      }
    }
  }
}

TEST(ModelRegistry, FindsNothingUnderAnUnknownName) {
  EXPECT_EQ(find_cost_model("dtenso"), nullptr);
}

TEST(ModelChoice, IsReadFromANameOrAnObject) {
  const ModelChoice by_name = read_model_choice("dtensor", kPlace);
  EXPECT_EQ(by_name.entry->name, "dtensor");
  const ModelChoice by_object =
      read_model_choice({{"name", "dtensor"}, {"params", {{"base_latency_us", 1}}}}, kPlace);
  EXPECT_EQ(by_object.params["base_latency_us"], 1);
}

TEST(ModelChoice, ToJsonFillsDefaultsAndReadsBack) {
  const json filled = read_model_choice("dtensor", kPlace).to_json();
  EXPECT_EQ(filled["params"]["base_latency_us"], 6.6);
  EXPECT_EQ(filled["params"].size(), 5U);
  EXPECT_FALSE(filled.contains("rows"));
  EXPECT_EQ(read_model_choice(filled, kPlace).to_json(), filled);
}

TEST(ModelChoice, KeepsTheRowsOfAModelThatReadsThem) {
  const json rows = {{{"collective", "all_gather"}, {"ranks", 2}, {"bytes", 1}, {"time_us", 1}}};
  EXPECT_EQ(read_model_choice({{"name", "table"}, {"rows", rows}}, kPlace).to_json()["rows"], rows);
}

TEST(ModelChoice, AnUnknownModelIsAnErrorThatListsTheKnown) {
  EXPECT_THROW_MSG(read_model_choice("dtenso", kPlace), ConfigError,
                   "s.json:/collective_model: unknown model \"dtenso\" (did you mean "
                   "\"dtensor\"?); valid: alpha_beta, ap_default, ap_nccl, ap_roofline, dtensor, "
                   "kernels, nccl, none, piecewise, population, roofline, table");
  EXPECT_THROW_MSG(
      read_model_choice({{"name", "magic"}}, kPlace), ConfigError,
      "s.json:/collective_model/name: unknown model \"magic\"; valid: "
      "alpha_beta, ap_default, ap_nccl, ap_roofline, dtensor, kernels, nccl, none, piecewise, "
      "population, roofline, table");
}

TEST(ModelChoice, ASwitchIsZeroOrOne) {
  struct Switch {
    const char* model;
    const char* param;
  };
  for (const Switch& each : {Switch{"roofline", "tf32_matmul"}, Switch{"ap_nccl", "nvswitch"}}) {
    const char* const model = each.model;
    const char* const param = each.param;
    for (const double valid : {0.0, 1.0}) {
      EXPECT_NO_THROW(static_cast<void>(
          read_model_choice({{"name", model}, {"params", {{param, valid}}}}, kPlace)));
    }
    EXPECT_THROW_MSG(
        static_cast<void>(read_model_choice({{"name", model}, {"params", {{param, 0.5}}}}, kPlace)),
        ConfigError,
        std::string("s.json:/collective_model/params/") + param + ": found 0.5; valid: 0 or 1");
  }
}

TEST(ModelChoice, AnUnknownParameterNamesTheNearest) {
  EXPECT_THROW_MSG(
      read_model_choice({{"name", "roofline"}, {"params", {{"lauch_us", 1}}}}, kPlace), ConfigError,
      "s.json:/collective_model/params/lauch_us: unknown parameter (did you mean \"launch_us\"?); "
      "valid: launch_us, memory_efficiency, flops_efficiency, attention_efficiency, "
      "copy_efficiency, strided_copy_efficiency, elementwise_efficiency, "
      "reduction_efficiency, f64_flops_efficiency, f32_flops_efficiency, "
      "tf32_flops_efficiency, f8_flops_efficiency, copy_startup_us, strided_copy_startup_us, "
      "elementwise_startup_us, reduction_startup_us, gemm_startup_us, "
      "tf32_matmul, tf32_convolution");
}

TEST(ModelChoice, AValueOutOfRangeNamesTheRange) {
  EXPECT_THROW_MSG(
      read_model_choice({{"name", "roofline"}, {"params", {{"flops_efficiency", 2}}}}, kPlace),
      ConfigError,
      "s.json:/collective_model/params/flops_efficiency: found 2; valid: a number from 1e-06 to 1");
}

TEST(ModelChoice, RowsForAModelThatReadsNoneAreAnError) {
  EXPECT_THROW_MSG(read_model_choice({{"name", "dtensor"}, {"rows", {1}}}, kPlace), ConfigError,
                   "s.json:/collective_model/rows: model \"dtensor\" reads no rows");
}

TEST(ModelChoice, OtherMistakesInItsObjectAreErrors) {
  EXPECT_THROW_MSG(read_model_choice(json::object(), kPlace), ConfigError,
                   "s.json:/collective_model: missing key \"name\"");
  EXPECT_THROW_MSG(read_model_choice({{"name", "dtensor"}, {"parms", 1}}, kPlace), ConfigError,
                   "s.json:/collective_model/parms: unknown key (did you mean \"params\"?); valid: "
                   "name, params, rows, fitted_gpus");
  EXPECT_THROW_MSG(read_model_choice(5, kPlace), ConfigError,
                   "s.json:/collective_model: found 5; valid: an object");
}

TEST(ModelChoice, AComputeModelPricesNoCollectives) {
  EXPECT_THROW_MSG(make_collective_model(read_model_choice("roofline", kPlace), topology_with(8)),
                   ConfigError,
                   "s.json:/collective_model: \"roofline\" prices no collectives; valid: "
                   "alpha_beta, ap_default, ap_nccl, dtensor, nccl, piecewise, population, table");
}

TEST(ModelChoice, ACollectiveModelPricesNoKernels) {
  EXPECT_THROW_MSG(
      make_compute_model(read_model_choice("dtensor", kPlace), topology_with(8)), ConfigError,
      "s.json:/collective_model: \"dtensor\" prices no kernels; valid: ap_roofline, kernels, "
      "none, roofline");
}

}  // namespace registry_test
}  // namespace shardlab
