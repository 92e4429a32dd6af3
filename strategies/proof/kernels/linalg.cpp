// Kernels of linear algebra: factors, determinants and solutions, computed for each matrix of a
// batch by itself. Semantics: PyTorch 2.13.0, torch.linalg.
#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace linalg_kernels {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The factors of a matrix: L below the diagonal (with ones on it), and U from the diagonal on. Row
// i was exchanged with row pivots[i].
//
// The elimination is written out because PyTorch also factors matrices that are not square, which
// Eigen::PartialPivLU does not take. The pivots are LAPACK's, as PyTorch's are: the first of the
// largest magnitude.
struct Factors {
  Matrix lu;
  std::vector<Index> pivots;

  static Factors of(Matrix a) {
    Factors f{std::move(a), {}};
    Matrix& lu = f.lu;
    for (Index s = 0; s < std::min(lu.rows(), lu.cols()); ++s) {
      const Index below = lu.rows() - s - 1;
      const Index right = lu.cols() - s - 1;
      Index largest = 0;
      lu.col(s).tail(below + 1).cwiseAbs().maxCoeff(&largest);
      f.pivots.push_back(s + largest);
      lu.row(s).swap(lu.row(f.pivots.back()));
      if (lu(s, s) == 0.0) continue;
      lu.col(s).tail(below) /= lu(s, s);
      lu.bottomRightCorner(below, right).noalias() -= lu.col(s).tail(below) * lu.row(s).tail(right);
    }
    return f;
  }
  // The permutation P with L U = P A.
  [[nodiscard]] Eigen::PermutationMatrix<Eigen::Dynamic> permutation() const {
    Eigen::PermutationMatrix<Eigen::Dynamic> p(lu.rows());
    p.setIdentity();
    for (Index i = 0; i < std::ssize(pivots); ++i) {
      p.applyTranspositionOnTheLeft(i, pivots[to_index(i)]);
    }
    return p;
  }
  [[nodiscard]] double sign() const {
    double sign = 1.0;
    for (Index i = 0; i < std::ssize(pivots); ++i) {
      if (pivots[to_index(i)] != i) sign = -sign;
    }
    return sign;
  }
  // The position of the first zero on the diagonal, counted from 1; 0 if there is none.
  [[nodiscard]] double info() const {
    for (Index i = 0; i < std::ssize(pivots); ++i) {
      if (lu(i, i) == 0.0) return static_cast<double>(i + 1);
    }
    return 0.0;
  }
};

// Solves T X = B for triangular T, column by column. Eigen rounds a column differently when it
// solves several at once, and a rank that holds some of the columns has to compute what the judge
// computes.
template <unsigned kMode>
Matrix solve_triangle(const Matrix& t, Matrix b) {
  for (Index c = 0; c < b.cols(); ++c) {
    auto column = b.col(c);
    t.triangularView<kMode>().solveInPlace(column);
  }
  return b;
}
Matrix solve_triangular(const Matrix& t, const Matrix& b, bool upper, bool unit) {
  if (upper) {
    return unit ? solve_triangle<Eigen::UnitUpper>(t, b) : solve_triangle<Eigen::Upper>(t, b);
  }
  return unit ? solve_triangle<Eigen::UnitLower>(t, b) : solve_triangle<Eigen::Lower>(t, b);
}

Matrix solve(const Factors& factors, const Matrix& b) {
  const Matrix exchanged = factors.permutation() * b;
  return solve_triangular(factors.lu, solve_triangular(factors.lu, exchanged, false, true), true,
                          false);
}

// Returns the L with L L' = A, from the lower triangle of A; nothing where A is not
// positive-definite.
std::optional<Matrix> cholesky(const Matrix& a) {
  const Eigen::LLT<Matrix> factors(a);
  Matrix l = factors.matrixL();
  // Eigen does not report NaN.
  const bool positive = factors.info() == Eigen::Success && (l.diagonal().array() > 0.0).all();
  return positive ? std::optional(std::move(l)) : std::nullopt;
}

