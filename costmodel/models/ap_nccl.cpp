// AutoParallel's NCCL model: the formulas by which NCCL chooses algorithms, with curves on top that
// were fitted to machines with an NVSwitch.
//
//   t = the least of latency + bytes / (1000 * bandwidth) over the algorithms and protocols that
//       are weighed, in us, with the bandwidth in GB/s
//   one node with an NVSwitch           points measured at 2, 4 and 8 ranks, linear between them
//   2, 4, 8, 16 or 32 such nodes        NCCL's own tuning table; rings of an all_reduce by formula
//   all other groups                    the formulas of every algorithm and protocol
//   all_to_all                          copy engines, the network interface, or the SMs
//
// A letter after each figure gives its source:
//   N   NCCL's tuning source, as AutoParallel carries it
//   L   tuning logs of NCCL 2.27.5 on H100 with NVSwitch
//   E   fitted by AutoParallel's authors to nccl-tests on such machines
//   G   guessed by AutoParallel's authors, not measured
// Source: meta-pytorch/autoparallel at a54c252, autoparallel/cost_models/nccl_cost_model.py.
// Valid: H100 with NVSwitch, 2 to 256 GPUs; the authors validated no figure for Blackwell, nor for
// A100 on several nodes. Status: ported; equal to AutoParallel's golden points to 1e-12 relative.
#include "costmodel/models/ap_nccl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "costmodel/base/index.h"
#include "costmodel/base/units.h"
#include "costmodel/registry.h"

namespace shardlab::ap_nccl {
namespace {

constexpr double real(std::int64_t value) { return static_cast<double>(value); }

// Latencies in us, by algorithm, then by protocol. N.
using ByProtocol = std::array<double, 3>;
constexpr std::array<ByProtocol, 6> kBaseLatency = {
    {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {}, {}, {}, {}}};
constexpr std::array<ByProtocol, 6> kNvlinkLatency = {{{0.6, 1.25, 4.0},
                                                       {0.6, 1.9, 3.4},
                                                       {0.0, 0.0, 3.7},
                                                       {0.0, 0.0, 2.8},
                                                       {0.0, 0.0, 25.0},
                                                       {0.0, 0.0, 25.0}}};
constexpr std::array<ByProtocol, 6> kNetworkLatency = {{{5.0, 8.5, 14.0},
                                                        {2.7, 4.0, 14.0},
                                                        {0.0, 0.0, 31.0},
                                                        {0.0, 0.0, 30.0},
                                                        {0.0, 0.0, 18.0},
                                                        {0.0, 0.0, 20.9}}};

// Values for 1, 2, and 3 or more nodes.
using ByNodes = std::array<double, 3>;

// The figures of one architecture: N, except that the bandwidths are E, and for Blackwell G.
struct ArchitectureFigures {
  double intra;  // bandwidth of one GPU inside a node, GB/s
  double inter;  // bandwidth of one GPU between nodes, GB/s
  double channels;
  bool nvswitch;
  ByNodes tree_cap;        // GB/s of one channel
  ByNodes nvls_tree_cap;   // GB/s of one channel
  ByNodes ll_cap;          // GB/s of all channels; on several nodes the same for every architecture
  ByNodes ring_ll128_cap;  // GB/s of one channel
  ByNodes tree_ll128_cap;  // GB/s of one channel
  double nvls_efficiency;
};
constexpr std::array<ArchitectureFigures, 3> kFigures = {{
    {.intra = 87.7,
     .inter = 25.0,
     .channels = 12,
     .nvswitch = false,
     .tree_cap = {24.0, 23.6, 17.8},
     .nvls_tree_cap = {24.0, 23.6, 17.8},
     .ll_cap = {87.7, 39.0, 20.4},
     .ring_ll128_cap = {20.0, 20.0, 20.0},
     .tree_ll128_cap = {20.0, 20.0, 20.0},
     .nvls_efficiency = 0.0},
    {.intra = 320.0,
     .inter = 50.0,
     .channels = 16,
     .nvswitch = true,
     .tree_cap = {38.7, 41.4, 36.0},
     .nvls_tree_cap = {0.0, 57.7, 45.5},
     .ll_cap = {141.0, 39.0, 20.4},
     .ring_ll128_cap = {36.7, 36.7, 36.7},
     .tree_ll128_cap = {36.7, 36.7, 29.0},
     .nvls_efficiency = 0.85},
    {.intra = 640.0,
     .inter = 50.0,
     .channels = 16,
     .nvswitch = true,
     .tree_cap = {70.0, 42.8, 24.0},
     .nvls_tree_cap = {0.0, 96.0, 43.8},
     .ll_cap = {282.0, 39.0, 20.4},
     .ring_ll128_cap = {40.0, 40.0, 40.0},
     .tree_ll128_cap = {55.6, 31.67, 20.0},
     .nvls_efficiency = 0.74},
}};

// Factors on a tree's bandwidth, by protocol, then by floor(log2(bytes / 64)). N.
constexpr std::array<SizeTable, 3> kTreeCorrection = {
    {{{1,   1,   1,   1,   0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
       0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1,   1,   1,   1,   1}},
     {{1,   1,   1,   1,   1,   0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
       0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1,   1,   1}},
     {{0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
       0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9}}}};

constexpr int kTreeSizes = 23;  // the last entry is never used for a tree
// Factors on other bandwidths, by floor(log2(bytes / 64)). E.
constexpr SizeTable kRingFit = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.1, 0.18, 0.3, 0.43, 0.63, 0.55, 0.78, 0.93, 1, 1, 1, 1, 1}};
constexpr SizeTable kNvlsTreeRamp = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0.1, 0.1, 0.15, 0.28, 0.41, 0.55, 0.72, 0.88, 1, 1, 1, 1, 1, 1, 1, 1}};
constexpr SizeTable kFullMeshRamp = {{0.01, 0.02, 0.03, 0.06, 0.1,  0.16, 0.25, 0.36,
                                      0.68, 0.68, 0.68, 0.68, 0.68, 0.68, 0.68, 0.68,
                                      0.68, 0.68, 0.79, 0.87, 0.87, 0.87, 0.87, 0.87}};
