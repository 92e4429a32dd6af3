// The model `kernels` beside the public measurements in configs/measurements/kernels, whose README
// names the sources. The bounds are rounded up from the errors that the constants have, so that a
// change which makes a group worse fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "costmodel/kernel_work.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace kernels_measured_test {

using testing_support::compute_model;
using Row = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<Row> rows_of(const std::string& name) {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/configs/measurements/kernels/" + name);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> keys = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    EXPECT_EQ(cells.size(), keys.size()) << line;
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < keys.size(); ++i) row[keys[i]] = cells.at(i);
  }
  return rows;
}

double number(const Row& row, const std::string& key) { return std::stod(row.at(key)); }

// Measured kernels were launched ahead, so that no launch floor shows.
const ComputeModel& model_on(const std::string& topology) {
  static std::map<std::string, std::unique_ptr<ComputeModel>> models;
  auto& model = models[topology];
  if (model == nullptr) {
    std::ifstream file(SHARDLAB_SOURCE_DIR "/configs/topologies/" + topology + ".json");
    model = compute_model({{"name", "kernels"}, {"params", {{"launch_us", 0.0}}}},
                          Topology::from_json(nlohmann::json::parse(file), {topology, ""}));
  }
  return *model;
}

double multiple_of_rows(const Row& row) {
  const double n = number(row, "n");
  const bool is_one_row = number(row, "batch") * number(row, "m") == 1.0;
  return row_multiple(std::array{is_one_row ? 1.0 : n, number(row, "k")});
}

double gemm_error(const Row& row) {
  const GemmShape shape{.batch = number(row, "batch"),
                        .m = number(row, "m"),
                        .n = number(row, "n"),
                        .k = number(row, "k"),
                        .row_multiple = multiple_of_rows(row)};
  const bool is_tf32 = row.at("dtype") == "tf32";
  const DType dtype = is_tf32 ? DType::kF32 : dtype_from_name(row.at("dtype")).value();
  // Products of 8 bits have a result of 16.
  const double result = std::max(2.0, static_cast<double>(itemsize(dtype)));
  const KernelQuery query{.kind = Kernel::kGemm,
                          .bytes = shape.batch * (itemsize(dtype) * (shape.m + shape.n) * shape.k +
                                                  result * shape.m * shape.n),
                          .flops = gemm_flops(shape),
                          .dtype = dtype,
                          .gemm = shape,
                          .tf32 = is_tf32 ? Tf32::kOn : Tf32::kOff};
  return model_on(row.at("topology")).price(query).total.value() / number(row, "time_us") - 1.0;
}

double attention_error(const Row& row) {
  AttentionShape shape{.batch = number(row, "batch"),
                       .heads = number(row, "heads"),
                       .kv_heads = number(row, "kv_heads"),
                       .queries = number(row, "queries"),
                       .keys = number(row, "keys"),
                       .key_dim = number(row, "key_dim"),
                       .value_dim = number(row, "value_dim"),
                       .window = number(row, "window"),
                       .causal = row.at("causal") == "1"};
  shape.kernel = row.at("kernel") == "flash" ? AttentionKernel::kFlash : AttentionKernel::kCudnn;
  const DType dtype = dtype_from_name(row.at("dtype")).value();
  const ComputeModel& model = model_on(row.at("topology"));
  const auto us = [&](bool backward) {
    shape.backward = backward;
    return model
        .price({.kind = Kernel::kAttention,
                .bytes = 1.0,
                .flops = attention_flops(shape),
                .dtype = dtype,
                .attention = shape})
        .total.value();
  };
  const std::string& pass = row.at("pass");
  const double total = pass == "both" ? us(false) + us(true) : us(pass == "backward");
  return total / number(row, "time_us") - 1.0;
}

double norm_error(const Row& row) {
  const KernelQuery query{.kind = Kernel::kReduction,
                          .bytes = number(row, "bytes"),
                          .flops = 0.0,
                          .dtype = DType::kBF16};
  return model_on(row.at("topology")).price(query).total.value() / number(row, "time_us") - 1.0;
}

