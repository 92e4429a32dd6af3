#include "costmodel/measurements/profiled_operator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/kernel_work.h"

namespace shardlab {
namespace {

using Names = std::span<const std::string_view>;

// Pointwise operators whose output has the dtype of their inputs.
constexpr std::array<std::string_view, 59> kPointwise = {"abs",
                                                         "add",
                                                         "addcdiv",
                                                         "addcmul",
                                                         "bitwise_and",
                                                         "bitwise_not",
                                                         "bitwise_or",
                                                         "ceil",
                                                         "clamp",
                                                         "clamp_max",
                                                         "clamp_min",
                                                         "cos",
                                                         "div",
                                                         "elu",
                                                         "erf",
                                                         "exp",
                                                         "exp2",
                                                         "floor",
                                                         "fmod",
                                                         "gelu",
                                                         "gelu_backward",
                                                         "hardswish",
                                                         "hardtanh",
                                                         "leaky_relu",
                                                         "lerp",
                                                         "log",
                                                         "log1p",
                                                         "log2",
                                                         "masked_fill",
                                                         "maximum",
                                                         "minimum",
                                                         "mish",
                                                         "mul",
                                                         "neg",
                                                         "pow",
                                                         "reciprocal",
                                                         "relu",
                                                         "remainder",
                                                         "round",
                                                         "rsqrt",
                                                         "rsub",
                                                         "sgn",
                                                         "sigmoid",
                                                         "sigmoid_backward",
                                                         "sign",
                                                         "silu",
                                                         "silu_backward",
                                                         "sin",
                                                         "softplus",
                                                         "softplus_backward",
                                                         "sqrt",
                                                         "square",
                                                         "sub",
                                                         "tan",
                                                         "tanh",
                                                         "tanh_backward",
                                                         "threshold_backward",
                                                         "trunc",
                                                         "where"};
// Pointwise operators whose output is of booleans.
constexpr std::array<std::string_view, 13> kComparisons = {
    "eq", "ge",          "gt",          "isfinite",   "isinf",       "isnan", "le",
    "lt", "logical_and", "logical_not", "logical_or", "logical_xor", "ne"};
// Reductions with an output as large as their first input, and how many of their inputs are read.
constexpr std::array<std::pair<std::string_view, std::size_t>, 11> kNorms = {
    {{"_fused_rms_norm", 3},
     {"_fused_rms_norm_backward", 2},
     {"_log_softmax", 1},
     {"_log_softmax_backward_data", 2},
     {"_softmax", 1},
     {"_softmax_backward_data", 2},
     {"cumsum", 1},
     {"native_group_norm", 3},
     {"native_group_norm_backward", 2},
     {"native_layer_norm", 4},
     {"native_layer_norm_backward", 2}}};
// Reductions with an output that is small beside their input.
constexpr std::array<std::string_view, 15> kSums = {
    "all", "amax",   "amin", "any",  "argmax", "argmin", "linalg_vector_norm", "max", "mean",
    "min", "nansum", "norm", "prod", "sum",    "var"};

bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double extent_of(std::span<const std::int64_t> dims) {
  double product = 1.0;
  for (const std::int64_t dim : dims) product *= static_cast<double>(dim);
  return product;
}

double written_bytes(const ProfiledTensor& tensor) {
  return extent_of(tensor.dims) * itemsize(tensor.dtype);
}

// The bytes of a tensor that a kernel reads. A dim of stride 0 repeats the same elements, so they
// are read once.
double read_bytes(const ProfiledTensor& tensor) {
  if (tensor.strides.size() != tensor.dims.size()) return written_bytes(tensor);
  double product = itemsize(tensor.dtype);
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] == 0) return 0.0;
    if (tensor.strides[i] != 0) product *= static_cast<double>(tensor.dims[i]);
  }
  return product;
}