constexpr SizeTable kNicRamp = {{1,    1,    1,    1,    1,    1,    1, 1, 0.28, 0.28, 0.35, 0.43,
                                 0.62, 0.71, 0.82, 0.89, 0.92, 0.95, 1, 1, 1,    1,    1,    1}};

// One node with an NVSwitch: GB/s and us by ranks. E; that Blackwell has twice the bandwidth is G.
struct Point {
  double ranks;
  double value;
};
constexpr std::array<Point, 3> kGatherBandwidth = {{{2, 537}, {4, 434}, {8, 394}}};
constexpr std::array<Point, 3> kReduceBandwidth = {{{2, 324}, {4, 236}, {8, 267}}};
constexpr std::array<Point, 3> kGatherLatency = {{{2, 8}, {4, 17}, {8, 30}}};
constexpr std::array<Point, 3> kReduceLatency = {{{2, 10}, {4, 15}, {8, 31}}};
constexpr double kBlackwellFactor = 2.0;

// All-to-all through the network interfaces: us by nodes. E.
constexpr std::array<Point, 5> kNicLatency = {{{2, 37}, {4, 42}, {8, 60}, {16, 98}, {32, 290}}};
// The share of a network interface's bandwidth that is lost, times the number of nodes. E.
constexpr double kNicLoss = 0.44;
// All-to-all by copy engines on one node. E; Blackwell's bandwidth is G.
constexpr double kCopyEngineLatency = 50.0;              // us
constexpr double kCopyEngineBandwidth = 380.0;           // GB/s
constexpr double kCopyEngineBandwidthBlackwell = 675.0;  // GB/s
// The share of the bus's bandwidth that is used where SMs copy. E.
constexpr double kSmEfficiency = 0.7;