// What one matrix of the batch adds to one output.
struct Part {
  Shape shape;  // without the batch dims
  std::vector<double> values;
  bool integer = false;
};
Part part(const Matrix& matrix) {
  return {{matrix.rows(), matrix.cols()}, {matrix.data(), matrix.data() + matrix.size()}};
}
Part number(double value, bool integer = false) { return {{}, {value}, integer}; }
Part pivots_part(const Factors& factors) {
  Part result{{std::ssize(factors.pivots)}, {}, true};
  for (const Index pivot : factors.pivots) {
    result.values.push_back(static_cast<double>(pivot + 1));
  }
  return result;
}

void expect_room_for_matrix(const LocalCall& local, Index rows, Index columns) {
  if (rows == 0 || columns == 0) return;
  expect_room(local.call.op, saturating_product(rows, columns), local.memory);
}

// Calls work(matrices) for every place in the batch, with the matrices that the operands have
// there. It returns a Part for each output. An output's shape is that of the batch, then that of
// its parts.
template <class Work>
LocalResult by_matrix(const LocalCall& local, std::size_t operands, Work&& work) {
  expect_inputs(local, operands, operands);
  Shape batch = local.inputs[0].shape();
  if (batch.size() < 2) {
    throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) +
                     "; valid: a matrix, or a batch of matrices");
  }
  batch.resize(batch.size() - 2);
  const std::int64_t count = elements_of(batch);
  expect_room(local.call.op, count, local.memory);
  std::vector<std::vector<double>> values;
  for (const HostTensor& input : local.inputs) {
    const bool fits = input.shape().size() == batch.size() + 2 &&
                      std::equal(batch.begin(), batch.end(), input.shape().begin());
    if (!fits) {
      throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) + " and " +
                       tensor_text(input) + "; valid: matrices of one batch");
    }
    values.push_back(as_doubles(input));
    // The tensor of an empty batch has no elements, however large its matrices are.
    expect_room_for_matrix(local, input.extent(input.ndim() - 2), input.extent(input.ndim() - 1));
  }
  std::vector<Part> outputs;
  // In an empty batch, a matrix of zeros shows the shapes of the parts.
  for (std::int64_t b = 0; b < std::max<std::int64_t>(count, 1); ++b) {
    std::vector<Matrix> matrices;
    for (std::size_t i = 0; i < operands; ++i) {
      const HostTensor& input = local.inputs[i];
      Matrix matrix = Matrix::Zero(input.extent(input.ndim() - 2), input.extent(input.ndim() - 1));
      if (count > 0)
        std::copy_n(values[i].begin() + matrix.size() * b, matrix.size(), matrix.data());
      matrices.push_back(std::move(matrix));
    }
    std::vector<Part> parts = work(matrices);
    for (std::size_t o = 0; o < parts.size(); ++o) {
      if (b == 0) {
        outputs.push_back(std::move(parts[o]));
      } else {
        outputs[o].values.insert(outputs[o].values.end(), parts[o].values.begin(),
                                 parts[o].values.end());
      }
    }
  }
  LocalResult result;
  for (Part& output : outputs) {
    Shape shape = batch;
    shape.insert(shape.end(), output.shape.begin(), output.shape.end());
    if (count == 0) output.values.clear();
    const DType dtype = output.integer ? DType::kI32 : local.inputs[0].dtype();
    result.outputs.push_back(from_doubles(local.memory, dtype, shape, output.values));
  }
  return result;
}

using Matrices = std::vector<Matrix>;

void expect_square(const LocalCall& local, const Matrix& a) {
  if (a.rows() == a.cols()) return;
  throw InputError(local.call.op + ": found a matrix of " + std::to_string(a.rows()) + " x " +
                   std::to_string(a.cols()) + "; valid: square matrices");
}
// `rows` says what the rows of b are in the tensor that the op takes.
void expect_rows(const LocalCall& local, const Matrix& a, const Matrix& b,
                 std::string_view rows = "rows") {
  expect_square(local, a);
  if (a.rows() == b.rows()) return;
  throw InputError(local.call.op + ": found " + std::to_string(b.rows()) + " " + std::string(rows) +
                   " on the right-hand side; valid: " + std::to_string(a.rows()) +
                   ", as many as the square matrix has");
}

