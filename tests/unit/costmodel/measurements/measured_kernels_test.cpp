// Measurement sets that hold kernels, verified plans and the figures of shardlab's own runs.
#include <gtest/gtest.h>

#include "costmodel/base/dtype.h"
#include "costmodel/base/error.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {
namespace measured_kernels_test {

using nlohmann::json;

json own_run() {
  return json::parse(R"json({
    "schema": "shardlab/measurements/1", "name": "own", "source": "record:own",
    "date": "2026-01-02", "gpu": "NVIDIA H200", "gpus_per_host": 2, "hosts": 1, "ranks": 2,
    "nccl_version": "2.28.9", "driver": "580.159.04 (CUDA 13.0)", "clocks": "SM 1980 MHz, at most",
    "health": "unknown",
    "rows": [{"collective": "all_reduce", "dtype": "f32", "bytes": 4096, "time_us": 12.5,
              "p50_us": 12.0, "p95_us": 14.0, "p5_us": 11.0, "wait_us": 0.0,
              "nccl_estimate_us": 9.5, "algorithm": "RING", "protocol": "LL"}],
    "verified_plans": {"plans": 200, "bit_equal": 198, "within_bound": 2, "failed": 0, "seed": 7},
    "kernels": [{"kernel": "gemm", "dtype": "tf32", "rows": 64, "columns": 32, "inner": 16,
                 "bytes": 14336, "flops": 65536, "time_us": 3.5, "iterations": 20, "p5_us": 3.4,
                 "p50_us": 3.5, "p95_us": 3.6},
                {"kernel": "launch", "dtype": "f32", "time_us": 2.25}]})json");
}

std::string error_of(const json& value) {
  try {
    (void)MeasurementSet::from_json(value, {"own.json", ""});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(OwnMeasurements, ReadBackAsTheyWereWritten) {
  const MeasurementSet set = MeasurementSet::from_json(own_run(), {"own.json", ""});
  EXPECT_EQ(json(set.to_json()), own_run());
  EXPECT_EQ(set.rows[0].wait_us, 0.0);
  EXPECT_EQ(set.rows[0].algorithm, "RING");
  ASSERT_EQ(set.kernels.size(), 2U);
  EXPECT_EQ(set.kernels[0].inner, 16);
  EXPECT_EQ(set.verified_plans->bit_equal, 198);
}

TEST(OwnMeasurements, MayHaveKernelsOrPlansWithoutRows) {
  json value = own_run();
  value["rows"] = json::array();
  EXPECT_EQ(error_of(value), "");
  value.erase("kernels");
  EXPECT_EQ(error_of(value), "");
  value.erase("verified_plans");
  EXPECT_EQ(error_of(value), "own.json:/rows: found no rows; valid: at least one row, or kernels");
}

TEST(OwnMeasurements, NameWhatIsWrong) {
  json value = own_run();
  value["kernels"][0]["kernel"] = "conv";
  EXPECT_EQ(error_of(value),
            "own.json:/kernels/0/kernel: found \"conv\"; valid: gemm copy reshuffle elementwise "
            "reduction launch attention");
  value = own_run();
  value["kernels"][1]["dtype"] = "u32";
  EXPECT_EQ(error_of(value), "own.json:/kernels/1/dtype: found \"u32\"; valid: " +
                                 std::string(kDTypeNames) + " tf32");
  value = own_run();
  value["verified_plans"]["failed"] = 201;
  EXPECT_NE(error_of(value).find("own.json:/verified_plans/failed: "), std::string::npos);
  value = own_run();
  value["kernels"][0]["speed"] = 1;
  EXPECT_NE(error_of(value).find("own.json:/kernels/0/speed: unknown key"), std::string::npos)
      << error_of(value);
}

// Kernels of a profile: products of a batch, and attention.
json profiled_run() {
  json value = own_run();
  value["kernels"] = json::parse(R"json([
    {"kernel": "gemm", "dtype": "bf16", "batch": 96, "rows": 64, "columns": 32, "inner": 16,
     "row_multiple": 8, "bytes": 1e6, "flops": 6e6, "time_us": 3.5},
    {"kernel": "attention", "dtype": "bf16", "bytes": 1e6, "flops": 1e9, "time_us": 9.5,
     "attention": {"batch": 2, "heads": 8, "kv_heads": 4, "queries": 32, "keys": 64, "key_dim": 16,
                   "value_dim": 16, "window": 8, "causal": true, "backward": true,
                   "kernel": "cudnn"}},
    {"kernel": "attention", "dtype": "bf16", "bytes": 1e6, "flops": 1e9, "time_us": 9.5,
     "attention": {"batch": 2, "heads": 8, "kv_heads": 8, "queries": 32, "keys": 64, "key_dim": 16,
                   "value_dim": 16, "kernel": "flash"}}])json");
  return value;
}

TEST(ProfiledKernels, ReadBackAsTheyWereWritten) {
  const MeasurementSet set = MeasurementSet::from_json(profiled_run(), {"own.json", ""});
  EXPECT_EQ(json(set.to_json())["kernels"], profiled_run()["kernels"]);
  EXPECT_EQ(kernel_shape_text(set.kernels[0]), "96 of 64x32x16");
  EXPECT_EQ(kernel_shape_text(set.kernels[1]), "2x8x32x16 on 4x64, causal, window 8, backward");
  EXPECT_EQ(kernel_shape_text(set.kernels[2]), "2x8x32x16 on 8x64");
  EXPECT_EQ(set.kernels[2].attention->kernel, AttentionKernel::kFlash);
}

TEST(ProfiledKernels, NameWhatIsWrong) {
  json value = profiled_run();
  value["kernels"][0]["row_multiple"] = 12;
  EXPECT_EQ(error_of(value),
            "own.json:/kernels/0/row_multiple: found 12; valid: 0 or a power of two up to 64");
  value = profiled_run();
  value["kernels"][1].erase("attention");
  EXPECT_EQ(error_of(value), "own.json:/kernels/1: missing key \"attention\"");
  value = profiled_run();
  value["kernels"][0]["attention"] = value["kernels"][1]["attention"];
  EXPECT_NE(error_of(value).find("own.json:/kernels/0/attention: unknown key"), std::string::npos)
      << error_of(value);
  value = profiled_run();
  value["kernels"][1]["attention"]["kernel"] = "paged";
  EXPECT_EQ(error_of(value),
            "own.json:/kernels/1/attention/kernel: found \"paged\"; valid: flash efficient cudnn");
  value = profiled_run();
  value["kernels"][1]["attention"]["queries"] = 0;
  EXPECT_NE(error_of(value).find("own.json:/kernels/1/attention/queries: "), std::string::npos);
}

}  // namespace measured_kernels_test
}  // namespace shardlab