// NCCL 2.27.5's tuning table for several nodes, in us and GB/s. L. AutoParallel does not use the
// table for an all_reduce by rings.
struct Line {
  double latency = 0.0;
  double bandwidth = 0.0;  // 0 if the table has no such line
};
struct TableRow {
  std::int64_t nodes;
  std::int64_t ppn;
  std::array<Line, 3> ring;  // all_gather and reduce_scatter, by protocol
  std::array<Line, 3> tree;  // all_reduce, by protocol
  Line nvls_tree;            // all_reduce
};
constexpr std::array<TableRow, 20> kTable = {{
    {2, 1, {{{11.6, 48}, {22.5, 88.3}, {22.4, 96}}}, {{{16.8, 9.3}, {31, 31.2}, {36.4, 35.2}}}, {}},
    {2,
     2,
     {{{11.3, 52}, {21.8, 117.8}, {29.2, 128}}},
     {{{18, 16.6}, {33.5, 62.4}, {44.4, 70.4}}},
     {}},
    {2,
     4,
     {{{15.3, 44.6}, {29.4, 201.9}, {42.8, 219.4}}},
     {{{20.4, 16.6}, {38.5, 124.8}, {60.4, 140.8}}},
     {53, 160}},
    {2,
     8,
     {{{23.3, 41.6}, {44.6, 313.2}, {70, 409.6}}},
     {{{25.2, 16.6}, {48.5, 124.8}, {92.4, 140.8}}},
     {53, 266.7}},
    {4,
     1,
     {{{21.6, 27.2}, {39.5, 58.9}, {50.4, 64}}},
     {{{26.8, 4.9}, {48, 17.6}, {64.4, 18.8}}},
     {}},
    {4,
     2,
     {{{18.7, 23.3}, {33.6, 100.9}, {64, 109.7}}},
     {{{28, 8.7}, {50.5, 35.2}, {72.4, 37.5}}},
     {}},
    {4,
     4,
     {{{26.7, 21.8}, {48.8, 188.4}, {91.2, 204.8}}},
     {{{30.4, 8.7}, {55.5, 70.4}, {88.4, 75.1}}},
     {81, 80}},
    {4,
     8,
     {{{42.7, 21.1}, {79.2, 303.1}, {145.6, 396.4}}},
     {{{35.2, 8.7}, {65.5, 98.6}, {120.4, 122.4}}},
     {81, 160}},
    {8,
     1,
     {{{41.6, 23.3}, {73.5, 50.5}, {106.4, 54.9}}},
     {{{36.8, 4.9}, {65, 17.6}, {92.4, 18.8}}},
     {}},
    {8,
     2,
     {{{33.5, 21.8}, {57.2, 94.2}, {133.6, 102.4}}},
     {{{38, 8.7}, {67.5, 35.2}, {100.4, 37.5}}},
     {}},
    {8,
     4,
     {{{49.5, 21.1}, {87.6, 182.3}, {188, 198.2}}},
     {{{40.4, 8.7}, {72.5, 70.4}, {116.4, 75.1}}},
     {109, 80}},
    {8,
     8,
     {{{81.5, 20.7}, {148.4, 298.3}, {296.8, 390.1}}},
     {{{45.2, 8.7}, {82.5, 98.6}, {148.4, 122.4}}},
     {109, 160}},
    {16,
     1,
     {{{81.6, 21.8}, {141.5, 47.1}, {218.4, 51.2}}},
     {{{46.8, 4.9}, {82, 17.6}, {120.4, 18.8}}},
     {}},
    {16,
     2,
     {{{63.1, 21.1}, {104.4, 91.2}, {272.8, 99.1}}},
     {{{48, 8.7}, {84.5, 35.2}, {128.4, 37.5}}},
     {}},
    {16,
     4,
     {{{95.1, 20.7}, {165.2, 179.4}, {381.6, 195}}},
     {{{50.4, 8.7}, {89.5, 70.4}, {144.4, 75.1}}},
     {137, 80}},
    {16,
     8,
     {{{159.1, 20.6}, {286.8, 295.9}, {599.2, 387}}},
     {{{55.2, 8.7}, {99.5, 98.6}, {176.4, 122.4}}},
     {137, 160}},
    {32,
     1,
     {{{161.6, 21.1}, {277.5, 45.6}, {442.4, 49.5}}},
     {{{56.8, 4.9}, {99, 17.6}, {148.4, 18.8}}},
     {}},
    {32,
     2,
     {{{122.3, 20.7}, {198.8, 89.7}, {551.2, 97.5}}},
     {{{58, 8.7}, {101.5, 35.2}, {156.4, 37.5}}},
     {}},
    {32,
     4,
     {{{186.3, 20.6}, {320.4, 178}, {768.8, 193.5}}},
     {{{60.4, 8.7}, {106.5, 70.4}, {172.4, 75.1}}},
     {165, 80}},
    {32,
     8,
     {{{314.3, 20.5}, {563.6, 294.8}, {1204, 385.5}}},
     {{{65.2, 8.7}, {116.5, 98.6}, {204.4, 122.4}}},
     {165, 160}},
}};

const TableRow* row_of(const Group& group) {
  if (group.nodes > 32 || group.ppn > 8 ||
      !std::has_single_bit(static_cast<std::uint64_t>(group.nodes)) ||
      !std::has_single_bit(static_cast<std::uint64_t>(group.ppn))) {
    return nullptr;
  }
  // The table has powers of two: 2 to 32 nodes with 1 to 8 ranks each.
  const std::int64_t index = (log2_floor(group.nodes) - 1) * 4 + log2_floor(group.ppn);
  return &kTable[to_index(index)];
}