// The argument if it is a tensor.
const ProfiledTensor* tensor_at(const ProfiledOperator& op, std::size_t index) {
  if (index >= op.arguments.size() || !op.arguments[index].tensor) return nullptr;
  return &*op.arguments[index].tensor;
}

double bytes_read(const ProfiledOperator& op, std::size_t first, std::size_t end) {
  double bytes = 0.0;
  for (std::size_t i = first; i < std::min(end, op.arguments.size()); ++i) {
    if (const ProfiledTensor* tensor = tensor_at(op, i)) bytes += read_bytes(*tensor);
  }
  return bytes;
}
double bytes_read(const ProfiledOperator& op) { return bytes_read(op, 0, op.arguments.size()); }

bool is_true(const ProfiledOperator& op, std::size_t index) {
  return index < op.arguments.size() && op.arguments[index].value == "True";
}

// The integer at an argument; `absent` where there is none.
std::int64_t integer_at(const ProfiledOperator& op, std::size_t index, std::int64_t absent) {
  if (index >= op.arguments.size()) return absent;
  const std::string& text = op.arguments[index].value;
  std::int64_t value = absent;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : absent;
}

// A row whose matrix is the tensor: its last dim are the columns.
MeasuredKernel row_of(std::string_view kernel, const ProfiledTensor& tensor) {
  MeasuredKernel row;
  row.kernel = kernel;
  row.dtype = to_string(tensor.dtype);
  const double elements = extent_of(tensor.dims);
  row.columns = tensor.dims.empty() ? 1 : tensor.dims.back();
  if (row.columns > 0) row.rows = static_cast<std::int64_t>(elements) / row.columns;
  return row;
}

// -- Products

// The kernels of cuBLAS and CUTLASS that round f32 to TF32 say so, or name the instruction, whose
// tile is 16 x 8 x 8.
bool is_tf32(std::string_view launched) {
  return launched.find("tf32") != std::string_view::npos ||
         launched.find("s1688") != std::string_view::npos;
}

// Adds how far apart the rows of a tensor, and the matrices of a batch, lie in memory.
void add_row_lengths(std::vector<double>& lengths, const ProfiledTensor& tensor) {
  for (std::size_t d = 0; d < tensor.strides.size(); ++d) {
    const bool is_apart = tensor.dims[d] > 1 && tensor.strides[d] > 1;
    if (is_apart) lengths.push_back(static_cast<double>(tensor.strides[d]));
  }
}

// The product of arguments `first` and `first` + 1, to which those before are added.
std::optional<MeasuredKernel> gemm(const ProfiledOperator& op, std::size_t first,
                                   std::string_view launched) {
  const ProfiledTensor* a = tensor_at(op, first);
  const ProfiledTensor* b = tensor_at(op, first + 1);
  if (a == nullptr || b == nullptr || a->dims.size() != b->dims.size()) return std::nullopt;
  const std::size_t rank = a->dims.size();
  if (rank != 2 && rank != 3) return std::nullopt;
  const bool is_batched = rank == 3;
  MeasuredKernel row;
  row.kernel = "gemm";
  row.dtype = to_string(a->dtype);
  if (a->dtype == DType::kF32 && is_tf32(launched)) row.dtype = "tf32";
  row.batch = is_batched ? a->dims[0] : 1;
  row.rows = a->dims[rank - 2];
  row.columns = b->dims[rank - 1];
  row.inner = a->dims[rank - 1];
  if (row.inner != b->dims[rank - 2] || row.batch < 1) return std::nullopt;
  if (!a->strides.empty() && !b->strides.empty()) {
    // A result of one row has no distance between rows.
    std::vector<double> lengths = {row.batch * row.rows > 1 ? static_cast<double>(row.columns)
                                                            : 1.0};
    add_row_lengths(lengths, *a);
    add_row_lengths(lengths, *b);
    row.row_multiple = static_cast<std::int64_t>(row_multiple(lengths));
  }
  row.flops = gemm_flops({.batch = static_cast<double>(row.batch),
                          .m = static_cast<double>(row.rows),
                          .n = static_cast<double>(row.columns),
                          .k = static_cast<double>(row.inner)});
  // A product of 8-bit floats has an output of 16 bits, unless out_dtype says otherwise, which the
  // profiler records as a number.
  const double out = std::max(2, itemsize(a->dtype));
  row.bytes = bytes_read(op, 0, first + 2) + out * static_cast<double>(row.batch) *
                                                 static_cast<double>(row.rows) *
                                                 static_cast<double>(row.columns);
  return row;
}

