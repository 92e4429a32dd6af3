// One communicator of a fake process group: collectives among virtual ranks that move real bytes.
//
//   FakeGroup group(memory, {.order = ReductionOrder::kRing}, {0, 0, 1, 1});   // 2 domains of 2
//   group.all_gather(shards, {.dim = 0, .extent = 5});   // [5, ...] from shards of 2, 2, 1, 0 rows
//   group.all_reduce(contributions, ReduceOp::kAvg);     // one tensor: every member's result
//
// Tensors are given and returned in the order of the group ranks. A result that all members share
// is returned once. Padding follows PyTorch: every shard is padded to the longest one, sent, and
// cut to the size that chunk semantics give its group rank. If shards have other sizes than that
// (an all-gather merged over uneven shards, pytorch/pytorch#194457), rows get lost and zeros of the
// padding take their place, as in PyTorch.
//
// Contributions are combined in the order of an algorithm, and each sum is rounded to the dtype
// (tensor_kernels.h):
//   ring   The flattened buffer has n chunks. Chunk c is the sum x[c+1] + x[c+2] + ... + x[c], with
//          group ranks modulo n, as in NCCL's ring, where chunk c ends its way around at rank c. In
//          a reduce_scatter, chunk c is what rank c gets.
//   tree   The sum of the first half plus the sum of the second half, and so on within each.
//   flat   x[0] + x[1] + ... + x[n-1]
// With `domains_first` the members of one NVLink domain are combined first and then the domains'
// sums, each in the chosen order, as hierarchical algorithms do. Groups that straddle domains
// differently then round differently (pytorch/pytorch#171913). Every member of a collective gets
// the same bits.
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
  // An average divides its sum at the end. Otherwise, as in NCCL, every contribution is first
  // multiplied by 1/n, rounded to the dtype.
  bool divide_last = false;
};

// How one tensor dim is cut among the members of a group: into chunks, or into strided chunks.
struct DimSharding {
  int dim = 0;
  std::int64_t extent = 0;  // rows of the whole dim
  std::int64_t factor = 1;  // split factor of a strided shard; 1 for a plain one

  // Assumes S(d) or _S(d,f).
  [[nodiscard]] static DimSharding of(const Placement& placement, std::int64_t extent) {
    return {.dim = placement.dim(),
            .extent = extent,
            .factor = placement.is_strided() ? placement.split_factor() : 1};
  }
};

class FakeGroup {
 public:
  // `domains` has the NVLink domain of each member. Results do not depend on the number of threads.
  FakeGroup(HostMemory& memory, const ReductionOptions& options, std::vector<std::int64_t> domains,
            int threads = 1)
      : memory_(memory), options_(options), domains_(std::move(domains)), threads_(threads) {}

  [[nodiscard]] std::int64_t size() const { return std::ssize(domains_); }

  // The whole tensor, made of one shard from each member.
  [[nodiscard]] HostTensor all_gather(std::span<const HostTensor> shards,
                                      const DimSharding& sharding) const;
  // The reduction, divided by `divisor` at the end (for a step that merges sums with averages).
  // Throws InputError for an op that does not exist for the dtype.
  [[nodiscard]] HostTensor all_reduce(std::span<const HostTensor> contributions, ReduceOp op,
                                      double divisor = 1.0) const;
  // Each member's shard of the same reduction.
  [[nodiscard]] std::vector<HostTensor> reduce_scatter(std::span<const HostTensor> contributions,
                                                       ReduceOp op, const DimSharding& sharding,
                                                       double divisor = 1.0) const;
  // Turns shards of one dim into shards of another dim, or into other shards of the same dim.
  [[nodiscard]] std::vector<HostTensor> all_to_all(std::span<const HostTensor> shards,
                                                   const DimSharding& from,
                                                   const DimSharding& to) const;
  // How many bytes of an all_to_all's results their members already had in their shards.
  [[nodiscard]] std::int64_t bytes_kept(std::span<const HostTensor> results,
                                        const DimSharding& from, const DimSharding& to) const;
  // The root's tensor, which every member gets.
  [[nodiscard]] HostTensor broadcast(std::span<const HostTensor> tensors, std::int64_t root) const;
  // Each member's shard of the root's tensor; and the shard that a member cuts out of a tensor of
  // its own, without communication.
  [[nodiscard]] std::vector<HostTensor> scatter(const HostTensor& tensor,
                                                const DimSharding& sharding) const;
  [[nodiscard]] HostTensor chunk(const HostTensor& tensor, const DimSharding& sharding,
                                 std::int64_t member) const;
  // The whole tensor with zeros where other members have their rows. This is S -> P(sum), which no
  // plan has (pytorch/pytorch#191828).
  [[nodiscard]] HostTensor among_zeros(const HostTensor& shard, const DimSharding& sharding,
                                       std::int64_t member) const;
  // One member's contribution under R -> P(op). A sum divides by n; but for integers and b8 member
  // 0 keeps the value and the others have 0, since a division would lose the remainder. avg, max
  // and min keep the value, and a p-norm divides by the p-th root of n. Assumes one of these
  // reductions.
  [[nodiscard]] HostTensor partition(const HostTensor& tensor, const Placement& partial,
                                     std::int64_t member) const;

 private:
  // Reduces elements [begin, begin + count) of the contributions into `out`, in the order that
  // `program` gives.
  void reduce_range(std::span<const HostTensor> contributions, ReduceOp op, double divisor,
                    std::span<const int> program, std::int64_t begin, std::int64_t count,
                    std::byte* out) const;
  // The order of summation for one chunk as a program in postfix form: a group rank pushes its
  // contribution, and kCombine adds up the two on top.
  static constexpr int kCombine = -1;
  [[nodiscard]] std::vector<int> program_of_chunk(std::int64_t chunk) const;
  void append_sum(std::span<const int> members, std::int64_t chunk, std::vector<int>& out) const;

  HostMemory& memory_;
  ReductionOptions options_;
  // Calls work(member) for every member, on several threads when there are enough bytes to move.
  template <class Work>
  void for_each_member(std::int64_t bytes, Work&& work) const;

  std::vector<std::int64_t> domains_;
  int threads_;
};

// How many rows of the whole a member holds under both shardings, which must be of one tensor dim.
[[nodiscard]] std::int64_t rows_kept(const DimSharding& from, const DimSharding& to,
                                     std::int64_t members, std::int64_t member);

// Whether a reduction of this op exists for the dtype: bitwise ops need integers or b8, and there
// is no average of b8.
[[nodiscard]] bool reduces(ReduceOp op, DType dtype);

}  // namespace shardlab
