// Samples of linear algebra. Cholesky factors are taken of 1 x 1 matrices whose element is
// positive, since these are positive-definite.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace linalg_samples {

constexpr OpSample kSamples[] = {
    {"aten._linalg_det.default", "f32[6,2,2]"},
    {"aten._linalg_det.default", "f32[5,3,3]"},
    {"aten._linalg_slogdet.default", "f32[6,2,2]"},
    {"aten._linalg_solve_ex.default", "f32[6,2,2] | f32[6,2,6]"},
    {"aten._linalg_solve_ex.default", "f32[6,2,2] | f32[6,6,2]", "[false]"},
    {"aten.cholesky.default", "f32[6,1,1] positive"},
    {"aten.cholesky_inverse.default", "f32[6,2,2] positive"},
    {"aten.cholesky_solve.default", "f32[6,2,6] | f32[6,2,2] positive"},
    {"aten.linalg_cholesky_ex.default", "f32[5,1,1] positive"},
    {"aten.linalg_cross.default", "f32[6,3] | f32[6,3]"},
    {"aten.linalg_cross.default", "f32[3,5] | f32[3,5]", "[0]"},
    {"aten.linalg_inv_ex.default", "f32[6,2,2]"},
    {"aten.linalg_lu.default", "f32[6,3,2]"},
    {"aten.linalg_lu_factor_ex.default", "f32[6,2,3]"},
    {"aten.linalg_matrix_exp.default", "f32[6,2,2] unit"},
    {"aten.linalg_solve_triangular.default", "f32[6,2,2] positive | f32[6,2,6]", "[true]"},
    {"aten.linalg_solve_triangular.default", "f32[6,2,2] positive | f32[6,6,2]", "[false, false]"},
    {"aten.triangular_solve.default", "f32[6,2,6] | f32[6,2,2] positive"},
};

}  // namespace linalg_samples

OP_SAMPLES(linalg){linalg_samples::kSamples};

}  // namespace shardlab
