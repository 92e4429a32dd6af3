// What one block of a model runs on one rank, operator by operator: its forward pass, and the
// backward pass that follows from it.
//
//   WorkBuilder builder(run);
//   const int x = builder.input(tokens * width);
//   builder.finish(builder.linear(x, {.rows = tokens, .in = width, .out = width}));
//   BlockWork work = builder.take();
//   work.forward, work.backward, work.tensors
//
// Each function of the builder adds the operators of the forward pass and remembers those of the
// backward pass, which finish() adds in reverse order. Where a tensor is read twice, its gradients
// are added by a kernel of their own, as autograd does it. The operators are those that PyTorch
// runs in eager mode; what runs as one kernel is decided later (rank_work.h).
//
// Hand-written kernels (Execution::kLibrary) keep a rank's own part of what tensor parallelism
// gathers for a product, and gather the rest again in the backward pass, beside the gradients of
// the product's input. Source: Megatron-LM 000c4ac, megatron/core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication. DTensor keeps all of it.
//
// Units: elements and bytes are those of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/collective.h"
#include "costmodel/compute_model.h"
#include "strategies/training/training_run.h"

namespace shardlab {

enum class WorkKind : std::uint8_t {
  kGemm,
  kAttention,
  kPointwise,
  kReduction,
  kLookup,  // reads rows by index, or adds to them
  kScan,    // a state-space layer's scan
  kCollective,
};

// The ranks among which a collective of a block runs.
enum class WorkGroup : std::uint8_t { kNone, kTensor, kContext, kExperts };

struct WorkTensor {
  double elements = 0.0;
  DType dtype = DType::kBF16;
  bool weight = false;  // a parameter, or what is computed from parameters alone
  // The share of the tensor that a rank keeps for its backward pass: less than 1 for a tensor of
  // which the other ranks' parts are gathered again.
  double kept_share = 1.0;

  [[nodiscard]] double bytes() const { return elements * itemsize(dtype); }
};

struct WorkOp {
  WorkKind kind = WorkKind::kPointwise;
  std::string_view name;  // name of the module that it is part of, such as "norm"
  std::vector<int> reads;
  std::vector<int> writes;
  double elements = 0.0;  // extent of the iteration space of a pointwise operator or reduction
  double row = 0.0;       // elements that a reduction reduces into one
  bool columns = false;   // whether a reduction reduces columns, not rows
  double flops = 0.0;
  GemmShape gemm = {};
  AttentionShape attention = {};
  DType dtype = DType::kBF16;  // number format in which a GEMM computes
  bool low_precision = false;  // whether a GEMM computes in the run's low precision
  // A collective.
  Collective collective = Collective::kLocal;
  WorkGroup group = WorkGroup::kNone;
  double full_bytes = 0.0;  // the larger of one rank's two buffers
  // Whether the collective is cut up and runs beside the GEMM before or after it (async TP), or
  // beside the attention before it (ring attention).
  bool beside = false;
  // Whether the kernels that follow run beside the collective, up to the first that reads its
  // result.
  bool early = false;
};

struct BlockWork {
  std::vector<WorkTensor> tensors;
  std::vector<WorkOp> forward;
  std::vector<WorkOp> backward;
  std::vector<int> held;  // tensors that the training loop keeps, whether they are read or not
  int input = -1;         // the tensor that the block before wrote
  int output = -1;        // the tensor that the next block reads; -1 after the loss
  double weight_elements = 0.0;         // on this rank, without the weights of experts
  double expert_weight_elements = 0.0;  // on this rank
  double trained_elements = 0.0;        // those of both kinds that have gradients
};

struct LinearShape {
  double rows = 0.0;
  double in = 0.0;
  double out = 0.0;
  double batch = 1.0;  // how many weights, each with `rows` rows: the experts of a rank
  bool bias = false;
  bool low_precision = true;  // false for the router and the output projection
  bool expert = false;
};

class WorkBuilder {
 public:
  explicit WorkBuilder(const TrainingRun& run) : run_(run) {}

