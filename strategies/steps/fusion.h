// Which operators run as one kernel under torch.compile, and how many bytes each kernel moves.
//
//   const std::vector<FusedKernel> kernels = fuse(ops, tensors);     // under torch.compile
//   const std::vector<FusedKernel> each = unfused(ops, tensors);     // in eager mode
//   for (const FusedKernel& kernel : kernels) kernel.bytes_read + kernel.bytes_written
//
// The list of operators is one graph of the compiler: the forward pass, or the backward pass
// together with what it computes again. Operators of two graphs never share a kernel, so that each
// graph is a call of its own.
//
// Rules. They are those of TorchInductor's scheduler, read from PyTorch 2.13's torch/_inductor
// (choices.py, scheduler.py, codegen/simd.py):
//
// 1. A barrier never shares a kernel: GEMMs, attention, scatters and the backward pass of
//    embeddings, collectives, random numbers with a state. Casts, copies and other elementwise
//    operators are pointwise. Views are free.
// 2. Vertically: an operator joins the kernel that writes what it reads. Horizontally: two
//    operators that share at least kLeastSharedBytes of reads join, if they are at most
//    kFarthestOps apart, because fusing distant operators keeps tensors in memory for longer.
// 3. Two pointwise operators need iteration spaces of equal extent. A pointwise operator over a
//    smaller space (a cast of a weight that is then broadcast) is computed inside the only kernel
//    that reads its results.
// 4. Two reductions need equal spaces, rows of equal length and the same reduced dims. A reduction
//    takes pointwise operators over its whole space, before it (producers) and after it (which run
//    through the row once more), and over its results.
// 5. A reduction with few results of long rows (kFewResults, kLongRow) runs in two phases that need
//    the whole device in between, so that nothing that reads its result is in its kernel. The
//    second phase is not counted: it reads a few partial results.
// 6. Two kernels that would have to wait for each other do not become one. In particular a barrier
//    separates what it reads from what reads its result.
// 7. Of all possible pairs the best is fused first: pairs that are both reductions or both
//    pointwise, unless another pair shares 16 times as many bytes; then pairs that share more
//    bytes; then those that are closer together. This is repeated until no pair is left, but no
//    more than ten times.
//
// Bytes. A kernel reads each tensor once that it needs from outside, and writes each tensor once
// that an operator outside of it reads, that stays, or that nothing reads (an output by its
// nature). Tensors between its operators stay in registers. What runs through a row again reads it
// from the cache if the row's inputs fit kCachedRowBytes, otherwise from memory: each loop over the
// row counts, up to what the operators would move by themselves. Views of one tensor count as its
// bytes at most.
//
// Left out: a cheap operator that two kernels read is written once here, where Inductor may compute
// it twice; reductions of one tensor over different dims, which Inductor joins since 2.10 ("mix
// order"), are two kernels here; epilogues that max-autotune fuses into GEMMs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardlab {

// A horizontal fusion has to save this many bytes. Source: config.score_fusion_memory_threshold.
inline constexpr double kLeastSharedBytes = 10.0;
// The farthest that two operators of a horizontal fusion may be apart in the list, without counting
// views. Source: are_long_distant_nodes() in scheduler.py.
inline constexpr int kFarthestOps = 64;
// Fewer results than two for each SM of an H100 (132), of rows longer than 8,192 elements, are
// reduced in two phases. Source: reduction_split_factor() in choices.py.
inline constexpr double kFewResults = 264.0;
inline constexpr double kLongRow = 8192.0;
// The L1 cache of an A100's SM (192 KB, the smaller one of A100 and H100) shared by the two blocks
// of 1,024 threads that an SM holds. Source: NVIDIA's tuning guides for Ampere and Hopper.
inline constexpr double kCachedRowBytes = 96.0 * 1024.0;

enum class FusionKind : std::uint8_t {
  kPointwise,
  kReduction,
  kView,     // its results share the memory of the first tensor that it reads
  kBarrier,  // GEMM, attention, collective: never shares a kernel
};

struct FusionTensor {
  double bytes = 0.0;
  bool stays = false;  // whether something outside of the list reads it
};

struct FusionOp {
  FusionKind kind = FusionKind::kBarrier;
  double elements = 0.0;  // extent of its iteration space; for a reduction, that of what it reduces
  double row = 0.0;       // how many elements of a reduction become one result
  std::vector<int> reads,
      writes;  // tensors, by index; one that is read and written changes in place
  // A reduction has a number that tells apart which dims are reduced. Rows and columns of a square
  // matrix have equal extents and need different numbers.
  int dims = 0;
};

struct FusedKernel {
  std::vector<int> ops;  // ascending
  double bytes_read = 0.0;
  double bytes_written = 0.0;
};

// The kernels in the order in which they are issued: each after all that it reads. Every operator
// belongs to exactly one kernel. A view belongs to the kernel that makes what it views, or else to
// the first that reads it; a kernel of views alone has no bytes and launches nothing.
// Throws InputError for a tensor that is not there, bytes or extents that are negative or not
// finite, a reduction whose row is not between 1 and its elements, and a view that reads nothing.
[[nodiscard]] std::vector<FusedKernel> fuse(std::span<const FusionOp> ops,
                                            std::span<const FusionTensor> tensors);
// The same without fusion: each operator is a kernel that reads and writes everything. Throws as
// fuse() does.
[[nodiscard]] std::vector<FusedKernel> unfused(std::span<const FusionOp> ops,
                                               std::span<const FusionTensor> tensors);

}  // namespace shardlab
