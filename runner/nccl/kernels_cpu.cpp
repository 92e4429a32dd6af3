#include "runner/nccl/kernels_cpu.h"

#include <Eigen/Core>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>

namespace shardlab {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The work of one launch, which owns the arrays that it needs.
std::function<void()> work_of(const KernelShape& shape, std::string& why_not) {
  const auto elements = static_cast<std::size_t>(shape.rows * shape.columns);
  if (shape.name == "launch") return [] {};
  if (shape.dtype != DType::kF32 || shape.tf32) {
    why_not = "the stand-in has kernels for f32 only";
    return nullptr;
  }
  if (shape.name == "gemm") {
    const Matrix a = Matrix::Random(shape.rows, shape.inner);
    const Matrix b = Matrix::Random(shape.inner, shape.columns);
    return [a, b, c = Matrix(Matrix::Zero(shape.rows, shape.columns))]() mutable {
      c.noalias() = a * b;
    };
  }
  std::vector<float> from(elements, 1.0F);
  std::vector<float> to(elements);
  if (shape.name == "copy") {
    return
        [from, to]() mutable { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); };
  }
  if (shape.name == "elementwise") {
    return [from, to]() mutable {
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
    };
  }
  if (shape.name == "reduction") {
    return [from, to]() mutable { to[0] = std::accumulate(from.begin(), from.end(), 0.0F); };
  }
  // First come all rows of the first piece, then all rows of the second piece, and so on.
  const auto rows = static_cast<std::size_t>(shape.rows);
  const auto columns = static_cast<std::size_t>(shape.columns);
  const auto piece = static_cast<std::size_t>(shape.inner);
  return [=]() mutable {
    float* out = to.data();
    for (std::size_t begin = 0; begin < columns; begin += piece) {
      for (std::size_t r = 0; r < rows; ++r, out += piece) {
        std::memcpy(out, from.data() + r * columns + begin, piece * sizeof(float));
      }
    }
  };
}

}  // namespace

std::vector<double> time_cpu_kernel_us(const KernelShape& shape, int warmup, int iterations,
                                       std::string& why_not) {
  const std::function<void()> work = work_of(shape, why_not);
  std::vector<double> times;
  if (!work) return times;
  for (int i = 0; i < warmup + iterations; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (i >= warmup) times.push_back(took.count());
  }
  return times;
}

}  // namespace shardlab
