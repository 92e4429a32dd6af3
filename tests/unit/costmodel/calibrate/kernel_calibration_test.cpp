// The roofline is fitted to rows that were made up: the fit finds the parameters that made them,
// and one half of the rows predicts the other half.
#include "costmodel/calibrate/kernel_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace kernel_calibration_test {

using testing_support::topology_with;

nlohmann::json truth() {
  return {{"launch_us", 2.5},
          {"memory_efficiency", 0.9},
          {"copy_efficiency", 0.9},
          {"copy_startup_us", 1.5},
          {"strided_copy_efficiency", 0.6},
          {"strided_copy_startup_us", 2.0},
          {"elementwise_efficiency", 0.85},
          {"elementwise_startup_us", 1.0},
          {"reduction_efficiency", 0.7},
          {"reduction_startup_us", 4.0},
          {"flops_efficiency", 0.75},
          {"f32_flops_efficiency", 0.8},
          {"f8_flops_efficiency", 0.55},
          {"gemm_startup_us", 6.0}};
}

std::unique_ptr<ComputeModel> model_of(const nlohmann::json& params, const Topology& topology) {
  return make_compute_model(
      ModelChoice{.entry = find_cost_model("roofline"), .params = params, .place = {}}, topology);
}

MeasuredKernel kernel(const std::string& name, const std::string& dtype, double bytes,
                      double flops = 0.0) {
  MeasuredKernel row;
  row.kernel = name;
  row.dtype = dtype;
  row.bytes = bytes;
  row.flops = flops;
  return row;
}

// The times that the true parameters give, each times exp(noise * z) with z standard normal.
std::vector<MeasuredKernel> made_up_rows(const Topology& topology, double noise) {
  std::vector<MeasuredKernel> rows;
  for (const char* name : {"copy", "reshuffle", "elementwise", "reduction"}) {
    for (double bytes = 1 << 18; bytes <= 1 << 30; bytes *= 2) {
      rows.push_back(kernel(name, "f32", bytes));
    }
  }
  for (const char* dtype : {"bf16", "f16", "f32", "f8e4m3"}) {
    for (double n = 512; n <= 16384; n *= 1.5) {
      rows.push_back(kernel("gemm", dtype, 3 * n * n * 2, 2 * n * n * n));
    }
  }
  const auto model = model_of(truth(), topology);
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal(0.0, 1.0);
  for (MeasuredKernel& row : rows) {
    row.time_us = model->price(*kernel_query(row)).total.value() * std::exp(noise * normal(random));
  }
  rows.push_back(kernel("launch", "f32", 0));
  rows.back().time_us = 2.5;
  return rows;
}

double median_size(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

TEST(KernelCalibration, FindsWhatMadeTheRows) {
  const Topology topology = topology_with(8);
  const Calibration fit = calibrate_kernels(made_up_rows(topology, 0.0), topology);
  const nlohmann::json expected = truth();
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(fit.params.contains(name)) << name;
    EXPECT_NEAR(fit.params[name].get<double>(), value.get<double>(),
                0.02 * std::max(1.0, value.get<double>()))
        << name;
  }
  EXPECT_LT(fit.median_ape_percent, 0.5);
  EXPECT_TRUE(fit.refused.empty());
}

TEST(KernelCalibration, HalfOfNoisyRowsPredictsTheOther) {
  const Topology topology = topology_with(8);
  const std::vector<MeasuredKernel> rows = made_up_rows(topology, 0.08);
  std::vector<MeasuredKernel> seen;
  std::vector<MeasuredKernel> unseen;
  for (std::size_t i = 0; i < rows.size(); ++i) (i % 2 == 0 ? seen : unseen).push_back(rows[i]);
  const Calibration fit = calibrate_kernels(seen, topology);
  const auto model = model_of(fit.params, topology);
  EXPECT_LT(median_size(kernel_errors_percent(*model, unseen)), 10.0);
  EXPECT_NEAR(fit.noise_percent, 8.0, 4.0);
  for (const FittedParameter& p : fit.parameters) {
    EXPECT_LE(p.low_95, p.value) << p.name;
    EXPECT_GE(p.high_95, p.value) << p.name;
  }
}

