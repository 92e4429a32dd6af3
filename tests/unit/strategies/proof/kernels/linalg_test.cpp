// Kernels of linear algebra: which rows are exchanged, what happens to matrices that are not
// square, singular or not positive-definite. The expected values follow by hand.
#include <gtest/gtest.h>

#include <numbers>

#include "tests/support/kernel_values.h"

namespace shardlab {
namespace linalg_test {

using testing_support::expect_first_output;
using testing_support::expect_outputs;
using testing_support::expect_refused;
using testing_support::KernelCall;
using testing_support::KernelCase;
using testing_support::kInf;
using testing_support::kNan;

const auto kNameOf = [](const auto& test) { return test.param.name; };

class LinalgKernel : public testing::TestWithParam<KernelCase> {};
TEST_P(LinalgKernel, ComputesWhatPyTorchDoes) { expect_outputs(GetParam(), 1e-14); }

INSTANTIATE_TEST_SUITE_P(
    All, LinalgKernel,
    testing::Values(KernelCase{"LuFactorExchangesRowsForTheLargestPivot",
                               "aten.linalg_lu_factor_ex.default",
                               {{"f64[2,2]", {1, 2, 3, 4}}},
                               "[]",
                               {{3, 4, 1.0 / 3, 2.0 / 3}, {2, 2}, {0}}},
                    KernelCase{"LuFactorTakesTheFirstOfEqualPivots",
                               "aten.linalg_lu_factor_ex.default",
                               {{"f64[3,1]", {-2, 2, 1}}},
                               "[]",
                               {{-2, -1, -0.5}, {1}, {0}}},
                    KernelCase{"LuFactorOfAWideSingularMatrixReportsTheFirstZeroPivot",
                               "aten.linalg_lu_factor_ex.default",
                               {{"f64[2,3]", {0, 2, 1, 0, 4, 3}}},
                               "[]",
                               {{0, 2, 1, 0, 4, 3}, {1, 2}, {1}}},
                    KernelCase{
                        "LuOfATallMatrixHasARowExchange",
                        "aten.linalg_lu.default",
                        {{"f64[3,2]", {1, 2, 4, 4, 2, 1}}},
                        "[]",
                        {{0, 1, 0, 1, 0, 0, 0, 0, 1}, {1, 0, 0.25, 1, 0.5, -1}, {4, 4, 0, 1}}},
                    KernelCase{"LuOfThreeExchangesIsAPermutation",
                               "aten.linalg_lu.default",
                               {{"f64[3,3]", {0, 0, 1, 2, 0, 0, 0, 3, 0}}},
                               "[]",
                               {{0, 0, 1, 1, 0, 0, 0, 1, 0},
                                {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                {2, 0, 0, 0, 3, 0, 0, 0, 1}}},
                    KernelCase{"DetCountsTheRowExchanges",
                               "aten._linalg_det.default",
                               {{"f64[2,2,2]", {0, 1, 1, 0, 2, 0, 0, 3}}},
                               "[]",
                               {{-1, 6}, {1, 0, 0, 1, 2, 0, 0, 3}, {2, 2, 1, 2}}},
                    KernelCase{"DetOfAMatrixWithoutElementsIsOne",
                               "aten._linalg_det.default",
                               {{"f64[1,0,0]", {}}},
                               "[]",
                               {{1}, {}, {}}},
                    KernelCase{"SlogdetOfASingularMatrixIsMinusInfinity",
                               "aten._linalg_slogdet.default",
                               {{"f64[1,1]", {0}}},
                               "[]",
                               {{0}, {-kInf}, {0}, {1}}},
                    KernelCase{"SolveFromTheRight",
                               "aten._linalg_solve_ex.default",
                               {{"f64[2,2]", {2, 0, 1, 4}}, {"f64[1,2]", {4, 8}}},
                               "[false]",
                               {{1, 2}, {2, 0, 0.5, 4}, {1, 2}, {0}}},
                    KernelCase{"InverseExchangesRowsBack",
                               "aten.linalg_inv_ex.default",
                               {{"f64[2,2]", {0, 2, 4, 0}}},
                               "[]",
                               {{0, 0.25, 0.5, 0}, {0}}},
                    KernelCase{"TriangularSolveLeavesTheUnitDiagonalOut",
                               "aten.linalg_solve_triangular.default",
                               {{"f64[2,2]", {7, 0, 3, 7}}, {"f64[2,1]", {1, 5}}},
                               "[false, true, true]",
                               {{1, 2}}},
                    KernelCase{"TriangularSolveOfTheTransposedMatrix",
                               "aten.triangular_solve.default",
                               {{"f64[2,1]", {2, 9}}, {"f64[2,2]", {2, 1, 9, 4}}},
                               "[true, true]",
                               {{1, 2}, {2, 1, 9, 4}}},
                    KernelCase{"CholeskyReadsTheLowerTriangle",
                               "aten.cholesky.default",
                               {{"f64[2,2]", {4, 9, 2, 5}}},
                               "[]",
                               {{2, 0, 1, 2}}},
                    KernelCase{"UpperCholeskyReadsTheUpperTriangle",
                               "aten.linalg_cholesky_ex.default",
                               {{"f64[2,2]", {4, 2, 9, 5}}},
                               "[true]",
                               {{2, 1, 0, 2}, {0}}},
                    KernelCase{"CholeskyInverseIsThatOfTheProduct",
                               "aten.cholesky_inverse.default",
                               {{"f64[2,2]", {2, 0, 0, 4}}},
                               "[]",
                               {{0.25, 0, 0, 0.0625}}},
                    KernelCase{"CholeskySolveByTheUpperFactor",
                               "aten.cholesky_solve.default",
                               {{"f64[2,1]", {6, 9}}, {"f64[2,2]", {2, 1, 0, 2}}},
                               "[true]",
                               {{0.75, 1.5}}},
                    KernelCase{"MatrixExpOfADiagonalMatrix",
                               "aten.linalg_matrix_exp.default",
                               {{"f64[2,2]", {1, 0, 0, 0}}},
                               "[]",
                               {{std::numbers::e, 0, 0, 1}}},
                    KernelCase{"MatrixExpOfANilpotentMatrix",
                               "aten.linalg_matrix_exp.default",
                               {{"f64[2,2]", {0, 8, 0, 0}}},
                               "[]",
                               {{1, 8, 0, 1}}}),
    kNameOf);

class LinalgShape : public testing::TestWithParam<KernelCall> {};
TEST_P(LinalgShape, IsThatOfTheMatricesInAnEmptyBatch) { expect_first_output(GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    All, LinalgShape,
    testing::Values(
        KernelCall{"Lu", "aten.linalg_lu.default", {{"f64[0,3,2]"}}, "[]", "f64[0,3,3]"},
        KernelCall{"Solve",
                   "aten._linalg_solve_ex.default",
                   {{"f64[0,2,2]"}, {"f64[0,2,5]"}},
                   "[]",
                   "f64[0,2,5]"}),
    kNameOf);

class LinalgRefusal : public testing::TestWithParam<KernelCall> {};
TEST_P(LinalgRefusal, SaysWhatTheOpTakes) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    All, LinalgRefusal,
    testing::Values(KernelCall{"CholeskyOfANegativeNumber",
                               "aten.cholesky.default",
                               {{"f64[1,1]", {-1}}},
                               "[]",
                               "a matrix is not positive-definite"},
                    KernelCall{"CholeskyOfNan",
                               "aten.cholesky.default",
                               {{"f64[2,2]", {1, 0, kNan, 1}}},
                               "[]",
                               "a matrix is not positive-definite"},
                    KernelCall{"DetOfARectangle",
                               "aten._linalg_det.default",
                               {{"f64[1,2]", {1, 2}}},
                               "[]",
                               "found a matrix of 1 x 2; valid: square matrices"},
                    KernelCall{"SolveWithTooFewRows",
                               "aten._linalg_solve_ex.default",
                               {{"f64[2,2]", {1, 0, 0, 1}}, {"f64[1,2]", {1, 2}}},
                               "[]",
                               "found 1 rows on the right-hand side; valid: 2"},
                    KernelCall{"SolveOnTheRightWithTooFewColumns",
                               "aten._linalg_solve_ex.default",
                               {{"f64[2,2]", {1, 0, 0, 1}}, {"f64[2,1]", {1, 2}}},
                               "[false]",
                               "found 1 columns on the right-hand side; valid: 2"},
                    KernelCall{"MatricesOfAnotherBatch",
                               "aten._linalg_solve_ex.default",
                               {{"f64[1,1,1]", {1}}, {"f64[2,1,1]", {1, 2}}},
                               "[]",
                               "found f64[1,1,1] and f64[2,1,1]; valid: matrices of one batch"},
                    KernelCall{"DetOfAVector",
                               "aten._linalg_det.default",
                               {{"f64[1]", {1}}},
                               "[]",
                               "found f64[1]; valid: a matrix"}),
    kNameOf);

}  // namespace linalg_test
}  // namespace shardlab
