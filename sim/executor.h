// Runs a plan on virtual ranks: all ranks of a mesh live in one process, and simulated collectives
// move real bytes between them.
//
//   Executor executor(mesh, topology, {});
//   DistributedTensor tensor = executor.distribute(plan.meta, plan.start, {.seed = 7});
//   ExecutionResult result = executor.run(plan, tensor);     // tensor is now in plan.to
//   result.verified, result.max_abs_error, result.replicas_bitwise_equal
//
// The executor does not know how the plan came about. Each step moves the bytes that its collective
// moves, and each rank's coordinate determines how long its shard is. After every step the shards
// are compared with the global tensor, by code that shares nothing with the collectives: rows are
// found by index (local_rows), and partial contributions are combined in double precision.
//
// A result is verified when no element is further from the truth than rounding explains. Integers
// must be equal. For floating point the bound is the sum over the steps of (n + 2) (u A + e), where
// n is the number of ranks in the step's group, u the dtype's unit roundoff, A the largest sum of
// magnitudes of one element's contributions, and e the dtype's underflow error. Source: Higham
// 2002, Accuracy and Stability of Numerical Algorithms, 4.2: summing n terms in any order has an
// error of at most (n - 1) u / (1 - (n - 1) u) times that sum; scaling and the rounding of the
// contributions themselves add one u each. Steps with norm partials allow (n + 8) (u A + e),
// because they raise to two powers. What the made-up contributions lost by rounding is added to the
// bound.
//
// Memory: the tensor, its global value and the results of one step are held at the same time;
// replicas share one buffer. Threads work on different groups of a step. The result does not depend
// on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/topology.h"
#include "sim/fake_group.h"
#include "sim/mesh.h"
#include "sim/partial_values.h"
#include "sim/plan.h"

namespace shardlab {

// Data for more ranks is refused, because the executor keeps a list entry for every rank's shard.
inline constexpr std::int64_t kMaxExecutedRanks = 65536;

struct ExecutionOptions {
  ReductionOptions reduction = {};
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30U;
  int threads = 1;
  bool verify_each_step = true;
  // Allows S -> P(sum), which puts each shard among zeros. No plan has this step
  // (pytorch/pytorch#191828), so it runs on explicit request only.
  bool shard_to_partial = false;
  // Every member of an all-gather, all-reduce or broadcast gets a buffer of its own, as on devices.
  bool copy_replicas = false;
};

struct DistributedTensor {
  TensorMeta meta;
  Layout layout;
  HostTensor global;               // the value that the locals stand for
  std::vector<HostTensor> locals;  // by index into the mesh, row-major
  // Masks of a mask partial that no step has touched yet, by index into the mesh: b8, in the shape
  // of the locals' leading dims, true where a rank's rows count as zeros. Empty for other tensors.
  std::vector<HostTensor> masks = {};
  double magnitude = 0.0;  // largest sum of magnitudes of one element's contributions
  double tolerance = 0.0;  // the error that rounding may have caused so far, in any element
  // Further errors that single elements may have: f64 in the shape of `global`, or empty.
  HostTensor tolerances = {};
};

// Throws InputError for a layout that such a tensor can't have: a shard of a dim that it lacks, or
// a partial whose reduction does not exist for its dtype.
void expect_layout(const TensorMeta& meta, const Layout& layout);

struct Verification {
  bool verified = true;
  double max_abs_error = 0.0;
  std::string mismatch;  // the first wrong element: rank, global index, found, expected
};

struct StepExecution {
  Verification verification;
  // Bytes that ranks receive from other ranks, all ranks together, as counted in sim/traffic.h.
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_written = 0;  // into the buffers of the step's results, all ranks together
};

struct ExecutionResult {
  bool executed = false;
  std::string refused;  // why the plan does not run; empty when it does
  bool verified = false;
  double max_abs_error = 0.0;  // against the global tensor, once all steps are done
  std::string mismatch;        // the first wrong element, and the step after which it was seen
  int failed_step = -1;        // index of that step; -1 when every step was right
  bool replicas_bitwise_equal = false;
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_written = 0;
  std::vector<StepExecution> steps;
  // Warnings about layouts that are misleading although the data is right: a strided shard stands
  // for a shard order but, with this uneven shape, would by its own definition put other rows on
  // the ranks (pytorch/pytorch#168134).
  std::vector<std::string> notes;
};

class Executor {
 public:
  // Throws InputError for a mesh of more than kMaxExecutedRanks ranks.
  Executor(DeviceMesh mesh, const Topology& topology, const ExecutionOptions& options);

