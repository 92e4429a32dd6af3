#include "costmodel/base/index.h"
#include "costmodel/measurements/chakra_trace.h"
#include "runner/simulate/trace.h"
#include "runner/simulate/trace_groups.h"

namespace shardlab {

std::map<std::int64_t, ChakraMessages> chakra_traces(const DeviceMesh& mesh,
                                                     const Topology& topology,
                                                     const Schedule& schedule,
                                                     const Timeline& timeline) {
  TraceGroups groups(mesh, schedule);
  std::map<std::int64_t, ChakraMessages> traces;
  const ChakraMetadata metadata =
      chakra_message(ChakraRun{.topology = topology.name(),
                               .devices_per_host = topology.devices_per_host(),
                               .world_size = mesh.world_size()});
  for (const std::int64_t index : timeline.rank_indices) {
    traces[mesh.rank(index)].metadata = metadata;
  }
  for (const TimelineSpan& span : timeline.spans) {
    const ScheduledKernel& kernel = schedule.kernels[to_index(span.kernel)];
    ChakraNode node;
    node.id = static_cast<std::uint64_t>(span.kernel);
    node.name = kernel.name;
    node.after.assign(kernel.after.begin(), kernel.after.end());
    node.start_us = to_micros(span.arrived);
    node.duration_us = to_micros(span.ended - span.arrived);
    if (!kernel.mesh_dims.empty()) {
      node.collective = collective_from_name(kernel.name).value_or(Collective::kLocal);
      node.full_bytes = kernel.full_bytes;
      node.dtype = to_string(kernel.dtype);
      node.group = groups.of(span.kernel, span.rank_index);
    }
    traces[mesh.rank(span.rank_index)].nodes.push_back(chakra_message(node));
  }
  return traces;
}

}  // namespace shardlab
