#include "runner/evaluation/measured_groups.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "costmodel/base/text.h"
#include "runner/base/text_table.h"
#include "strategies/select/price_basis.h"

namespace shardlab {
namespace {

// How many gaps a line of text names.
constexpr std::size_t kMostGapsNamed = 4;

std::optional<SizeRange> range_of(Collective kind, const GroupSpan& span,
                                  const MeasuredRanges& measured) {
  const auto gap_at = [&](Bytes bytes) { return measured.gap({kind, bytes, span}); };
  const auto least = gap_at(0.0);
  const auto most = gap_at(std::numeric_limits<Bytes>::max());
  if (least && !least->below) return std::nullopt;
  return SizeRange{
      .smallest = least ? *least->below : 0.0,
      .largest = most && most->above ? *most->above : std::numeric_limits<Bytes>::infinity()};
}

MeshGroup group_of(std::string along, std::vector<int> mesh_dims, const GroupSpan& span,
                   const MeasuredRanges& measured) {
  MeshGroup group{std::move(along), std::move(mesh_dims), span, {}};
  for (std::size_t i = 0; i < kPlannedCollectives.size(); ++i) {
    group.ranges[i] = range_of(kPlannedCollectives[i], span, measured);
  }
  return group;
}

std::size_t not_measured(const std::vector<MeshGroup>& groups) {
  std::size_t count = 0;
  for (const MeshGroup& group : groups) {
    count += static_cast<std::size_t>(
        std::ranges::count_if(group.ranges, [](const auto& range) { return !range; }));
  }
  return count;
}

}  // namespace

std::string group_text(std::int64_t ranks, std::int64_t hosts) {
  return std::to_string(ranks) + (ranks == 1 ? " rank on " : " ranks on ") + std::to_string(hosts) +
         (hosts == 1 ? " host" : " hosts");
}

std::vector<MeshGroup> mesh_groups(const DeviceMesh& mesh, const Topology& topology,
                                   const MeasuredRanges& measured) {
  std::vector<MeshGroup> groups;
  std::vector<int> dims;
  MeshLayout whole;
  for (int dim = 0; dim < mesh.ndim(); ++dim) {
    if (mesh.size(dim) < 2) continue;
    dims.push_back(dim);
    whole = whole.concatenate(mesh.layout(dim));
    const std::string along = mesh.names().empty() ? "mesh dim " + std::to_string(dim)
                                                   : mesh.names()[static_cast<std::size_t>(dim)];
    groups.push_back(group_of(along, {dim}, mesh.span(dim, topology), measured));
  }
  if (dims.size() > 1) {
    const GroupSpan span = mesh.span(whole.coalesce(), mesh.size(), topology);
    groups.push_back(group_of("the whole mesh", dims, span, measured));
  }
  return groups;
}

nlohmann::json mesh_groups_json(const std::vector<MeshGroup>& groups) {
  nlohmann::json out = nlohmann::json::array();
  for (const MeshGroup& group : groups) {
    for (std::size_t i = 0; i < kPlannedCollectives.size(); ++i) {
      const std::optional<SizeRange>& range = group.ranges[i];
      nlohmann::json row = {
          {"mesh_dims", group.mesh_dims}, {"ranks", group.span.ranks},
          {"hosts", group.span.hosts},    {"collective", to_string(kPlannedCollectives[i])},
          {"smallest_bytes", nullptr},    {"largest_bytes", nullptr}};
      if (range) {
        row["smallest_bytes"] = range->smallest;
        row["largest_bytes"] = range->largest;
      }
      out.push_back(std::move(row));
    }
  }
  return out;
}

std::string mesh_groups_text(const std::vector<MeshGroup>& groups, const DeviceMesh& mesh,
                             const Topology& topology, const TextStyle& style) {
  std::vector<std::string> header = {"group", "along"};
  for (const Collective kind : kPlannedCollectives) header.emplace_back(to_string(kind));
  TextTable table(style, std::move(header));
  for (const MeshGroup& group : groups) {
    std::vector<std::string> row = {group.text(), group.along};
    for (const std::optional<SizeRange>& range : group.ranges) {
      row.push_back(range ? format_bytes(range->smallest) + " to " + format_bytes(range->largest)
                          : "not measured");
    }
    table.add(std::move(row));
  }
  const std::size_t missing = not_measured(groups);
  const std::size_t all = groups.size() * kPlannedCollectives.size();
  std::string text = "  groups of mesh " + mesh.text() + " on " + topology.name() + ", with " +
                     std::to_string(topology.devices_per_host()) +
                     " devices a host, and the sizes at which they were measured:\n" + table.text();
  if (missing == 0) {
    return text + "  every collective was measured among all of these groups\n";
  }
  return text + "  " + std::to_string(missing) + " of " + std::to_string(all) +
         " collectives of these groups have no rows; their prices are carried over from the groups "
         "and collectives that have some\n";
}

std::optional<reports::PriceBasis> basis_of(const Plan& plan, const Redistributor& redistributor,
                                            const MeasuredRanges& measured) {
  if (measured.empty()) return std::nullopt;
  reports::PriceBasis basis;
  add_steps(basis, plan, redistributor, measured);
  return basis;
}

Price GapNotes::price(const CollectiveQuery& query) const {
  if (!measured_.empty()) {
    if (const std::optional<MeasuredGap> gap = measured_.gap(query)) {
      const std::lock_guard lock(mutex_);
      const std::string text = gap->text();
      if (std::ranges::find(gaps_, text) == gaps_.end()) gaps_.push_back(text);
    }
  }
  return model_.price(query);
}

std::vector<std::string> GapNotes::not_measured() const {
  const std::lock_guard lock(mutex_);
  return gaps_;
}

std::string carried_over_text(const std::vector<std::string>& not_measured) {
  if (not_measured.empty()) return "";
  const std::size_t named = std::min(not_measured.size(), kMostGapsNamed);
  std::string text;
  for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + not_measured[i];
  if (named < not_measured.size()) {
    text += ", and " + std::to_string(not_measured.size() - named) + " more";
  }
  return "carried over from measured groups or sizes, because these were not measured: " + text;
}

}  // namespace shardlab
