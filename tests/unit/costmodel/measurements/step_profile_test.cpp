// Where the time of a profiled step went: which kernels are products or attention, what is exposed
// and what is idle, and where a step begins and ends.
#include "costmodel/measurements/step_profile.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"

namespace shardlab {
namespace step_profile_test {

using nlohmann::json;

json event(const std::string& category, const std::string& name, double begin, double us,
           json args = json::object()) {
  return {{"ph", "X"},   {"cat", category}, {"name", name},
          {"ts", begin}, {"dur", us},       {"args", std::move(args)}};
}
json op(const std::string& name, int id) {
  return event("cpu_op", name, 0.0, 1.0, {{"External id", id}});
}
json kernel(const std::string& name, double begin, double us, int id = 0) {
  json args = {{"device", 0}};
  if (id > 0) args["External id"] = id;
  return event("kernel", name, begin, us, args);
}

StepProfile profile(const json& events) {
  return read_step_profile({{"traceEvents", events}, {"deviceProperties", {{{"name", "H100"}}}}},
                           {"t.json", ""});
}

std::string error_of(const json& events) {
  try {
    (void)profile(events);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StepProfile, KernelsBelongToTheirOperators) {
  const StepProfile found = profile(
      {op("aten::addmm", 1), op("aten::_flash_attention_forward", 2), op("aten::mul", 3),
       op("aten::cudnn_convolution", 4), op("vllm::fused", 5), kernel("cutlass", 0, 1, 1),
       kernel("flash_fwd", 1, 2, 2), kernel("vectorized_elementwise_kernel", 3, 4, 3),
       kernel("nhwc", 7, 8, 4), kernel("nvjet_tst", 15, 16, 5), kernel("fmhaSm100a", 31, 32),
       event("gpu_memset", "Memset (Device)", 63, 64, {{"device", 0}})});
  EXPECT_EQ(found.gpu, "H100");
  EXPECT_EQ(found.gemm_us, 1 + 8 + 16);
  EXPECT_EQ(found.attention_us, 2 + 32);
  EXPECT_EQ(found.other_us, 4 + 64);
  EXPECT_EQ(found.step_us, 127);
  EXPECT_EQ(found.idle_us, 0);
  EXPECT_FALSE(found.is_marked);
}

TEST(StepProfile, CommunicationBesideKernelsIsNotExposed) {
  // The collective runs from 4 to 14, and kernels from 0 to 10 and from 20 to 30.
  const StepProfile found =
      profile({kernel("k", 0, 10), kernel("ncclDevKernel_AllReduce", 4, 10), kernel("k", 20, 10)});
  EXPECT_EQ(found.collectives_us, 10);
  EXPECT_EQ(found.exposed_us, 4);
  EXPECT_EQ(found.idle_us, 6);
  EXPECT_EQ(found.step_us, 30);
}

json launched(json kernel, int correlation) {
  kernel["args"]["correlation"] = correlation;
  return kernel;
}
json launch(double begin, int correlation) {
  return event("cuda_runtime", "cudaLaunchKernel", begin, 1.0, {{"correlation", correlation}});
}

TEST(StepProfile, MarkedStepsAreAveraged) {
  // Two steps of 100 us on the host, which launches ahead of the GPU. The kernel that was launched
  // before the first step and the one after the last are none of theirs. The GPU's own marks, which
  // are too short, do not count beside the host's.
  const json events = {event("user_annotation", "ProfilerStep#3", 100, 100),
                       event("user_annotation", "ProfilerStep#4", 200, 100),
                       event("gpu_user_annotation", "ProfilerStep#3", 120, 10),
                       event("gpu_user_annotation", "ProfilerStep#4", 220, 10),
                       launched(kernel("gemm", 100, 1), 99),
                       launch(90, 1),
                       launched(kernel("k", 101, 10), 1),
                       launch(110, 2),
                       launched(kernel("gemm", 120, 40), 2),
                       launch(290, 3),
                       launched(kernel("gemm", 310, 60), 3),
                       launch(301, 4),
                       launched(kernel("k", 370, 10), 4)};
  const StepProfile found = profile(events);
  EXPECT_TRUE(found.is_marked);
  EXPECT_EQ(found.steps, 2);
  EXPECT_EQ(found.gemm_us, 50);
  EXPECT_EQ(found.other_us, 0);
  // From 120 to 370 the GPU takes longer than the marks of the host.
  EXPECT_EQ(found.step_us, 125);
  EXPECT_EQ(found.idle_us, 75);
}

TEST(StepProfile, IdleTimeBetweenStepsCounts) {
  // Each step runs a kernel of 40 us, then the host waits; the marks are those of the host.
  json events = json::array();
  for (int i = 0; i < 3; ++i) {
    events.push_back(event("user_annotation", "ProfilerStep#" + std::to_string(i), 100 * i, 100));
    events.push_back(launch(100 * i + 5, i));
    events.push_back(launched(kernel("gemm", 100 * i + 10, 40), i));
  }
  const StepProfile found = profile(events);
  EXPECT_EQ(found.step_us, 100);
  EXPECT_NEAR(found.gemm_us, 40, 1e-9);
  EXPECT_NEAR(found.idle_us, 60, 1e-9);
}

TEST(StepProfile, FusedKernelsAreOtherKernels) {
  const StepProfile found =
      profile({op("triton_poi_fused_convolution_relu_3", 1),
               kernel("triton_poi_fused_convolution_relu_3", 0, 1, 1),
               kernel("triton_red_fused__scaled_dot_product_flash_attention_backward_sum_2", 1, 2),
               op("aten::_addmm_activation", 4), kernel("gemm_gelu", 3, 4, 4)});
  EXPECT_EQ(found.other_us, 3);
  EXPECT_EQ(found.attention_us, 0);
  EXPECT_EQ(found.gemm_us, 4);
}

TEST(StepProfile, TrafficBetweenGpusIsCommunication) {
  const StepProfile found =
      profile({op("symm_mem::multimem_all_reduce_", 1), kernel("multimem_all_reduce", 0, 3, 1),
               event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 3, 4, {{"device", 0}}),
               event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 8, {{"device", 0}}),
               kernel("k", 15, 1)});
  EXPECT_EQ(found.collectives_us, 7);
  EXPECT_EQ(found.exposed_us, 7);
  EXPECT_EQ(found.idle_us, 8);
}

TEST(StepProfile, SaysWhatIsMissing) {
  EXPECT_EQ(error_of(json::array({op("aten::mm", 1)})),
            "t.json:/traceEvents: found no event of the category \"kernel\"; valid: a trace that "
            "PyTorch's profiler wrote with ProfilerActivity.CUDA");
  json second = kernel("k", 0, 1);
  second["args"]["device"] = 1;
  EXPECT_EQ(error_of({kernel("k", 0, 1), second}),
            "t.json:/traceEvents: found kernels of 2 devices; valid: the trace of one rank");
  EXPECT_EQ(error_of({event("user_annotation", "ProfilerStep#3", 0, 10), kernel("k", 50, 1)}),
            "t.json:/traceEvents: found no kernel that was launched between the start of the first "
            "step and the end of the last one; valid: a trace whose steps ran on the GPU before "
            "the profiler ended");
  json broken = kernel("k", 0, 1);
  broken["ts"] = "soon";
  EXPECT_NE(error_of(json::array({broken})).find("t.json:/traceEvents/0/ts: "), std::string::npos);
}

}  // namespace step_profile_test
}  // namespace shardlab
