#include "costmodel/calibrate/population_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "costmodel/base/index.h"
#include "costmodel/cluster_departure.h"

namespace shardlab {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

// Standard deviations of ln t, except where a comment says otherwise.
constexpr double kPlateau = 0.0578;    // the shift of the plateau that all logs share
constexpr double kFloorSlope = 0.308;  // for each unit of ln ranks, ln domains, ln per domain
constexpr double kPlateauSlope = 0.0804;
// Not a deviation: the share of a slope's variance that two collectives have in common.
constexpr double kSharedSlopes = 0.241;
constexpr double kShape = 0.154;
// The shift of the floors that like collectives share on groups of like shapes.
constexpr double kGroupFloor = 0.258;
constexpr double kGroupLength = 0.529;     // in ln ranks and ln domains
constexpr double kGroupKindDecay = 0.323;  // for each unit of the distance between collectives
constexpr double kDelayFloor = 3.38;       // for each unit of ln delay
constexpr double kDelayPlateau = 0.18;
constexpr double kDelayEverywhere = 0.317;
constexpr double kDelayDecay = 1.31;       // for each generation between two GPUs
constexpr double kOtherDelayDecay = 1.38;  // decay of shapes and devices, for each unit of ln delay
constexpr double kLaunchFloor = 0.141;     // for each unit of the launch
constexpr double kLaunchKindDecay = 2.73;  // for each unit of the distance between collectives
constexpr double kLaunchPointToPoint =
    0.328;  // of all_to_all and send_recv, for each unit of the launch
constexpr double kDeviceFloor = 0.154;
constexpr double kDevicePlateau = 0.21;
// The shift of the floors that one collective on like groups has on a device.
constexpr double kDeviceKindFloor = 0.0648;
constexpr double kDeviceKindDecay = 4.18;     // for each unit of the distance between collectives
constexpr double kDeviceGroupDecay = 0.0451;  // for each unit of ln ranks and ln domains
constexpr double kDeviceShape = 0.0346;
constexpr double kGenerationShare = 0.469;  // correlation of two models of one generation
constexpr double kSizeLength = 8.78;        // in ln bytes
constexpr double kFine = 0.321;
constexpr double kFineSizeLength = 2.96;
constexpr double kFineBendLength = 6.29;
constexpr double kFineKindDecay = 0.541;
constexpr double kFineGroupDecay = 0.0235;  // for each unit of ln ranks and ln domains
constexpr double kFineGenerationDecay = 0.701;

// The centres of the slopes: 12 ranks, 3 domains, 4 or 5 devices in each.
constexpr double kCentreRanks = 2.5;
constexpr double kCentreDomains = 1.0;
constexpr double kCentrePerDomain = 1.5;

// Distances between all_gather, reduce_scatter, all_reduce, all_to_all, broadcast and send_recv.
// Status: assumed.
constexpr int kKinds = 6;
constexpr std::array<std::array<double, kKinds>, kKinds> kDistances = {{{0, .3, 1, 2, 1, 2},
                                                                        {.3, 0, 1, 2, 1, 2},
                                                                        {1, 1, 0, 2, 1, 2},
                                                                        {2, 2, 2, 0, 2, 1.5},
                                                                        {1, 1, 1, 2, 0, 2},
                                                                        {2, 2, 2, 1.5, 2, 0}}};

// Whether NCCL runs the collective as sends and receives, each of which the host enqueues.
bool is_point_to_point(int kind) { return kind == 3 || kind == 5; }

int kind_index(Collective kind) {
  switch (kind) {
    case Collective::kReduceScatter:
      return 1;
    case Collective::kAllReduce:
      return 2;
    case Collective::kAllToAll:
      return 3;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return 4;
    case Collective::kSendRecv:
      return 5;
    default:
      return 0;
  }
}

// A place with what many pairs of it share.
struct Prepared {
  PopulationPlace place;
  double floor_share;
  double ranks;  // centred
  double domains;
  double per_domain;
  double fine;
  ClusterPoint own;
};

Prepared prepare(const PopulationPlace& place) {
  return {place,
          1.0 - place.plateau_share,
          place.log_ranks - kCentreRanks,
          place.log_domains - kCentreDomains,
          place.log_per_domain - kCentrePerDomain,
          walk_speed(place.bend) / 0.15,
          cluster_point(place.bend)};
}

constexpr double squared(double x) { return x * x; }

double covariance(const Prepared& a, const Prepared& b) {
  const PopulationPlace& p = a.place;
  const PopulationPlace& q = b.place;
  if (p.across_domains != q.across_domains) return 0.0;
  const double floors = a.floor_share * b.floor_share;
  const double plateaus = p.plateau_share * q.plateau_share;
  const double kinds = kDistances[to_index(p.kind)][to_index(q.kind)];
  const double bends = squared(p.bend - q.bend);
  const double sizes = squared(p.log_bytes - q.log_bytes);
  const double ranks = std::abs(p.log_ranks - q.log_ranks);
  const double domains = std::abs(p.log_domains - q.log_domains);
  const double generations = std::abs(p.generation - q.generation);
  const double networks = std::exp(-kOtherDelayDecay * std::abs(p.log_delay - q.log_delay));
  const double own_shapes = p.kind == q.kind ? std::exp(-0.5 * sizes / squared(kSizeLength)) : 0.0;
  const double shapes = networks * own_shapes;
  const double slopes = a.ranks * b.ranks + a.domains * b.domains + a.per_domain * b.per_domain;

  double sum = squared(kPlateau) * plateaus + squared(kShape) * shapes +
               (squared(kFloorSlope) * floors + squared(kPlateauSlope) * plateaus) * slopes *
                   (p.kind == q.kind ? 1.0 : kSharedSlopes);
  if (p.log_delay != 0.0 && q.log_delay != 0.0) {
    sum += (squared(kDelayFloor) * floors + squared(kDelayPlateau) * plateaus +
            squared(kDelayEverywhere)) *
           p.log_delay * q.log_delay * std::exp(-kDelayDecay * generations);
  }
  sum += squared(kGroupFloor) * floors *
         std::exp(-0.5 * (squared(ranks) + squared(domains)) / squared(kGroupLength) -
                  kGroupKindDecay * kinds);
  if (p.launch != 0.0 && q.launch != 0.0) {
    const double both = is_point_to_point(p.kind) && is_point_to_point(q.kind) ? 1.0 : 0.0;
    sum += (squared(kLaunchFloor) * std::exp(-kLaunchKindDecay * kinds) +
            squared(kLaunchPointToPoint) * both) *
           floors * p.launch * q.launch;
  }
  if (generations == 0.0) {
    const double share = networks * (p.device == q.device ? 1.0 : kGenerationShare);
    sum +=
        share * (squared(kDeviceFloor) * floors + squared(kDevicePlateau) * plateaus +
                 squared(kDeviceShape) * own_shapes +
                 squared(kDeviceKindFloor) * floors *
                     std::exp(-kDeviceKindDecay * kinds - kDeviceGroupDecay * (ranks + domains)));
  }
  sum += squared(kFine) * a.fine * b.fine * networks *
         std::exp(-0.5 * sizes / squared(kFineSizeLength) - 0.5 * bends / squared(kFineBendLength) -
                  kFineKindDecay * kinds - kFineGroupDecay * (ranks + domains) -
                  kFineGenerationDecay * generations);
  if (p.cluster == q.cluster) sum += covariance_of_cluster(a.own, b.own);
  if (p.log == q.log && p.kind == q.kind && ranks == 0.0 && domains == 0.0) {
    sum += covariance_of_curve(a.own, b.own);
  }
  return sum;
}

std::vector<Prepared> prepare_all(std::span<const PopulationPlace> places) {
  std::vector<Prepared> out;
  out.reserve(places.size());
  for (const PopulationPlace& place : places) out.push_back(prepare(place));
  return out;
}

}  // namespace

