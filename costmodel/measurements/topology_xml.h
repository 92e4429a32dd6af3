// NCCL's topology XML (what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads) as a topology.
//
//   const NcclTopology host = topology_of_nccl_xml(text, "host.xml", shipped_topologies);
//
// The reader uses the GPUs (compute capability and PCI device), their NVLinks (how many, and where
// they end), CPUs, PCIe speeds and widths, and network interfaces (speed in Mb/s, and the PCIe link
// of their slot, which may be slower). Where NVLinks join only pairs or larger blocks of a host's
// GPUs, these are a level of their own, and PCIe joins the host. A dump of an NVLink domain of
// several hosts holds all of these hosts, which differ in host_hash. RCCL writes <xgmi> for
// <nvlink>, the architecture of its GPUs as "gcn", and the number of their compute units as "sm";
// the rate of a link is that of the known topology of the architecture, or else that of RCCL's
// topo.h. Figures that the XML does not hold (memory, peak rates, launch) are those of the known
// topology of the GPU's PCI device, or else of the first one of the nearest compute capability (of
// AMD's GPUs, that of the most similar architecture); the source of the result names it, and a note
// says that it is another GPU. Source of the format: NCCL's user guide (NCCL_TOPO_DUMP_FILE) and
// the public files src/graph/xml.cc, topo.cc and topo.h of NCCL and RCCL. Status: derived; the
// figures of the device have the status that they have in the known topology.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/topology.h"

namespace shardlab {

// An element with its attributes and the elements inside it. Text between elements is not kept.
struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  // The value of an attribute; null if the element does not have it.
  [[nodiscard]] const std::string* attribute(std::string_view key) const;
};

// Reads one element and everything inside it. Comments, a prolog and the five named entities are
// understood; other markup is an error. Throws ConfigError with the line.
[[nodiscard]] XmlElement parse_xml(std::string_view text, const std::string& file);

// A topology, and what its reader should know of it: whole sentences, which name the file.
struct NcclTopology {
  Topology topology;
  std::vector<std::string> notes;
};

// Throws ConfigError if the text is not NCCL's dialect, has no GPU, or has hosts that differ.
// Assumes that `known` is not empty.
[[nodiscard]] NcclTopology topology_of_nccl_xml(std::string_view text, const std::string& file,
                                                std::span<const Topology> known);

}  // namespace shardlab