std::size_t bucket(std::int64_t nodes) { return nodes <= 1 ? 0 : nodes == 2 ? 1 : 2; }

template <std::size_t kCount>
double between(const std::array<Point, kCount>& points, double ranks) {
  if (ranks <= points.front().ranks) return points.front().value;
  for (std::size_t i = 1; i < kCount; ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (ranks <= b.ranks) {
      return a.value + (ranks - a.ranks) / (b.ranks - a.ranks) * (b.value - a.value);
    }
  }
  return points.back().value;
}

// A size as a position in a SizeTable: entry `low`, and `share` of the way to the next one.
struct SizePosition {
  int low = 0;
  double share = 0.0;
};
SizePosition position_of(std::int64_t bytes) {
  const std::int64_t units = bytes >> 6;
  if (units <= 0) return {};
  const double log = std::log2(real(units));
  const int low = static_cast<int>(log);
  if (low + 1 >= kSizes) return {kSizes - 1, 0.0};
  return {low, log - low};
}
double value_at(const SizeTable& table, const SizePosition& position) {
  const double low = table[to_index(position.low)];
  if (position.share == 0.0) return low;
  return low + position.share * (table[static_cast<std::size_t>(position.low) + 1] - low);
}

double time_us(double latency, double bytes, double bandwidth) {
  return bandwidth > 0 ? latency + bytes / (1000 * bandwidth) : kInfinity;
}

// The network bandwidth of one channel. With an NVSwitch, every GPU of a node reaches every network
// interface. E.
double network_channel(const Config& config, const Group& group) {
  const double intra = config.intra / config.channels;
  const double inter = config.inter / config.channels;
  return config.nvswitch && group.nodes > 1 ? std::min(intra, inter * real(group.ppn)) : inter;
}

double ring_steps(const Group& group, bool all_reduce) {
  return real(all_reduce ? 2 * (group.ranks - 1) : group.ranks - 1);
}

}  // namespace

Group group_of(const Config& config, const GroupSpan& span) {
  const std::int64_t inner = std::max<std::int64_t>(1, span.walk / span.ranks);
  const std::int64_t ppn =
      std::max<std::int64_t>(1, std::min(config.gpus_per_node / inner, span.ranks));
  return {span.ranks, span.ranks / ppn, ppn};
}

std::int64_t log2_floor(std::int64_t value) {
  if (value <= 0) return 0;
  return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
}

double interpolate(const SizeTable& table, std::int64_t bytes) {
  return value_at(table, position_of(bytes));
}

// Rings through more nodes reach their bandwidth at larger sizes: each factor below 1 is raised to
// a power that grows with the nodes, and factors at most double from one size to the next. E.
SizeTable ring_correction(std::int64_t nodes) {
  SizeTable table = kRingFit;
  if (nodes <= 4) return table;
  const double exponent = 1.0 + 0.2 * (real(log2_floor(nodes)) - 2);
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] < 1.0) table[i] = std::pow(table[i], exponent);
    if (i > 0) table[i] = std::min(table[i], 2 * table[i - 1]);
  }
  return table;
}

const SizeTable& nvls_tree_ramp() { return kNvlsTreeRamp; }
const SizeTable& full_mesh_ramp() { return kFullMeshRamp; }

bool is_eligible(const Config& config, const Group& group, bool all_reduce, Algorithm algorithm,
                 Protocol protocol) {
  if (algorithm == Algorithm::kRing) return true;
  if (algorithm == Algorithm::kTree) return all_reduce;
  if (protocol != Protocol::kSimple) return false;
  const bool nvls = config.nvswitch && config.architecture != ApArchitecture::kAmpere;
  switch (algorithm) {
    case Algorithm::kCollNetDirect:
      return config.collnet;
    case Algorithm::kCollNetChain:
      return config.collnet && all_reduce;
    case Algorithm::kNvls:
      return nvls;
    default:
      return nvls && all_reduce && group.nodes > 1;
  }
}

