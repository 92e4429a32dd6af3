// The build without NCCL: every function reports that NCCL is missing.
#include "costmodel/base/error.h"
#include "runner/nccl/backend.h"

namespace shardlab {

std::string nccl_absence() {
  return "this shardlab was built without NCCL; build it where CUDA and NCCL are installed "
         "(cmake --preset nccl)";
}

std::int64_t visible_gpus() { return 0; }
int nccl_runtime_version() { return 0; }

std::unique_ptr<Backend> make_nccl_backend(Rendezvous&, const RankRange&) {
  throw EnvironmentError("measure: " + nccl_absence());
}

}  // namespace shardlab
