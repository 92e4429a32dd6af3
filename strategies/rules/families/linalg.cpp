// Linear algebra. The last two dims are matrices, which are not sharded; the dims before them are a
// batch. Solutions are linear in the right-hand side. svd, qr and eigh are missing, since PyTorch's
// rules name only one of their outputs, and so is eig, whose results are complex. Source: PyTorch
// 2.13.0, _ops/_math_ops.py (linalg_batch_dim_strategy, linalg_cross_strategy).
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace linalg_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

// The dims of each tensor after the batch, as letters: "nn,nc" is a square matrix and a matrix with
// as many rows. k is the smaller of m and n. # marks tensors of i32.
struct Matrices {
  std::string_view op;
  std::string_view inputs;
  std::string_view outputs;
  // The operations of an m x n matrix are for_matrix times m n min(m, n), and those of c right-hand
  // sides for_column times n^2 c. An LU factorisation takes 2/3, Cholesky's 1/3, an inverse 2 (from
  // a factorisation 2/3), a triangular solve 1. Source: Golub, Van Loan, "Matrix Computations", 4th
  // edition, chapters 3 and 4. The exponential takes the five products of PyTorch's Taylor
  // polynomial of degree 18. Status: assumed; matrices of small norm take fewer, those of large
  // norm more.
  double for_matrix = 0.0;
  double for_column = 0.0;
  int linear = -1;  // the input that the first output is linear in
};
constexpr double kLu = 2.0 / 3.0;
constexpr double kCholesky = 1.0 / 3.0;
constexpr std::array<Matrices, 13> kMatrices = {{
    {"aten._linalg_det.default", "nn", ",nn,n#", kLu},
    {"aten._linalg_slogdet.default", "nn", ",,nn,n#", kLu},
    {"aten._linalg_solve_ex.default", "nn,rc", "rc,nn,n#,#", kLu, 2.0, 1},
    {"aten.cholesky.default", "nn", "nn", kCholesky},
    {"aten.cholesky_inverse.default", "nn", "nn", 2.0 / 3.0},
    {"aten.cholesky_solve.default", "rc,nn", "rc", 0.0, 2.0, 0},
    {"aten.linalg_cholesky_ex.default", "nn", "nn,#", kCholesky},
    {"aten.linalg_inv_ex.default", "nn", "nn,#", 2.0},
    {"aten.linalg_lu.default", "mn", "mm,mk,kn", kLu},
    {"aten.linalg_lu_factor_ex.default", "mn", "mn,k#,#", kLu},
    {"aten.linalg_matrix_exp.default", "nn", "nn", 10.0},
    {"aten.linalg_solve_triangular.default", "nn,rc", "rc", 0.0, 1.0, 1},
    {"aten.triangular_solve.default", "rc,nn", "rc,nn", 0.0, 1.0, 0},
}};

