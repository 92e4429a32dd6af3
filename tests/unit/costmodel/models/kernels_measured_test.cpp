// The model `kernels` beside the public measurements in configs/measurements/kernels, whose README
// names the sources. The bounds are rounded up from the errors that the constants have, so that a
// change which makes a group worse fails.
#include <gtest/gtest.h>

#include <algorithm>
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
const ComputeModel& model_on(const std::string& topology, double gemm_startup_us) {
  static std::map<std::pair<std::string, double>, std::unique_ptr<ComputeModel>> models;
  auto& model = models[{topology, gemm_startup_us}];
  if (model == nullptr) {
    std::ifstream file(SHARDLAB_SOURCE_DIR "/configs/topologies/" + topology + ".json");
    model = compute_model({{"name", "kernels"},
                           {"params", {{"launch_us", 0.0}, {"gemm_startup_us", gemm_startup_us}}}},
                          Topology::from_json(nlohmann::json::parse(file), {topology, ""}));
  }
  return *model;
}

double gemm_error(const Row& row) {
  const GemmShape shape{.batch = number(row, "batch"),
                        .m = number(row, "m"),
                        .n = number(row, "n"),
                        .k = number(row, "k")};
  const DType dtype = dtype_from_name(row.at("dtype")).value();
  const KernelQuery query{.kind = Kernel::kGemm,
                          .bytes = shape.batch * (itemsize(dtype) * (shape.m + shape.n) * shape.k +
                                                  2.0 * shape.m * shape.n),
                          .flops = gemm_flops(shape),
                          .dtype = dtype,
                          .gemm = shape};
  // The times of XLA's table have a floor of 5.1 us, which holds the launch too.
  const double startup = row.at("source") == "xla" ? 5.1 : 2.5;
  return model_on(row.at("topology"), startup).price(query).total.value() / number(row, "time_us") -
         1.0;
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
  const ComputeModel& model = model_on(row.at("topology"), 2.5);
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
  return model_on(row.at("topology"), 2.5).price(query).total.value() / number(row, "time_us") -
         1.0;
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
  return model_on(row.at("topology"), 2.5).price(query).total.value() / number(row, "time_us") -
         1.0;
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

std::function<bool(const Row&)> gemms(const std::string& source, const std::string& held_out) {
  return
      [=](const Row& row) { return row.at("source") == source && row.at("held_out") == held_out; };
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
// Products of at least 1 GFLOP whose output has rows that line up with 16 bytes.
std::function<bool(const Row&)> large_profiled(const std::string& gpu) {
  return [=](const Row& row) {
    const double work =
        2 * number(row, "batch") * number(row, "m") * number(row, "n") * number(row, "k");
    const auto lines_up = [&](const char* dim) { return std::fmod(number(row, dim), 8.0) == 0.0; };
    return profiled(gpu)(row) && work >= 1e9 && lines_up("n") && lines_up("k");
  };
}

INSTANTIATE_TEST_SUITE_P(
    Groups, KernelsMeasured,
    testing::Values(
        Group{"gemm_xla_h100_fitted", "gemm.csv", gemms("xla", "0"), 250, 3.5, 11},
        Group{"gemm_xla_h100_held_out", "gemm.csv", gemms("xla", "1"), 125, 3.5, 9},
        Group{"gemm_deepgemm_f8_h800", "gemm.csv", gemms("deepgemm", "1"), 18, 6, 23},
        Group{"gemm_best_of_each_gpu", "gemm.csv", gemms("mamf", "1"), 10, 4, 14},
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
        Group{"profiled_gemm_h100", "gemm.csv", profiled("h100"), 42, 17, 65},
        Group{"profiled_large_gemm_h100", "gemm.csv", large_profiled("h100"), 17, 4, 17},
        Group{"profiled_gemm_b200", "gemm.csv", profiled("b200"), 4, 30, 34},
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
