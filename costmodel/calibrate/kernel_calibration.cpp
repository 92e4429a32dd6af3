#include "costmodel/calibrate/kernel_calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/percentile.h"
#include "costmodel/calibrate/huber.h"
#include "costmodel/kernel_work.h"

namespace shardlab {
namespace {

constexpr double kLeastNoise = 0.01;       // in ln t; smaller errors come from rounding and clocks
constexpr double kFirstNoise = 0.2;        // in ln t, before the first sweep
constexpr double kLeastEfficiency = 1e-4;  // lower bound of efficiencies in the search
constexpr int kSweeps = 60;                // over all values of a kind
constexpr int kGoldenSteps = 60;           // each shrinks the bracket by 0.618
// The standard deviation of normal errors over their median size.
constexpr double kMedianToDeviation = 1.4826;
constexpr double kNormalWidth = 1.96;  // half the width of a 95 % interval, in standard errors

// A row of one kind, with the times that its memory traffic and its arithmetic take at full rate.
struct Point {
  double memory_us = 0.0;
  double arithmetic_us = 0.0;
  std::size_t efficiency = 0;  // index into the efficiencies of its kind
  double time_us = 0.0;
};

// The kernels that share one start-up. Kinds that move memory have one efficiency; GEMMs have one
// for each width of dtype.
struct Kind {
  std::string startup;                    // parameter name
  std::vector<std::string> efficiencies;  // parameter names
  std::vector<Point> points;
  bool is_arithmetic = false;
  double memory_share = 1.0;  // efficiency of the GEMMs' memory traffic, known from copies
};

// The time that the model predicts for a row, in us. The values of a kind are its start-up in us,
// then the logarithms of its efficiencies.
double predict(const Kind& kind, const Point& point, std::span<const double> values,
               double launch_us) {
  const double efficiency = std::exp(values[1 + point.efficiency]);
  const double busy = kind.is_arithmetic ? std::max(point.memory_us / kind.memory_share,
                                                    point.arithmetic_us / efficiency)
                                         : point.memory_us / efficiency;
  return std::max(launch_us, values[0] + busy);
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

// The argument between `low` and `high` at which f is least. Source: Kiefer 1953, golden section
// search.
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
  std::vector<double> half_widths;  // half the width of each value's 95 % interval
  std::vector<bool> is_told;        // whether the prediction of any row depends on the value
  double noise = 0.0;               // standard deviation of ln t of one row
};

// The start-up begins at zero, and each efficiency at the best one that any of its rows shows.
std::vector<double> first_values(const Kind& kind) {
  std::vector<double> values = {0.0};
  for (std::size_t e = 0; e < kind.efficiencies.size(); ++e) {
    double best = kLeastEfficiency;
    for (const Point& point : kind.points) {
      if (point.efficiency != e) continue;
      const double full = kind.is_arithmetic ? point.arithmetic_us : point.memory_us;
      best = std::max(best, full / point.time_us);
    }
    values.push_back(std::log(std::min(best, 1.0)));
  }
  return values;
}

// Minimises the loss over one value at a time, in kSweeps sweeps over all values. Sets values and
// noise.
void descend(KindFit& fit, const Kind& kind, double launch_us) {
  double slowest_us = 0.0;
  for (const Point& point : kind.points) slowest_us = std::max(slowest_us, point.time_us);
  fit.values = first_values(kind);
  fit.noise = kFirstNoise;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t v = 0; v < fit.values.size(); ++v) {
      std::vector<double> trial = fit.values;
      const auto loss = [&](double value) {
        trial[v] = value;
        return loss_of(kind, trial, launch_us, fit.noise);
      };
      const double low = v == 0 ? 0.0 : std::log(kLeastEfficiency);
      const double high = v == 0 ? slowest_us : 0.0;
      const double found = golden_minimum(low, high, loss);
      // The search may miss a bound that is better than any inner point.
      double best = fit.values[v];
      for (const double value : {found, low, high}) {
        if (loss(value) < loss(best)) best = value;
      }
      fit.values[v] = best;
    }
    std::vector<double> sizes = residuals_of(kind, fit.values, launch_us);
    for (double& size : sizes) size = std::abs(size);
    fit.noise = std::max(kLeastNoise, kMedianToDeviation * upper_median(sizes));
  }
}

// The derivative of each row's residual by each value, by central differences.
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

