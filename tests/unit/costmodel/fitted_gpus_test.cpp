// Which GPU a name means, and what a fitted model claims on another GPU than its own.
#include "costmodel/fitted_gpus.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/gpu_model.h"
#include "costmodel/measured_ranges.h"
#include "costmodel/registry.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace fitted_gpus_test {

TEST(GpuModel, GpusAreToldApart) {
  EXPECT_EQ(gpu_model("H100-SXM5-80GB"), "h100");
  EXPECT_EQ(gpu_model("h100-roce"), "h100");
  EXPECT_EQ(gpu_model("GH200-96GB"), "gh200");
  EXPECT_EQ(gpu_model("A100-PCIE-40GB"), "a100-pcie");
  EXPECT_EQ(gpu_model("GeForce RTX 2080 Ti"), "");
  EXPECT_EQ(gpu_model("MI300X (virtual function)"), "mi300x");
  EXPECT_EQ(gpu_model("mi355x"), "mi355x");
  EXPECT_EQ(gpu_model("MI250X (each GCD a GPU)"), "");
}

TEST(GpuModel, OtherGpusHaveTheirPlainName) {
  EXPECT_EQ(plain_gpu("NVIDIA L40S"), "l40s");
  EXPECT_EQ(plain_gpu("NVIDIA GeForce RTX 4090 (24 GB)"), "rtx4090");
  EXPECT_EQ(plain_gpu("H100-SXM5-80GB"), "h100");
  EXPECT_EQ(plain_gpu(""), "");
}

Topology topology_named(const std::string& name, const std::string& gpu = "") {
  nlohmann::json json = testing_support::topology_json(8);
  json["name"] = name;
  if (!gpu.empty()) json["device"]["gpu"] = gpu;
  return Topology::from_json(json, {"t.json", ""});
}

TEST(FittedGpus, VariantsOfATopologyHaveItsGpu) {
  const std::vector<std::string> h100 = {"h100"};
  for (const char* name : {"h100", "h100-roce", "h100-hbm2e"}) {
    EXPECT_TRUE(is_fitted_to(h100, topology_named(name))) << name;
  }
  EXPECT_TRUE(is_fitted_to(h100, topology_named("mine", "h100")));
  for (const char* name : {"a100", "h200", "mi300x", "mine", "h100-pcie"}) {
    EXPECT_FALSE(is_fitted_to(h100, topology_named(name))) << name;
  }
  EXPECT_TRUE(is_fitted_to(std::vector<std::string>{"a100", "h100"}, topology_named("a100")));
  EXPECT_TRUE(is_fitted_to({}, topology_named("a100"))) << "no GPU is named";
}

// Rows of all-gathers among 8 ranks on one host, fitted to the GPU.
const std::string kFitted = R"({"name": "population", "params": {}, "fitted_gpus": ["h100"],
  "rows": [{"collective": "all_gather", "ranks": 8, "domains": 1, "measured": [1, 1024, 1048576],
            "points": [[-2.0, 1.1, 0.2], [2.0, 0.9, 0.1]]}]})";

TEST(FittedGpus, OnAnotherGpuPricesStayAndNothingIsMeasured) {
  const auto choice = nlohmann::json::parse(kFitted);
  const auto own = testing_support::collective_model(choice, topology_named("h100"));
  const auto other = testing_support::collective_model(choice, topology_named("a100"));
  const CollectiveQuery query{Collective::kAllGather, 4096, {.ranks = 8, .ranks_per_host = 8}};
  EXPECT_EQ(other->price(query).total, own->price(query).total);
  EXPECT_TRUE(own->log_error(query));
  EXPECT_FALSE(other->log_error(query));
  EXPECT_FALSE(MeasuredRanges(own->measured()).gap(query));
  const auto gap = MeasuredRanges(other->measured()).gap(query);
  ASSERT_TRUE(gap);
  EXPECT_EQ(gap->text(), "all_gather of 8 ranks on 1 host (the rows are of h100)");
  CollectiveQuery reduce = query;
  reduce.kind = Collective::kAllReduce;
  EXPECT_EQ(MeasuredRanges(other->measured()).gap(reduce)->text(),
            "all_reduce of 8 ranks on 1 host");
}

TEST(FittedGpus, AreKeptInTheFile) {
  const ModelChoice choice =
      read_model_choice(nlohmann::json::parse(kFitted), {"test.json", "/model"});
  EXPECT_EQ(choice.fitted_gpus, std::vector<std::string>{"h100"});
  EXPECT_EQ(choice.to_json()["fitted_gpus"], nlohmann::json::array({"h100"}));
  const ModelChoice older = read_model_choice("alpha_beta", {"test.json", "/model"});
  EXPECT_FALSE(older.to_json().contains("fitted_gpus"));
  EXPECT_THROW_MSG(
      static_cast<void>(read_model_choice({{"name", "alpha_beta"}, {"fitted_gpus", {"h100", ""}}},
                                          {"test.json", "/model"})),
      ConfigError,
      "test.json:/model/fitted_gpus/1: found \"\"; valid: the name of a GPU, such as \"h100\"");
}

}  // namespace fitted_gpus_test
}  // namespace shardlab