const Matrices& matrices_of(const OpCall& call) {
  for (const Matrices& each : kMatrices) {
    if (each.op == call.op) return each;
  }
  SHARDLAB_CHECK(false, "no matrices are listed for ", call.op);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Whether the op solves A X = B, where the columns of B are independent of each other, and not X A
// = B.
bool is_left(const OpCall& call) {
  if (call.op == "aten.linalg_solve_triangular.default") return call.boolean_arg(1, true);
  if (call.op == "aten._linalg_solve_ex.default") return call.boolean_arg(0, true);
  return true;
}

std::string texts_of_tensors(const OpCall& call) {
  std::vector<std::string> texts;
  for (const TensorSpec* tensor : call.tensors()) texts.push_back(tensor->meta.text());
  return join(texts);
}

std::vector<TensorMeta> outputs(const OpCall& call) {
  const Matrices& matrices = matrices_of(call);
  const std::vector<std::string> inputs = split(matrices.inputs);
  expect_tensors(call, inputs.size());
  const auto tensors = call.tensors();
  std::map<char, std::int64_t> extents;
  const auto letters = [](const std::string& part) {
    return part.ends_with('#') ? part.substr(0, part.size() - 1) : part;
  };
  const std::size_t first = letters(inputs[0]).size();
  Shape batch = tensors[0]->meta.shape;
  bool fits = batch.size() >= first;
  if (fits) batch.resize(batch.size() - first);
  for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
    const Shape& shape = tensors[i]->meta.shape;
    const std::string own = letters(inputs[i]);
    fits = shape.size() == batch.size() + own.size() &&
           std::equal(batch.begin(), batch.end(), shape.begin());
    for (std::size_t d = 0; fits && d < own.size(); ++d) {
      const auto [extent, is_new] = extents.emplace(own[d], shape[batch.size() + d]);
      fits = is_new || extent->second == shape[batch.size() + d];
    }
    if (i == 0 && fits && extents.contains('m')) {
      extents['k'] = std::min(extents['m'], extents['n']);
    }
    if (fits && !inputs[i].ends_with('#')) {
      fits = is_floating_point(tensors[i]->meta.dtype) &&
             tensors[i]->meta.dtype == tensors[0]->meta.dtype;
    }
  }
  if (!fits) {
    std::string valid;
    for (const std::string& part : inputs) {
      valid += valid.empty() ? "[..." : ", [...";
      for (const char letter : letters(part)) valid += std::string(",") + letter;
      valid += "]";
    }
    throw InputError(call.op + ": found " + texts_of_tensors(call) +
                     "; valid: floating point tensors of one dtype and one batch, " + valid);
  }
  const char solved = is_left(call) ? 'r' : 'c';
  if (extents.contains(solved) && extents.at(solved) != extents.at('n')) {
    throw InputError(call.op + ": found " + texts_of_tensors(call) + "; valid: as many " +
                     (is_left(call) ? "rows" : "columns") + " in one matrix as in the other");
  }
  std::vector<TensorMeta> result;
  for (const std::string& part : split(matrices.outputs)) {
    TensorMeta& meta = result.emplace_back();
    meta.dtype = part.ends_with('#') ? DType::kI32 : tensors[0]->meta.dtype;
    meta.shape = batch;
    for (const char letter : letters(part)) meta.shape.push_back(extents.at(letter));
    if (meta.bytes() > kMaxTensorBytes) {  // such as the square factor of a flat matrix
      throw InputError(call.op + ": a result would be " + meta.text() +
                       "; valid: tensors of at most 2^53 bytes");
    }
  }
  return result;
}

Rows batch_rows(const OpCall& call, const OpRule& rule) {
  const Matrices& matrices = matrices_of(call);
  const std::size_t results = split(matrices.outputs).size();
  const std::size_t tensors = results + call.tensors().size();
  const int ndim = call.tensors()[0]->meta.ndim();
  Rows rows;
  for (int d = 0; d < ndim - 2; ++d) {
    rows.push_back(rows::all_alike(tensors, RowEntry::any_shard(d)));
  }
  if (matrices.linear < 0) return rows;
  const auto alone = [&](const RowEntry& entry) {
    Row row(tensors, kR);
    row[0] = row[results + static_cast<std::size_t>(matrices.linear)] = entry;
    rows.push_back(row);
  };
  if (rule.sets.contains(kShardlab)) {
    alone(kSum);
    alone(kAvg);
    alone(RowEntry::any_shard(is_left(call) ? ndim - 1 : ndim - 2));
  } else if (call.op == "aten.linalg_solve_triangular.default") {
    alone(kSum);
    alone(kAvg);
    for (int d = 0; d < ndim - 2; ++d) alone(RowEntry::any_shard(d));
  } else if (call.op != "aten.triangular_solve.default") {
    alone(kSum);
  }
  return rows;
}

std::string_view excuse_one_element(const OpCall& call, const Row&) {
  const bool one = call.tensors()[0]->meta.shape.back() == 1;
  return one ? "the Cholesky factor of a 1 x 1 matrix is a square root, which is monotone" : "";
}

// Arguments: linalg_cross(self, other, dim).
int cross_dim(const OpCall& call) {
  expect_tensors(call, 2);
  return dim_of(call, 0, -1, call.required_tensor(0).meta.ndim());
}

