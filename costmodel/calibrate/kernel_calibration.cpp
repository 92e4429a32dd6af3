#include "costmodel/calibrate/kernel_calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr double kHuber = 1.345;      // in standard deviations: Huber 1964
constexpr double kLeastNoise = 0.01;  // of ln t; below it, rounding and clocks
constexpr double kWidestEfficiency = 1e-4;
constexpr int kSweeps = 60;
constexpr int kGoldenSteps = 60;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A row of one kind: what its traffic and its arithmetic take at full rate.
struct Point {
  double memory_us = 0.0;
  double arithmetic_us = 0.0;
  std::size_t efficiency = 0;  // of its arithmetic: which of the kind's
  double time_us = 0.0;
};

// One kind of kernel: its start-up, and one efficiency or several.
struct Kind {
  std::string startup;                    // parameter names
  std::vector<std::string> efficiencies;  // of memory traffic: one; of arithmetic: several
  std::vector<Point> points;
  bool is_arithmetic = false;
  double memory_share = 1.0;  // of GEMMs: efficiency of their traffic, fitted elsewhere
};

double predict(const Kind& kind, const Point& point, std::span<const double> values,
               double launch_us) {
  // values: the start-up, then ln of the efficiencies.
  const double efficiency = std::exp(values[1 + point.efficiency]);
  const double busy = kind.is_arithmetic ? std::max(point.memory_us / kind.memory_share,
                                                    point.arithmetic_us / efficiency)
                                         : point.memory_us / efficiency;
  return std::max(launch_us, values[0] + busy);
}

double huber(double residual, double scale) {
  const double r = std::abs(residual) / scale;
  return r <= kHuber ? r * r / 2 : kHuber * (r - kHuber / 2);
}

std::vector<double> residuals_of(const Kind& kind, std::span<const double> values,
                                 double launch_us) {
  std::vector<double> out;
  for (const Point& point : kind.points) {
    out.push_back(std::log(predict(kind, point, values, launch_us) / point.time_us));
  }
  return out;
}

double loss_of(const Kind& kind, std::span<const double> values, double launch_us, double scale) {
  double sum = 0.0;
  for (const double r : residuals_of(kind, values, launch_us)) sum += huber(r, scale);
  return sum;
}

double golden_minimum(double low, double high, const std::function<double(double)>& f) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = high - ratio * (high - low);
  double b = low + ratio * (high - low);
  double fa = f(a);
  double fb = f(b);
  for (int i = 0; i < kGoldenSteps; ++i) {
    if (fa <= fb) {
      high = b;
      b = a;
      fb = fa;
      a = high - ratio * (high - low);
      fa = f(a);
    } else {
      low = a;
      a = b;
      fa = fb;
      b = low + ratio * (high - low);
      fb = f(b);
    }
  }
  return (low + high) / 2;
}

struct KindFit {
  std::vector<double> values;
  std::vector<double> half_widths;  // 95 %, of the start-up in us and of ln efficiency
  std::vector<bool> is_told;        // whether any row moves with the value
  double noise = 0.0;
};

// How the prediction of each row moves with each value, by differences.
Eigen::MatrixXd jacobian_of(const Kind& kind, std::span<const double> values, double launch_us) {
  const auto rows = static_cast<Eigen::Index>(kind.points.size());
  Eigen::MatrixXd jacobian(rows, static_cast<Eigen::Index>(values.size()));
  for (std::size_t v = 0; v < values.size(); ++v) {
    std::vector<double> up(values.begin(), values.end());
    std::vector<double> down = up;
    const double step = v == 0 ? std::max(1e-4, values[0] * 1e-4) : 1e-5;
    up[v] += step;
    down[v] -= step;
    const std::vector<double> above = residuals_of(kind, up, launch_us);
    const std::vector<double> below = residuals_of(kind, down, launch_us);
    for (std::size_t i = 0; i < above.size(); ++i) {
      jacobian(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(v)) =
          (above[i] - below[i]) / (2 * step);
    }
  }
  return jacobian;
}