// -- Attention

// Where the arguments of an operator of attention are.
struct AttentionOperator {
  std::string_view name;
  AttentionKernel kernel;
  bool backward;
  std::size_t query;    // index of the queries; keys and values follow
  std::size_t heads;    // dim of the heads
  std::size_t lengths;  // index of the offsets, if sequences have several lengths
  std::size_t causal;   // index of is_causal or custom_mask_type
  std::size_t window;   // index of window_size_left; 0: there is none
};
constexpr std::array<AttentionOperator, 8> kAttention = {{
    {"_flash_attention_forward", AttentionKernel::kFlash, false, 0, 2, 3, 8, 11},
    {"_flash_attention_backward", AttentionKernel::kFlash, true, 1, 2, 6, 11, 15},
    {"_efficient_attention_forward", AttentionKernel::kEfficient, false, 0, 2, 4, 9, 0},
    {"_efficient_attention_backward", AttentionKernel::kEfficient, true, 1, 2, 6, 14, 0},
    {"_cudnn_attention_forward", AttentionKernel::kCudnn, false, 0, 1, 4, 10, 0},
    {"_cudnn_attention_backward", AttentionKernel::kCudnn, true, 1, 1, 9, 14, 0},
    {"_scaled_dot_product_cudnn_attention", AttentionKernel::kCudnn, false, 0, 1, 0, 6, 0},
    {"_scaled_dot_product_cudnn_attention_backward", AttentionKernel::kCudnn, true, 1, 1, 9, 14, 0},
}};

std::optional<MeasuredKernel> attention(const ProfiledOperator& op, const AttentionOperator& at) {
  const ProfiledTensor* query = tensor_at(op, at.query);
  const ProfiledTensor* key = tensor_at(op, at.query + 1);
  const ProfiledTensor* value = tensor_at(op, at.query + 2);
  if (query == nullptr || key == nullptr || value == nullptr) return std::nullopt;
  for (const ProfiledTensor* tensor : {query, key, value}) {
    if (tensor->dims.size() != 4) return std::nullopt;
  }
  // Sequences of several lengths in one batch: the offsets are tensors, and their values unknown.
  // The backward operator of cuDNN is given empty ones.
  if (at.lengths > 0) {
    const ProfiledTensor* lengths = tensor_at(op, at.lengths);
    if (lengths != nullptr && !lengths->dims.empty() && extent_of(lengths->dims) > 0) {
      return std::nullopt;
    }
  }
  const std::size_t length = at.heads == 1 ? 2 : 1;
  const auto extent = [](const ProfiledTensor& tensor, std::size_t dim) {
    return static_cast<double>(tensor.dims[dim]);
  };
  AttentionShape shape{.batch = extent(*query, 0),
                       .heads = extent(*query, at.heads),
                       .kv_heads = extent(*key, at.heads),
                       .queries = extent(*query, length),
                       .keys = extent(*key, length),
                       .key_dim = extent(*key, 3),
                       .value_dim = extent(*value, 3),
                       .causal = is_true(op, at.causal) || integer_at(op, at.causal, 0) > 0,
                       .backward = at.backward,
                       .kernel = at.kernel};
  if (at.window > 0) {
    const std::int64_t left = integer_at(op, at.window, -1);
    if (left >= 0 && left < kMaxExtent) shape.window = static_cast<double>(left) + 1.0;
  }
  for (const double size : {shape.batch, shape.heads, shape.kv_heads, shape.queries, shape.keys,
                            shape.key_dim, shape.value_dim}) {
    if (size < 1.0) return std::nullopt;
  }
  MeasuredKernel row;
  row.kernel = "attention";
  row.dtype = to_string(query->dtype);
  row.attention = shape;
  AttentionShape unmasked = shape;
  unmasked.causal = false;
  unmasked.window = 0.0;
  row.flops = attention_flops(unmasked);
  const double output =
      shape.batch * shape.heads * shape.queries * shape.value_dim * itemsize(query->dtype);
  const double inputs = written_bytes(*query) + written_bytes(*key) + written_bytes(*value);
  // Backward, the gradients of both are read or written as well.
  row.bytes = (shape.backward ? 2.0 : 1.0) * (inputs + output);
  return row;
}

