// Judges one output of an op that was run on virtual ranks: if the output has a given placement, do
// the ranks' results make up the expected whole tensor?
//
//   OutputJudge judge(mesh, whole, results, 0);
//   judge.verdict(Placement::shard(0))      // "" if they do; "rank 1, element 3: found ..." if not
//
// An element is right if it is at most (n + 2) u M off, where n is the number of ranks, u the
// dtype's unit roundoff, and M the magnitude of what is summed. A sum of truth values (b8) is their
// disjunction, as PyTorch's and NCCL's collectives have it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/proof/proof_data.h"

namespace shardlab {

struct WholeOutput {
  TensorMeta meta;
  Doubles values;  // row-major
};

// Keeps references to the mesh and the whole output, which must outlive it.
class OutputJudge {
 public:
  // `results` has one entry for each rank. `output` is the index of the output that is judged.
  OutputJudge(const DeviceMesh& mesh, const WholeOutput& expected,
              std::span<const LocalResult> results, std::size_t output);

  // The first error that is found if the output has this placement; empty if there is none.
  [[nodiscard]] std::string verdict(const Placement& p) const;
  // Whether there is none, without the text that describes it: a proof asks this far more often.
  [[nodiscard]] bool is_right(const Placement& p) const { return !fault(p); }

 private:
  struct Fault {
    enum class Kind : std::uint8_t { kShape, kNoMask, kReduction, kElement };
    Kind kind;
    std::size_t rank = 0;
    std::size_t element = 0;  // index in the whole tensor
    double found = 0.0;
    double wanted = 0.0;
    Shape shape = {};  // the one that was expected
  };
  [[nodiscard]] std::optional<Fault> fault(const Placement& p) const;
  [[nodiscard]] std::optional<Fault> reduced_fault(const Placement& p) const;
  [[nodiscard]] std::string wrong_shape(std::size_t rank, const Shape& wanted) const;
  // What element `i` reduces to; adds the magnitudes of its contributions to `magnitude`.
  [[nodiscard]] double reduced(const Placement& p, std::size_t i, double& magnitude) const;
  [[nodiscard]] double joined(ReduceOp op, double a, double b) const;
  [[nodiscard]] bool is_close(double found, double want, double magnitude) const;

  const DeviceMesh& mesh_;
  const WholeOutput& expected_;
  std::vector<Shape> shapes_;    // by rank
  std::vector<Doubles> locals_;  // by rank
  std::vector<Doubles> masks_;   // the masks of the ranks that have one
};

}  // namespace shardlab
