// GEMMs by cuBLASLt: [rows, inner] times [inner, columns]. PyTorch's matrices are row-major, so
// cuBLASLt is asked for the equal column-major product, [columns, inner] times [inner, rows]. bf16,
// f16 and f8 accumulate in f32. f32 runs on tensor cores if TF32 is allowed, as in PyTorch with
// "high" precision. f8 is measured in the form that cuBLASLt supports: with the first operand
// transposed and bf16 results. Source: NVIDIA's cuBLAS manual, cublasLtMatmul.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <optional>

#include "runner/nccl/cuda.h"

namespace shardlab {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;  // as cuBLAS advises for Hopper

void check(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw EnvironmentError(std::string(call) + ": " + cublasLtGetStatusString(code));
}

std::optional<cudaDataType_t> type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      return std::nullopt;
  }
}

template <class T>
using Owned = std::shared_ptr<std::remove_pointer_t<T>>;

Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t out = nullptr;
  check(cublasLtMatrixLayoutCreate(&out, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  return {out, cublasLtMatrixLayoutDestroy};
}

// The handles and buffers of one GEMM, which every launch uses.
struct Gemm {
  Owned<cublasLtHandle_t> handle;
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> a;
  Owned<cublasLtMatrixLayout_t> b;
  Owned<cublasLtMatrixLayout_t> c;
  cublasLtMatmulAlgo_t algorithm{};
  DevicePointer workspace;
  DevicePointer arrays;
  std::array<std::int64_t, 3> bytes{};  // bytes of a, b and c
  int copies = 1;
  bool is_f64 = false;
};

}  // namespace

Launch make_gemm(const KernelShape& shape, std::string& why_not) {
  const std::optional<cudaDataType_t> type = type_of(shape.dtype);
  if (!type) {
    why_not = "cuBLASLt can't multiply " + std::string(to_string(shape.dtype)) + " here";
    return nullptr;
  }
  const bool is_f8 = shape.dtype == DType::kF8E4M3;
  const cudaDataType_t out_type = is_f8 ? CUDA_R_16BF : *type;
  auto gemm = std::make_shared<Gemm>();
  gemm->is_f64 = shape.dtype == DType::kF64;
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  gemm->handle = {handle, cublasLtDestroy};
  const cublasComputeType_t compute = gemm->is_f64 ? CUBLAS_COMPUTE_64F
                                      : shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                   : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, compute, gemm->is_f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  gemm->operation = {operation, cublasLtMatmulDescDestroy};
  if (is_f8) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
  }
  gemm->a =
      is_f8 ? layout(*type, shape.inner, shape.columns) : layout(*type, shape.columns, shape.inner);
  gemm->b = layout(*type, shape.inner, shape.rows);
  gemm->c = layout(out_type, shape.columns, shape.rows);
  cublasLtMatmulPreference_t wishes = nullptr;
  check(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(wishes, cublasLtMatmulPreferenceDestroy);
  check(cublasLtMatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspaceBytes, sizeof kWorkspaceBytes),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, operation, gemm->a.get(), gemm->b.get(), gemm->c.get(),
                                     gemm->c.get(), wishes, 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    why_not = "cuBLASLt has no algorithm for this shape and dtype";
    return nullptr;
  }
  gemm->algorithm = found.algo;
  gemm->workspace = device_memory(static_cast<std::int64_t>(kWorkspaceBytes));
  const std::int64_t item = itemsize(shape.dtype);
  gemm->bytes = {shape.inner * shape.columns * item, shape.rows * shape.inner * item,
                 shape.rows * shape.columns * (is_f8 ? 2 : item)};
  const std::int64_t all = gemm->bytes[0] + gemm->bytes[1] + gemm->bytes[2];
  gemm->copies = cold_copies(all);
  gemm->arrays = device_memory(all * gemm->copies);
  fill_with_numbers(gemm->arrays.get(), all * gemm->copies, shape.dtype);
  return [gemm, all](cudaStream_t stream, int launch) {
    std::byte* a = gemm->arrays.get() + all * (launch % gemm->copies);
    std::byte* b = a + gemm->bytes[0];
    std::byte* c = b + gemm->bytes[1];
    constexpr float kOne = 1.0F;
    constexpr float kZero = 0.0F;
    constexpr double kOneF64 = 1.0;
    constexpr double kZeroF64 = 0.0;
    const void* alpha = gemm->is_f64 ? static_cast<const void*>(&kOneF64) : &kOne;
    const void* beta = gemm->is_f64 ? static_cast<const void*>(&kZeroF64) : &kZero;
    check(cublasLtMatmul(gemm->handle.get(), gemm->operation.get(), alpha, a, gemm->a.get(), b,
                         gemm->b.get(), beta, c, gemm->c.get(), c, gemm->c.get(), &gemm->algorithm,
                         gemm->workspace.get(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  };
}

}  // namespace shardlab
