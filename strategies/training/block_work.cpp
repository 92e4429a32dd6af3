#include "strategies/training/block_work.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/kernel_work.h"

namespace shardlab {

int WorkBuilder::make(double elements, DType dtype, bool weight) {
  work_.tensors.push_back({elements, dtype, weight});
  gradients_.push_back(-1);
  return static_cast<int>(work_.tensors.size()) - 1;
}

int WorkBuilder::input(double elements) {
  work_.input = make(elements);
  return work_.input;
}

void WorkBuilder::pointwise(std::string_view name, std::vector<int> reads,
                            std::vector<int> writes) {
  double elements = 0.0;
  for (const int tensor : reads) elements = std::max(elements, of(tensor).elements);
  for (const int tensor : writes) elements = std::max(elements, of(tensor).elements);
  ops().push_back({.kind = WorkKind::kPointwise,
                   .name = name,
                   .reads = std::move(reads),
                   .writes = std::move(writes),
                   .elements = elements});
}

void WorkBuilder::reduction(std::string_view name, std::vector<int> reads, std::vector<int> writes,
                            double elements, double row, bool columns) {
  ops().push_back({.kind = WorkKind::kReduction,
                   .name = name,
                   .reads = std::move(reads),
                   .writes = std::move(writes),
                   .elements = elements,
                   .row = row,
                   .columns = columns});
}

void WorkBuilder::gemm(std::string_view name, std::vector<int> reads, std::vector<int> writes,
                       const GemmShape& shape, bool low_precision) {
  ops().push_back({.kind = WorkKind::kGemm,
                   .name = name,
                   .reads = std::move(reads),
                   .writes = std::move(writes),
                   .flops = 2.0 * shape.batch * shape.m * shape.n * shape.k,
                   .gemm = shape,
                   .dtype = low_precision ? DType::kF8E4M3 : DType::kBF16,
                   .low_precision = low_precision});
}

int WorkBuilder::gradient(int tensor) {
  const int found = gradients_[static_cast<std::size_t>(tensor)];
  SHARDLAB_CHECK(found >= 0, "a tensor has no gradient");
  return found;
}

void WorkBuilder::add_gradient(int tensor, int gradient) {
  int& known = gradients_[static_cast<std::size_t>(tensor)];
  if (known < 0) {
    known = gradient;
    return;
  }
  const int before = known;
  const int sum = make(of(tensor).elements);
  gradients_[static_cast<std::size_t>(tensor)] = sum;
  pointwise("gradients", {before, gradient}, {sum});
}

void WorkBuilder::weight(double elements, bool expert) {
  (expert ? work_.expert_weight_elements : work_.weight_elements) += elements;
  if (run_.task != Task::kLora) work_.trained_elements += elements;
}

// Casts by recipe. One scale a tensor: the maximum over all elements, then the cast itself, which
// also writes the transposed copy that the weight's gradient reads. One scale for a row or a block:
// each group of elements is read once. Sources: pytorch/ao 0.7, float8/README (dynamic scaling);
// NVIDIA Transformer Engine 2.0, MXFP8 quantises along rows and along columns in one kernel.
int WorkBuilder::quantized(int x, double row) {
  const double elements = of(x).elements;
  if (run_.precision == Precision::kFP8) {
    const int scale = make(1, DType::kF32);
    reduction("cast", {x}, {scale}, elements, elements);
    const int low = make(elements, DType::kF8E4M3, of(x).weight);
    const int transposed = make(elements, DType::kF8E4M3, of(x).weight);
    pointwise("cast", {x, scale}, {low, transposed});
    return low;
  }
  const double group = run_.precision == Precision::kFP8Rowwise     ? row
                       : run_.precision == Precision::kFP8Blockwise ? 128.0
                       : run_.precision == Precision::kMXFP8        ? 32.0
                                                                    : 16.0;
  const int scales = make(2 * elements / group, DType::kU8);
  const int low = make(elements, DType::kF8E4M3, of(x).weight);
  const int transposed = make(elements, DType::kF8E4M3, of(x).weight);
  if (run_.precision == Precision::kFP8Rowwise) {
    // The rows of the transposed copy have scales of their own, so the tensor is read once more.
    const int row_scales = make(elements / row, DType::kF32);
    reduction("cast", {x}, {row_scales}, elements, row);
    pointwise("cast", {x, row_scales}, {low, scales});
    const int column_scales = make(row, DType::kF32);
    reduction("cast", {x}, {column_scales}, elements, elements / row, true);
    pointwise("cast", {x, column_scales}, {transposed});
    return low;
  }
  pointwise("cast", {x}, {low, transposed, scales});
  if (run_.precision == Precision::kNVFP4) {
    // Gradients are rounded stochastically after a random Hadamard transform of their columns, and
    // a tensor's own scale needs its maximum. Source: NVIDIA 2025, "Pretraining LLMs with NVFP4".
    const int scale = make(1, DType::kF32);
    reduction("cast", {x}, {scale}, elements, elements);
  }
  return low;
}

namespace {

// Where ranks hold unequal parts of a vocabulary, the extent is their mean, and the longest part
// counts. Megatron pads vocabularies to a multiple of 128 on each rank
// (make_vocab_size_divisible_by).
double multiple_of(const LinearShape& shape, Execution execution) {
  if (execution == Execution::kLibrary) return static_cast<double>(kMostRowMultiple);
  return row_multiple(std::array{std::ceil(shape.in), std::ceil(shape.out)});
}

}  // namespace

// A bias is added in the epilogue of its GEMM (cuBLASLt). Each operand and each result of a linear
// layer's three products has rows in memory that are as long as the layer's input or output.
std::vector<int> WorkBuilder::projections(int x, std::span<const LinearShape> shapes) {
  std::vector<int> results;
  const bool low = run_.precision != Precision::kBF16 && shapes.front().low_precision;
  const int read = low ? quantized(x, shapes.front().in) : x;
  std::vector<Projection> products;
  for (const LinearShape& shape : shapes) {
    const int full = make(shape.batch * shape.in * shape.out, DType::kBF16, true);
    weight(of(full).elements, shape.expert);
    if (shape.bias) weight(shape.batch * shape.out, shape.expert);
    const int kernel_weight = low ? quantized(full, shape.in) : full;
    const int y = make(shape.batch * shape.rows * shape.out);
    gemm("linear", {read, kernel_weight}, {y},
         {.batch = shape.batch,
          .m = shape.rows,
          .n = shape.out,
          .k = shape.in,
          .row_multiple = multiple_of(shape, run_.execution)},
         low);
    products.push_back({shape, kernel_weight, y});
    results.push_back(y);
  }
  on_backward([this, x, read, low, products] {
    const bool trains = run_.task != Task::kLora;
    const int input = trains ? gathered_again(x, read) : read;
    // Gradients of weights wait for what is gathered again, behind all gradients of the input.
    const bool waits = input != read;
    std::vector<int> output_gradients;
    for (const Projection& product : products) {
      const int dy = gradient(product.output);
      output_gradients.push_back(low ? quantized(dy, product.shape.out) : dy);
      const int dx = input_gradient(x, product, output_gradients.back(), low);
      if (trains && !waits) weight_gradient(product, output_gradients.back(), input, low);
      add_gradient(x, dx);
    }
    for (std::size_t i = 0; waits && i < products.size(); ++i) {
      weight_gradient(products[i], output_gradients[i], input, low);
    }
  });
  return results;
}

int WorkBuilder::input_gradient(int x, const Projection& product, int output_gradient,
                                bool low_precision) {
  const LinearShape& shape = product.shape;
  const int dx = make(of(x).elements);
  gemm("linear", {output_gradient, product.weight}, {dx},
       {.batch = shape.batch,
        .m = shape.rows,
        .n = shape.in,
        .k = shape.out,
        .row_multiple = multiple_of(shape, run_.execution)},
       low_precision);
  return dx;
}

void WorkBuilder::weight_gradient(const Projection& product, int output_gradient, int input,
                                  bool low_precision) {
  const LinearShape& shape = product.shape;
  const int dw = make(shape.batch * shape.in * shape.out, DType::kBF16, true);
  gemm("linear", {output_gradient, input}, {dw},
       {.batch = shape.batch,
        .m = shape.out,
        .n = shape.in,
        .k = shape.rows,
        .row_multiple = multiple_of(shape, run_.execution)},
       low_precision);
  if (!shape.bias) return;
  const int dy = gradient(product.output);
  const int db = make(shape.batch * shape.out, DType::kBF16, true);
  reduction("bias", {dy}, {db}, of(dy).elements, shape.rows, true);
}

// Where the product read a cast to 8 bits, each rank keeps its own part of the cast and gathers
// that again, as Transformer Engine does.
int WorkBuilder::gathered_again(int x, int read) {
  const auto found = gathered_.find(x);
  if (found == gathered_.end()) return read;
  Gathered& gathered = found->second;
  if (gathered.again >= 0) return gathered.again;
  const bool is_cast = read != x;
  if (is_cast) work_.tensors[static_cast<std::size_t>(read)].kept_share = 1.0 / gathered.ranks;
  gathered.again = make(of(read).elements, of(read).dtype);
  collective("all_gather", Collective::kAllGather, gathered.group, is_cast ? read : gathered.part,
             gathered.again, of(gathered.again).bytes(), false);
  ops().back().early = true;
  return gathered.again;
}

int WorkBuilder::linear(int x, const LinearShape& shape) {
  return projections(x, {&shape, 1}).front();
}

// Eager PyTorch runs nn.RMSNorm as a cast to f32, a power, a mean, a product, a cast and a product
// with the weight, and nn.LayerNorm as one kernel. Source: PyTorch 2.6, aten/src/ATen/native
// (layer_norm.cpp); later releases have a kernel of their own for RMSNorm.
int WorkBuilder::norm(int x, double width) {
  const double elements = of(x).elements;
  const double rows = elements / width;
  weight(width, false);
  const int y = make(elements);
  const int scale = make(rows, DType::kF32);
  if (run_.shape.norm == Norm::kLayer || run_.execution == Execution::kLibrary) {
    reduction("norm", {x}, {y, scale}, elements, width);
    on_backward([this, x, y, scale, elements, width, rows] {
      const int dy = gradient(y);
      const int dx = make(elements);
      reduction("norm", {dy, x, scale}, {dx}, elements, width);
      const int dw = make(width, DType::kF32, true);
      reduction("norm", {dy, x, scale}, {dw}, elements, rows, true);
      add_gradient(x, dx);
    });
    return y;
  }
  const int wide = make(elements, DType::kF32);
  pointwise("norm", {x}, {wide});
  const int square = make(elements, DType::kF32);
  pointwise("norm", {wide}, {square});
  reduction("norm", {square}, {scale}, elements, width);
  const int scaled = make(elements, DType::kF32);
  pointwise("norm", {wide, scale}, {scaled});
  const int narrow = make(elements);
  pointwise("norm", {scaled}, {narrow});
  pointwise("norm", {narrow}, {y});
  on_backward([this, x, y, wide, scale, narrow, elements, width, rows] {
    const int dy = gradient(y);
    const int d_narrow = make(elements);
    pointwise("norm", {dy}, {d_narrow});
    const int product = make(elements);
    pointwise("norm", {dy, narrow}, {product});
    const int dw = make(width, DType::kBF16, true);
    reduction("norm", {product}, {dw}, elements, rows, true);
    const int d_scaled = make(elements, DType::kF32);
    pointwise("norm", {d_narrow}, {d_scaled});
    const int d_wide = make(elements, DType::kF32);
    pointwise("norm", {d_scaled, scale}, {d_wide});
    const int weighted = make(elements, DType::kF32);
    pointwise("norm", {d_scaled, wide}, {weighted});
    const int d_scale = make(rows, DType::kF32);
    reduction("norm", {weighted}, {d_scale}, elements, width);
    const int d_square = make(elements, DType::kF32);
    pointwise("norm", {wide, d_scale}, {d_square});
    const int d_sum = make(elements, DType::kF32);
    pointwise("norm", {d_wide, d_square}, {d_sum});
    const int dx = make(elements);
    pointwise("norm", {d_sum}, {dx});
    add_gradient(x, dx);
  });
  return y;
}

int WorkBuilder::add(int a, int b) {
  const int y = make(of(a).elements);
  pointwise("residual", {a, b}, {y});
  on_backward([this, a, b, y] {
    add_gradient(a, gradient(y));
    add_gradient(b, gradient(y));
  });
  return y;
}

int WorkBuilder::gated_activation(int gate, int up) {
  const double elements = of(gate).elements;
  const int y = make(elements);
  if (run_.execution == Execution::kLibrary) {
    pointwise("activation", {gate, up}, {y});
    on_backward([this, gate, up, y, elements] {
      const int d_gate = make(elements);
      const int d_up = make(elements);
      pointwise("activation", {gradient(y), gate, up}, {d_gate, d_up});
      add_gradient(gate, d_gate);
      add_gradient(up, d_up);
    });
    return y;
  }
  const int active = make(elements);
  pointwise("activation", {gate}, {active});
  pointwise("activation", {active, up}, {y});
  on_backward([this, gate, up, active, y, elements] {
    const int d_active = make(elements);
    pointwise("activation", {gradient(y), up}, {d_active});
    const int d_up = make(elements);
    pointwise("activation", {gradient(y), active}, {d_up});
    const int d_gate = make(elements);
    pointwise("activation", {d_active, gate}, {d_gate});
    add_gradient(up, d_up);
    add_gradient(gate, d_gate);
  });
  return y;
}

int WorkBuilder::activation(int x) {
  const int y = make(of(x).elements);
  pointwise("activation", {x}, {y});
  on_backward([this, x, y] {
    const int dx = make(of(x).elements);
    pointwise("activation", {gradient(y), x}, {dx});
    add_gradient(x, dx);
  });
  return y;
}

// Eager: a cast to complex f32, a product, and a cast back, in both directions. Source: torchtitan,
// models/llama3, apply_rotary_emb.
int WorkBuilder::rotary(int x) {
  const double elements = of(x).elements;
  const int y = make(elements);
  const auto rotate = [this, elements](int from, int to) {
    if (run_.execution == Execution::kLibrary) {
      pointwise("rotary", {from}, {to});
      return;
    }
    const int wide = make(elements, DType::kF32);
    pointwise("rotary", {from}, {wide});
    const int rotated = make(elements, DType::kF32);
    pointwise("rotary", {wide}, {rotated});
    pointwise("rotary", {rotated}, {to});
  };
  rotate(x, y);
  on_backward([this, x, y, elements, rotate] {
    const int dx = make(elements);
    rotate(gradient(y), dx);
    add_gradient(x, dx);
  });
  return y;
}

int WorkBuilder::weighted(int x, int scores) {
  const int probabilities = make(of(scores).elements, DType::kF32);
  reduction("router", {scores}, {probabilities}, of(scores).elements,
            run_.shape.experts ? static_cast<double>(run_.shape.experts->count) : 1.0);
  const int y = make(of(x).elements);
  pointwise("router", {x, probabilities}, {y});
  on_backward([this, x, scores, probabilities, y] {
    const int dx = make(of(x).elements);
    pointwise("router", {gradient(y), probabilities}, {dx});
    const int ds = make(of(scores).elements);
    reduction("router", {gradient(y), x, probabilities}, {ds}, of(x).elements,
              std::max(1.0, of(x).elements / of(scores).elements));
    add_gradient(x, dx);
    add_gradient(scores, ds);
  });
  return y;
}

int WorkBuilder::copy(int x, double elements) {
  const int y = make(elements);
  pointwise("copy", {x}, {y});
  on_backward([this, x, y, elements] {
    const int dx = make(of(x).elements);
    if (elements > of(x).elements) {
      reduction("copy", {gradient(y)}, {dx}, elements, elements / of(x).elements);
    } else {
      pointwise("copy", {gradient(y)}, {dx});
    }
    add_gradient(x, dx);
  });
  return y;
}

int WorkBuilder::attention(int query, int key, int value, const AttentionShape& shape) {
  const double pairs = shape.batch * shape.heads * shape.queries * shape.keys;
  const double flops = 2.0 * pairs * (shape.key_dim + shape.value_dim);
  const int y = make(shape.batch * shape.heads * shape.queries * shape.value_dim);
  const int lse = make(shape.batch * shape.heads * shape.queries, DType::kF32);
  AttentionShape forward = shape;
  forward.kernel = run_.flash_attention ? AttentionKernel::kFlash : AttentionKernel::kCudnn;
  forward.backward = false;
  ops().push_back({.kind = WorkKind::kAttention,
                   .name = "attention",
                   .reads = {query, key, value},
                   .writes = {y, lse},
                   .flops = flops,
                   .attention = forward});
  on_backward([this, query, key, value, y, lse, forward, shape, flops] {
    const int dy = gradient(y);
    const int delta = make(of(lse).elements, DType::kF32);
    reduction("attention", {dy, y}, {delta}, of(y).elements, shape.value_dim);
    // Queries, keys and values may be parts of one tensor, which then has one gradient.
    std::vector<int> inputs = {query, key, value};
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    std::vector<int> gradients;
    for (const int tensor : inputs) gradients.push_back(make(of(tensor).elements));
    AttentionShape backward = forward;
    backward.backward = true;
    ops().push_back({.kind = WorkKind::kAttention,
                     .name = "attention",
                     .reads = {dy, query, key, value, lse, delta},
                     .writes = gradients,
                     .flops = 2.5 * flops,
                     .attention = backward});
    for (std::size_t i = 0; i < inputs.size(); ++i) add_gradient(inputs[i], gradients[i]);
  });
  return y;
}

int WorkBuilder::lookup(double rows, double width, double vocabulary) {
  const int table = make(vocabulary * width, DType::kBF16, true);
  weight(vocabulary * width, false);
  const int y = make(rows * width);
  const int picked = make(rows * width, DType::kBF16, true);
  ops().push_back({.kind = WorkKind::kLookup,
                   .name = "embedding",
                   .reads = {picked},
                   .writes = {y},
                   .elements = rows * width});
  on_backward([this, table, y, rows, width] {
    if (run_.task == Task::kLora) return;
    const int cleared = make(of(table).elements, DType::kBF16, true);
    pointwise("embedding", {}, {cleared});
    const int added = make(rows * width, DType::kF32, true);
    ops().push_back({.kind = WorkKind::kLookup,
                     .name = "embedding",
                     .reads = {gradient(y)},
                     .writes = {added},
                     .elements = rows * width});
  });
  return y;
}

// The scan in chunks: products inside a chunk, as causal attention has them, and the states between
// chunks. Each token meets half of its chunk on average, so that a product over the width n costs
// chunk * n FLOPs: C times B transposed once for each group of heads, over the state, and its
// result times X for each head. States are made from the tokens, and read by them, in 2 * inner *
// state each. Source: Dao and Gu 2024 (arXiv 2405.21060), section 6; the backward pass computes
// each product twice.
int WorkBuilder::scan(int x, const StateSpace& shape, double batch, double tokens, double heads) {
  const double inner = heads * static_cast<double>(shape.head_dim);
  const double state = static_cast<double>(shape.state);
  const double chunk = static_cast<double>(shape.chunk);
  const double groups =
      static_cast<double>(shape.groups) * heads / static_cast<double>(shape.heads);
  const double flops = batch * tokens * (chunk * (groups * state + inner) + 4.0 * inner * state);
  const int y = make(batch * tokens * inner);
  const int states = make(batch * tokens / chunk * inner * state, DType::kF32);
  ops().push_back({.kind = WorkKind::kScan,
                   .name = "scan",
                   .reads = {x},
                   .writes = {y, states},
                   .flops = flops});
  on_backward([this, x, y, states, flops] {
    const int dx = make(of(x).elements);
    const int d_states = make(of(states).elements, DType::kF32);
    ops().push_back({.kind = WorkKind::kScan,
                     .name = "scan",
                     .reads = {gradient(y), x, states},
                     .writes = {dx, d_states},
                     .flops = 2.0 * flops});
    add_gradient(x, dx);
  });
  return y;
}

void WorkBuilder::collective(std::string_view name, Collective kind, WorkGroup group, int from,
                             int to, double full_bytes, bool beside) {
  ops().push_back({.kind = WorkKind::kCollective,
                   .name = name,
                   .reads = {from},
                   .writes = {to},
                   .collective = kind,
                   .group = group,
                   .full_bytes = full_bytes,
                   .beside = beside});
}

void WorkBuilder::move(std::string_view name, Collective forward, Collective backward,
                       WorkGroup group, int x, int y, double forward_bytes, double backward_bytes,
                       bool beside) {
  collective(name, forward, group, x, y, forward_bytes, beside);
  on_backward([this, name, backward, group, x, y, backward_bytes, beside] {
    const int dx = make(of(x).elements);
    collective(name, backward, group, gradient(y), dx, backward_bytes, beside);
    add_gradient(x, dx);
  });
}

int WorkBuilder::gather(int x, WorkGroup group, double ranks, bool beside) {
  if (ranks <= 1) return x;
  const int y = make(of(x).elements * ranks);
  if (run_.execution == Execution::kLibrary) gathered_[y] = {x, group, ranks};
  move("all_gather", Collective::kAllGather, Collective::kReduceScatter, group, x, y, of(y).bytes(),
       of(y).bytes(), beside);
  return y;
}

int WorkBuilder::scatter(int x, WorkGroup group, double ranks, bool beside) {
  if (ranks <= 1) return x;
  const int y = make(of(x).elements / ranks);
  move("reduce_scatter", Collective::kReduceScatter, Collective::kAllGather, group, x, y,
       of(x).bytes(), of(x).bytes(), beside);
  return y;
}

int WorkBuilder::exchange(int x, WorkGroup group, double elements) {
  const int y = make(elements);
  const double bytes = std::max(of(x).bytes(), of(y).bytes());
  move("all_to_all", Collective::kAllToAll, Collective::kAllToAll, group, x, y, bytes, bytes,
       false);
  return y;
}

int WorkBuilder::ring(int x, double bytes) {
  const int y = make(of(x).elements);
  // The backward pass sends keys and values, and their gradients too.
  move("send_recv", Collective::kSendRecv, Collective::kSendRecv, WorkGroup::kContext, x, y, bytes,
       2 * bytes, true);
  return y;
}

// In eager mode the loss is a cast of the logits to f32, a log_softmax, and a mean that reads one
// element of each row. The backward pass runs the gradient of log_softmax and the cast back. The
// fused kernel reads the bf16 logits and overwrites them with their gradient.
void WorkBuilder::loss(int logits, double rows, double vocabulary) {
  const double elements = rows * vocabulary;
  if (run_.fused_loss || run_.execution == Execution::kLibrary) {
    const int scale = make(rows, DType::kF32);
    reduction("loss", {logits}, {scale}, elements, vocabulary);
    on_backward([this, logits, scale, elements] {
      const int d = make(elements);
      pointwise("loss", {logits, scale}, {d});
      add_gradient(logits, d);
    });
    return;
  }
  work_.held.push_back(logits);  // by the variable that the forward pass returns them in
  const int wide = make(elements, DType::kF32);
  pointwise("loss", {logits}, {wide});
  const int probabilities = make(elements, DType::kF32);
  const int picked = make(rows, DType::kF32);
  reduction("loss", {wide}, {probabilities, picked}, elements, vocabulary);
  const int mean = make(1, DType::kF32);
  reduction("loss", {picked}, {mean}, rows, rows);
  on_backward([this, logits, probabilities, elements, vocabulary] {
    const int cleared = make(elements, DType::kF32);
    pointwise("loss", {}, {cleared});
    const int d_wide = make(elements, DType::kF32);
    reduction("loss", {cleared, probabilities}, {d_wide}, elements, vocabulary);
    const int d = make(elements);
    pointwise("loss", {d_wide}, {d});
    add_gradient(logits, d);
  });
}

void WorkBuilder::finish(int output) {
  work_.output = output;
  in_backward_ = true;
  if (output >= 0) add_gradient(output, make(of(output).elements));
  for (auto step = tape_.rbegin(); step != tape_.rend(); ++step) (*step)();
  tape_.clear();
}

}  // namespace shardlab
