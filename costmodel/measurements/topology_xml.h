// NCCL's topology XML (what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads) as a topology.
//
//   const Topology host = topology_of_nccl_xml(text, "host.xml", shipped_topologies);
//
// Read: GPUs (compute capability), their NVLinks (count, whether to a switch), CPUs, PCIe speeds
// and widths, network interfaces (speed in Mb/s). A dump of a multi-host NVLink domain holds all of
// its hosts, told apart by host_hash. What the XML does not hold (memory, peak rates, launch) is
// the first known topology's of the nearest compute capability, and the result's source says which.
// Source of the format: NCCL's user guide (NCCL_TOPO_DUMP_FILE) and its public files,
// src/graph/xml.cc and topo.h (link rates, CPU links). Status: derived; figures of the device as
// the known topology has them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/topology.h"

namespace shardlab {

// An element of the dialect: attributes and elements; text between elements is not kept.
struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  // The value, or nothing.
  [[nodiscard]] const std::string* attribute(std::string_view key) const;
};

// One element with all that it holds. Comments, a prolog and the five named entities are
// understood; other markup is an error. Throws ConfigError with the line.
[[nodiscard]] XmlElement parse_xml(std::string_view text, const std::string& file);

// Throws ConfigError: not that dialect, no GPU, hosts that differ. `known` is not empty.
[[nodiscard]] Topology topology_of_nccl_xml(std::string_view text, const std::string& file,
                                            std::span<const Topology> known);

}  // namespace shardlab