// -- Memory traffic

// How many elements at the end of both tensors stand beside each other in both.
std::int64_t shared_piece(const ProfiledTensor& a, const ProfiledTensor& b) {
  std::int64_t piece = 1;
  for (std::size_t i = a.dims.size(); i-- > 0;) {
    if (a.dims[i] == 1) continue;
    if (a.strides[i] != piece || b.strides[i] != piece) break;
    piece *= a.dims[i];
  }
  return piece;
}

bool is_same_order(const ProfiledTensor& a, const ProfiledTensor& b) {
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

std::optional<MeasuredKernel> copy(const ProfiledOperator& op) {
  const ProfiledTensor* to = tensor_at(op, 0);
  const ProfiledTensor* from = tensor_at(op, 1);
  if (to == nullptr || from == nullptr) return std::nullopt;
  const bool have_strides = to->dims == from->dims && to->strides.size() == to->dims.size() &&
                            from->strides.size() == from->dims.size();
  MeasuredKernel row = row_of("copy", *to);
  if (to->dtype != from->dtype) {
    row.kernel = "elementwise";
  } else if (have_strides && !is_same_order(*to, *from)) {
    row.kernel = "reshuffle";
    row.inner = std::min(row.columns, shared_piece(*to, *from));
  }
  row.bytes = read_bytes(*from) + written_bytes(*to);
  return row;
}

// The output of a pointwise operator: the dims that all inputs broadcast to, and the dtype that
// they are promoted to. A tensor without dims does not decide the dtype beside one with dims.
std::optional<ProfiledTensor> broadcast_output(const ProfiledOperator& op) {
  ProfiledTensor out;
  bool has_tensor = false;
  const auto weight = [](const ProfiledTensor& tensor) {
    return std::tuple(!tensor.dims.empty(), is_floating_point(tensor.dtype),
                      itemsize(tensor.dtype));
  };
  std::tuple<bool, bool, int> best;
  for (const ProfiledArgument& argument : op.arguments) {
    if (!argument.tensor) continue;
    const ProfiledTensor& tensor = *argument.tensor;
    // An operator is given an empty tensor for the output that it is to allocate.
    if (extent_of(tensor.dims) == 0.0) continue;
    if (!has_tensor || weight(tensor) > best) {
      best = weight(tensor);
      out.dtype = tensor.dtype;
    }
    has_tensor = true;
    if (tensor.dims.size() > out.dims.size()) {
      out.dims.insert(out.dims.begin(), tensor.dims.size() - out.dims.size(), 1);
    }
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
      std::int64_t& dim = out.dims[out.dims.size() - tensor.dims.size() + i];
      if (dim != tensor.dims[i] && dim != 1 && tensor.dims[i] != 1) return std::nullopt;
      if (dim == 1) dim = tensor.dims[i];
    }
  }
  if (!has_tensor || extent_of(out.dims) > kMaxBytes) return std::nullopt;
  return out;
}

std::optional<MeasuredKernel> pointwise(const ProfiledOperator& op, bool is_comparison) {
  std::optional<ProfiledTensor> out = broadcast_output(op);
  if (!out) return std::nullopt;
  MeasuredKernel row = row_of("elementwise", *out);
  if (is_comparison) out->dtype = DType::kB8;
  row.bytes = bytes_read(op) + written_bytes(*out);
  return row;
}