  int input(double elements);
  // The functions that follow return the tensor that they write.
  int linear(int x, const LinearShape& shape);
  // Several projections of the same tensor; those of one call read x, and cast it, once.
  std::vector<int> projections(int x, std::span<const LinearShape> shapes);
  int norm(int x, double width);
  int add(int a, int b);
  int gated_activation(int gate, int up);
  int activation(int x);
  int rotary(int x);
  // Attention over queries, keys and values, as the shape says; `backward` of the shape is ignored.
  int attention(int query, int key, int value, const AttentionShape& shape);
  int weighted(int x, int scores);   // each row by its softmax score, as a router has it
  int copy(int x, double elements);  // repeats or rearranges
  int lookup(double rows, double width, double vocabulary);
  int scan(int x, const StateSpace& shape, double batch, double tokens, double heads);
  // The collectives' backward passes are their transposes.
  int gather(int x, WorkGroup group, double ranks, bool beside);
  int scatter(int x, WorkGroup group, double ranks, bool beside);
  int exchange(int x, WorkGroup group, double elements);
  // Keys and values travel around the ring of the context-parallel ranks, beside the attention.
  int ring(int x, double bytes);
  void loss(int logits, double rows, double vocabulary);

  void weight(double elements, bool expert);
  // Ends the forward pass with this tensor (-1 after the loss) and adds the backward pass.
  void finish(int output);
  [[nodiscard]] BlockWork take() { return std::move(work_); }

 private:
  int make(double elements, DType dtype = DType::kBF16, bool weight = false);
  void pointwise(std::string_view name, std::vector<int> reads, std::vector<int> writes);
  void reduction(std::string_view name, std::vector<int> reads, std::vector<int> writes,
                 double elements, double row, bool columns = false);
  void gemm(std::string_view name, std::vector<int> reads, std::vector<int> writes,
            const GemmShape& shape, bool low_precision);
  // One product of projections() with the tensors that its backward pass needs.
  struct Projection {
    LinearShape shape;
    int weight;
    int output;
  };
  // The gradient of a product's input `x`, from the gradient of its output.
  int input_gradient(int x, const Projection& product, int output_gradient, bool low_precision);
  void weight_gradient(const Projection& product, int output_gradient, int input,
                       bool low_precision);
  // The input that a product's weight gradient reads: `read`, which the product read in place of
  // `x`, or what is gathered again of it.
  int gathered_again(int x, int read);
  // Casts a tensor for GEMMs of the run's low precision; returns the tensor to read.
  int quantized(int x, double row);
  [[nodiscard]] const WorkTensor& of(int tensor) const {
    return work_.tensors[static_cast<std::size_t>(tensor)];
  }
  [[nodiscard]] int gradient(int tensor);
  void add_gradient(int tensor, int gradient);
  std::vector<WorkOp>& ops() { return in_backward_ ? work_.backward : work_.forward; }
  template <class Function>
  void on_backward(Function&& function) {
    tape_.push_back(std::forward<Function>(function));
  }
  void collective(std::string_view name, Collective kind, WorkGroup group, int from, int to,
                  double full_bytes, bool beside);
  void move(std::string_view name, Collective forward, Collective backward, WorkGroup group, int x,
            int y, double forward_bytes, double backward_bytes, bool beside);

  const TrainingRun& run_;
  BlockWork work_;
  std::vector<int> gradients_;  // by tensor; -1: none yet
  // What tensor parallelism gathered, and gathers again in the backward pass.
  struct Gathered {
    int part;
    WorkGroup group;
    double ranks;
    int again = -1;  // the tensor of the backward pass; -1: not gathered yet
  };
  std::map<int, Gathered> gathered_;  // by the tensor that was gathered
  std::vector<std::function<void()>> tape_;
  bool in_backward_ = false;
};

}  // namespace shardlab
