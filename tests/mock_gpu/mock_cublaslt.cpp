// The mock of cuBLASLt checks shapes and memory, and advances the clock. It multiplies nothing.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/mock_gpu/mock.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale_type;
  cublasOperation_t transposed_a = CUBLAS_OP_N;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t leading_dimension;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::size_t workspace_bytes = 0;
};

namespace {

using namespace shardlab::mock_gpu;  // NOLINT(google-build-using-namespace): the API has none

std::size_t item_bytes(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_8F_E4M3:
      return 1;
  }
  return 0;
}

std::size_t bytes_of(const cublasLtMatrixLayoutOpaque_t& layout) {
  return static_cast<std::size_t>(layout.leading_dimension) * layout.columns *
         item_bytes(layout.type);
}

double flops_per_us(const cublasLtMatmulDescOpaque_t& operation, cudaDataType_t type) {
  if (type == CUDA_R_8F_E4M3) return 1.4e9;
  if (type == CUDA_R_16F || type == CUDA_R_16BF) return 7.0e8;
  return operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 3.5e8 : 5.0e7;
}

// d[m, n] = op(a) b, column-major.
bool fits(const cublasLtMatmulDescOpaque_t& operation, const cublasLtMatrixLayoutOpaque_t& a,
          const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  const bool is_transposed = operation.transposed_a == CUBLAS_OP_T;
  const std::uint64_t m = is_transposed ? a.columns : a.rows;
  const std::uint64_t k = is_transposed ? a.rows : a.columns;
  const bool is_f8 = a.type == CUDA_R_8F_E4M3;
  return m == d.rows && k == b.rows && b.columns == d.columns && a.type == b.type &&
         (is_f8 ? is_transposed && d.type == CUDA_R_16BF : d.type == a.type) &&
         (a.type == CUDA_R_64F) == (operation.compute == CUBLAS_COMPUTE_64F);
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale_type) {
  *operation = new cublasLtMatmulDescOpaque_t{.compute = compute, .scale_type = scale_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t, const void* value,
                                              std::size_t size) {
  if (size != sizeof operation->transposed_a) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&operation->transposed_a, value, size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension) {
  if (leading_dimension < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, leading_dimension};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void* value, std::size_t size) {
  if (size != sizeof preference->workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&preference->workspace_bytes, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (!fits(*operation, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {.algo = {}, .workspaceSize = preference->workspace_bytes};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (has_to_fail("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  const int device = device_of(stream);
  if (alpha == nullptr || beta == nullptr || algorithm == nullptr ||
      !fits(*operation, *a_layout, *b_layout, *d_layout) ||
      !on_device(a, bytes_of(*a_layout), device) || !on_device(b, bytes_of(*b_layout), device) ||
      !on_device(c, bytes_of(*c_layout), device) || !may_write(d, bytes_of(*d_layout), device) ||
      !may_write(workspace, workspace_bytes, device)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const double inner = static_cast<double>(b_layout->rows);
  const double flops =
      2.0 * static_cast<double>(d_layout->rows) * static_cast<double>(d_layout->columns) * inner;
  const double bytes =
      static_cast<double>(bytes_of(*a_layout) + bytes_of(*b_layout) + bytes_of(*d_layout));
  const double us = kModel.launch_us + std::max(flops / flops_per_us(*operation, a_layout->type),
                                                bytes / kModel.memory_bytes_per_us);
  enqueue(stream, [us](double now) { return now + jittered(us); });
  return CUBLAS_STATUS_SUCCESS;
}
