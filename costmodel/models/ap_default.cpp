// AutoParallel's model of collectives when it has no NCCL topology: DTensor's rings (dtensor.cpp),
// with an all-to-all at five times the price of its ring.
//
//   t = base + hops * hop_latency + (b * hops / n) / bandwidth * 1e6; 5 t for all_to_all
//   t and base in us; b full_bytes, rounded down, in GiB, divided by GB/s as DTensor does; n ranks;
//   hops n-1, for all_reduce 2(n-1); hop_latency in us; bandwidth in GB/s
// A group counts as being between hosts if its mesh dim's walk (GroupSpan::walk) exceeds the number
// of devices in an NVLink domain. Source: meta-pytorch/autoparallel at a54c252,
// cost_models/collective_runtime_estimation.py. Valid: for what AutoParallel decides without a
// topology. Status: ported.
#include <cmath>

#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr ParamSpec kParams[] = {
    {"base_latency_us", 6.6, 0.0, 1e6, "start-up time of any collective"},
    {"intra_host_hop_us", 0.6, 0.0, 1e6, "latency of one ring hop inside a host"},
    {"inter_host_hop_us", 2.7, 0.0, 1e6, "latency of one ring hop between hosts"},
    {"bandwidth_gb_per_s", 87.7, 1e-6, 1e9,
     "bandwidth inside a host, by which sizes in GiB are divided"},
    {"inter_host_factor", 0.22, 1e-9, 1e9,
     "bandwidth between hosts, as a multiple of the bandwidth inside a host"},
    {"all_to_all_factor", 5.0, 0.0, 1e6,
     "price of an all_to_all, as a multiple of the price of its ring"},
};

constexpr ContractExemption kExemptions[] = {
    {"one_rank_is_free", "the port charges base_latency_us for a group of one rank"},
};

class ApDefaultModel final : public CostModel {
 public:
  explicit ApDefaultModel(const ModelInput& input)
      : domain_devices_(input.topology.domain_devices()),
        base_latency_(input.params["base_latency_us"]),
        intra_hop_(input.params["intra_host_hop_us"]),
        inter_hop_(input.params["inter_host_hop_us"]),
        intra_bandwidth_(input.params["bandwidth_gb_per_s"]),
        inter_bandwidth_(intra_bandwidth_ * input.params["inter_host_factor"]),
        all_to_all_factor_(input.params["all_to_all_factor"]) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal) return {};
    const bool inter_host = query.group.walk > domain_devices_;
    const double n = static_cast<double>(query.group.ranks);
    const double hops = query.kind == Collective::kAllReduce ? 2 * (n - 1) : n - 1;
    const bool all_to_all = query.kind == Collective::kAllToAll;
    // AutoParallel rounds bytes down before it asks for a price.
    const double gib = std::floor(query.full_bytes) / kBytesPerGiB;
    const double latency = base_latency_ + hops * (inter_host ? inter_hop_ : intra_hop_);
    const double transfer =
        (gib * hops / n) / (inter_host ? inter_bandwidth_ : intra_bandwidth_) * 1e6;
    const double factor = all_to_all ? all_to_all_factor_ : 1.0;
    return Price::of(Micros(factor * latency), Micros(factor * transfer));
  }

 private:
  std::int64_t domain_devices_;
  double base_latency_;
  double intra_hop_;
  double inter_hop_;
  double intra_bandwidth_;
  double inter_bandwidth_;
  double all_to_all_factor_;
};

}  // namespace

COST_MODEL(ap_default){
    .name = "ap_default",
    .summary = "AutoParallel's model without a topology: DTensor's rings, all_to_all times five",
    .formula = "base + hops * hop + (GiB * hops / n) / (GB/s) * 1e6; all_to_all: 5 times that",
    .source = "meta-pytorch/autoparallel a54c252, cost_models/collective_runtime_estimation.py",
    .valid_range = "what AutoParallel decides without a topology, not what hardware does",
    .params = kParams,
    .exemptions = kExemptions,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<ApDefaultModel>(input);
    },
};

}  // namespace shardlab
