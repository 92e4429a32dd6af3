#include "costmodel/price_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace price_watch_test {

using testing_support::topology_with;

ModelChoice choice_of(const std::string& name) { return read_model_choice(name, {"test", ""}); }

// The topology with another value at the place that a JSON pointer names.
Topology changed(const Topology& topology, const char* pointer, double value) {
  nlohmann::json json = topology.to_json();
  json[nlohmann::json::json_pointer(pointer)] = value;
  return Topology::from_json(json, {"test", ""});
}

// A model of collectives that is watched from a topology with another latency of the host's links.
struct WatchedModel {
  explicit WatchedModel(const std::string& name)
      : watch(
            std::make_shared<PriceWatch>(changed(topology_with(8), "/links/0/latency_us", 1000.0))),
        own(make_collective_model(choice_of(name), topology_with(8))),
        model(watched(make_collective_model(choice_of(name), topology_with(8)), choice_of(name),
                      {&watch, 1})) {}

  std::shared_ptr<PriceWatch> watch;
  std::unique_ptr<CostModel> own;
  std::unique_ptr<CostModel> model;
};

constexpr CollectiveQuery kInHost{
    Collective::kAllGather, 1 << 20, {.ranks = 8, .ranks_per_host = 8, .extent = 8, .walk = 8}};

TEST(PriceWatch, SeesADifferenceAndLeavesThePriceAsItIs) {
  const WatchedModel watched("alpha_beta");
  EXPECT_FALSE(watched.watch->saw_difference());
  EXPECT_EQ(watched.model->price(kInHost).total, watched.own->price(kInHost).total);
  EXPECT_TRUE(watched.watch->saw_difference());
  EXPECT_FALSE(watched.watch->is_open());
  EXPECT_EQ(watched.model->price(kInHost).total, watched.own->price(kInHost).total);
}

// Groups across hosts run over other links.
TEST(PriceWatch, SeesNoDifferenceInWhatIsNotAsked) {
  const WatchedModel watched("alpha_beta");
  const CollectiveQuery across{Collective::kAllGather,
                               1 << 20,
                               {.ranks = 2, .hosts = 2, .domains = 2, .extent = 9, .walk = 16}};
  EXPECT_GT(watched.model->price(across).total.value(), 0.0);
  EXPECT_FALSE(watched.watch->saw_difference());
  EXPECT_TRUE(watched.watch->is_open());
}

// DTensor's model has constants of its own and reads no links.
TEST(PriceWatch, SeesNoDifferenceInAModelThatDoesNotReadTheChange) {
  const WatchedModel watched("dtensor");
  EXPECT_GT(watched.model->price(kInHost).total.value(), 0.0);
  EXPECT_FALSE(watched.watch->saw_difference());
}

TEST(PriceWatch, SeesNothingOnceItIsClosed) {
  const WatchedModel watched("alpha_beta");
  watched.watch->close();
  EXPECT_GT(watched.model->price(kInHost).total.value(), 0.0);
  EXPECT_FALSE(watched.watch->saw_difference());
}

// A change of one dtype's rate shows in kernels of this dtype alone.
TEST(PriceWatch, SeesTheDtypeOfAKernel) {
  const auto watch =
      std::make_shared<PriceWatch>(changed(topology_with(8), "/device/peak_tflops/f32", 0.001));
  const auto kernels = watched(make_compute_model(choice_of("roofline"), topology_with(8)),
                               choice_of("roofline"), {&watch, 1});
  KernelQuery product{.kind = Kernel::kGemm, .bytes = 1e6, .flops = 1e12, .dtype = DType::kBF16};
  EXPECT_GT(kernels->price(product).total.value(), 0.0);
  EXPECT_FALSE(watch->saw_difference());
  product.dtype = DType::kF32;
  EXPECT_GT(kernels->price(product).total.value(), 0.0);
  EXPECT_TRUE(watch->saw_difference());
}

}  // namespace price_watch_test
}  // namespace shardlab
