#include "runner/evaluation/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "costmodel/base/text.h"
#include "costmodel/calibrate/kernel_calibration.h"
#include "costmodel/measurements/health.h"
#include "costmodel/registry.h"
#include "reports/statistics.h"
#include "runner/config/configs.h"
#include "sim/price_interval.h"

namespace shardlab {
namespace {

struct GpuName {
  std::string_view word;
  std::string_view topology;
  std::string_view also = {};  // a second word that the name has to hold
  bool is_of_gpu = true;       // otherwise the topology is that of the most similar GPU
};
// The first entry that fits is taken, so longer names come first: "GH200" contains "H200" but is
// another machine. PCIe cards and NVL pairs lack the NVSwitch of the machines that are shipped, and
// MI325X and MI350X have other memory or clocks than MI300X and MI355X. H800 and A800 have
// fewer NVLinks than H100 and A100.
constexpr std::array<GpuName, 25> kGpus = {{{"gb200", "gb200"},
                                            {"gb300", "gb300"},
                                            {"gh200", ""},
                                            {"b200", "b200"},
                                            {"b300", "b300"},
                                            {"h200 nvl", "h200", "", false},
                                            {"h200", "h200", "pcie", false},
                                            {"h200", "h200"},
                                            {"h100 nvl", "h100", "", false},
                                            {"h100", "h100", "pcie", false},
                                            {"h100", "h100"},
                                            {"h800", "h100", "", false},
                                            {"a800", "a100", "", false},
                                            {"a100 pcie 40", "a100-40", "", false},
                                            {"a100 40", "a100-40", "pcie", false},
                                            {"a100", "a100", "pcie", false},
                                            {"a100", "a100-40", "40gb"},
                                            {"a100", "a100-40", "40 gb"},
                                            {"a100 40", "a100-40"},
                                            {"a100 sxm4 40", "a100-40"},
                                            {"a100", "a100"},
                                            {"mi300x", "mi300x"},
                                            {"mi325x", "mi300x", "", false},
                                            {"mi350x", "mi355x", "", false},
                                            {"mi355x", "mi355x"}}};
constexpr std::string_view kFallback = "h100";

// The entry of a GPU, whose name may have hyphens for spaces; one without a topology if there is
// none.
GpuName entry_of(std::string_view gpu) {
  std::string plain(gpu);
  for (char& c : plain) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::replace(plain.begin(), plain.end(), '-', ' ');
  for (const GpuName& name : kGpus) {
    const bool fits =
        plain.find(name.word) != std::string::npos && plain.find(name.also) != std::string::npos;
    if (fits) return name;
  }
  return {};
}

std::string until(std::string_view text, std::string_view ends) {
  std::string out(text.substr(0, text.find_first_of(ends)));
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// Gives the file of a shipped topology the network that a text states, if it states one.
void state_network(const StatedNetwork& network, nlohmann::json& topology) {
  const bool says_nothing =
      !network.bandwidth_of_device && network.delay == 1.0 && !network.reduces;
  if (says_nothing) return;
  for (nlohmann::json& link : topology["links"]) {
    if (link["joins"] != name_of(LinkScope::kAll)) continue;
    if (network.bandwidth_of_device) {
      link["bandwidth_gb_per_s"] = network.bandwidth_of_device->value();
    }
    link["latency_us"] = network.delay * link["latency_us"].get<double>();
    if (network.reduces) link["reduces"] = true;
  }
}

}  // namespace

double RowPrediction::error_percent() const {
  return 100.0 * (predicted_us - measured_us) / measured_us;
}

ErrorSummary summarize_errors(std::span<const double> errors_percent) {
  std::vector<double> absolute;
  absolute.reserve(errors_percent.size());
  for (const double error : errors_percent) absolute.push_back(std::abs(error));
  ErrorSummary summary;
  summary.points = errors_percent.size();
  summary.median_ape_percent = reports::median(absolute);
  summary.p90_ape_percent = reports::percentile(absolute, 0.9);
  summary.mean_ape_percent = reports::mean(absolute);
  summary.bias_percent = reports::mean(errors_percent);
  return summary;
}

ErrorSummary summarize(std::span<const RowPrediction> rows) {
  std::vector<double> errors;
  std::size_t unpriced = 0;
  for (const RowPrediction& row : rows) {
    if (row.is_priced()) {
      errors.push_back(row.error_percent());
    } else {
      ++unpriced;
    }
  }
  ErrorSummary summary = summarize_errors(errors);
  summary.unpriced = unpriced;
  return summary;
}

std::string_view size_band(Bytes bytes) {
  if (bytes < 1e6) return kSizeBands[0];
  return bytes < 64e6 ? kSizeBands[1] : kSizeBands[2];
}

std::string measurement_family(const MeasurementSet& set) {
  const std::optional<double> host = stated_host_bandwidth(set.inter, set.gpus_per_host);
  std::string fabric = until(set.inter, " ,(");
  if (fabric == "none") fabric = "one host";
  return until(set.gpu, "(") + (fabric.empty() ? "" : ", " + fabric) +
         (host ? ", " + format_double(*host) + " GB/s a host" : "");
}

std::string scale_of(const MeasurementSet& set) {
  return std::to_string(set.hosts) + "x" + std::to_string((set.ranks + set.hosts - 1) / set.hosts);
}

std::string_view topology_of_gpu(std::string_view gpu) { return entry_of(gpu).topology; }

bool has_own_topology(std::string_view gpu) {
  const GpuName entry = entry_of(gpu);
  return !entry.topology.empty() && entry.is_of_gpu;
}

bool is_topology_of(const Topology& topology, std::string_view gpu) {
  const GpuName entry = entry_of(gpu);
  if (entry.topology.empty() || !entry.is_of_gpu) return false;
  if (topology.gpu() == entry.topology) return true;
  const bool has_own_entry = std::any_of(kGpus.begin(), kGpus.end(), [&](const GpuName& name) {
    return name.topology == topology.gpu();
  });
  return !has_own_entry && topology.gpu().starts_with(std::string(entry.topology) + "-");
}

std::string stand_in_warning(std::string_view gpu, std::string_view topology) {
  if (gpu.empty()) {
    return "the measurements do not name their GPU; " + std::string(topology) + " is used";
  }
  return "no topology of the GPU \"" + std::string(gpu) + "\" is shipped; " +
         std::string(topology) + " is used instead";
}

Topology topology_on(const ConfigStore& store, const std::string& name,
                     std::int64_t devices_per_host, const StatedNetwork& network) {
  const JsonChange states = [&](nlohmann::json& json) { state_network(network, json); };
  // If the hosts of the shipped topology have as many devices, the topology is used unchanged:
  // setting that number would remove an NVLink domain that is larger than a host.
  Topology whole = store.topology(name, states);
  if (whole.devices_per_host() == devices_per_host) return whole;
  return store.topology(name, devices_per_host, states);
}

TopologyChoice topology_for(const ConfigStore& store, const std::string& named,
                            const MeasurementSet& set) {
  std::string name = named;
  std::string warning;
  if (name.empty()) {
    const GpuName entry = entry_of(set.gpu);
    name = entry.topology.empty() ? kFallback : entry.topology;
    if (!has_own_topology(set.gpu)) warning = stand_in_warning(set.gpu, name);
  }
  const std::int64_t per_host = (set.ranks + set.hosts - 1) / set.hosts;
  const bool takes_network = named.empty() && set.hosts > 1;
  const StatedNetwork network =
      takes_network ? stated_network(set.inter, per_host) : StatedNetwork();
  return {topology_on(store, name, per_host, network), std::move(warning)};
}

GroupSpan span_on(const MeasurementSet& set, const Topology& topology) {
  GroupSpan span = set.span();
  if (topology.has_wide_domains()) {
    span.domains = (set.ranks + topology.domain_devices() - 1) / topology.domain_devices();
    span.ranks_per_domain = ranks_of_part(span.ranks, span.domains);
  }
  return span;
}

std::optional<Coverage> coverage_of(std::span<const RowPrediction> rows) {
  std::vector<double> widths;
  std::size_t within = 0;
  for (const RowPrediction& row : rows) {
    if (!row.is_priced() || !row.log_error) continue;
    const double half = kNormalQuantile * *row.log_error;
    widths.push_back(100.0 * std::expm1(half));
    if (std::abs(std::log(row.predicted_us / row.measured_us)) <= half) ++within;
  }
  if (widths.empty()) return std::nullopt;
  return Coverage{widths.size(),
                  100.0 * static_cast<double>(within) / static_cast<double>(widths.size()),
                  reports::percentile(widths, 0.5).value_or(0.0)};
}

std::vector<RowPrediction> predict_set(const CostModel& model, const GroupSpan& span,
                                       const MeasurementSet& set, std::size_t index) {
  std::vector<RowPrediction> out;
  out.reserve(set.rows.size());
  for (std::size_t i = 0; i < set.rows.size(); ++i) {
    const MeasuredRow& row = set.rows[i];
    const CollectiveQuery query{.kind = row.collective,
                                .full_bytes = row.bytes,
                                .group = span,
                                .gpus_per_process = set.gpus_per_process};
    const Price price = model.price(query);
    out.push_back({.set = index,
                   .row = i,
                   .collective = row.collective,
                   .bytes = row.bytes,
                   .measured_us = row.time_us,
                   .predicted_us = price.total.value(),
                   .impossible = std::string(price.impossible),
                   .log_error = model.log_error(query)});
  }
  return out;
}

std::vector<RowPrediction> predict(const Stack& stack, const TopologyOf& topology_of,
                                   std::span<const MeasurementSet> sets) {
  std::vector<RowPrediction> out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const Topology topology = topology_of(sets[i]);
    const std::unique_ptr<CostModel> model =
        stack.straggler.decorate(make_collective_model(stack.collective_model, topology));
    std::vector<RowPrediction> rows = predict_set(*model, span_on(sets[i], topology), sets[i], i);
    out.insert(out.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
  }
  return out;
}

std::vector<KernelPrediction> predict_kernels(const Stack& stack, const TopologyOf& topology_of,
                                              std::span<const MeasurementSet> sets) {
  std::vector<KernelPrediction> out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const MeasurementSet& set = sets[i];
    if (set.kernels.empty()) continue;
    const Topology topology = topology_of(set);
    const std::unique_ptr<ComputeModel> model = make_compute_model(stack.compute_model, topology);
    for (std::size_t k = 0; k < set.kernels.size(); ++k) {
      const MeasuredKernel& row = set.kernels[k];
      KernelPrediction& kernel = out.emplace_back();
      kernel = {.set = i, .row = k, .kernel = row.kernel, .measured_us = row.time_us};
      if (row.iterations) kernel.calls = static_cast<double>(*row.iterations);
      const std::optional<KernelQuery> query = kernel_query(row);
      if (!query || lacks_tf32_rate(*query, topology)) continue;
      const double us = model->price(*query).total.value();
      if (us > 0.0) kernel.predicted_us = us;
    }
  }
  return out;
}

double KernelPrediction::error_percent() const {
  return 100.0 * (*predicted_us - measured_us) / measured_us;
}

double KernelPrediction::us_off() const {
  return predicted_us ? calls * std::abs(*predicted_us - measured_us) : 0.0;
}

std::vector<KernelErrors> kernel_errors(std::span<const KernelPrediction> kernels) {
  std::vector<KernelErrors> out;
  for (const KernelPrediction& first : kernels) {
    const auto is_of_kind = [&](const KernelErrors& other) { return other.kernel == first.kernel; };
    if (std::any_of(out.begin(), out.end(), is_of_kind)) continue;
    KernelErrors& group = out.emplace_back();
    group.kernel = first.kernel;
    std::vector<double> errors;
    std::size_t unpriced = 0;
    double predicted_us = 0.0;
    for (const KernelPrediction& kernel : kernels) {
      if (kernel.kernel != group.kernel) continue;
      if (!kernel.predicted_us) {
        ++unpriced;
        continue;
      }
      errors.push_back(kernel.error_percent());
      group.measured_us += kernel.calls * kernel.measured_us;
      predicted_us += kernel.calls * *kernel.predicted_us;
    }
    group.errors = summarize_errors(errors);
    group.errors.unpriced = unpriced;
    if (group.measured_us > 0.0) {
      group.total_percent = 100.0 * (predicted_us / group.measured_us - 1.0);
    }
  }
  return out;
}

}  // namespace shardlab