TEST(KernelCalibration, AFewWildRowsBendNothing) {
  const Topology topology = topology_with(8);
  std::vector<MeasuredKernel> rows = made_up_rows(topology, 0.02);
  rows[3].time_us *= 20;
  rows[30].time_us *= 20;
  const Calibration fit = calibrate_kernels(rows, topology);
  EXPECT_NEAR(fit.params["copy_efficiency"].get<double>(), 0.9, 0.05);
  EXPECT_NEAR(fit.params["elementwise_efficiency"].get<double>(), 0.85, 0.05);
}

TEST(KernelCalibration, WhatNoRowTellsIsKeptAndListed) {
  const Topology topology = topology_with(8);
  std::vector<MeasuredKernel> rows = {kernel("copy", "f32", 1e6), kernel("copy", "f32", 1e9),
                                      kernel("gemm", "tf32", 1e9, 1e12)};
  rows[0].time_us = 3.0;
  rows[1].time_us = 500.0;
  rows[2].time_us = 5000.0;
  const Calibration fit = calibrate_kernels(rows, topology);
  EXPECT_EQ(fit.rows_used, 2U);
  ASSERT_EQ(fit.refused.size(), 1U);
  EXPECT_EQ(fit.refused[0].row, 2U);
  EXPECT_EQ(fit.refused[0].reason, "the topology test states no rate for tf32");
  EXPECT_FALSE(fit.params.contains("flops_efficiency"));
  std::vector<std::string> kept;
  for (const KeptParameter& p : fit.not_identified) kept.push_back(p.name);
  EXPECT_THAT(kept, testing::IsSupersetOf({"launch_us", "flops_efficiency", "gemm_startup_us"}));
  // No empty launch was measured, but a kernel took less than the topology's floor.
  EXPECT_DOUBLE_EQ(fit.params["launch_us"].get<double>(), 3.0);
}

// A product that rounds to TF32 is fitted by the rate of TF32, and one that does not by that of
// f32.
TEST(KernelCalibration, FitsTf32BesideF32) {
  nlohmann::json json = testing_support::topology_json(8);
  json["device"]["peak_tflops"]["tf32"] = 494.5;
  const Topology topology = Topology::from_json(json, {"test.json", ""});
  const auto model =
      model_of({{"f32_flops_efficiency", 0.8}, {"tf32_flops_efficiency", 0.6}}, topology);
  std::vector<MeasuredKernel> rows;
  for (const char* dtype : {"f32", "tf32"}) {
    for (double n = 2048; n <= 16384; n *= 1.5) {
      rows.push_back(kernel("gemm", dtype, 3 * n * n * 4, 2 * n * n * n));
      rows.back().time_us = model->price(*kernel_query(rows.back())).total.value();
    }
  }
  EXPECT_GT(rows[0].time_us, 4.0 * rows[rows.size() / 2].time_us);
  const Calibration fit = calibrate_kernels(rows, topology);
  EXPECT_TRUE(fit.refused.empty());
  EXPECT_NEAR(fit.params["f32_flops_efficiency"].get<double>(), 0.8, 0.01);
  EXPECT_NEAR(fit.params["tf32_flops_efficiency"].get<double>(), 0.6, 0.01);
}

// Rows of TF32 on a device without it take no part in the errors either, and switches are not
// listed as unidentified.
TEST(KernelCalibration, RefusedRowsSpoilNoErrors) {
  const Topology topology = topology_with(8);
  std::vector<MeasuredKernel> rows = made_up_rows(topology, 0.0);
  for (int i = 0; i < 40; ++i) {
    rows.push_back(kernel("gemm", "tf32", 1e9, 1e12));
    rows.back().time_us = 1e6;
  }
  const Calibration fit = calibrate_kernels(rows, topology);
  EXPECT_EQ(fit.refused.size(), 40U);
  EXPECT_LT(fit.p90_ape_percent, 1.0);
  for (const KeptParameter& kept : fit.not_identified) {
    EXPECT_NE(kept.name, "tf32_matmul");
    EXPECT_NE(kept.name, "tf32_convolution");
  }
  EXPECT_THROW_MSG(
      calibrate_kernels(std::span(rows).last(40), topology), InputError,
      "calibrate: found 0 kernels that the roofline prices; valid: at least 2 (a refused row: the "
      "topology test states no rate for tf32)");
}