double bandwidth(const Config& config, const Group& group, bool all_reduce, Algorithm algorithm,
                 Protocol protocol) {
  const ArchitectureFigures& figures = kFigures[to_index(config.architecture)];
  const std::size_t n = bucket(group.nodes);
  const double c = config.channels;
  const double intra = config.intra / c;
  const double inter = config.inter / c;
  const double network = network_channel(config, group);
  const double ranks = real(group.ranks);
  const double ppn = real(group.ppn);
  const double per_step = ranks / ring_steps(group, all_reduce);
  double bus = c * (group.nodes <= 2 ? intra : network);
  switch (algorithm) {
    case Algorithm::kRing:
      if (protocol == Protocol::kLl) bus = std::min(figures.ll_cap[n], bus * 0.5);
      if (protocol == Protocol::kLl128) bus = std::min(bus * 0.92, c * figures.ring_ll128_cap[n]);
      return bus * per_step;
    case Algorithm::kTree:
      if (!all_reduce) return 0.0;
      bus = std::min(bus * 0.92, c * figures.tree_cap[n]);
      if (protocol == Protocol::kLl) bus = std::min(bus / 3.8, figures.ll_cap[n]);
      if (protocol == Protocol::kLl128) {
        bus = std::min(bus * (group.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                       c * figures.tree_ll128_cap[n]);
      }
      return bus * 0.5;
    case Algorithm::kCollNetDirect: {
      if (protocol != Protocol::kSimple) return 0.0;
      if (!all_reduce) return ppn * std::min(intra * c, inter * c * 0.9);
      double factor = ppn / c;
      factor -= (factor - 1) / 2;
      bus /= factor;
      if (config.architecture != ApArchitecture::kAmpere) bus *= 0.85;
      return bus * 0.5;
    }
    case Algorithm::kCollNetChain:
      return all_reduce && protocol == Protocol::kSimple ? bus * 0.5 : 0.0;
    case Algorithm::kNvls: {
      if (c < 2 || protocol != Protocol::kSimple) return 0.0;
      if (!all_reduce && group.nodes > 1 && !config.collnet) return 0.0;
      double channel = intra * figures.nvls_efficiency * (c - 1) / c;
      channel *= all_reduce ? 2.0 : (ppn - 1) / ppn;
      if (group.nodes > 1) channel = std::min(channel, inter);
      return c * channel * (all_reduce ? per_step : 1.0);
    }
    case Algorithm::kNvlsTree: {
      if (!all_reduce || c < 2 || protocol != Protocol::kSimple) return 0.0;
      const double inside = 2 * intra * figures.nvls_efficiency * (c - 1) / c;
      const double outside = network * (group.nodes <= 2 ? 2 : 1);
      return c * std::min({inside, outside, figures.nvls_tree_cap[n]}) * per_step;
    }
  }
  return 0.0;
}

double latency(const Config& config, const Group& group, bool all_reduce, Algorithm algorithm,
               Protocol protocol) {
  const bool simple = protocol == Protocol::kSimple;
  const double base = kBaseLatency[to_index(algorithm)][to_index(protocol)];
  const double nvlink = kNvlinkLatency[to_index(algorithm)][to_index(protocol)];
  const Algorithm network = group.ppn == 1 ? Algorithm::kTree : algorithm;
  double inter = kNetworkLatency[to_index(network)][to_index(protocol)] + config.net_latency;
  if (simple) inter += config.net_latency;
  const double nodes = real(group.nodes);
  const double depth = real(log2_floor(group.nodes));
  const double ppn = real(group.ppn);
  switch (algorithm) {
    case Algorithm::kRing: {
      const double overhead = group.nodes == 1 ? 0.0 : simple ? 3.0 : 1.0;
      const double intra = std::max(nvlink, overhead);
      const double crossings = all_reduce ? 2 * (nodes - 1) : nodes - 1;
      double us = base + (ring_steps(group, all_reduce) - crossings) * intra + crossings * inter;
      if (group.nodes > 1) {  // E
        us += 4.7 * nodes * (group.nodes > 4 ? std::pow(nodes / 4, 0.65) : 1.0);
      }
      return us;
    }
    case Algorithm::kTree:
      return base + 2 * ((real(group.ranks / group.nodes) - 1) * nvlink + depth * inter);
    case Algorithm::kCollNetDirect:
      return base + 2 * (std::min(1.0, ppn - 1) * nvlink + (ppn - 1) * 0.4) + inter;
    case Algorithm::kCollNetChain:
      return base + 2 * (ppn - 1) * nvlink + inter;
    case Algorithm::kNvls:
      return nvlink + (group.nodes > 1 ? inter : 0.0);
    case Algorithm::kNvlsTree:
      return base + nvlink + 2 * depth * inter;
  }
  return 0.0;
}

namespace {

double tree_correction(std::size_t protocol, std::int64_t bytes) {
  const std::int64_t index = log2_floor(bytes >> 6);
  return index < kTreeSizes ? kTreeCorrection[protocol][to_index(index)] : 1.0;
}

// `ring_factor` is the factor on a ring's bandwidth at this size.
LoopTime corrected_time(const Config& config, const Group& group, bool all_reduce,
                        Algorithm algorithm, Protocol protocol, std::int64_t bytes,
                        double ring_factor) {
  double gbps = bandwidth(config, group, all_reduce, algorithm, protocol);
  double us = latency(config, group, all_reduce, algorithm, protocol);
  if (algorithm == Algorithm::kTree) gbps *= tree_correction(to_index(protocol), bytes);
  if (algorithm == Algorithm::kNvlsTree && config.architecture == ApArchitecture::kBlackwell) {
    const std::int64_t index = log2_floor(bytes >> 6);
    if (index < kSizes) {
      gbps *= kTreeCorrection[to_index(Protocol::kSimple)][to_index(index)];
    }
  }
  if (algorithm == Algorithm::kRing && group.nodes > 1) {
    gbps *= ring_factor;
    if (all_reduce && protocol == Protocol::kSimple &&
        real(bytes) / (config.channels * real(group.ranks)) >= 64) {
      us *= 1.4;
    }
  }
  return {us, time_us(us, real(bytes), gbps)};
}

}  // namespace

LoopTime loop_time(const Config& config, const Group& group, bool all_reduce, Algorithm algorithm,
                   Protocol protocol, std::int64_t bytes) {
  return corrected_time(config, group, all_reduce, algorithm, protocol, bytes,
                        interpolate(ring_correction(group.nodes), bytes / group.ranks));
}

namespace {

// One alternative and its times, in us.
struct Option {
  std::string_view algorithm;
  std::string_view protocol;
  double latency = 0.0;
  double total = kInfinity;
};

class ApNcclModel final : public CostModel {
 public:
  explicit ApNcclModel(const ModelInput& input) {
    const Params& params = input.params;
    config_.architecture = ap_architecture(params.get("architecture"), input.topology);
    const ArchitectureFigures& figures = kFigures[to_index(config_.architecture)];
    config_.gpus_per_node = static_cast<std::int64_t>(
        params.get("gpus_per_node").value_or(real(input.topology.domain_devices())));
    config_.intra = params.get("intra_bandwidth_gb_per_s").value_or(figures.intra);
    config_.inter = params.get("inter_bandwidth_gb_per_s").value_or(figures.inter);
    config_.channels = std::floor(params.get("channels").value_or(figures.channels));
    config_.nvswitch = params.get("nvswitch").value_or(figures.nvswitch ? 1.0 : 0.0) != 0.0;
    const LinkLevel& outermost = input.topology.links().back();
    const std::optional<double> collnet = params.get("collnet");
    config_.collnet = collnet.value_or(0.0) != 0.0;
    network_reduces_ = !collnet && outermost.kind == LinkKind::kNetwork && outermost.reduces;
    config_.net_latency = params["net_latency_us"];
    for (std::size_t i = 0; i < ring_correction_.size(); ++i) {
      ring_correction_[i] = ring_correction(std::int64_t{1} << i);
    }
  }

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (is_free(query)) return {};
    if (!is_modelled(query.kind)) return Price::make_impossible(kNotModelled);
    Option best;
    for_each_option(query, [&](const Option& option) {
      if (option.total < best.total) best = option;
    });
    return price_of(best);
  }

  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    std::vector<Alternative> all;
    if (is_free(query) || !is_modelled(query.kind)) return all;
    for_each_option(query, [&](const Option& option) {
      all.push_back({option.algorithm, option.protocol, price_of(option)});
    });
    std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
      return a.price.total < b.price.total;
    });
    return all;
  }

 private:
  static constexpr std::string_view kNotModelled =
      "AutoParallel prices all_gather, reduce_scatter, all_reduce and all_to_all only";
  static constexpr std::string_view kCannotRun = "the algorithm has no bandwidth for this group";

  static bool is_free(const CollectiveQuery& query) {
    return query.kind == Collective::kLocal || query.group.ranks <= 1;
  }
  static bool is_modelled(Collective kind) {
    return kind == Collective::kAllGather || kind == Collective::kReduceScatter ||
           kind == Collective::kAllReduce || kind == Collective::kAllToAll;
  }
  static Price price_of(const Option& option) {
    if (std::isinf(option.total)) return Price::make_impossible(kCannotRun);
    Price price = Price::of(Micros(option.latency), Micros(option.total - option.latency));
    price.total = Micros(option.total);
    return price;
  }

  template <class Visit>
  void for_each_option(const CollectiveQuery& query, const Visit& visit) const {
    const Group group = group_of(config_, query.group);
    const double bytes = std::floor(query.full_bytes);
    const auto whole = static_cast<std::int64_t>(std::min(bytes, 9e18));
    const std::int64_t share = whole / group.ranks;
    const bool switched = config_.nvswitch && config_.architecture != ApArchitecture::kAmpere;
    if (query.kind == Collective::kAllToAll) {
      visit(all_to_all(group, bytes, share, switched));
      return;
    }
    const bool all_reduce = query.kind == Collective::kAllReduce;
    if (switched && group.nodes == 1) {
      const double ranks = real(group.ranks);
      const double factor =
          config_.architecture == ApArchitecture::kBlackwell ? kBlackwellFactor : 1.0;
      const double us = between(all_reduce ? kReduceLatency : kGatherLatency, ranks);
      const double gbps = between(all_reduce ? kReduceBandwidth : kGatherBandwidth, ranks);
      visit(Option{"MEASURED", "", us, time_us(us, bytes, gbps * factor)});
      return;
    }
    const TableRow* row = switched ? row_of(group) : nullptr;
    if (row != nullptr) {
      visit_table(*row, group, all_reduce, bytes, whole, share, visit);
      if (!all_reduce) return;
    }
    visit_loop(group, all_reduce, whole, share, row != nullptr, visit);
  }

  template <class Visit>
  void visit_table(const TableRow& row, const Group& group, bool all_reduce, double bytes,
                   std::int64_t whole, std::int64_t share, const Visit& visit) const {
    const double factor =
        config_.architecture == ApArchitecture::kBlackwell ? kBlackwellFactor : 1.0;
    const auto offer = [&](Algorithm algorithm, std::size_t protocol, const Line& line,
                           double correction) {
      visit(Option{name_of(algorithm), name_of(static_cast<Protocol>(protocol)), line.latency,
                   time_us(line.latency, bytes, line.bandwidth * factor * correction)});
    };
    if (!all_reduce) {
      const bool ramps = group.ppn == config_.gpus_per_node && log2_floor(share >> 6) < kSizes;
      const double ramp = ramps ? interpolate(kFullMeshRamp, share) : 1.0;
      for (std::size_t p = 0; p < 3; ++p) offer(Algorithm::kRing, p, row.ring[p], ramp);
      return;
    }
    for (std::size_t p = 0; p < 3; ++p) {
      offer(Algorithm::kTree, p, row.tree[p], tree_correction(p, whole));
    }
    if (row.nvls_tree.bandwidth > 0) {
      offer(Algorithm::kNvlsTree, to_index(Protocol::kSimple), row.nvls_tree,
            interpolate(kNvlsTreeRamp, share));
    }
  }

  template <class Visit>
  void visit_loop(const Group& group, bool all_reduce, std::int64_t whole, std::int64_t share,
                  bool ring_only, const Visit& visit) const {
    const double ring_factor =
        group.nodes > 1
            ? value_at(ring_correction_[to_index(log2_floor(group.nodes))], position_of(share))
            : 1.0;
    // AutoParallel weighs CollNet for a group on one node too, if told that there is CollNet. Where
    // only the topology tells, it is weighed where the group crosses the network.
    Config config = config_;
    if (network_reduces_ && group.nodes > 1) config.collnet = true;
    for (const Algorithm algorithm :
         {Algorithm::kTree, Algorithm::kRing, Algorithm::kCollNetDirect, Algorithm::kCollNetChain,
          Algorithm::kNvls, Algorithm::kNvlsTree}) {
      if (ring_only && algorithm != Algorithm::kRing) continue;
      for (const Protocol protocol : {Protocol::kLl, Protocol::kLl128, Protocol::kSimple}) {
        if (!is_eligible(config, group, all_reduce, algorithm, protocol)) continue;
        const LoopTime time =
            corrected_time(config, group, all_reduce, algorithm, protocol, whole, ring_factor);
        visit(Option{name_of(algorithm), name_of(protocol), time.latency, time.total});
      }
    }
  }

  [[nodiscard]] Option all_to_all(const Group& group, double bytes, std::int64_t share,
                                  bool switched) const {
    const double nodes = real(group.nodes);
    const double ranks = real(group.ranks);
    if (switched && group.nodes == 1) {
      const double gbps = config_.architecture == ApArchitecture::kBlackwell
                              ? kCopyEngineBandwidthBlackwell
                              : kCopyEngineBandwidth;
      return {"COPY_ENGINE", "", kCopyEngineLatency, time_us(kCopyEngineLatency, bytes, gbps)};
    }
    if (config_.nvswitch && group.nodes > 1) {
      const double us = between(kNicLatency, nodes);
      const double remote = (ranks - real(group.ppn)) / ranks;
      const double nic = config_.inter * (1 - kNicLoss / nodes);
      const std::int64_t index = log2_floor(share >> 6);
      const std::int64_t depth = log2_floor(group.nodes);
      double ramp = index < kSizes ? kNicRamp[to_index(index)] : 1.0;
      if (depth > 1 && ramp < 1.0) ramp = 1 - (1 - ramp) / real(depth);
      return {"NIC", "", us, time_us(us, bytes * remote, nic * ramp)};
    }
    const double channel = (group.nodes <= 2 ? config_.intra : config_.inter) / config_.channels;
    const double crossings = nodes - 1;
    const std::size_t ring = to_index(Algorithm::kRing);
    const std::size_t simple = to_index(Protocol::kSimple);
    const double intra = std::max(kNvlinkLatency[ring][simple], group.nodes > 1 ? 3.0 : 0.0);
    const double us = kBaseLatency[ring][simple] + (ranks - crossings) * intra +
                      crossings * (kNetworkLatency[ring][simple] + 2 * config_.net_latency);
    return {"SM", "", us, time_us(us, bytes, config_.channels * channel * kSmEfficiency)};
  }

  Config config_;
  bool network_reduces_ = false;
  std::array<SizeTable, 63> ring_correction_;  // by the base-2 logarithm of the number of nodes
};

