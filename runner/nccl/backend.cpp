#include "runner/nccl/backend.h"

namespace shardlab {

std::int64_t send_count(const CollectiveCall& call, std::int64_t group_size) {
  return call.kind == Collective::kAllGather ? call.count / group_size : call.count;
}

std::int64_t receive_count(const CollectiveCall& call, std::int64_t group_size) {
  return call.kind == Collective::kReduceScatter ? call.count / group_size : call.count;
}

}  // namespace shardlab
