// What the source of a log says about the network between its hosts.
//
//   const StatedNetwork network = stated_network("EFA, 4 x 100 Gb/s per node (p4d)", 8);
//   network.bandwidth_of_device      // 6.25 GB/s
//   network.delay                    // 2.2
//
// Bandwidths are read from texts such as "8 x 400 Gb/s per node", "HDR 200 Gb/s, 8 NICs/node", "one
// 400 Gb/s NIC per GPU", "400 Gb/s a GPU" and "1.6 Tb/s per node"; Gbit/s and Gbps are Gb/s too,
// and hosts are nodes too. "Below 400 Gb/s" states no rate. Slingshot-11 and ConnectX-8 without a
// rate have 200 and 400 Gb/s a port (their data sheets). All links of a host count, also where
// there are more than devices; a device that runs alone on its host uses one of up to eight. The
// network adds up if the text names SHARP, as in "SHARP manifest", but not as in "no SHARP",
// "without SHARP", "SHARP off" or "NVLink SHARP". CollNet alone does not count: NCCL falls back
// where SHARP is not set up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"

namespace shardlab {

struct StatedNetwork {
  std::optional<GBps> bandwidth_of_device;  // nothing if the text states none
  // How many times as long as on InfiniBand or RoCE one step takes: 2.2 on AWS's EFA, 20 on
  // GPUDirect-TCPX, 3 on TCPXO and other TCP, 1.2 on Slingshot, 1.5 on the RoCE of Google's A3
  // Ultra and A4 (its plugin is called gIB), 1 elsewhere. Source: ratios of small messages in
  // configs/measurements. Status: fitted, to few clusters.
  double delay = 1.0;
  bool reduces = false;  // SHARP: the switches of the network add up
};

// The first rate of a text, written as "200 Gb/s", "200 Gbit/s", "200 Gbps" or the same with T. The
// positions are those of the number and of what follows the unit.
struct StatedRate {
  std::size_t begin = 0;
  std::size_t end = 0;
  double gigabits = 0.0;  // a second
};
// Nothing if no number stands before the first unit.
[[nodiscard]] std::optional<StatedRate> stated_rate(std::string_view text);

// The delays that StatedNetwork can have, in rising order.
[[nodiscard]] std::vector<double> stated_delays();

// `inter` is MeasurementSet::inter, and `devices_per_host` the devices of a host that take part.
[[nodiscard]] StatedNetwork stated_network(std::string_view inter, std::int64_t devices_per_host);

}  // namespace shardlab