LocalResult run_det(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    return {number(factors.sign() * factors.lu.diagonal().prod()), part(factors.lu),
            pivots_part(factors)};
  });
}

LocalResult run_slogdet(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    double sign = factors.sign();
    double log = 0.0;
    for (const double x : factors.lu.diagonal()) {
      sign *= x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
      log += std::log(std::abs(x));
    }
    return {number(sign), number(log), part(factors.lu), pivots_part(factors)};
  });
}

// Finds X with A X = B or, where A stands on the right, with X A = B. In that case solve_left
// solves A' X' = B'.
template <class Solve>
Matrix solved(const LocalCall& local, const Matrix& a, const Matrix& b, bool left,
              Solve&& solve_left) {
  const Matrix right = left ? b : b.transpose();
  expect_rows(local, a, right, left ? "rows" : "columns");
  const Matrix x = solve_left(right);
  return left ? x : x.transpose();
}

// Arguments: _linalg_solve_ex(A, B, left).
LocalResult run_solve(const LocalCall& local, const OpKernel&) {
  const bool left = local.call.boolean_arg(0, true);
  return by_matrix(local, 2, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    const Factors used = left ? factors : Factors::of(in[0].transpose());
    const Matrix x =
        solved(local, in[0], in[1], left, [&](const Matrix& b) { return solve(used, b); });
    return {part(x), part(factors.lu), pivots_part(factors), number(factors.info(), true)};
  });
}

LocalResult run_inverse(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    return {part(solve(factors, Matrix::Identity(in[0].rows(), in[0].rows()))),
            number(factors.info(), true)};
  });
}

LocalResult run_lu_factor(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    const Factors factors = Factors::of(in[0]);
    return {part(factors.lu), pivots_part(factors), number(factors.info(), true)};
  });
}

// Returns P, L and U with A = P L U.
LocalResult run_lu(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_room_for_matrix(local, in[0].rows(), in[0].rows());
    const Factors factors = Factors::of(in[0]);
    const Index rank = std::ssize(factors.pivots);
    const Matrix p = factors.permutation().transpose().toDenseMatrix().cast<double>();
    const Matrix l = factors.lu.leftCols(rank).triangularView<Eigen::UnitLower>();
    const Matrix u = factors.lu.topRows(rank).triangularView<Eigen::Upper>();
    return {part(p), part(l), part(u)};
  });
}

// Arguments: linalg_solve_triangular(A, B, upper, left, unitriangular).
LocalResult run_solve_triangular(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  const bool left = local.call.boolean_arg(1, true);
  const bool unit = local.call.boolean_arg(2, false);
  return by_matrix(local, 2, [&](const Matrices& in) -> std::vector<Part> {
    const Matrix a = left ? in[0] : in[0].transpose();
    return {part(solved(local, a, in[1], left, [&](const Matrix& b) {
      return solve_triangular(a, b, upper == left, unit);
    }))};
  });
}

// Arguments: triangular_solve(B, A, upper, transpose, unitriangular). Returns the solution, and A
// again.
LocalResult run_triangular_solve(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, true);
  const bool transpose = local.call.boolean_arg(1, false);
  const bool unit = local.call.boolean_arg(2, false);
  return by_matrix(local, 2, [&](const Matrices& in) -> std::vector<Part> {
    expect_rows(local, in[1], in[0]);
    const Matrix a = transpose ? in[1].transpose() : in[1];
    return {part(solve_triangular(a, in[0], upper != transpose, unit)), part(in[1])};
  });
}

Matrix factor_of(const LocalCall& local, const Matrix& a, bool upper) {
  expect_square(local, a);
  if (local.inputs[0].elements() == 0) return a;
  const std::optional<Matrix> l = cholesky(upper ? a.transpose() : a);
  if (!l) throw InputError(local.call.op + ": a matrix is not positive-definite");
  return upper ? l->transpose() : *l;
}

LocalResult run_cholesky(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  const bool reports = local.call.op.find("_ex") != std::string::npos;
  return by_matrix(local, 1, [&](const Matrices& in) {
    std::vector<Part> parts = {part(factor_of(local, in[0], upper))};
    if (reports) parts.push_back(number(0.0, true));
    return parts;
  });
}