TEST(KernelCalibration, RatesAboveTheDatasheetAreNotBelieved) {
  const Topology topology = topology_with(8);
  std::vector<MeasuredKernel> rows;
  for (double bytes = 1e7; bytes < 2e9; bytes *= 2) {
    rows.push_back(kernel("copy", "f32", bytes));
    rows.back().time_us = transfer_time(bytes, 2.0 * topology.device().memory_bandwidth).value();
  }
  const Calibration fit = calibrate_kernels(rows, topology);
  EXPECT_DOUBLE_EQ(fit.params["copy_efficiency"].get<double>(), 1.0);
}

TEST(KernelCalibration, AttentionTakesNoPart) {
  const Topology topology = topology_with(8);
  const std::vector<MeasuredKernel> rows = made_up_rows(topology, 0.02);
  const Calibration without = calibrate_kernels(rows, topology);
  std::vector<MeasuredKernel> more = rows;
  more.push_back(kernel("attention", "bf16", 1e6, 1e9));
  more.back().time_us = 1e6;
  more.back().attention = AttentionShape{.heads = 8, .kv_heads = 8, .queries = 64, .keys = 64};
  const Calibration with = calibrate_kernels(more, topology);
  EXPECT_EQ(with.params, without.params);
  EXPECT_EQ(with.median_ape_percent, without.median_ape_percent);
  EXPECT_EQ(with.p90_ape_percent, without.p90_ape_percent);
  ASSERT_EQ(with.refused.size(), 1U);
  EXPECT_EQ(with.refused[0].row, rows.size());
  EXPECT_EQ(with.refused[0].reason, "attention_efficiency is not fitted to rows");
}

TEST(KernelQuery, HasTheShapesThatTheRowHas) {
  MeasuredKernel gemm = kernel("gemm", "bf16", 1e6, 1e9);
  EXPECT_FALSE(kernel_query(gemm)->gemm);
  gemm.batch = 3;
  gemm.rows = 64;
  gemm.columns = 32;
  gemm.inner = 16;
  EXPECT_EQ(kernel_query(gemm)->gemm,
            (GemmShape{.batch = 3, .m = 64, .n = 32, .k = 16, .row_multiple = 16}));
  gemm.columns = 33;
  EXPECT_EQ(kernel_query(gemm)->gemm->row_multiple, 1);
  gemm.row_multiple = 8;  // the layout is known, and has no rows of 33 elements
  EXPECT_EQ(kernel_query(gemm)->gemm->row_multiple, 8);
  MeasuredKernel attention = kernel("attention", "bf16", 1e6, 1e9);
  attention.attention = AttentionShape{.heads = 8, .causal = true};
  EXPECT_EQ(kernel_query(attention)->kind, Kernel::kAttention);
  EXPECT_EQ(kernel_query(attention)->attention, attention.attention);
}

TEST(KernelCalibration, NeedsRows) {
  const Topology topology = topology_with(8);
  const std::vector<MeasuredKernel> rows = {kernel("launch", "f32", 0)};
  try {
    (void)calibrate_kernels(rows, topology);
    FAIL() << "fitted to nothing";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "calibrate: found 0 kernels that the roofline prices; valid: at least 2");
  }
}

TEST(KernelCalibration, StartupsAreZeroByDefault) {
  const Topology topology = topology_with(8);
  const auto plain = model_of(nlohmann::json::object(), topology);
  const KernelQuery query{
      .kind = Kernel::kGemm, .bytes = 1e9, .flops = 1e13, .dtype = DType::kBF16};
  const double memory = transfer_time(1e9, 0.7 * topology.device().memory_bandwidth).value();
  const double arithmetic = compute_time(1e13, 0.7 * topology.peak(DType::kBF16)).value();
  EXPECT_DOUBLE_EQ(plain->price(query).total.value(), std::max(memory, arithmetic));
  const auto late = model_of({{"gemm_startup_us", 100.0}}, topology);
  EXPECT_DOUBLE_EQ(late->price(query).total.value(), 100.0 + std::max(memory, arithmetic));
}

}  // namespace kernel_calibration_test
}  // namespace shardlab
