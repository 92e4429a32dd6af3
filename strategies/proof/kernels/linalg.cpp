// Kernels of linear algebra on small matrices: elimination with row exchanges, Cholesky factors.
// Each matrix of a batch alone. Semantics: PyTorch 2.13.0, torch.linalg.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values = {};

  static Matrix zero(std::int64_t rows, std::int64_t columns) {
    return {rows, columns, std::vector<double>(to_index(rows * columns), 0.0)};
  }
  static Matrix identity(std::int64_t n) {
    Matrix matrix = zero(n, n);
    for (std::int64_t i = 0; i < n; ++i) matrix(i, i) = 1.0;
    return matrix;
  }
  double& operator()(std::int64_t i, std::int64_t j) { return values[to_index(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return values[to_index(i * columns + j)];
  }
  [[nodiscard]] Matrix transposed() const {
    Matrix result = zero(columns, rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) result(j, i) = (*this)(i, j);
    }
    return result;
  }
};

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c = Matrix::zero(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.columns; ++j) {
      for (std::int64_t k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

// L below the diagonal (ones on it), U from the diagonal; row i was exchanged with pivots[i].
struct Factors {
  Matrix lu;
  std::vector<std::int64_t> pivots;

  static Factors of(Matrix a) {
    Factors f{std::move(a), {}};
    const std::int64_t steps = std::min(f.lu.rows, f.lu.columns);
    for (std::int64_t s = 0; s < steps; ++s) {
      std::int64_t best = s;
      for (std::int64_t i = s + 1; i < f.lu.rows; ++i) {
        if (std::abs(f.lu(i, s)) > std::abs(f.lu(best, s))) best = i;
      }
      f.pivots.push_back(best);
      for (std::int64_t j = 0; j < f.lu.columns; ++j) std::swap(f.lu(s, j), f.lu(best, j));
      if (f.lu(s, s) == 0.0) continue;
      for (std::int64_t i = s + 1; i < f.lu.rows; ++i) {
        f.lu(i, s) /= f.lu(s, s);
        for (std::int64_t j = s + 1; j < f.lu.columns; ++j) f.lu(i, j) -= f.lu(i, s) * f.lu(s, j);
      }
    }
    return f;
  }
  [[nodiscard]] double sign() const {
    double sign = 1.0;
    for (std::size_t i = 0; i < pivots.size(); ++i) {
      if (pivots[i] != static_cast<std::int64_t>(i)) sign = -sign;
    }
    return sign;
  }
  // The first zero on the diagonal, counted from 1; 0 where there is none.
  [[nodiscard]] double info() const {
    for (std::int64_t i = 0; i < std::ssize(pivots); ++i) {
      if (lu(i, i) == 0.0) return static_cast<double>(i + 1);
    }
    return 0.0;
  }
};

// Solves T X = B for triangular T.
Matrix solve_triangular(const Matrix& t, Matrix b, bool upper, bool unit) {
  for (std::int64_t k = 0; k < t.rows; ++k) {
    const std::int64_t i = upper ? t.rows - 1 - k : k;
    for (std::int64_t c = 0; c < b.columns; ++c) {
      for (std::int64_t j = upper ? i + 1 : 0; j < (upper ? t.rows : i); ++j) {
        b(i, c) -= t(i, j) * b(j, c);
      }
      if (!unit) b(i, c) /= t(i, i);
    }
  }
  return b;
}

Matrix solve(const Factors& factors, Matrix b) {
  for (std::int64_t i = 0; i < std::ssize(factors.pivots); ++i) {
    for (std::int64_t c = 0; c < b.columns; ++c) {
      std::swap(b(i, c), b(factors.pivots[to_index(i)], c));
    }
  }
  return solve_triangular(factors.lu, solve_triangular(factors.lu, std::move(b), false, true), true,
                          false);
}

// L with L L' = A, of the lower triangle. Throws InputError where there is none.
std::optional<Matrix> cholesky(const Matrix& a) {
  Matrix l = Matrix::zero(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      if (i == j && !(rest > 0.0)) return std::nullopt;
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  }
  return l;
}

// One matrix after another: `work` makes the outputs' values from the inputs' matrices (a vector is
// a column). The outputs' matrix dims are those of what it makes.
struct Part {
  Shape shape;  // without the batch
  std::vector<double> values;
  bool integer = false;
};
Part part(const Matrix& matrix) { return {{matrix.rows, matrix.columns}, matrix.values}; }
Part number(double value, bool integer = false) { return {{}, {value}, integer}; }
Part pivots_part(const Factors& factors) {
  Part result{{std::ssize(factors.pivots)}, {}, true};
  for (const std::int64_t pivot : factors.pivots) {
    result.values.push_back(static_cast<double>(pivot + 1));
  }
  return result;
}

void expect_room_for_matrix(const LocalCall& local, std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return;
  expect_room(local.call.op, saturating_product(rows, columns), local.memory);
}

template <class Work>
LocalResult by_matrix(const LocalCall& local, std::span<const int> matrix_dims, Work&& work) {
  expect_inputs(local, matrix_dims.size(), matrix_dims.size());
  Shape batch = local.inputs[0].shape();
  const auto first = to_index(matrix_dims[0]);
  if (batch.size() < first) throw InputError(local.call.op + ": takes matrices");
  batch.resize(batch.size() - first);
  std::int64_t count = 1;
  for (const std::int64_t extent : batch) count *= extent;
  std::vector<std::vector<double>> values;
  std::vector<Matrix> shapes;
  for (std::size_t i = 0; i < matrix_dims.size(); ++i) {
    const HostTensor& input = local.inputs[i];
    const auto own = to_index(matrix_dims[i]);
    const bool fits = input.shape().size() == batch.size() + own &&
                      std::equal(batch.begin(), batch.end(), input.shape().begin());
    if (!fits) throw InputError(local.call.op + ": takes matrices of one batch");
    values.push_back(as_doubles(input));
    shapes.push_back({input.shape()[batch.size()], own == 2 ? input.shape().back() : 1, {}});
    // Of an empty batch too, which has no elements itself.
    expect_room_for_matrix(local, shapes[i].rows, shapes[i].columns);
  }
  std::vector<Part> outputs;
  // Of an empty batch a zero matrix says what the shapes would be.
  for (std::int64_t b = 0; b < std::max<std::int64_t>(count, 1); ++b) {
    std::vector<Matrix> matrices;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Matrix matrix = Matrix::zero(shapes[i].rows, shapes[i].columns);
      const std::size_t size = matrix.values.size();
      if (count > 0)
        std::copy_n(values[i].begin() + std::ssize(matrix.values) * b, size, matrix.values.begin());
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
constexpr std::array<int, 1> kOne = {2};
constexpr std::array<int, 2> kTwo = {2, 2};

void expect_square(const LocalCall& local, const Matrix& a) {
  if (a.rows != a.columns) throw InputError(local.call.op + ": takes square matrices");
}
void expect_rows(const LocalCall& local, const Matrix& a, const Matrix& b) {
  expect_square(local, a);
  if (a.rows != b.rows) throw InputError(local.call.op + ": takes as many rows as the matrix has");
}

LocalResult run_det(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    double det = factors.sign();
    for (std::int64_t i = 0; i < in[0].rows; ++i) det *= factors.lu(i, i);
    return {number(det), part(factors.lu), pivots_part(factors)};
  });
}

LocalResult run_slogdet(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    double sign = factors.sign();
    double log = 0.0;
    for (std::int64_t i = 0; i < in[0].rows; ++i) {
      const double x = factors.lu(i, i);
      sign *= x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
      log += std::log(std::abs(x));
    }
    return {number(sign), number(log), part(factors.lu), pivots_part(factors)};
  });
}