KindFit fit_kind(const Kind& kind, double launch_us) {
  KindFit out;
  descend(out, kind, launch_us);
  // Values differ in size by orders of magnitude, so the columns are brought to length one before
  // the inverse is taken, and the widths are scaled back.
  Eigen::MatrixXd jacobian = jacobian_of(kind, out.values, launch_us);
  const Eigen::VectorXd lengths = jacobian.colwise().norm();
  for (Eigen::Index v = 0; v < jacobian.cols(); ++v) {
    out.is_told.push_back(lengths(v) > 1e-9);
    if (out.is_told.back()) jacobian.col(v) /= lengths(v);
  }
  const Eigen::MatrixXd information = jacobian.transpose() * jacobian;
  const Eigen::MatrixXd covariance =
      information.completeOrthogonalDecomposition().pseudoInverse() * (out.noise * out.noise);
  for (Eigen::Index v = 0; v < covariance.rows(); ++v) {
    const double variance = std::max(0.0, covariance(v, v));
    out.half_widths.push_back(kNormalWidth * std::sqrt(variance) / std::max(lengths(v), 1e-9));
  }
  return out;
}

// The parameters of the roofline that price a kernel.
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
          return {"gemm_startup_us",
                  query.tf32 == Tf32::kOn ? "tf32_flops_efficiency" : "f32_flops_efficiency"};
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

// The rows, grouped by the start-up that they share. Empty launches go to `launches` instead, and
// refused rows to `result`.
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
    if (lacks_tf32_rate(*query, topology)) {
      result.refused.push_back({i, "the topology " + topology.name() + " states no rate for tf32"});
      continue;
    }
    if (query->kind == Kernel::kAttention) {
      result.refused.push_back({i, "attention_efficiency is not fitted to rows"});
      continue;
    }
    if (query->bytes <= 0 && query->flops <= 0) {
      result.refused.push_back({i, "the row has neither bytes nor flops"});
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
    const Tflops peak =
        query->tf32 == Tf32::kOn ? *topology.tf32_peak() : topology.peak(query->dtype);
    kind.points.push_back({transfer_time(query->bytes, topology.device().memory_bandwidth).value(),
                           compute_time(query->flops, peak).value(), index, row.time_us});
    ++result.rows_used;
  }
  return kinds;
}

// The launch floor is the median of the empty launches. Without empty launches it is the topology's
// figure, or the shortest time of a kernel if that is less.
double launch_floor(Calibration& result, const std::vector<double>& launches,
                    const std::map<std::string, Kind>& kinds, const Topology& topology) {
  double launch_us = topology.device().launch.value();
  if (!launches.empty()) {
    launch_us = upper_median(launches);
    const auto [low, high] = std::minmax_element(launches.begin(), launches.end());
    result.params["launch_us"] = launch_us;
    result.parameters.push_back({"launch_us", launch_us, *low, *high});
    return launch_us;
  }
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [name, kind] : kinds) {
    for (const Point& point : kind.points) shortest = std::min(shortest, point.time_us);
  }
  if (shortest < launch_us) {
    // A kernel took less than the topology's floor, so that floor is wrong; no row shows how low
    // the true one is.
    launch_us = shortest;
    result.params["launch_us"] = launch_us;
    result.not_identified.push_back(
        {"launch_us", launch_us,
         "no empty launch was measured; this is the shortest time of a kernel"});
  }
  return launch_us;
}

// Adds the values that the rows determine as parameters of the roofline.
void add_parameters(Calibration& result, const Kind& kind, const KindFit& fit) {
  if (fit.is_told[0]) {
    result.params[kind.startup] = fit.values[0];
    result.parameters.push_back({kind.startup, fit.values[0],
                                 std::max(0.0, fit.values[0] - fit.half_widths[0]),
                                 fit.values[0] + fit.half_widths[0]});
  }
  for (std::size_t e = 0; e < kind.efficiencies.size(); ++e) {
    if (!fit.is_told[1 + e]) continue;
    const double value = fit.values[1 + e];
    const double half_width = fit.half_widths[1 + e];
    result.params[kind.efficiencies[e]] = std::exp(value);
    result.parameters.push_back({kind.efficiencies[e], std::exp(value),
                                 std::exp(value - half_width),
                                 std::min(1.0, std::exp(value + half_width))});
  }
}

// GEMMs are assumed to reach the same share of the memory bandwidth as copies.
void add_memory_efficiency(Calibration& result) {
  const auto copies = std::find_if(result.parameters.begin(), result.parameters.end(),
                                   [](const auto& p) { return p.name == "copy_efficiency"; });
  if (copies == result.parameters.end()) return;
  FittedParameter memory = *copies;
  memory.name = "memory_efficiency";
  result.params[memory.name] = memory.value;
  result.parameters.push_back(std::move(memory));
}

