// The models roofline and none: what one kernel costs.
#include <gtest/gtest.h>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace compute_models_test {

using testing_support::compute_model;
using testing_support::topology_with;

class Roofline : public testing::Test {
 protected:
  const Topology topology_ = topology_with(8);
  const std::unique_ptr<ComputeModel> model_ = compute_model("roofline", topology_);
};

TEST_F(Roofline, ASmallKernelTakesItsLaunch) {
  EXPECT_EQ(model_->price({Kernel::kCopy, 8, 0, DType::kF32}).total.value(), 7.0);
}

TEST_F(Roofline, ACopyTakesItsBytesOverSeventyPercentOfTheMemoryBandwidth) {
  // 3350 GB/s * 0.7 is 2345 kB/us, so that 2.345 GB take 1000 us.
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kCopy, 2.345e9, 0, DType::kF32}).total.value(), 1000.0);
}

TEST_F(Roofline, AProductTakesItsOperationsOverSeventyPercentOfThePeakOfItsDType) {
  // The device does 989e6 * 0.7 operations per us in bf16, and 67e6 * 0.7 in f32.
  const double flops = 989e6 * 0.7 * 100;
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 8, flops, DType::kBF16}).total.value(), 100.0);
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 8, flops, DType::kF32}).total.value(),
                   100.0 * 989 / 67);
}

TEST_F(Roofline, TheLongestOfTheThreeDecides) {
  const double flops = 989e6 * 0.7 * 100;  // 100 us
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 2.345e9, flops, DType::kBF16}).total.value(),
                   1000.0);
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 2.345e6, flops, DType::kBF16}).total.value(),
                   100.0);
}

TEST_F(Roofline, NoWorkIsNoKernel) {
  EXPECT_EQ(model_->price({Kernel::kCopy, 0, 0, DType::kF32}).total.value(), 0.0);
}

TEST_F(Roofline, ViewsAreFreeAndComplexProductsTakeFourRealOnes) {
  EXPECT_EQ(model_->price({Kernel::kView, 1e9, 0, DType::kF32}).total.value(), 0.0);
  EXPECT_DOUBLE_EQ(model_->price({Kernel::kGemm, 8, 1e12, DType::kC64}).total.value(),
                   4.0 * model_->price({Kernel::kGemm, 8, 1e12, DType::kF32}).total.value());
}

TEST_F(Roofline, ItsPriceIsAllCompute) {
  const Price price = model_->price({Kernel::kCopy, 1e9, 0, DType::kF32});
  EXPECT_EQ(price.compute, price.total);
  EXPECT_EQ(price.latency.value() + price.transfer.value(), 0.0);
}

TEST_F(Roofline, ItsParametersReplaceLaunchAndEfficiencies) {
  const auto model = compute_model(
      {{"name", "roofline"},
       {"params", {{"launch_us", 0}, {"memory_efficiency", 1}, {"flops_efficiency", 0.5}}}},
      topology_);
  EXPECT_DOUBLE_EQ(model->price({Kernel::kCopy, 3350e3, 0, DType::kF32}).total.value(), 1.0);
  EXPECT_DOUBLE_EQ(model->price({Kernel::kGemm, 0, 67e6, DType::kF32}).total.value(), 2.0);
}

TEST(FreeKernels, CostNothing) {
  const Topology topology = topology_with(8);
  const auto model = compute_model("none", topology);
  EXPECT_EQ(model->price({Kernel::kGemm, 1e12, 1e15, DType::kF32}).total.value(), 0.0);
}

}  // namespace compute_models_test
}  // namespace shardlab