// Finds X with (L L') X = B.
Matrix solve_factored(const Matrix& factor, const Matrix& b, bool upper) {
  const Matrix l = upper ? factor.transpose() : factor;
  return solve_triangular(l.transpose(), solve_triangular(l, b, false, false), true, false);
}

// Arguments: cholesky_inverse(L, upper).
LocalResult run_cholesky_inverse(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    return {part(solve_factored(in[0], Matrix::Identity(in[0].rows(), in[0].rows()), upper))};
  });
}

// Arguments: cholesky_solve(B, L, upper).
LocalResult run_cholesky_solve(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  return by_matrix(local, 2, [&](const Matrices& in) -> std::vector<Part> {
    expect_rows(local, in[1], in[0]);
    return {part(solve_factored(in[1], in[0], upper))};
  });
}

// Halves the matrix until it is small, sums its exponential series, and squares the sum as often as
// it halved. PyTorch sums a series as well; Eigen's exp() is in its unsupported modules.
LocalResult run_matrix_exp(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, 1, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    double largest = 0.0;
    for (const double x : in[0].reshaped()) largest = std::max(largest, std::abs(x));
    int halvings = 0;
    for (double norm = largest * static_cast<double>(in[0].rows()); norm > 0.5 && halvings < 60;
         norm /= 2) {
      ++halvings;
    }
    const Matrix a = in[0] * std::ldexp(1.0, -halvings);
    Matrix sum = Matrix::Identity(a.rows(), a.rows());
    Matrix term = sum;
    for (int k = 1; k <= 20; ++k) {
      term = term * a / k;
      sum += term;
    }
    for (int i = 0; i < halvings; ++i) sum = sum * sum;
    return {part(sum)};
  });
}

// Arguments: linalg_cross(self, other, dim).
LocalResult run_cross(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const HostTensor& self = local.inputs[0];
  const int dim = dim_of(local.call, 0, -1, self.ndim());
  if (self.shape() != local.inputs[1].shape() || self.extent(dim) != 3) {
    throw InputError(
        local.call.op + ": found " + tensor_text(self) + " and " + tensor_text(local.inputs[1]) +
        "; valid: tensors of one shape, with an extent of 3 in dim " + std::to_string(dim));
  }
  const std::vector<double> a = as_doubles(self);
  const std::vector<double> b = as_doubles(local.inputs[1]);
  const Shape strides = row_major_strides(self.shape());
  std::vector<double> out = filled(local, self.shape());
  for_each_element(self.shape(), [&](const Shape& index, std::int64_t i) {
    const std::int64_t axis = index[to_index(dim)];
    const auto along = [&](std::int64_t other) {
      return to_index(i + (other - axis) * strides[to_index(dim)]);
    };
    const std::size_t next = along((axis + 1) % 3);
    const std::size_t last = along((axis + 2) % 3);
    out[to_index(i)] = a[next] * b[last] - a[last] * b[next];
  });
  return {{from_doubles(local.memory, self.dtype(), self.shape(), out)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_linalg_det", .run = run_det},
    {.name = "_linalg_slogdet", .run = run_slogdet},
    {.name = "_linalg_solve_ex", .run = run_solve},
    {.name = "cholesky", .run = run_cholesky},
    {.name = "cholesky_inverse", .run = run_cholesky_inverse},
    {.name = "cholesky_solve", .run = run_cholesky_solve},
    {.name = "linalg_cholesky_ex", .run = run_cholesky},
    {.name = "linalg_cross", .run = run_cross},
    {.name = "linalg_inv_ex", .run = run_inverse},
    {.name = "linalg_lu", .run = run_lu},
    {.name = "linalg_lu_factor_ex", .run = run_lu_factor},
    {.name = "linalg_matrix_exp", .run = run_matrix_exp},
    {.name = "linalg_solve_triangular", .run = run_solve_triangular},
    {.name = "triangular_solve", .run = run_triangular_solve},
};

}  // namespace linalg_kernels

OP_KERNELS(linalg){linalg_kernels::kKernels};

}  // namespace shardlab