// A solution from the left, or of the transposed problem from the right.
template <class Solve>
Matrix solved(const LocalCall& local, const Matrix& a, const Matrix& b, bool left, Solve&& solve) {
  const Matrix right = left ? b : b.transposed();
  expect_rows(local, a, right);
  const Matrix x = solve(right);
  return left ? x : x.transposed();
}

// _linalg_solve_ex(A, B, left)
LocalResult run_solve(const LocalCall& local, const OpKernel&) {
  const bool left = local.call.boolean_arg(0, true);
  return by_matrix(local, kTwo, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    const Factors used = left ? factors : Factors::of(in[0].transposed());
    const Matrix x =
        solved(local, in[0], in[1], left, [&](const Matrix& b) { return solve(used, b); });
    return {part(x), part(factors.lu), pivots_part(factors), number(factors.info(), true)};
  });
}

LocalResult run_inverse(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    const Factors factors = Factors::of(in[0]);
    return {part(solve(factors, Matrix::identity(in[0].rows))), number(factors.info(), true)};
  });
}

LocalResult run_lu_factor(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    const Factors factors = Factors::of(in[0]);
    return {part(factors.lu), pivots_part(factors), number(factors.info(), true)};
  });
}

// P, L, U
std::vector<Part> unpacked(const Factors& factors) {
  const std::int64_t m = factors.lu.rows;
  const std::int64_t n = factors.lu.columns;
  const std::int64_t k = std::min(m, n);
  std::vector<std::int64_t> order(to_index(m));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < k; ++i)
    std::swap(order[to_index(i)], order[to_index(factors.pivots[to_index(i)])]);
  Matrix p = Matrix::zero(m, m);
  for (std::int64_t i = 0; i < m; ++i) p(order[to_index(i)], i) = 1.0;
  Matrix l = Matrix::zero(m, k);
  Matrix u = Matrix::zero(k, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (j < i && j < k) l(i, j) = factors.lu(i, j);
      if (j >= i && i < k) u(i, j) = factors.lu(i, j);
    }
    if (i < k) l(i, i) = 1.0;
  }
  return {part(p), part(l), part(u)};
}