// Copies, pointwise operators and reductions of profiled models.
double memory_error(const Row& row) {
  const std::string& kernel = row.at("kernel");
  const KernelQuery query{.kind = kernel == "elementwise" ? Kernel::kElementwise
                                  : kernel == "reduction" ? Kernel::kReduction
                                                          : Kernel::kCopy,
                          .bytes = number(row, "bytes"),
                          .dtype = DType::kBF16,
                          .strided = kernel == "reshuffle"};
  return model_on(row.at("topology")).price(query).total.value() / number(row, "time_us") - 1.0;
}

struct Group {
  std::string name;
  std::string file;
  std::function<bool(const Row&)> holds;
  std::size_t rows;
  double median_percent;  // bounds of the absolute error
  double p90_percent;
};

void PrintTo(const Group& group, std::ostream* out) { *out << group.name; }

class KernelsMeasured : public testing::TestWithParam<Group> {};

TEST_P(KernelsMeasured, ErrorsStayBelowTheirBounds) {
  const Group& group = GetParam();
  std::vector<double> errors;
  double worst = 0.0;
  for (const Row& row : rows_of(group.file)) {
    if (!group.holds(row)) continue;
    const double error = group.file == "gemm.csv"        ? gemm_error(row)
                         : group.file == "attention.csv" ? attention_error(row)
                         : group.file == "memory.csv"    ? memory_error(row)
                                                         : norm_error(row);
    errors.push_back(100.0 * std::abs(error));
    if (std::abs(error) > std::abs(worst)) worst = error;
  }
  ASSERT_EQ(errors.size(), group.rows);
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  const double p90 = errors[errors.size() * 9 / 10];
  EXPECT_LT(median, group.median_percent);
  EXPECT_LT(p90, group.p90_percent);
  RecordProperty("errors", "median " + std::to_string(median) + " %, p90 " + std::to_string(p90) +
                               " %, worst " + std::to_string(100.0 * worst) + " %");
}

auto is(const std::string& key, const std::string& value) {
  return [=](const Row& row) { return row.at(key) == value; };
}

// A source's products on one GPU, in one dtype.
std::function<bool(const Row&)> gemms(const std::string& source, const std::string& topology,
                                      const std::string& dtype, const std::string& held_out) {
  return [=](const Row& row) {
    return row.at("source") == source && row.at("topology") == topology &&
           row.at("dtype") == dtype && row.at("held_out") == held_out;
  };
}

// Products on A100 whose rows are a multiple of `least` to `most` elements.
std::function<bool(const Row&)> cookbook(double least, double most, const std::string& held_out) {
  return [=](const Row& row) {
    const double multiple = multiple_of_rows(row);
    return row.at("source").starts_with("cookbook") && row.at("held_out") == held_out &&
           multiple >= least && multiple <= most;
  };
}

std::function<bool(const Row&)> attention(const std::string& source, const std::string& pass,
                                          const std::string& held_out,
                                          const std::string& dtype = "") {
  return [=](const Row& row) {
    return row.at("source") == source && row.at("pass") == pass &&
           (dtype.empty() || row.at("dtype") == dtype) && row.at("held_out") == held_out;
  };
}

// What other projects' profiles show of kernels on a GPU.
std::function<bool(const Row&)> profiled(const std::string& gpu, const std::string& kernel = "") {
  return [=](const Row& row) {
    return row.at("source") == "profile-" + gpu && (kernel.empty() || row.at("kernel") == kernel);
  };
}
// Products of at least 1 GFLOP, aligned to 16 bytes or not.
std::function<bool(const Row&)> large_profiled(const std::string& gpu, bool aligned) {
  return [=](const Row& row) {
    const double work =
        2 * number(row, "batch") * number(row, "m") * number(row, "n") * number(row, "k");
    return profiled(gpu)(row) && work >= 1e9 && (multiple_of_rows(row) >= 8.0) == aligned;
  };
}