// Lists the parameters that no row determines, except those that have no figure of their own
// because they follow another parameter.
void add_not_identified(Calibration& result, const Topology& topology) {
  for (const ParamSpec& spec : result.model->params) {
    if (spec.is_switch || result.params.contains(std::string(spec.name))) continue;
    std::optional<double> prior = spec.default_value;
    if (!prior && spec.name == "launch_us") prior = topology.device().launch.value();
    if (prior)
      result.not_identified.push_back(
          {std::string(spec.name), *prior, "no measured row determines its value"});
  }
}

void add_errors(Calibration& result, std::span<const MeasuredKernel> rows,
                const Topology& topology) {
  const auto model = make_compute_model(result.choice(), topology);
  std::vector<MeasuredKernel> fitted;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_refused = std::ranges::any_of(
        result.refused, [i](const RefusedObservation& refused) { return refused.row == i; });
    if (!is_refused) fitted.push_back(rows[i]);
  }
  std::vector<double> errors = kernel_errors_percent(*model, fitted);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const auto nearest_rank = [&](double share) {
    const double rank = share * static_cast<double>(errors.size() - 1);
    return errors[static_cast<std::size_t>(std::lround(rank))];
  };
  result.median_ape_percent = nearest_rank(0.5);
  result.p90_ape_percent = nearest_rank(0.9);
}

}  // namespace

std::optional<KernelQuery> kernel_query(const MeasuredKernel& row) {
  const bool is_tf32 = row.dtype == "tf32";
  const std::optional<DType> dtype = is_tf32 ? DType::kF32 : dtype_from_name(row.dtype);
  if (!dtype || row.kernel == "launch") return std::nullopt;
  KernelQuery query{.kind = Kernel::kCopy, .bytes = row.bytes, .flops = row.flops, .dtype = *dtype};
  query.tf32 = is_tf32 ? Tf32::kOn : Tf32::kOff;
  if (row.kernel == "gemm") {
    query.kind = Kernel::kGemm;
    if (row.rows > 0 && row.columns > 0 && row.inner > 0) {
      query.gemm = {.batch = static_cast<double>(row.batch),
                    .m = static_cast<double>(row.rows),
                    .n = static_cast<double>(row.columns),
                    .k = static_cast<double>(row.inner)};
      // Without a layout, the rows are taken for those of a linear layer: its input and its output.
      const double out = row.batch * row.rows > 1 ? query.gemm->n : 1.0;
      query.gemm->row_multiple = row.row_multiple > 0
                                     ? static_cast<double>(row.row_multiple)
                                     : row_multiple(std::array{out, query.gemm->k});
    }
  }
  if (row.attention) {
    query.kind = Kernel::kAttention;
    query.attention = row.attention;
  }
  if (row.kernel == "elementwise") query.kind = Kernel::kElementwise;
  if (row.kernel == "reduction") query.kind = Kernel::kReduction;
  query.strided = row.kernel == "reshuffle";
  return query;
}

bool lacks_tf32_rate(const KernelQuery& query, const Topology& topology) {
  return query.tf32 == Tf32::kOn && !topology.tf32_peak();
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
  for (const auto& [name, kind] : kinds) points += kind.points.size();
  if (points < 2) {
    const std::string refused =
        result.refused.empty() ? "" : " (a refused row: " + result.refused[0].reason + ")";
    throw InputError("calibrate: found " + std::to_string(points) +
                     " kernels that the roofline prices; valid: at least 2" + refused);
  }
  const double launch_us = launch_floor(result, launches, kinds, topology);
  double noise = 0.0;
  const auto fit = [&](const Kind& kind) {
    const KindFit fitted = fit_kind(kind, launch_us);
    noise += fitted.noise * static_cast<double>(kind.points.size());
    add_parameters(result, kind, fitted);
  };
  for (const auto& [name, kind] : kinds) {
    if (!kind.is_arithmetic) fit(kind);
  }
  add_memory_efficiency(result);
  const auto memory =
      std::find_if(result.model->params.begin(), result.model->params.end(),
                   [](const ParamSpec& spec) { return spec.name == "memory_efficiency"; });
  SHARDLAB_CHECK(memory != result.model->params.end());
  for (auto& [name, kind] : kinds) {
    if (!kind.is_arithmetic) continue;
    kind.memory_share =
        result.params.value(std::string(memory->name), memory->default_value.value_or(1.0));
    fit(kind);
  }
  result.noise_percent = 100.0 * noise / static_cast<double>(points);
  add_not_identified(result, topology);
  add_errors(result, rows, topology);
  return result;
}

}  // namespace shardlab