LocalResult run_lu(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) {
    expect_room_for_matrix(local, in[0].rows, in[0].rows);
    return unpacked(Factors::of(in[0]));
  });
}

// linalg_solve_triangular(A, B, upper, left, unitriangular)
LocalResult run_solve_triangular(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  const bool left = local.call.boolean_arg(1, true);
  const bool unit = local.call.boolean_arg(2, false);
  return by_matrix(local, kTwo, [&](const Matrices& in) -> std::vector<Part> {
    const Matrix a = left ? in[0] : in[0].transposed();
    return {part(solved(local, a, in[1], left, [&](const Matrix& b) {
      return solve_triangular(a, b, upper == left, unit);
    }))};
  });
}

// triangular_solve(B, A, upper, transpose, unitriangular): the solution, and A again.
LocalResult run_triangular_solve(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, true);
  const bool transpose = local.call.boolean_arg(1, false);
  const bool unit = local.call.boolean_arg(2, false);
  return by_matrix(local, kTwo, [&](const Matrices& in) -> std::vector<Part> {
    expect_rows(local, in[1], in[0]);
    const Matrix a = transpose ? in[1].transposed() : in[1];
    return {part(solve_triangular(a, in[0], upper != transpose, unit)), part(in[1])};
  });
}

Matrix factor_of(const LocalCall& local, const Matrix& a, bool upper) {
  expect_square(local, a);
  if (local.inputs[0].elements() == 0) return a;
  const std::optional<Matrix> l = cholesky(upper ? a.transposed() : a);
  if (!l) throw InputError(local.call.op + ": a matrix is not positive-definite");
  return upper ? l->transposed() : *l;
}

LocalResult run_cholesky(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  const bool reports = local.call.op.find("_ex") != std::string::npos;
  return by_matrix(local, kOne, [&](const Matrices& in) {
    std::vector<Part> parts = {part(factor_of(local, in[0], upper))};
    if (reports) parts.push_back(number(0.0, true));
    return parts;
  });
}

// X with (L L') X = B
Matrix solve_factored(const Matrix& factor, const Matrix& b, bool upper) {
  const Matrix l = upper ? factor.transposed() : factor;
  return solve_triangular(l.transposed(), solve_triangular(l, b, false, false), true, false);
}

// cholesky_inverse(L, upper)
LocalResult run_cholesky_inverse(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    return {part(solve_factored(in[0], Matrix::identity(in[0].rows), upper))};
  });
}

// cholesky_solve(B, L, upper)
LocalResult run_cholesky_solve(const LocalCall& local, const OpKernel&) {
  const bool upper = local.call.boolean_arg(0, false);
  return by_matrix(local, kTwo, [&](const Matrices& in) -> std::vector<Part> {
    expect_rows(local, in[1], in[0]);
    return {part(solve_factored(in[1], in[0], upper))};
  });
}

// The series of a matrix halved until it is small, then squared as often.
LocalResult run_matrix_exp(const LocalCall& local, const OpKernel&) {
  return by_matrix(local, kOne, [&](const Matrices& in) -> std::vector<Part> {
    expect_square(local, in[0]);
    Matrix a = in[0];
    double most = 0.0;
    for (const double x : a.values) most = std::max(most, std::abs(x));
    int halvings = 0;
    for (double norm = most * static_cast<double>(a.rows); norm > 0.5 && halvings < 60; norm /= 2) {
      ++halvings;
    }
    for (double& x : a.values) x = std::ldexp(x, -halvings);
    Matrix sum = Matrix::identity(a.rows);
    Matrix term = sum;
    for (int k = 1; k <= 20; ++k) {
      term = term * a;
      for (double& x : term.values) x /= k;
      for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += term.values[i];
    }
    for (int i = 0; i < halvings; ++i) sum = sum * sum;
    return {part(sum)};
  });
}

// linalg_cross(self, other, dim)
LocalResult run_cross(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const HostTensor& self = local.inputs[0];
  const int dim = dim_of(local.call, 0, -1, self.ndim());
  if (self.shape() != local.inputs[1].shape() || self.extent(dim) != 3) {
    throw InputError(local.call.op + ": takes equal shapes with 3 in the dim");
  }
  const std::vector<double> a = as_doubles(self);
  const std::vector<double> b = as_doubles(local.inputs[1]);
  const Shape strides = row_major_strides(self.shape());
  std::vector<double> out = filled(local, self.shape());
  for_each_element(self.shape(), [&](const Shape& index, std::int64_t i) {
    const std::int64_t row = index[to_index(dim)];
    const auto place = [&](std::int64_t other) {
      return to_index(i + (other - row) * strides[to_index(dim)]);
    };
    const std::size_t next = place((row + 1) % 3);
    const std::size_t last = place((row + 2) % 3);
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

}  // namespace

OP_KERNELS(linalg){kKernels};

}  // namespace shardlab
