// One communicator of a fake process group: collectives among virtual ranks, on real bytes.
//
//   FakeGroup group(memory, {.order = ReductionOrder::kRing}, {0, 0, 1, 1});   // 4 members, 2 domains
//   group.all_gather(shards, {.dim = 0, .extent = 5});    // [5, ...] from shards of 2, 2, 1, 0 rows
//   group.all_reduce(contributions, ReduceOp::kAvg);      // one tensor: every member's result
//
// Tensors are given and returned in order of the group rank. A result that all members share is
// returned once. Padding is PyTorch's: every shard is padded to the longest one, sent, and cut to
// the size that chunk semantics give its group rank (dtensor-semantics 4). Where shards really have
// other sizes (an all-gather merged over uneven shards, pytorch/pytorch#194457), rows get lost and
// zeros of the padding come instead, as they do there.
//
// Arithmetic: the order in which contributions are combined is that of an algorithm, each sum
// rounded to the dtype (tensor_kernels.h):
//   ring   n chunks of the flattened buffer; chunk c is the sum x[c+1] + x[c+2] + ... + x[c], group
//          ranks modulo n: NCCL's ring, where chunk c ends its way around at rank c. A
//          reduce_scatter's chunk c is what rank c gets.
//   tree   pairwise: the sum of the first half plus the sum of the second
//   flat   x[0] + x[1] + ... + x[n-1]
// `domains_first`: the members of one NVLink domain are combined first, then the domains' sums, each
// in that order, as hierarchical algorithms do: groups that straddle domains differently then round
// differently (pytorch/pytorch#171913). Every member of one collective gets the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "sim/host_tensor.h"
#include "sim/placement.h"

namespace shardlab {

enum class ReductionOrder : std::uint8_t { kRing, kTree, kFlat };
template <>
struct EnumNames<ReductionOrder> {
  static constexpr std::string_view kKind = "reduction order";
  static constexpr std::array kNames = {Named{ReductionOrder::kRing, "ring"},
                                        Named{ReductionOrder::kTree, "tree"},
                                        Named{ReductionOrder::kFlat, "flat"}};
};

struct ReductionOptions {
  ReductionOrder order = ReductionOrder::kRing;
  bool domains_first = false;
  // An average divides its sum last, instead of multiplying each contribution by fl(1/n) first as
  // NCCL does.
  bool divide_last = false;
};

// How one tensor dim is cut among the members of a group: chunks, or strided chunks.
struct DimSharding {
  int dim = 0;
  std::int64_t extent = 0;  // of the whole
  std::int64_t factor = 1;  // split factor of a strided shard

  // Assumes S(d) or _S(d,f).
  [[nodiscard]] static DimSharding of(const Placement& placement, std::int64_t extent) {
    return {.dim = placement.dim(),
            .extent = extent,
            .factor = placement.is_strided() ? placement.split_factor() : 1};
  }
};

class FakeGroup {
 public:
  // `domains`: the NVLink domain of each member. Results do not depend on the number of threads.
  FakeGroup(HostMemory& memory, const ReductionOptions& options, std::vector<std::int64_t> domains,
            int threads = 1)
      : memory_(memory), options_(options), domains_(std::move(domains)), threads_(threads) {}

  [[nodiscard]] std::int64_t size() const { return std::ssize(domains_); }

  // The whole, from one shard a member.
  [[nodiscard]] HostTensor all_gather(std::span<const HostTensor> shards,
                                      const DimSharding& sharding) const;
  // The reduction; divided by `divisor` last (a merged sum and average). Throws InputError: an op
  // that the dtype lacks.
  [[nodiscard]] HostTensor all_reduce(std::span<const HostTensor> contributions, ReduceOp op,
                                      double divisor = 1.0) const;
  // Each member's shard of the reduction.
  [[nodiscard]] std::vector<HostTensor> reduce_scatter(std::span<const HostTensor> contributions,
                                                       ReduceOp op, const DimSharding& sharding,
                                                       double divisor = 1.0) const;
  // Shards of one dim become shards of another, or other shards of the same.
  [[nodiscard]] std::vector<HostTensor> all_to_all(std::span<const HostTensor> shards,
                                                   const DimSharding& from,
                                                   const DimSharding& to) const;
  // Bytes of an all_to_all's results that their members had in their shards already.
  [[nodiscard]] std::int64_t bytes_kept(std::span<const HostTensor> results,
                                        const DimSharding& from, const DimSharding& to) const;
  // The root's tensor: every member's result.
  [[nodiscard]] HostTensor broadcast(std::span<const HostTensor> tensors, std::int64_t root) const;
  // Each member's shard of the root's tensor: scatter; without communication, a local chunk.
  [[nodiscard]] std::vector<HostTensor> scatter(const HostTensor& tensor,
                                                const DimSharding& sharding) const;
  [[nodiscard]] HostTensor chunk(const HostTensor& tensor, const DimSharding& sharding,
                                 std::int64_t member) const;
  // The whole with zeros where other members' rows are: S -> P(sum), on explicit request only
  // (pytorch/pytorch#191828).
  [[nodiscard]] HostTensor among_zeros(const HostTensor& shard, const DimSharding& sharding,
                                       std::int64_t member) const;
  // R -> P(op), one member's contribution: sum divides by n (integers and b8: member 0 keeps the
  // value, the others 0, since a division would lose the remainder); avg, max and min keep the value;
  // a p-norm divides by the p-th root of n. Assumes one of these.
  [[nodiscard]] HostTensor partition(const HostTensor& tensor, const Placement& partial,
                                     std::int64_t member) const;

 private:
  // What the reduction does for elements [begin, begin + count) of `contributions`, into `out`.
  void reduce_range(std::span<const HostTensor> contributions, ReduceOp op, double divisor,
                    std::span<const int> program, std::int64_t begin, std::int64_t count,
                    std::byte* out) const;
  // Postfix: a group rank pushes its contribution, kCombine joins the two on top.
  static constexpr int kCombine = -1;
  [[nodiscard]] std::vector<int> program_of_chunk(std::int64_t chunk) const;
  void append_sum(std::span<const int> members, std::int64_t chunk, std::vector<int>& out) const;

  HostMemory& memory_;
  ReductionOptions options_;
  // Calls work(member) for all of them, on several threads where that many bytes are worth it.
  template <class Work>
  void for_each_member(std::int64_t bytes, Work&& work) const;

  std::vector<std::int64_t> domains_;
  int threads_;
};

// Rows of the whole that a member holds both as one shard and as the other. Assumes one tensor dim.
[[nodiscard]] std::int64_t rows_kept(const DimSharding& from, const DimSharding& to,
                                     std::int64_t members, std::int64_t member);

// Whether a reduction of this op exists for the dtype: bitwise ops need integers or b8, an average
// of b8 is undefined.
[[nodiscard]] bool reduces(ReduceOp op, DType dtype);

}  // namespace shardlab
