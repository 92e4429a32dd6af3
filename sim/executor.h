// Runs a plan on virtual ranks: all ranks of a mesh in one process, real bytes in simulated
// collectives.
//
//   Executor executor(mesh, topology, {});
//   DistributedTensor tensor = executor.distribute(plan.meta, plan.start, {.seed = 7});
//   ExecutionResult result = executor.run(plan, tensor);     // tensor is now in plan.to
//   result.verified, result.max_abs_error, result.replicas_bitwise_equal
//
// The executor knows nothing of how the plan came about: each step moves the bytes that its
// collective moves, each rank's shard as long as its coordinate says. After every step the shards
// are compared with the global tensor: rows by index (local_rows), partial contributions combined
// in double precision, by code that shares nothing with the collectives.
//
// A result is verified when no element is further from the truth than rounding explains. Integers
// must be equal. For floating point the bound is sum over the steps of (n + 2) u A: n ranks of the
// step's group, u the dtype's unit roundoff, A the largest sum of magnitudes that one element's
// contributions have (Higham 2002, Accuracy and Stability of Numerical Algorithms, 4.2: the error
// of any order of summation of n terms is at most (n - 1) u / (1 - (n - 1) u) times that sum; one u
// more each for scaling and for the contributions' own rounding). Steps with norm partials allow
// (n + 8) u A, for the two powers. What made-up contributions lost by rounding comes on top.
//
// Memory: replicas share one buffer; the tensor, its global value and one step's results are held
// at once. Threads work on different groups of a step; the result does not depend on their number.
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

// Data for more ranks is refused: each has a shard of its own in the books.
inline constexpr std::int64_t kMaxExecutedRanks = 65536;

struct ExecutionOptions {
  ReductionOptions reduction = {};
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30U;
  int threads = 1;
  bool verify_each_step = true;
  // S -> P(sum), which puts each shard among zeros: on explicit request only, no plan has it
  // (pytorch/pytorch#191828).
  bool shard_to_partial = false;
  // Every member of an all-gather, all-reduce or broadcast gets bytes of its own, as on devices.
  bool copy_replicas = false;
};

struct DistributedTensor {
  TensorMeta meta;
  Layout layout;
  HostTensor global;               // the value that the locals stand for
  std::vector<HostTensor> locals;  // by index into the mesh, row-major
  // Of a mask partial that no step has touched yet: b8, true where a rank's rows count as zeros.
  // By index into the mesh, the shape being the locals' leading dims; empty otherwise.
  std::vector<HostTensor> masks = {};
  double magnitude = 0.0;  // largest sum of magnitudes of one element's contributions
  double tolerance = 0.0;  // what rounding may have done so far, to any element
  // On top, by element: f64 in the shape of `global`, or empty.
  HostTensor tolerances = {};
};

// Throws InputError for a layout that no tensor of this dtype and rank can have: a shard of a dim
// that it lacks, a reduction that its dtype lacks.
void expect_layout(const TensorMeta& meta, const Layout& layout);

struct Verification {
  bool verified = true;
  double max_abs_error = 0.0;
  std::string mismatch;  // the first one: rank, global index, found, expected
};

struct StepExecution {
  Verification verification;
  // Bytes that ranks receive from others, all together. A ring's: an all_gather of S bytes among n
  // ranks moves (n - 1) S, a reduce_scatter as much, an all_reduce twice as much (Patarasuk and Yuan
  // 2009); an all_to_all what its members do not have yet. Padding is not counted.
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_written = 0;  // into buffers of the step's results, all ranks together
};

struct ExecutionResult {
  bool executed = false;
  std::string refused;  // why the plan does not run; empty when it does
  bool verified = false;
  double max_abs_error = 0.0;  // against the global tensor, once all steps are done
  std::string mismatch;        // the first one, and the step after which it was seen
  int failed_step = -1;        // index of that step
  bool replicas_bitwise_equal = false;
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_written = 0;
  std::vector<StepExecution> steps;
  // What the data is right for but its name is not: strided shards that stand for a shard order and,
  // for this uneven shape, name other rows (pytorch/pytorch#168134).
  std::vector<std::string> notes;
};

