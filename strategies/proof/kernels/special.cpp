// Pointwise kernels of special functions, from the standard library and Boost.Math, with PyTorch's
// values at poles and outside of the domains (PyTorch 2.13.0, aten/src/ATen/native/Math.h).
//
// Three functions are our own because neither library has them: Hurwitz's zeta, the scaled erfc and
// the probabilists' Hermite polynomials. Their comments cite the formulas (DLMF, dlmf.nist.gov, by
// section).
#include <array>
#include <boost/math/special_functions/airy.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <boost/math/special_functions/chebyshev.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/hermite.hpp>
#include <boost/math/special_functions/laguerre.hpp>
#include <boost/math/special_functions/legendre.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/proof/pointwise_kernel.h"

namespace shardlab {
namespace special_kernels {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Makes Boost return NaN or infinity where it would throw, and compute in double precision only.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::pole_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>,
    boost::math::policies::rounding_error<boost::math::policies::ignore_error>,
    boost::math::policies::indeterminate_result_error<boost::math::policies::ignore_error>,
    boost::math::policies::promote_double<false>>;
constexpr Quiet kQuiet;

// -- Gamma and its relatives -----------------------------------------------------------------

double digamma(double x) {
  return x == 0.0 ? std::copysign(kInfinity, -x) : boost::math::digamma(x, kQuiet);
}

// Hurwitz's zeta function for s > 1, by Euler-Maclaurin summation (DLMF 25.11.28).
double zeta(double s, double q) {
  if (!(s > 1.0)) return s == 1.0 ? kInfinity : kNan;
  if (q <= 0.0 && q == std::floor(q)) return kInfinity;
  if (q < 0.0 && s != std::floor(s)) return kNan;
  constexpr std::array<double, 6> kBernoulli = {1.0 / 6,   -1.0 / 30, 1.0 / 42,
                                                -1.0 / 30, 5.0 / 66,  -691.0 / 2730};
  if (q < -1e6) throw InputError("zeta: found " + format_double(q) + "; valid: at least -1000000");
  double sum = 0.0;
  for (; q < 12.0; q += 1.0) sum += std::pow(q, -s);
  sum += std::pow(q, 1.0 - s) / (s - 1.0) + 0.5 * std::pow(q, -s);
  double term = s * std::pow(q, -s - 1.0) / 2.0;
  for (std::size_t k = 0; k < kBernoulli.size(); ++k) {
    sum += kBernoulli[k] * term;
    const auto n = static_cast<double>(2 * k + 1);
    term *= (s + n) * (s + n + 1.0) / ((n + 2.0) * (n + 3.0) * q * q);
  }
  return sum;
}

// PyTorch's formula, from which its values at the poles follow; Boost has none there.
double polygamma(double n, double x) {
  if (n == 0.0) return digamma(x);
  return (std::fmod(n, 2.0) == 0.0 ? -1.0 : 1.0) * std::tgamma(n + 1.0) * zeta(n + 1.0, x);
}

// The regularised incomplete gamma function: the integral up to x, or from x on. Boost refuses an
// `a` that is zero or infinite; PyTorch returns the limits.
double incomplete_gamma(double a, double x, bool upper) {
  if (!(a >= 0.0) || !(x >= 0.0) || (a == 0.0 && x == 0.0)) return kNan;
  if (std::isinf(a) && std::isinf(x)) return kNan;
  if (a == 0.0) return upper ? 0.0 : 1.0;
  if (std::isinf(a)) return upper ? 1.0 : 0.0;
  return upper ? boost::math::gamma_q(a, x, kQuiet) : boost::math::gamma_p(a, x, kQuiet);
}

double multivariate_lgamma(double x, double p) {
  double sum = p * (p - 1.0) / 4.0 * std::log(std::numbers::pi);
  for (double j = 0.0; j < p && j < 100.0; ++j) sum += std::lgamma(x - j / 2.0);
  return sum;
}

// -- The error function ----------------------------------------------------------------------

// exp(x * x) * erfc(x). Large x use the asymptotic series (DLMF 7.12.1), since exp overflows.
double scaled_erfc(double x) {
  if (x < 25.0) return std::exp(x * x) * std::erfc(x);
  const double y = 1.0 / (2.0 * x * x);
  return (1.0 - y * (1.0 - 3.0 * y * (1.0 - 5.0 * y))) / (x * std::sqrt(std::numbers::pi));
}

double log_normal_cdf(double x) {
  if (x > -5.0) return std::log(0.5 * std::erfc(-x / std::numbers::sqrt2));
  return std::log(scaled_erfc(-x / std::numbers::sqrt2) / 2.0) - 0.5 * x * x;
}

// -- Bessel and Airy functions ---------------------------------------------------------------

// Boost's Bessel functions assume that x is not NaN, so each of these functions handles NaN itself.
double bessel_j(int n, double x) {
  return std::isnan(x) ? x : boost::math::cyl_bessel_j(n, x, kQuiet);
}
double bessel_y(int n, double x) {
  if (x == 0.0) return -kInfinity;
  return x > 0.0 ? boost::math::cyl_neumann(n, x, kQuiet) : kNan;
}
double bessel_i(int n, double x) {
  return std::isnan(x) ? x : boost::math::cyl_bessel_i(n, x, kQuiet);
}
double bessel_k(int n, double x) {
  if (x == 0.0) return kInfinity;
  return x > 0.0 ? boost::math::cyl_bessel_k(n, x, kQuiet) : kNan;
}

double airy(double x) {
  if (!std::isfinite(x)) return kNan;
  if (x > 103.892) return 0.0;  // the result underflows
  return boost::math::airy_ai(x, kQuiet);
}

// -- Orthogonal polynomials ------------------------------------------------------------------

// p(n) for a recurrence that begins with p(0) = 1 and p(1): step(k, p(k), p(k - 1)) is p(k + 1).
// The recurrences are Boost's, but the loop is our own. PyTorch takes every x and cuts n down to an
// integer; Boost and std take x only from [-1, 1] for Legendre's polynomials, std takes x only from
// 0 on for Laguerre's, and Boost computes Chebyshev's second kind outside [-1, 1] by a formula that
// loses its digits near 1.
template <class Step>
double polynomial(double n, double first, Step&& step) {
  if (!(n >= 0.0)) return 0.0;
  if (n > 1000.0) return kNan;
  if (n < 1.0) return 1.0;
  double before = 1.0;
  double now = first;
  for (unsigned k = 1; k < static_cast<unsigned>(n); ++k) {
    const double next = step(k, now, before);
    before = now;
    now = next;
  }
  return now;
}

enum class ChebyshevKind { kT, kU, kV, kW };
double chebyshev(ChebyshevKind kind, double x, double n) {
  // All four kinds have one recurrence and differ in p(1).
  double first = x;
  if (kind == ChebyshevKind::kU) first = 2.0 * x;
  if (kind == ChebyshevKind::kV) first = 2.0 * x - 1.0;
  if (kind == ChebyshevKind::kW) first = 2.0 * x + 1.0;
  return polynomial(n, first, [x](unsigned, double now, double before) {
    return boost::math::chebyshev_next(x, now, before);
  });
}
double hermite(double x, double n) {
  return polynomial(n, 2.0 * x, [x](unsigned k, double now, double before) {
    return boost::math::hermite_next(k, x, now, before);
  });
}
double probabilists_hermite(double x, double n) {  // DLMF 18.9.1, table 18.9.1
  return polynomial(n, x,
                    [x](unsigned k, double now, double before) { return x * now - k * before; });
}
double laguerre(double x, double n) {
  return polynomial(n, 1.0 - x, [x](unsigned k, double now, double before) {
    return boost::math::laguerre_next(k, x, now, before);
  });
}
double legendre(double x, double n) {
  return polynomial(n, x, [x](unsigned k, double now, double before) {
    return boost::math::legendre_next(k, x, now, before);
  });
}

constexpr OpKernel kKernels[] = {
    floating_kernel("digamma", 1, [](Operands x) { return digamma(x[0]); }),
    floating_kernel("erf", 1, [](Operands x) { return std::erf(x[0]); }),
    floating_kernel("erfc", 1, [](Operands x) { return std::erfc(x[0]); }),
    floating_kernel("erfinv", 1, [](Operands x) { return boost::math::erf_inv(x[0], kQuiet); }),
    floating_kernel("i0", 1, [](Operands x) { return bessel_i(0, x[0]); }),
    floating_kernel("igamma", 2, [](Operands x) { return incomplete_gamma(x[0], x[1], false); }),
    floating_kernel("igammac", 2, [](Operands x) { return incomplete_gamma(x[0], x[1], true); }),
    floating_kernel("lgamma", 1, [](Operands x) { return std::lgamma(x[0]); }),
    floating_kernel("mvlgamma", 2, [](Operands x) { return multivariate_lgamma(x[0], x[1]); }),
    floating_kernel("polygamma", 2, [](Operands x) { return polygamma(x[0], x[1]); }),
    floating_kernel("special_airy_ai", 1, [](Operands x) { return airy(x[0]); }),
    floating_kernel("special_bessel_j0", 1, [](Operands x) { return bessel_j(0, x[0]); }),
    floating_kernel("special_bessel_j1", 1, [](Operands x) { return bessel_j(1, x[0]); }),
    floating_kernel("special_bessel_y0", 1, [](Operands x) { return bessel_y(0, x[0]); }),
    floating_kernel("special_bessel_y1", 1, [](Operands x) { return bessel_y(1, x[0]); }),
    floating_kernel("special_chebyshev_polynomial_t", 2,
                    [](Operands x) { return chebyshev(ChebyshevKind::kT, x[0], x[1]); }),
    floating_kernel("special_chebyshev_polynomial_u", 2,
                    [](Operands x) { return chebyshev(ChebyshevKind::kU, x[0], x[1]); }),
    floating_kernel("special_chebyshev_polynomial_v", 2,
                    [](Operands x) { return chebyshev(ChebyshevKind::kV, x[0], x[1]); }),
    floating_kernel("special_chebyshev_polynomial_w", 2,
                    [](Operands x) { return chebyshev(ChebyshevKind::kW, x[0], x[1]); }),
    floating_kernel("special_entr", 1,
                    [](Operands x) {
                      return x[0] > 0.0 ? -x[0] * std::log(x[0]) : x[0] == 0.0 ? 0.0 : -kInfinity;
                    }),
    floating_kernel("special_erfcx", 1, [](Operands x) { return scaled_erfc(x[0]); }),
    floating_kernel("special_hermite_polynomial_h", 2,
                    [](Operands x) { return hermite(x[0], x[1]); }),
    floating_kernel("special_hermite_polynomial_he", 2,
                    [](Operands x) { return probabilists_hermite(x[0], x[1]); }),
    floating_kernel("special_i0e", 1,
                    [](Operands x) { return std::exp(-std::abs(x[0])) * bessel_i(0, x[0]); }),
    floating_kernel("special_i1", 1, [](Operands x) { return bessel_i(1, x[0]); }),
    floating_kernel("special_i1e", 1,
                    [](Operands x) { return std::exp(-std::abs(x[0])) * bessel_i(1, x[0]); }),
    floating_kernel("special_laguerre_polynomial_l", 2,
                    [](Operands x) { return laguerre(x[0], x[1]); }),
    floating_kernel("special_legendre_polynomial_p", 2,
                    [](Operands x) { return legendre(x[0], x[1]); }),
    floating_kernel("special_log_ndtr", 1, [](Operands x) { return log_normal_cdf(x[0]); }),
    floating_kernel("special_modified_bessel_i0", 1, [](Operands x) { return bessel_i(0, x[0]); }),
    floating_kernel("special_modified_bessel_i1", 1, [](Operands x) { return bessel_i(1, x[0]); }),
    floating_kernel("special_modified_bessel_k0", 1, [](Operands x) { return bessel_k(0, x[0]); }),
    floating_kernel("special_modified_bessel_k1", 1, [](Operands x) { return bessel_k(1, x[0]); }),
    floating_kernel("special_ndtri", 1,
                    [](Operands x) {
                      return -std::numbers::sqrt2 * boost::math::erfc_inv(2.0 * x[0], kQuiet);
                    }),
    floating_kernel("special_scaled_modified_bessel_k0", 1,
                    [](Operands x) { return std::exp(x[0]) * bessel_k(0, x[0]); }),
    floating_kernel("special_scaled_modified_bessel_k1", 1,
                    [](Operands x) { return std::exp(x[0]) * bessel_k(1, x[0]); }),
    floating_kernel(
        "special_shifted_chebyshev_polynomial_t", 2,
        [](Operands x) { return chebyshev(ChebyshevKind::kT, 2.0 * x[0] - 1.0, x[1]); }),
    floating_kernel(
        "special_shifted_chebyshev_polynomial_u", 2,
        [](Operands x) { return chebyshev(ChebyshevKind::kU, 2.0 * x[0] - 1.0, x[1]); }),
    floating_kernel(
        "special_shifted_chebyshev_polynomial_v", 2,
        [](Operands x) { return chebyshev(ChebyshevKind::kV, 2.0 * x[0] - 1.0, x[1]); }),
    floating_kernel(
        "special_shifted_chebyshev_polynomial_w", 2,
        [](Operands x) { return chebyshev(ChebyshevKind::kW, 2.0 * x[0] - 1.0, x[1]); }),
    floating_kernel("special_spherical_bessel_j0", 1,
                    [](Operands x) { return x[0] == 0.0 ? 1.0 : std::sin(x[0]) / x[0]; }),
    floating_kernel("special_xlog1py", 2,
                    [](Operands x) {
                      return std::isnan(x[1]) ? kNan : x[0] == 0.0 ? 0.0 : x[0] * std::log1p(x[1]);
                    }),
    floating_kernel("special_zeta", 2, [](Operands x) { return zeta(x[0], x[1]); }),
};

}  // namespace special_kernels

OP_KERNELS(special){special_kernels::kKernels};

}  // namespace shardlab