KindFit fit(const Kind& kind, double launch_us) {
  KindFit out;
  double slowest_start = 0.0;
  for (const Point& point : kind.points) slowest_start = std::max(slowest_start, point.time_us);
  // Efficiencies start at the best share that a row of theirs shows.
  out.values.assign(1 + kind.efficiencies.size(), std::log(0.5));
  out.values[0] = 0.0;
  for (std::size_t e = 0; e < kind.efficiencies.size(); ++e) {
    double best = kWidestEfficiency;
    for (const Point& point : kind.points) {
      if (point.efficiency != e) continue;
      const double full = kind.is_arithmetic ? point.arithmetic_us : point.memory_us;
      best = std::max(best, full / point.time_us);
    }
    out.values[1 + e] = std::log(std::min(best, 1.0));
  }
  double scale = 0.2;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t v = 0; v < out.values.size(); ++v) {
      std::vector<double> trial = out.values;
      const auto loss = [&](double value) {
        trial[v] = value;
        return loss_of(kind, trial, launch_us, scale);
      };
      const double low = v == 0 ? 0.0 : std::log(kWidestEfficiency);
      const double high = v == 0 ? slowest_start : 0.0;
      const double found = golden_minimum(low, high, loss);
      // Golden section may miss a bound that is better than any inner point.
      double best = out.values[v];
      for (const double value : {found, low, high}) {
        if (loss(value) < loss(best)) best = value;
      }
      out.values[v] = best;
    }
    // The scale of the noise, robustly (1.4826 times the median deviation).
    std::vector<double> sizes = residuals_of(kind, out.values, launch_us);
    for (double& size : sizes) size = std::abs(size);
    scale = std::max(kLeastNoise, 1.4826 * median_of(sizes));
  }
  out.noise = scale;
  // Values differ in size by orders of magnitude: columns of equal length, scaled back at the end.
  Eigen::MatrixXd jacobian = jacobian_of(kind, out.values, launch_us);
  const Eigen::VectorXd lengths = jacobian.colwise().norm();
  for (Eigen::Index v = 0; v < jacobian.cols(); ++v) {
    out.is_told.push_back(lengths(v) > 1e-9);
    if (out.is_told.back()) jacobian.col(v) /= lengths(v);
  }
  const Eigen::MatrixXd information = jacobian.transpose() * jacobian;
  const Eigen::MatrixXd covariance =
      information.completeOrthogonalDecomposition().pseudoInverse() * (scale * scale);
  for (Eigen::Index v = 0; v < covariance.rows(); ++v) {
    const double variance = std::max(0.0, covariance(v, v));
    out.half_widths.push_back(1.96 * std::sqrt(variance) / std::max(lengths(v), 1e-9));
  }
  return out;
}

struct KindNames {
  std::string_view startup;
  std::string_view efficiency;
};
KindNames names_of(const KernelQuery& query) {
  switch (query.kind) {
    case Kernel::kElementwise:
      return {"elementwise_startup_us", "elementwise_efficiency"};
    case Kernel::kReduction:
      return {"reduction_startup_us", "reduction_efficiency"};
    case Kernel::kGemm:
      switch (query.dtype) {
        case DType::kF64:
          return {"gemm_startup_us", "f64_flops_efficiency"};
        case DType::kF32:
          return {"gemm_startup_us", "f32_flops_efficiency"};
        case DType::kF8E4M3:
        case DType::kF8E5M2:
          return {"gemm_startup_us", "f8_flops_efficiency"};
        default:
          return {"gemm_startup_us", "flops_efficiency"};
      }
    default:
      return query.strided ? KindNames{"strided_copy_startup_us", "strided_copy_efficiency"}
                           : KindNames{"copy_startup_us", "copy_efficiency"};
  }
}

// Rows by the start-up that they share, and what is left out.
std::map<std::string, Kind> kinds_of(std::span<const MeasuredKernel> rows, const Topology& topology,
                                     std::vector<double>& launches, Calibration& result) {
  std::map<std::string, Kind> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MeasuredKernel& row = rows[i];
    if (row.kernel == "launch") {
      launches.push_back(row.time_us);
      ++result.rows_used;
      continue;
    }
    const std::optional<KernelQuery> query = kernel_query(row);
    if (!query) {
      result.refused.push_back({i, "the roofline has no dtype " + row.dtype});
      continue;
    }
    if (query->bytes <= 0 && query->flops <= 0) {
      result.refused.push_back({i, "neither bytes nor flops"});
      continue;
    }
    const KindNames names = names_of(*query);
    Kind& kind = kinds[std::string(names.startup)];
    kind.startup = names.startup;
    kind.is_arithmetic = query->kind == Kernel::kGemm;
    const auto found =
        std::find(kind.efficiencies.begin(), kind.efficiencies.end(), names.efficiency);
    const auto index = static_cast<std::size_t>(found - kind.efficiencies.begin());
    if (found == kind.efficiencies.end()) kind.efficiencies.emplace_back(names.efficiency);
    kind.points.push_back({transfer_time(query->bytes, topology.device().memory_bandwidth).value(),
                           compute_time(query->flops, topology.peak(query->dtype)).value(), index,
                           row.time_us});
    ++result.rows_used;
  }
  return kinds;
}

void keep_the_rest(Calibration& result, const Topology& topology) {
  for (const ParamSpec& spec : result.model->params) {
    const bool is_fitted = result.params.contains(std::string(spec.name));
    const double prior = spec.default_value.value_or(
        spec.name == "launch_us" ? topology.device().launch.value()
                                 : std::numeric_limits<double>::quiet_NaN());
    // Those without a figure of their own follow another parameter.
    if (!is_fitted && !std::isnan(prior)) {
      result.not_identified.push_back({std::string(spec.name), prior, "no rows tell it"});
    }
  }
}

}  // namespace