class Executor {
 public:
  // Throws InputError for more than kMaxExecutedRanks.
  Executor(DeviceMesh mesh, const Topology& topology, const ExecutionOptions& options);

  // A tensor of the options' values in this layout. Partial placements get contributions that
  // reduce to it. Throws InputError: memory, a dtype without data, a reduction that the dtype lacks.
  [[nodiscard]] DistributedTensor distribute(const TensorMeta& meta, const Layout& layout,
                                             const DataOptions& data) const;
  // The same for a global tensor that is there.
  [[nodiscard]] DistributedTensor distribute(const TensorMeta& meta, const Layout& layout,
                                             HostTensor global, const DataOptions& data) const;

  // Assumes a tensor in plan.start. A plan that is impossible or unexecutable is refused, and
  // nothing moves. Stops after a step that leaves shards of a wrong shape.
  [[nodiscard]] ExecutionResult run(const Plan& plan, DistributedTensor& tensor) const;
  // One step, without verification. Throws InputError for a change that no collective makes.
  [[nodiscard]] StepExecution run_step(const PlanStep& step, DistributedTensor& tensor) const;

  // The value that the locals stand for: shards in their places, contributions reduced in double
  // precision. f64 where the tensor is floating point.
  [[nodiscard]] HostTensor assemble(const DistributedTensor& tensor) const;

  // Has every rank's tensor the shape that the layout gives it?
  [[nodiscard]] bool has_local_shapes(const DistributedTensor& tensor) const;
  // Do the locals stand for the global tensor?
  [[nodiscard]] Verification verify(const DistributedTensor& tensor) const;
  // Do all ranks that ought to hold the same bytes hold them? Ranks that differ only in coordinates
  // of replicated mesh dims.
  [[nodiscard]] bool replicas_bitwise_equal(const DistributedTensor& tensor) const;

  [[nodiscard]] const DeviceMesh& mesh() const { return mesh_; }
  // By index into the mesh: its coordinate, its rank in the world.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& coordinates() const {
    return coordinates_;
  }
  [[nodiscard]] const std::vector<std::int64_t>& ranks() const { return ranks_; }
  [[nodiscard]] const ExecutionOptions& options() const { return options_; }
  [[nodiscard]] HostMemory& memory() const { return *memory_; }

 private:
  struct GroupResult {
    std::vector<HostTensor> tensors;  // by group rank
    std::int64_t bytes_moved = 0;
  };
  // Groups of one step that hold the same bytes, so that one run stands for all of them.
  struct TwinGroups {
    std::vector<std::vector<std::size_t>> groups;  // their members, by index into the mesh
    std::vector<std::int64_t> domains;             // of the members, numbered as they appear
  };
  [[nodiscard]] std::vector<TwinGroups> groups_of_step(const PlanStep& step, const Layout& before,
                                                       const DistributedTensor& tensor) const;
  [[nodiscard]] StepExecution run_groups(const PlanStep& step, const Layout& before,
                                         DistributedTensor& tensor) const;
  [[nodiscard]] GroupResult reduce_group(const PlanStep& step, const FakeGroup& group,
                                         const std::optional<DimSharding>& target,
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
  // Whole numbers that stay whole when an average and then a partition divide them on each mesh dim:
  // multiples of the squares of its size's odd part (a power of two divides exactly). 1 where the
  // dtype has too few digits for that.
  [[nodiscard]] double exact_unit(DType dtype) const;
  [[nodiscard]] HostTensor make_global(const TensorMeta& meta, const Layout& layout,
                                       const DataOptions& data) const;

  DeviceMesh mesh_;
  std::int64_t domain_devices_;
  ExecutionOptions options_;
  std::shared_ptr<HostMemory> memory_;
  std::vector<std::int64_t> ranks_;                     // global, by index into the mesh
  std::vector<std::vector<std::int64_t>> coordinates_;  // by index into the mesh
};

}  // namespace shardlab
