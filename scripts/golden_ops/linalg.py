"""Linear algebra on batches of matrices."""

from golden_ops import SIZES

SMALL = [1, 2, 3, 4, 5]


def matrices(rng, base, overload):
    batch = [rng.choice(SIZES[:12]) for _ in range(rng.choice([0, 1, 1, 2]))]
    n, c = rng.choice(SMALL), rng.choice([1, 4, 8, 16])
    square, columns = ("f32", [*batch, n, n]), ("f32", [*batch, n, c])
    if base == "linalg_cross":
        shape = [*batch, n]
        dim = rng.randrange(len(shape))
        shape[dim] = 3
        return [shape, shape], [dim - len(shape) if rng.random() < 0.3 else dim]
    if base in ("cholesky_solve", "triangular_solve"):
        return [columns, square], []
    if base in ("_linalg_solve_ex", "linalg_solve_triangular"):
        return [square, columns], [True] if base == "linalg_solve_triangular" else []
    return [columns if base.startswith("linalg_lu") else square], []


OPS = {name: (1, matrices) for name in (
    "_linalg_det", "_linalg_slogdet", "_linalg_solve_ex", "cholesky", "cholesky_inverse",
    "cholesky_solve", "linalg_cholesky_ex", "linalg_cross", "linalg_inv_ex", "linalg_lu",
    "linalg_lu_factor_ex", "linalg_matrix_exp", "linalg_solve_triangular", "triangular_solve")}
