// The build without cuBLASLt.
#include "runner/nccl/cuda.h"

namespace shardlab {

Launch make_gemm(const KernelShape&, std::string& why_not) {
  why_not = "this shardlab was built without cuBLASLt";
  return nullptr;
}

}  // namespace shardlab
