// Where the ranks of a simulated run sit, and which links join them.
#include <algorithm>
#include <cmath>
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace simulated_mesh_section {

using namespace reports;

constexpr std::int64_t kMostHosts = 4;   // if a mesh has more hosts, one is drawn
constexpr std::int64_t kMostRanks = 64;  // if a host has more ranks, so many are drawn

std::string coordinate_of(const MeshOnHosts& mesh, std::int64_t rank) {
  if (mesh.dims.size() < 2) return "";  // the rank's number says it
  std::string text;
  for (const SimulatedMeshDim& dim : mesh.dims) {
    text += (text.empty() ? "" : ",") + std::to_string(rank / dim.stride % dim.size);
  }
  return text;
}

std::string dim_name(const MeshOnHosts& mesh, std::size_t index) {
  const std::string& name = mesh.dims[index].name;
  return "dim " + std::to_string(index) + (name.empty() ? "" : ", " + name);
}

std::string figure(double value) { return fixed(value, value == std::round(value) ? 0 : 1); }

std::string links_of(const SimulatedMeshDim& dim, std::int64_t ranks) {
  if (dim.link.empty()) return "its groups have one rank each";
  const std::int64_t groups = ranks / dim.size;
  return counted(groups, "group", "groups") + " of " + counted(dim.size, "rank", "ranks") +
         ", over " + dim.link +
         (dim.bandwidth_gb_per_s ? " at " + figure(*dim.bandwidth_gb_per_s) + " GB/s" : "") +
         (dim.latency_us ? " and " + figure(*dim.latency_us) + " us a step" : "");
}

HostPicture picture_of(const MeshOnHosts& mesh, std::int64_t ranks) {
  const std::int64_t per_host = mesh.devices_per_host;
  const std::int64_t hosts = (ranks - 1) / per_host + 1;
  const std::int64_t drawn = hosts <= kMostHosts ? hosts : 1;
  HostPicture picture;
  picture.id = "mesh";
  picture.title = "The ranks on their hosts, with the first group of each mesh dim.";
  for (std::int64_t host = 0; host < drawn; ++host) {
    const std::int64_t first = host * per_host;
    const std::int64_t here = std::min(per_host, ranks - first);
    HostBox box;
    box.title =
        "host " + std::to_string(host) +
        (here < per_host ? ", " + grouped(here) + " of " + grouped(per_host) + " devices" : "");
    for (std::int64_t rank = first; rank < first + std::min(here, kMostRanks); ++rank) {
      box.ranks.push_back({std::to_string(rank), coordinate_of(mesh, rank)});
    }
    picture.hosts.push_back(std::move(box));
  }
  if (hosts > drawn) {
    picture.more =
        "and " + grouped(hosts - drawn) + " more hosts" +
        (ranks % per_host == 0 ? " like this one"
                               : ", the last with " + counted(ranks % per_host, "rank", "ranks"));
  } else if (per_host > kMostRanks && ranks > kMostRanks) {
    picture.more = "and the other ranks of each host";
  }
  for (std::size_t d = 0; d < mesh.dims.size(); ++d) {
    const SimulatedMeshDim& dim = mesh.dims[d];
    HostGroup group{dim_name(mesh, d), links_of(dim, ranks), {}, false};
    for (std::int64_t i = 0; i < dim.size && dim.size > 1; ++i) {
      const std::int64_t rank = i * dim.stride;
      const auto host = static_cast<std::size_t>(rank / per_host);
      const auto place = static_cast<std::size_t>(rank % per_host);
      if (host >= picture.hosts.size() || place >= picture.hosts[host].ranks.size()) {
        group.goes_on = true;
        break;
      }
      group.members.push_back({host, place});
    }
    picture.groups.push_back(std::move(group));
  }
  return picture;
}

SectionContent render(const SimulationRecord& run) {
  SectionContent content;
  if (!run.hosts) return content;
  const MeshOnHosts& mesh = *run.hosts;
  content.blocks.emplace_back(Paragraph{
      "Each square is a rank with its number" +
      std::string(mesh.dims.size() > 1 ? " and, below it, its coordinate in the mesh" : "") +
      ". A line joins the ranks of the first group of a mesh dim; the other groups of that dim lie "
      "alike. Bandwidths are those of one device in one direction, over the slowest link that a "
      "group crosses."});
  content.blocks.emplace_back(picture_of(mesh, run.ranks));
  const SimulatedMeshDim* slowest = nullptr;
  std::size_t index = 0;
  for (std::size_t d = 0; d < mesh.dims.size(); ++d) {
    const SimulatedMeshDim& dim = mesh.dims[d];
    if (!dim.bandwidth_gb_per_s) continue;
    if (slowest == nullptr || *dim.bandwidth_gb_per_s < *slowest->bandwidth_gb_per_s) {
      slowest = &dim;
      index = d;
    }
  }
  const std::int64_t hosts = (run.ranks - 1) / mesh.devices_per_host + 1;
  content.answer = counted(run.ranks, "rank", "ranks") + " on " + counted(hosts, "host", "hosts") +
                   " of " + code(mesh.topology);
  content.answer += slowest == nullptr ? "; there is nothing to join."
                                       : "; " + dim_name(mesh, index) + " has the slowest links, " +
                                             slowest->link + " at " +
                                             figure(*slowest->bandwidth_gb_per_s) + " GB/s.";
  return content;
}

}  // namespace simulated_mesh_section

REPORT_SECTION(simulated_mesh){
    .id = "simulated_mesh",
    .title = "Mesh and links",
    .question = "Where do the ranks sit, and which links join them?",
    .order = 38,
    .render = simulated_mesh_section::render,
};

}  // namespace shardlab