PopulationPlace place_of(const PhysicalGroup& group, int generation, Bytes bytes) {
  const auto log_of = [](double count) { return std::log(std::max(count, 1.0)); };
  PopulationPlace place;
  place.kind = kind_index(group.kind);
  place.across_domains = group.domains > 1;
  place.log_ranks = log_of(static_cast<double>(group.ranks));
  place.log_domains = log_of(static_cast<double>(group.domains));
  place.log_per_domain = place.log_ranks - place.log_domains;
  place.log_delay = std::log(std::max(group.network_delay, 1e-3));
  place.generation = generation;
  place.log_bytes = log_of(bytes);
  place.bend = physical_curve(group).bend(bytes);
  place.plateau_share = PhysicalCurve::plateau_share(place.bend);
  return place;
}

double population_covariance(const PopulationPlace& a, const PopulationPlace& b) {
  return covariance(prepare(a), prepare(b));
}

MatrixXd population_covariances(std::span<const PopulationPlace> a,
                                std::span<const PopulationPlace> b) {
  const std::vector<Prepared> rows = prepare_all(a);
  const std::vector<Prepared> columns = prepare_all(b);
  MatrixXd out(static_cast<Index>(rows.size()), static_cast<Index>(columns.size()));
  for (std::size_t j = 0; j < columns.size(); ++j) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out(static_cast<Index>(i), static_cast<Index>(j)) = covariance(rows[i], columns[j]);
    }
  }
  return out;
}

}  // namespace shardlab
