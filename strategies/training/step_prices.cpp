#include "strategies/training/step_prices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardlab {
namespace {

bool leaves_domain(const GroupSpan& span) { return span.domains > 1; }

// Sets the NVLink domains of a group as if as many of its ranks as a domain has room for were in
// each, and the other devices of the domain were idle. The last domain has the fewest ranks.
void fill_domains(const LayoutMode& group, const Topology& topology, GroupSpan& span) {
  const std::int64_t in_each =
      std::max<std::int64_t>(1, std::min(group.size, topology.domain_devices() / group.stride));
  span.domains = (group.size + in_each - 1) / in_each;
  span.ranks_per_domain = group.size - (span.domains - 1) * in_each;
}

}  // namespace

GroupSpan span_of(const LayoutMode& group, std::int64_t world, const Topology& topology) {
  GroupSpan span =
      DeviceMesh::make({world}).span(MeshLayout({group}), group.size * group.stride, topology);
  if (topology.domain_devices() > topology.devices_per_host()) fill_domains(group, topology, span);
  return span;
}

StepGroups::StepGroups(const TrainingRun& run, const Topology& topology) {
  const Spread& spread = run.spread;
  const DataGroups data = data_groups(run);
  const auto groups = [&](std::int64_t ranks, std::int64_t stride) {
    return span_of({ranks, stride}, spread.ranks(), topology);
  };
  tensor = groups(spread.tp, 1);
  context = groups(spread.cp, spread.tp);
  experts = groups(spread.ep, 1);
  shards = groups(data.shards, spread.tp);
  replicas = groups(data.replicas, spread.tp * data.shards);
  expert_shards = groups(data.expert_shards, spread.ep);
  expert_replicas = groups(data.expert_replicas, spread.ep * data.expert_shards);
  neighbours = groups(2, spread.tp * spread.cp * run.data_ranks());
}

StepPrices::StepPrices(const TrainingRun& run, const StepModel& model)
    : model_(model), groups_(run, model.topology) {}

const GroupSpan& StepPrices::span(WorkGroup group) const {
  switch (group) {
    case WorkGroup::kContext:
      return groups_.context;
    case WorkGroup::kExperts:
      return groups_.experts;
    default:
      return groups_.tensor;
  }
}

double StepPrices::kernel_us(const RankKernel& kernel) const {
  const StepFactors& factors = model_.factors;
  double price = model_.kernels.price(kernel.query).total.value() / factors.rate;
  if (kernel.query.gemm && kernel.query.gemm->batch > 1) price /= factors.grouped;
  switch (kernel.kind) {
    case KernelClass::kGemm:
      return price / factors.gemm;
    case KernelClass::kLowGemm:
      return price / factors.low_gemm;
    case KernelClass::kAttention:
      return price / factors.attention;
    case KernelClass::kOther:
      break;
  }
  return price / factors.memory;
}

double StepPrices::memory_us(double bytes) const {
  if (bytes <= 0) return 0.0;
  return kernel_us({.query = {.kind = Kernel::kElementwise, .bytes = bytes, .dtype = DType::kF32},
                    .name = "memory"});
}

double StepPrices::collective_us(Collective kind, double bytes, const GroupSpan& span) const {
  if (bytes <= 0 || span.ranks <= 1) return 0.0;
  const Price price = model_.collectives.price({kind, bytes, span});
  const double factor = leaves_domain(span) ? model_.factors.network : model_.factors.links;
  return price.total.value() - price.transfer.value() + price.transfer.value() / factor;
}

double StepPrices::collective_us(const RankCollective& collective) const {
  const GroupSpan& group = span(collective.group);
  // What travels in a ring passes one link at a time.
  if (collective.kind == Collective::kSendRecv) {
    GroupSpan pair = group;
    pair.ranks = std::min<std::int64_t>(2, group.ranks);
    pair.hosts = std::min<std::int64_t>(2, group.hosts);
    pair.domains = std::min<std::int64_t>(2, group.domains);
    pair.ranks_per_host = ranks_of_part(pair.ranks, pair.hosts);
    pair.ranks_per_domain = ranks_of_part(pair.ranks, pair.domains);
    return collective_us(collective.kind, collective.full_bytes, pair);
  }
  return collective_us(collective.kind, collective.full_bytes, group);
}

std::vector<ResourceUse> StepPrices::uses(const GroupSpan& span, double bytes, double us) const {
  const double of_memory = us > 0 ? share_of_memory(model_.factors.memory_passes * bytes, us) : 0.0;
  return {{StepResource::kMultiprocessors, model_.factors.collective_share},
          {StepResource::kMemory, of_memory},
          {leaves_domain(span) ? StepResource::kNetwork : StepResource::kLinks, 1.0}};
}

double StepPrices::share_of_memory(double bytes, double us) const {
  const double fastest = transfer_time(bytes, model_.topology.device().memory_bandwidth).value();
  return std::min(1.0, fastest / us);
}

double PricedPiece::first_beside(const PricedPiece& collective) const {
  return collective.group == WorkGroup::kContext ? first_attention_us : first_us;
}

double PricedPiece::last_beside(const PricedPiece& collective) const {
  return collective.group == WorkGroup::kContext ? last_attention_us : last_us;
}

double PricedPiece::us() const {
  return std::accumulate(kernels_us.begin(), kernels_us.end(), 0.0);
}

std::vector<PricedPiece> priced(const std::vector<RankPiece>& pieces, const StepPrices& prices,
                                bool library) {
  std::vector<PricedPiece> result;
  for (const RankPiece& piece : pieces) {
    PricedPiece out;
    if (piece.collective) {
      out.is_collective = true;
      out.beside = piece.collective->beside;
      out.leads = piece.collective->leads;
      out.early = piece.collective->early;
      out.kind = piece.collective->kind;
      out.group = piece.collective->group;
      out.collective_us = prices.collective_us(*piece.collective);
      out.uses = prices.uses(prices.span(piece.collective->group), piece.collective->full_bytes,
                             out.collective_us);
      result.push_back(std::move(out));
      continue;
    }
    out.waits = piece.waits;
    // How long kernels of one class, from the first kernel on, or up to the last, take.
    bool only_gemms = true;
    bool only_attention = true;
    for (const RankKernel& kernel : piece.kernels) {
      const double us = prices.kernel_us(kernel);
      out.kernels_us[static_cast<std::size_t>(kernel.kind)] += us;
      out.bytes += kernel.query.bytes;
      // Transformer Engine launches the GEMM of each expert by itself.
      const bool is_grouped = kernel.query.gemm && kernel.query.gemm->batch > 1;
      out.kernels += is_grouped && library ? static_cast<int>(kernel.query.gemm->batch) : 1;
      const bool is_attention = kernel.kind == KernelClass::kAttention;
      const bool is_gemm = !is_attention && kernel.kind != KernelClass::kOther;
      only_gemms = only_gemms && is_gemm;
      only_attention = only_attention && is_attention;
      if (only_gemms) out.first_us += us;
      if (only_attention) out.first_attention_us += us;
      out.last_us = is_gemm ? out.last_us + us : 0.0;
      out.last_attention_us = is_attention ? out.last_attention_us + us : 0.0;
    }
    out.share_of_memory = out.us() > 0 ? prices.share_of_memory(out.bytes, out.us()) : 0.0;
    result.push_back(std::move(out));
  }
  return result;
}

}  // namespace shardlab
