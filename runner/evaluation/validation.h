// Compares predicted with measured times. `validate` prints the result, and the scoreboard's
// protocols (held-out sizes, logs, scales) use it.
//
//   const auto rows = predict(stack, [&](const MeasurementSet& set) {
//                       return topology_for(store, "", set).topology; }, sets);
//   summarize(rows).median_ape_percent
//
// A row's error is (predicted - measured) / measured, for the out-of-place time. Percentiles are
// those of reports::percentile (linear between neighbours at p (n - 1): type 7 of Hyndman and Fan,
// NumPy's default). `bias` is the mean of the signed errors.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/stated_network.h"
#include "runner/config/configs.h"
#include "strategies/select/stack.h"

namespace shardlab {

struct RowPrediction {
  std::size_t set = 0;  // index of the set
  std::size_t row = 0;  // index of its row
  Collective collective = Collective::kLocal;
  Bytes bytes = 0.0;
  double measured_us = 0.0;
  double predicted_us = 0.0;             // infinite where the model can't price it
  std::string impossible = {};           // why the model can't price it
  std::optional<double> log_error = {};  // CostModel::log_error

  [[nodiscard]] bool is_priced() const { return impossible.empty(); }
  // (predicted - measured) / measured, in percent.
  [[nodiscard]] double error_percent() const;
};

// Summary of the errors of all rows that have a price.
struct ErrorSummary {
  std::size_t points = 0;
  std::size_t unpriced = 0;
  std::optional<double> median_ape_percent;
  std::optional<double> p90_ape_percent;
  std::optional<double> mean_ape_percent;
  std::optional<double> bias_percent;
};

// How the intervals of the rows hold whose model knows its error (sim/price_interval.h).
struct Coverage {
  std::size_t points = 0;
  double within_percent = 0.0;      // share of points that lie in their 95 % interval
  double half_width_percent = 0.0;  // the median distance from the price to its upper bound
};
// Nothing if no row has an interval.
[[nodiscard]] std::optional<Coverage> coverage_of(std::span<const RowPrediction> rows);

// A measured kernel under a stack's compute model. Empty launches have no price, nor do kernels of
// a dtype that no model knows, nor any kernel under a stack whose compute model is `none`.
struct KernelPrediction {
  std::size_t set = 0;  // index of the set
  std::size_t row = 0;  // index of its kernel
  std::string kernel;   // its kind
  double calls = 1.0;   // how often it ran
  double measured_us = 0.0;
  std::optional<double> predicted_us = {};

  // (predicted - measured) / measured, in percent. Assumes a price.
  [[nodiscard]] double error_percent() const;
  // How far the price of all calls together is from the time that they took, in us. Not negative,
  // and 0 without a price.
  [[nodiscard]] double us_off() const;
};

// Errors of the measured kernels of one kind. `unpriced` counts those without a price.
struct KernelErrors {
  std::string kernel;
  ErrorSummary errors;
  double measured_us = 0.0;  // the time of all calls of the kernels that have a price
  // The error of the time that all of those calls take together, in percent.
  std::optional<double> total_percent = {};
};

[[nodiscard]] ErrorSummary summarize(std::span<const RowPrediction> rows);
// Summarises signed errors in percent.
[[nodiscard]] ErrorSummary summarize_errors(std::span<const double> errors_percent);

// The bands of sizes, in decimal units: below 1e6 bytes, from there to below 64e6 bytes, and above.
inline constexpr std::string_view kSizeBands[] = {"<1MB", "1-64MB", ">=64MB"};
[[nodiscard]] std::string_view size_band(Bytes bytes);

// "2x8": hosts times ranks per host.
[[nodiscard]] std::string scale_of(const MeasurementSet& set);

// A GPU's name up to its first parenthesis, then the name of the fabric and the GB/s per host
// (health.h), if known: "H100-SXM5-80GB, InfiniBand, 400 GB/s a host".
[[nodiscard]] std::string measurement_family(const MeasurementSet& set);

// The topology on which a set is priced: the one called `named` or, if that is empty, the shipped
// topology of the set's GPU. If no topology is shipped for that GPU, as for H100 PCIe and MI325X,
// that of the most similar GPU is taken, or else h100, with a warning. The topology gets as many
// devices per host as the set has and, unless it was named, the network that the set's source
// states (stated_network.h). The changes of --set come last.
struct TopologyChoice {
  Topology topology;
  std::string warning;
};
[[nodiscard]] TopologyChoice topology_for(const ConfigStore& store, const std::string& named,
                                          const MeasurementSet& set);
// A shipped topology with so many devices in a host and with what a text states of its network.
[[nodiscard]] Topology topology_on(const ConfigStore& store, const std::string& name,
                                   std::int64_t devices_per_host, const StatedNetwork& network);
// Says that a GPU, or one that a file does not name (""), is priced on the topology of another one.
[[nodiscard]] std::string stand_in_warning(std::string_view gpu, std::string_view topology);
// The shipped topology for a GPU's name, or that of the most similar GPU; "" if there is neither.
[[nodiscard]] std::string_view topology_of_gpu(std::string_view gpu);
// Whether that topology describes this very GPU, rather than the most similar one.
[[nodiscard]] bool has_own_topology(std::string_view gpu);
// Whether a topology describes a GPU of this name. A variant such as h100-hbm2e does, unless names
// of GPUs tell it from the others, as they do for a100-40.
[[nodiscard]] bool is_topology_of(const Topology& topology, std::string_view gpu);

// The set's ranks as one group. Hosts that the topology puts into one NVLink domain count as one
// domain.
[[nodiscard]] GroupSpan span_on(const MeasurementSet& set, const Topology& topology);

using TopologyOf = std::function<Topology(const MeasurementSet&)>;
[[nodiscard]] std::vector<KernelPrediction> predict_kernels(const Stack& stack,
                                                            const TopologyOf& topology_of,
                                                            std::span<const MeasurementSet> sets);
// One entry per kind of kernel, over all sets together, in the order of their first rows; empty if
// no kernels were measured.
[[nodiscard]] std::vector<KernelErrors> kernel_errors(std::span<const KernelPrediction> kernels);

[[nodiscard]] std::vector<RowPrediction> predict(const Stack& stack, const TopologyOf& topology_of,
                                                 std::span<const MeasurementSet> sets);
// Predictions for one set under one model. Their `set` is `index`.
[[nodiscard]] std::vector<RowPrediction> predict_set(const CostModel& model, const GroupSpan& span,
                                                     const MeasurementSet& set,
                                                     std::size_t index = 0);

}  // namespace shardlab