std::optional<KernelQuery> kernel_query(const MeasuredKernel& row) {
  const std::optional<DType> dtype = dtype_from_name(row.dtype);
  if (!dtype || row.kernel == "launch") return std::nullopt;
  KernelQuery query{.kind = Kernel::kCopy, .bytes = row.bytes, .flops = row.flops, .dtype = *dtype};
  if (row.kernel == "gemm") query.kind = Kernel::kGemm;
  if (row.kernel == "elementwise") query.kind = Kernel::kElementwise;
  if (row.kernel == "reduction") query.kind = Kernel::kReduction;
  query.strided = row.kernel == "reshuffle";
  return query;
}

std::vector<double> kernel_errors_percent(const ComputeModel& model,
                                          std::span<const MeasuredKernel> rows) {
  std::vector<double> errors;
  for (const MeasuredKernel& row : rows) {
    const std::optional<KernelQuery> query = kernel_query(row);
    if (!query) continue;
    const double predicted = model.price(*query).total.value();
    errors.push_back(100.0 * (predicted - row.time_us) / row.time_us);
  }
  return errors;
}

Calibration calibrate_kernels(std::span<const MeasuredKernel> rows, const Topology& topology) {
  Calibration result;
  result.model = find_cost_model("roofline");
  std::vector<double> launches;
  std::map<std::string, Kind> kinds = kinds_of(rows, topology, launches, result);
  std::size_t points = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [name, kind] : kinds) {
    points += kind.points.size();
    for (const Point& point : kind.points) shortest = std::min(shortest, point.time_us);
  }
  if (points < 2) {
    throw InputError("calibrate: found " + std::to_string(points) +
                     " kernels that the roofline prices; valid: at least 2");
  }
  double launch_us = topology.device().launch.value();
  if (!launches.empty()) {
    launch_us = median_of(launches);
    const auto [low, high] = std::minmax_element(launches.begin(), launches.end());
    result.params["launch_us"] = launch_us;
    result.parameters.push_back({"launch_us", launch_us, *low, *high});
  } else if (shortest < launch_us) {
    // A floor above what was measured is refuted, though not where it lies.
    launch_us = shortest;
    result.params["launch_us"] = launch_us;
    result.not_identified.push_back(
        {"launch_us", launch_us, "no empty launches; no kernel took less"});
  }
  double noise = 0.0;
  const auto fit_kind = [&](const Kind& kind) {
    const KindFit fitted = fit(kind, launch_us);
    noise += fitted.noise * static_cast<double>(kind.points.size());
    if (fitted.is_told[0]) {
      result.params[kind.startup] = fitted.values[0];
      result.parameters.push_back({kind.startup, fitted.values[0],
                                   std::max(0.0, fitted.values[0] - fitted.half_widths[0]),
                                   fitted.values[0] + fitted.half_widths[0]});
    }
    for (std::size_t e = 0; e < kind.efficiencies.size(); ++e) {
      if (!fitted.is_told[1 + e]) continue;
      const double value = fitted.values[1 + e];
      const double half = fitted.half_widths[1 + e];
      result.params[kind.efficiencies[e]] = std::exp(value);
      result.parameters.push_back({kind.efficiencies[e], std::exp(value), std::exp(value - half),
                                   std::min(1.0, std::exp(value + half))});
    }
  };
  // Copies tell how much of the memory's bandwidth GEMMs may reach.
  for (const auto& [name, kind] : kinds) {
    if (!kind.is_arithmetic) fit_kind(kind);
  }
  if (result.params.contains("copy_efficiency")) {
    result.params["memory_efficiency"] = result.params["copy_efficiency"];
    result.parameters.push_back(result.parameters.back());
    for (const FittedParameter& p : result.parameters) {
      if (p.name == "copy_efficiency") result.parameters.back() = p;
    }
    result.parameters.back().name = "memory_efficiency";
  }
  for (auto& [name, kind] : kinds) {
    if (!kind.is_arithmetic) continue;
    for (const ParamSpec& spec : result.model->params) {
      if (spec.name == "memory_efficiency") {
        kind.memory_share =
            result.params.value(std::string(spec.name), spec.default_value.value_or(1.0));
      }
    }
    fit_kind(kind);
  }
  result.noise_percent = 100.0 * noise / static_cast<double>(points);
  keep_the_rest(result, topology);
  const auto model = make_compute_model(result.choice(), topology);
  std::vector<double> errors = kernel_errors_percent(*model, rows);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double p) {
    return errors[to_index(p * static_cast<double>(errors.size() - 1) + 0.5)];
  };
  result.median_ape_percent = at(0.5);
  result.p90_ape_percent = at(0.9);
  return result;
}

}  // namespace shardlab
