// DTensor's default model of collectives, as PyTorch ships it: rings with one bandwidth inside a
// host, and 0.22 of it between hosts.
//
//   t = base + hops * hop_latency + (b * hops / n) / bandwidth * 1e6
//   t and base in us; b full_bytes in GiB (bytes / 1024^3); n ranks; hops n-1, for all_reduce
//   2(n-1); hop_latency in us; bandwidth in GB/s
// PyTorch divides GiB by GB/s as if they were the same unit, which is 7.4 % off. That quirk is kept
// on purpose. A group counts as being between hosts if its mesh dim's walk (GroupSpan::walk)
// exceeds the number of devices in an NVLink domain. Source: PyTorch 2.13.0,
// torch/distributed/tensor/_collective_utils.py, allgather_cost and its neighbours. The constants
// are NCCL's tuning figures for Ampere and Hopper: base 6.6 us, 0.6 us per hop over NVLink, 2.7 us
// per hop over the network. Valid: for what DTensor decides. Not: for what hardware does. Status:
// ported (formula and constants), tested bit for bit against PyTorch 2.13.0.
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
};

constexpr ContractExemption kExemptions[] = {
    {"one_rank_is_free", "the release charges base_latency_us for a group of one rank"},
};

class DTensorModel final : public CostModel {
 public:
  explicit DTensorModel(const ModelInput& input)
      : domain_devices_(input.topology.domain_devices()),
        base_latency_(input.params["base_latency_us"]),
        intra_hop_(input.params["intra_host_hop_us"]),
        inter_hop_(input.params["inter_host_hop_us"]),
        intra_bandwidth_(input.params["bandwidth_gb_per_s"]),
        inter_bandwidth_(intra_bandwidth_ * input.params["inter_host_factor"]) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal) return {};
    const bool inter_host = query.group.walk > domain_devices_;
    const double n = static_cast<double>(query.group.ranks);
    const double hops = query.kind == Collective::kAllReduce ? 2 * (n - 1) : n - 1;
    const double gib = query.full_bytes / kBytesPerGiB;
    // The order of operations is PyTorch's, since published figures depend on the last digit.
    const double latency = base_latency_ + hops * (inter_host ? inter_hop_ : intra_hop_);
    const double seconds = (gib * hops / n) / (inter_host ? inter_bandwidth_ : intra_bandwidth_);
    return Price::of(Micros(latency), Micros(seconds * 1e6));
  }

 private:
  std::int64_t domain_devices_;
  double base_latency_;
  double intra_hop_;
  double inter_hop_;
  double intra_bandwidth_;
  double inter_bandwidth_;
};

}  // namespace

COST_MODEL(dtensor){
    .name = "dtensor",
    .summary = "PyTorch DTensor's default model: rings, constants of Ampere and Hopper",
    .formula = "base + hops * hop + (GiB * hops / n) / (GB/s) * 1e6; hops = n-1, all_reduce 2(n-1)",
    .source = "PyTorch 2.13.0, torch/distributed/tensor/_collective_utils.py",
    .valid_range =
        "what DTensor decides, not what hardware does: it divides GiB by GB/s, which is 7.4 % off",
    .params = kParams,
    .exemptions = kExemptions,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<DTensorModel>(input);
    },
};

}  // namespace shardlab