constexpr ParamSpec kParams[] = {
    {"architecture", std::nullopt, 80.0, 120.0, kApArchitectureHelp},
    {"gpus_per_node", std::nullopt, 1.0, 1e6,
     "GPUs that NVLink joins; default: the topology's NVLink domain"},
    {"intra_bandwidth_gb_per_s", std::nullopt, 1e-6, 1e9,
     "bandwidth of one GPU inside a node; default: 87.7 on Ampere GPUs, "
     "320 on Hopper, 640 on Blackwell"},
    {"inter_bandwidth_gb_per_s", std::nullopt, 1e-6, 1e9,
     "bandwidth of one GPU between nodes; default: 25 on Ampere GPUs, 50 on later ones"},
    {"channels", std::nullopt, 1.0, 1e4,
     "number of NCCL's channels; default: 12 on Ampere GPUs, 16 on later ones"},
    switch_spec("nvswitch", std::nullopt,
                "1: the nodes have an NVSwitch; default: 0 on Ampere GPUs, 1 on later ones"),
    switch_spec(
        "collnet", std::nullopt,
        "1: the network itself reduces (SHARP); default: between nodes, as the topology says"),
    {"net_latency_us", 0.0, 0.0, 1e6, "latency added to each step between nodes, twice for SIMPLE"},
};