INSTANTIATE_TEST_SUITE_P(
    Groups, KernelsMeasured,
    testing::Values(
        Group{"gemm_h100", "gemm.csv", gemms("xla", "h100", "bf16", "0"), 250, 2.5, 8},
        Group{"gemm_h100_held_out", "gemm.csv", gemms("xla", "h100", "bf16", "1"), 125, 2.5, 7},
        Group{"gemm_b200", "gemm.csv", gemms("xla", "b200", "bf16", "0"), 250, 2, 9},
        Group{"gemm_b200_held_out", "gemm.csv", gemms("xla", "b200", "bf16", "1"), 125, 1.5, 6},
        Group{"gemm_b200_f8", "gemm.csv", gemms("xla", "b200", "f8e4m3", "0"), 250, 5.5, 14},
        Group{"gemm_b200_f8_held_out", "gemm.csv", gemms("xla", "b200", "f8e4m3", "1"), 125, 4.5,
              13},
        Group{"gemm_h100_tf32", "gemm.csv", gemms("xla", "h100", "tf32", "0"), 250, 12, 33},
        Group{"gemm_h100_tf32_held_out", "gemm.csv", gemms("xla", "h100", "tf32", "1"), 125, 12.5,
              36},
        Group{"gemm_b200_tf32", "gemm.csv", gemms("xla", "b200", "tf32", "0"), 250, 6, 20},
        Group{"gemm_b200_tf32_held_out", "gemm.csv", gemms("xla", "b200", "tf32", "1"), 125, 5.5,
              17},
        Group{"gemm_mi300x", "gemm.csv", gemms("xla", "mi300x", "bf16", "0"), 250, 8.5, 42},
        Group{"gemm_mi300x_held_out", "gemm.csv", gemms("xla", "mi300x", "bf16", "1"), 125, 8.5,
              32},
        Group{"gemm_mi300x_f8", "gemm.csv", gemms("xla", "mi300x", "f8e4m3", "0"), 250, 28, 58},
        Group{"gemm_mi300x_f8_held_out", "gemm.csv", gemms("xla", "mi300x", "f8e4m3", "1"), 125, 25,
              57},
        Group{"gemm_mi355x", "gemm.csv", gemms("xla", "mi355x", "bf16", "0"), 250, 7, 30},
        Group{"gemm_mi355x_held_out", "gemm.csv", gemms("xla", "mi355x", "bf16", "1"), 125, 8, 28},
        Group{"gemm_mi355x_f8", "gemm.csv", gemms("xla", "mi355x", "f8e4m3", "0"), 250, 17, 41},
        Group{"gemm_mi355x_f8_held_out", "gemm.csv", gemms("xla", "mi355x", "f8e4m3", "1"), 125, 21,
              46},
        Group{"gemm_a100", "gemm.csv", cookbook(8, 64, "0"), 328, 3.5, 10},
        Group{"gemm_a100_held_out", "gemm.csv", cookbook(8, 64, "1"), 165, 3.5, 10},
        Group{"gemm_a100_even_rows", "gemm.csv", cookbook(2, 4, "0"), 186, 7, 20},
        Group{"gemm_a100_even_rows_held_out", "gemm.csv", cookbook(2, 4, "1"), 92, 6.5, 19},
        Group{"gemm_a100_odd_rows", "gemm.csv", cookbook(1, 1, "0"), 98, 14, 32},
        Group{"gemm_a100_odd_rows_held_out", "gemm.csv", cookbook(1, 1, "1"), 48, 14, 35},
        Group{"gemm_deepgemm_f8_h800", "gemm.csv", is("source", "deepgemm"), 18, 10, 34},
        Group{"gemm_best_of_each_gpu", "gemm.csv", is("source", "mamf"), 10, 12.5, 29},
        Group{"flash2_a100", "attention.csv", attention("fa2-a100-chart", "both", "0"), 14, 1.5, 5},
        Group{"flash2_a100_held_out", "attention.csv", attention("fa2-a100-chart", "both", "1"), 7,
              1, 5},
        Group{"flash2_h100", "attention.csv", attention("fa2-h100-chart", "both", "0"), 16, 2.5, 4},
        Group{"flash2_h100_held_out", "attention.csv", attention("fa2-h100-chart", "both", "1"), 8,
              1.5, 5},
        Group{"flash2_h100_forward", "attention.csv", attention("fa3-chart-flash", "forward", "0"),
              24, 4.5, 10},
        Group{"flash2_h100_forward_held_out", "attention.csv",
              attention("fa3-chart-flash", "forward", "1"), 12, 4, 7},
        Group{"flash3_h100_forward", "attention.csv", attention("fa3-chart-flash3", "forward", "0"),
              24, 4, 11},
        Group{"flash3_h100_forward_held_out", "attention.csv",
              attention("fa3-chart-flash3", "forward", "1"), 11, 4, 8},
        Group{"cudnn_9_1_h100_forward", "attention.csv", is("source", "fa3-chart-cudnn"), 35, 13,
              23},
        Group{"cudnn_h200_forward", "attention.csv", attention("cudnn-h200", "forward", "0"), 10,
              4.5, 9},
        Group{"cudnn_h200_forward_held_out", "attention.csv",
              attention("cudnn-h200", "forward", "1", "bf16"), 5, 5, 11},
        Group{"cudnn_h200_backward", "attention.csv", attention("cudnn-h200", "backward", "0"), 10,
              2.5, 9},
        Group{"cudnn_h200_backward_held_out", "attention.csv",
              attention("cudnn-h200", "backward", "1", "bf16"), 5, 1.5, 6},
        Group{"cudnn_gb200_forward", "attention.csv", attention("cudnn-gb200", "forward", "0"), 34,
              5.5, 15},
        Group{"cudnn_gb200_forward_held_out", "attention.csv",
              attention("cudnn-gb200", "forward", "1", "bf16"), 16, 4.5, 9},
        Group{"cudnn_gb200_backward", "attention.csv", attention("cudnn-gb200", "backward", "0"),
              30, 6.5, 12},
        Group{"cudnn_gb200_backward_held_out", "attention.csv",
              attention("cudnn-gb200", "backward", "1", "bf16"), 15, 4.5, 9},
        Group{"cudnn_gb300_forward", "attention.csv", attention("cudnn-gb300", "forward", "0"), 34,
              6, 21},
        Group{"cudnn_gb300_forward_held_out", "attention.csv",
              attention("cudnn-gb300", "forward", "1", "bf16"), 16, 6.5, 22},
        Group{"cudnn_gb300_backward", "attention.csv", attention("cudnn-gb300", "backward", "0"),
              30, 4.5, 10},
        Group{"cudnn_gb300_backward_held_out", "attention.csv",
              attention("cudnn-gb300", "backward", "1", "bf16"), 15, 3, 8},
        Group{"cudnn_f8", "attention.csv", is("dtype", "f8e4m3"), 140, 14, 33},
        Group{"norms", "norms.csv", [](const Row&) { return true; }, 90, 12, 32},
        Group{"profiled_gemm_h100", "gemm.csv", profiled("h100"), 42, 6, 80},
        Group{"profiled_large_gemm_h100", "gemm.csv", large_profiled("h100", true), 17, 4, 14},
        Group{"profiled_unaligned_gemm_h100", "gemm.csv", large_profiled("h100", false), 5, 6.5,
              18},
        Group{"profiled_gemm_b200", "gemm.csv", profiled("b200"), 4, 43, 48},
        Group{"profiled_flash2_h100", "attention.csv", profiled("h100"), 3, 30, 42},
        Group{"profiled_elementwise_h100", "memory.csv", profiled("h100", "elementwise"), 72, 26,
              47},
        Group{"profiled_reduction_h100", "memory.csv", profiled("h100", "reduction"), 20, 46, 70},
        Group{"profiled_reshuffle_h100", "memory.csv", profiled("h100", "reshuffle"), 10, 14, 66},
        Group{"profiled_memory_b200", "memory.csv",
              [](const Row& row) { return row.at("source") == "profile-b200"; }, 9, 27, 56}),
    [](const auto& test) { return test.param.name; });

}  // namespace kernels_measured_test
}  // namespace shardlab
