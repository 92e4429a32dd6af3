#include "runner/evaluation/price_curves.h"

#include <algorithm>
#include <array>

#include "sim/mesh.h"
#include "strategies/select/evaluator.h"

namespace shardlab {
namespace {

// A change of one placement, and the collective that it takes.
struct CollectiveChange {
  Collective collective;
  Placement from;
  Placement to;
};

// "32 ranks, 8 hosts in one NVLink domain". Where each host is a domain of its own, only the hosts
// are counted.
std::string curve_group_label(const DeviceMesh& mesh, const Topology& topology) {
  const auto counted = [](std::int64_t count, const std::string& noun) {
    return count == 1 ? "one " + noun : std::to_string(count) + " " + noun + "s";
  };
  const GroupSpan span = mesh.span(0, topology);
  std::string label = mesh.text() + " ranks, " + counted(span.hosts, "host");
  if (span.domains < span.hosts) label += " in " + counted(span.domains, "NVLink domain");
  return label;
}

reports::PriceCurve price_curve_of(const CollectiveChange& change, const TransitionPricer& pricer,
                                   const DeviceMesh& mesh) {
  const double n = static_cast<double>(mesh.size());
  reports::PriceCurve curve;
  curve.collective = std::string(to_string(change.collective));
  curve.mesh = mesh.text();
  for (double bytes = 1024; bytes <= 1024.0 * 1024 * 1024; bytes *= 4) {
    const double local = change.collective == Collective::kAllGather ? bytes / n : bytes;
    const Price price = pricer.price(change.from, change.to, 0, local, DType::kBF16).price;
    curve.bytes.push_back(bytes);
    curve.price_us.push_back(price.is_possible() ? std::optional(price.total.value())
                                                 : std::nullopt);
  }
  return curve;
}

}  // namespace

std::vector<reports::PriceCurve> price_curves(std::span<const Stack> stacks, const Stack& reference,
                                              const Topology& topology) {
  const std::array<CollectiveChange, 4> changes = {{
      {Collective::kAllGather, Placement::shard(0), Placement::replicate()},
      {Collective::kReduceScatter, Placement::partial(), Placement::shard(0)},
      {Collective::kAllReduce, Placement::partial(), Placement::replicate()},
      {Collective::kAllToAll, Placement::shard(0), Placement::shard(1)},
  }};
  const std::int64_t per_host = topology.devices_per_host();
  const std::array<DeviceMesh, 2> meshes = {DeviceMesh::make({std::max<std::int64_t>(2, per_host)}),
                                            DeviceMesh::make({8 * per_host})};
  std::vector<Stack> drawn(stacks.begin(), stacks.end());
  if (std::ranges::find(drawn, reference.name, &Stack::name) == drawn.end()) {
    drawn.push_back(reference);
  }
  std::vector<reports::PriceCurve> curves;
  for (const Stack& stack : drawn) {
    StackEvaluator evaluator(stack, topology);
    for (const DeviceMesh& mesh : meshes) {
      const TransitionPricer& pricer = evaluator.on(mesh).pricer();
      for (const CollectiveChange& change : changes) {
        reports::PriceCurve& curve = curves.emplace_back(price_curve_of(change, pricer, mesh));
        curve.stack = stack.name;
        curve.group = curve_group_label(mesh, topology);
      }
    }
  }
  return curves;
}

}  // namespace shardlab