constexpr ContractExemption kExemptions[] = {
    {"all_queries_have_a_price", "the port has no broadcast, scatter or send_recv"},
    {"never_falls_with_bytes", "the corrections by size jump between sizes"},
    {"all_reduce_within_reduce_scatter_and_all_gather",
     "all_reduce across nodes has another formula than reduce_scatter and all_gather"},
    {"reduce_scatter_within_all_reduce",
     "reduce_scatter uses only rings, but all_reduce uses trees and NVLS, too"},
};

}  // namespace
}  // namespace shardlab::ap_nccl

namespace shardlab {

COST_MODEL(ap_nccl){
    .name = "ap_nccl",
    .summary = "AutoParallel's NCCL model: tuning formulas, fitted curves for NVSwitch machines",
    .formula = "least over algorithm and protocol of latency + bytes / bandwidth",
    .source = "meta-pytorch/autoparallel a54c252, cost_models/nccl_cost_model.py",
    .valid_range =
        "2 to 256 H100 GPUs with NVSwitch, where it was fitted; it is not validated for A100 on "
        "several nodes or for Blackwell",
    .params = ap_nccl::kParams,
    .exemptions = ap_nccl::kExemptions,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<ap_nccl::ApNcclModel>(input);
    },
};

}  // namespace shardlab
