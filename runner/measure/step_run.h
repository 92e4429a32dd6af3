// Runs one step of a plan on a backend: each local rank packs what it sends, the group's collective
// runs, and each rank unpacks what it received.
//
//   GroupCache groups(backend);
//   const StepRun step(backend, groups, executor, plan.steps[0], fake);   // fake: before the step
//   if (step.changes()) mine = step.run(mine);        // the local ranks' tensors
//
// Shards are padded to the longest of their group, as PyTorch pads them. The backend does only what
// moves or reduces bytes of several ranks. The fake group's own functions do the rest: steps
// without communication (a chunk of a replicated tensor, a partition), and putting received shards
// in their places.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runner/nccl/backend.h"
#include "sim/executor.h"

namespace shardlab {

// Keeps communicators by the colours of their ranks, because it takes long to make one.
class GroupCache {
 public:
  explicit GroupCache(Backend& backend) : backend_(backend) {}
  [[nodiscard]] Group& get(const std::vector<std::int64_t>& colours);

 private:
  Backend& backend_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<Group>> groups_;
};

class StepRun {
 public:
  // Keeps references. `before` has the shapes of all ranks' tensors. Assumes a mesh whose ranks are
  // numbered in row-major order, like those of the backend.
  StepRun(Backend& backend, GroupCache& groups, const Executor& executor, const PlanStep& step,
          const DistributedTensor& before);

  [[nodiscard]] bool changes() const { return changes_; }
  [[nodiscard]] std::vector<HostTensor> run(const std::vector<HostTensor>& mine) const;

 private:
  // The group of a local rank.
  struct Place {
    std::int64_t me = 0;               // this rank's position in the group
    std::vector<std::size_t> members;  // ranks
    Shape whole;                       // shape of the tensor that the members hold together
  };
  // One call, with the bytes that a local rank sends and receives in it.
  struct Work {
    CollectiveCall call;
    std::vector<std::byte> send;
    std::vector<std::byte> received;
  };
  [[nodiscard]] Place place_of(std::int64_t rank) const;
  [[nodiscard]] DimSharding sharding(const Placement& placement, const Place& place) const;
  [[nodiscard]] std::int64_t longest(const Place& place, int dim) const;
  [[nodiscard]] bool is_local() const;
  [[nodiscard]] bool sends_pieces(const Place& place) const;
  [[nodiscard]] bool is_norm() const;
  [[nodiscard]] ReduceOp op() const;
  [[nodiscard]] Work pack(const HostTensor& local, const Place& place) const;
  [[nodiscard]] HostTensor unpack(const Work& work, const HostTensor& mine,
                                  const Place& place) const;
  [[nodiscard]] HostTensor do_locally(const HostTensor& mine, const Place& place) const;
  void call_all(std::vector<Work>& work) const;
  void append_padded(std::vector<std::byte>& out, const HostTensor& tensor,
                     const Shape& padded) const;
  [[nodiscard]] HostTensor part_of(const Work& work, std::int64_t index, const Shape& padded,
                                   const Shape& shape) const;
  [[nodiscard]] Shape piece_shape(const Place& place, std::int64_t from, std::int64_t to) const;

  Backend& backend_;
  GroupCache& groups_;
  const Executor& executor_;
  const PlanStep& step_;
  const DistributedTensor& before_;
  bool changes_ = false;
};

}  // namespace shardlab