std::vector<TensorMeta> cross_outputs(const OpCall& call) {
  const int dim = cross_dim(call);
  const TensorMeta& self = call.required_tensor(0).meta;
  const TensorMeta& other = call.required_tensor(1).meta;
  if (self.shape != other.shape || self.shape[to_index(dim)] != 3) {
    throw InputError(call.op + ": found " + self.text() + " and " + other.text() +
                     "; valid: tensors of one shape with 3 elements in dim " + std::to_string(dim));
  }
  return {TensorMeta{.dtype = self.dtype, .shape = self.shape, .strides = {}}};
}

Rows cross_rows(const OpCall& call, const OpRule& rule) {
  const int dim = cross_dim(call);
  Rows rows;
  for (int d = 0; d < call.required_tensor(0).meta.ndim(); ++d) {
    if (d != dim) rows.push_back(rows::all_alike(3, RowEntry::any_shard(d)));
  }
  if (!rule.sets.contains(kShardlab)) return rows;
  for (const Placement& partial : {kSum, kAvg}) {
    rows.push_back({partial, partial, kR});
    rows.push_back({partial, kR, partial});
  }
  return rows;
}

// The operations that one rank computes. The rules cut batch dims alone, so that each rank has
// whole matrices and whole right-hand sides.
double operations(std::span<const Shape> local, const OpCall& call) {
  const Matrices& matrices = matrices_of(call);
  const std::size_t matrix = matrices.inputs.starts_with("rc") ? 1 : 0;
  const Shape& shape = call.required_tensor(matrix).meta.shape;
  const auto m = static_cast<double>(shape[shape.size() - 2]);
  const auto n = static_cast<double>(shape.back());
  double each = matrices.for_matrix * std::min(m, n);
  if (matrices.for_column > 0.0) {
    each += matrices.for_column *
            static_cast<double>(call.required_tensor(1 - matrix).meta.shape.back());
  }
  return element_count(local[matrix]) * each;
}

constexpr OpRule ruled(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = outputs,
          .rows = batch_rows,
          .uneven_in = rows::kSinceRows,
          .flops = operations};
}
constexpr OpRule factor(std::string_view op) {
  OpRule rule = ruled(op, kDTensor | kShardlab);
  rule.excuse = excuse_one_element;
  return rule;
}

constexpr RuleSets kBoth = kDTensor | kShardlab;

constexpr OpRule kRules[] = {
    ruled("aten._linalg_det.default", kBoth),
    ruled("aten._linalg_slogdet.default", kBoth),
    ruled("aten._linalg_solve_ex.default", kDTensor),
    ruled("aten._linalg_solve_ex.default", kShardlab),
    factor("aten.cholesky.default").in(rows::kBeforeRows | kShardlab),  // PyTorch 2.14 removed it
    ruled("aten.cholesky_inverse.default", kBoth),
    ruled("aten.cholesky_solve.default", kDTensor),
    ruled("aten.cholesky_solve.default", kShardlab),
    factor("aten.linalg_cholesky_ex.default"),
    {.op = "aten.linalg_cross.default",
     .sets = kDTensor,
     .outputs = cross_outputs,
     .rows = cross_rows,
     .uneven_in = rows::kSinceRows},
    {.op = "aten.linalg_cross.default",
     .sets = kShardlab,
     .outputs = cross_outputs,
     .rows = cross_rows,
     .uneven_in = rows::kSinceRows},
    ruled("aten.linalg_inv_ex.default", kBoth),
    ruled("aten.linalg_lu.default", kBoth),
    ruled("aten.linalg_lu_factor_ex.default", kBoth),
    ruled("aten.linalg_matrix_exp.default", kBoth),
    ruled("aten.linalg_solve_triangular.default", kDTensor),
    ruled("aten.linalg_solve_triangular.default", kShardlab),
    ruled("aten.triangular_solve.default", kDTensor),
    ruled("aten.triangular_solve.default", kShardlab),
};

}  // namespace linalg_rules

OP_RULES(linalg){linalg_rules::kRules};

}  // namespace shardlab
