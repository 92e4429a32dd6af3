#include "runner/measure/kernel_run.h"

#include <algorithm>
#include <numeric>

#include "costmodel/base/text.h"
#include "reports/statistics.h"

namespace shardlab {
namespace {

// Numbers of elements of the matrices for memory-bound kernels: from 256 KiB to 1 GiB of f32,
// doubling.
constexpr std::int64_t kFirstElements = std::int64_t{1} << 16;
constexpr std::int64_t kLastElements = std::int64_t{1} << 28;
constexpr std::int64_t kMatrixColumns = 4096;

// m, n, k of the GEMMs: cubes, and the shapes of a transformer's projections (hidden sizes 4096 and
// 8192).
struct GemmSizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
constexpr GemmSizes kGemms[] = {
    {512, 512, 512},     {1024, 1024, 1024},  {2048, 2048, 2048}, {4096, 4096, 4096},
    {8192, 8192, 8192},  {2048, 4096, 4096},  {4096, 4096, 1024}, {4096, 14336, 4096},
    {4096, 4096, 14336}, {8192, 4096, 4096},  {8192, 1024, 8192}, {8192, 8192, 1024},
    {2048, 8192, 8192},  {8192, 28672, 8192}, {4096, 8192, 8192}, {16384, 4096, 4096},
};
// How many tiles a product has decides how many waves it takes: with tiles of 128 x 256 there are
// 16 for each 128 rows of these, and a wave of an H100 is 132 tiles, or 1056 rows.
constexpr std::int64_t kWaveRows[] = {640,  768,  896,  1024, 1152, 1280, 1536,
                                      1792, 1920, 2176, 2304, 3072, 3200};
constexpr std::int64_t kWaveSize = 4096;  // n and k of those
// Products of odd sizes. Where n or k is no multiple of 8, rows of 16 bits do not line up with 16
// bytes, and libraries have slower kernels.
constexpr GemmSizes kOddGemms[] = {
    {4095, 4096, 4096}, {4096, 4095, 4096}, {4096, 4096, 4095}, {4096, 4092, 4096}};
constexpr DType kGemmDTypes[] = {DType::kBF16, DType::kF16, DType::kF32, DType::kF8E4M3};

std::string shape_text(const KernelShape& shape) {
  std::string out = std::string(shape.name) + " " + std::string(to_string(shape.dtype));
  if (shape.rows > 0) {
    out += " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
  }
  if (shape.inner > 0) out += "x" + std::to_string(shape.inner);
  return out;
}

}  // namespace

std::vector<KernelShape> shapes_of(std::string_view kernel, double max_bytes) {
  std::vector<KernelShape> shapes;
  const auto add = [&](KernelShape shape) {
    shape.name = kernel;
    if (bytes_of(shape) <= max_bytes) shapes.push_back(shape);
  };
  if (kernel == "launch") {
    add({});
    return shapes;
  }
  if (kernel == "gemm") {
    const auto add_gemm = [&](DType dtype, const GemmSizes& size, bool tf32 = false) {
      add({.dtype = dtype, .rows = size.m, .columns = size.n, .inner = size.k, .tf32 = tf32});
    };
    for (const DType dtype : kGemmDTypes) {
      for (const GemmSizes& size : kGemms) {
        add_gemm(dtype, size);
        if (dtype == DType::kF32) add_gemm(dtype, size, true);
      }
    }
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const std::int64_t rows : kWaveRows) add_gemm(dtype, {rows, kWaveSize, kWaveSize});
    }
    // cuBLASLt has no products of 8 bits whose rows do not line up.
    for (const GemmSizes& size : kOddGemms) add_gemm(DType::kBF16, size);
    return shapes;
  }
  for (std::int64_t elements = kFirstElements; elements <= kLastElements; elements *= 2) {
    const std::int64_t columns = std::min(kMatrixColumns, elements / 64);
    KernelShape shape = {.rows = elements / columns, .columns = columns};
    if (kernel != "reshuffle") {
      add(shape);
      continue;
    }
    for (const std::int64_t pieces : {2, 8}) {  // shards of columns
      shape.inner = columns / pieces;
      add(shape);
    }
  }
  return shapes;
}

double bytes_of(const KernelShape& shape) {
  const auto item = static_cast<double>(itemsize(shape.dtype));
  const auto m = static_cast<double>(shape.rows);
  const auto n = static_cast<double>(shape.columns);
  const auto k = static_cast<double>(shape.inner);
  if (shape.name == "gemm") {
    const double out_item = shape.dtype == DType::kF8E4M3 ? 2.0 : item;  // bf16
    return item * (m * k + k * n) + out_item * m * n;
  }
  if (shape.name == "elementwise") return 3 * m * n * item;
  if (shape.name == "reduction") return m * n * item;
  return 2 * m * n * item;
}

double flops_of(const KernelShape& shape) {
  const auto m = static_cast<double>(shape.rows);
  const auto n = static_cast<double>(shape.columns);
  if (shape.name == "gemm") return 2 * m * n * static_cast<double>(shape.inner);
  return shape.name == "elementwise" || shape.name == "reduction" ? m * n : 0.0;
}

KernelRun measure_kernels(const MeasuringRun& run, const KernelRequest& request) {
  KernelRun out;
  for (const std::string& kernel : request.kernels) {
    for (const KernelShape& shape : shapes_of(kernel, request.max_bytes)) {
      const std::string text = shape_text(shape);
      run.watchdog.step(text);
      std::string why_not;
      const std::vector<double> times =
          run.backend.time_kernel_us(shape, request.warmup, request.iterations, why_not);
      if (times.empty()) {
        out.left_out.push_back(text + ": " + why_not);
        continue;
      }
      MeasuredKernel row;
      row.kernel = kernel;
      row.dtype = shape.tf32 ? "tf32" : std::string(to_string(shape.dtype));
      row.rows = shape.rows;
      row.columns = shape.columns;
      row.inner = shape.inner;
      row.bytes = bytes_of(shape);
      row.flops = flops_of(shape);
      constexpr double kLeastUs = 1e-3;  // a time is never zero, even below the clock's resolution
      const double sum = std::accumulate(times.begin(), times.end(), 0.0);
      row.time_us = std::max(sum / static_cast<double>(times.size()), kLeastUs);
      row.iterations = std::ssize(times);
      row.p5_us = std::max(reports::percentile(times, 0.05).value_or(0.0), kLeastUs);
      row.p50_us = std::max(reports::percentile(times, 0.5).value_or(0.0), kLeastUs);
      row.p95_us = std::max(reports::percentile(times, 0.95).value_or(0.0), kLeastUs);
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace shardlab