// An operator that writes its first argument; whether it also reads it.
std::optional<MeasuredKernel> in_place(const ProfiledOperator& op, bool reads_it) {
  const ProfiledTensor* to = tensor_at(op, 0);
  if (to == nullptr) return std::nullopt;
  MeasuredKernel row = row_of("elementwise", *to);
  row.bytes = bytes_read(op, reads_it ? 0 : 1, op.arguments.size()) + written_bytes(*to);
  return row;
}

std::optional<MeasuredKernel> reduction(const ProfiledOperator& op, std::size_t reads,
                                        bool has_large_output) {
  const ProfiledTensor* from = tensor_at(op, 0);
  if (from == nullptr) return std::nullopt;
  MeasuredKernel row = row_of("reduction", *from);
  row.bytes = bytes_read(op, 0, reads) + (has_large_output ? written_bytes(*from) : 0.0);
  // A softmax of 16 bits may write f32 (half_to_float).
  if (op.name.ends_with("softmax") && is_true(op, 2)) {
    row.bytes += extent_of(from->dims) * (itemsize(DType::kF32) - itemsize(from->dtype));
  }
  return row;
}

// The kernels that TorchInductor writes. The profiler records their outputs among the arguments.
std::optional<MeasuredKernel> of_inductor(const ProfiledOperator& op) {
  const std::string_view name = op.name;
  const bool is_pointwise = name.starts_with("triton_poi_");
  if (!is_pointwise && !name.starts_with("triton_red_") && !name.starts_with("triton_per_")) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const ProfiledTensor* tensor = tensor_at(op, i);
    if (tensor == nullptr) continue;
    MeasuredKernel row = row_of(is_pointwise ? "elementwise" : "reduction", *tensor);
    row.bytes = bytes_read(op);
    return row;
  }
  return std::nullopt;
}

std::optional<MeasuredKernel> of_aten(const ProfiledOperator& op, std::string_view name,
                                      std::string_view launched) {
  if (name == "mm" || name == "bmm" || name == "_scaled_mm") return gemm(op, 0, launched);
  if (name == "addmm" || name == "baddbmm" || name == "_addmm_activation") {
    return gemm(op, 1, launched);
  }
  for (const AttentionOperator& at : kAttention) {
    if (name == at.name) return attention(op, at);
  }
  if (name == "copy_") return copy(op);
  if (name == "fill_" || name == "zero_") return in_place(op, false);
  if (name.ends_with('_') && is_one_of(name.substr(0, name.size() - 1), kPointwise)) {
    return in_place(op, true);
  }
  if (is_one_of(name, kPointwise)) return pointwise(op, false);
  if (is_one_of(name, kComparisons)) return pointwise(op, true);
  for (const auto& [norm, reads] : kNorms) {
    if (name == norm) return reduction(op, reads, true);
  }
  if (is_one_of(name, kSums)) return reduction(op, 1, false);
  return std::nullopt;
}

}  // namespace

std::optional<MeasuredKernel> kernel_of(const ProfiledOperator& op, std::string_view launched) {
  constexpr std::string_view kAten = "aten::";
  const std::string_view name = op.name;
  std::optional<MeasuredKernel> row =
      name.starts_with(kAten) ? of_aten(op, name.substr(kAten.size()), launched) : of_inductor(op);
  if (!row || !(row->bytes >= 1.0 && row->bytes <= kMaxBytes)) return std::nullopt;
  if (row->rows > kMaxExtent || row->flops > kMaxFlops) return std::nullopt;
  if ((row->kernel == "gemm" || row->attention) && row->flops <= 0.0) return std::nullopt;
  if (row->dtype != "tf32" && !dtype_from_name(row->dtype)) return std::nullopt;
  return row;
}

}  // namespace shardlab