  // A made-up tensor in this layout, with values of the kind that `data` names. Partial placements
  // get contributions that reduce to those values. Throws LimitError when the memory does not
  // suffice, and InputError for a dtype without data, for a mask partial, and for what
  // expect_layout() refuses.
  [[nodiscard]] DistributedTensor distribute(const TensorMeta& meta, const Layout& layout,
                                             const DataOptions& data) const;
  // The same for a given global tensor.
  [[nodiscard]] DistributedTensor distribute(const TensorMeta& meta, const Layout& layout,
                                             HostTensor global, const DataOptions& data) const;

  // Runs every step on the tensor, which must be in plan.start. A plan that is impossible or
  // unexecutable is refused, and nothing moves. The run stops after a step that leaves shards of a
  // wrong shape.
  [[nodiscard]] ExecutionResult run(const Plan& plan, DistributedTensor& tensor) const;
  // Runs one step without verifying it. Throws InputError for a change that no collective makes.
  [[nodiscard]] StepExecution run_step(const PlanStep& step, DistributedTensor& tensor) const;

  // The global tensor that the locals stand for, with contributions reduced in double precision:
  // f64 for a floating-point tensor, otherwise the tensor's own dtype.
  [[nodiscard]] HostTensor assemble(const DistributedTensor& tensor) const;

  // Whether every rank's tensor has the shape that the layout gives it.
  [[nodiscard]] bool has_local_shapes(const DistributedTensor& tensor) const;
  // Compares the locals with the global tensor that they should stand for.
  [[nodiscard]] Verification verify(const DistributedTensor& tensor) const;
  // Whether all ranks that should hold the same bytes do: ranks whose coordinates differ on
  // replicated mesh dims only.
  [[nodiscard]] bool replicas_bitwise_equal(const DistributedTensor& tensor) const;

  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  // Coordinates and global ranks, by index into the mesh.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& coordinates() const {
    return coordinates_;
  }
  [[nodiscard]] const std::vector<std::int64_t>& ranks() const { return ranks_; }
  [[nodiscard]] const ExecutionOptions& options() const { return options_; }
  [[nodiscard]] HostMemory& memory() const { return *memory_; }

 private:
  // Throws LimitError.
  void expect_listable_rows(const TensorMeta& meta, const Layout& layout) const;

  struct GroupResult {
    std::vector<HostTensor> tensors;  // by group rank
    std::int64_t bytes_moved = 0;
  };
  // Groups of one step that hold the same bytes, so that only one of them has to be run.
  struct TwinGroups {
    std::vector<std::vector<std::size_t>> groups;  // members of each group, by index into the mesh
    std::vector<std::int64_t> domains;  // NVLink domains of the members, numbered as they appear
  };
  [[nodiscard]] std::vector<TwinGroups> groups_of_step(const PlanStep& step, const Layout& before,
                                                       const DistributedTensor& tensor) const;
  [[nodiscard]] StepExecution run_groups(const PlanStep& step, const Layout& before,
                                         DistributedTensor& tensor) const;
  [[nodiscard]] GroupResult reduce_group(const PlanStep& step, const FakeGroup& group,
                                         const std::optional<DimSharding>& target,
                                         std::span<const HostTensor> members) const;
  [[nodiscard]] GroupResult run_registered(const PlanStep& step, const FakeGroup& group,
                                           const Shape& whole,
                                           std::span<const HostTensor> members) const;
  [[nodiscard]] std::vector<HostTensor> for_all(const HostTensor& result,
                                                std::int64_t members) const;
  [[nodiscard]] GroupResult run_group(const PlanStep& step, const Layout& before,
                                      const TensorMeta& meta, const FakeGroup& group,
                                      std::span<const std::int64_t> coordinate,
                                      std::span<const HostTensor> members) const;
  // The locals with masked rows set to zero.
  [[nodiscard]] std::vector<HostTensor> masked(const DistributedTensor& tensor) const;
  [[nodiscard]] bool same_rows(const TensorMeta& meta, const Layout& a, const Layout& b) const;
  // Multiples of this stay whole numbers when an average and then a partition divide them on every
  // mesh dim: the product of the squares of the odd parts of the mesh's sizes, since powers of two
  // divide exactly. It is 1 if the dtype has too few digits for the sums of such multiples.
  [[nodiscard]] double exact_unit(DType dtype, const PartialDims& partial) const;
  [[nodiscard]] HostTensor make_global(const TensorMeta& meta, const Layout& layout,
                                       const DataOptions& data) const;

  DeviceMesh mesh_;
  std::int64_t domain_devices_;
  ExecutionOptions options_;
  std::shared_ptr<HostMemory> memory_;
  std::vector<std::int64_t> ranks_;                     // global ranks, by index into the mesh
  std::vector<std::vector<std::int64_t>> coordinates_;  // by index into the mesh
};

}  // namespace shardlab
